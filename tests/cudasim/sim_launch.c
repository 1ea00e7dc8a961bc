/* SPDX-License-Identifier: Apache-2.0 */
/* sim_launch.c: in: a launch. Out: its blocks, run one after the other in an order of the
 * seed, each thread of a block on a fiber of its own until all have returned. A block
 * whose threads all wait, for different things, is the divergent barrier's fault. */
#include "sim_private.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

Sim sim = {.random = 1};

/* ---- fibers ---------------------------------------------------------------------- */

#if defined(__x86_64__)
/* Saves what the calling convention asks a function to keep, and changes stacks. */
void sim_switch(void **save, void *to);
__asm__(".text\n"
        ".globl sim_switch\n"
        ".type sim_switch, @function\n"
        "sim_switch:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n"
        "    push %r14\n    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n"
        "    pop %rbx\n    pop %rbp\n"
        "    ret\n"
        ".size sim_switch, . - sim_switch\n");

static void *fiber_new(char *stack, void (*entry)(void))
{
    void **sp = (void **)(stack + SIM_STACK_BYTES);

    *--sp = NULL; /* where entry, which never returns, would return to */
    *--sp = (void *)entry;
    for (int i = 0; i < 6; i++)
        *--sp = NULL;
    return sp;
}
#else
#include <ucontext.h>

/* Slower: each switch also sets the signal mask. */
static ucontext_t contexts[SIM_MAX_THREADS + 1];

static void sim_switch(void **save, void *to)
{
    if (!*save)
        *save = &contexts[SIM_MAX_THREADS];
    swapcontext(*save, to);
}

static void *fiber_new(char *stack, void (*entry)(void))
{
    ucontext_t *c = &contexts[(stack - sim.stacks) / SIM_STACK_BYTES];

    getcontext(c);
    c->uc_stack.ss_sp = stack;
    c->uc_stack.ss_size = SIM_STACK_BYTES;
    c->uc_link = NULL;
    makecontext(c, entry, 0);
    return c;
}
#endif

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED) {
        perror("simulated device: mmap");
        exit(70);
    }
    return p;
}

static void map_once(void)
{
    if (sim.stacks)
        return;
    sim.stacks = map((size_t)SIM_STACK_BYTES * SIM_MAX_THREADS);
    for (int i = 0; i < SIM_MAX_THREADS; i++)
        mprotect(sim.stacks + (size_t)i * SIM_STACK_BYTES, 4096, PROT_NONE);
    sim.shared = map(2 * SIM_SHARED_BYTES);
}

void sim_yield(void)
{
    sim_switch(&sim.now->sp, sim.host_sp);
}

static void thread_main(void)
{
    sim.launch->kernel->call(sim.launch->args);
    sim.now->state = SIM_DONE;
    sim_yield();
    abort();
}

/* ---- problems -------------------------------------------------------------------- */

/* " (FILE:LINE)" of an address in a kernel, as far as the system's tools know it. */
static void describe_line(const void *pc, char *text, size_t bytes)
{
    char command[600], line[180];
    Dl_info info;
    FILE *f;

    text[0] = 0;
    if (!pc || !dladdr(pc, &info) || !info.dli_fname)
        return;
    snprintf(command, sizeof command, "addr2line -e '%s' 0x%" PRIxPTR " 2>/dev/null",
             info.dli_fname, (uintptr_t)pc - (uintptr_t)info.dli_fbase - 1);
    f = popen(command, "r");
    if (!f)
        return;
    if (fgets(line, sizeof line, f) && line[0] != '?') {
        const char *name = strrchr(line, '/');

        line[strcspn(line, "\n ")] = 0;
        snprintf(text, bytes, " (%s)", name ? name + 1 : line);
    }
    pclose(f);
}

static const char *name_of_op(void)
{
    return sim_op_what && sim_order.now ? sim_op_what(sim_order.now) : "device";
}

void sim_fail(const void *pc, const char *format, ...)
{
    if (!sim.problem[0]) {
        char what[600], where[200];
        va_list args;

        va_start(args, format);
        vsnprintf(what, sizeof what, format, args);
        va_end(args);
        describe_line(pc, where, sizeof where);
        if (sim.now)
            snprintf(sim.problem, sizeof sim.problem,
                     "kernel %s, block (%u, %u), thread %d: %s%s",
                     sim.launch->kernel->name, sim.block.index.x, sim.block.index.y,
                     sim.now->number, what, where);
        else
            snprintf(sim.problem, sizeof sim.problem, "%s%s: %s%s",
                     sim.launch ? "kernel " : "",
                     sim.launch ? sim.launch->kernel->name : name_of_op(), what, where);
    }
    if (sim.now)
        sim_yield(); /* run_block never comes back */
}

const char *sim_problem(void)
{
    return sim.problem[0] ? sim.problem : NULL;
}

void sim_clear(void)
{
    sim.problem[0] = 0;
}

/* ---- orders ---------------------------------------------------------------------- */

