/* SPDX-License-Identifier: Apache-2.0 */
/* sim_test.c: the simulated device itself: right kernels of sim_test.cu give what they
 * should in every order of threads, and each wrong one is told by its fault, in every
 * order too. */
#include "sim.h"
#include "sim_private.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL(name) extern const SimKernel sim_kernel_##name
KERNEL(sum_rows);
KERNEL(minus_onehot);
KERNEL(turn_within_warps);
KERNEL(all_of_warp);
KERNEL(multiply);
KERNEL(transpose_by_ldmatrix);
KERNEL(count_all);
KERNEL(no_barrier);
KERNEL(no_second_barrier);
KERNEL(barrier_of_warp_only);
KERNEL(shuffle_as_barrier);
KERNEL(divergent_barrier);
KERNEL(two_barriers);
KERNEL(divergent_shuffle);
KERNEL(unwritten_shared);
KERNEL(outside_shared);
KERNEL(outside_global);
KERNEL(misaligned);
KERNEL(blocks_add);
KERNEL(in_place_over_blocks);
KERNEL(atomic_then_read);
KERNEL(copy_not_awaited);
KERNEL(copy_over_readers);
KERNEL(too_much_shared);

enum { ORDERS = 12 };

static bool launch(const SimKernel *k, int64_t blocks, void **args)
{
    const SimLaunch l = {.kernel = k,
                         .blocks_x = blocks,
                         .blocks_y = 1,
                         .threads = k->threads,
                         .args = args};

    return sim_launch(&l);
}

static void *device(size_t bytes)
{
    void *p = aligned_alloc(256, (bytes + 255) / 256 * 256);

    assert_non_null(p);
    memset(p, 0, bytes);
    sim_memory_add(p, bytes, "buffer");
    return p;
}

static void release(void *p)
{
    sim_memory_remove(p);
    free(p);
}

static void test_sums(void **state)
{
    int columns = 200;
    float *x = device(sizeof *x * 5 * 200), *y = device(sizeof *y * 5);

    (void)state;
    for (int i = 0; i < 5 * 200; i++)
        x[i] = (float)i;
    for (int seed = 0; seed < ORDERS; seed++) {
        sim_seed((uint64_t)seed);
        memset(y, 0, sizeof *y * 5);
        assert_true(launch(&sim_kernel_sum_rows, 5, (void *[]){&x, &y, &columns}));
        for (int i = 0; i < 5; i++)
            assert_true(y[i] == 200.0f * (200.0f * (float)i) + 199.0f * 100.0f);
    }
    release(x);
    release(y);
}

/* Whatever is behind a row of logits becomes 0: a product multiplies it by 0. The
 * exponential of a 0 there overflows. */
static void test_behind_row(void **state)
{
    float *row = device(sizeof *row * 12), lse = -98;

    (void)state;
    for (int i = 0; i < 12; i++)
        row[i] = i < 9 ? -100 - (float)i : 0;
    assert_true(launch(&sim_kernel_minus_onehot, 1, (void *[]){&row, &lse}));
    for (int i = 0; i < 9; i++)
        assert_true(fabsf(row[i] - expf(-2 - (float)i) + (float)(i == 2)) < 1e-6f);
    for (int i = 9; i < 12; i++)
        assert_true(row[i] == 0);
    release(row);
}

static void test_warp(void **state)
{
    int *x = device(256), *y = device(256);
    uint64_t *total = device(8);

    (void)state;
    for (int i = 0; i < 64; i++)
        x[i] = i;
    for (int seed = 0; seed < ORDERS; seed++) {
        sim_seed((uint64_t)seed);
        assert_true(launch(&sim_kernel_turn_within_warps, 1, (void *[]){&x, &y}));
        for (int i = 0; i < 64; i++)
            assert_int_equal(y[i], i / 32 * 32 + 31 - i % 32);
        assert_true(launch(&sim_kernel_all_of_warp, 1, (void *[]){&x, &y}));
        for (int i = 0; i < 64; i++)
            assert_int_equal(y[i], i < 32); /* 40 is in the second */
    }
    assert_true(launch(&sim_kernel_count_all, 10, (void *[]){&total}));
    assert_int_equal(*total, 10 * 64 * 65 / 2);
    release(x);
    release(y);
    release(total);
}

static void test_matrices(void **state)
{
    uint16_t *a = device(512), *b = device(256), *t = device(512);
    float *d = device(512), fa[256], fb[128];

    (void)state;
    for (int i = 0; i < 256; i++) {
        fa[i] = (float)(i % 13) - 6;
        a[i] = sim_bf16_from_f32(fa[i]);
    }
    for (int i = 0; i < 128; i++) {
        fb[i] = (float)(i % 7) - 3;
        b[i] = sim_bf16_from_f32(fb[i]);
    }
    for (int seed = 0; seed < ORDERS; seed++) {
        sim_seed((uint64_t)seed);
        assert_true(launch(&sim_kernel_multiply, 1, (void *[]){&a, &b, &d}));
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 8; j++) {
                float sum = 0;

                for (int k = 0; k < 16; k++)
                    sum += fa[i * 16 + k] * fb[j * 16 + k];
                assert_true(d[i * 8 + j] == sum);
            }
    }
    assert_true(launch(&sim_kernel_transpose_by_ldmatrix, 1, (void *[]){&a, &t}));
    for (int m = 0; m < 4; m++)
        for (int i = 0; i < 64; i++)
            assert_int_equal(t[m * 64 + i], a[m * 64 + i % 8 * 8 + i / 8]);
    release(a);
    release(b);
    release(d);
    release(t);
}

