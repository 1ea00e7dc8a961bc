/* SPDX-License-Identifier: Apache-2.0 */
/* sim_access.c: every access of a kernel to memory. Kernels are compiled with gcc's
 * -fsanitize=thread, which puts a call before each load and store; the functions it calls
 * are these, and the sanitizer's own library is never linked. For each two bytes of
 * shared memory and of known device memory a cell keeps the last write and the reads
 * since: who, and how many barriers of block and warp he had passed. So a race is found
 * whatever order the threads took. */
#include "sim_private.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CELL_BYTES = 2, MAX_REGIONS = 256, READ_OPS = 3 };

/* Blocks are named by their serial, 0 for none; warp: the rt_warp_sync its warp had
 * passed. */
typedef struct Cell {
    uint32_t write_block, write_epoch, write_warp;
    uint32_t read_block, read_epoch, read_warp;
    uint32_t other_block;                 /* that read before read_block did */
    uint32_t copy_block;                  /* where a cp.async of `copier` is under way */
    uint32_t write_op, read_op[READ_OPS]; /* operations of streams; 0: none */
    uint16_t writer, reader, copier;
    uint8_t many_lanes, many_warps; /* more readers: of reader's warp, of other warps */
    uint8_t atomic;                 /* the last write: atomic adds only, by anybody */
} Cell;

typedef struct Region {
    char *base;
    size_t bytes;
    Cell *cells;
    const char *what;
    bool touched;
    /* The first access may be an operation that writes this much of it from its base, as
     * a job's first fill does. It is noted here: a cell there without a write_op has this
     * one. */
    size_t filled_bytes;
    uint32_t filled_by;
    uint32_t *read_in,
        *written_in; /* of each byte: the last launch, where traffic counts */
    SimTraffic traffic;
} Region;

static Region regions[MAX_REGIONS];
SimOrder sim_order = {.first = 1};
static int n_regions, last_region, last_array;
static bool counts;
static Cell shared_cells[2 * SIM_SHARED_BYTES / CELL_BYTES];

/* ---- known memory ---------------------------------------------------------------- */

static size_t cells_bytes(size_t bytes)
{
    return (bytes / CELL_BYTES + 2) * sizeof(Cell);
}

