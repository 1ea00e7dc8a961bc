/* SPDX-License-Identifier: MIT-0 */
/* rt_comm.c: streams and events of a step, and the small exchanges between ranks' hosts.
 *
 * In: starts and waits from the emitted step. Out: collectives on a stream of their own
 * beside the compute stream, gathers and sums in one order (rt_nccl.c says why).
 *
 * A start records the position of the compute stream; the collective's stream waits for
 * that, then runs it, and its end is recorded for its subject. A wait makes the compute
 * stream wait for that record. So the order of events is the same as on the CPU, as far
 * as the generator's proof of the placement depends on it: the order of the host's calls
 * is the order of the compute stream, and
 *
 * 1. a gather or a reduction completes on no rank before all ranks of its group reached
 *    its start, because each needs what the others send;
 * 2. its completion implies that this rank's buffers have been read, because this rank
 *    sent them.
 *
 * Starts that are held (rt_hold_starts) begin behind the next meet, or when the step
 * waits for one of them: later than they were called, which 1 and 2 allow.
 *
 * This is more than gathers guarantee on the CPU. For exchanges of matrices only 2 holds,
 * and that what a rank receives was sent after the sender's own start: between their
 * starts and ends, only the two ranks of a pair access its buffers.
 *
 * The host enqueues a whole step without waiting for the device, call by call or as
 * graphs (rt_graph.c). At the end it waits, and looks for failures meanwhile. */
#include "cuda/rt_gpu.h"

#include <stdlib.h>
#include <string.h>

/* The last started collective of a subject. */
typedef struct Last {
    cudaEvent_t done;
    int64_t era;
} Last;
static Last *lasts[2];           /* by RT_GATHER or RT_REDUCE, and subject */
static cudaEvent_t begun, ended; /* of the last detour */
/* An era ends when all streams were waited for, and where a graph begins or ends: what
 * was started in an earlier era is complete. */
static int64_t era = 1;

/* The device's progress: a kernel on a separate stream writes it to pinned memory, from
 * within graphs too. */
static RtKernel place_kernel = {.name = "rt_place_kernel", .threads = 32};
static struct {
    int *now;
    int seen;
    cudaEvent_t come, joined;
} places;

static bool capturing;

/* What is started while starts are held, in its order. */
typedef struct Held {
    int stream;
    RtOp op;
} Held;
static struct {
    bool on;
    int n;
    Held *start; /* no more than there are in lasts */
} held;

