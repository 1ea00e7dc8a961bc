/* SPDX-License-Identifier: MIT-0 */
/* rt_collective.c: what collectives of both targets have in common. In: starts and waits
 * of the emitted step, groups of ranks. Out: the waits by name, the hops of sums over
 * several nodes, counts of what crossed. */
#include "rt_target.h"
#include "state/rt_state.h"

/* Where a group spans several nodes with several ranks each, its sums take two hops, so
 * that a part crosses once for each node and not for each rank, as in a ring: first the
 * ranks of a node, `near`, sum the parts among themselves, in place, each those of its
 * counterparts in all nodes; then counterparts, `far`, add the nodes' sums. Groups are
 * numbered low bits first, so this is the same tree. */
RtHops rt_hops(const Rt *rt, RtGroup group)
{
    const int node = rt->trainer->node_ranks;
    const RtGroup near = node > 0 ? group & (RtGroup)(node - 1) : group;
    if (rt->trainer->library_order || near == 0 || near == group)
        return (RtHops){1, 0, group};
    return (RtHops){2, near, group & ~near};
}

/* Bytes that this rank reads from another: to a counter of its own kind, or, when the
 * other is of another copy of the model, to that of the mesh's replicate axis; and to
 * that of the wires between nodes. */
void rt_count_bytes(Rt *rt, int peer, int64_t bytes, int64_t *counter)
{
    const RtTrainer *t = rt->trainer;
    const RtGroup apart = (RtGroup)(peer ^ rt->rank); /* in which bits */
    if (t->node_ranks > 0 && apart >= (RtGroup)t->node_ranks)
        rt->state->node_bytes += bytes;
    if (apart != 0)
        *(apart & t->replicate ? &rt->state->replicate_bytes : counter) += bytes;
}

void rt_count_group(Rt *rt, RtGroup group, int64_t bytes, int64_t *counter)
{
    for (int k = 0; k < rt_group_ranks(group); k++)
        rt_count_bytes(rt, rt_group_rank(group, rt->rank, k), bytes, counter);
}

void rt_wait_gather(Rt *rt, int segment)
{
    rt_wait_last(rt, RT_GATHER, segment);
}

void rt_wait_reduce(Rt *rt, int segment)
{
    rt_wait_last(rt, RT_REDUCE, segment);
}

void rt_wait_to_owners(Rt *rt, int batch)
{
    rt_wait_last(rt, RT_GATHER, rt->trainer->n_segments + batch);
}

void rt_wait_from_owners(Rt *rt, int batch)
{
    rt_wait_last(rt, RT_REDUCE, rt->trainer->n_segments + batch);
}
