/* SPDX-License-Identifier: Apache-2.0 */
/* traffic.c: the bytes that rank 0 receives from its peers in a step, by kind. In: the
 * unrolled program. Out: sums, equal to the runtime's counters (--stats), which do not
 * count what kernels read in meets; at most 2^61, as times. */
#include "plan/plan.h"

/* Elements of slice k of a part that is cut into equal slices; the last ones may be short
 * or empty. */
static int64_t slice_of(int64_t part, int64_t slice, int64_t k)
{
    return max_i64(0, min_i64(part, (k + 1) * slice) - k * slice);
}

/* How many of the ranks of a group, apart from the first, are at other places along
 * mesh.replicate. */
static int64_t in_other_copies(const Gen *g, RankBits group)
{
    const int ranks = (int)group_ranks(group);
    int64_t n = 0;

    for (int k = 1; k < ranks; k++)
        n += ((RankBits)group_rank(group, 0, k) &
              g->model.mesh.axis[AXIS_REPLICATE].bits) != 0;
    return n;
}

/* Bytes that a sum over copies receives from other places along mesh.replicate. Each
 * rank sums one slice of every copy's part, in two hops if ranks are on several nodes,
 * then reads the slices that the others have summed. */
static int64_t crossing_bytes(const Gen *g, const Instr *i)
{
    const int64_t part = g->segments.items[i->segment].shard_elems;
    const int ranks = (int)group_ranks(i->group);
    const int64_t slice = round_up((part + ranks - 1) / ranks, GRAIN_ELEMS);
    const RankBits near = mesh_two_hops(g, i->group) ? mesh_mates(g, i->group) : 0;
    const int mates = (int)group_ranks(near);
    int64_t elems = 0;

    for (int k = 0; k < ranks; k += mates) /* the first hop: a slice for each node */
        elems += in_other_copies(g, near) * slice_of(part, slice, k);
    elems += in_other_copies(g, i->group & ~near) * slice_of(part, slice, 0);
    for (int k = 1; k < ranks; k++)
        if ((RankBits)group_rank(i->group, 0, k) &
            g->model.mesh.axis[AXIS_REPLICATE].bits)
            elems += slice_of(part, slice, k);
    return elems * dtype_bytes(g->model.reduce_dtype);
}

static int64_t with(int64_t sum, int64_t turns, int64_t bytes)
{
    return cost_sum(sum, cost_times(turns, bytes));
}

Traffic plan_traffic(const Gen *g)
{
    Traffic t = {0};
    for (int id = 0; id < g->prog.ins.count; id++) {
        const Instr *i = &g->prog.ins.items[id];
        int64_t turns = ins_turns(g, i);
        if (i->batch >= 0)
            continue; /* counted below: moved_bytes is for the rank with most */
        int64_t crossing = i->kind == INS_ALL_REDUCE ? crossing_bytes(g, i) : 0;
        if (i->stream == STREAM_GATHER)
            t.gathered = with(t.gathered, turns, i->moved_bytes);
        if (i->stream == STREAM_REDUCE)
            t.reduced = with(t.reduced, turns, i->moved_bytes - crossing);
        t.replicate = with(t.replicate, turns, crossing);
        for (int a = 0; i->kind == INS_SPAN && a < N_PARTS_AXES; a++)
            t.met[a] = with(t.met[a], turns, plan_span_met_bytes(g, ins_span(g, i), a));
    }
    if (g->model.mesh.world_size > 1 && g->batches.count > 0) {
        Moved m = matrices_moved(g, -1, 0);
        t.matrices = m.to_owners + m.from_owners;
        t.replicate = with(t.replicate, 1, m.from_copies);
    }
    return t;
}
