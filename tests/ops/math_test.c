/* SPDX-License-Identifier: Apache-2.0 */
/* math_test.c: rt_math.h against the C library in higher precision: errors in units of
 * the last place, special values, vectors equal to scalars, conversions for every bf16,
 * and reductions along rows against a plain sum in long double. */
#include "rt_math.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static uint64_t seed = 1;

static uint64_t random_bits(void)
{
    uint64_t z = seed += 0x9e3779b97f4a7c15;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static double uniform(double low, double high)
{
    return low + (high - low) * ((double)(random_bits() >> 11) * 0x1p-53);
}

/* Distance in units of the last place of a float with `digits` bits and least exponent
 * `low`; values that overflow must be infinite. */
static double ulps(long double got, long double want, int digits, int low,
                   long double most)
{
    int e;

    if (isnan(want))
        return isnan(got) ? 0 : HUGE_VAL;
    if (fabsl(want) > most)
        return isinf(got) && (got > 0) == (want > 0) ? 0 : HUGE_VAL;
    if (isinf(got) || isnan(got))
        return HUGE_VAL;
    frexpl(want, &e);
    if (e < low)
        e = low;
    return (double)(fabsl(got - want) / ldexpl(1, e - digits));
}

static double ulps_f32(float got, double want)
{
    return ulps(got, want, 24, -125, 0x1.ffffffp127L);
}

static double ulps_f64(double got, long double want)
{
    return ulps(got, want, 53, -1021, 0x1.fffffffffffff8p1023L);
}

static void expect(const char *what, double worst, double bound)
{
    printf("  %-10s %.3f ulp (bound %.1f)\n", what, worst, bound);
    assert_true(worst <= bound);
}

static long double softplus(long double x)
{
    return fmaxl(x, 0) + log1pl(expl(-fabsl(x)));
}

static void test_float(void **unused)
{
    double worst[5] = {0};

    (void)unused;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 1009) {
        const float x = rt_f32_from_bits((int32_t)bits);

        worst[0] = fmax(worst[0], ulps_f32(rt_expf(x), exp(x)));
        worst[1] = fmax(worst[1], ulps_f32(rt_tanhf(x), tanh(x)));
        worst[2] = fmax(worst[2], ulps_f32(rt_logf(x), log(x)));
        if (!isnan(x))
            worst[4] = fmax(worst[4], ulps_f32(rt_softplusf(x), (double)softplus(x)));
        if (!(x <
              -87)) /* below, exp(-x) overflows and the result is 0: absolutely right */
            worst[3] =
                fmax(worst[3], ulps_f32(rt_sigmoidf(x), 1 / (1 + exp(-(double)x))));
    }
    expect("expf", worst[0], 1.1);
    expect("tanhf", worst[1], 1.5);
    expect("logf", worst[2], 0.6);
    expect("sigmoidf", worst[3], 2.6);
    expect("softplusf", worst[4], 2.5);
    assert_true(rt_sigmoidf(-200.0f) == 0 && rt_sigmoidf(200.0f) == 1);
}

static void test_double(void **unused)
{
    double worst[7] = {0};

    (void)unused;
    for (int i = 0; i < 1000000; i++) {
        const double near = uniform(-2, 2), wide = uniform(-750, 750);
        const double angle = i % 3 == 0   ? uniform(-0x1p20, 0x1p20)
                             : i % 3 == 1 ? uniform(-4, 4)
                                          : floor(uniform(0, 600000)) * M_PI_2;
        const double any = rt_f64_from_bits((int64_t)(random_bits() >> 1));

        worst[0] = fmax(worst[0], ulps_f64(rt_exp(near), expl(near)));
        worst[0] = fmax(worst[0], ulps_f64(rt_exp(wide), expl(wide)));
        worst[1] = fmax(worst[1], ulps_f64(rt_tanh(near), tanhl(near)));
        worst[1] = fmax(worst[1], ulps_f64(rt_tanh(wide / 20), tanhl(wide / 20)));
        worst[2] = fmax(worst[2], ulps_f64(rt_log(fabs(near)), logl(fabs(near))));
        worst[2] = fmax(worst[2], ulps_f64(rt_log(any), logl(any)));
        worst[3] = fmax(worst[3], ulps_f64(rt_sin(angle), sinl(angle)));
        worst[4] = fmax(worst[4], ulps_f64(rt_cos(angle), cosl(angle)));
        worst[5] = fmax(worst[5], ulps_f64(rt_sigmoid(near), 1 / (1 + expl(-near))));
        worst[6] = fmax(worst[6], ulps_f64(rt_softplus(near), softplus(near)));
        worst[6] = fmax(worst[6], ulps_f64(rt_softplus(wide), softplus(wide)));
    }
    expect("exp", worst[0], 1.1);
    expect("tanh", worst[1], 1.5);
    expect("log", worst[2], 1.0);
    expect("sin", worst[3], 1.2);
    expect("cos", worst[4], 1.2);
    expect("sigmoid", worst[5], 2.6);
    expect("softplus", worst[6], 2.5);
}

