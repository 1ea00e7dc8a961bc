/* SPDX-License-Identifier: MIT-0 */
/* rt_tree.c: collectives between ranks, over any transport (NCCL, or the loopback). In:
 * their records. Out: exchanges and ordered additions on the collective's stream.
 *
 * A sum has the order in its record. For the tree, every rank sends the others their
 * parts (a staged all-to-all, slice by slice into a planned buffer), then a kernel adds
 * them node by node; it takes two hops if the tables say so (RtHops). In the library's
 * order the transport sums.
 *
 * A sum of several slices uses the buffer by halves: while a kernel on a stream of its
 * own adds one slice, the next one arrives in the other half. A slice is exchanged when
 * its half has been added, and the collectives' stream goes on when all have been. */
#include "cuda/rt_gpu.h"

const RtTransport *rt_transport;
static cudaEvent_t arrived, added[2]; /* of a slice; by half */

void rt_tree_open(Rt *rt)
{
    cudaEvent_t *events[] = {&arrived, &added[0], &added[1]};
    for (int i = 0; i < 3; i++)
        RT_CUDA_CALL(rt, cudaEventCreateWithFlags(events[i], cudaEventDisableTiming));
}

/* ---- sums ------------------------------------------------------------------------ */

/* Parts of a flat buffer: part k of the group's ranks starts at k * stride and has
 * `elems` elements, but none at or beyond `total`. */
typedef struct Parts {
    RtGroup group;
    char *base;
    int64_t stride, elems, total;
} Parts;

/* Elements of part k between at and at + slice. */
static int64_t part_elems(const Parts *p, int k, int64_t at, int64_t slice)
{
    int64_t n = p->total - k * p->stride;
    n = (n < p->elems ? n : p->elems) - at;
    return n < 0 ? 0 : n < slice ? n : slice;
}

/* A sum in progress: its dtype and stream, its limit (RtOp.ctas). */
typedef struct Sum {
    Rt *rt;
    int stream;
    int64_t item_bytes;
    int ctas;
} Sum;

/* A slice of a sum: elements from `at` on of each part. */
typedef struct Slice {
    const Parts *parts;
    char *staging;
    int64_t at, elems;
} Slice;

static void exchange_slice(const Sum *s, const Slice *l)
{
    Rt *rt = s->rt;
    const Parts *p = l->parts;
    const int64_t item = s->item_bytes;
    const int mine = rt_group_index(p->group, rt->rank), ranks = rt_group_ranks(p->group);
    const int64_t own = part_elems(p, mine, l->at, l->elems);
    RtParcel parcel[RT_MAX_RANKS];
    for (int k = 0; k < ranks; k++) {
        parcel[k] = (RtParcel){k, p->base + (k * p->stride + l->at) * item,
                               part_elems(p, k, l->at, l->elems) * item,
                               l->staging + k * l->elems * item, own * item};
    }
    rt_transport->exchange(rt, s->stream, p->group, s->ctas, parcel, ranks,
                           l->elems * item);
}

static void add_slice(const Sum *s, const Slice *l, int stream, char *out)
{
    const Parts *p = l->parts;
    const int64_t item = s->item_bytes;
    const int mine = rt_group_index(p->group, s->rt->rank);
    const int64_t own = part_elems(p, mine, l->at, l->elems);
    const RtRankParts parts = {.own = p->base + (mine * p->stride + l->at) * item,
                               .staging = l->staging,
                               .stride = l->elems,
                               .mine = mine,
                               .ranks = rt_group_ranks(p->group)};
    if (own > 0) {
        rt_add_parts(s->rt, rt_gpu.stream[stream], &parts, own, out + l->at * item,
                     s->ctas);
    }
}

static void sum_by_halves(const Sum *s, const Parts *p, int64_t slice, char *out)
{
    Rt *rt = s->rt;
    const cudaStream_t moves = rt_gpu.stream[s->stream], adds = rt_gpu.stream[RT_ADDS];
    const int64_t half_bytes = slice * rt_group_ranks(p->group) * s->item_bytes;
    char *staging = rt_symmetric(rt, rt->trainer->staging_offset);
    int half = 0;
    for (int64_t at = 0; at < p->elems; at += slice, half ^= 1) {
        const Slice l = {p, staging + half * half_bytes, at, slice};
        if (at >= 2 * slice)
            RT_CUDA_CALL(rt, cudaStreamWaitEvent(moves, added[half], 0));
        exchange_slice(s, &l);
        RT_CUDA_CALL(rt, cudaEventRecord(arrived, moves));
        RT_CUDA_CALL(rt, cudaStreamWaitEvent(adds, arrived, 0));
        add_slice(s, &l, RT_ADDS, out);
        RT_CUDA_CALL(rt, cudaEventRecord(added[half], adds));
    }
    RT_CUDA_CALL(rt, cudaStreamWaitEvent(moves, added[half ^ 1], 0));
}

/* out = the tree sum over the group of this rank's part; out may be that part of our own
 * buffer. */
