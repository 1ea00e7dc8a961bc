/* SPDX-License-Identifier: MIT-0 */
/* rt_comm.c: streams and events of a step, and the small exchanges between ranks' hosts.
 *
 * In: starts and waits from the emitted step. Out: collectives on two streams of their
 * own beside the computation's. A start records where the compute stream is; the
 * collective's stream waits for that, then runs it, and its end is recorded under the
 * ticket; a wait makes the compute stream wait for that record. So what happens before
 * what is the same as on the CPU, where the generator's proof of the placement looks: the
 * order of the host's calls is the order of the compute stream, and
 *
 *  1. a gather or a reduction completes on no rank before all ranks of its group came to
 * its start: each needs what the others send;
 *  2. its completion says that this rank's buffers were read: they were sent from here.
 * That is more than the CPU's gathers say.
 *
 * The host enqueues a whole step without waiting for the device. At its end it waits, and
 * looks for failures meanwhile. */
#include "rt_gpu.h"

#include <string.h>

enum { TICKETS = 64, PLACES = 256 };

static struct {
    cudaEvent_t done[TICKETS]; /* a ticket's, until TICKETS more were started: then a
                                  later one's */
    cudaEvent_t begun;
    int started; /* in this step */
} queues[2];

/* Places that the device is to pass. */
static struct {
    cudaEvent_t event[PLACES];
    int place[PLACES];
    int64_t first, next;
} places;

static cudaEvent_t new_event(Rt *rt)
{
    cudaEvent_t event;
    RT_CUDA_CALL(rt, cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

void rt_comm_open(Rt *rt)
{
    for (int s = 0; s < 2; s++) {
        queues[s].begun = new_event(rt);
        for (int i = 0; i < TICKETS; i++) {
            queues[s].done[i] = new_event(rt);
        }
    }
    for (int i = 0; i < PLACES; i++) {
        places.event[i] = new_event(rt);
    }
}

/* ---- places ------------------------------------------------------------------------ */

static RtRankShared *me(const Rt *rt)
{
    return &rt->state->shared->rank[rt->rank];
}

void rt_enter(Rt *rt, int place)
{
    atomic_store_explicit(&me(rt)->place, place, memory_order_relaxed);
    atomic_store_explicit(&me(rt)->moved_ns, rt_clock_ns(), memory_order_relaxed);
    if (atomic_load_explicit(&rt->state->shared->abort, memory_order_relaxed) != 0) {
        rt_leave(rt);
    }
}

void rt_places_passed(Rt *rt)
{
    while (places.first < places.next &&
           cudaEventQuery(places.event[places.first % PLACES]) == cudaSuccess) {
        rt_enter(rt, places.place[places.first % PLACES]);
        places.first++;
    }
}

/* The host is far ahead: what counts is when the device comes here. */
void rt_at(Rt *rt, int place)
{
    rt_places_passed(rt);
    if (places.next - places.first < PLACES) {
        const int i = (int)(places.next++ % PLACES);
        places.place[i] = place;
        RT_CUDA_CALL(rt, cudaEventRecord(places.event[i], rt_gpu.stream[RT_COMPUTE]));
    }
}

/* ---- collectives ------------------------------------------------------------------- */

#ifdef RT_NCCL
static void begin(Rt *rt, int stream)
{
    RT_CUDA_CALL(rt, cudaEventRecord(queues[stream].begun, rt_gpu.stream[RT_COMPUTE]));
    RT_CUDA_CALL(rt, cudaStreamWaitEvent(rt_gpu.stream[stream], queues[stream].begun, 0));
}

static void end(Rt *rt, int stream)
{
    const int ticket = queues[stream].started++;
    RT_CUDA_CALL(rt, cudaEventRecord(queues[stream].done[ticket % TICKETS],
                                     rt_gpu.stream[stream]));
}

static void gather(Rt *rt, RtGroup group, int segment, int64_t from, int64_t to)
{
    const RtTrainer *t = rt->trainer;
    const int64_t bytes = t->segments[segment].elems / group.ranks *
                          (int64_t)rt_dtype_bytes(t->param_dtype);
    begin(rt, RT_GATHER);
    rt_gather(rt, group, rt_symmetric(rt, from), rt_local(rt, to), bytes);
    end(rt, RT_GATHER);
}

void rt_all_gather_start(Rt *rt, int segment, int64_t to)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    gather(rt, (RtGroup){s->shards, 1}, segment, s->param_shard, to);
}

void rt_kept_gather_start(Rt *rt, int segment, int64_t kept, int64_t to, int ranks)
{
    gather(rt, (RtGroup){ranks, 1}, segment, kept, to);
}

void rt_reduce_scatter_start(Rt *rt, int segment, int64_t grad, int64_t result)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    void *to =
        rt->world_size > s->shards ? rt_symmetric(rt, result) : rt_local(rt, result);
    begin(rt, RT_REDUCE);
    rt_sum_scatter(rt, segment, rt_symmetric(rt, grad), to);
    end(rt, RT_REDUCE);
}

