/* SPDX-License-Identifier: MIT-0 */
/* rt_collective.c: what the collectives of both targets share. In: starts and waits of
 * the emitted step, which name segments; the tables. Out: the records that rt_comm.c
 * executes (rt_collective.h), waits by subject, the hops of sums over several nodes,
 * counts of transferred bytes. */
#include "rt_target.h"
#include "state/rt_state.h"

/* ---- started by the step --------------------------------------------------------- */

/* The destination of a gather: between GPUs, whose ranks write there, a symmetric
 * offset. */
static void *landing(const Rt *rt, int64_t out)
{
#ifdef RT_CUDA
    return rt_symmetric(rt, out);
#else
    return rt_local(rt, out);
#endif
}

static void gather_start(Rt *rt, RtOpKind kind, int segment, RtGroup group, RtDtype dtype,
                         int64_t from, void *to)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    rt_collective_start(rt, RT_GATHER,
                        (RtOp){.kind = kind,
                               .group = group,
                               .dtype = dtype,
                               .elems = s->elems / rt_group_ranks(group),
                               .from = from,
                               .to = to,
                               .subject = segment});
}

void rt_all_gather_start(Rt *rt, int segment, int64_t out)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    gather_start(rt, RT_OP_GATHER, segment, s->within, rt_gathered_dtype(s),
                 rt_gathered_part(s), landing(rt, out));
}

void rt_gather_updated_start(Rt *rt, int segment)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    gather_start(rt, RT_OP_GATHER_IN_PLACE, segment, s->within, s->dtype, s->param_shard,
                 rt_symmetric(rt, s->param_shard));
}

void rt_kept_gather_start(Rt *rt, int segment, int64_t kept, int64_t out)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    gather_start(rt, RT_OP_GATHER, segment, s->between, rt_gathered_dtype(s), kept,
                 landing(rt, out));
}

static void sum_start(Rt *rt, RtOpKind kind, int segment, RtGroup group, int ctas,
                      int64_t from, void *to)
{
    const RtTrainer *t = rt->trainer;
    rt_collective_start(
        rt, RT_REDUCE,
        (RtOp){.kind = kind,
               .group = group,
               .dtype = t->reduce_dtype,
               .elems = t->segments[segment].shard_elems,
               .from = from,
               .to = to,
               .order = t->library_order ? RT_ORDER_LIBRARY : RT_ORDER_TREE,
               .ctas = ctas,
               .subject = segment});
}

void rt_reduce_scatter_start(Rt *rt, int segment, int64_t grad, int64_t result)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    sum_start(rt, RT_OP_REDUCE_SCATTER, segment, s->within, s->within_ctas, grad,
              s->across ? rt_symmetric(rt, result) /* copies read it */
                        : rt_local(rt, result));
}

void rt_all_reduce_start(Rt *rt, int segment, int64_t grad)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    sum_start(rt, RT_OP_ALL_REDUCE, segment, s->across, s->across_ctas, grad,
              rt_symmetric(rt, grad));
}

/* ---- sums over several nodes, counters ------------------------------------------- */

const RtHops *rt_hops(const Rt *rt, const RtOp *op)
{
    const RtTrainer *t = rt->trainer;
    for (int i = 0; i < t->n_hops && op->order == RT_ORDER_TREE; i++)
        if (t->hops[i].group == op->group)
            return &t->hops[i];
    return NULL;
}

/* Counts bytes that this rank reads from another: in a counter of their kind, or, if the
 * other belongs to another copy of the model, in that of the mesh's replicate axis; and
 * in that of the wires between nodes. */
void rt_count_bytes(Rt *rt, int peer, int64_t bytes, int64_t *counter)
{
    const RtTrainer *t = rt->trainer;
    const RtGroup apart = (RtGroup)(peer ^ rt->rank); /* the bits in which they differ */
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

/* ---- waits, by subject ----------------------------------------------------------- */

void rt_wait_gather(Rt *rt, int segment)
{
    rt_collective_wait(rt, RT_GATHER, segment);
}

void rt_wait_reduce(Rt *rt, int segment)
{
    rt_collective_wait(rt, RT_REDUCE, segment);
}
