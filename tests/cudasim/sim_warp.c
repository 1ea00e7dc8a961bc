/* SPDX-License-Identifier: Apache-2.0 */
/* sim_warp.c: what the threads of a block do together: barriers, exchanges within a warp,
 * shared arrays, copies that go on behind the threads' backs. Runs on the fiber of the
 * thread that asks. */
#include "sim_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- where a thread is ----------------------------------------------------------- */

SimDim sim_thread_index(void)
{
    return sim.now->index;
}

SimDim sim_block_index(void)
{
    return sim.block.index;
}

SimDim sim_block_dim(void)
{
    return (SimDim){(unsigned)sim.launch->threads, 1, 1};
}

SimDim sim_grid_dim(void)
{
    return (SimDim){(unsigned)sim.launch->blocks_x, (unsigned)sim.launch->blocks_y, 1};
}

/* ---- barriers -------------------------------------------------------------------- */

static bool same_place(const SimPlace *a, const SimPlace *b)
{
    return a->line == b->line && !strcmp(a->what, b->what) && !strcmp(a->file, b->file);
}

void sim_block_sync(const char *file, int line)
{
    const SimPlace here = {file, line, "rt_block_sync"};
    SimBlock *b = &sim.block;

    if (b->at_barrier == 0)
        b->barrier = here;
    else if (!same_place(&b->barrier, &here))
        sim_fail(
            NULL,
            "divergent barrier: at line %d of %s, where others of the block wait at line "
            "%d of %s",
            line, file, b->barrier.line, b->barrier.file);
    if (++b->at_barrier < sim.launch->threads) {
        sim.now->state = SIM_AT_BARRIER;
        sim_yield();
        return;
    }
    b->at_barrier = 0;
    b->epoch++;
    for (int i = 0; i < sim.launch->threads; i++)
        sim.thread[i].state = SIM_READY;
}

/* Two slots for each lane: who comes to the next exchange has read this one's. */
const SimSlot *sim_warp_gather(const void *value, int bytes, const char *what,
                               const char *file, int line)
{
    const SimPlace here = {file, line, what};
    const int first = sim.now->number / SIM_WARP * SIM_WARP;
    SimWarp *w = &sim.block.warp[first / SIM_WARP];
    SimSlot *slot = w->slot[w->parity];

    if (w->arrived == 0)
        w->at = here;
    else if (!same_place(&w->at, &here))
        sim_fail(
            NULL,
            "divergent warp: in %s, line %d of %s, where other lanes wait in %s, line %d "
            "of %s",
            what, line, file, w->at.what, w->at.line, w->at.file);
    memcpy(slot[sim.now->number - first].bytes, value, (size_t)bytes);
    if (++w->arrived < SIM_WARP) {
        sim.now->state = SIM_AT_WARP;
        sim_yield();
        return slot;
    }
    w->arrived = 0;
    w->parity ^= 1;
    for (int i = first; i < first + SIM_WARP; i++)
        sim.thread[i].state = SIM_READY;
    return slot;
}

void sim_warp_sync(const char *file, int line)
{
    const int warp = sim.now->number / SIM_WARP;
    const uint32_t epoch = sim.block.warp[warp].epoch;

    sim_warp_gather("", 0, "rt_warp_sync", file, line);
    sim.block.warp[warp].epoch = epoch + 1; /* the same by every lane */
}

/* ---- shared arrays --------------------------------------------------------------- */

void *sim_shared(const void *site, int64_t elem_bytes, int64_t elems, const char *name)
{
    SimBlock *b = &sim.block;
    const int64_t bytes = elem_bytes * elems;
    SimArray *a;

    for (int i = 0; i < b->n_arrays; i++)
        if (b->array[i].site == site)
            return sim.shared + b->array[i].offset;
    b->static_bytes += (bytes + 15) / 16 * 16;
    if (b->n_arrays == SIM_MAX_ARRAYS)
        sim_fail(NULL, "more than %d shared arrays", SIM_MAX_ARRAYS);
    if (b->static_bytes > SIM_STATIC_SHARED_BYTES)
        sim_fail(NULL,
                 "%" PRId64
                 " bytes in shared arrays, at most %d may be declared: ask for the "
                 "rest with RT_SHARED_BYTES",
                 b->static_bytes, SIM_STATIC_SHARED_BYTES);
    if (b->static_bytes + sim.launch->shared_bytes > SIM_SHARED_BYTES)
        sim_fail(NULL, "%" PRId64 " bytes of shared memory, more than %d",
                 b->static_bytes + sim.launch->shared_bytes, SIM_SHARED_BYTES);
    a = &b->array[b->n_arrays++];
    *a = (SimArray){site, name, (b->shared_bytes + 15) / 16 * 16, bytes, elem_bytes};
    b->shared_bytes = a->offset + bytes + SIM_RED_ZONE_BYTES;
    memset(sim.shared + a->offset, 0xff, (size_t)bytes); /* NaN in every dtype */
    return sim.shared + a->offset;
}

void *sim_shared_bytes(void)
{
    if (sim.launch->shared_bytes == 0)
        sim_fail(NULL, "RT_SHARED_BYTES, and the launch says no shared_bytes");
    return sim.shared + sim.block.array[0].offset;
}

/* ---- copies ---------------------------------------------------------------------- */

void sim_cp_async_16(void *to, const void *from, int valid_bytes)
{
    const void *pc = __builtin_return_address(0);
    SimThread *t = sim.now;

    if (((uintptr_t)to | (uintptr_t)from) % 16)
        sim_fail(pc,
                 "cp.async of 16 bytes between addresses that are no multiples of 16");
    if (valid_bytes < 0 || valid_bytes > 16)
        sim_fail(pc, "cp.async with %d valid bytes of 16", valid_bytes);
    if (!sim_is_shared(to, 16))
        sim_fail(pc, "cp.async into what is no shared array");
    if (t->n_copies == t->cap_copies) {
        t->cap_copies = t->cap_copies ? 2 * t->cap_copies : 16;
        t->copies = realloc(t->copies, (size_t)t->cap_copies * sizeof *t->copies);
        if (!t->copies)
            abort();
    }
    sim_touch_copy(to, 16, true, pc);
    if (valid_bytes > 0)
        sim_touch(from, valid_bytes, false, pc);
    t->copies[t->n_copies++] = (SimCopy){to, from, valid_bytes, t->group};
}

void sim_cp_async_commit(void)
{
    sim.now->group++;
}

/* As late as is legal: the data comes when the thread has waited for it. */
void sim_cp_async_wait(int64_t n)
{
    const void *pc = __builtin_return_address(0);
    SimThread *t = sim.now;
    int kept = 0;

    for (int i = 0; i < t->n_copies; i++) {
        SimCopy c = t->copies[i];
        char text[16] = {0};

        if (c.group >= t->group - n) {
            t->copies[kept++] = c;
            continue;
        }
        memcpy(text, c.from, (size_t)c.valid_bytes);
        sim_touch_copy(c.to, 16, false, pc);
        memcpy(c.to, text, 16);
    }
    t->n_copies = kept;
}

void sim_atomic_add_u64(uint64_t *p, uint64_t v)
{
    sim_touch_atomic(p, 8, __builtin_return_address(0));
    *p += v; /* one OS thread */
}

void sim_atomic_max_i32(int32_t *p, int32_t v)
{
    sim_touch_atomic(p, 4, __builtin_return_address(0));
    *p = v > *p ? v : *p;
}
