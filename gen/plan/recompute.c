/* SPDX-License-Identifier: Apache-2.0 */
/* recompute.c: values that are not kept but computed again by their own kernels; part of
 * the policy pass.
 *
 * In: spans and slabs (span). Out: Class.again, kept_bytes, dropped_bytes, and for each
 * Saved whether it is dropped and where it lies then. Breaks: nothing.
 *
 * 1. A set of ops may drop what its nodes make if their inputs are weights, the block's
 *    input, data, constants, values that stay, or results of other such nodes.
 * 2. A node runs again with the pointers of the forward: at the same places of the same
 *    scratch slab, in the same order. So its bits are the same. It must therefore not
 *    write over a value that stays.
 * 3. If the wrap cuts a block, its backward is a call per piece, the last piece first. A
 *    node runs again before the first of these calls that reads its result, so that
 *    weights are gathered once for both and the value lives no longer than needed. It
 *    runs earlier if the backward would overwrite its inputs, or if an earlier node reads
 *    what it leaves in scratch. */
#include "graph/graph.h"
#include "ops/ops.h"
#include "plan/plan.h"

#include <string.h>

typedef struct Again {
    Gen *g;
    Class *c;
    bool *can;  /* by node: may run again */
    bool *need; /* by node: a dropped value needs it */
} Again;

/* Computing it takes no longer than moving its operands: its bytes are cheap to
 * recompute. Not those of a meet, which computes nothing, but makes ranks wait. */
static bool is_cheap(Gen *g, const Node *n)
{
    return !node_joins(n) && cost_is_cheap(g, n);
}

/* Does the node compute what this op computes in the fused graph that a user sees? A
 * chain and an op with the bits of its expansion compute all of their ops, and the parts
 * of a fused op compute it together. */
static bool computes(const Node *n, const char *op)
{
    const bool all = n->op->info->map || n->op->info->same_bits;

    if (!strcmp(n->op->name, op) || (n->part_of && !strcmp(n->part_of->name, op)))
        return true;
    for (int i = 0; all && i < n->n_replaced; i++)
        if (computes(n->replaced[i], op))
            return true;
    return false;
}

static bool is_named(Gen *g, const Node *n)
{
    for (int i = 0; i < g->model.recompute_ops.count; i++)
        if (computes(n, g->model.recompute_ops.items[i]))
            return true;
    return false;
}

/* The saved value that the backward finds in the bytes of v, if that is v itself. */
static Saved *saved_as(const Class *c, const Value *v)
{
    Saved *s = v->loc == LOC_SAVED ? &c->saved.items[v->loc_index] : NULL;

    return s && s->value == v ? s : NULL;
}

/* Can v be read before the backward, given the nodes that can run again? */
static bool is_there(const Again *a, const Value *v)
{
    if (v->kind != VAL_NODE)
        return v->kind != VAL_DOUT;
    if (v->def->phase == PHASE_SETUP || saved_as(a->c, v))
        return v->def->phase != PHASE_BACKWARD;
    return v->def->phase == PHASE_FORWARD && a->can[v->def->id];
}

/* Would it overwrite something that stays? A value in the bytes of a saved one is
 * overwritten by it later, so then both must run again. */
static bool harms(const Again *a, const Node *n)
{
    for (int k = 0; k < n->n_out; k++) {
        const Value *v = n->out[k];

        if (v->loc == LOC_LOSS || v->loc == LOC_GRAD || v->loc == LOC_IN)
            return true;
        if (v->loc == LOC_SAVED && !saved_as(a->c, v) &&
            !a->can[a->c->saved.items[v->loc_index].value->def->id])
            return true;
    }
    return false;
}

/* Drops what the allowed nodes can make, until nothing changes: if a node cannot run
 * again, neither can those that need its result. */
