/* SPDX-License-Identifier: Apache-2.0 */
/* sim_private.h: what sim_launch.c (blocks and their fibers), sim_warp.c (what threads do
 * together) and sim_access.c (every access to memory) share. */
#ifndef SIM_PRIVATE_H
#define SIM_PRIVATE_H

#include "sim.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SIM_MAX_THREADS = 1024,
    SIM_WARP = 32,
    SIM_SLOT_BYTES = 32,          /* what a lane shows the others: an mma's a and b */
    SIM_STACK_BYTES = 128 * 1024, /* of a thread, the lowest page a guard */
    SIM_STATIC_SHARED_BYTES = 48 * 1024,
    SIM_SHARED_BYTES = 227 * 1024, /* of a block, on sm_90 */
    SIM_RED_ZONE_BYTES = 64,       /* between shared arrays: nobody's */
    SIM_MAX_ARRAYS = 64,
};

typedef struct SimDim {
    unsigned x, y, z;
} SimDim;

typedef enum { SIM_READY, SIM_AT_BARRIER, SIM_AT_WARP, SIM_DONE } SimState;

/* A cp.async that its thread has not waited for. */
typedef struct SimCopy {
    void *to;
    const void *from;
    int valid_bytes;
    int64_t group;
} SimCopy;

typedef struct SimThread {
    void *sp;
    SimDim index;
    int number;
    SimState state;
    SimCopy *copies;
    int n_copies, cap_copies;
    int64_t group; /* committed so far */
} SimThread;

typedef struct SimPlace { /* where in the text */
    const char *file;
    int line;
    const char *what;
} SimPlace;

typedef struct SimSlot {
    unsigned char bytes[SIM_SLOT_BYTES];
} __attribute__((aligned(16))) SimSlot;

typedef struct SimWarp {
    int arrived, parity;
    uint32_t epoch; /* rt_warp_sync so far */
    SimPlace at;
    SimSlot slot[2][SIM_WARP];
} SimWarp;

typedef struct SimArray { /* of shared memory, in this block */
    const void *site;
    const char *name;
    int64_t offset, bytes, elem_bytes;
} SimArray;

/* The block that runs now. */
typedef struct SimBlock {
    uint32_t serial;       /* of all blocks ever run, from 1 */
    uint32_t first_serial; /* of this launch's blocks */
    uint32_t epoch;        /* rt_block_sync so far */
    int threads, at_barrier;
    SimPlace barrier;
    SimDim index;
    SimWarp warp[SIM_MAX_THREADS / SIM_WARP];
    SimArray array[SIM_MAX_ARRAYS];
    int n_arrays;
    int64_t shared_bytes, static_bytes;
} SimBlock;

typedef struct Sim {
    SimThread thread[SIM_MAX_THREADS];
    SimThread *now; /* NULL: the host runs */
    SimBlock block;
    const SimLaunch *launch;
    void *host_sp;
    char *stacks;
    char *shared; /* SIM_SHARED_BYTES and red zones */
    char problem[1024];
    uint64_t random;
} Sim;

/* One OS thread: never a thread-local, and of external linkage, so that no compiler keeps
 * its fields over a switch of fibers. */
extern Sim sim;

uint64_t sim_random(void);
/* Keeps the message if it is the first; in a kernel, ends the launch and does not return.
 * pc: an address in the kernel whose line is looked up, or NULL. */
void sim_fail(const void *pc, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Gives the processor away until the thread is ready again. */
void sim_yield(void);

/* Operations of streams (sim_stream.c); all zeros where there are none. */
typedef struct SimOrder {
    uint32_t now;           /* the operation that runs; 0: none */
    uint32_t first;         /* those before it are ordered before everything */
    const uint64_t *before; /* of `now`: a bit for each from `first` on */
} SimOrder;
extern SimOrder sim_order;
const char *sim_op_what(uint32_t id) __attribute__((weak));

/* ---- sim_half.c ------------------------------------------------------------------ */

uint16_t sim_bf16_from_f32(float x);
uint16_t sim_f16_from_f32(float x);
float sim_f32_from_f16(uint16_t x);

/* ---- for sim_device.h ------------------------------------------------------------ */

/* Of the running thread; the same from its first line to its last. */
SimDim sim_thread_index(void) __attribute__((const));
SimDim sim_block_index(void) __attribute__((const));
SimDim sim_block_dim(void) __attribute__((const));
SimDim sim_grid_dim(void) __attribute__((const));
void sim_block_sync(const char *file, int line);
/* Shows `bytes` of value to the warp; returns all lanes' when they have come. */
const SimSlot *sim_warp_gather(const void *value, int bytes, const char *what,
                               const char *file, int line);
void sim_warp_sync(const char *file, int line);
void *sim_shared(const void *site, int64_t elem_bytes, int64_t elems, const char *name);
void *sim_shared_bytes(void);
void sim_cp_async_16(void *to, const void *from, int valid_bytes);
void sim_cp_async_commit(void);
void sim_cp_async_wait(int64_t n);
void sim_atomic_add_u64(uint64_t *p, uint64_t v);
void sim_atomic_max_i32(int32_t *p, int32_t v);

/* ---- sim_access.c ---------------------------------------------------------------- */

void sim_access_reset(void); /* at the beginning of a block */
/* An access by the running thread, made by a function of the device; or by a library's
 * operation. */
void sim_touch(const void *p, int64_t bytes, bool write, const void *pc);
void sim_touch_atomic(const void *p, int64_t bytes, const void *pc);
/* A cp.async begins and ends to write shared memory. */
void sim_touch_copy(const void *p, int64_t bytes, bool begins, const void *pc);
/* True when all of it lies in one shared array. */
bool sim_is_shared(const void *p, int64_t bytes);

#ifdef __cplusplus
}
#endif
#endif
