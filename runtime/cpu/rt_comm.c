/* SPDX-License-Identifier: MIT-0 */
/* rt_comm.c: collectives between the ranks of one machine, through shared memory.
 *
 * In: starts and waits from the emitted step. Out: gathered buffers, sums in tree order.
 *
 * The protocol:
 * 1. Each of the two streams is a queue of operations, the same on every rank. An
 *    operation joins the ranks of a group: the rank's copy of the segment, the ranks with
 *    the same part of it in all copies, or a smaller group within the copy. The groups of
 *    one operation partition the ranks.
 * 2. A rank *publishes* the operation at the head of a queue: it increments its counter
 *    for the stream, which says "my buffer may be read".
 * 3. A rank *pulls* the operation once the counter of every rank of the group has reached
 *    it: it copies or adds what the group holds. (Counters count operations of the
 *    stream, whatever their groups, so they are comparable.) Then the operation is
 *    complete on this rank, and only then it publishes the next one of the stream.
 * 4. An all-reduce takes two such rounds: each rank sums its slice of the buffer in place
 *    (no other rank reads that slice of that buffer), then copies the others' slices.
 *    Sums over several nodes take one more round (RtHops).
 * 5. A reduction ends with a round that moves nothing: publishing it says "I have read".
 * 6. Nothing else is exchanged, and each counter has one writer.
 *
 * Consequences, on which the generator's proof of the placement relies:
 * 1. An operation completes on no rank before all ranks of its group have published it.
 *    So a pull sees (acquire) all writes before its start on any of them (release at the
 *    counter). Results depend on buffers alone: copies, and sums in a fixed tree.
 * 2. A rank's buffer is read by its group only between this rank's publication of the
 *    operation and the peer's completion. Let this rank complete a *later* operation of
 *    the stream among the same group or a larger one. The peers published that one, so
 *    they completed this one and no longer access the buffer: it may be written again.
 *    The completion of a gather itself implies nothing about slower peers. That of a
 *    reduction does, by its last round, so its gradient buffer may be written again at
 *    once.
 * 3. The same holds across streams and for the computation: whatever precedes the start
 *    of a collective C in a rank's program is over on all ranks of C's group once C
 *    completes on one of them. The norm's exchange among all ranks is such a C, between
 *    the last read of the parameter shards and the optimizer's first write; the first
 *    gather is one, between that write and its readers.
 * 4. No order of waits deadlocks. Suppose ranks wait and nothing moves. (a) Number the
 *    operations in the order of their starts, which is the same program on every rank,
 *    and let k be the smallest that is not complete on some rank r. (b) A rank of r's
 *    group in k that has not started k waits for an operation that it started before, so
 *    for a smaller one; but those are complete on all ranks. So all ranks of the group
 *    have started k. (c) On k's stream all earlier operations are complete, so k is at
 *    the head of all their queues and published. (d) A waiting rank drives both of its
 *    queues, so k completes on r: a contradiction. (An exchange of the control areas
 *    counts as an operation among all ranks whose start and wait coincide.)
 *
 * Pulls run on this rank's OpenMP threads, in blocks that stay in the first-level cache.
 * A rank drives its queues when it starts, waits or passes a schedule point. In trainers
 * generated with comm_thread, a separate thread drives them during the computation; this
 * takes a core, so it is not the default. The points above hold either way: the thread
 * changes when a pull runs, but it still runs after its publication and before its wait
 * returns. */
#include "cpu/rt_cpu.h"

#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static RtRankShared *shared_of(const Rt *rt, int rank)
{
    return &rt->state->shared->rank[rank];
}

/* ---- the queues ------------------------------------------------------------------ */

static void publish(Rt *rt, int stream, uint64_t count)
{
    atomic_store(&shared_of(rt, rt->rank)->published[stream], count);
    rt_ring(rt->state->shared);
}

static bool all_published(const Rt *rt, RtGroup group, int stream, uint64_t count)
{
    for (int k = 0; k < rt_group_ranks(group); k++)
        if (atomic_load_explicit(
                &shared_of(rt, rt_group_rank(group, rt->rank, k))->published[stream],
                memory_order_acquire) < count)
            return false;
    return true;
}

static const RtOp *head_of(const RtQueue *q)
{
    return &q->op[q->completed % RT_QUEUE];
}

