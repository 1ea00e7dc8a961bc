/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_test.c: rt_gemm against a plain triple loop in f64, on odd shapes, every layout,
 * dtype and beta; nothing outside C is written; bits equal at 1 to 8 threads, where
 * OpenMP starts fewer than asked for, and of a tile wherever it lies; the built-in
 * kernels' rows know nothing of each other. Built once for each library behind rt_gemm;
 * `quick` leaves out the largest shape. */
#include "rt.h"

#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GAP = 3, N_THREADS = 5 }; /* extra elements between rows, must stay as they are */
static const int thread_counts[N_THREADS] = {1, 2, 3, 4, 8};

static bool quick;
static uint32_t random_state = 1;
static double random_value(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int32_t)random_state / 2147483648.0;
}

static size_t dtype_bytes(int dtype)
{
    return dtype == RT_F64 ? 8 : dtype == RT_F32 ? 4 : 2;
}

static double load(const void *p, int dtype, int64_t i)
{
    return dtype == RT_F64   ? ((const double *)p)[i]
           : dtype == RT_F32 ? (double)((const float *)p)[i]
           : dtype == RT_F16 ? (double)rt_f32_from_f16(((const rt_f16 *)p)[i])
                             : (double)rt_f32_from_bf16(((const rt_bf16 *)p)[i]);
}

static void *random_matrix(int64_t elems, int dtype)
{
    void *p = malloc((size_t)elems * dtype_bytes(dtype));
    assert_non_null(p);
    for (int64_t i = 0; i < elems; i++) {
        const double v = random_value();
        if (dtype == RT_F64)
            ((double *)p)[i] = v;
        else if (dtype == RT_F32)
            ((float *)p)[i] = (float)v;
        else if (dtype == RT_F16)
            ((rt_f16 *)p)[i] = rt_f16_from_f32((float)v);
        else
            ((rt_bf16 *)p)[i] = rt_bf16_from_f32((float)v);
    }
    return p;
}

typedef struct Case {
    RtGemm g;
    void *a, *b, *c0, *bias;
    int64_t a_elems, b_elems, c_elems;
} Case;

static Case case_make(RtGemmOp op, int64_t m, int64_t n, int64_t k, int64_t tile_m,
                      int64_t tile_n, int in, int out)
{
    Case t = {.g = {.op = op,
                    .m = m,
                    .n = n,
                    .k = k,
                    .tile_m = tile_m,
                    .tile_n = tile_n,
                    .in_dtype = in,
                    .out_dtype = out}};
    t.g.lda = (op == RT_TN ? m : k) + GAP;
    t.g.ldb = (op == RT_NT ? k : n) + GAP;
    t.g.ldc = n + GAP;
    t.a_elems = (op == RT_TN ? k : m) * t.g.lda;
    t.b_elems = (op == RT_NT ? n : k) * t.g.ldb;
    t.c_elems = m * t.g.ldc;
    t.a = random_matrix(t.a_elems, in);
    t.b = random_matrix(t.b_elems, in);
    t.c0 = random_matrix(t.c_elems, out);
    t.bias = random_matrix(n, out);
    return t;
}

static void case_free(Case *t)
{
    free(t->a);
    free(t->b);
    free(t->c0);
    free(t->bias);
}

/* The result at a number of threads. mode: 0 store, 1 add, 2 bias. */
static void *case_run(const Case *t, int threads, int mode)
{
    const size_t bytes = (size_t)t->c_elems * dtype_bytes(t->g.out_dtype);
    void *c = malloc(bytes);
    assert_non_null(c);
    memcpy(c, t->c0, bytes);
    omp_set_num_threads(threads);
    rt_gemm_prepare(&t->g);
    if (mode == 2)
        rt_gemm_bias(&t->g, t->a, t->b, t->bias, c);
    else
        rt_gemm(&t->g, t->a, t->b, c, (float)mode);
    return c;
}

