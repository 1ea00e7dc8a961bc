/* SPDX-License-Identifier: MIT-0 */
/* rt_comm.c: collectives between the ranks of one machine, through shared memory.
 *
 * In: starts and waits from the emitted step. Out: gathered buffers, sums in tree order.
 *
 * The protocol. Each of the two streams is a queue of the same operations on every rank,
 * each among a group of ranks: the rank's copy of the segment, the ranks with the same
 * part of it in all copies, or a smaller group within the copy. The groups of one
 * operation divide the ranks. The operation at the head of the queue is *published*: a
 * counter of this rank on this stream goes up, which says "my buffer may be read". It is
 * *pulled* once the counter of every rank of the group has come so far (counters count
 * operations of the stream, whatever their groups, so they compare): this rank copies or
 * adds what its group holds. Then it is complete, and only then is the next one of the
 * stream published. An all-reduce is two such rounds: each rank sums its slice of the
 * buffer in place (nobody else reads that slice of that buffer), then copies the others'.
 * Reductions end with a round that moves nothing: publishing it says "I have read".
 * Nothing else is exchanged; a counter has one writer.
 *
 * What follows from it, and what the generator's proof of the placement rests on:
 *
 *  1. An operation completes on no rank before all ranks of its group have published it,
 *     so all writes that came before its start on any of them (release at the counter)
 * are seen by the pull (acquire). Results depend on buffers alone: copies, and sums in a
 *     fixed tree.
 *  2. A rank's buffer is read by its group only between this rank's publication of the
 *     operation and the peer's completion. So when this rank completes a *later*
 * operation of the stream among the same group or a larger one, the peers, who published
 * that one, have completed this one, and do not touch the buffer any more. It may be
 *     written again then. The completion of a gather itself says nothing about slower
 *     peers; that of a reduction does, by its last round, and its gradient buffer may be
 *     written again at once.
 *  3. The same holds across streams and for the computation: whatever precedes the start
 *     of a collective C in a rank's program is over on all ranks of C's group once C
 *     completes on one of them. The norm's exchange, among all ranks, is such a C between
 *     the last read of the parameter shards and the optimizer's first write, as is the
 *     first gather between that write and its readers.
 *  4. No order of waits deadlocks. A rank that waits for anything drives both of its
 *     queues. Suppose ranks wait and nothing moves. Number the operations by the order of
 *     their starts, which is the same program on every rank; let k be the smallest that
 * is not complete on some rank r. A rank of r's group in k that has not started k waits
 *     for one that it started before, so for a smaller one, and those are complete on all
 *     ranks. So all of the group have started k; on its stream all before it are
 * complete, so it is at the head of all their queues and published: it completes on r,
 * against the assumption. (An exchange of the control areas counts as an operation among
 * all ranks whose start and wait are one.)
 *
 * Pulls run on this rank's OpenMP threads, in blocks that stay in the first cache. A rank
 * drives its queues when it starts, waits or passes a schedule point; no thread is kept
 * for it, since copying takes the cores that computing would. */
#include "rt_private.h"

#include <string.h>

static RtRankShared *shared_of(const Rt *rt, int rank)
{
    return &rt->state->shared->rank[rank];
}

/* ---- sums in tree order ------------------------------------------------------------ */

/* dst[i] = round(a[i] + b[i]); dst may be a. */
static void add_f32(float *dst, const float *a, const float *b, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        dst[i] = a[i] + b[i];
    }
}

static void add_f64(double *dst, const double *a, const double *b, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        dst[i] = a[i] + b[i];
    }
}

static void add_bf16(rt_bf16 *dst, const rt_bf16 *a, const rt_bf16 *b, int64_t n)
{
    int64_t i = 0;
    for (; i + RT_WF_LANES <= n; i += RT_WF_LANES) {
        rt_wf_store_bf16(dst + i, rt_wf_load_bf16(a + i) + rt_wf_load_bf16(b + i));
    }
    for (; i < n; i++) {
        dst[i] = rt_bf16_from_f32(rt_f32_from_bf16(a[i]) + rt_f32_from_bf16(b[i]));
    }
}