void sim_memory_add(void *p, size_t bytes, const char *what)
{
    Region *r = &regions[n_regions];

    if (n_regions == MAX_REGIONS) {
        fprintf(stderr, "simulated device: more than %d pieces of memory\n", MAX_REGIONS);
        exit(70);
    }
    *r = (Region){.base = p, .bytes = bytes, .what = what};
    r->cells = mmap(NULL, cells_bytes(bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->cells == MAP_FAILED) {
        perror("simulated device: mmap");
        exit(70);
    }
    madvise(r->cells, cells_bytes(bytes), MADV_HUGEPAGE); /* 24 times r->bytes */
    if (counts) {
        r->read_in = calloc(bytes, sizeof *r->read_in);
        r->written_in = calloc(bytes, sizeof *r->written_in);
        if (!r->read_in || !r->written_in) {
            perror("simulated device: calloc");
            exit(70);
        }
    }
    n_regions++;
}

void sim_memory_remove(void *p)
{
    for (int i = 0; i < n_regions; i++)
        if (regions[i].base == p) {
            munmap(regions[i].cells, cells_bytes(regions[i].bytes));
            free(regions[i].read_in);
            free(regions[i].written_in);
            regions[i] = regions[--n_regions];
            last_region = 0;
            return;
        }
}

static inline Region *region_of(const char *p)
{
    if (n_regions > 0 &&
        (size_t)(p - regions[last_region].base) < regions[last_region].bytes)
        return &regions[last_region];
    for (int i = 0; i < n_regions; i++) {
        Region *r = &regions[i];

        if (p >= r->base && p < r->base + r->bytes) {
            last_region = (int)(r - regions);
            return r;
        }
    }
    return NULL;
}

/* ---- traffic --------------------------------------------------------------------- */

void sim_traffic_count(bool on)
{
    counts = on;
}

SimTraffic sim_traffic(const void *p)
{
    const Region *r = region_of(p);

    return r ? r->traffic : (SimTraffic){0};
}

/* A launch is named by the serial of its first block. */
static void count(Region *r, int64_t at, int64_t bytes, bool write)
{
    const uint32_t launch = sim.block.first_serial;
    SimTraffic *t = &r->traffic;

    *(write ? &t->written_all : &t->read_all) += bytes;
    for (int64_t i = at; i < at + bytes; i++) {
        if (write)
            t->written_first += r->written_in[i] != launch;
        else
            t->read_first += r->read_in[i] != launch && r->written_in[i] != launch;
        *(write ? &r->written_in[i] : &r->read_in[i]) = launch;
    }
}

/* ---- places ---------------------------------------------------------------------- */

static inline const SimArray *array_of(int64_t offset)
{
    const SimBlock *b = &sim.block;
    const SimArray *last = &b->array[last_array];

    if (b->n_arrays > 0 && offset >= last->offset && offset < last->offset + last->bytes)
        return last;
    for (int i = 0; i < b->n_arrays; i++) {
        const SimArray *a = &b->array[i];

        if (offset >= a->offset && offset < a->offset + a->bytes) {
            last_array = (int)(a - b->array);
            return a;
        }
    }
    return NULL;
}

bool sim_is_shared(const void *p, int64_t bytes)
{
    const int64_t offset = (const char *)p - sim.shared;
    const SimArray *a =
        offset >= 0 && offset < 2 * SIM_SHARED_BYTES ? array_of(offset) : NULL;

    return a && offset + bytes <= a->offset + a->bytes;
}

void sim_access_reset(void)
{
    last_array = 0;
}

/* ---- cells ----------------------------------------------------------------------- */

typedef struct Access {
    const char *p;
    const void *pc;
    bool write, shared, atomic;
    uint32_t filled_by;
    uint32_t from; /* blocks that may touch the place at the same time begin here */
} Access;

static __attribute__((noinline, cold)) void fail_at(const Access *a, const char *what,
                                                    int other)
{
    const int64_t offset = a->p - sim.shared;
    const SimArray *array = a->shared ? array_of(offset) : NULL;
    const Region *r = a->shared ? NULL : region_of(a->p);
    char who[32] = "", where[100];

    if (other >= 0)
        snprintf(who, sizeof who, " thread %d", other);
    if (array)
        snprintf(where, sizeof where, "shared %s[%" PRId64 "]", array->name,
                 (offset - array->offset) / array->elem_bytes);
    else if (a->shared)
        snprintf(where, sizeof where, "shared memory at byte %" PRId64, offset);
    else if (r)
        snprintf(where, sizeof where, "global %s at byte %lld", r->what,
                 (long long)(a->p - r->base));
    else
        snprintf(where, sizeof where, "global memory address %p", (const void *)a->p);
    sim_fail(a->pc, "%s of %s %s%s", a->write ? "write" : "read", where, what, who);
}

static inline void check_against_write(const Cell *c, const Access *a)
{
    const SimBlock *b = &sim.block;
    const int t = sim.now->number, w = t / SIM_WARP;

    if (a->atomic && c->atomic)
        return;
    if (c->write_block != b->serial) {
        if (c->write_block >= a->from)
            fail_at(a, "which another block of the launch writes, by its", c->writer);
        return;
    }
    if (c->write_epoch == b->epoch && c->writer != t &&
        !(c->writer / SIM_WARP == w && c->write_warp < b->warp[w].epoch))
        fail_at(a, "with no barrier since the write by", c->writer);
}

static inline void check_against_reads(const Cell *c, const Access *a)
{
    const SimBlock *b = &sim.block;
    const int t = sim.now->number, w = t / SIM_WARP;

    if ((c->other_block >= a->from && c->other_block != b->serial) ||
        (c->read_block >= a->from && c->read_block != b->serial))
        fail_at(a, "which another block of the launch reads", -1);
    if (c->read_block != b->serial || c->read_epoch != b->epoch)
        return;
    if (c->many_warps || c->reader / SIM_WARP != w ||
        (c->read_warp == b->warp[w].epoch && (c->many_lanes || c->reader != t)))
        fail_at(a, "with no barrier since the read by", c->reader);
}

static inline void note_read(Cell *c)
{
    const SimBlock *b = &sim.block;
    const int t = sim.now->number, w = t / SIM_WARP;
    const uint32_t warp = b->warp[w].epoch;
    const bool first = c->read_block != b->serial || c->read_epoch != b->epoch;

    if (c->read_block != b->serial)
        c->other_block = c->read_block;
    if (!first && c->reader / SIM_WARP != w) {
        c->many_warps = 1;
        return;
    }
    if (!first && c->read_warp == warp) {
        c->many_lanes |= c->reader != t;
        return;
    }
    if (first)
        c->many_warps = 0;
    c->read_block = b->serial;
    c->read_epoch = b->epoch;
    c->read_warp = warp;
    c->reader = (uint16_t)t;
    c->many_lanes = 0;
}

static inline void note_write(Cell *c, bool atomic)
{
    c->write_block = sim.block.serial;
    c->write_epoch = sim.block.epoch;
    c->write_warp = sim.block.warp[sim.now->number / SIM_WARP].epoch;
    c->writer = (uint16_t)sim.now->number;
    c->atomic = atomic;
}

/* ---- operations of streams ------------------------------------------------------- */

static inline bool ordered(uint32_t id)
{
    const uint32_t i = id - sim_order.first;

    return id < sim_order.first || id == sim_order.now ||
           sim_order.before[i / 64] >> i % 64 & 1;
}

static void fail_order(const Access *a, const char *what, uint32_t id)
{
    char text[200];

    snprintf(text, sizeof text, "%s %s, for which no event makes it wait", what,
             sim_op_what ? sim_op_what(id) : "?");
    fail_at(a, text, -1);
}

static inline void visit_op(Cell *c, const Access *a)
{
    const uint32_t writer = c->write_op ? c->write_op : a->filled_by;
    int at = 0;

    if (!ordered(writer))
        fail_order(a, "of what is written by", writer);
    for (int i = 0; i < READ_OPS && a->write; i++) {
        if (!ordered(c->read_op[i]))
            fail_order(a, "of what is read by", c->read_op[i]);
        c->read_op[i] = 0;
    }
    if (a->write) {
        c->write_op = sim_order.now;
        return;
    }
    while (at < READ_OPS - 1 && !ordered(c->read_op[at]))
        at++;
    c->read_op[at] = sim_order.now;
}

static inline void visit(Cell *c, int64_t n, const Access *a)
{
    for (; n > 0; n--, c++) {
        if (!a->shared && sim_order.now)
            visit_op(c, a);
        if (!sim.now)
            continue;
        if (a->shared && c->copy_block == sim.block.serial)
            fail_at(a, "while a cp.async into it is under way, of", c->copier);
        check_against_write(c, a);
        if (a->write) {
            check_against_reads(c, a);
            if (a->atomic && a->shared && c->write_block != sim.block.serial)
                fail_at(a, "which nobody has written", -1);
            note_write(c, a->atomic);
        } else {
            if (a->shared && c->write_block != sim.block.serial)
                fail_at(a, "which nobody has written", -1);
            note_read(c);
        }
    }
}

static int64_t cells_of(uintptr_t p, int64_t bytes)
{
    return (int64_t)((p + (uintptr_t)bytes - 1) / CELL_BYTES - p / CELL_BYTES) + 1;
}

static inline Cell *shared_cell(int64_t bytes, Access *a)
{
    const int64_t offset = a->p - sim.shared;
    const SimArray *array = array_of(offset);

    a->shared = true;
    a->from = sim.block.serial;
    if (!array || offset + bytes > array->offset + array->bytes)
        fail_at(a, "outside of every shared array", -1); /* only threads come here */
    return &shared_cells[offset / CELL_BYTES];
}

static inline bool first_fill(Region *r, int64_t bytes, const Access *a)
{
    const bool fills = !r->touched && !sim.now && a->write && a->p == r->base;

    r->touched = true;
    if (fills) {
        r->filled_bytes = (size_t)bytes;
        r->filled_by = sim_order.now;
    }
    return fills;
}

static inline Cell *global_cell(int64_t bytes, Access *a)
{
    Region *r = region_of(a->p);
    Dl_info info;

    if (!r && !a->write && dladdr(a->p, &info))
        return NULL; /* a constant of the kernel's text */
    a->from = sim.block.first_serial;
    if (!r || a->p + bytes > r->base + r->bytes) {
        fail_at(a, "outside of the device's memory", -1);
        return NULL;
    }
    if (first_fill(r, bytes, a))
        return NULL;
    if (r->read_in && sim.now)
        count(r, a->p - r->base, bytes, a->write);
    a->filled_by = (size_t)(a->p - r->base) < r->filled_bytes ? r->filled_by : 0;
    return &r->cells[(a->p - r->base) / CELL_BYTES];
}

static inline bool inside(const void *p, const void *base, size_t bytes)
{
    return (uintptr_t)p - (uintptr_t)base < bytes;
}

static inline void touch(int64_t bytes, Access a)
{
    Cell *c;

    if (sim.now && !sim.launch->kernel->checked)
        return;
    if (inside(a.p, sim.stacks, (size_t)SIM_STACK_BYTES * SIM_MAX_THREADS) ||
        inside(a.p, &sim, sizeof sim) || (!sim.now && !sim_order.now))
        return;
    c = inside(a.p, sim.shared, 2 * SIM_SHARED_BYTES) ? shared_cell(bytes, &a)
                                                      : global_cell(bytes, &a);
    if (!c)
        return;
    if (sim.now && bytes <= 16 && (bytes & (bytes - 1)) == 0 &&
        (uintptr_t)a.p % (uintptr_t)bytes)
        fail_at(&a, "at a misaligned address", -1);
    visit(c, cells_of((uintptr_t)a.p, bytes), &a);
}

void sim_touch(const void *p, int64_t bytes, bool write, const void *pc)
{
    touch(bytes, (Access){.p = p, .write = write, .pc = pc});
}

void sim_touch_atomic(const void *p, int64_t bytes, const void *pc)
{
    touch(bytes, (Access){.p = p, .write = true, .atomic = true, .pc = pc});
}

void sim_touch_copy(const void *p, int64_t bytes, bool begins, const void *pc)
{
    Access a = {.p = p, .write = true, .pc = pc};
    Cell *c = shared_cell(bytes, &a);

    if (!sim.launch->kernel->checked)
        return;

    for (int64_t i = 0; i < bytes / CELL_BYTES; i++) {
        if (begins) {
            visit(&c[i], 1, &a);
            c[i].copy_block = sim.block.serial;
            c[i].copier = (uint16_t)sim.now->number;
        } else {
            c[i].copy_block = 0;
            note_write(&c[i], false);
        }
    }
}

/* ---- what instrumented code calls ------------------------------------------------ */

#define HOOKS(name, bytes)                                                               \
    void __tsan_read##name(void *p);                                                     \
    void __tsan_read##name(void *p)                                                      \
    {                                                                                    \
        touch(bytes, (Access){.p = p, .pc = __builtin_return_address(0)});               \
    }                                                                                    \
    void __tsan_write##name(void *p);                                                    \
    void __tsan_write##name(void *p)                                                     \
    {                                                                                    \
        touch(bytes,                                                                     \
              (Access){.p = p, .write = true, .pc = __builtin_return_address(0)});       \
    }                                                                                    \
    void __tsan_unaligned_read##name(void *p);                                           \
    void __tsan_unaligned_read##name(void *p)                                            \
    {                                                                                    \
        touch(bytes, (Access){.p = p, .pc = __builtin_return_address(0)});               \
    }                                                                                    \
    void __tsan_unaligned_write##name(void *p);                                          \
    void __tsan_unaligned_write##name(void *p)                                           \
    {                                                                                    \
        touch(bytes,                                                                     \
              (Access){.p = p, .write = true, .pc = __builtin_return_address(0)});       \
    }

HOOKS(1, 1)
HOOKS(2, 2)
HOOKS(4, 4)
HOOKS(8, 8)
HOOKS(16, 16)

void __tsan_read_range(void *p, size_t bytes);
void __tsan_read_range(void *p, size_t bytes)
{
    sim_touch(p, (int64_t)bytes, false, __builtin_return_address(0));
}

void __tsan_write_range(void *p, size_t bytes);
void __tsan_write_range(void *p, size_t bytes)
{
    sim_touch(p, (int64_t)bytes, true, __builtin_return_address(0));
}

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *pc);
void __tsan_func_entry(void *pc)
{
    (void)pc;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}
