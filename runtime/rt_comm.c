/* SPDX-License-Identifier: MIT-0 */
/* rt_comm.c: collectives between the ranks of one machine, through shared memory.
 *
 * In: starts and waits from the emitted step. Out: gathered buffers, tree-ordered sums.
 *
 * The protocol. Each of the two streams is a queue. The operation at its head is *published*
 * (a counter of this rank goes up: my buffer may be read), then *pulled* once every peer has
 * published the same operation (I copy or add what peers hold), then complete; only then is
 * the next one of the stream published. So when an operation completes here, every peer has
 * completed all earlier ones of that stream: this is the fact by which the generator lets a
 * buffer be written again without any closing handshake.
 *
 * No order of waits deadlocks: a rank that waits for anything drives both of its queues. Take
 * the rank whose head operation, in the program's order of starts, is the earliest of all
 * heads. All peers have started it or will before they wait for anything later, and the heads
 * of their queues are not earlier, so they publish it; hence it completes. */
#define _GNU_SOURCE
#include "rt_private.h"

#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double rt_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void rt_fail(const Rt *rt, int code, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "[rank %d] error: %s\n", rt->rank, text);
    fflush(NULL);
    atomic_store(&rt->state->shared->abort, code);
    _exit(code);
}

static RtRankShared *shared_of(const Rt *rt, int rank)
{
    return &rt->state->shared->rank[rank];
}

static void moved(const Rt *rt)
{
    RtRankShared *me = shared_of(rt, rt->rank);
    const int64_t now = clock_ns();
    atomic_store_explicit(&me->moved_ns, now, memory_order_relaxed);
    atomic_store_explicit(&me->alive_ns, now, memory_order_relaxed);
}

void rt_at(Rt *rt, int place)
{
    atomic_store_explicit(&shared_of(rt, rt->rank)->place, place, memory_order_relaxed);
    moved(rt);
}

/* ---- sums in tree order ---------------------------------------------------------------------- */

/* dst[i] = round(a[i] + b[i]); dst may be a. */
static void add_f32(float *dst, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = a[i] + b[i];
}

static void add_f64(double *dst, const double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = a[i] + b[i];
}

static void add_bf16(rt_bf16 *dst, const rt_bf16 *a, const rt_bf16 *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = rt_bf16_from_f32(rt_f32_from_bf16(a[i]) + rt_f32_from_bf16(b[i]));
}

static void add_parts(RtDtype d, void *dst, const void *a, const void *b, int64_t n)
{
    if (d == RT_F32)
        add_f32(dst, a, b, n);
    else if (d == RT_F64)
        add_f64(dst, a, b, n);
    else
        add_bf16(dst, a, b, n);
}

/* A block of the sum over parts[lo..lo+count) into out: the balanced tree over parts, low bits
 * first, every node rounded to the dtype. scratch: one block for each level. */
enum { BLOCK_ELEMS = 1024, MAX_LEVELS = 7 };
typedef union { double f64[BLOCK_ELEMS]; float f32[BLOCK_ELEMS]; rt_bf16 bf16[BLOCK_ELEMS]; } Block;

static const void *tree_block(RtDtype d, char *const *parts, int64_t offset, int lo, int count,
                              int64_t n, Block *scratch)
{
    if (count == 1)
        return parts[lo] + offset;
    const int half = count / 2;
    const void *a = tree_block(d, parts, offset, lo, half, n, scratch + 1);
    if (half == 1) {
        add_parts(d, scratch, a, parts[lo + 1] + offset, n);
        return scratch;
    }
    memcpy(scratch, a, (size_t)n * rt_dtype_bytes(d));
    const void *b = tree_block(d, parts, offset, lo + half, half, n, scratch + 1);
    add_parts(d, scratch, scratch, b, n);
    return scratch;
}

