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

/* Ranks of the inner axis: a group of reshard_after_forward, or all of mesh.shard. */
static int inner_ranks(const Model *m)
{
    bool group = m->reshard_ranks > 1 && is_cut(m, HELD_BETWEEN);
    return (int)(group ? m->reshard_ranks : m->shard);
}

Group mesh_group(const Gen *g, unsigned axes)
{
    const Model *m = &g->model;
    int inner = inner_ranks(m);
    const struct {
        unsigned axis;
        int size, stride;
    } all[] = {{AXIS_INNER, inner, 1},
               {AXIS_OUTER, (int)m->shard / inner, inner},
               {AXIS_REPLICATE, (int)m->replicate, (int)m->shard}};
    Group group = {.size = 1, .stride = 1};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!(axes & all[i].axis) || all[i].size == 1) {
            continue;
        }
        gen_require(group.size == 1 || group.size * group.stride == all[i].stride,
                    "ranks of axes %u are not evenly apart", axes);
        group.stride = group.size == 1 ? all[i].stride : group.stride;
        group.size *= all[i].size;
        group.axes |= all[i].axis;
    }
    return group;
}

int mesh_mates(const Gen *g, Group group)
{
    int64_t mates = g->model.node_ranks / group.stride;
    return (int)max_i64(1, min_i64(mates, group.size));
}

bool mesh_two_hops(const Gen *g, Group group)
{
    int mates = mesh_mates(g, group);
    return !g->model.library_order && mates > 1 && mates < group.size;
}

void mesh_place(const Gen *g, Segment *s)
{
    const Model *m = &g->model;
    const unsigned shard = AXIS_INNER | AXIS_OUTER;
    for (int what = 0; what < N_HELD; what++) {
        s->cut[what].replicate = 1;
        s->cut[what].shard = is_cut(m, (Held)what) ? (int)m->shard : 1;
    }
    if (is_cut(m, HELD_BETWEEN)) {
        s->cut[HELD_BETWEEN].shard = (int)m->reshard_ranks;
    }
    s->shards = s->cut[HELD_PARAMS].replicate * s->cut[HELD_PARAMS].shard;
    s->within = mesh_group(g, s->cut[HELD_GRADS].shard > 1 ? shard : 0);
    s->across = mesh_group(g, s->cut[HELD_GRADS].shard > 1 ? AXIS_REPLICATE
                                                           : AXIS_REPLICATE | shard);
    s->between = mesh_group(g, 0);
    if (s->cut[HELD_BETWEEN].shard > 1 && s->cut[HELD_BETWEEN].shard < s->shards) {
        s->between = mesh_group(g, AXIS_INNER);
    }
}
