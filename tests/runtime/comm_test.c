/* SPDX-License-Identifier: Apache-2.0 */
/* comm_test.c: the collectives' protocol under ThreadSanitizer. Ranks are threads that
 * share their symmetric spaces; all run the same random program of gathers, reductions
 * within and across copies, exchanges, waits in any order, and rewrites of buffers as
 * early as the protocol allows. Segments differ in their ranks of a copy, so that groups
 * of all sizes take turns on a stream. Every result is compared with its closed form.
 * Prints `ok`.
 *
 * -DEARLY rewrites a gradient without waiting for its reduction: the checker must see a
 * race or a wrong sum. -DCOMM_THREAD=1: queues on threads of their own. -DRANKS=N,
 * -DSTEPS=N: how many. */
#define _GNU_SOURCE
#include "cpu/rt_cpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef RANKS
#define RANKS 4
#endif
#ifndef NODE
#define NODE 0 /* ranks of a node: sums take two hops */
#endif
#ifndef COMM_THREAD
#define COMM_THREAD 0
#endif
#ifndef STEPS
#define STEPS 40
#endif

enum { SEGMENTS = 3, SLOTS = 2, OPS = 24 };

static RtSegment segments[SEGMENTS];
static RtHops hops[SEGMENTS * 2]; /* of groups within a copy, across copies */
static RtTrainer trainer = {.world_size = RANKS,
                            .all = RANKS - 1,
                            .param_dtype = RT_F64,
                            .reduce_dtype = RT_F64,
                            .comm_thread = COMM_THREAD,
                            .hops = hops,
                            .segments = segments,
                            .n_segments = SEGMENTS};
static RtShared shared;
static char *spaces[RANKS];
static int64_t kept_at[SEGMENTS], grad_at[SLOTS], control_at, symmetric_bytes,
    gathered_at[OPS], result_at[OPS], local_bytes;
static _Atomic int wrong;
static uint64_t begun[RANKS][2]; /* started before the step */

/* Of rt_map.c, which is not linked here. */
size_t rt_dtype_bytes(RtDtype d)
{
    return d == RT_F64 ? 8 : d == RT_F32 ? 4 : 2;
}

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* Small whole numbers: sums are exact in any order. */
static double value(int step, int what, int rank, int64_t i)
{
    return (double)(mix((uint64_t)step << 40 ^ (uint64_t)what << 32 ^
                        (uint64_t)rank << 24 ^ (uint64_t)i) &
                    0xFFFF);
}

enum { GROUP = 2 }; /* of the weights that are kept between */

/* Where the group has several nodes of several ranks. */
static void add_hops(RtGroup group)
{
    const RtGroup near = NODE > 0 ? group & (RtGroup)(NODE - 1) : 0;
    if (near != 0 && near != group)
        hops[trainer.n_hops++] = (RtHops){group, near, group & ~near};
}

static void lay_out(void)
{
    const int64_t shard[SEGMENTS] = {1024, 2048, 2050};
    const int shards[SEGMENTS] = {RANKS, RANKS / 2, 1};
    for (int s = 0; s < SEGMENTS; s++) {
        segments[s] =
            (RtSegment){.name = "s",
                        .shards = shards[s],
                        .within = (RtGroup)shards[s] - 1,
                        .across = (RtGroup)(RANKS - 1) & ~((RtGroup)shards[s] - 1),
                        .between = shards[s] > GROUP ? GROUP - 1 : 0,
                        .shard_elems = shard[s],
                        .elems = shard[s] * shards[s],
                        .dtype = RT_F64,
                        .param_shard = symmetric_bytes};
        add_hops(segments[s].within);
        add_hops(segments[s].across);
        kept_at[s] = symmetric_bytes + shard[s] * 8;
        symmetric_bytes += (shard[s] + segments[s].elems / GROUP) * 8;
    }
    for (int k = 0; k < SLOTS; k++) {
        grad_at[k] = symmetric_bytes;
        symmetric_bytes += 2048 * RANKS * 8;
    }
    control_at = symmetric_bytes;
    symmetric_bytes += 4096;
    local_bytes = symmetric_bytes; /* results have one offset for either space */
    for (int k = 0; k < OPS; k++) {
        gathered_at[k] = local_bytes;
        result_at[k] = local_bytes + 2048 * RANKS * 8;
        local_bytes += 2 * 2048 * RANKS * 8;
    }
    symmetric_bytes = local_bytes;
}