static cudaEvent_t new_event(Rt *rt)
{
    cudaEvent_t event;
    RT_CUDA_CALL(rt, cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

void rt_comm_open(Rt *rt)
{
    const int subjects = rt_subjects(rt->trainer);
    for (int s = 0; s < 2; s++) {
        lasts[s] = calloc((size_t)subjects, sizeof *lasts[s]);
        if (lasts[s] == NULL)
            rt_fail(rt, RT_EXIT_ERROR, "out of memory");
        for (int i = 0; i < subjects; i++)
            lasts[s][i].done = new_event(rt);
    }
    held.start = calloc((size_t)(2 * subjects), sizeof *held.start);
    if (held.start == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "out of memory");
    begun = new_event(rt);
    ended = new_event(rt);
    rt_kernel_prepare(&place_kernel);
    RT_CUDA_CALL(rt, cudaHostAlloc((void **)&places.now, sizeof *places.now,
                                   cudaHostAllocDefault));
    *places.now = places.seen = -1;
    places.come = new_event(rt);
    places.joined = new_event(rt);
#ifdef RT_NCCL
    rt_tree_open(rt);
#endif
}

/* ---- places ---------------------------------------------------------------------- */

static RtRankShared *me(const Rt *rt)
{
    return &rt->state->shared->rank[rt->rank];
}

void rt_enter(Rt *rt, int place)
{
    atomic_store_explicit(&me(rt)->place, place, memory_order_relaxed);
    atomic_store_explicit(&me(rt)->moved_ns, rt_clock_ns(), memory_order_relaxed);
    if (atomic_load_explicit(&rt->state->shared->abort, memory_order_relaxed) != 0)
        rt_leave(rt);
}

void rt_places_passed(Rt *rt)
{
    const int now = *(volatile const int *)places.now;
    if (now != places.seen) {
        places.seen = now;
        rt_enter(rt, now);
    }
}

/* The host is far ahead, so the place counts when the device gets here. The device does
 * not wait until the report has been read. */
void rt_at(Rt *rt, int place)
{
    RT_CUDA_CALL(rt, cudaEventRecord(places.come, rt_gpu.stream[RT_COMPUTE]));
    RT_CUDA_CALL(rt, cudaStreamWaitEvent(rt_gpu.stream[RT_PLACES], places.come, 0));
    rt_launch_on(rt, rt_gpu.stream[RT_PLACES], &place_kernel, 1, 1,
                 (void *[]){&places.now, &place});
    if (capturing) {
        snprintf(rt_gpu.during, sizeof rt_gpu.during, " while %s was captured",
                 rt->trainer->places[place]);
        rt_enter(rt, place);
    } else {
        rt_places_passed(rt);
    }
}

/* ---- collectives ----------------------------------------------------------------- */

#ifdef RT_NCCL
void rt_detour_begin(Rt *rt)
{
    RT_CUDA_CALL(rt, cudaEventRecord(begun, rt_gpu.stream[RT_COMPUTE]));
    RT_CUDA_CALL(rt, cudaStreamWaitEvent(rt_gpu.stream[RT_GATHER], begun, 0));
}

void rt_detour_end(Rt *rt)
{
    RT_CUDA_CALL(rt, cudaEventRecord(ended, rt_gpu.stream[RT_GATHER]));
    RT_CUDA_CALL(rt, cudaStreamWaitEvent(rt_gpu.stream[RT_COMPUTE], ended, 0));
}

/* A detour whose end the compute stream waits for later, or not at all. */
static void start(Rt *rt, int stream, const RtOp *op)
{
    Last *last = &lasts[stream][op->subject];
    rt_detour_begin(rt);
    rt_execute(rt, stream, op);
    RT_CUDA_CALL(rt, cudaEventRecord(last->done, rt_gpu.stream[stream]));
    last->era = era;
}

void rt_collective_start(Rt *rt, int stream, RtOp op)
{
    if (!held.on)
        start(rt, stream, &op);
    else
        held.start[held.n++] = (Held){stream, op};
}

/* Their order stays, so it is the same on all ranks. */
void rt_held_begin(Rt *rt)
{
    for (int i = 0; i < held.n; i++)
        start(rt, held.start[i].stream, &held.start[i].op);
    held.n = 0;
}

static bool is_held(int stream, int subject)
{
    for (int i = 0; i < held.n; i++)
        if (held.start[i].stream == stream && held.start[i].op.subject == subject)
            return true;
    return false;
}

void rt_hold_starts(Rt *rt)
{
    (void)rt;
    held.on = true;
}

void rt_release_starts(Rt *rt)
{
    rt_held_begin(rt);
    held.on = false;
}
#else
/* With one rank, it has updated everything. Nothing else is started in such a trainer's
 * step. */
void rt_collective_start(Rt *rt, int stream, RtOp op)
{
    (void)stream;
    if (op.kind != RT_OP_GATHER_IN_PLACE || op.group != 0)
        rt_fail(rt, RT_EXIT_ERROR, "a collective of one rank: a bug");
}
#endif

void rt_keep(Rt *rt, int segment, int64_t gathered, int64_t kept)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    const int64_t bytes = s->elems / rt_group_ranks(s->between) *
                          (int64_t)rt_dtype_bytes(rt_gathered_dtype(s));
    const int part = rt_group_index(s->between, rt->rank);
    RT_CUDA_CALL(rt,
                 cudaMemcpyAsync(rt_symmetric(rt, kept),
                                 rt_symmetric(rt, gathered + part * bytes), (size_t)bytes,
                                 cudaMemcpyDeviceToDevice, rt_gpu.stream[RT_COMPUTE]));
}

void rt_collective_wait(Rt *rt, int stream, int subject)
{
    const Last *last = &lasts[stream][subject];
#ifdef RT_NCCL
    if (is_held(stream, subject))
        rt_held_begin(rt);
#endif
    if (last->era == era)
        RT_CUDA_CALL(rt, cudaStreamWaitEvent(rt_gpu.stream[RT_COMPUTE], last->done, 0));
}

/* The device's streams run by themselves. Ranks connect only now, after their builds have
 * been compared: differences are reported before NCCL could block on them. */
void rt_comm_begin(Rt *rt)
{
    (void)rt;
    rt_gpu_measure(RT_OUT_LATER);
#ifdef RT_NCCL
    rt_enter(rt, RT_AT_OPEN);
    rt_transport->open(rt);
    rt_gpu_measure(RT_OUT_NCCL);
#endif
}

void rt_comm_drain(Rt *rt)
{
    rt_gpu_drain(rt);
    rt_places_passed(rt);
    era++;
}

void rt_comm_step_end(Rt *rt)
{
    const RtState *st = rt->state;
    rt_comm_drain(rt);
    rt_norm_results(rt);
    rt_profile_step(rt);
    if (st->step == st->first_step && !st->flags.no_graphs)
        rt_graphs_capture(rt);
}

void rt_comm_end(Rt *rt)
{
    rt_gpu_drain(rt);
    rt_profile_end(rt);
    rt_gpu_measure(RT_OUT_LATER); /* while communicators still have their buffers */
    rt_graphs_close(rt); /* NCCL keeps a communicator that a graph has captured */
#ifdef RT_NCCL
    rt_transport->close(rt);
#endif
}

/* ---- graphs ---------------------------------------------------------------------- */

/* The mode allows other threads, such as NCCL's, to do what a capture forbids. */
void rt_capture_begin(Rt *rt)
{
    RT_CUDA_CALL(rt, cudaStreamBeginCapture(rt_gpu.stream[RT_COMPUTE],
                                            cudaStreamCaptureModeThreadLocal));
    capturing = true;
    era++;
}

void rt_capture_end(Rt *rt, cudaGraph_t *graph)
{
    for (int s = 0; s < RT_DEVICE_STREAMS; s++) {
        enum cudaStreamCaptureStatus status;
        RT_CUDA_CALL(rt, cudaStreamIsCapturing(rt_gpu.stream[s], &status));
        if (s != RT_COMPUTE && status != cudaStreamCaptureStatusNone) {
            RT_CUDA_CALL(rt, cudaEventRecord(places.joined, rt_gpu.stream[s]));
            RT_CUDA_CALL(
                rt, cudaStreamWaitEvent(rt_gpu.stream[RT_COMPUTE], places.joined, 0));
        }
    }
    RT_CUDA_CALL(rt, cudaStreamEndCapture(rt_gpu.stream[RT_COMPUTE], graph));
    capturing = false;
    era++;
    rt_gpu.during[0] = '\0';
}

/* ---- small exchanges through the control areas, between hosts -------------------- */

typedef struct Turnout {
    const Rt *rt;
    bool finished; /* counts readers, otherwise writers */
    uint64_t count;
} Turnout;

static bool all_turned_out(const void *ctx)
{
    const Turnout *t = ctx;
    for (int r = 0; r < t->rt->world_size; r++) {
        const RtRankShared *p = &t->rt->state->shared->rank[r];
        if (atomic_load_explicit(t->finished ? &p->finished : &p->published[RT_CONTROL],
                                 memory_order_acquire) < t->count)
            return false;
    }
    return true;
}

static void exchange_wait(Rt *rt, bool finished, uint64_t count)
{
    const Turnout t = {rt, finished, count};
    atomic_store(&me(rt)->waiting_group, rt->trainer->all);
    atomic_store(&me(rt)->waiting_count, count);
    atomic_store(&me(rt)->waiting_subject, -1);
    atomic_store(&me(rt)->waiting, RT_CONTROL);
    for (int tries = 0; !all_turned_out(&t); tries++)
        rt_pause(rt, tries, all_turned_out, &t);
    atomic_store(&me(rt)->waiting, -1);
    atomic_store(&me(rt)->moved_ns, rt_clock_ns());
}

void rt_exchange_begin(Rt *rt)
{
    exchange_wait(rt, true, rt->state->exchanges);
}

void rt_exchange_publish(Rt *rt, size_t bytes)
{
    if (bytes > RT_SUM_WORDS * sizeof(uint64_t))
        rt_fail(rt, RT_EXIT_ERROR, "%zu bytes are too many to say at once: a bug", bytes);
    atomic_store(&me(rt)->control_bytes, (uint32_t)bytes);
    atomic_store(&me(rt)->published[RT_CONTROL], ++rt->state->exchanges);
    rt_ring(rt->state->shared);
    exchange_wait(rt, false, rt->state->exchanges);
}

void rt_exchange_end(Rt *rt)
{
    atomic_store(&me(rt)->finished, rt->state->exchanges);
    rt_ring(rt->state->shared);
}