static void add_parts(RtDtype d, void *dst, const void *a, const void *b, int64_t n)
{
    if (d == RT_F32) {
        add_f32(dst, a, b, n);
    } else if (d == RT_F64) {
        add_f64(dst, a, b, n);
    } else {
        add_bf16(dst, a, b, n);
    }
}

/* A block of elements on its way up the tree: 8 KiB of double at most. */
enum { BLOCK_ELEMS = 1024, MAX_LEVELS = 6 };
typedef union Block {
    double f64[BLOCK_ELEMS];
    float f32[BLOCK_ELEMS];
    rt_bf16 bf16[BLOCK_ELEMS];
} Block;

/* out = the balanced tree over parts[0..count), count a power of two from 2 on:
 * neighbours first, every node rounded to the dtype. scratch: one block for each level
 * above the leaves. out may be one of the parts: it is written only once they are
 * read. */
static void tree_block(RtDtype d, void *out, const char *const *parts, int count,
                       int64_t n, Block *scratch)
{
    if (count == 2) {
        add_parts(d, out, parts[0], parts[1], n);
        return;
    }
    tree_block(d, scratch, parts, count / 2, n, scratch + 2);
    tree_block(d, scratch + 1, parts + count / 2, count / 2, n, scratch + 2);
    add_parts(d, out, scratch, scratch + 1, n);
}

/* out[elems] = tree sum over the group's ranks of the bytes at `from` in their symmetric
 * spaces. */
static void tree_sum(const Rt *rt, RtGroup group, int64_t from, char *out, int64_t elems)
{
    const RtDtype d = rt->trainer->reduce_dtype;
    const int64_t item = (int64_t)rt_dtype_bytes(d);
    if (group.ranks == 1) {
        if (out != rt->symmetric + from) {
            memcpy(out, rt->symmetric + from, (size_t)(elems * item));
        }
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < elems; at += BLOCK_ELEMS) {
        Block scratch[2 * MAX_LEVELS];
        const char *part[RT_MAX_RANKS];
        const int64_t n = elems - at < BLOCK_ELEMS ? elems - at : BLOCK_ELEMS;
        for (int k = 0; k < group.ranks; k++) {
            part[k] = rt->peer[rt_group_rank(group, rt->rank, k)] + from + at * item;
        }
        tree_block(d, out + at * item, part, group.ranks, n, scratch);
    }
}

/* ---- pulling ----------------------------------------------------------------------- */

/* Bytes that this rank reads from another: to a counter of its own kind, or, when the
 * other is of another copy of the model, to that of the mesh's replicate axis. */
static void count_bytes(Rt *rt, int peer, int64_t bytes, int64_t *counter)
{
    const RtTrainer *t = rt->trainer;
    const int copy = t->world_size / (t->replicate > 1 ? t->replicate : 1);
    if (peer != rt->rank) {
        *(peer / copy == rt->rank / copy ? counter : &rt->state->replicate_bytes) +=
            bytes;
    }
}

/* out[k * bytes ..] = bytes at `from + k * stride` of the group's k-th rank, the last one
 * perhaps shorter; in place where out is this rank's own `from`. */
static void copy_from_all(Rt *rt, RtGroup group, char *out, int64_t from, int64_t stride,
                          int64_t bytes, int64_t total, int64_t *counter)
{
    enum { PIECE = 256 * 1024 };
    const int64_t pieces = (bytes + PIECE - 1) / PIECE;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < group.ranks * pieces; i++) {
        const int64_t k = i / pieces, at = i % pieces * PIECE;
        const char *source =
            rt->peer[rt_group_rank(group, rt->rank, (int)k)] + from + k * stride + at;
        int64_t end = at + PIECE < bytes ? at + PIECE : bytes;
        end = k * bytes + end < total ? end : total - k * bytes;
        if (at < end && source != out + k * bytes + at) {
            memcpy(out + k * bytes + at, source, (size_t)(end - at));
        }
    }
    for (int k = 0; k < group.ranks; k++) {
        const int64_t left = total - k * bytes;
        count_bytes(rt, rt_group_rank(group, rt->rank, k),
                    left > bytes ? bytes
                    : left > 0   ? left
                                 : 0,
                    counter);
    }
}

