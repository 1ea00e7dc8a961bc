/* SPDX-License-Identifier: MIT-0 */
/* rt_collective.c: what collectives of both targets have in common. In: starts and waits
 * of the emitted step, groups of ranks. Out: the waits by name, the hops of sums over
 * several nodes, counts of what crossed. */
#include "rt_private.h"

const RtHops *rt_hops(const Rt *rt, RtGroup group)
{
    const RtTrainer *t = rt->trainer;
    for (int i = 0; i < t->n_hops; i++)
        if (t->hops[i].group == group)
            return &t->hops[i];
    return NULL;
}

/* Bytes that this rank reads from another: to a counter of its own kind, or, when the
 * other is of another copy of the model, to that of the mesh's replicate axis; and to
 * that of the wires between nodes. */
void rt_count_bytes(Rt *rt, int peer, int64_t bytes, int64_t *counter)
{
    const RtTrainer *t = rt->trainer;
    const RtGroup apart = (RtGroup)(peer ^ rt->rank); /* in which bits */
    if (apart & t->nodes)
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
