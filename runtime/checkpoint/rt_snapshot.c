/* SPDX-License-Identifier: MIT-0 */
/* rt_snapshot.c: saves during training. In: the arena after a step. Out: a copy in host
 * memory of what this rank writes, in the files' order, and a thread that writes it while
 * the next steps run.
 *
 * The copy is in the memory that all ranks share, after everything else, so that one rank
 * can write what others copied (--one-writer). It is allocated at start with its planned
 * size, or not at all. The thread follows the same protocol as a blocking save
 * (rt_save.c), and threads agree by mail (rt_mail.c). There is one save at a time: the
 * next save, the end of the run and a signal wait for it. If it fails it ends the process
 * or, with --keep-going, reports it. */
#define _GNU_SOURCE
#include "checkpoint/rt_checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* ---- memory ---------------------------------------------------------------------- */

typedef struct Taking {
    Rt *rt;
    const RtSegment *segment;
    RtSet set;
    char *to; /* NULL: only counts */
    int64_t bytes;
} Taking;

/* On a device, copies run one after the other; otherwise all threads of the step copy. */
static void take_run(void *ctx, const RtRun *run)
{
    Taking *s = ctx;
    const RtCheckpoint *c = s->rt->state->checkpoint;
    const int64_t item =
        (int64_t)rt_dtype_bytes(rt_layout_dtype(s->rt->trainer, s->segment, s->set));
    if (c->file_of[s->set][run->param_id] < 0)
        return; /* matrices have no such moment */
    char *to = s->to != NULL ? s->to + s->bytes : NULL;
    s->bytes += run->elems * item;
    if (to == NULL)
        return;
#ifdef RT_CUDA
    enum { BLOCK_ELEMS = RT_STAGE_ELEMS };
#else
    enum { BLOCK_ELEMS = 1 << 14 };
#pragma omp parallel for schedule(static)
#endif
    for (int64_t i = 0; i < run->elems; i += BLOCK_ELEMS) {
        uint16_t halves[2 * BLOCK_ELEMS]; /* of split masters */
        const int64_t left = run->elems - i;
        rt_layout_take(s->rt, s->set, s->segment, run->shard_offset_elems + i,
                       left < BLOCK_ELEMS ? left : BLOCK_ELEMS, to + i * item, halves);
    }
}

/* Everything this rank writes, in writing order: run by run, segment by segment, set by
 * set. Returns the bytes. */
static int64_t take_all(Rt *rt, char *to)
{
    const RtTrainer *t = rt->trainer;
    Taking s = {.rt = rt, .to = to};
    for (s.set = 0; s.set < RT_SETS; s.set++) {
        for (int i = 0; i < t->n_segments; i++) {
            s.segment = &t->segments[i];
            if (rt_layout_offset(s.segment, s.set) >= 0)
                rt_share_runs(rt, i, take_run, &s);
        }
    }
    return s.bytes;
}

void rt_snapshot_take(Rt *rt)
{
    take_all(rt, rt->state->checkpoint->snapshot[rt->rank]);
}

/* Compares with the planned number, which the largest rank needs exactly. */
static void check_plan(Rt *rt)
{
    const int64_t need = take_all(rt, NULL), planned = rt->trainer->snapshot_bytes;
    uint64_t ranks[2] = {need == planned, need > planned};
    rt_save_sum(rt, ranks, 2);
    if (ranks[0] == 0 || ranks[1] > 0) {
        rt_fail(rt, RT_EXIT_ERROR,
                "a copy of what a rank writes takes at most %lld bytes by the plan, and "
                "%lld here: a bug of the generator's",
                (long long)planned, (long long)need);
    }
}

/* If one rank has no memory for its copy, none keeps one. */
static void unmap_snapshots(Rt *rt)
{
    RtCheckpoint *c = rt->state->checkpoint;
    const int64_t size = rt_pages(rt->trainer->snapshot_bytes);
    for (int r = 0; r < rt->world_size; r++) {
        if (c->snapshot[r] != NULL) {
            munmap(c->snapshot[r], (size_t)size);
            c->snapshot[r] = NULL;
        }
    }
    fallocate(rt->state->shared_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              rt_shared_bytes(rt->trainer) + rt->rank * size, size);
}

static bool map_snapshots(Rt *rt)
{
    RtCheckpoint *c = rt->state->checkpoint;
    const int64_t size = rt_pages(rt->trainer->snapshot_bytes);
    const int64_t base = rt_shared_bytes(rt->trainer);
    const int fd = rt->state->shared_fd;
    int reserved;
    do {
        reserved = fallocate(fd, 0, base + rt->rank * size, size);
    } while (reserved != 0 && errno == EINTR);
    if (reserved != 0) {
        snprintf(c->error, sizeof c->error, "%lld bytes of memory for copies: %s",
                 (long long)size, strerror(errno));
    }
    if (rt_first_error(rt) >= 0)
        return false; /* all have theirs, or no rank reads another's */
    for (int r = 0; r < rt->world_size; r++) {
        c->snapshot[r] = NULL;
        if (r != rt->rank && !c->one_writer)
            continue;
        void *at = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                        base + r * size);
        if (at == MAP_FAILED) {
            snprintf(c->error, sizeof c->error, "copies cannot be mapped: %s",
                     rt_limits_map_error("", errno));
            break;
        }
        c->snapshot[r] = at;
    }
    return rt_first_error(rt) < 0;
}