static void test_special(void **unused)
{
    (void)unused;
    assert_true(rt_exp(0) == 1 && rt_expf(0) == 1);
    assert_true(rt_softplus(INFINITY) == INFINITY && rt_softplusf(INFINITY) == INFINITY);
    assert_true(rt_softplus(-INFINITY) == 0 && rt_softplusf(-INFINITY) == 0);
    assert_true(isnan(rt_softplus(NAN)) && isnan(rt_softplusf(NAN)));
    assert_true(rt_exp(-INFINITY) == 0 && rt_exp(INFINITY) == INFINITY);
    assert_true(rt_expf(-INFINITY) == 0 && rt_expf(INFINITY) == INFINITY);
    assert_true(isnan(rt_exp(NAN)) && isnan(rt_expf(NAN)));
    assert_true(rt_log(0) == -INFINITY && rt_log(-0.0) == -INFINITY);
    assert_true(rt_log(1) == 0 && rt_log(INFINITY) == INFINITY);
    assert_true(isnan(rt_log(-1)) && isnan(rt_log(NAN)) && isnan(rt_log(-INFINITY)));
    assert_true(rt_tanh(INFINITY) == 1 && rt_tanh(-INFINITY) == -1 &&
                isnan(rt_tanh(NAN)));
    assert_true(rt_tanhf(0) == 0 && signbit(rt_tanhf(-0.0f)));
    assert_true(rt_sin(0) == 0 && rt_cos(0) == 1);
}

/* Lanes of the vector functions are the scalar functions, bit for bit. */
static void test_vectors(void **unused)
{
    (void)unused;
    for (int i = 0; i < 200000; i++) {
        rt_wf x;
        rt_wd y;

        for (int l = 0; l < RT_WF_LANES; l++)
            x[l] = i % 2 ? (float)uniform(-100, 100)
                         : rt_f32_from_bits((int32_t)random_bits());
        for (int l = 0; l < RT_WD_LANES; l++)
            y[l] = i % 2 ? uniform(-800, 800) : rt_f64_from_bits((int64_t)random_bits());
        const rt_wf e = rt_wf_exp(x), t = rt_wf_tanh(x), s = rt_wf_sigmoid(x);
        const rt_wd d = rt_wd_exp(y), u = rt_wd_tanh(y);
        for (int l = 0; l < RT_WF_LANES; l++) {
            const float v = x[l];

            if (isnan(v))
                continue;
            assert_int_equal(rt_bits_f32(e[l]), rt_bits_f32(rt_expf(v)));
            assert_int_equal(rt_bits_f32(t[l]), rt_bits_f32(rt_tanhf(v)));
            assert_int_equal(rt_bits_f32(s[l]), rt_bits_f32(rt_sigmoidf(v)));
        }
        for (int l = 0; l < RT_WD_LANES; l++) {
            const double v = y[l];

            if (isnan(v))
                continue;
            assert_true(rt_bits_f64(d[l]) == rt_bits_f64(rt_exp(v)));
            assert_true(rt_bits_f64(u[l]) == rt_bits_f64(rt_tanh(v)));
        }
    }
}

/* Every bf16 there and back; every kind of float against rounding in double. */
static void test_bf16(void **unused)
{
    (void)unused;
    for (uint32_t b = 0; b < 0x10000; b++) {
        const float x = rt_f32_from_bf16((uint16_t)b);

        if (isnan(x))
            assert_true(isnan(rt_f32_from_bf16(rt_bf16_from_f32(x))));
        else
            assert_int_equal(rt_bf16_from_f32(x), b);
    }
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 251) {
        const float x = rt_f32_from_bits((int32_t)bits);
        const uint16_t got = rt_bf16_from_f32(x);

        if (isnan(x)) {
            assert_true(isnan(rt_f32_from_bf16(got)));
            continue;
        }
        /* its two neighbours; the nearer one, the even one when they are as near. Above
         * the largest bf16 the upper neighbour is what would follow it. */
        const uint16_t low = (uint16_t)(bits >> 16), high = (uint16_t)(low + 1);
        const double a = fabs((double)rt_f32_from_bf16(low));
        const double b =
            (high & 0x7fff) == 0x7f80 ? 0x1p128 : fabs((double)rt_f32_from_bf16(high));
        const double v = fabs((double)x);
        const bool up = v - a > b - v || (v - a == b - v && low % 2);

        assert_int_equal(got, isinf(x) || !up ? low : high);
    }
    for (int i = 0; i < 100000; i++) {
        rt_wf x;
        uint16_t out[RT_WF_LANES];

        for (int l = 0; l < RT_WF_LANES; l++)
            x[l] = rt_f32_from_bits((int32_t)random_bits());
        rt_wf_store_bf16(out, x);
        const rt_wf back = rt_wf_load_bf16(out);
        for (int l = 0; l < RT_WF_LANES; l++) {
            assert_int_equal(out[l], rt_bf16_from_f32(x[l]));
            const float v = back[l];
            assert_int_equal(rt_bits_f32(v), rt_bits_f32(rt_f32_from_bf16(out[l])));
        }
    }
}