static void case_check(const Case *t, const void *c, int mode)
{
    const RtGemm *g = &t->g;
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->ldc; j++) {
            const int64_t at = i * g->ldc + j;
            const double got = load(c, g->out_dtype, at);
            const double before = load(t->c0, g->out_dtype, at);
            if (j >= g->n) {
                assert_true(got == before);
                continue;
            }
            double sum = 0, size = 0;
            for (int64_t p = 0; p < g->k; p++) {
                const int64_t ai = g->op == RT_TN ? p * g->lda + i : i * g->lda + p;
                const int64_t bi = g->op == RT_NT ? j * g->ldb + p : p * g->ldb + j;
                const double v =
                    load(t->a, g->in_dtype, ai) * load(t->b, g->in_dtype, bi);
                sum += v;
                size += fabs(v);
            }
            const double other = mode == 1   ? before
                                 : mode == 2 ? load(t->bias, g->out_dtype, j)
                                             : 0;
            const double in_sum = g->in_dtype == RT_F64 ? 2e-16 : 1e-7;
            const double at_end = g->out_dtype == RT_BF16  ? 0.0040
                                  : g->out_dtype == RT_F16 ? 0.0005
                                                           : in_sum;
            const double allowed = (size + fabs(other)) * in_sum * 4 +
                                   (fabs(sum) + fabs(sum + other)) * at_end;
            if (!(fabs(got - (sum + other)) <= allowed)) {
                fail_msg("%s op %d %lldx%lldx%lld %d->%d mode %d: [%lld,%lld] is %.9g, "
                         "not %.9g",
                         rt_gemm_library(), (int)g->op, (long long)g->m, (long long)g->n,
                         (long long)g->k, g->in_dtype, g->out_dtype, mode, (long long)i,
                         (long long)j, got, sum + other);
            }
        }
    }
}

enum { N_PAIRS = 8 };
static const int dtype_pairs[N_PAIRS][2] = {
    {RT_F32, RT_F32},  {RT_F64, RT_F64},  {RT_BF16, RT_BF16}, {RT_F16, RT_F16},
    {RT_BF16, RT_F32}, {RT_F32, RT_BF16}, {RT_F16, RT_F32},   {RT_F16, RT_BF16}};

static void test_values(void **state)
{
    (void)state;
    static const int64_t shapes[][5] = {{1, 1, 1, 1, 1},       {5, 7, 3, 4, 4},
                                        {12, 32, 16, 12, 32},  {13, 33, 17, 8, 40},
                                        {50, 70, 401, 24, 32}, {31, 129, 8, 31, 64},
                                        {64, 64, 770, 48, 48}, {3, 200, 65, 3, 96},
                                        {97, 5, 50, 32, 5},    {100, 333, 77, 36, 96}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (int op = RT_NT; op <= RT_TN; op++) {
            for (int d = 0; d < N_PAIRS; d++) {
                const int64_t *z = shapes[s];
                Case t = case_make((RtGemmOp)op, z[0], z[1], z[2], z[3], z[4],
                                   dtype_pairs[d][0], dtype_pairs[d][1]);
                for (int mode = 0; mode < 3; mode++) {
                    void *c = case_run(&t, 2, mode);
                    case_check(&t, c, mode);
                    free(c);
                }
                case_free(&t);
            }
        }
    }
}