static void expect(double got, double want)
{
    if (got != want)
        wrong = 1;
}

typedef struct Op {
    int segment;
    bool kept; /* a gather of a group's kept parts */
    bool sum;  /* a reduction across copies */
    bool checked;
} Op;

static void check_gather(Rt *rt, int step, int slot, Op *op)
{
    const RtSegment *g = &segments[op->segment];
    const double *at = rt_local(rt, gathered_at[slot]);
    const int ranks = op->kept ? GROUP : g->shards;
    const int64_t part = g->elems / ranks;
    for (int64_t i = 0; !op->checked && i < g->elems; i++) {
        const int r = rt->rank - rt->rank % ranks + (int)(i / part);
        expect(at[i], value(step, op->segment + (op->kept ? 50 : 0), r, i % part));
    }
    op->checked = true;
}

/* Of a sum in place before its slot is written again. */
static void check_reduce(Rt *rt, int step, int n, Op *op)
{
    const RtSegment *g = &segments[op->segment];
    const bool copies = g->shards < RANKS;
    const double *at = op->sum  ? rt_symmetric(rt, grad_at[n % SLOTS])
                       : copies ? rt_symmetric(rt, result_at[n])
                                : rt_local(rt, result_at[n]);
    const int part = rt->rank % g->shards, first = op->sum ? part : rt->rank - part;
    const int64_t from = op->sum ? 0 : part * g->shard_elems;
    for (int64_t i = 0; !op->checked && i < g->shard_elems; i++) {
        double sum = 0;
        for (int k = 0; k < (op->sum ? RANKS / g->shards : g->shards); k++) {
            const int r = first + k * (op->sum ? g->shards : 1);
            sum += value(step, 100 + n, r, from + i);
        }
        expect(at[i], sum);
    }
    op->checked = true;
}

static void write_grad(Rt *rt, int step, int n, int segment)
{
    double *g = rt_symmetric(rt, grad_at[n % SLOTS]);
    for (int64_t i = 0; i < segments[segment].elems; i++)
        g[i] = value(step, 100 + n, rt->rank, i);
}

static void dawdle(uint64_t *own)
{
    *own = mix(*own);
    if (*own % 7 == 0) {
        const struct timespec nap = {0, (long)(*own >> 8 & 0xFFFF)};
        nanosleep(&nap, NULL);
    }
}

/* For the n-th collective of the step on its stream: a trainer would name its segment. */
static void wait_for(Rt *rt, int stream, int n)
{
    rt_comm_wait(rt, stream, begun[rt->rank][stream] + (uint64_t)n + 1);
}

static void start_gather(Rt *rt, int n, Op *op)
{
    if (op->kept)
        rt_kept_gather_start(rt, op->segment, kept_at[op->segment], gathered_at[n]);
    else
        rt_all_gather_start(rt, op->segment, gathered_at[n]);
}

/* The slot was read by reduction n - SLOTS; when that is complete here, no peer reads it
 * any more. */
static void start_reduce(Rt *rt, int step, int n, Op *op)
{
#ifndef EARLY
    if (n >= SLOTS) {
        wait_for(rt, RT_REDUCE, n - SLOTS);
        check_reduce(rt, step, n - SLOTS, op - SLOTS);
    }
#endif
    write_grad(rt, step, n, op->segment);
    if (op->sum)
        rt_all_reduce_start(rt, op->segment, grad_at[n % SLOTS]);
    else
        rt_reduce_scatter_start(rt, op->segment, grad_at[n % SLOTS], result_at[n]);
}

