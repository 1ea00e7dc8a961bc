/* SPDX-License-Identifier: Apache-2.0 */
/* sim.h: a device that is simulated, for tests of CUDA kernels and trainers where there
 * is no GPU. A kernel's text (cuda.cu, kernels.cu), unmodified, is compiled for the CPU
 * by tests/cudasim/ simcc: rt_device.h then takes its names from sim_device.h, and every
 * access to memory calls sim_access.c. Threads of a block are fibers of one OS thread, so
 * a run is a function of the seed alone.
 *
 * What it finds, on any order of threads, by what happens before what:
 *   - two accesses to one place of shared or global memory, one of them a write, that no
 * barrier orders: within a warp, a block, or between blocks of one launch
 *   - shared memory read before it was written, or while a cp.async into it is under way
 *   - accesses outside of shared arrays and of known device memory; misaligned ones
 *   - barriers and warp functions that not all threads reach, or reach at different lines
 *   - launches with other threads than the kernel's, or too much shared memory
 * Shared memory begins as NaN; orders of warps, threads and blocks are shuffled by the
 * seed.
 *
 * What it cannot show: time, occupancy, registers and spills; the caches and their
 * bandwidth, bank conflicts, coalescing; the order and width in which tensor cores add
 * (here f32, k in order) and the last bits of expf, logf, tanhf (here the C library's);
 * blocks that wait for each other (they run one after the other); warps that diverge for
 * long; wgmma, TMA and clusters; what nvcc makes of the text; the effect of missing
 * fences beside barriers. Reads of global memory that nobody wrote show as NaN only. */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What simcc adds to a compiled kernels.cu for each kernel, as `sim_kernel_NAME`. */
typedef struct SimKernel {
    const char *name;
    int threads; /* that its text declares */
    int n_params;
    const int *param_bytes;
    void (*call)(void **args); /* one thread's run */
    bool checked;              /* its accesses to memory are followed */
} SimKernel;

typedef struct SimLaunch {
    const SimKernel *kernel;
    int64_t blocks_x, blocks_y;
    int threads;
    int64_t shared_bytes; /* beside the arrays that the kernel declares */
    void **args;          /* addresses of the arguments */
} SimLaunch;

/* Runs all of it. False: sim_problem() says why; memory is then as the fault left it. */
bool sim_launch(const SimLaunch *launch);
/* The first problem since sim_clear(), or NULL. */
const char *sim_problem(void);
void sim_clear(void);
/* Another seed, other orders. */
void sim_seed(uint64_t seed);

/* Memory that kernels may touch. Two regions must not overlap. */
void sim_memory_add(void *p, size_t bytes, const char *what);
void sim_memory_remove(void *p);

/* Bytes that launches moved in a region. `all`: of each access; `first`: each byte once
 * in a launch that reads it before it writes it, or writes it: what reaches memory beside
 * a cache that holds everything. */
typedef struct SimTraffic {
    int64_t read_all, read_first, written_all, written_first;
} SimTraffic;
/* Regions that are added from now on are counted, or not. */
void sim_traffic_count(bool on);
SimTraffic sim_traffic(const void *p);

#ifdef __cplusplus
}
#endif
#endif