/* out[elems] = tree sum over all ranks of the bytes at `from` in their symmetric spaces. */
static void tree_sum(const Rt *rt, int64_t from, char *out, int64_t elems)
{
    const RtDtype d = rt->trainer->reduce_dtype;
    const int64_t item = (int64_t)rt_dtype_bytes(d);
    char *parts[RT_MAX_RANKS];
    for (int r = 0; r < rt->world_size; r++)
        parts[r] = rt->peer[r] + from;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < elems; at += BLOCK_ELEMS) {
        Block scratch[MAX_LEVELS];
        const int64_t n = elems - at < BLOCK_ELEMS ? elems - at : BLOCK_ELEMS;
        const void *sum = tree_block(d, parts, at * item, 0, rt->world_size, n, scratch);
        memcpy(out + at * item, sum, (size_t)(n * item));
    }
}

/* ---- the queues --------------------------------------------------------------------------------- */

static void pull(Rt *rt, const RtOp *op)
{
    const RtTrainer *t = rt->trainer;
    const RtSegment *s = &t->segments[op->segment];
    RtState *st = rt->state;
    if (op->kind == RT_OP_GATHER) {
        const int64_t bytes = s->shard_elems * (int64_t)rt_dtype_bytes(t->param_dtype);
        char *out = rt_local(rt, op->to);
        for (int r = 0; r < rt->world_size; r++)
            memcpy(out + r * bytes, rt->peer[r] + s->param_shard, (size_t)bytes);
        st->gathered_bytes += (rt->world_size - 1) * bytes;
        return;
    }
    const int64_t item = (int64_t)rt_dtype_bytes(t->reduce_dtype);
    const bool all = op->kind == RT_OP_ALL_REDUCE;
    const int64_t elems = all ? s->elems : s->shard_elems;
    const int64_t first = all ? 0 : rt->rank * s->shard_elems;
    tree_sum(rt, op->from + first * item, rt_local(rt, op->to), elems);
    st->reduced_bytes += (rt->world_size - 1) * elems * item;
}

static bool all_published(const Rt *rt, int stream, uint64_t count)
{
    for (int r = 0; r < rt->world_size; r++)
        if (atomic_load_explicit(&shared_of(rt, r)->published[stream], memory_order_acquire) <
            count)
            return false;
    return true;
}

/* Does what can be done on a stream now; true if anything was. */
static bool progress(Rt *rt, int stream)
{
    RtQueue *q = &rt->state->queue[stream];
    bool any = false;
    while (q->completed < q->started) {
        RtRankShared *me = shared_of(rt, rt->rank);
        if (!q->published) {
            atomic_store_explicit(&me->published[stream], q->completed + 1,
                                  memory_order_release);
            q->published = true;
        }
        if (!all_published(rt, stream, q->completed + 1))
            return any;
        pull(rt, &q->op[q->completed % RT_QUEUE]);
        q->completed++;
        q->published = false;
        atomic_store_explicit(&me->finished[stream], q->completed, memory_order_release);
        any = true;
    }
    return any;
}

/* Both streams, always both. */
static bool progress_all(Rt *rt)
{
    const bool gathered = progress(rt, RT_GATHER);
    const bool reduced = progress(rt, RT_REDUCE);
    return gathered || reduced;
}

/* Between tries: spin briefly, then give the core away. Leaves when another rank failed. */
static void pause_waiting(const Rt *rt, int tries)
{
    if (atomic_load_explicit(&rt->state->shared->abort, memory_order_relaxed))
        _exit(RT_EXIT_ERROR); /* who failed has said why */
    if (tries < 100) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    } else if (tries < 2000) {
        sched_yield();
    } else {
        const struct timespec nap = {0, 100000};
        nanosleep(&nap, NULL);
        atomic_store_explicit(&shared_of(rt, rt->rank)->alive_ns, clock_ns(),
                              memory_order_relaxed);
    }
}

