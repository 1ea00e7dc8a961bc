/* SPDX-License-Identifier: Apache-2.0 */
/* verify_again.c: what KEEP_SOME drops and computes again. In: the slabs, nodes and
 * pieces of classes after policy. Out: NULL or what is wrong.
 *
 * 1. Each saved value has a place of its own in the slab of those that stay or of those
 *    that are dropped, and the two slabs have as many bytes as the one of all.
 * 2. A node that runs again finds what it reads: a weight, the input, data, a constant, a
 *    value that stays, or the result of a node that ran again before it. Another call
 *    overwrites scratch, so what lies there is of the same call.
 * 3. It writes over nothing that stays, and each dropped value is made again.
 * 4. If the wrap cuts the block, each such node runs before the backward of one piece,
 *    and no backward that comes earlier has written over what it reads. Pieces run
 *    backward from the last to the first. */
#include "plan/plan.h"
#include "prove/verify.h"

/* ---- slabs ----------------------------------------------------------------------- */

/* The most that one of the values in these bytes needs. */
static int64_t saved_bytes(const Class *c, int index)
{
    int64_t most = 0;

    for (int i = 0; i < c->values.count; i++) {
        const Value *v = c->values.items[i];

        if (v->loc == LOC_SAVED && v->loc_index == index)
            most = max_i64(most, v->bytes);
    }
    return most;
}

static const char *check_places(Gen *g, const Class *c)
{
    if (c->kept_bytes + c->dropped_bytes != c->saved_bytes)
        return gen_printf(g, "%s keeps %lld bytes and drops %lld of %lld", c->name,
                          (long long)c->kept_bytes, (long long)c->dropped_bytes,
                          (long long)c->saved_bytes);
    for (int i = 0; i < c->saved.count; i++) {
        const Saved *a = &c->saved.items[i];
        const int64_t end = a->some_offset_bytes + saved_bytes(c, i);

        if (a->some_offset_bytes < 0 || a->some_offset_bytes % ARENA_ALIGN_BYTES != 0 ||
            end > (a->dropped ? c->dropped_bytes : c->kept_bytes))
            return gen_printf(g, "%s: %s has no place in its slab", c->name,
                              a->value->name);
        for (int k = 0; k < i; k++) {
            const Saved *b = &c->saved.items[k];

            if (a->dropped == b->dropped && b->some_offset_bytes < end &&
                a->some_offset_bytes < b->some_offset_bytes + saved_bytes(c, k))
                return gen_printf(g, "%s: %s lies on %s", c->name, a->value->name,
                                  b->value->name);
        }
    }
    return NULL;
}

/* ---- nodes ----------------------------------------------------------------------- */

static int find_node(const Span *s, const Node *n)
{
    for (int i = 0; i < s->n_nodes; i++)
        if (s->nodes[i] == n)
            return i;
    return -1;
}

static bool stays(const Class *c, const Value *v)
{
    const Saved *s = v->loc == LOC_SAVED ? &c->saved.items[v->loc_index] : NULL;

    return s && s->value == v && !s->dropped;
}

/* Does the i-th node of the call find the value? made: the call that makes it, or NULL.
 */
static bool finds(const Class *c, const Span *call, int i, const Value *v,
                  const Span *made)
{
    if (v->kind != VAL_NODE)
        return v->kind != VAL_DOUT;
    if (v->def->phase == PHASE_SETUP || (v->def->phase == PHASE_FORWARD && stays(c, v)))
        return true;
    if (made == call)
        return find_node(call, v->def) < i;
    return made && v->loc == LOC_SAVED;
}

/* Does it write where something stays? */
static bool harms(const Class *c, const Node *n)
{
    for (int k = 0; k < n->n_out; k++) {
        const Value *v = n->out[k];

        if (v->loc == LOC_LOSS || v->loc == LOC_GRAD || v->loc == LOC_IN ||
            (v->loc == LOC_SAVED && !c->saved.items[v->loc_index].dropped))
            return true;
    }
    return false;
}

/* The call, of this one or a later piece, that makes the value again. */
static const Span *maker(const Class *c, int piece, const Value *v)
{
    if (v->kind != VAL_NODE)
        return NULL;
    if (piece < 0)
        return find_node(&c->again, v->def) >= 0 ? &c->again : NULL;
    for (int k = piece; k < c->pieces.count; k++)
        if (find_node(&c->pieces.items[k].again, v->def) >= 0)
            return &c->pieces.items[k].again;
    return NULL;
}

/* Does the backward of a later piece, which runs before, write over the saved value? */
static bool overwritten(const Class *c, int piece, const Value *v)
{
    for (int i = 0; v->loc == LOC_SAVED && piece >= 0 && i < c->nodes.count; i++) {
        const Node *n = c->nodes.items[i];

        for (int k = 0; n->phase == PHASE_BACKWARD && n->piece > piece && k < n->n_out;
             k++)
            if (n->out[k]->loc == LOC_SAVED && n->out[k]->loc_index == v->loc_index)
                return true;
    }
    return false;
}

/* piece -1: the call of the whole block. */
static const char *check_call(Gen *g, const Class *c, int piece)
{
    const Span *s = piece < 0 ? &c->again : &c->pieces.items[piece].again;

    for (int i = 0; i < s->n_nodes; i++) {
        const Node *n = s->nodes[i];

        if (n->phase != PHASE_FORWARD || (i && n->id <= s->nodes[i - 1]->id))
            return gen_printf(g, "%s: %s runs again out of order", c->name, n->name);
        for (int k = 0; k < n->n_in; k++)
            if (!finds(c, s, i, n->in[k], maker(c, piece, n->in[k])) ||
                overwritten(c, piece, n->in[k]))
                return gen_printf(g, "%s: %s runs again without %s", c->name, n->name,
                                  n->in[k]->name);
        if (harms(c, n))
            return gen_printf(g, "%s: %s runs again over what stays", c->name, n->name);
    }
    return NULL;
}

static const char *check_class(Gen *g, const Class *c)
{
    const char *bad = check_places(g, c);
    int n = 0;

    for (int k = -1; k < c->pieces.count && !bad; k++) {
        bad = check_call(g, c, k);
        n += k < 0 ? 0 : c->pieces.items[k].again.n_nodes;
    }
    if (!bad && n != c->again.n_nodes)
        bad = gen_printf(g, "%s: its pieces run %d nodes again, the block runs %d",
                         c->name, n, c->again.n_nodes);
    for (int i = 0; i < c->again.n_nodes && !bad; i++) {
        int calls = 0;

        for (int k = 0; k < c->pieces.count; k++)
            calls += find_node(&c->pieces.items[k].again, c->again.nodes[i]) >= 0;
        if (calls != 1)
            bad = gen_printf(g, "%s: %s runs again in %d pieces", c->name,
                             c->again.nodes[i]->name, calls);
    }
    for (int i = 0; i < c->saved.count && !bad; i++) {
        const Saved *s = &c->saved.items[i];

        if (s->dropped && find_node(&c->again, s->value->def) < 0)
            bad = gen_printf(g, "%s: %s is dropped and not made again", c->name,
                             s->value->name);
    }
    return bad;
}

const char *verify_again(Gen *g)
{
    const char *bad = NULL;

    for (int i = 0; i < g->classes.count && !bad; i++) {
        const Class *c = g->classes.items[i];

        if (c->kept_bytes || c->dropped_bytes || c->again.n_nodes)
            bad = check_class(g, c);
    }
    return bad;
}
