/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c: who holds which part of a segment, and who takes part in what. Comes in: the
 * mesh and the strategy of the description. Goes out: the placement and the groups of a
 * segment (shard.c asks for them).
 *
 * A strategy's row (strategy.h) says what is cut over mesh.shard: weights at rest,
 * weights between forward and backward, optimizer state, each on its own. Gradients
 * between micro-steps lie as `accumulate` says; their sum lies where the state does,
 * since the update reads it. Who takes part in which collective follows from the cuts,
 * and no pass looks at the name. */
#include "plan/plan.h"

RankBits mesh_mates(const Gen *g, RankBits group)
{
    return group & (RankBits)(g->model.mesh.node_ranks - 1);
}

bool mesh_two_hops(const Gen *g, RankBits group)
{
    RankBits mates = mesh_mates(g, group);
    return !g->model.library_order && mates && mates != group;
}

RankBits mesh_cut(const Model *m, Held what)
{
    const StrategyRule *rule = strategy_rule(m->strategy);
    const RankBits shard = m->mesh.axis[AXIS_SHARD].bits;
    if (what == HELD_GRADS)
        return m->accumulate_sharded ? mesh_cut(m, HELD_OPTIMIZER) : 0;
    if (!rule->cut[what])
        return 0;
    return what == HELD_BETWEEN ? group_low(shard, m->reshard_ranks) : shard;
}

void mesh_place(const Gen *g, Segment *s)
{
    const Model *m = &g->model;
    for (int what = 0; what < N_HELD; what++)
        s->cut[what] = mesh_cut(m, what);
    s->shards = group_ranks(s->cut[HELD_OPTIMIZER]);
    s->within = s->cut[HELD_OPTIMIZER];
    s->across = m->mesh.data & ~s->within;
    s->between = s->cut[HELD_BETWEEN] == s->cut[HELD_PARAMS] ? 0 : s->cut[HELD_BETWEEN];
}