static void gather(Rt *rt, const RtOp *op)
{
    const RtSegment *s = &rt->trainer->segments[op->segment];
    const int64_t bytes =
        s->elems / op->group.ranks * (int64_t)rt_dtype_bytes(rt->trainer->param_dtype);
    copy_from_all(rt, op->group, rt_local(rt, op->to), op->from, 0, bytes,
                  op->group.ranks * bytes, &rt->state->gathered_bytes);
}

static void sum_from_all(Rt *rt, RtGroup group, int64_t from, char *out, int64_t elems)
{
    const int64_t bytes = elems * (int64_t)rt_dtype_bytes(rt->trainer->reduce_dtype);
    tree_sum(rt, group, from, out, elems);
    for (int k = 0; k < group.ranks; k++) {
        count_bytes(rt, rt_group_rank(group, rt->rank, k), bytes,
                    &rt->state->reduced_bytes);
    }
}

static void reduce_scatter(Rt *rt, const RtOp *op)
{
    const RtSegment *s = &rt->trainer->segments[op->segment];
    const int64_t bytes =
        s->shard_elems * (int64_t)rt_dtype_bytes(rt->trainer->reduce_dtype);
    const int64_t from = op->from + rt_group_index(op->group, rt->rank) * bytes;
    char *to = rt->world_size > s->shards ? rt_symmetric(rt, op->to) /* copies read it */
                                          : rt_local(rt, op->to);
    sum_from_all(rt, op->group, from, to, s->shard_elems);
}

/* Of a slice, a whole number of blocks: each rank sums one. The last ones may be
 * empty. */
static int64_t slice_elems(RtGroup group, int64_t elems)
{
    const int64_t blocks = (elems + BLOCK_ELEMS - 1) / BLOCK_ELEMS;
    return (blocks + group.ranks - 1) / group.ranks * BLOCK_ELEMS;
}

static void all_reduce(Rt *rt, const RtOp *op, int round)
{
    const int64_t elems = rt->trainer->segments[op->segment].shard_elems;
    const int64_t item = (int64_t)rt_dtype_bytes(rt->trainer->reduce_dtype);
    const int64_t slice = slice_elems(op->group, elems);
    const int64_t first = rt_group_index(op->group, rt->rank) * slice;
    const int64_t mine = elems - first < slice ? elems - first : slice;
    if (round == 0) {
        if (mine > 0) {
            const int64_t at = op->from + first * item;
            sum_from_all(rt, op->group, at, rt_symmetric(rt, at), mine);
        }
        return;
    }
    copy_from_all(rt, op->group, rt_symmetric(rt, op->from), op->from, slice * item,
                  slice * item, elems * item, &rt->state->reduced_bytes);
}

/* A reduction's last round moves nothing: by publishing it a rank says that it has read,
 * and when all have, every rank may write its gradient again. */
static int rounds_of(const RtOp *op)
{
    return op->kind == RT_OP_ALL_REDUCE ? 3 : op->kind == RT_OP_REDUCE_SCATTER ? 2 : 1;
}

static void pull(Rt *rt, const RtOp *op, int round)
{
    if (op->kind != RT_OP_GATHER && round + 1 == rounds_of(op)) {
        return;
    }
    switch (op->kind) {
    case RT_OP_GATHER:
        gather(rt, op);
        break;
    case RT_OP_REDUCE_SCATTER:
        reduce_scatter(rt, op);
        break;
    case RT_OP_ALL_REDUCE:
        all_reduce(rt, op, round);
        break;
    }
}

/* ---- the queues -------------------------------------------------------------------- */

static void publish(Rt *rt, int stream, uint64_t count)
{
    atomic_store(&shared_of(rt, rt->rank)->published[stream], count);
    rt_ring(rt->state->shared);
}

static RtGroup all_ranks(const Rt *rt)
{
    return (RtGroup){rt->world_size, 1};
}

static bool all_published(const Rt *rt, RtGroup group, int stream, uint64_t count)
{
    for (int k = 0; k < group.ranks; k++) {
        if (atomic_load_explicit(
                &shared_of(rt, rt_group_rank(group, rt->rank, k))->published[stream],
                memory_order_acquire) < count) {
            return false;
        }
    }
    return true;
}

static const RtOp *head_of(const RtQueue *q)
{
    return &q->op[q->completed % RT_QUEUE];
}

