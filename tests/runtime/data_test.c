/* SPDX-License-Identifier: Apache-2.0 */
/* data_test.c: the order of samples is a bijection in every epoch, and the tree sum over
 * ranks is the balanced tree, or ranks in their order, for every dtype. */
#include "../../runtime/rt_sum.c"
#include "../../runtime/rt_data.c"
#include "../../runtime/rt_pull.c"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void order_is_a_bijection(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 100, 1023, 1025, 6569};
    int moved = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            char *seen = calloc((size_t)sizes[i], 1);
            for (int64_t k = 0; k < sizes[i]; k++) {
                const int64_t at = rt_tokens_place(sizes[i], 11, epoch * sizes[i] + k);
                assert_true(at >= 0 && at < sizes[i] && !seen[at]);
                seen[at] = 1;
                moved += at != rt_tokens_place(sizes[i], 11, (epoch + 1) * sizes[i] + k);
            }
            free(seen);
        }
    assert_true(moved > 20000); /* epochs differ */
}

static void fill_ranks(Rt *rt, RtDtype d, int n)
{
    uint32_t x = 12345;
    for (int r = 0; r < rt->world_size; r++) {
        rt->peer[r] = malloc((size_t)n * rt_dtype_bytes(d));
        for (int i = 0; i < n; i++) {
            x = x * 1664525u + 1013904223u;
            const double v = (double)(int32_t)x / 2147483648.0 * (1 << x % 13);
            if (d == RT_F32)
                ((float *)rt->peer[r])[i] = (float)v;
            else if (d == RT_F64)
                ((double *)rt->peer[r])[i] = v;
            else
                ((rt_bf16 *)rt->peer[r])[i] = rt_bf16_from_f32((float)v);
        }
    }
    rt->symmetric = rt->peer[0];
}

static double value(RtDtype d, const char *p, int i)
{
    return d == RT_F32   ? ((const float *)p)[i]
           : d == RT_F64 ? ((const double *)p)[i]
                         : rt_f32_from_bf16(((const rt_bf16 *)p)[i]);
}

/* reduction = "library": p0 + p1 + p2 ..., bf16 rounded at the end only. */
static void library_goes_by_rank(void **state)
{
    (void)state;
    enum { N = 2500 };
    const RtDtype dtypes[] = {RT_F32, RT_F64, RT_BF16};
    int other_than_tree = 0;
    for (int k = 0; k < 3; k++)
        for (int ranks = 2; ranks <= 16; ranks *= 2) {
            const RtDtype d = dtypes[k];
            RtTrainer t = {.reduce_dtype = d, .world_size = ranks, .library_order = true};
            Rt rt = {.world_size = ranks, .trainer = &t};
            fill_ranks(&rt, d, N);
            char *out = malloc(N * rt_dtype_bytes(d)),
                 *tree = malloc(N * rt_dtype_bytes(d));
            sum_ranks(&rt, (RtGroup){ranks, 1}, 0, out, N);
            for (int i = 0; i < N; i++) {
                double sum = value(d, rt.peer[0], i);
                for (int r = 1; r < ranks; r++) {
                    sum += value(d, rt.peer[r], i);
                    sum = d == RT_F64 ? sum : (float)sum;
                }
                assert_true(value(d, out, i) ==
                            (d == RT_BF16 ? rt_f32_from_bf16(rt_bf16_from_f32((float)sum))
                                          : sum));
            }
            t.library_order = false;
            sum_ranks(&rt, (RtGroup){ranks, 1}, 0, tree, N);
            other_than_tree += memcmp(out, tree, N * rt_dtype_bytes(d)) != 0;
            for (int r = 0; r < ranks; r++)
                free(rt.peer[r]);
            free(out);
            free(tree);
        }
    assert_int_equal(other_than_tree, 6); /* not of two ranks; f64 is exact here */
}

static void tree_is_balanced(void **state)
{
    (void)state;
    enum { N = 2500 };
    const RtDtype dtypes[] = {RT_F32, RT_F64, RT_BF16};
    for (int k = 0; k < 3; k++)
        for (int ranks = 1; ranks <= 16; ranks *= 2) {
            const size_t item = rt_dtype_bytes(dtypes[k]);
            const RtTrainer t = {.reduce_dtype = dtypes[k], .world_size = ranks};
            Rt rt = {.world_size = ranks, .trainer = &t};
            fill_ranks(&rt, dtypes[k], N);
            char *out = malloc(N * item), *level = malloc((size_t)ranks * N * item);
            sum_ranks(&rt, (RtGroup){ranks, 1}, 0, out, N);
            for (int r = 0; r < ranks; r++)
                memcpy(level + (size_t)r * N * item, rt.peer[r], N * item);
            for (int step = 1; step < ranks; step *= 2) /* low bits first */
                for (int r = 0; r < ranks; r += 2 * step)
                    add_parts(dtypes[k], level + (size_t)r * N * item,
                              level + (size_t)r * N * item,
                              level + (size_t)(r + step) * N * item, N);
            assert_memory_equal(out, level, N * item);
            for (int r = 0; r < ranks; r++)
                free(rt.peer[r]);
            free(out);
            free(level);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_a_bijection),
        cmocka_unit_test(tree_is_balanced),
        cmocka_unit_test(library_goes_by_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
