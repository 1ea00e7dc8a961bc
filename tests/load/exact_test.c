/* SPDX-License-Identifier: Apache-2.0 */
/* exact_test [FILE]: exp, log, pow, sin, ... give the nearest double, on this machine as
 * on any. FILE (tests/load/exact.txt, made by exact.py): values by mpmath. Without one:
 * what C99 says of zeros, infinities and NaN; and the bits of many results together. */
#include "base/exact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define INF __builtin_inf()
#define NOT_A_NUMBER __builtin_nan("")

static const struct Function {
    const char *name;
    double (*one)(double);
    double (*two)(double, double);
} functions[] = {
    {"exp", exact_exp, NULL},     {"log", exact_log, NULL},    {"log2", exact_log2, NULL},
    {"log10", exact_log10, NULL}, {"sin", exact_sin, NULL},    {"cos", exact_cos, NULL},
    {"tan", exact_tan, NULL},     {"asin", exact_asin, NULL},  {"acos", exact_acos, NULL},
    {"pow", NULL, exact_pow},     {"atan2", NULL, exact_atan2}};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

static uint64_t bits(double x)
{
    uint64_t b;

    memcpy(&b, &x, sizeof b);
    return b;
}

static const struct Function *find(const char *name)
{
    for (int i = 0; i < N_FUNCTIONS; i++)
        if (!strcmp(functions[i].name, name))
            return &functions[i];
    return NULL;
}

static int check_file(const char *path)
{
    FILE *f = strcmp(path, "-") ? fopen(path, "r") : stdin;
    char name[16];
    int good = 0, wrong = 0;

    while (f && fscanf(f, "%15s", name) == 1) {
        const struct Function *fn = find(name);
        double x, y = 0, want, got;

        if (!fn || fscanf(f, "%la", &x) != 1 || (fn->two && fscanf(f, "%la", &y) != 1) ||
            fscanf(f, "%la", &want) != 1) {
            printf("FAIL %s: a line of %s cannot be read\n", path, name);
            return 1;
        }
        got = fn->two ? fn->two(x, y) : fn->one(x);
        good += bits(got) == bits(want);
        if (bits(got) != bits(want) && wrong++ < 10)
            printf("FAIL %s(%a, %a) is %a, not %a\n", name, x, y, want, got);
    }
    printf("%d passed, %d failed\n", good, wrong);
    return wrong > 0 || good == 0;
}

static void is(double got, double want)
{
    assert_true(want != want ? got != got && !(bits(got) >> 63)
                             : bits(got) == bits(want));
}

static void special_values(void **unused)
{
    (void)unused;
    is(exact_exp(-INF), 0), is(exact_exp(INF), INF), is(exact_exp(-0.0), 1);
    is(exact_exp(NOT_A_NUMBER), NOT_A_NUMBER), is(exact_exp(-745.2), 0);
    is(exact_exp(710), INF), is(exact_exp(-745.1), 0x1p-1074);
    is(exact_log(0), -INF), is(exact_log(-0.0), -INF), is(exact_log(1), 0);
    is(exact_log(-1), NOT_A_NUMBER), is(exact_log(INF), INF), is(exact_log2(8), 3);
    is(exact_log10(1000), 3), is(exact_log10(0x1p-1074), -0x1.434e6420f4374p+8);
    is(exact_sin(-0.0), -0.0), is(exact_sin(INF), NOT_A_NUMBER), is(exact_cos(0), 1);
    is(exact_tan(-0.0), -0.0), is(exact_tan(-INF), NOT_A_NUMBER);
    is(exact_asin(1), 0x1.921fb54442d18p+0), is(exact_asin(1.5), NOT_A_NUMBER);
    is(exact_acos(1), 0), is(exact_acos(-1), 0x1.921fb54442d18p+1);
    is(exact_atan2(0, -1), 0x1.921fb54442d18p+1), is(exact_atan2(-0.0, 1), -0.0);
    is(exact_atan2(-0.0, -0.0), -0x1.921fb54442d18p+1), is(exact_atan2(0, 0), 0);
    is(exact_atan2(INF, -INF), 0x1.2d97c7f3321d2p+1), is(exact_atan2(1, INF), 0);
    is(exact_pow(NOT_A_NUMBER, 0), 1), is(exact_pow(1, NOT_A_NUMBER), 1);
    is(exact_pow(-8, 1.0 / 3), NOT_A_NUMBER), is(exact_pow(-2, 3), -8);
    is(exact_pow(-0.0, -3), -INF), is(exact_pow(-0.0, -2), INF), is(exact_pow(0, 5), 0);
    is(exact_pow(-1, INF), 1), is(exact_pow(0.5, -INF), INF),
        is(exact_pow(-INF, 3), -INF);
    is(exact_pow(-INF, -3), -0.0), is(exact_pow(2, -1075), 0),
        is(exact_pow(2, -1074), 0x1p-1074);
    is(exact_pow(2, 1024), INF), is(exact_pow(10, 22), 1e22),
        is(exact_pow(3, 34), 0x1.d9fe779881944p+53);
}

/* One hash of the results of 2 * 10^4 arguments each: no machine gives other bits. */
static void same_bits(void **unused)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325), state = 1;

    (void)unused;
    for (int i = 0; i < N_FUNCTIONS; i++)
        for (int k = 0; k < 20000; k++) {
            double x, y;

            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            x = (double)(int64_t)state * 0x1p-60; /* -8 .. 8 */
            y = (double)(int64_t)(state * UINT64_C(0x9E3779B97F4A7C15)) * 0x1p-59;
            x = functions[i].two ? functions[i].two(x < 0 ? -x : x, y)
                                 : functions[i].one(x);
            hash = (hash ^ bits(x)) * UINT64_C(0x100000001b3);
        }
    if (hash != UINT64_C(0xaac10e195f3d66fe))
        printf("the bits are those of %016llx\n", (unsigned long long)hash);
    assert_true(hash == UINT64_C(0xaac10e195f3d66fe));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(special_values),
                                       cmocka_unit_test(same_bits)};

    if (argc > 1)
        return check_file(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
