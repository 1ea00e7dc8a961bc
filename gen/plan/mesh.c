/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c: which rank holds which part of a segment, and which ranks communicate. In: the
 * mesh and the strategy of the description. Out: the placement and the groups of a
 * segment (for shard.c).
 *
 * A strategy's row (strategy.h) says what is cut: weights at rest, weights between
 * forward and backward, and optimizer state, each separately; over mesh.shard, or in
 * tests over any data ranks. `accumulate` decides about gradients between micro-steps.
 * Their sum is cut like the state, because the update reads it. The members of each
 * collective follow from the cuts; no later pass looks at the name or the axis. */
#include "plan/plan.h"

RankBits mesh_mates(const Gen *g, RankBits group)
{
    return group & ~g->model.mesh.nodes;
}

bool mesh_two_hops(const Gen *g, RankBits group)
{
    RankBits mates = mesh_mates(g, group);
    return !g->model.library_order && mates && mates != group;
}

/* Which of the bits `over` the strategy cuts. */
static RankBits cut_over(const Model *m, Held what, RankBits over)
{
    if (what == HELD_GRADS)
        return m->accumulate_sharded ? cut_over(m, HELD_OPTIMIZER, over) : 0;
    if (!strategy_rule(m->strategy)->cut[what])
        return 0;
    return what == HELD_BETWEEN ? group_low(over, m->reshard_ranks) : over;
}

RankBits mesh_cut(const Model *m, Held what)
{
    return cut_over(m, what, m->mesh.axis[AXIS_SHARD].bits);
}

static int add_hops(const Gen *g, RankBits group, Hops *hops, int n)
{
    for (int i = 0; i < n; i++)
        if (hops[i].group == group)
            return n;
    if (!mesh_two_hops(g, group))
        return n;
    gen_require(n < MAX_GROUPS, "sums go over more than %d groups", MAX_GROUPS);
    hops[n] = (Hops){group, mesh_mates(g, group), group & g->model.mesh.nodes};
    return n + 1;
}

int mesh_hops(const Gen *g, Hops hops[MAX_GROUPS])
{
    int n = 0;

    for (int i = 0; i < g->segments.count; i++) {
        n = add_hops(g, g->segments.items[i].within, hops, n);
        n = add_hops(g, g->segments.items[i].across, hops, n);
    }
    return n;
}

RankBits mesh_summed_first(const Model *m)
{
    return mesh_cut(m, HELD_GRADS);
}

RankBits mesh_summed_last(const Model *m)
{
    return m->mesh.data & ~mesh_summed_first(m);
}

void mesh_place(const Gen *g, Segment *s, RankBits over)
{
    const Model *m = &g->model;
    for (int what = 0; what < N_HELD; what++)
        s->cut[what] = cut_over(m, what, over);
    s->shards = group_ranks(s->cut[HELD_OPTIMIZER]);
    s->within = s->cut[HELD_OPTIMIZER];
    s->across = m->mesh.data & ~s->within;
    s->between = s->cut[HELD_BETWEEN] == s->cut[HELD_PARAMS] ? 0 : s->cut[HELD_BETWEEN];
}

const char *plan_mesh_text(Gen *g)
{
    const Mesh *mesh = &g->model.mesh;
    const char *text = NULL;

    for (int a = 0; a < N_AXES; a++)
        if (a == AXIS_REPLICATE || a == AXIS_SHARD || mesh->axis[a].degree > 1)
            text = gen_printf(g, "%s%s%s %lld", text ? text : "", text ? ", " : "",
                              mesh->axis[a].name, (long long)mesh->axis[a].degree);
    return text;
}