int64_t rt_snapshot_bytes(const Rt *rt)
{
    const RtCheckpoint *c = rt->state->checkpoint;
    return c != NULL && c->snapshots ? rt->trainer->snapshot_bytes : 0;
}

bool rt_snapshot_holds(const Rt *rt, uintptr_t address)
{
    for (int r = 0; rt_snapshot_bytes(rt) > 0 && r < rt->world_size; r++) {
        const uintptr_t from = (uintptr_t)rt->state->checkpoint->snapshot[r];
        if (from != 0 && address >= from &&
            address < from + (uintptr_t)rt->trainer->snapshot_bytes)
            return true;
    }
    return false;
}

/* The first rank of a machine checks, before the kernel kills. */
static bool memory_suffices(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    const RtShared *shared = rt->state->shared;
    const bool looks = rt_ranks_here(shared, rt->rank) == 0;
    const int64_t need =
        rt_ranks_here(shared, t->world_size) * rt_pages(t->snapshot_bytes);
    uint64_t awaited = (uint64_t)rt_arena_awaits_bytes(rt);
    rt_save_sum(rt, &awaited, 1);
    const int64_t free_bytes = rt_host_free_bytes() - (int64_t)awaited;
    const bool lacking = looks && need > free_bytes;
    uint64_t lacks = lacking;
    rt_save_sum(rt, &lacks, 1);
    if (lacking) {
        rt_say("trainer: warning: to save while training goes on takes copies of %.2f "
               "MiB, but only %.2f MiB of memory are available%s",
               (double)need / 1048576.0,
               (double)(free_bytes > 0 ? free_bytes : 0) / 1048576.0,
               rt->state->checkpoint->one_writer ? "" : ": training waits for saves");
    }
    return !lacks;
}

void rt_snapshot_open(Rt *rt)
{
    RtCheckpoint *c = rt->state->checkpoint;
    const RtFlags *f = &rt->state->flags;
    c->apart = !f->wait_for_saves &&
               (f->checkpoint_seconds > 0 || f->keep_best ||
                (f->checkpoint_every > 0 && f->checkpoint_every < f->steps));
    if (!c->apart && !c->one_writer)
        return;
    check_plan(rt);
    if (!memory_suffices(rt) && !c->one_writer) {
        c->apart = false;
        return;
    }
    if (map_snapshots(rt)) {
        rt_arena_pin(rt, c->snapshot[rt->rank], rt_pages(rt->trainer->snapshot_bytes));
        c->snapshots = true;
        return;
    }
    const int who = rt_first_error(rt);
    unmap_snapshots(rt);
    if (who == rt->rank && c->one_writer)
        rt_fail(rt, RT_EXIT_ERROR, "--one-writer: %s", c->error);
    if (who >= 0 && c->one_writer)
        rt_leave(rt);
    if (who == rt->rank)
        rt_say("trainer: warning: [rank %d] %s: training waits for saves", who, c->error);
    c->error[0] = '\0';
    c->apart = false;
}

/* ---- the thread ------------------------------------------------------------------ */

static void *write_apart(void *ctx)
{
    Rt *rt = ctx;
    RtCheckpoint *c = rt->state->checkpoint;
    rt_save_apart();
    rt_save_write(rt, c->writing);
    atomic_store(&c->written, true);
    rt_ring(rt->state->shared);
    return NULL;
}

bool rt_snapshot_start(Rt *rt, int64_t step)
{
    RtCheckpoint *c = rt->state->checkpoint;
    c->writing = step;
    atomic_store(&c->written, false);
    const int e = pthread_create(&c->writer, NULL, write_apart, rt);
    if (e != 0) {
        c->writing = -1;
        rt_say("trainer: warning: [rank %d] no thread to save with: %s", rt->rank,
               strerror(e));
    }
    return e == 0;
}

void rt_snapshot_join(Rt *rt)
{
    RtCheckpoint *c = rt->state->checkpoint;
    uint64_t moves = 0;
    if (c->writing < 0)
        return;
    rt_enter(rt, RT_AT_SAVE);
    while (!atomic_load(&c->written)) {
        const struct timespec nap = {0, 1000000};
        nanosleep(&nap, NULL);
        rt_save_await(rt, &moves);
    }
    rt_save_awaited(rt);
    pthread_join(c->writer, NULL);
    c->writing = -1;
}
