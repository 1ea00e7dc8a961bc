/* SPDX-License-Identifier: MIT-0 */
/* rt_pull.c: what a rank does in a round of a collective: it copies from the ranks of its
 * group, or sums what they hold.
 *
 * In: an operation at the head of a queue (rt_comm.c), once every rank of its group has
 * published this round. Out: this rank's result, or its part of what the next round
 * reads; counted bytes. An all-reduce sums a slice in place, then copies the others'
 * slices. Sums over several nodes take one more round. */
#include "cpu/rt_cpu.h"

#include <string.h>

/* ---- sums over ranks ------------------------------------------------------------- */

/* out[elems] = the sum, over the ranks of the group (the operation's, or one hop's), of
 * the elements at `from` in their symmetric spaces. */
static void sum_ranks(const Rt *rt, const RtOp *op, RtGroup group, int64_t from,
                      char *out, int64_t elems)
{
    const int64_t item = (int64_t)rt_dtype_bytes(op->dtype);
    const int ranks = rt_group_ranks(group);
    RtSumFn *const sum = op->order == RT_ORDER_LIBRARY ? rt_sum_in_order : rt_sum_tree;
    if (ranks == 1) {
        if (out != rt->symmetric + from)
            memcpy(out, rt->symmetric + from, (size_t)(elems * item));
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < elems; at += RT_SUM_ELEMS) {
        const char *part[RT_MAX_RANKS];
        const int64_t n = elems - at < RT_SUM_ELEMS ? elems - at : RT_SUM_ELEMS;
        for (int k = 0; k < ranks; k++)
            part[k] = rt->peer[rt_group_rank(group, rt->rank, k)] + from + at * item;
        sum(op->dtype, out + at * item, part, ranks, n);
    }
}

/* ---- pulling --------------------------------------------------------------------- */

/* out[k * bytes ..] = bytes at `from + k * stride` of the group's k-th rank, possibly
 * fewer for the last; in place if out is this rank's own `from`. */
static void copy_from_all(Rt *rt, RtGroup group, char *out, int64_t from, int64_t stride,
                          int64_t bytes, int64_t total, int64_t *counter)
{
    enum { PIECE = 256 * 1024 };
    const int64_t pieces = (bytes + PIECE - 1) / PIECE;
    const int ranks = rt_group_ranks(group);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ranks * pieces; i++) {
        const int64_t k = i / pieces, at = i % pieces * PIECE;
        const char *source =
            rt->peer[rt_group_rank(group, rt->rank, (int)k)] + from + k * stride + at;
        int64_t end = at + PIECE < bytes ? at + PIECE : bytes;
        end = k * bytes + end < total ? end : total - k * bytes;
        if (at < end && source != out + k * bytes + at)
            memcpy(out + k * bytes + at, source, (size_t)(end - at));
    }
    for (int k = 0; k < ranks; k++) {
        const int64_t left = total - k * bytes;
        rt_count_bytes(rt, rt_group_rank(group, rt->rank, k),
                       left > bytes ? bytes
                       : left > 0   ? left
                                    : 0,
                       counter);
    }
}

static void gather(Rt *rt, const RtOp *op)
{
    const int64_t bytes = op->elems * (int64_t)rt_dtype_bytes(op->dtype);
    const int64_t stride = op->kind == RT_OP_GATHER_IN_PLACE ? bytes : 0;
    copy_from_all(rt, op->group, op->to, op->from, stride, bytes,
                  rt_group_ranks(op->group) * bytes, &rt->state->gathered_bytes);
}

static void sum_from_all(Rt *rt, const RtOp *op, RtGroup group, int64_t from, char *out,
                         int64_t elems)
{
    const int64_t bytes = elems * (int64_t)rt_dtype_bytes(op->dtype);
    sum_ranks(rt, op, group, from, out, elems);
    rt_count_group(rt, group, bytes, &rt->state->reduced_bytes);
}

/* The first hop: of parts of part_elems each, the last ones possibly short or empty. */
static void sum_in_node(Rt *rt, const RtHops *h, const RtOp *op, int64_t part_elems,
                        int64_t elems)
{
    const int64_t item = (int64_t)rt_dtype_bytes(op->dtype);
    const int mates = rt_group_ranks(h->near);
    for (int node = 0; node < rt_group_ranks(h->far); node++) {
        const int64_t first =
            (node * mates + rt_group_index(h->near, rt->rank)) * part_elems;
        const int64_t n = elems - first < part_elems ? elems - first : part_elems;
        if (n > 0) {
            const int64_t at = op->from + first * item;
            sum_from_all(rt, op, h->near, at, rt_symmetric(rt, at), n);
        }
    }
}

