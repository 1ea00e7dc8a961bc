/* SPDX-License-Identifier: MIT-0 */
/* rt_loopback.c: a transport for ranks that share a GPU, which NCCL refuses: for tests; a
 * collective takes milliseconds. In: the same calls as for NCCL. Out: the same bytes, so
 * the same bits, through host memory that all ranks have mapped and pinned.
 *
 * Each rank has a slot there. A collective, piece by piece: meet; copy what the others
 * need into this slot; meet; copy from the others' slots. A meeting is a host function
 * in the stream: it announces this rank and waits for all others. No kernel waits for
 * another rank's, so nothing depends on what the device runs concurrently.
 *
 * Why it cannot deadlock:
 * 1. One stream carries both kinds of collectives (rt_gpu_open) and the control words. So
 *    a rank reaches its meetings in the order in which its host enqueued them, which is
 *    the same on all ranks.
 * 2. All ranks join every meeting, whatever group exchanges something.
 * 3. Before meeting n a rank waits only for its own kernels and for earlier meetings.
 * 4. Streams, events and counters do not depend on the step, so it can be captured as a
 *    graph and replayed. */
#define _GNU_SOURCE
#include "cuda/rt_gpu.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { SLOT_BYTES = 4 << 20, PIECE_ALIGN = 256 };

static Rt *this_rank;
static char *slots;  /* [world_size][SLOT_BYTES] */
static char *summed; /* pinned: of all ranks' control words, losses, largest weights */
static uint64_t meetings;
static struct {
    int64_t n_words, n_losses;
    int64_t n_largest;
} control_size;

int64_t rt_loopback_bytes(const RtTrainer *t)
{
    return t->world_size > 1 ? (int64_t)t->world_size * SLOT_BYTES : 0;
}

static char *slot(int rank)
{
    return slots + (int64_t)rank * SLOT_BYTES;
}

static int64_t control_bytes(int64_t n_words, int64_t n_losses)
{
    return (n_words + n_losses) * 8;
}

void rt_loopback_map(Rt *rt, int fd, int64_t offset)
{
    slots = mmap(NULL, (size_t)rt_loopback_bytes(rt->trainer), PROT_READ | PROT_WRITE,
                 MAP_SHARED, fd, offset);
    if (slots == MAP_FAILED) {
        rt_fail(rt, RT_EXIT_ERROR, "%lld bytes of shared memory for the loopback: %s",
                (long long)rt_loopback_bytes(rt->trainer),
                rt_limits_map_error("", errno));
    }
}

static const char *name(void)
{
    return "loopback";
}

static void open_slots(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    int devices = 1;
    this_rank = rt;
    if (t->library_order) {
        rt_fail(rt, RT_EXIT_ERROR,
                "--loopback has no library that sums: generate with reduction = "
                "\"tree\", or give each rank a GPU");
    }
    RT_CUDA_CALL(rt, cudaHostRegister(slots, (size_t)rt_loopback_bytes(t),
                                      cudaHostRegisterPortable));
    const int64_t largest_bytes = t->n_scales * (int64_t)sizeof(int32_t);
    int64_t bytes = control_bytes(RT_CONTROL_WORDS, t->micro_batches);
    bytes = bytes > largest_bytes ? bytes : largest_bytes;
    if (bytes > SLOT_BYTES) {
        rt_fail(rt, RT_EXIT_ERROR, "--loopback: %lld micro-batches are too many",
                (long long)t->micro_batches);
    }
    RT_CUDA_CALL(rt,
                 cudaHostAlloc((void **)&summed, (size_t)bytes, cudaHostAllocDefault));
    RT_CUDA_CALL(rt, cudaGetDeviceCount(&devices));
    if (rt->rank == 0) {
        fprintf(rt_words(rt),
                "loopback: %d ranks on %d GPU%s exchange through host memory, which is "
                "slow\n",
                t->world_size, devices < t->world_size ? devices : t->world_size,
                devices == 1 ? "" : "s");
    }
}

/* Nothing can fail between ranks; a lost rank ends the meeting. */
static void check(const Rt *rt)
{
    (void)rt;
}