/* One step: program is the same random state on all ranks, own differs. */
static void one_step(Rt *rt, int step, uint64_t program, uint64_t *own)
{
    int gathers = 0, reduces = 0;
    Op gather[OPS], reduce[OPS];
    for (int s = 0; s < 2; s++)
        begun[rt->rank][s] = rt->state->queue[s].started;
    for (int op = 0; op < OPS; op++) {
        program = mix(program);
        const int s = (int)(program >> 8 & 0xFF) % SEGMENTS, shards = segments[s].shards;
        dawdle(own);
        if ((program & 1) && shards > 1) {
            gather[gathers] = (Op){.segment = s, .kept = shards > GROUP && (program & 2)};
            start_gather(rt, gathers, &gather[gathers]);
            gathers++;
        } else {
            bool sum = shards == 1 || (shards < RANKS && (program & 2));
            reduce[reduces] = (Op){.segment = s, .sum = sum};
            start_reduce(rt, step, reduces, &reduce[reduces]);
            reduces++;
        }
        rt_at(rt, 0);
        if ((program >> 16 & 3) == 0 && gathers > 0) {
            const int k = (int)(program >> 20 & 0xFF) % gathers;
            wait_for(rt, RT_GATHER, k);
            check_gather(rt, step, k, &gather[k]);
        }
    }
    for (int k = reduces < SLOTS ? 0 : reduces - SLOTS; k < reduces; k++) {
        wait_for(rt, RT_REDUCE, k);
        check_reduce(rt, step, k, &reduce[k]);
    }
    for (int k = gathers - 1; k >= 0; k--) {
        wait_for(rt, RT_GATHER, k);
        check_gather(rt, step, k, &gather[k]);
    }
    rt_exchange_begin(rt);
    *(double *)rt_symmetric(rt, control_at) = value(step, 200, rt->rank, 0);
    rt_exchange_publish(rt, sizeof(double));
    for (int r = 0; r < RANKS; r++)
        expect(*(double *)(rt->peer[r] + control_at), value(step, 200, r, 0));
    rt_exchange_end(rt);
    dawdle(own);
}

static void write_shards(Rt *rt, int step)
{
    for (int s = 0; s < SEGMENTS; s++) {
        double *at = rt_symmetric(rt, segments[s].param_shard);
        for (int64_t i = 0; i < segments[s].shard_elems; i++)
            at[i] = value(step, s, rt->rank, i);
        at = rt_symmetric(rt, kept_at[s]);
        for (int64_t i = 0; i < segments[s].elems / GROUP; i++)
            at[i] = value(step, s + 50, rt->rank, i);
    }
}

static void *rank_main(void *arg)
{
    Rt *rt = arg;
    uint64_t program = 1, own = 1000 + (uint64_t)rt->rank;
    write_shards(rt, 0);
    rt_comm_begin(rt);
    for (int step = 0; step < STEPS; step++) {
        program = mix(program);
        one_step(rt, step, program, &own);
        write_shards(rt, step + 1); /* the exchange says that all have gathered */
        rt_comm_step_end(rt);
    }
    rt_comm_end(rt);
    return NULL;
}

int main(void)
{
    static Rt rt[RANKS];
    static RtState state[RANKS];
    pthread_t thread[RANKS];
    lay_out();
    for (int r = 0; r < RANKS; r++)
        spaces[r] = calloc(1, (size_t)symmetric_bytes);
    for (int r = 0; r < RANKS; r++) {
        state[r] = (RtState){.shared = &shared, .spins = r % 2 == 0 ? 20 : 0};
        rt[r] = (Rt){.rank = r,
                     .world_size = RANKS,
                     .threads = 1,
                     .trainer = &trainer,
                     .state = &state[r],
                     .symmetric = spaces[r],
                     .local = calloc(1, (size_t)local_bytes)};
        memcpy(rt[r].peer, spaces, sizeof spaces);
        if (pthread_create(&thread[r], NULL, rank_main, &rt[r]) != 0)
            return 2;
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
    puts(wrong ? "wrong sums" : "ok");
    return wrong;
}