/* What happens to a bias in two passes: rounded after the product, and after the sum. */
static void test_bias_bits(void **state)
{
    (void)state;
    for (int d = 0; d < 4; d++) { /* what spans multiply by */
        Case t =
            case_make(RT_NT, 37, 75, 130, 16, 32, dtype_pairs[d][0], dtype_pairs[d][1]);
        void *fused = case_run(&t, 2, 2), *plain = case_run(&t, 2, 0);
        for (int64_t i = 0; i < t.g.m; i++) {
            for (int64_t j = 0; j < t.g.n; j++) {
                const int64_t at = i * t.g.ldc + j;
                const double a = load(plain, t.g.out_dtype, at);
                const double b = load(t.bias, t.g.out_dtype, j);
                const double got = load(fused, t.g.out_dtype, at);
                if (t.g.out_dtype == RT_F64) {
                    assert_true(got == a + b);
                } else if (t.g.out_dtype == RT_F32) {
                    assert_true(got == (double)((float)a + (float)b));
                } else {
                    const float sum = (float)a + (float)b;
                    assert_true(got ==
                                (t.g.out_dtype == RT_F16
                                     ? (double)rt_f32_from_f16(rt_f16_from_f32(sum))
                                     : (double)rt_f32_from_bf16(rt_bf16_from_f32(sum))));
                }
            }
        }
        free(fused);
        free(plain);
        case_free(&t);
    }
}

/* With `threads`, is the result `first`? */
static void same_bits(const Case *t, const void *first, int threads)
{
    void *other = case_run(t, threads, 1);
    assert_memory_equal(first, other, (size_t)t->c_elems * dtype_bytes(t->g.out_dtype));
    free(other);
}

static void test_bits_over_threads(void **state)
{
    (void)state;
    /* shapes whose K libraries split among threads when the whole matrix is one call */
    static const int64_t shapes[][5] = {{64, 64, 4096, 32, 32},
                                        {768, 768, 8192, 192, 192},
                                        {100, 333, 777, 48, 96},
                                        {129, 515, 301, 64, 128}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (int d = 0; d < N_PAIRS; d++) {
            const int64_t *z = shapes[s];
            if (z[2] == 8192 && (quick || dtype_pairs[d][0] == RT_F64))
                continue; /* slow; in f64 the same code as in f32 */
            Case t = case_make((RtGemmOp)(s % 3), z[0], z[1], z[2], z[3], z[4],
                               dtype_pairs[d][0], dtype_pairs[d][1]);
            void *first = case_run(&t, thread_counts[0], 1);
            for (int i = 1; i < N_THREADS; i++)
                same_bits(&t, first, thread_counts[i]);
            omp_set_max_active_levels(0); /* teams of one, whatever is asked for */
            same_bits(&t, first, thread_counts[N_THREADS - 1]);
            omp_set_max_active_levels(1);
            free(first);
            case_free(&t);
        }
    }
}

/* Rows first_row.. and columns first_col.. of t's C, as a product of its own, one tile.
 */
static Case case_part(const Case *t, int64_t first_row, int64_t first_col, int64_t rows,
                      int64_t cols)
{
    Case part = *t;
    const RtGemm *g = &t->g;
    const int64_t a_at = g->op == RT_TN ? first_row : first_row * g->lda;
    const int64_t b_at = g->op == RT_NT ? first_col * g->ldb : first_col;
    const int64_t c_at = first_row * g->ldc + first_col;
    part.g.m = part.g.tile_m = rows;
    part.g.n = part.g.tile_n = cols;
    part.a = (char *)t->a + (size_t)a_at * dtype_bytes(g->in_dtype);
    part.b = (char *)t->b + (size_t)b_at * dtype_bytes(g->in_dtype);
    part.c0 = (char *)t->c0 + (size_t)c_at * dtype_bytes(g->out_dtype);
    part.c_elems = (rows - 1) * g->ldc + cols;
    return part;
}

/* c is what t gives: its part there has the bits of a product of that part alone. */
static void part_check(const Case *t, const char *c, int mode, int64_t first_row,
                       int64_t first_col, int64_t rows, int64_t cols)
{
    const Case part = case_part(t, first_row, first_col, rows, cols);
    const size_t bytes = dtype_bytes(t->g.out_dtype);
    char *alone = case_run(&part, 1, mode);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = (first_row + i) * t->g.ldc + first_col;
        if (memcmp(c + (size_t)at * bytes, alone + (size_t)(i * t->g.ldc) * bytes,
                   (size_t)cols * bytes) != 0) {
            fail_msg("%s op %d %lldx%lldx%lld %d->%d mode %d: row %lld of the %lld x "
                     "%lld at [%lld,%lld] has other bits than alone",
                     rt_gemm_library(), (int)t->g.op, (long long)t->g.m,
                     (long long)t->g.n, (long long)t->g.k, t->g.in_dtype, t->g.out_dtype,
                     mode, (long long)i, (long long)rows, (long long)cols,
                     (long long)first_row, (long long)first_col);
        }
    }
    free(alone);
}