/* Does what can be done on a stream now; true if anything was. */
static bool progress(Rt *rt, int stream)
{
    RtQueue *q = &rt->state->queue[stream];
    bool moved = false;
    while (q->completed < q->started) {
        const RtOp *op = head_of(q);
        if (!q->published) {
            publish(rt, stream, q->rounds + 1);
            q->published = true;
        }
        if (!all_published(rt, op->group, stream, q->rounds + 1)) {
            return moved;
        }
        pull(rt, op, q->round);
        q->rounds++;
        q->published = false;
        if (++q->round == rounds_of(op)) {
            q->round = 0;
            q->completed++;
        }
        moved = true;
    }
    return moved;
}

static bool progress_both(Rt *rt)
{
    const bool gathered = progress(rt, RT_GATHER), reduced = progress(rt, RT_REDUCE);
    return gathered || reduced;
}

/* Could a queue go on? What a waiting rank looks at before it sleeps. */
static bool queue_ready(const Rt *rt, int stream)
{
    const RtQueue *q = &rt->state->queue[stream];
    return q->completed < q->started &&
           all_published(rt, head_of(q)->group, stream, q->rounds + 1);
}

static bool any_queue_ready(const void *ctx)
{
    return queue_ready(ctx, RT_GATHER) || queue_ready(ctx, RT_REDUCE);
}

static void wait_begin(Rt *rt, int stream, uint64_t count, int segment, RtGroup group)
{
    RtRankShared *me = shared_of(rt, rt->rank);
    atomic_store_explicit(&me->waiting_ranks, group.ranks, memory_order_relaxed);
    atomic_store_explicit(&me->waiting_stride, group.stride, memory_order_relaxed);
    atomic_store_explicit(&me->waiting_count, count, memory_order_relaxed);
    atomic_store_explicit(&me->waiting_segment, segment, memory_order_relaxed);
    atomic_store_explicit(&me->waiting, stream, memory_order_release);
}

static void wait_end(Rt *rt)
{
    RtRankShared *me = shared_of(rt, rt->rank);
    atomic_store_explicit(&me->waiting, -1, memory_order_relaxed);
    atomic_store_explicit(&me->moved_ns, rt_clock_ns(), memory_order_relaxed);
}

/* Until so many operations of the stream are complete. */
static void drain(Rt *rt, int stream, uint64_t until)
{
    const RtQueue *q = &rt->state->queue[stream];
    progress_both(rt);
    if (q->completed >= until) {
        return;
    }
    const double start = rt_clock();
    wait_begin(rt, stream, q->rounds + 1, head_of(q)->segment, head_of(q)->group);
    for (int tries = 0; q->completed < until; tries++) {
        if (progress_both(rt)) {
            wait_begin(rt, stream, q->rounds + 1, head_of(q)->segment, head_of(q)->group);
            tries = 0;
        } else {
            rt_pause(rt, tries, any_queue_ready, rt);
        }
    }
    wait_end(rt);
    rt->state->wait_seconds += rt_clock() - start;
}

static void start(Rt *rt, int stream, RtOp op)
{
    RtQueue *q = &rt->state->queue[stream];
    if (q->started - q->completed == RT_QUEUE) {
        drain(rt, stream, q->completed + 1);
    }
    q->op[q->started++ % RT_QUEUE] = op;
    progress(rt, stream);
}

void rt_all_gather_start(Rt *rt, int segment, int64_t out)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    start(rt, RT_GATHER,
          (RtOp){RT_OP_GATHER, {s->shards, 1}, segment, s->param_shard, out});
}

void rt_keep(Rt *rt, int segment, int64_t gathered, int64_t kept, int ranks)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    const int64_t bytes =
        s->elems / ranks * (int64_t)rt_dtype_bytes(rt->trainer->param_dtype);
    memcpy(rt_symmetric(rt, kept), rt_local(rt, gathered + rt->rank % ranks * bytes),
           (size_t)bytes);
}

void rt_kept_gather_start(Rt *rt, int segment, int64_t kept, int64_t out, int ranks)
{
    start(rt, RT_GATHER, (RtOp){RT_OP_GATHER, {ranks, 1}, segment, kept, out});
}