/* The 16-bit formats against arithmetic, on every value of f16 and between its
 * neighbours. */
static void test_halves(void **state)
{
    (void)state;
    for (int i = 0; i < 0x7c00; i++) {
        const float x = sim_f32_from_f16((uint16_t)i);
        const float next = sim_f32_from_f16((uint16_t)(i + 1));

        assert_true(x == (i < 1024 ? (float)i * 0x1p-24f
                                   : ldexpf((float)(1024 + i % 1024), i / 1024 - 25)));
        assert_int_equal(sim_f16_from_f32(x), i);
        assert_int_equal(sim_f16_from_f32(-x), i | 0x8000);
        if (i + 1 == 0x7c00)
            continue;
        /* halfway: to the even one */
        assert_int_equal(sim_f16_from_f32(x / 2 + next / 2), i + i % 2);
        assert_int_equal(sim_f16_from_f32(nextafterf(x / 2 + next / 2, x)), i);
        assert_int_equal(sim_f16_from_f32(nextafterf(x / 2 + next / 2, next)), i + 1);
    }
    assert_int_equal(sim_f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(sim_f16_from_f32(65519.0f), 0x7bff);
    assert_int_equal(sim_bf16_from_f32(1.00390625f), 0x3f80); /* halfway, to even */
    assert_int_equal(sim_bf16_from_f32(1.01171875f), 0x3f82);
    assert_int_equal(sim_bf16_from_f32(NAN), 0x7fff);
}

/* Each kernel takes x and y, or y alone. */
static void test_faults(void **state)
{
    static const struct {
        const SimKernel *kernel;
        int blocks;
        const char *says;
    } faults[] = {
        {&sim_kernel_no_barrier, 1, "shared line"},
        {&sim_kernel_no_second_barrier, 1, "with no barrier since the"},
        {&sim_kernel_barrier_of_warp_only, 1, "shared line"},
        {&sim_kernel_shuffle_as_barrier, 1, "with no barrier since the write"},
        {&sim_kernel_divergent_barrier, 1, "divergent barrier"},
        {&sim_kernel_two_barriers, 1, "divergent barrier"},
        {&sim_kernel_divergent_shuffle, 1, "divergent warp"},
        {&sim_kernel_unwritten_shared, 1, "which nobody has written"},
        {&sim_kernel_outside_shared, 1, "outside of every shared array"},
        {&sim_kernel_outside_global, 1, "outside of the device's memory"},
        {&sim_kernel_misaligned, 1, "misaligned"},
        {&sim_kernel_blocks_add, 2, "another block of the launch"},
        {&sim_kernel_in_place_over_blocks, 3, "another block of the launch"},
        {&sim_kernel_atomic_then_read, 1, "with no barrier since the"},
        {&sim_kernel_copy_not_awaited, 1, "cp.async"},
        {&sim_kernel_copy_over_readers, 1, "line"},
        {&sim_kernel_too_much_shared, 1, "RT_SHARED_BYTES"},
    };
    float *x = device(1024), *y = device(256);

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        for (int seed = 0; seed < ORDERS; seed++) {
            void *both[] = {&x, &y}, *one[] = {&y};

            sim_seed((uint64_t)seed);
            sim_clear();
            if (faults[i].kernel == &sim_kernel_in_place_over_blocks) {
                release(y);
                y = device(384);
            }
            assert_false(launch(faults[i].kernel, faults[i].blocks,
                                faults[i].kernel->n_params == 2 ? both : one));
            if (!strstr(sim_problem(), faults[i].says) ||
                !strstr(sim_problem(), faults[i].kernel->name))
                fail_msg("%s says: %s", faults[i].kernel->name, sim_problem());
        }
    sim_clear();
    release(x);
    release(y);
}

static void test_launches(void **state)
{
    int *y = device(256);
    SimLaunch l = {.kernel = &sim_kernel_unwritten_shared,
                   .blocks_x = 1,
                   .blocks_y = 1,
                   .threads = 128,
                   .args = (void *[]){&y}};

    (void)state;
    assert_false(sim_launch(&l));
    assert_non_null(strstr(sim_problem(), "declared for blocks of 64 threads"));
    assert_false(sim_launch(&l)); /* until it is cleared */
    sim_clear();
    l.threads = 64;
    l.shared_bytes = 300000;
    assert_false(sim_launch(&l));
    assert_non_null(strstr(sim_problem(), "300000 bytes of shared memory"));
    sim_clear();
    l.shared_bytes = 0;
    l.blocks_y = 65536;
    assert_false(sim_launch(&l));
    assert_non_null(strstr(sim_problem(), "a grid of"));
    sim_clear();
    release(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),       cmocka_unit_test(test_warp),
        cmocka_unit_test(test_behind_row), cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_halves),     cmocka_unit_test(test_faults),
        cmocka_unit_test(test_launches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