/* A tile's bits are those of a product of its shape: they know neither where the tile
 * lies nor what surrounds it. So products of equal shape have equal bits. */
static void test_tiles_alone(void **state)
{
    (void)state;
    static const int64_t shapes[][5] = {{53, 133, 37, 24, 64},
                                        {29, 75, 300, 12, 32},
                                        {31, 200, 500, 14, 96},
                                        {61, 101, 801, 30, 50}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (int i = 0; i < 3 * N_PAIRS; i++) {
            const int64_t *z = shapes[s];
            const int op = i % 3, d = i / 3, mode = (int)(s + (size_t)op) % 2;
            Case t = case_make((RtGemmOp)op, z[0], z[1], z[2], z[3], z[4],
                               dtype_pairs[d][0], dtype_pairs[d][1]);
            char *c = case_run(&t, 2, mode);
            for (int64_t row = 0; row < z[0]; row += z[3]) {
                for (int64_t col = 0; col < z[1]; col += z[4]) {
                    part_check(&t, c, mode, row, col,
                               z[0] - row < z[3] ? z[0] - row : z[3],
                               z[1] - col < z[4] ? z[1] - col : z[4]);
                }
            }
            free(c);
            case_free(&t);
        }
    }
}

/* The built-in kernels promise more: an element knows its row, its column and k, however
 * many others there are and wherever it lies among them. */
static void test_rows_alone(void **state)
{
    (void)state;
    if (strncmp(rt_gemm_library(), "built-in", 8) != 0)
        skip();
    for (int i = 0; i < 3 * N_PAIRS * 10; i++) {
        const int op = i % 3, d = i / 3 % N_PAIRS, mode = i / 2 % 2;
        const int64_t m = 1 + random_state % 50, k = 1 + random_state / 64 % 900;
        const int64_t n = 1 + random_state / 4096 % 100;
        Case t =
            case_make((RtGemmOp)op, m, n, k, m, n, dtype_pairs[d][0], dtype_pairs[d][1]);
        char *c = case_run(&t, 2, mode);
        for (int part = 0; part < 3; part++) {
            const int64_t row = (int64_t)(fabs(random_value()) * (double)m);
            const int64_t col = (int64_t)(fabs(random_value()) * (double)n);
            part_check(&t, c, mode, row, col,
                       1 + (int64_t)(fabs(random_value()) * (double)(m - row)),
                       1 + (int64_t)(fabs(random_value()) * (double)(n - col)));
        }
        free(c);
        case_free(&t);
    }
}

static void test_nan_and_zero(void **state)
{
    (void)state;
    /* beta 0 must not read C: garbage there, NaN above all, must not come through */
    Case t = case_make(RT_NN, 20, 40, 30, 8, 16, RT_F32, RT_F32);
    for (int64_t i = 0; i < t.c_elems; i++)
        ((float *)t.c0)[i] = NAN;
    float *c = case_run(&t, 1, 0);
    for (int64_t i = 0; i < t.g.m; i++)
        for (int64_t j = 0; j < t.g.n; j++)
            assert_true(isfinite(c[i * t.g.ldc + j]));
    free(c);
    case_free(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_bias_bits),
        cmocka_unit_test(test_bits_over_threads),
        cmocka_unit_test(test_tiles_alone),
        cmocka_unit_test(test_rows_alone),
        cmocka_unit_test(test_nan_and_zero),
    };
    quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    printf("rt_gemm over %s\n", rt_gemm_library());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
