/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_meets.c: meets beside a fused op of both phases. In: a match in the joint graph in
 * parts. Out: what fuse.c asks about meets; the phases of those that follow the op.
 *
 * split.c gathers a value for the forward and again for the backward, and sums the loss
 * in the forward. The fused op runs in the backward: it reads what is gathered there, and
 * the sums of what it makes follow it. So a part that has its own tokens makes their loss
 * as it would without parts. */
#include "graph/pattern.h"

#include <string.h>

/* Does it bring what another part has, or is it the copy of a box that a meet takes? */
static bool brings(Gen *g, const Node *n)
{
    return n && (n->op->collective || n->op == ops_role(g, "copy"));
}

bool meets_alike(Gen *g, const Value *a, const Value *b)
{
    const Node *m = a->def, *n = b->def;

    if (a == b)
        return true;
    if (!brings(g, m) || !brings(g, n) || m->op != n->op || m->along != n->along)
        return false;
    for (int i = 0; i < m->n_attrs; i++)
        if (!attr_equal(&m->attrs[i], &n->attrs[i]))
            return false;
    return meets_alike(g, m->in[0], n->in[0]);
}

bool meets_follow(const Class *c, const Uses *uses, const Node *n)
{
    if (n->phase == PHASE_BACKWARD)
        return true;
    if (!n->op->collective)
        return false;
    for (int i = 0; i < c->n_outputs; i++)
        if (c->outputs[i] == n->out[0])
            return false; /* the next block's forward needs it */
    for (int k = 0; k < uses->count[n->out[0]->id]; k++)
        if (!meets_follow(c, uses, uses->node[n->out[0]->id][k]))
            return false;
    return true;
}

/* A node that the fused one replaced would find no other gather than that of the
 * backward, so it runs there. */
void meets_take(Gen *g, const Node *fused)
{
    bool moved = false;

    for (int k = 0; k < fused->n_replaced; k++)
        for (int i = 0; i < fused->replaced[k]->n_in; i++)
            for (int j = 0; j < fused->n_in; j++) {
                Value **in = &fused->replaced[k]->in[i];

                if (*in == fused->in[j] || !meets_alike(g, *in, fused->in[j]))
                    continue;
                *in = fused->in[j];
                moved = true;
            }
    for (int k = 0; moved && k < fused->n_replaced; k++)
        fused->replaced[k]->phase = fused->phase;
}

void meets_move(const Uses *uses, const Node *fused, const Value *v)
{
    for (int k = 0; k < uses->count[v->id]; k++) {
        Node *n = uses->node[v->id][k];

        if (n->phase >= fused->phase)
            continue;
        n->phase = fused->phase;
        n->piece = fused->piece;
        meets_move(uses, fused, n->out[0]);
    }
}
