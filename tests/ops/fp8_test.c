/* SPDX-License-Identifier: Apache-2.0 */
/* fp8_test.c: rt_fp8.h against a table that another library made (fp8_table.py): every
 * code to a float; to fp8 every float whose lower 8 bits are one of a few, and all around
 * the bounds between codes; the scales of largest values, each against a search. */
#include "rt_fp8.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fp8_table.h"

typedef struct Form {
    const Fp8Row *rows;
    int n;
    uint8_t (*from)(float);
    float (*to)(uint8_t);
    int top;
    double largest;
} Form;

static uint8_t to_e4m3(float x)
{
    return rt_e4m3_from_f32(x);
}

static uint8_t to_e5m2(float x)
{
    return rt_e5m2_from_f32(x);
}

static float of_e4m3(uint8_t x)
{
    return rt_f32_from_e4m3(x);
}

static float of_e5m2(uint8_t x)
{
    return rt_f32_from_e5m2(x);
}

enum { N_E4M3 = sizeof e4m3_rows / sizeof *e4m3_rows };
enum { N_E5M2 = sizeof e5m2_rows / sizeof *e5m2_rows };
static const Form forms[] = {
    {e4m3_rows, N_E4M3, to_e4m3, of_e4m3, RT_E4M3_TOP, 448},
    {e5m2_rows, N_E5M2, to_e5m2, of_e5m2, RT_E5M2_TOP, 57344},
};

static uint32_t bits_of(float x)
{
    return (uint32_t)rt_bits_f32(x);
}

static float float_of(uint32_t bits)
{
    return rt_f32_from_bits((int32_t)bits);
}

static void test_values(void **state)
{
    (void)state;
    for (int f = 0; f < 2; f++) {
        for (int code = 0; code < forms[f].n; code++) {
            const uint32_t want = forms[f].rows[code].value;

            assert_int_equal(bits_of(forms[f].to((uint8_t)code)), want);
            assert_int_equal(bits_of(forms[f].to((uint8_t)(code | 0x80))),
                             want | 0x80000000u);
        }
        assert_true(isnan(forms[f].to(0x7f)) && isnan(forms[f].to(0xff)));
        assert_true((float)forms[f].largest ==
                    float_of(forms[f].rows[forms[f].n - 1].value));
    }
    assert_true(isinf(of_e5m2(0x7c)) && of_e5m2(0xfc) < 0);
}

/* The code that the table has for a positive float that is no NaN. */
static int code_in_table(const Form *f, uint32_t bits, int from)
{
    while (from + 1 < f->n && bits >= f->rows[from + 1].first)
        from++;
    return from;
}

static void check(const Form *f, uint32_t bits, int want)
{
    if (f->from(float_of(bits)) != want ||
        f->from(float_of(bits | 0x80000000u)) != (want | 0x80))
        fail_msg("%.9g becomes %#x and %#x, not %#x", (double)float_of(bits),
                 f->from(float_of(bits)), f->from(float_of(bits | 0x80000000u)), want);
}

static void test_rounding(void **state)
{
    static const uint32_t low[] = {0, 1, 0x80, 0xff};

    (void)state;
    for (int f = 0; f < 2; f++) {
        int code = 0;

        for (uint32_t high = 0; high <= 0x7f8000; high++)
            for (int i = 0; i < (high == 0x7f8000 ? 1 : 4); i++) {
                code = code_in_table(&forms[f], high << 8 | low[i], code);
                check(&forms[f], high << 8 | low[i], code);
            }
        for (code = 1; code < forms[f].n; code++)
            for (uint32_t k = 0; k < 512; k++) {
                const uint32_t bits = forms[f].rows[code].first - 256 + k;

                check(&forms[f], bits, code_in_table(&forms[f], bits, 0));
            }
        for (uint32_t nan = 1; nan < 0x800000; nan += 0x7fff) {
            assert_int_equal(forms[f].from(float_of(0x7f800000u + nan)), 0x7f);
            assert_int_equal(forms[f].from(float_of(0xff800000u + nan)), 0x7f);
        }
    }
}

static void test_scale(void **state)
{
    (void)state;
    for (int f = 0; f < 2; f++) {
        for (uint32_t bits = 0; bits < 0x7f800000u; bits += 0x1fff) {
            const double scale = rt_fp8_scale((int32_t)bits, forms[f].top);
            int e;

            assert_int_equal(rt_fp8_size(float_of(bits | 0x80000000u)), bits);
            assert_true(frexp(scale, &e) == 0.5 && scale >= 0x1p-126);
            assert_true((double)float_of(bits) <= forms[f].largest * scale);
            assert_true(scale == 0x1p-126 ||
                        (double)float_of(bits) > forms[f].largest * scale / 2);
        }
        assert_true(rt_fp8_scale(rt_fp8_size(-448.0f), RT_E4M3_TOP) == 1.0f);
        assert_true(rt_fp8_scale(rt_fp8_size(448.1f), RT_E4M3_TOP) == 2.0f);
        assert_true(isnan(rt_fp8_scale(rt_fp8_size(-INFINITY), forms[f].top)));
        assert_true(isnan(rt_fp8_scale(rt_fp8_size(NAN), forms[f].top)));
    }
    assert_true(rt_fp8_size(NAN) > rt_fp8_size(INFINITY));
    assert_true(rt_fp8_size(-2.0f) > rt_fp8_size(1.5f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_scale),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
