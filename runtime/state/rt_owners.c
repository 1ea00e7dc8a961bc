/* SPDX-License-Identifier: MIT-0 */
/* rt_owners.c: moves matrices that an optimizer treats as a whole to the ranks that own
 * them and back, by exchanges, for both targets.
 *
 * In: tables of matrices and batches, directions in the ranks' shards. Out: the exchange
 * of a batch each way: the owner of a matrix gets its parts from the ranks of its own
 * copy of the model, which together hold all of it; then every rank of all copies gets
 * its part of the result. So the work is divided among all ranks, even if each of them
 * holds everything: this costs a fraction of a sum over copies, and saves time of the
 * longest products of the step. One rank computes a matrix on fixed tiles (rt_matrix.c),
 * so the bits depend on neither mesh nor owners. */
#include "rt_target.h"
#include "state/rt_matrix.h"

/* Lists the parts of the batch's matrices, between their owners and their holders. */
static void list(const Rt *rt, const RtOp *op, bool back, RtTransferFn *fn, void *ctx)
{
    const RtTrainer *t = rt->trainer;
    const RtBatch *b = op->of;
    for (int i = 0; i < b->n_matrices; i++) {
        const RtPlace p = rt_place_of(t, b, i);
        const int owner = p.matrix->owner;
        for (int k = 0; k < rt_group_ranks(op->group); k++) {
            const int holder = rt_group_rank(op->group, owner, k);
            const int part = rt_group_index(p.segment->within, holder);
            int64_t from, to;
            if (!rt_part_of(&p, part, &from, &to))
                continue;
            const int64_t held = rt_held_at(t, &p, part, from),
                          owned = rt_owned_at(t, b, &p, from);
            const RtTransfer x =
                back ? (RtTransfer){owner, holder, owned, held, to - from}
                     : (RtTransfer){holder, owner, held, owned, to - from};
            fn(ctx, &x);
        }
    }
}

static void to_owners(const Rt *rt, const RtOp *op, RtTransferFn *fn, void *ctx)
{
    list(rt, op, false, fn, ctx);
}

static void from_owners(const Rt *rt, const RtOp *op, RtTransferFn *fn, void *ctx)
{
    list(rt, op, true, fn, ctx);
}

static RtOp exchange(const RtTrainer *t, int batch)
{
    return (RtOp){.kind = RT_OP_EXCHANGE,
                  .dtype = t->param_dtype == RT_F64 ? RT_F64 : RT_F32, /* dtype of sums */
                  .subject = rt_subject_batch(t, batch),
                  .of = &t->batches[batch]};
}

/* The segments of a batch are of one kind: either all are cut over the ranks of a copy,
 * or none. */
void rt_to_owners_start(Rt *rt, int batch)
{
    const RtTrainer *t = rt->trainer;
    RtOp op = exchange(t, batch);
    op.group = rt_place_of(t, &t->batches[batch], 0).segment->within;
    op.transfers = to_owners;
    rt_collective_start(rt, RT_GATHER, op);
}

void rt_from_owners_start(Rt *rt, int batch)
{
    RtOp op = exchange(rt->trainer, batch);
    op.group = rt->trainer->all;
    op.transfers = from_owners;
    rt_collective_start(rt, RT_REDUCE, op);
}

void rt_wait_to_owners(Rt *rt, int batch)
{
    rt_collective_wait(rt, RT_GATHER, rt_subject_batch(rt->trainer, batch));
}

void rt_wait_from_owners(Rt *rt, int batch)
{
    rt_collective_wait(rt, RT_REDUCE, rt_subject_batch(rt->trainer, batch));
}
