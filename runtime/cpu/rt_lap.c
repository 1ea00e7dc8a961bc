/* SPDX-License-Identifier: MIT-0 */
/* rt_lap.c: what --calibrate needs of the CPU: clocks, products, copies by all threads of
 * the rank, the least that its threads can be started for. In: bytes of the local space.
 * Out: seconds. */
#include "cpu/rt_cpu.h"
#include "rt_gemm.h"

#include <string.h>
#include <time.h>

static double began;
static bool of_thread;

/* The clock of a thread stops while others have its core. */
static double now(void)
{
    struct timespec t;
    if (!of_thread || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
        return rt_clock();
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void rt_lap_begin(Rt *rt, bool waits)
{
    of_thread = rt->threads == 1 && !waits;
    began = now();
}

double rt_lap_end(Rt *rt)
{
    (void)rt;
    return now() - began;
}

void rt_product(Rt *rt, void *product, const void *a, const void *b, void *c)
{
    (void)rt;
    rt_gemm(product, a, b, c, 0.0f);
}

void rt_copy(Rt *rt, char *to, const char *from, int64_t bytes)
{
    const int64_t block = 1 << 16;
    (void)rt;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < bytes; at += block)
        memcpy(to + at, from + at, (size_t)(bytes - at < block ? bytes - at : block));
}

void rt_launch_least(Rt *rt, char *at)
{
    (void)rt, (void)at;
#pragma omp parallel
    __asm__ volatile("" ::: "memory"); /* an empty region would be left out */
}