static void close_slots(Rt *rt)
{
    RT_CUDA_CALL(rt, cudaHostUnregister(slots));
    RT_CUDA_CALL(rt, cudaFreeHost(summed));
}

/* ---- meetings -------------------------------------------------------------------- */

static bool all_came(const void *count)
{
    const RtRankShared *ranks = this_rank->state->shared->rank;
    for (int r = 0; r < this_rank->world_size; r++)
        if (atomic_load_explicit(&ranks[r].published[RT_GATHER], memory_order_acquire) <
            *(const uint64_t *)count)
            return false;
    return true;
}

/* Runs on a thread of the CUDA runtime, so it must not call CUDA. If the job is aborted
 * meanwhile it does not return (rt_pause). */
static void meet(void *unused)
{
    const uint64_t count = ++meetings;
    RtRankShared *me = &this_rank->state->shared->rank[this_rank->rank];
    (void)unused;
    atomic_store(&me->published[RT_GATHER], count);
    rt_ring(this_rank->state->shared);
    atomic_store(&me->waiting_group, this_rank->trainer->all);
    atomic_store(&me->waiting_count, count);
    atomic_store(&me->waiting_subject, -1);
    atomic_store(&me->waiting, RT_GATHER);
    for (int tries = 0; !all_came(&count); tries++)
        rt_pause(this_rank, tries, all_came, &count);
    atomic_store(&me->waiting, -1);
}

static void enqueue(Rt *rt, void (*fn)(void *))
{
    RT_CUDA_CALL(rt, cudaLaunchHostFunc(rt_gpu.stream[RT_GATHER], fn, NULL));
}

static void copy(Rt *rt, void *to, const void *from, int64_t bytes,
                 enum cudaMemcpyKind kind)
{
    if (bytes > 0) {
        RT_CUDA_CALL(
            rt, cudaMemcpyAsync(to, from, (size_t)bytes, kind, rt_gpu.stream[RT_GATHER]));
    }
}

/* The part of `bytes` between at and at + piece. */
static int64_t rest(int64_t bytes, int64_t at, int64_t piece)
{
    return bytes < at ? 0 : bytes - at < piece ? bytes - at : piece;
}

/* Bytes [at, at + n) of a parcel go through the slot. Everything one rank has for another
 * is one row of bytes, of which the slot holds those from `at` on. */
typedef struct Slice {
    int64_t at, slot, n;
} Slice;

/* The parcel covers bytes [*before, *before + bytes) of its row, of which [at, at +
 * piece) are in transfer. */
static Slice slice_of(int64_t *before, int64_t bytes, int64_t at, int64_t piece)
{
    const int64_t from = *before > at ? *before : at, end = *before + bytes;
    const int64_t to = end < at + piece ? end : at + piece;
    const Slice s = {from - *before, from - at, to > from ? to - from : 0};
    *before = end;
    return s;
}

/* ---- what ranks exchange --------------------------------------------------------- */

static void gather(Rt *rt, int stream, const RtOp *op)
{
    const int mine = rt_group_index(op->group, rt->rank);
    const int64_t bytes = op->elems * (int64_t)rt_dtype_bytes(op->dtype);
    const char *from = rt_own_part(rt, op);
    (void)stream; /* both streams are one */
    for (int64_t at = 0; at < bytes; at += SLOT_BYTES) {
        const int64_t n = rest(bytes, at, SLOT_BYTES);
        enqueue(rt, meet);
        copy(rt, slot(rt->rank), from + at, n, cudaMemcpyDeviceToHost);
        enqueue(rt, meet);
        for (int k = 0; k < rt_group_ranks(op->group); k++) {
            char *to = (char *)op->to + k * bytes + at;
            if (k == mine) {
                copy(rt, to, from + at, n, cudaMemcpyDeviceToDevice);
            } else {
                copy(rt, to, slot(rt_group_rank(op->group, rt->rank, k)), n,
                     cudaMemcpyHostToDevice);
            }
        }
    }
}

