/* SPDX-License-Identifier: Apache-2.0 */
/* meet.c: what parts cost. In: a node of a span. Out: how often a rank runs it, and what
 * a rank receives from others in it, if it is a meet.
 *
 * P parts along the meet's axis, of which a rank computes m; b: bytes that a part has of
 * the input, out: that a part gets. Of the P - m parts of others a rank reads what its
 * own parts need:
 *
 * - to all of it: (P - m) b, once;
 * - of a sum to pieces: m (P - m) b / P;
 * - in a turn: m (P - m) out / P.
 *
 * A piece of what all have moves nothing. All of it is as often as the rank has parts
 * along the other axis, if those differ.
 *
 * Where ranks send, rather than read, they pack what others need of a part, unless it is
 * consecutive: a piece along the first dim, or along one after dims of 1. */
#include "plan/plan.h"

int64_t plan_calls(const Gen *g, const Node *n)
{
    return plan_lanes(g, node_differs(n));
}

/* The parts of a rank that differ along these axes. */
int64_t plan_lanes(const Gen *g, unsigned axes)
{
    int64_t n = 1;

    for (int a = 0; a < N_PARTS_AXES; a++)
        n *= axes >> a & 1 ? plan_parts_along(g, a) : 1;
    return n;
}

/* A meet runs so often, for parts that differ along other axes. */
static int64_t lanes_of(const Gen *g, const Node *n)
{
    return plan_lanes(g, node_differs(n) & ~(1u << n->along));
}

/* Is what a rank's parts need of each other part packed before it is sent? */
static bool is_packed(const Gen *g, const Node *n)
{
    const PartState *to = &n->out[0]->part[n->along];
    bool first = to->sections.n == 1;

    if (to->kind == PART_WHOLE || !g->model.target->peers_write_gathered)
        return false;
    for (int d = 0; first && d < to->dim; d++)
        first = n->out[0]->dim[d] == 1;
    return !first;
}

int64_t plan_met_bytes(const Gen *g, const Node *n)
{
    const int64_t parts = g->model.parts[n->along], here = plan_parts_along(g, n->along);
    const Value *in = n->in[0], *out = n->out[0];

    if (!g->in_parts || !node_joins(n))
        return 0;
    if (out->part[n->along].kind == PART_WHOLE)
        return lanes_of(g, n) * (parts - here) * in->bytes;
    return lanes_of(g, n) * here * (parts - here) *
           (part_is_made(&in->part[n->along]) ? in->bytes : out->bytes) / parts;
}

/* What a rank receives in a meet, from each part of others, and packs of each of its own,
 * at strides. */
static int64_t meeting_bytes(const Gen *g, const Node *n)
{
    const int64_t here = plan_parts_along(g, n->along);
    const int64_t sent = (g->model.parts[n->along] - here) * lanes_of(g, n);
    const int64_t pack = is_packed(g, n) ? plan_part_stride(n->in[0]->bytes) : 0;

    return sent ? sent * plan_part_stride(plan_met_bytes(g, n) / sent) +
                      here * lanes_of(g, n) * pack
                : 0;
}

int64_t plan_meeting_bytes(const Gen *g)
{
    int64_t most = 0;

    for (int i = 0; i < g->classes.count; i++) {
        const Class *c = g->classes.items[i];
        const Span *e = &c->evaluate;

        for (int k = 0; k < c->nodes.count + e->n_nodes; k++) {
            const Node *n =
                k < c->nodes.count ? c->nodes.items[k] : e->nodes[k - c->nodes.count];

            if (node_joins(n))
                most = max_i64(most, meeting_bytes(g, n));
        }
    }
    return most;
}

int64_t plan_span_met_bytes(const Gen *g, const Span *s, PartsAxis along)
{
    int64_t bytes = 0;

    for (int i = 0; g->in_parts && i < s->n_nodes; i++)
        if (s->nodes[i]->op->collective && s->nodes[i]->along == along)
            bytes += plan_met_bytes(g, s->nodes[i]);
    return bytes;
}

/* What others send, and what the rank reads and writes to pack what it sends. */
int64_t cost_meet(const Gen *g, const Node *n)
{
    const RankBits group = parts_group(&g->model, n->along);
    const int64_t ranks = group_ranks(group), bytes = plan_met_bytes(g, n);
    int64_t ps, own;

    if (bytes == 0)
        return 0;
    ps = cost_move(g, MOVE_GATHER, group, bytes / (ranks - 1) * ranks);
    own = plan_parts_along(g, n->along) * lanes_of(g, n) * n->in[0]->bytes;
    if (is_packed(g, n))
        ps += cost_traffic(g, COST_COPY, 2 * (double)own).ps;
    return min_i64(ps, COST_MOST_PS);
}
