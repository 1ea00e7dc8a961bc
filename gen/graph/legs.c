/* SPDX-License-Identifier: Apache-2.0 */
/* legs.c: which nodes a rank runs part after part; a step of the span pass. In: the nodes
 * of a class in order, after split. Out: Node.leg.
 *
 * A rank that computes several parts runs the nodes between two meets for one part, then
 * for the next: a leg. A meet is a leg of its own, and so is a node whose results are the
 * same for all parts, which runs once. What all parts have lies in one place. So while a
 * leg runs, it must stay as long as the last part needs it: to the leg's end, although
 * the node that reads it last may have run for the first part long ago. */
#include "graph/graph.h"

static bool alone(const Node *n)
{
    return n->op->collective || node_whole(n);
}

void legs_number(const Gen *g, Class *c)
{
    int leg = 0;

    for (int i = 0; g->in_parts && i < c->nodes.count; i++) {
        Node *n = c->nodes.items[i];
        const Node *before = i ? c->nodes.items[i - 1] : NULL;

        if (before && (alone(n) || alone(before) || n->phase != before->phase ||
                       n->piece != before->piece))
            leg++;
        n->leg = leg;
    }
}

int legs_end(const Gen *g, const Class *c, const Value *v, int last)
{
    const int leg = last >= 0 ? c->nodes.items[last]->leg : 0;

    if (!g->in_parts || v->part.kind != PART_WHOLE || last < 0)
        return last;
    while (last + 1 < c->nodes.count && c->nodes.items[last + 1]->leg == leg)
        last++;
    return last;
}
