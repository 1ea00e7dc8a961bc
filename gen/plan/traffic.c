/* SPDX-License-Identifier: Apache-2.0 */
/* traffic.c: the bytes that rank 0 receives from its peers in a step, by kind. In: the
 * unrolled program. Out: sums, equal to the runtime's counters (--stats), which do not
 * count what kernels read in meets. */
#include "plan/plan.h"

/* Bytes that a sum over copies receives from other places along mesh.replicate. Each
 * rank sums one slice of every copy's part, then reads the slices that the others have
 * summed. */
static int64_t crossing_bytes(const Gen *g, const Instr *i)
{
    int64_t part = g->segments.items[i->segment].shard_elems, elems = 0;
    RankBits replicate = g->model.mesh.axis[AXIS_REPLICATE].bits;
    int ranks = group_ranks(i->group);
    int64_t slice = round_up((part + ranks - 1) / ranks, GRAIN_ELEMS);
    for (int k = 1; k < ranks; k++) {
        if ((RankBits)group_rank(i->group, 0, k) & replicate) {
            elems += min_i64(part, slice) +
                     max_i64(0, min_i64(part, (k + 1) * slice) - k * slice);
        }
    }
    return elems * dtype_bytes(g->model.reduce_dtype);
}

Traffic plan_traffic(const Gen *g)
{
    Traffic t = {0};
    for (int id = 0; id < g->prog.ins.count; id++) {
        const Instr *i = &g->prog.ins.items[id];
        int64_t turns = variant_turns(g, i->variant);
        if (i->batch >= 0)
            continue; /* counted below: moved_bytes is for the rank with most */
        int64_t crossing = i->kind == INS_ALL_REDUCE ? crossing_bytes(g, i) : 0;
        t.gathered += i->stream == STREAM_GATHER ? turns * i->moved_bytes : 0;
        t.reduced += i->stream == STREAM_REDUCE ? turns * (i->moved_bytes - crossing) : 0;
        t.replicate += turns * crossing;
        for (int a = 0; i->kind == INS_SPAN && a < N_PARTS_AXES; a++)
            t.met[a] += turns * plan_span_met_bytes(g, ins_span(g, i), a);
    }
    if (g->model.mesh.world_size > 1 && g->batches.count > 0) {
        Moved m = matrices_moved(g, -1, 0);
        t.matrices = m.to_owners + m.from_owners;
        t.replicate += m.from_copies;
    }
    return t;
}
