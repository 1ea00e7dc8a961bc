/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_split.c: fused nodes for which the target has no kernel → the nodes that they
 * replaced. In: the fused graph, after the numerics hash, which has the fused nodes. Out:
 * their expansions in their places; the same bits. Breaks: node and value ids, which are
 * renumbered.
 *
 * So a target needs a kernel of a fused op only where it beats the kernels of the
 * expansion. On a GPU the sum of a product and a bias does not: it is the product, then a
 * pass over the rows, and as an op of its own that pass joins a chain (fuse_maps.c). */
#include "graph/builder.h"
#include "ops/ops.h"

#include <string.h>

/* An op without any kernel is left for the emitter's message. */
static bool is_split(Gen *g, const Node *n)
{
    bool any = false;

    if (!n->op->fused || !n->n_replaced || n->library ||
        ops_has_template(g, n->op, ops_kernel_file(g, NULL)))
        return false;
    for (int i = 0; target_at(i); i++)
        any = any || ops_has_template(g, n->op, target_at(i)->kernel_file);
    return any;
}

/* A value inside the fused node was dropped from its class. */
static void take_back(Gen *g, Class *c, Node *n, int out)
{
    Value *v = n->out[out];
    bool known = v->id < c->values.count && c->values.items[v->id] == v;

    v->def = n;
    v->def_out = out;
    if (known)
        return;
    v->id = c->values.count;
    *gen_push(g, &c->values) = v;
}

static bool split_class(Gen *g, Class *c)
{
    int count = c->nodes.count, kept = 0;
    Node **old = gen_alloc(g, sizeof *old * (size_t)(count + 1));

    memcpy(old, c->nodes.items, sizeof *old * (size_t)count);
    c->nodes.count = 0;
    for (int i = 0; i < count; i++) {
        Node *n = old[i];

        if (!is_split(g, n)) {
            *gen_push(g, &c->nodes) = n;
            kept++;
            continue;
        }
        for (int k = 0; k < n->n_replaced; k++) {
            Node *part = n->replaced[k];

            part->part_of = n->op;
            for (int o = 0; o < part->n_out; o++)
                take_back(g, c, part, o);
            *gen_push(g, &c->nodes) = part;
        }
    }
    for (int i = 0; i < c->nodes.count; i++)
        c->nodes.items[i]->id = i;
    return kept < count;
}

void fuse_split(Gen *g)
{
    for (int i = 0; i < g->classes.count; i++) {
        Class *c = g->classes.items[i];

        if (!split_class(g, c))
            continue;
        class_sort(g, c);
        class_sweep(g, c);
    }
}