/* Does what is possible on a stream now; returns whether anything was. */
static bool progress(Rt *rt, int stream)
{
    RtQueue *q = &rt->state->queue[stream];
    bool moved = false;
    while (q->completed < atomic_load_explicit(&q->started, memory_order_acquire)) {
        const RtOp *op = head_of(q);
        if (!q->published) {
            publish(rt, stream, q->rounds + 1);
            q->published = true;
        }
        if (!all_published(rt, op->group, stream, q->rounds + 1))
            return moved;
        rt_pull(rt, op, q->round);
        q->rounds++;
        q->published = false;
        if (++q->round == rt_pull_rounds(rt, op)) {
            q->round = 0;
            atomic_fetch_add_explicit(&q->completed, 1, memory_order_release);
            if (rt->trainer->comm_thread)
                rt_ring(rt->state->shared); /* the step may be waiting for it */
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

/* Can a queue proceed? A waiting rank checks this before it sleeps. */
static bool queue_ready(const Rt *rt, int stream)
{
    const RtQueue *q = &rt->state->queue[stream];
    return q->completed < q->started &&
           all_published(rt, head_of(q)->group, stream, q->rounds + 1);
}

/* The step's thread does the work, unless there is a thread for it. */
static bool drive(Rt *rt)
{
    return !rt->trainer->comm_thread && progress_both(rt);
}

static bool any_queue_ready(const void *ctx)
{
    return queue_ready(ctx, RT_GATHER) || queue_ready(ctx, RT_REDUCE);
}

static void wait_begin(Rt *rt, int stream, uint64_t count, int subject, RtGroup group)
{
    RtRankShared *me = shared_of(rt, rt->rank);
    atomic_store_explicit(&me->waiting_group, group, memory_order_relaxed);
    atomic_store_explicit(&me->waiting_count, count, memory_order_relaxed);
    atomic_store_explicit(&me->waiting_subject, subject, memory_order_relaxed);
    atomic_store_explicit(&me->waiting, stream, memory_order_release);
}

static void wait_end(Rt *rt)
{
    RtRankShared *me = shared_of(rt, rt->rank);
    atomic_store_explicit(&me->waiting, -1, memory_order_relaxed);
    atomic_store_explicit(&me->moved_ns, rt_clock_ns(), memory_order_relaxed);
}

/* For the watchers: this rank waits for the operation at the stream's head. */
static void wait_head(Rt *rt, int stream)
{
    const RtQueue *q = &rt->state->queue[stream];
    wait_begin(rt, stream, q->rounds + 1, head_of(q)->subject, head_of(q)->group);
}

typedef struct Goal {
    const Rt *rt;
    int stream;
    uint64_t until;
} Goal;

static bool goal_near(const void *ctx)
{
    const Goal *goal = ctx;
    return goal->rt->state->queue[goal->stream].completed >= goal->until ||
           (!goal->rt->trainer->comm_thread && any_queue_ready(goal->rt));
}

/* Waits until this many operations of the stream are complete. */
void rt_comm_wait(Rt *rt, int stream, uint64_t until)
{
    const RtQueue *q = &rt->state->queue[stream];
    const Goal goal = {rt, stream, until};
    drive(rt);
    if (q->completed >= until)
        return;
    const double start = rt_clock();
    wait_head(rt, stream);
    for (int tries = 0; q->completed < until; tries++) {
        const uint64_t rounds = q->rounds;
        if (!drive(rt))
            rt_pause(rt, tries, goal_near, &goal);
        if (q->rounds != rounds) {
            wait_head(rt, stream);
            tries = 0;
        }
    }
    wait_end(rt);
    rt->state->wait_seconds += rt_clock() - start;
}

typedef struct Join {
    const Rt *rt;
    RtGroup group;
    uint64_t count;
} Join;

static bool join_near(const void *ctx)
{
    const Join *j = ctx;
    return all_published(j->rt, j->group, RT_JOIN, j->count) ||
           (!j->rt->trainer->comm_thread && any_queue_ready(j->rt));
}

void rt_comm_join(Rt *rt, RtGroup group)
{
    const Join join = {rt, group, shared_of(rt, rt->rank)->published[RT_JOIN] + 1};
    if (group == 0)
        return;
    publish(rt, RT_JOIN, join.count);
    drive(rt);
    if (all_published(rt, group, RT_JOIN, join.count))
        return;
    const double start = rt_clock();
    wait_begin(rt, RT_JOIN, join.count, -1, group);
    for (int tries = 0; !all_published(rt, group, RT_JOIN, join.count); tries++)
        if (drive(rt))
            tries = 0;
        else
            rt_pause(rt, tries, join_near, &join);
    wait_end(rt);
    rt->state->wait_seconds += rt_clock() - start;
}

void rt_collective_start(Rt *rt, int stream, RtOp op)
{
    RtQueue *q = &rt->state->queue[stream];
    if (q->started - q->completed == RT_QUEUE)
        rt_comm_wait(rt, stream, q->completed + 1);
    q->op[q->started % RT_QUEUE] = op;
    q->started++;
    q->last[op.subject] = q->started;
    if (rt->trainer->comm_thread)
        rt_ring(rt->state->shared);
    else
        progress(rt, stream);
}

/* ---- a thread for the queues ----------------------------------------------------- */

static bool queue_has_work(const Rt *rt, int stream)
{
    const RtQueue *q = &rt->state->queue[stream];
    return q->completed < q->started && (!q->published || queue_ready(rt, stream));
}

static bool has_work(const void *ctx)
{
    const Rt *rt = ctx;
    return queue_has_work(rt, RT_GATHER) || queue_has_work(rt, RT_REDUCE) ||
           rt->state->comm_stop;
}

/* Only this thread changes the queues, except `started` and the operations, which the
 * step's thread writes before it counts them as started. It copies and adds
 * single-threaded, because an OpenMP team would compete with the step's for cores. */
static void *communicate(void *ctx)
{
    Rt *rt = ctx;
#ifdef _OPENMP
    omp_set_num_threads(1);
#endif
    for (int tries = 0; !rt->state->comm_stop; tries++)
        if (progress_both(rt))
            tries = 0;
        else
            rt_pause(rt, tries, has_work, rt);
    return NULL;
}

void rt_comm_begin(Rt *rt)
{
    RtState *st = rt->state;
    const size_t subjects = (size_t)rt_subjects(rt->trainer);
    for (int s = 0; s < 2; s++) {
        st->queue[s].last = calloc(subjects, sizeof *st->queue[s].last);
        if (st->queue[s].last == NULL)
            rt_fail(rt, RT_EXIT_ERROR, "out of memory");
    }
    if (!rt->trainer->comm_thread)
        return;
    const int e = pthread_create(&st->comm, NULL, communicate, rt);
    if (e != 0)
        rt_fail(rt, RT_EXIT_ERROR, "no communication thread: %s", strerror(e));
}

void rt_comm_end(Rt *rt)
{
    RtState *st = rt->state;
    if (rt->trainer->comm_thread) {
        st->comm_stop = 1;
        rt_ring(st->shared);
        pthread_join(st->comm, NULL);
    }
    for (int s = 0; s < 2; s++)
        free(st->queue[s].last);
}

/* ---- what the step calls --------------------------------------------------------- */

void rt_keep(Rt *rt, int segment, int64_t gathered, int64_t kept)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    const int64_t bytes = s->elems / rt_group_ranks(s->between) *
                          (int64_t)rt_dtype_bytes(rt_gathered_dtype(s));
    const int part = rt_group_index(s->between, rt->rank);
    memcpy(rt_symmetric(rt, kept), rt_local(rt, gathered + part * bytes), (size_t)bytes);
}

void rt_collective_wait(Rt *rt, int stream, int subject)
{
    rt_comm_wait(rt, stream, rt->state->queue[stream].last[subject]);
}

void rt_comm_drain(Rt *rt)
{
    for (int s = 0; s < 2; s++)
        rt_comm_wait(rt, s, rt->state->queue[s].started);
}

void rt_comm_step_end(Rt *rt)
{
    rt_comm_drain(rt);
}

void rt_enter(Rt *rt, int place)
{
    RtRankShared *me = shared_of(rt, rt->rank);
    atomic_store_explicit(&me->place, place, memory_order_relaxed);
    atomic_store_explicit(&me->moved_ns, rt_clock_ns(), memory_order_relaxed);
    if (atomic_load_explicit(&rt->state->shared->abort, memory_order_relaxed) != 0)
        rt_leave(rt);
}

void rt_at(Rt *rt, int place)
{
    drive(rt);
    rt_enter(rt, place);
}

/* ---- small exchanges through the control area ------------------------------------ */

typedef struct Turnout {
    const Rt *rt;
    bool finished; /* counts readers, otherwise writers */
    uint64_t count;
} Turnout;

static bool all_turned_out(const Turnout *t)
{
    if (!t->finished)
        return all_published(t->rt, t->rt->trainer->all, RT_CONTROL, t->count);
    for (int r = 0; r < t->rt->world_size; r++)
        if (atomic_load_explicit(&shared_of(t->rt, r)->finished, memory_order_acquire) <
            t->count)
            return false;
    return true;
}

static bool exchange_ready(const void *ctx)
{
    const Turnout *t = ctx;
    return all_turned_out(t) || (!t->rt->trainer->comm_thread && any_queue_ready(t->rt));
}

static void exchange_wait(Rt *rt, bool finished, uint64_t count)
{
    const Turnout t = {rt, finished, count};
    if (all_turned_out(&t))
        return;
    const double start = rt_clock();
    wait_begin(rt, RT_CONTROL, count, -1, rt->trainer->all);
    for (int tries = 0; !all_turned_out(&t); tries++)
        if (drive(rt))
            tries = 0;
        else
            rt_pause(rt, tries, exchange_ready, &t);
    wait_end(rt);
    rt->state->wait_seconds += rt_clock() - start;
}

void rt_exchange_begin(Rt *rt)
{
    exchange_wait(rt, true, rt->state->exchanges);
}

void rt_exchange_publish(Rt *rt, size_t bytes)
{
    (void)bytes;
    publish(rt, RT_CONTROL, ++rt->state->exchanges);
    exchange_wait(rt, false, rt->state->exchanges);
}

void rt_exchange_end(Rt *rt)
{
    atomic_store(&shared_of(rt, rt->rank)->finished, rt->state->exchanges);
    rt_ring(rt->state->shared);
}