static void wait_begin(Rt *rt, int64_t segment)
{
    RtRankShared *me = shared_of(rt, rt->rank);
    atomic_store_explicit(&me->waiting_segment, segment, memory_order_relaxed);
    atomic_store_explicit(&me->waiting, 1, memory_order_relaxed);
}

static void wait_end(Rt *rt)
{
    RtRankShared *me = shared_of(rt, rt->rank);
    atomic_store_explicit(&me->waiting, 0, memory_order_relaxed);
    moved(rt);
}

static void drain(Rt *rt, int stream, uint64_t until)
{
    RtQueue *q = &rt->state->queue[stream];
    progress(rt, RT_GATHER);
    progress(rt, RT_REDUCE);
    if (q->completed >= until)
        return;
    const double start = rt_clock();
    wait_begin(rt, q->op[q->completed % RT_QUEUE].segment);
    for (int tries = 0; q->completed < until; tries++) {
        if (progress_all(rt))
            tries = 0;
        else
            pause_waiting(rt, tries);
    }
    wait_end(rt);
    rt->state->wait_seconds += rt_clock() - start;
}

static void start(Rt *rt, int stream, RtOp op)
{
    RtQueue *q = &rt->state->queue[stream];
    if (q->started - q->completed == RT_QUEUE)
        drain(rt, stream, q->completed + 1);
    q->op[q->started++ % RT_QUEUE] = op;
    progress(rt, stream);
}

void rt_all_gather_start(Rt *rt, int segment, int64_t out)
{
    start(rt, RT_GATHER, (RtOp){RT_OP_GATHER, segment, 0, out});
}

void rt_reduce_scatter_start(Rt *rt, int segment, int64_t grad, int64_t result)
{
    start(rt, RT_REDUCE, (RtOp){RT_OP_REDUCE_SCATTER, segment, grad, result});
}

void rt_all_reduce_start(Rt *rt, int segment, int64_t grad, int64_t result)
{
    start(rt, RT_REDUCE, (RtOp){RT_OP_ALL_REDUCE, segment, grad, result});
}

void rt_wait(Rt *rt, int stream, int ticket)
{
    drain(rt, stream, rt->state->queue[stream].step_base + (uint64_t)ticket + 1);
}

void rt_comm_step_end(Rt *rt)
{
    for (int s = 0; s < 2; s++) {
        drain(rt, s, rt->state->queue[s].started);
        rt->state->queue[s].step_base = rt->state->queue[s].started;
    }
}

/* ---- small exchanges through the control area ---------------------------------------------------- */

static void control_wait(Rt *rt, bool finished, uint64_t count)
{
    wait_begin(rt, -1);
    for (int r = 0, tries = 0; r < rt->world_size;) {
        RtRankShared *p = shared_of(rt, r);
        const uint64_t n = atomic_load_explicit(
            finished ? &p->finished[RT_CONTROL] : &p->published[RT_CONTROL],
            memory_order_acquire);
        if (n >= count)
            r++;
        else if (progress_all(rt))
            tries = 0;
        else
            pause_waiting(rt, tries++);
    }
    wait_end(rt);
}

void rt_exchange_begin(Rt *rt)
{
    control_wait(rt, true, rt->state->control_rounds);
}

void rt_exchange_publish(Rt *rt)
{
    const uint64_t n = ++rt->state->control_rounds;
    atomic_store_explicit(&shared_of(rt, rt->rank)->published[RT_CONTROL], n,
                          memory_order_release);
    control_wait(rt, false, n);
}

void rt_exchange_end(Rt *rt)
{
    atomic_store_explicit(&shared_of(rt, rt->rank)->finished[RT_CONTROL],
                          rt->state->control_rounds, memory_order_release);
}

/* ---- merging leaves ----------------------------------------------------------------------------------- */

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
        for (int l = 0; l < levels; l++)
            add_parts(d, v, p + l * partial_elems * item, v, n);
        if (!last)
            memcpy(p + levels * partial_elems * item, v, (size_t)(n * item));
    }
}
