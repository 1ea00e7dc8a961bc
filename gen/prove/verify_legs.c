/* SPDX-License-Identifier: Apache-2.0 */
/* verify_legs.c: does everything stay for as long as some part needs it? In: a class in
 * parts after span. Out: NULL, or what is wrong.
 *
 * A rank runs all nodes of a leg for its first part before it runs any for the next. What
 * parts along an axis share lies where the first of these has its values. So:
 * 1. Nodes that run together are neighbours of one piece, they differ along the same
 * axes, and none of them is a meet or the same for all parts. A node that runs for each
 * part along an axis makes nothing that those share.
 * 2. No node of a leg may write over what parts along an axis share and some node of the
 *    leg reads for each, even if it runs after that node: the next part reads it, too.
 * 3. A meet writes what its first part needs while the others still read its input. So
 *    they lie apart. */
#include "prove/verify.h"

typedef struct Bytes { /* of a value of the first part, or of a node's workspace */
    Loc loc;
    Phase phase;
    int index; /* of a boundary value */
    int64_t from, to;
} Bytes;

static Bytes bytes_of(const Value *v)
{
    Bytes b = {.loc = v->loc, .index = v->loc_index, .to = v->bytes};

    if (v->loc == LOC_SCRATCH || v->loc == LOC_SAVED)
        b = (Bytes){.loc = v->loc,
                    .phase = v->loc == LOC_SCRATCH ? v->def->phase : PHASE_SETUP,
                    .from = v->offset_bytes,
                    .to = v->offset_bytes + v->bytes};
    return b;
}

static Bytes workspace_of(const Node *n)
{
    return (Bytes){.loc = LOC_SCRATCH,
                   .phase = n->phase,
                   .from = n->workspace_offset_bytes,
                   .to = n->workspace_offset_bytes + n->workspace_bytes};
}

static bool overlap(Bytes a, Bytes b)
{
    return a.loc == b.loc && a.phase == b.phase && a.index == b.index && a.from < b.to &&
           b.from < a.to;
}

static bool differs(const Value *v, int axis)
{
    return v->part[axis].kind != PART_WHOLE;
}

/* Does the node run for each part along the axis? */
static bool runs_along(const Node *n, int axis)
{
    bool any = false;

    for (int k = 0; k < n->n_out; k++)
        any = any || differs(n->out[k], axis);
    return any;
}

static bool once(const Node *n)
{
    bool any = n->op->collective;

    for (int a = 0; !any && a < N_PARTS_AXES; a++)
        any = runs_along(n, a);
    return !any || n->op->collective;
}

/* Do parts share the value that the node reads or makes for each of them? */
static bool shares(const Node *n, const Value *v)
{
    bool any = false;

    for (int a = 0; a < N_PARTS_AXES; a++)
        any = any || (runs_along(n, a) && !differs(v, a));
    return any;
}

/* What node n writes over the value; NULL: nothing. */
static const char *overwrites(const Node *n, const Value *v)
{
    const Bytes b = bytes_of(v);

    for (int k = 0; k < n->n_out; k++)
        if (overlap(bytes_of(n->out[k]), b))
            return n->out[k]->name;
    return n->workspace_bytes && overlap(workspace_of(n), b) ? "its workspace" : NULL;
}

/* Nodes first .. last run part after part. */
static const char *check_leg(Gen *g, const Class *c, Node *const *nodes, int first,
                             int last)
{
    for (int i = first; i <= last; i++)
        for (int k = 0; k < nodes[i]->n_in; k++) {
            const Value *v = nodes[i]->in[k];

            for (int w = first; shares(nodes[i], v) && w <= last; w++) {
                const char *by = overwrites(nodes[w], v);

                if (by)
                    return gen_printf(g,
                                      "%s: %s writes %s over %s, which %s reads again "
                                      "for the next part",
                                      c->name, nodes[w]->name, by, v->name,
                                      nodes[i]->name);
            }
        }
    return NULL;
}

static const char *check_once(Gen *g, const Class *c, const Node *n)
{
    const char *by = n->op->collective ? overwrites(n, n->in[0]) : NULL;

    if (by)
        return gen_printf(g, "%s: the meet %s writes %s over %s, which other parts read",
                          c->name, n->name, by, n->in[0]->name);
    for (int k = 0; !once(n) && k < n->n_out; k++)
        if (shares(n, n->out[k]))
            return gen_printf(g, "%s: each part makes %s of %s, which all have", c->name,
                              n->out[k]->name, n->name);
    return NULL;
}

static bool run_alike(const Node *a, const Node *b)
{
    bool alike = a->phase == b->phase && a->piece == b->piece;

    for (int axis = 0; axis < N_PARTS_AXES; axis++)
        alike = alike && runs_along(a, axis) == runs_along(b, axis);
    return alike;
}

/* Do two neighbours run together? Then they may. */
static const char *check_neighbours(Gen *g, const Class *c, const Node *a, const Node *b)
{
    if (b->leg == a->leg && (once(a) || once(b) || !run_alike(a, b)))
        return gen_printf(g, "%s: %s and %s run together for each part", c->name, a->name,
                          b->name);
    return b->leg < a->leg ? gen_printf(g, "%s: the leg of %s comes before that of %s",
                                        c->name, b->name, a->name)
                           : NULL;
}

static const char *check_nodes(Gen *g, const Class *c, Node *const *nodes, int n)
{
    const char *bad = NULL;

    for (int i = 0, first = 0; !bad && i < n; i++) {
        bad = check_once(g, c, nodes[i]);
        if (!bad && i > 0)
            bad = check_neighbours(g, c, nodes[i - 1], nodes[i]);
        if (i + 1 < n && nodes[i + 1]->leg == nodes[i]->leg)
            continue;
        if (!bad && !once(nodes[i]))
            bad = check_leg(g, c, nodes, first, i);
        first = i + 1;
    }
    return bad;
}

const char *verify_legs(Gen *g)
{
    const char *bad = NULL;

    for (int i = 0; g->in_parts && !bad && i < g->classes.count; i++) {
        const Class *c = g->classes.items[i];

        bad = check_nodes(g, c, c->nodes.items, c->nodes.count);
        if (!bad)
            bad = check_nodes(g, c, c->evaluate.nodes, c->evaluate.n_nodes);
    }
    return bad;
}
