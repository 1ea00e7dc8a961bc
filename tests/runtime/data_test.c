/* SPDX-License-Identifier: Apache-2.0 */
/* data_test.c: the order of samples is a bijection in every epoch, of each source where
 * they have weights, whose shares are kept; the tree sum over ranks is the balanced tree,
 * or ranks in their order, for every dtype. */
#include "../../runtime/cpu/rt_sum.c"
#include "../../runtime/data/rt_data.c"
#include "../../runtime/cpu/rt_pull.c"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <math.h>

static void order_is_a_bijection(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 100, 1023, 1025, 6569};
    int moved = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            char *seen = calloc((size_t)sizes[i], 1);
            for (int64_t k = 0; k < sizes[i]; k++) {
                const int64_t at = place_in(sizes[i], 0, 11, epoch * sizes[i] + k);
                assert_true(at >= 0 && at < sizes[i] && !seen[at]);
                seen[at] = 1;
                moved += at != place_in(sizes[i], 0, 11, (epoch + 1) * sizes[i] + k);
            }
            free(seen);
        }
    assert_true(moved > 20000); /* epochs differ */
}

/* What rt_tokens_open leaves behind of sources with weights: sizes and shares. */
static RtTokens *mixture(const double *weights, const int64_t *samples, int n)
{
    char error[RT_ERROR_BYTES];
    RtTokens *d = calloc(1, sizeof *d);
    d->sources = n;
    for (int i = 0; i < n; i++) {
        d->source[i] = (Source){.word = "x",
                                .weight = weights[i],
                                .first_sample = d->samples,
                                .samples = samples[i]};
        d->samples += samples[i];
    }
    assert_true(mix(d, error));
    return d;
}

/* Any stretch has each source's share of it; each source's own epochs have each of its
 * samples once; the order is a function of the global sample (asked backwards here). */
static void weights_are_kept(void **state)
{
    (void)state;
    enum { N = 5, DRAWN = 150000 };
    const double weights[N] = {0.5, 7, 1e-3, 2.25, 0.249};
    const int64_t samples[N] = {100, 6569, 3, 1, 40000};
    RtTokens *d = mixture(weights, samples, N);
    int64_t *order = calloc(DRAWN, sizeof *order), before[N] = {0}, slots = 0;
    for (int64_t g = DRAWN; g-- > 0;)
        order[g] = rt_tokens_place(d, 7, g);
    for (int i = 0; i < N; i++) {
        const Source *s = &d->source[i];
        char *seen = calloc((size_t)samples[i], 1);
        int64_t k = 0;
        slots += s->slots;
        assert_true(s->slots >= 1 &&
                    fabs((double)s->slots / SLOTS - weights[i] / 10) < 2e-5);
        for (int64_t g = 0; g < DRAWN; g++) {
            const int64_t at = order[g] - s->first_sample;
            if (at >= 0 && at < samples[i]) {
                assert_int_equal(seen[at], k / samples[i] % 2);
                seen[at] ^= 1;
                k++;
            }
            /* the share of what was drawn so far, within two */
            assert_true(llabs(k * SLOTS - (g + 1) * s->slots) < 2 * SLOTS);
        }
        before[i] = k;
        free(seen);
    }
    assert_int_equal(slots, SLOTS);
    assert_int_equal(before[0] + before[1] + before[2] + before[3] + before[4], DRAWN);
    free(order);
    rt_tokens_close(d);
}

static void words_are_read(void **state)
{
    (void)state;
    const struct {
        const char *word, *pattern;
        RtFileFormat format;
        double weight;
    } good[] = {{"a.bin", "a.bin", RT_FILE_BY_NAME, 0},
                {"nanogpt:a*.bin=0.7", "a*.bin", RT_FILE_NANOGPT, 0.7},
                {"llmc:a=b", "a=b", RT_FILE_LLMC, 0},
                {"text:a=b=2e-3", "a=b", RT_FILE_TEXT, 2e-3},
                {"c:/a=1", "c:/a", RT_FILE_BY_NAME, 1},
                {"megatron:nanogpt:x", "nanogpt:x", RT_FILE_MEGATRON, 0},
                {"a=nan", "a=nan", RT_FILE_BY_NAME, 0},
                {"a=e", "a=e", RT_FILE_BY_NAME, 0},
                {"a=", "a=", RT_FILE_BY_NAME, 0}};
    const char *bad[] = {"a=0", "a=-1", "a=1e10", "a=1e", "a=1e999", "a=1.2.3", "a=--1"};
    char error[RT_ERROR_BYTES];
    Source s;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(read_source(&s, "data", good[i].word, error));
        assert_string_equal(s.pattern, good[i].pattern);
        assert_int_equal(s.format, good[i].format);
        assert_true(s.weight == good[i].weight);
        free(s.pattern);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(read_source(&s, "data", bad[i], error));
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
            RtOp op = {.dtype = d, .order = RT_ORDER_LIBRARY};
            Rt rt = {.world_size = ranks};
            fill_ranks(&rt, d, N);
            char *out = malloc(N * rt_dtype_bytes(d)),
                 *tree = malloc(N * rt_dtype_bytes(d));
            sum_ranks(&rt, &op, (RtGroup)ranks - 1, 0, out, N);
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
            op.order = RT_ORDER_TREE;
            sum_ranks(&rt, &op, (RtGroup)ranks - 1, 0, tree, N);
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
            const RtOp op = {.dtype = dtypes[k], .order = RT_ORDER_TREE};
            Rt rt = {.world_size = ranks};
            fill_ranks(&rt, dtypes[k], N);
            char *out = malloc(N * item), *level = malloc((size_t)ranks * N * item);
            sum_ranks(&rt, &op, (RtGroup)ranks - 1, 0, out, N);
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
        cmocka_unit_test(order_is_a_bijection), cmocka_unit_test(weights_are_kept),
        cmocka_unit_test(words_are_read),       cmocka_unit_test(tree_is_balanced),
        cmocka_unit_test(library_goes_by_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