/* The value of an f16, from its definition. */
static double f16_value(uint32_t b)
{
    const int exponent = b >> 10 & 31;
    const double mantissa = b & 1023, sign = b & 0x8000 ? -1 : 1;

    if (exponent == 31)
        return mantissa != 0 ? NAN : sign * INFINITY;
    return sign *
           (exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24));
}

/* Every f16 there and back, subnormals, infinities and NaNs among them; every kind of
 * float against its two neighbours; vectors like scalars. */
static void test_f16(void **unused)
{
    (void)unused;
    for (uint32_t b = 0; b < 0x10000; b++) {
        const float x = rt_f32_from_f16((uint16_t)b);
        const double want = f16_value(b);

        if (isnan(want)) {
            assert_true(isnan(x));
            assert_int_equal(rt_f16_from_f32(x), b | 0x200); /* quiet, the rest kept */
            continue;
        }
        assert_true(x == want && !signbit(x) == !signbit(want));
        assert_int_equal(rt_f16_from_f32(x), b);
    }
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 253) {
        const float x = rt_f32_from_bits((int32_t)bits);
        const uint16_t got = rt_f16_from_f32(x);

        if (isnan(x)) {
            assert_true(isnan(rt_f32_from_f16(got)));
            continue;
        }
        /* the largest f16 not above |x|, by bisection, and the next: what would follow
         * the largest is 2^16 */
        uint32_t low = 0, over = 0x7c00;
        const double v = fabs((double)x);

        while (over - low > 1) {
            const uint32_t middle = (low + over) / 2;

            if (f16_value(middle) <= v)
                low = middle;
            else
                over = middle;
        }
        const double a = f16_value(low), b = over == 0x7c00 ? 65536 : f16_value(over);
        const bool up = v - a > b - v || (v - a == b - v && low % 2);

        assert_int_equal(got, (up ? over : low) | (signbit(x) ? 0x8000u : 0u));
    }
    for (int i = 0; i < 100000; i++) {
        rt_wf x;
        uint16_t out[RT_WF_LANES];

        for (int l = 0; l < RT_WF_LANES; l++) /* half of them where f16 is subnormal */
            x[l] = i % 2 ? rt_f32_from_bits((int32_t)random_bits())
                         : (float)uniform(-0x1p-13, 0x1p-13);
        rt_wf_store_f16(out, x);
        const rt_wf back = rt_wf_load_f16(out);
        for (int l = 0; l < RT_WF_LANES; l++) {
            assert_int_equal(out[l], rt_f16_from_f32(x[l]));
            const float v = back[l];
            assert_int_equal(rt_bits_f32(v), rt_bits_f32(rt_f32_from_f16(out[l])));
        }
    }
}

/* A master is its weight and the rest, for every kind of float; the weight is a nearest
 * one. */
static void test_split(void **unused)
{
    (void)unused;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 251) {
        const float x = rt_f32_from_bits((int32_t)bits);
        const uint16_t weight = rt_bf16_from_master(x);
        const float back = rt_f32_from_split(weight, rt_split_rest(x));

        if (isnan(x)) {
            assert_true(isnan(rt_f32_from_bf16(weight)) && isnan(back));
            continue;
        }
        assert_int_equal(rt_bits_f32(back), rt_bits_f32(x));
        const uint16_t nearest = rt_bf16_from_f32(x);

        assert_true(weight == nearest ||
                    ((bits & 0xffff) == 0x8000 && weight == nearest + 1));
    }
    for (uint32_t high = 0; high < 0x10000; high++) { /* ties */
        const float x = rt_f32_from_bits((int32_t)(high << 16 | 0x8000));

        if (!isnan(x))
            assert_int_equal(
                rt_bits_f32(rt_f32_from_split(rt_bf16_from_master(x), rt_split_rest(x))),
                rt_bits_f32(x));
    }
}