static void reduce_scatter(Rt *rt, const RtOp *op, int round)
{
    const int64_t bytes = op->elems * (int64_t)rt_dtype_bytes(op->dtype);
    const RtHops *h = rt_hops(rt, op);
    if (h != NULL && round == 0) {
        sum_in_node(rt, h, op, op->elems, op->elems * rt_group_ranks(op->group));
        return;
    }
    const int64_t from = op->from + rt_group_index(op->group, rt->rank) * bytes;
    sum_from_all(rt, op, h != NULL ? h->far : op->group, from, op->to, op->elems);
}

/* The size of a slice, a whole number of blocks: each rank sums one. The last ones may be
 * empty. */
static int64_t slice_elems(RtGroup group, int64_t elems)
{
    const int64_t blocks = (elems + RT_SUM_ELEMS - 1) / RT_SUM_ELEMS;
    return (blocks + rt_group_ranks(group) - 1) / rt_group_ranks(group) * RT_SUM_ELEMS;
}

static void all_reduce(Rt *rt, const RtOp *op, int round)
{
    const int64_t elems = op->elems, item = (int64_t)rt_dtype_bytes(op->dtype);
    const int64_t slice = slice_elems(op->group, elems);
    const int64_t first = rt_group_index(op->group, rt->rank) * slice;
    const int64_t mine = elems - first < slice ? elems - first : slice;
    const RtHops *h = rt_hops(rt, op);
    if (h != NULL && round == 0) {
        sum_in_node(rt, h, op, slice, elems);
        return;
    }
    if (round == (h != NULL)) {
        if (mine > 0) {
            const int64_t at = op->from + first * item;
            sum_from_all(rt, op, h != NULL ? h->far : op->group, at, rt_symmetric(rt, at),
                         mine);
        }
        return;
    }
    copy_from_all(rt, op->group, op->to, op->from, slice * item, slice * item,
                  elems * item, &rt->state->reduced_bytes);
}

static void copy(char *to, const char *from, int64_t bytes)
{
    enum { PIECE = 256 * 1024 };
    if (bytes <= PIECE) { /* a team of one would cost an allocation */
        memcpy(to, from, (size_t)bytes);
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < bytes; at += PIECE)
        memcpy(to + at, from + at, (size_t)(bytes - at < PIECE ? bytes - at : PIECE));
}

/* What an exchange has for this rank. */
typedef struct Taking {
    Rt *rt;
    const RtOp *op;
} Taking;

static void take(void *ctx, const RtTransfer *x)
{
    const Taking *taking = ctx;
    Rt *rt = taking->rt;
    const int64_t bytes = x->elems * (int64_t)rt_dtype_bytes(taking->op->dtype);
    if (x->to_rank != rt->rank)
        return;
    copy(rt_symmetric(rt, x->to), rt->peer[x->from_rank] + x->from, bytes);
    rt_count_bytes(rt, x->from_rank, bytes, &rt->state->matrix_bytes);
}

static bool is_gather(const RtOp *op)
{
    return op->kind == RT_OP_GATHER || op->kind == RT_OP_GATHER_IN_PLACE;
}

/* A reduction's last round moves nothing: by publishing it a rank says that it has
 * finished reading. When all have, every rank may write its gradient again. */
int rt_pull_rounds(const Rt *rt, const RtOp *op)
{
    const int hops = rt_hops(rt, op) != NULL ? 2 : 1;
    return is_gather(op)                  ? 1
           : op->kind == RT_OP_EXCHANGE   ? 2
           : op->kind == RT_OP_ALL_REDUCE ? hops + 2
                                          : hops + 1;
}

void rt_pull(Rt *rt, const RtOp *op, int round)
{
    if (!is_gather(op) && round + 1 == rt_pull_rounds(rt, op))
        return;
    switch (op->kind) {
    case RT_OP_GATHER:
    case RT_OP_GATHER_IN_PLACE:
        gather(rt, op);
        break;
    case RT_OP_REDUCE_SCATTER:
        reduce_scatter(rt, op, round);
        break;
    case RT_OP_ALL_REDUCE:
        all_reduce(rt, op, round);
        break;
    case RT_OP_EXCHANGE:
        op->transfers(rt, op, take, &(Taking){rt, op});
        break;
    }
}