static void find_able(Again *a, bool (*may)(Gen *g, const Node *n))
{
    const Class *c = a->c;
    bool changed = true;

    for (int i = 0; i < c->nodes.count; i++) {
        const Node *n = c->nodes.items[i];

        a->can[i] = n->phase == PHASE_FORWARD && (!may || may(a->g, n));
    }
    while (changed) {
        changed = false;
        for (int i = 0; i < c->nodes.count; i++) {
            const Node *n = c->nodes.items[i];
            bool able = a->can[i] && !harms(a, n);

            for (int k = 0; able && k < n->n_in; k++)
                able = is_there(a, n->in[k]);
            changed = changed || able != a->can[i];
            a->can[i] = able;
        }
    }
}

/* Marks what must run so that n can, last first. If another value will overwrite a needed
 * value's bytes, it must run again too. */
static void find_needed(Again *a)
{
    const Class *c = a->c;
    bool changed = true;

    for (int i = 0; i < c->saved.count; i++)
        if (a->can[c->saved.items[i].value->def->id])
            a->need[c->saved.items[i].value->def->id] = true;
    while (changed) {
        changed = false;
        for (int i = c->nodes.count - 1; i >= 0; i--) {
            const Node *n = c->nodes.items[i];

            for (int k = 0; a->need[i] && k < n->n_in; k++) {
                const Value *v = n->in[k];
                const Saved *s = saved_as(c, v);

                if (v->kind != VAL_NODE || v->def->phase != PHASE_FORWARD ||
                    (s && !a->can[v->def->id]) || a->need[v->def->id])
                    continue;
                a->need[v->def->id] = changed = true;
            }
        }
    }
}

static void lay_out(Class *c, const Again *a)
{
    c->kept_bytes = c->dropped_bytes = 0;
    for (int i = 0; i < c->saved.count; i++) {
        Saved *s = &c->saved.items[i];
        int64_t end = i + 1 < c->saved.count ? s[1].offset_bytes : c->saved_bytes;
        int64_t *to = NULL;

        s->dropped = a->need[s->value->def->id];
        to = s->dropped ? &c->dropped_bytes : &c->kept_bytes;
        s->some_offset_bytes = *to;
        *to += end - s->offset_bytes;
    }
}

static void plan_class(Gen *g, Class *c, bool (*may)(Gen *g, const Node *n), Again *a)
{
    *a = (Again){.g = g, .c = c};
    a->can = gen_alloc(g, (size_t)c->nodes.count + 1);
    a->need = gen_alloc(g, (size_t)c->nodes.count + 1);
    find_able(a, may);
    find_needed(a);
}

/* ---- the piece before whose backward a node runs --------------------------------- */

static void raise_to(int *at, int piece, bool *changed)
{
    *changed = *changed || piece > *at;
    *at = piece > *at ? piece : *at;
}

/* The needs of the backward: its inputs exist, and what it overwrites has been read. */
static void meet_backward(const Again *a, const Node *b, int *at, bool *changed)
{
    const Class *c = a->c;

    for (int k = 0; k < b->n_in; k++)
        if (saved_as(c, b->in[k]) && a->need[b->in[k]->def->id])
            raise_to(&at[b->in[k]->def->id], b->piece, changed);
    for (int k = 0; k < b->n_out; k++) {
        const Value *over = b->out[k];

        for (int i = 0; over->loc == LOC_SAVED && i < c->nodes.count; i++)
            for (int j = 0; a->need[i] && j < c->nodes.items[i]->n_in; j++) {
                const Value *v = c->nodes.items[i]->in[j];

                if (v->loc == LOC_SAVED && v->loc_index == over->loc_index)
                    raise_to(&at[i], b->piece, changed);
            }
    }
}

/* What n reads must run no later than n; so must values in scratch in between. */
static void meet_reader(const Again *a, const Node *n, int *at, bool *changed)
{
    for (int k = 0; k < n->n_in; k++) {
        const Value *v = n->in[k];

        if (v->kind != VAL_NODE || !a->need[v->def->id])
            continue;
        raise_to(&at[v->def->id], at[n->id], changed);
        if (!saved_as(a->c, v))
            raise_to(&at[n->id], at[v->def->id], changed);
    }
}