void sim_seed(uint64_t seed)
{
    sim.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

uint64_t sim_random(void) /* splitmix64 */
{
    uint64_t z = sim.random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void shuffle(int *order, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int k = (int)(sim_random() % (uint64_t)(i + 1)), was = order[i];

        order[i] = order[k];
        order[k] = was;
    }
}

/* Forward, backward, warps in any order, or threads in any order. */
static void order_threads(int *order, int n)
{
    int warps[SIM_MAX_THREADS / SIM_WARP], way = (int)(sim_random() % 4);

    for (int i = 0; i < n; i++)
        order[i] = way == 1 ? n - 1 - i : i;
    if (way == 3)
        shuffle(order, n);
    if (way != 2)
        return;
    for (int w = 0; w < n / SIM_WARP; w++)
        warps[w] = w;
    shuffle(warps, n / SIM_WARP);
    for (int i = 0; i < n; i++)
        order[i] = warps[i / SIM_WARP] * SIM_WARP + i % SIM_WARP;
}

/* ---- a block --------------------------------------------------------------------- */

static void begin_block(int64_t number)
{
    SimBlock *b = &sim.block;
    const SimLaunch *l = sim.launch;

    b->serial++;
    b->epoch = 0;
    b->at_barrier = 0;
    b->index =
        (SimDim){(unsigned)(number % l->blocks_x), (unsigned)(number / l->blocks_x), 0};
    b->n_arrays = 0;
    b->static_bytes = 0;
    b->shared_bytes = SIM_RED_ZONE_BYTES;
    if (l->shared_bytes > 0) {
        b->array[b->n_arrays++] =
            (SimArray){NULL, "RT_SHARED_BYTES", 128, l->shared_bytes, 1};
        b->shared_bytes = 128 + (l->shared_bytes + 127) / 128 * 128 + SIM_RED_ZONE_BYTES;
        memset(sim.shared + 128, 0xff, (size_t)l->shared_bytes);
    }
    for (int w = 0; w < l->threads / SIM_WARP; w++)
        b->warp[w].arrived = b->warp[w].parity = 0, b->warp[w].epoch = 0;
    for (int i = 0; i < l->threads; i++) {
        SimThread *t = &sim.thread[i];

        t->sp = fiber_new(sim.stacks + (size_t)i * SIM_STACK_BYTES, thread_main);
        t->index = (SimDim){(unsigned)i, 0, 0};
        t->number = i;
        t->state = SIM_READY;
        t->n_copies = 0;
        t->group = 0;
    }
    sim_access_reset();
}

/* Nothing can go on: who waits for what. */
static void fail_divergent(void)
{
    int count[SIM_DONE + 1] = {0}, threads = sim.launch->threads;
    const SimPlace *warp = NULL;

    for (int i = 0; i < threads; i++) {
        count[sim.thread[i].state]++;
        if (sim.thread[i].state == SIM_AT_WARP)
            warp = &sim.block.warp[i / SIM_WARP].at;
    }
    if (warp)
        sim_fail(NULL,
                 "block (%u, %u): divergent warp: %d of %d threads wait in %s (line %d "
                 "of %s), "
                 "%d at rt_block_sync, %d have returned",
                 sim.block.index.x, sim.block.index.y, count[SIM_AT_WARP], threads,
                 warp->what, warp->line, warp->file, count[SIM_AT_BARRIER],
                 count[SIM_DONE]);
    else
        sim_fail(
            NULL,
            "block (%u, %u): divergent barrier: %d of %d threads wait at rt_block_sync "
            "(line %d of %s), %d have returned",
            sim.block.index.x, sim.block.index.y, count[SIM_AT_BARRIER], threads,
            sim.block.barrier.line, sim.block.barrier.file, count[SIM_DONE]);
}

static void run_block(int64_t number)
{
    int order[SIM_MAX_THREADS], n = sim.launch->threads;

    begin_block(number);
    order_threads(order, n);
    for (int done = 0; done < n && !sim.problem[0];) {
        bool ran = false;

        for (int i = 0; i < n && !sim.problem[0]; i++) {
            SimThread *t = &sim.thread[order[i]];

            if (t->state != SIM_READY)
                continue;
            sim.now = t;
            sim_switch(&sim.host_sp, t->sp);
            sim.now = NULL;
            ran = true;
            done += t->state == SIM_DONE;
        }
        if (!ran)
            fail_divergent();
    }
}

static bool legal(const SimLaunch *l)
{
    const SimKernel *k = l->kernel;

    if (l->threads != k->threads)
        sim_fail(NULL, "declared for blocks of %d threads and launched with %d",
                 k->threads, l->threads);
    else if (l->threads < SIM_WARP || l->threads % SIM_WARP ||
             l->threads > SIM_MAX_THREADS)
        sim_fail(NULL, "blocks of %d threads: not a multiple of 32, or more than %d",
                 l->threads, SIM_MAX_THREADS);
    else if (l->blocks_x < 1 || l->blocks_x > INT32_MAX || l->blocks_y < 1 ||
             l->blocks_y > 65535)
        sim_fail(NULL, "a grid of %" PRId64 " x %" PRId64 " blocks", l->blocks_x,
                 l->blocks_y);
    else if (l->shared_bytes < 0 || l->shared_bytes > SIM_SHARED_BYTES)
        sim_fail(NULL, "%" PRId64 " bytes of shared memory, more than %d",
                 l->shared_bytes, SIM_SHARED_BYTES);
    return !sim.problem[0];
}

bool sim_launch(const SimLaunch *l)
{
    const SimLaunch *outer = sim.launch;
    int64_t blocks = l->blocks_x * l->blocks_y, step, at;

    if (sim.problem[0])
        return false;
    sim.launch = l;
    if (legal(l)) {
        map_once();
        sim.block.first_serial = sim.block.serial + 1;
        /* every block once, from any, by a step of the same or the other direction */
        at = (int64_t)(sim_random() % (uint64_t)blocks);
        step = sim_random() % 2 ? 1 : blocks - 1;
        for (int64_t i = 0; i < blocks && !sim.problem[0]; i++) {
            run_block(at);
            at = (at + step) % blocks;
        }
    }
    sim.launch = outer;
    return !sim.problem[0];
}