/* most_bytes, the same on all ranks, determines the number of meetings. */
static void exchange(Rt *rt, int stream, RtGroup group, int ctas, const RtParcel *parcel,
                     int n, int64_t most_bytes)
{
    const int mine = rt_group_index(group, rt->rank);
    const int64_t piece = SLOT_BYTES / rt_group_ranks(group) / PIECE_ALIGN * PIECE_ALIGN;
    (void)stream; /* both streams are one */
    (void)ctas;   /* copies take no multiprocessor */
    for (int64_t at = 0; at < most_bytes; at += piece) {
        int64_t sent[RT_MAX_RANKS] = {0}, received[RT_MAX_RANKS] = {0};
        enqueue(rt, meet);
        for (int i = 0; i < n; i++) {
            const RtParcel *p = &parcel[i];
            const Slice s = slice_of(&sent[p->peer], p->send_bytes, at, piece);
            if (p->peer != mine) {
                copy(rt, slot(rt->rank) + p->peer * piece + s.slot,
                     (const char *)p->send + s.at, s.n, cudaMemcpyDeviceToHost);
            }
        }
        enqueue(rt, meet);
        for (int i = 0; i < n; i++) {
            const RtParcel *p = &parcel[i];
            const Slice s = slice_of(&received[p->peer], p->receive_bytes, at, piece);
            if (p->peer != mine) {
                copy(rt, (char *)p->receive + s.at,
                     slot(rt_group_rank(group, rt->rank, p->peer)) + mine * piece +
                         s.slot,
                     s.n, cudaMemcpyHostToDevice);
            }
        }
    }
}

/* Integers, and losses that are zero on all ranks but one: any order gives the same
 * sum. */
static void add_control(void *unused)
{
    const int64_t words = control_size.n_words, losses = control_size.n_losses;
    (void)unused;
    memset(summed, 0, (size_t)control_bytes(words, losses));
    for (int r = 0; r < this_rank->world_size; r++) {
        const uint64_t *w = (const uint64_t *)slot(r);
        const double *l = (const double *)(w + words);
        for (int64_t i = 0; i < words; i++)
            ((uint64_t *)summed)[i] += w[i];
        for (int64_t i = 0; i < losses; i++)
            ((double *)summed)[words + i] += l[i];
    }
}

static void control(Rt *rt, void *words, int64_t n_words, void *losses, int64_t n_losses)
{
    const int64_t losses_at = n_words * 8;
    control_size.n_words = n_words;
    control_size.n_losses = n_losses;
    enqueue(rt, meet);
    copy(rt, slot(rt->rank), words, losses_at, cudaMemcpyDeviceToHost);
    copy(rt, slot(rt->rank) + losses_at, losses, n_losses * 8, cudaMemcpyDeviceToHost);
    enqueue(rt, meet);
    enqueue(rt, add_control);
    copy(rt, words, summed, losses_at, cudaMemcpyHostToDevice);
    copy(rt, losses, summed + losses_at, n_losses * 8, cudaMemcpyHostToDevice);
}

static void take_largest(void *unused)
{
    int32_t *top = (int32_t *)summed;
    (void)unused;
    memset(summed, 0, (size_t)control_size.n_largest * sizeof *top);
    for (int r = 0; r < this_rank->world_size; r++) {
        const int32_t *part = (const int32_t *)slot(r);
        for (int64_t i = 0; i < control_size.n_largest; i++)
            top[i] = part[i] > top[i] ? part[i] : top[i];
    }
}

static void largest(Rt *rt, int32_t *words, int64_t n_words)
{
    const int64_t bytes = n_words * (int64_t)sizeof *words;
    control_size.n_largest = n_words;
    enqueue(rt, meet);
    copy(rt, slot(rt->rank), words, bytes, cudaMemcpyDeviceToHost);
    enqueue(rt, meet);
    enqueue(rt, take_largest);
    copy(rt, words, summed, bytes, cudaMemcpyHostToDevice);
}

const RtTransport rt_loopback = {
    .name = name,
    .open = open_slots,
    .gather = gather,
    .exchange = exchange,
    .control = control,
    .largest = largest,
    .check = check,
    .close = close_slots,
};