static void sum_parts(const Sum *s, const Parts *p, char *out)
{
    Rt *rt = s->rt;
    const RtTrainer *t = rt->trainer;
    const int mine = rt_group_index(p->group, rt->rank), ranks = rt_group_ranks(p->group);
    const int64_t grains = t->staging_bytes / (ranks * s->item_bytes) / RT_GRAIN_ELEMS;
    if (p->elems > grains * RT_GRAIN_ELEMS && grains > 1) {
        sum_by_halves(s, p, grains / 2 * RT_GRAIN_ELEMS, out);
    } else {
        const int64_t slice = grains * RT_GRAIN_ELEMS;
        for (int64_t at = 0; at < p->elems; at += slice) {
            const Slice l = {p, rt_symmetric(rt, t->staging_offset), at, slice};
            exchange_slice(s, &l);
            add_slice(s, &l, s->stream, out);
        }
    }
    rt_count_group(rt, p->group, part_elems(p, mine, 0, p->elems) * s->item_bytes,
                   &rt->state->reduced_bytes);
}

/* out = the sum over the group of this rank's part of `elems` at `from`, cut into equal
 * parts. */
static void sum_group(const Sum *s, const RtOp *op, int64_t part, int64_t elems,
                      char *out)
{
    const Rt *rt = s->rt;
    const int64_t item = s->item_bytes;
    char *from = rt_symmetric(rt, op->from);
    const RtHops *h = rt_hops(rt, op);
    if (h == NULL) {
        const Parts p = {op->group, from, part, part, elems};
        sum_parts(s, &p, out);
        return;
    }
    const int near = rt_group_index(h->near, rt->rank), mates = rt_group_ranks(h->near);
    for (int node = 0; node < rt_group_ranks(h->far); node++) {
        const int64_t first = node * mates * part;
        const Parts p = {h->near, from + first * item, part, part, elems - first};
        sum_parts(s, &p, p.base + near * part * item);
    }
    const Parts p = {h->far, from + near * part * item, mates * part, part,
                     elems - near * part};
    sum_parts(s, &p, out);
}

/* After each rank has its part of the sum, copies it to the others. */
static void spread(const Sum *s, const Parts *p)
{
    Rt *rt = s->rt;
    const int64_t item = s->item_bytes;
    const int mine = rt_group_index(p->group, rt->rank);
    const int64_t own = part_elems(p, mine, 0, p->elems);
    RtParcel parcel[RT_MAX_RANKS];
    const int ranks = rt_group_ranks(p->group);
    for (int k = 0; k < ranks; k++) {
        const int64_t theirs = part_elems(p, k, 0, p->elems);
        parcel[k] = (RtParcel){k, p->base + mine * p->stride * item, own * item,
                               p->base + k * p->stride * item, theirs * item};
        rt_count_bytes(rt, rt_group_rank(p->group, rt->rank, k), theirs * item,
                       &rt->state->reduced_bytes);
    }
    rt_transport->exchange(rt, s->stream, p->group, s->ctas, parcel, ranks,
                           p->elems * item);
}

static void all_reduce(const Sum *s, const RtOp *op)
{
    const int ranks = rt_group_ranks(op->group);
    /* In whole grains; the last slices may be short, or empty. */
    const int64_t grains = (op->elems + RT_GRAIN_ELEMS - 1) / RT_GRAIN_ELEMS;
    const int64_t slice = (grains + ranks - 1) / ranks * RT_GRAIN_ELEMS;
    const int64_t first = rt_group_index(op->group, s->rt->rank) * slice;
    const Parts p = {op->group, op->to, slice, slice, op->elems};
    sum_group(s, op, slice, op->elems, p.base + first * s->item_bytes);
    spread(s, &p);
}

/* The kernels add one dtype. */
static void sum(Rt *rt, int stream, const RtOp *op)
{
    const Sum s = {rt, stream, (int64_t)rt_dtype_bytes(op->dtype), op->ctas};
    if (op->dtype != rt->trainer->reduce_dtype)
        rt_fail(rt, RT_EXIT_ERROR, "a sum of another dtype: a bug");
    if (op->order == RT_ORDER_TREE && op->kind == RT_OP_ALL_REDUCE) {
        all_reduce(&s, op);
    } else if (op->order == RT_ORDER_TREE) {
        sum_group(&s, op, op->elems, op->elems * rt_group_ranks(op->group), op->to);
    } else {
        rt_transport->sum(rt, stream, op);
        if (op->kind == RT_OP_REDUCE_SCATTER)
            rt_count_group(rt, op->group, op->elems * s.item_bytes,
                           &rt->state->reduced_bytes);
    }
}

/* ---- all collectives ------------------------------------------------------------- */

void rt_execute(Rt *rt, int stream, const RtOp *op)
{
    switch (op->kind) {
    case RT_OP_GATHER:
    case RT_OP_GATHER_IN_PLACE:
        rt_transport->gather(rt, stream, op);
        rt_count_group(rt, op->group, op->elems * (int64_t)rt_dtype_bytes(op->dtype),
                       &rt->state->gathered_bytes);
        break;
    case RT_OP_REDUCE_SCATTER:
    case RT_OP_ALL_REDUCE:
        sum(rt, stream, op);
        break;
    case RT_OP_EXCHANGE:
        rt_exchange(rt, stream, op);
        break;
    }
}
