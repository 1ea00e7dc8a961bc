/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c: who holds which part of a segment, and who takes part in what. In: the mesh
 * and the strategy of the description. Out: the placement and the groups of a segment
 * (shard.c asks for them).
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

void mesh_place(const Gen *g, Segment *s)
{
    const Model *m = &g->model;
    const RankBits shard = m->mesh.axis[AXIS_SHARD].bits;
    const StrategyRule *rule = strategy_rule(m->strategy);
    for (int what = 0; what < N_HELD; what++)
        s->cut[what] = rule->cut[what] ? shard : 0;
    s->cut[HELD_BETWEEN] = group_low(s->cut[HELD_BETWEEN], m->reshard_ranks);
    s->cut[HELD_GRADS] = m->accumulate_sharded ? s->cut[HELD_OPTIMIZER] : 0;
    s->shards = group_ranks(s->cut[HELD_OPTIMIZER]);
    s->within = s->cut[HELD_OPTIMIZER];
    s->across = m->mesh.data & ~s->within;
    s->between = s->cut[HELD_BETWEEN] == s->cut[HELD_PARAMS] ? 0 : s->cut[HELD_BETWEEN];
}
