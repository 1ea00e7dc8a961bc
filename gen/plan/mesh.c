/* SPDX-License-Identifier: Apache-2.0 */
/* mesh: what a strategy means, and who takes part in what. Comes in: the mesh and the
 * strategy of the description. Goes out: the placement and the groups of a segment
 * (shard.c asks for them).
 *
 * A strategy is one row of a table: which of weights at rest, weights between forward and
 * backward, gradients and optimizer state are cut over mesh.shard; what is not cut is
 * held whole by every rank of the axis. Nothing is ever cut over mesh.replicate: that is
 * what the axis is for. Who takes part in which collective follows from the cuts, and no
 * pass looks at the name. */
#include "plan/plan.h"

static const struct {
    Strategy strategy;
    bool cut[N_HELD]; /* over mesh.shard: params, between, grads, optimizer */
} strategies[] = {
    {FULL_SHARD, {true, true, true, true}},
    {SHARD_GRAD_OP, {true, false, true, true}},
    {HYBRID_SHARD, {true, true, true, true}},
    {NO_SHARD, {false, false, false, false}},
};

static bool is_cut(const Model *m, Held what)
{
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        if (strategies[i].strategy == m->strategy) {
            return strategies[i].cut[what];
        }
    }
    gen_die("strategy %d", (int)m->strategy);
}

RankBits mesh_mates(const Gen *g, RankBits group)
{
    return group & (RankBits)(g->model.mesh.node_ranks - 1);
}

bool mesh_two_hops(const Gen *g, RankBits group)
{
    RankBits mates = mesh_mates(g, group);
    return !g->model.library_order && mates && mates != group;
}

void mesh_place(const Gen *g, Segment *s)
{
    const Model *m = &g->model;
    const RankBits shard = m->mesh.axis[AXIS_SHARD].bits;
    for (int what = 0; what < N_HELD; what++) {
        s->cut[what] = is_cut(m, (Held)what) ? shard : 0;
    }
    s->cut[HELD_BETWEEN] = group_low(s->cut[HELD_BETWEEN], m->reshard_ranks);
    s->shards = group_ranks(s->cut[HELD_PARAMS]);
    s->within = s->cut[HELD_GRADS];
    s->across = m->mesh.data & ~s->within;
    s->between = s->cut[HELD_BETWEEN] == s->cut[HELD_PARAMS] ? 0 : s->cut[HELD_BETWEEN];
}
