/* SPDX-License-Identifier: MIT-0 */
/* rt_collective.h: one record for every collective, which both targets execute (cpu/rt_comm.c and
 * rt_pull.c; cuda/rt_comm.c and ranks/). It does not depend on segments or on the purpose of its bytes.
 * The calls of rt.h fill it from the tables (rt_collective.c), and anything else that ranks
 * exchange uses a record of its own. */
#ifndef RT_COLLECTIVE_H
#define RT_COLLECTIVE_H

#include "rt.h"

typedef enum {
    RT_OP_GATHER,          /* to = the part of every rank, at its `from`, in order of numbers */
    RT_OP_GATHER_IN_PLACE, /* the same, where the parts are already in place: the first at `from`,
                            * which equals `to`, the others after it */
    RT_OP_REDUCE_SCATTER,  /* to = this rank's part of the sum of all ranks' buffers */
    RT_OP_ALL_REDUCE,      /* to = that sum, in place: `to` equals `from` */
    RT_OP_EXCHANGE         /* from some ranks to others, as listed by `transfers` */
} RtOpKind;

/* How a sum adds the ranks' parts; ranks are ordered by their numbers in the group. */
typedef enum {
    RT_ORDER_TREE,   /* the balanced tree, low bits first, each node rounded to the dtype */
    RT_ORDER_LIBRARY /* one after the other; on CUDA in NCCL's order */
} RtOrder;

/* The elements that an exchange moves: symmetric offsets of source and destination. */
typedef struct RtTransfer {
    int from_rank, to_rank;
    int64_t from, to, elems;
} RtTransfer;
typedef void RtTransferFn(void *ctx, const RtTransfer *x);

typedef struct RtOp RtOp;
struct RtOp {
    RtOpKind kind;
    RtGroup group;
    RtDtype dtype;
    int64_t elems; /* of one part for a gather or reduce-scatter; of all for an all-reduce */
    int64_t from;  /* symmetric offset, the same on all ranks of the group */
    void *to;      /* this rank's result */
    RtOrder order; /* of a sum */
    int ctas;      /* of a sum, on CUDA: the multiprocessors that it may take; 0: no limit */
    int subject;   /* what waits and messages call it: rt_subject_name */
    /* For an exchange: calls fn for all transfers within all groups, in the same order on every
     * rank; reads `of`. */
    void (*transfers)(const Rt *rt, const RtOp *op, RtTransferFn *fn, void *ctx);
    const void *of;
};

/* Subjects are numbered: segments, batches of matrices, then the trainer's other values. */
static inline int rt_subject_batch(const RtTrainer *t, int batch)
{
    return t->n_segments + batch;
}
static inline int rt_subject_value(const RtTrainer *t, int value)
{
    return t->n_segments + t->n_batches + value;
}
static inline int rt_subjects(const RtTrainer *t)
{
    return rt_subject_value(t, t->n_values);
}

#endif