void rt_all_reduce_start(Rt *rt, int segment, int64_t grad)
{
    begin(rt, RT_REDUCE);
    rt_sum_in_place(rt, segment, rt_symmetric(rt, grad));
    end(rt, RT_REDUCE);
}
#endif

void rt_keep(Rt *rt, int segment, int64_t gathered, int64_t kept, int ranks)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    const int64_t bytes =
        s->elems / ranks * (int64_t)rt_dtype_bytes(rt->trainer->param_dtype);
    RT_CUDA_CALL(rt, cudaMemcpyAsync(rt_symmetric(rt, kept),
                                     rt_local(rt, gathered + rt->rank % ranks * bytes),
                                     (size_t)bytes, cudaMemcpyDeviceToDevice,
                                     rt_gpu.stream[RT_COMPUTE]));
}

void rt_wait(Rt *rt, int stream, int ticket)
{
    RT_CUDA_CALL(rt, cudaStreamWaitEvent(rt_gpu.stream[RT_COMPUTE],
                                         queues[stream].done[ticket % TICKETS], 0));
}

/* The device's streams run by themselves. Ranks meet only now, when their builds have
 * been compared: what differs is told before NCCL could wait for it. */
void rt_comm_begin(Rt *rt)
{
    (void)rt;
    rt_gpu_measure(RT_OUT_LATER);
#ifdef RT_NCCL
    rt_transport->open(rt);
    rt_gpu_measure(RT_OUT_NCCL);
#endif
}

void rt_comm_drain(Rt *rt)
{
    rt_gpu_drain(rt);
    rt_places_passed(rt);
    queues[RT_GATHER].started = queues[RT_REDUCE].started = 0;
}

void rt_comm_step_end(Rt *rt)
{
    rt_comm_drain(rt);
    rt_norm_results(rt);
}

void rt_comm_end(Rt *rt)
{
    rt_gpu_drain(rt);
    rt_gpu_measure(RT_OUT_LATER); /* while communicators still have their buffers */
#ifdef RT_NCCL
    rt_transport->close(rt);
#endif
}

/* ---- small exchanges through the control areas, between hosts ---------------------- */

typedef struct Turnout {
    const Rt *rt;
    bool finished; /* counts readers, or writers */
    uint64_t count;
} Turnout;

static bool all_turned_out(const void *ctx)
{
    const Turnout *t = ctx;
    for (int r = 0; r < t->rt->world_size; r++) {
        const RtRankShared *p = &t->rt->state->shared->rank[r];
        if (atomic_load_explicit(t->finished ? &p->finished : &p->published[RT_CONTROL],
                                 memory_order_acquire) < t->count) {
            return false;
        }
    }
    return true;
}

static void exchange_wait(Rt *rt, bool finished, uint64_t count)
{
    const Turnout t = {rt, finished, count};
    atomic_store(&me(rt)->waiting_ranks, rt->world_size);
    atomic_store(&me(rt)->waiting_stride, 1);
    atomic_store(&me(rt)->waiting_count, count);
    atomic_store(&me(rt)->waiting_segment, -1);
    atomic_store(&me(rt)->waiting, RT_CONTROL);
    for (int tries = 0; !all_turned_out(&t); tries++) {
        rt_pause(rt, tries, all_turned_out, &t);
    }
    atomic_store(&me(rt)->waiting, -1);
    atomic_store(&me(rt)->moved_ns, rt_clock_ns());
}

void rt_exchange_begin(Rt *rt)
{
    exchange_wait(rt, true, rt->state->exchanges);
}

void rt_exchange_publish(Rt *rt)
{
    atomic_store(&me(rt)->published[RT_CONTROL], ++rt->state->exchanges);
    rt_ring(rt->state->shared);
    exchange_wait(rt, false, rt->state->exchanges);
}

void rt_exchange_end(Rt *rt)
{
    atomic_store(&me(rt)->finished, rt->state->exchanges);
    rt_ring(rt->state->shared);
}