/* By node: the piece before whose backward it runs again, if the block is cut. */
static int *find_pieces(const Again *a)
{
    const Class *c = a->c;
    int *at = gen_alloc(a->g, sizeof *at * (size_t)(c->nodes.count + 1));
    bool changed = true;

    while (changed) {
        changed = false;
        for (int i = 0; i < c->nodes.count; i++)
            if (c->nodes.items[i]->phase == PHASE_BACKWARD)
                meet_backward(a, c->nodes.items[i], at, &changed);
            else if (a->need[i])
                meet_reader(a, c->nodes.items[i], at, &changed);
    }
    return at;
}

/* ---- spans ----------------------------------------------------------------------- */

/* The nodes that run again; or, given `at`, those before one piece's backward. */
static void make_again(const Again *a, Span *s, const char *name, const int *at,
                       int piece)
{
    Gen *g = a->g;
    Class *c = a->c;

    *s = (Span){.name = name, .phase = PHASE_FORWARD};
    s->nodes = gen_alloc(g, sizeof *s->nodes * (size_t)(c->nodes.count + 1));
    for (int n = 0; n < c->nodes.count; n++) {
        if (!a->need[n] || (at && at[n] != piece))
            continue;
        s->nodes[s->n_nodes++] = c->nodes.items[n];
        s->flops += c->nodes.items[n]->flops;
        s->traffic_bytes += c->nodes.items[n]->cost.traffic_bytes;
    }
    span_make_args(g, c, s);
    for (int k = 0; k < s->n_args; k++)
        if (s->args[k].kind == ARG_SCRATCH) {
            s->scratch_bytes = c->forward.scratch_bytes;
            s->live_scratch_bytes = c->forward.live_scratch_bytes;
        }
}

void recompute_classes(Gen *g, Recompute what)
{
    for (int i = 0; i < g->classes.count; i++) {
        Class *c = g->classes.items[i];
        Again a;
        int *at;

        plan_class(g, c, what == RECOMPUTE_OPS ? is_named : is_cheap, &a);
        make_again(&a, &c->again, gen_printf(g, "%s_recompute", c->name), NULL, 0);
        at = find_pieces(&a);
        for (int k = 0; k < c->pieces.count; k++) {
            Piece *p = &c->pieces.items[k];
            const char *name = p->backward.name ? p->backward.name : c->name;
            int base = (int)(strlen(name) - strlen(phase_name(PHASE_BACKWARD)));

            make_again(&a, &p->again, gen_printf(g, "%.*srecompute", base, name), at, k);
        }
        lay_out(c, &a);
    }
}

bool recompute_any(Gen *g, Class *c, bool *nodes)
{
    Again a;
    bool any = false;

    plan_class(g, c, NULL, &a);
    for (int n = 0; n < c->nodes.count; n++)
        any = (nodes[n] = a.need[n]) || any;
    return any;
}

void recompute_check_ops(Gen *g)
{
    const Model *m = &g->model;
    const char **names = gen_alloc(g, sizeof *names * (size_t)(g->ops.count + 1));

    for (int i = 0; i < g->ops.count; i++)
        names[i] = g->ops.items[i].name;
    for (int i = 0; i < m->recompute_ops.count; i++) {
        const char *name = m->recompute_ops.items[i];
        const char *near = diag_nearest(name, names, g->ops.count);
        bool used = false;

        if (!ops_find(g, name)) {
            diag_add(g, DIAG_ERROR, model_pos(g, "recompute"),
                     near ? gen_printf(g, "did you mean \"%s\"?", near)
                          : "fsdpgen MODEL.lua --dump=fuse shows the ops of a model",
                     "recompute: there is no op \"%s\"", name);
            continue;
        }
        for (int c = 0; c < g->classes.count; c++)
            for (int n = 0; n < g->classes.items[c]->again.n_nodes; n++)
                used = used || computes(g->classes.items[c]->again.nodes[n], name);
        if (!used)
            diag_add(
                g, DIAG_WARNING, model_pos(g, "recompute"),
                "leave it out; --dump=fuse shows the ops of the model",
                "recompute: of \"%s\" nothing is kept that can be computed from what "
                "stays: it changes nothing",
                name);
    }
}
