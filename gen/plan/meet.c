/* SPDX-License-Identifier: Apache-2.0 */
/* meet.c: what parts cost. In: a node of a span. Out: how often a rank runs it, and what
 * a rank receives from others in it, if it is a meet.
 *
 * P parts, of which a rank computes m; b: bytes that a part has of the input, out: that a
 * part gets. A rank reads what its parts need of the P - m parts of others:
 *    to all of it              (P - m) b, once
 *    a sum to pieces         m (P - m) out
 *    a turn                  m (P - m) out / P
 * A piece of what all have moves nothing. */
#include "plan/plan.h"

int64_t plan_calls(const Gen *g, const Node *n)
{
    return g->in_parts && !node_whole(n) ? plan_parts(g) : 1;
}

int64_t plan_met_bytes(const Gen *g, const Node *n)
{
    const int64_t parts = g->model.parts_tensor, here = plan_parts(g);
    const Value *out = n->out[0];

    if (!g->in_parts || !node_joins(n))
        return 0;
    if (out->part.kind == PART_WHOLE)
        return (parts - here) * n->in[0]->bytes;
    return here * (parts - here) * out->bytes /
           (n->in[0]->part.kind == PART_PARTIAL ? 1 : parts);
}

int64_t plan_span_met_bytes(const Gen *g, const Span *s)
{
    int64_t bytes = 0;

    for (int i = 0; i < s->n_nodes; i++)
        bytes += plan_met_bytes(g, s->nodes[i]);
    return bytes;
}

int64_t cost_meet(const Gen *g, const Node *n)
{
    const RankBits group = g->model.mesh.axis[AXIS_TENSOR].bits;
    const int64_t ranks = group_ranks(group), bytes = plan_met_bytes(g, n);

    return bytes ? cost_move(g, MOVE_GATHER, group, bytes / (ranks - 1) * ranks) : 0;
}