void rt_reduce_scatter_start(Rt *rt, int segment, int64_t grad, int64_t result)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    start(rt, RT_REDUCE,
          (RtOp){RT_OP_REDUCE_SCATTER, {s->shards, 1}, segment, grad, result});
}

void rt_all_reduce_start(Rt *rt, int segment, int64_t grad)
{
    const int shards = rt->trainer->segments[segment].shards;
    start(
        rt, RT_REDUCE,
        (RtOp){RT_OP_ALL_REDUCE, {rt->world_size / shards, shards}, segment, grad, grad});
}

void rt_wait(Rt *rt, int stream, int ticket)
{
    drain(rt, stream, rt->state->queue[stream].step_base + (uint64_t)ticket + 1);
}

void rt_comm_step_end(Rt *rt)
{
    for (int s = 0; s < 2; s++) {
        RtQueue *q = &rt->state->queue[s];
        drain(rt, s, q->started);
        q->step_base = q->started;
    }
}

void rt_enter(Rt *rt, int place)
{
    RtRankShared *me = shared_of(rt, rt->rank);
    atomic_store_explicit(&me->place, place, memory_order_relaxed);
    atomic_store_explicit(&me->moved_ns, rt_clock_ns(), memory_order_relaxed);
    if (atomic_load_explicit(&rt->state->shared->abort, memory_order_relaxed) != 0) {
        rt_leave(rt);
    }
}

void rt_at(Rt *rt, int place)
{
    progress_both(rt);
    rt_enter(rt, place);
}

/* ---- small exchanges through the control area -------------------------------------- */

typedef struct Turnout {
    const Rt *rt;
    bool finished; /* counts readers, or writers */
    uint64_t count;
} Turnout;

static bool all_turned_out(const Turnout *t)
{
    if (!t->finished) {
        return all_published(t->rt, all_ranks(t->rt), RT_CONTROL, t->count);
    }
    for (int r = 0; r < t->rt->world_size; r++) {
        if (atomic_load_explicit(&shared_of(t->rt, r)->finished, memory_order_acquire) <
            t->count) {
            return false;
        }
    }
    return true;
}

static bool exchange_ready(const void *ctx)
{
    const Turnout *t = ctx;
    return all_turned_out(t) || any_queue_ready(t->rt);
}

static void exchange_wait(Rt *rt, bool finished, uint64_t count)
{
    const Turnout t = {rt, finished, count};
    if (all_turned_out(&t)) {
        return;
    }
    const double start = rt_clock();
    wait_begin(rt, RT_CONTROL, count, -1, all_ranks(rt));
    for (int tries = 0; !all_turned_out(&t); tries++) {
        if (progress_both(rt)) {
            tries = 0;
        } else {
            rt_pause(rt, tries, exchange_ready, &t);
        }
    }
    wait_end(rt);
    rt->state->wait_seconds += rt_clock() - start;
}

void rt_exchange_begin(Rt *rt)
{
    exchange_wait(rt, true, rt->state->exchanges);
}

void rt_exchange_publish(Rt *rt)
{
    publish(rt, RT_CONTROL, ++rt->state->exchanges);
    exchange_wait(rt, false, rt->state->exchanges);
}

void rt_exchange_end(Rt *rt)
{
    atomic_store(&shared_of(rt, rt->rank)->finished, rt->state->exchanges);
    rt_ring(rt->state->shared);
}

/* ---- merging leaves ---------------------------------------------------------------- */

void rt_merge(Rt *rt, void *node, void *partials, int64_t elems, int64_t partial_elems,
              int64_t round, bool last)
{
    const RtDtype d = rt->trainer->reduce_dtype;
    const int64_t item = (int64_t)rt_dtype_bytes(d);
    const int levels = __builtin_ctzll(~(unsigned long long)round); /* trailing ones */
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < elems; at += BLOCK_ELEMS) {
        const int64_t n = elems - at < BLOCK_ELEMS ? elems - at : BLOCK_ELEMS;
        char *v = (char *)node + at * item;
        char *p = (char *)partials + at * item;
        for (int l = 0; l < levels; l++) {
            add_parts(d, v, p + l * partial_elems * item, v, n);
        }
        if (!last) {
            memcpy(p + levels * partial_elems * item, v, (size_t)(n * item));
        }
    }
}
