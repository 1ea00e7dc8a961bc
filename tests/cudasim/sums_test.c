/* SPDX-License-Identifier: Apache-2.0 */
/* sums_test.c: the kernels that add the parts of ranks, for one dtype: bit for bit a
 * balanced tree that is rounded at each node, for every number of ranks that a trainer
 * starts, of any number of blocks, in place and not. */
#include "sim.h"
#include "sim_private.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL(ranks) extern const SimKernel sim_kernel_rt_sum_##ranks##_kernel
KERNEL(2);
KERNEL(4);
KERNEL(8);
KERNEL(16);

static const SimKernel *const kernels[] = {
    &sim_kernel_rt_sum_2_kernel,
    &sim_kernel_rt_sum_4_kernel,
    &sim_kernel_rt_sum_8_kernel,
    &sim_kernel_rt_sum_16_kernel,
};

#if defined(RT_F64_SUMS)
typedef double Grad;
typedef double Sum;
static Grad rounded(Sum x)
{
    return x;
}
static Sum number(Grad x)
{
    return x;
}
#elif defined(RT_BF16_SUMS)
typedef uint16_t Grad;
typedef float Sum;
static Grad rounded(Sum x)
{
    return sim_bf16_from_f32(x);
}
static Sum number(Grad x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float y;

    memcpy(&y, &bits, sizeof y);
    return y;
}
#else
typedef float Grad;
typedef float Sum;
static Grad rounded(Sum x)
{
    return x;
}
static Sum number(Grad x)
{
    return x;
}
#endif

typedef struct Parts { /* as in rt_control.h */
    const void *own, *staging;
    int64_t stride;
    int mine, ranks;
} Parts;

static uint64_t random_state = 1;

static uint32_t random_word(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

/* Of sizes that differ, so that another order rounds otherwise. */
static Grad random_grad(void)
{
    const double x = (double)random_word() / (1u << 30) - 1 + random_word() * 0x1p-60;

    return rounded((Sum)(x * (1 << random_word() % 12)));
}

static Grad tree(const Parts *p, int first, int ranks, int64_t i)
{
    const Grad *own = p->own, *staging = p->staging;

    if (ranks == 1)
        return first == p->mine ? own[i] : staging[first * p->stride + i];
    return rounded(number(tree(p, first, ranks / 2, i)) +
                   number(tree(p, first + ranks / 2, ranks / 2, i)));
}

static void *device(int64_t elems)
{
    const size_t bytes = (size_t)elems * sizeof(Grad);
    Grad *p = aligned_alloc(256, bytes);

    assert_non_null(p);
    for (int64_t i = 0; i < elems; i++)
        p[i] = random_grad();
    sim_memory_add(p, bytes, "gradients");
    return p;
}

static void release(void *p)
{
    sim_memory_remove(p);
    free(p);
}

/* The sum in place, or beside what it adds, against the tree. */
static void check(int ranks, int64_t grains, int64_t blocks, bool in_place)
{
    int64_t elems = grains * 1024;
    const int64_t stride = elems + 1024; /* what lies between parts is not touched */
    Grad *staging = device(ranks * stride), *own = device(elems),
         *out = in_place ? own : device(elems),
         *want = malloc((size_t)elems * sizeof *want);
    Parts p = {own, staging, stride, (int)(random_word() % (unsigned)ranks), ranks};
    int kernel = 0;

    for (int64_t i = 0; i < elems; i++)
        want[i] = tree(&p, 0, ranks, i);
    while (kernel < 3 && 4 << kernel <= ranks)
        kernel++;
    assert_true(sim_launch(&(SimLaunch){.kernel = kernels[kernel],
                                        .blocks_x = blocks,
                                        .blocks_y = 1,
                                        .threads = kernels[kernel]->threads,
                                        .args = (void *[]){&p, &elems, &out}}));
    assert_memory_equal(out, want, (size_t)elems * sizeof *want);
    release(staging);
    release(own);
    if (!in_place)
        release(out);
    free(want);
}

static void test_trees(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 1024; ranks *= 2) {
        sim_seed((uint64_t)ranks);
        check(ranks, ranks < 64 ? 5 : 1, 1, true);
        check(ranks, ranks < 64 ? 7 : 2, 2, false);
        if (ranks < 64)
            check(ranks, 33, 3, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_trees)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