/* Of all 2^16 noises exactly as many round up as the part cut off asks for: the mean is
 * the value itself. Exact values, infinities and NaNs stay. */
static void test_noisy(void **unused)
{
    (void)unused;
    for (int i = 0; i < 200; i++) {
        const uint32_t bits = random_bits() & 0xbfffffffu;
        const float x = rt_f32_from_bits((int32_t)bits);
        uint32_t up = 0;

        for (uint32_t noise = 0; noise < 0x10000; noise++) {
            const uint16_t got = rt_bf16_noisy(x, (uint16_t)noise);

            assert_true(got == bits >> 16 || got == (bits >> 16) + 1);
            up += got != bits >> 16;
        }
        assert_int_equal(up, bits & 0xffff);
    }
    assert_int_equal(rt_bf16_noisy(INFINITY, 0xffff), 0x7f80);
    assert_int_equal(rt_bf16_noisy(-INFINITY, 0xffff), 0xff80);
    assert_true(isnan(rt_f32_from_bf16(rt_bf16_noisy(NAN, 0xffff))));
    assert_true(isnan(rt_f32_from_bf16(rt_bf16_noisy(rt_f32_from_bits(0x7f800001), 0))));
}

enum { ROW = 5000 };

static void test_rows(void **unused)
{
    static float a[ROW], b[ROW], c[ROW];
    static double d[ROW];
    static uint16_t h[ROW];

    (void)unused;
    for (int n = 1; n <= ROW; n = n < 70 ? n + 1 : n * 3 / 2 + 1) {
        long double sum = 0, squares = 0, dot = 0, dot3 = 0, exps = 0, size = 0;
        float most = -INFINITY;

        for (int i = 0; i < n; i++) {
            a[i] = (float)uniform(-3, 3);
            b[i] = (float)uniform(-3, 3);
            c[i] = (float)uniform(-3, 3);
            d[i] = a[i];
            h[i] = rt_bf16_from_f32(b[i]);
            sum += a[i];
            squares += ((long double)a[i] - 0.5L) * ((long double)a[i] - 0.5L);
            dot += (long double)a[i] * b[i];
            dot3 += (long double)a[i] * b[i] * ((long double)c[i] - 0.25L);
            exps += expl(a[i]);
            most = a[i] > most ? a[i] : most;
            size += fabsl((long double)a[i] * b[i] * c[i]) + fabsl(a[i]) + 1;
        }
        assert_true(fabsl(rt_row_sum_f32(a, n) - sum) <= 1e-6L * size);
        assert_true(fabsl(rt_row_sum_f64(d, n) - sum) <= 1e-15L * size);
        assert_true(fabsl(rt_row_sum_squares_f32(a, 0.5f, n) - squares) <=
                    1e-6L * size * 10);
        assert_true(fabsl(rt_row_dot_f32(a, b, n) - dot) <= 1e-6L * size);
        assert_true(fabsl(rt_row_dot_centred_f32(a, b, c, 0.25f, n) - dot3) <=
                    1e-6L * size);
        assert_true(fabsl(rt_row_lse_f32(a, n) - logl(exps)) <= 1e-6L * (1 + logl(n)));
        assert_true(fabsl(rt_row_lse_f64(d, n) - logl(exps)) <=
                    1e-15L * (1 + logl(n)) * 4);
        assert_true(rt_row_max_f32(a, n) == most);
        /* bf16 rows: the same as the f32 row of their values, bit for bit */
        for (int i = 0; i < n; i++)
            b[i] = rt_f32_from_bf16(h[i]);
        assert_true(rt_row_sum_bf16(h, n) == rt_row_sum_f32(b, n));
        assert_true(rt_row_lse_bf16(h, n) == rt_row_lse_f32(b, n));
        for (int i = 0; i < n; i++) { /* f16 likewise */
            h[i] = rt_f16_from_f32(c[i]);
            b[i] = rt_f32_from_f16(h[i]);
        }
        assert_true(rt_row_sum_f16(h, n) == rt_row_sum_f32(b, n));
        assert_true(rt_row_lse_f16(h, n) == rt_row_lse_f32(b, n));
        /* a tail has the lanes of a longer row of zeros */
        if (n + 40 <= ROW) {
            memset(b + n, 0, 40 * sizeof *b);
            assert_true(n % 1024 > 984 ||
                        rt_row_sum_f32(b, n) == rt_row_sum_f32(b, n + 40));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float),   cmocka_unit_test(test_double),
        cmocka_unit_test(test_special), cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_bf16),    cmocka_unit_test(test_f16),
        cmocka_unit_test(test_split),   cmocka_unit_test(test_noisy),
        cmocka_unit_test(test_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
