/* SPDX-License-Identifier: Apache-2.0 */
/* meet.c: what parts cost. In: a node of a span. Out: how often a rank runs it, and what
 * a rank receives from others in it, if it is a meet.
 *
 * P parts, of which a rank computes m; b: bytes that a part has of the input, out: that a
 * part gets. A rank reads what its parts need of the P - m parts of others:
 *    to all of it              (P - m) b, once
 *    a sum to pieces         m (P - m) out
 *    a turn                  m (P - m) out / P
 * A piece of what all have moves nothing. Where ranks send, rather than read, they send
 * all of a part, (P - m) b, unless what a rank's parts need of it is consecutive: a sum
 * to pieces along the first dim, or along one after dims of 1. */
#include "plan/plan.h"

int64_t plan_calls(const Gen *g, const Node *n)
{
    return g->in_parts && !node_whole(n) ? plan_parts(g) : 1;
}

/* Does a rank read of each other part only what its own parts need? */
static bool meets_in_pieces(const Gen *g, const Node *n)
{
    const PartState *to = &n->out[0]->part;
    bool first = to->kind == PART_CUT && to->sections.n == 1;

    if (to->kind == PART_WHOLE || !g->model.target->peers_write_gathered)
        return to->kind != PART_WHOLE;
    for (int d = 0; first && d < to->dim; d++)
        first = n->out[0]->dim[d] == 1;
    return first && n->in[0]->part.kind == PART_PARTIAL;
}

int64_t plan_met_bytes(const Gen *g, const Node *n)
{
    const int64_t parts = g->model.parts, here = plan_parts(g);
    const Value *out = n->out[0];

    if (!g->in_parts || !node_joins(n))
        return 0;
    if (!meets_in_pieces(g, n))
        return (parts - here) * n->in[0]->bytes;
    return here * (parts - here) * out->bytes /
           (n->in[0]->part.kind == PART_PARTIAL ? 1 : parts);
}

int64_t plan_meeting_bytes(const Gen *g)
{
    const int64_t others = g->model.parts - plan_parts(g);
    int64_t most = 0;

    for (int i = 0; i < g->classes.count; i++) {
        const Class *c = g->classes.items[i];
        const Span *e = &c->evaluate;

        for (int k = 0; k < c->nodes.count + e->n_nodes; k++) {
            const Node *n =
                k < c->nodes.count ? c->nodes.items[k] : e->nodes[k - c->nodes.count];

            if (others > 0 && node_joins(n))
                most = max_i64(most,
                               others * plan_part_stride(plan_met_bytes(g, n) / others));
        }
    }
    return most;
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
    const RankBits group = parts_group(&g->model);
    const int64_t ranks = group_ranks(group), bytes = plan_met_bytes(g, n);

    return bytes ? cost_move(g, MOVE_GATHER, group, bytes / (ranks - 1) * ranks) : 0;
}
