/* SPDX-License-Identifier: Apache-2.0 */
/* legs.c: which nodes a rank runs part after part; a step of the span pass. In: the nodes
 * of a class in order, after split. Out: Node.leg.
 *
 * A rank that computes several parts runs the nodes between two meets for one part, then
 * for the next: a leg. A meet is a leg of its own, and so is a node whose results are the
 * same for all parts, which runs once. Nodes whose results are the same for parts along
 * one axis run once for all of those, so a leg's nodes differ along the same axes. What
 * several parts have lies in one place. So while a leg runs, it must stay as long as the
 * last part needs it: to the leg's end, although the node that reads it last may have run
 * for the first part long ago. */
#include "graph/graph.h"

static bool alone(const Node *n)
{
    return n->op->collective || !node_differs(n);
}

void legs_number(const Gen *g, Class *c)
{
    int leg = 0;

    for (int i = 0; g->in_parts && i < c->nodes.count; i++) {
        Node *n = c->nodes.items[i];
        const Node *before = i ? c->nodes.items[i - 1] : NULL;

        if (before &&
            (alone(n) || alone(before) || node_differs(n) != node_differs(before) ||
             n->phase != before->phase || n->piece != before->piece))
            leg++;
        n->leg = leg;
    }
}

int legs_end(const Gen *g, const Class *c, const Value *v, int last)
{
    const int leg = last >= 0 ? c->nodes.items[last]->leg : 0;

    if (!g->in_parts || last < 0 ||
        value_differs(v) == node_differs(c->nodes.items[last]))
        return last;
    while (last + 1 < c->nodes.count && c->nodes.items[last + 1]->leg == leg)
        last++;
    return last;
}
