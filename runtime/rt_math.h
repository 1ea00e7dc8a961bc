/* SPDX-License-Identifier: MIT-0 */
/* rt_math.h: the arithmetic of emitted kernels: dtype conversion, vectors, replacements for libm,
 * and reductions along a row. In: values and rows. Out: the same bits with every compiler,
 * instruction set and number of threads, given IEEE 754 and -ffp-contract=off. Nothing here uses a
 * fused multiply-add; the functions are sums and products in a written order without branches; and
 * sums along a row use fixed lanes and a fixed tree, tails included.
 *
 *    rt_f32_from_bf16, rt_bf16_from_f32        to nearest even; NaN stays NaN
 *    rt_f32_from_f16, rt_f16_from_f32          likewise, subnormals too: integer code that
 *                                              vectorises, the same with and without F16C
 *    rt_expf, rt_sigmoidf, rt_tanhf, rt_logf   float, at most 2.5 ulp; loops vectorise
 *    rt_exp, rt_sigmoid, rt_tanh, rt_log       double, likewise
 *    rt_softplusf, rt_softplus                 log(1 + exp(x)), likewise
 *    rt_sin, rt_cos                            double, for |x| up to 2^20
 *    rt_sqrtf, rt_sqrt                         correctly rounded, as in IEEE 754; loops
 *                                              vectorise under -fno-math-errno
 *    rt_wf_exp, rt_wd_exp, ...                 vectors, equal to the scalar functions
 *    rt_bf16_from_master                       to nearest, ties away from zero: the
 *                                              remainder fits 16 bits (rt_f32_from_split)
 *    rt_bf16_noisy                             stochastic, by 16 random bits
 *    rt_row_sum_f32, _bf16, _f16, _f64, ...    see rt_row_body.h
 *
 * tests/ops/math_test.c measures the errors. */
#ifndef RT_MATH_H
#define RT_MATH_H

#include <stdint.h>
#include <string.h>

/* Vectors are passed between inline functions only, so the ABI for passing them does not matter. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define RT_ALWAYS static inline __attribute__((always_inline, unused))

/* ---- bits of a float, bf16 and f16 ----------------------------------------------- */

RT_ALWAYS int32_t rt_bits_f32(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

RT_ALWAYS float rt_f32_from_bits(int32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

RT_ALWAYS int64_t rt_bits_f64(double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

RT_ALWAYS double rt_f64_from_bits(int64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

RT_ALWAYS float rt_f32_from_bf16(uint16_t x)
{
    return rt_f32_from_bits((int32_t)((uint32_t)x << 16));
}

/* To nearest, ties to even; the carry may reach the exponent, up to infinity. A NaN keeps its upper
 * bits and becomes quiet. */
RT_ALWAYS uint16_t rt_bf16_from_f32(float x)
{
    const uint32_t bits = (uint32_t)rt_bits_f32(x);
    const uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    const uint32_t nan = -(uint32_t)((bits & 0x7fffffffu) > 0x7f800000u);
    return (uint16_t)(((rounded & ~nan) | ((bits | 0x400000u) & nan)) >> 16);
}

/* The weight of an f32 master. Ties go away from zero, so that any master is the weight's bits plus
 * a signed 16-bit remainder, rt_split_rest. */
RT_ALWAYS uint16_t rt_bf16_from_master(float x)
{
    const uint32_t bits = (uint32_t)rt_bits_f32(x);
    const uint32_t nan = -(uint32_t)((bits & 0x7fffffffu) > 0x7f800000u);
    return (uint16_t)((((bits + 0x8000u) & ~nan) | ((bits | 0x400000u) & nan)) >> 16);
}

RT_ALWAYS uint16_t rt_split_rest(float master)
{
    return (uint16_t)(uint32_t)rt_bits_f32(master);
}

RT_ALWAYS float rt_f32_from_split(uint16_t weight, uint16_t rest)
{
    const uint32_t negative = rest >> 15; /* the weight was rounded up */
    return rt_f32_from_bits((int32_t)(((uint32_t)weight - negative) << 16 | rest));
}

/* Rounds up with the probability of the part cut off: right on average. noise: 16 random bits. NaN,
 * infinities and exact values stay. */
RT_ALWAYS uint16_t rt_bf16_noisy(float x, uint16_t noise)
{
    const uint32_t bits = (uint32_t)rt_bits_f32(x);
    const uint32_t special = -(uint32_t)((bits & 0x7f800000u) == 0x7f800000u);
    const uint32_t nan = -(uint32_t)((bits & 0x7fffffffu) > 0x7f800000u) & 0x400000u;
    return (uint16_t)(((bits | nan) + (noise & ~special)) >> 16);
}

RT_ALWAYS float rt_f32_noisy(float x, uint16_t noise)
{
    return rt_f32_from_bf16(rt_bf16_noisy(x, noise));
}

/* The bits below the sign, as a float's, are the value times 2^-112: the product is
 * exact, for subnormals too. Infinities and NaNs get a float's exponent; a NaN becomes
 * quiet. */
RT_ALWAYS float rt_f32_from_f16(uint16_t x)
{
    const uint32_t size = (uint32_t)(x & 0x7fffu) << 13;
    const uint32_t special = -(uint32_t)(size >= 0x0f800000u) & 0x7f800000u;
    const uint32_t nan = -(uint32_t)(size > 0x0f800000u) & 0x400000u;
    const float scaled = rt_f32_from_bits((int32_t)size) * 0x1p112f;
    return rt_f32_from_bits((int32_t)((uint32_t)rt_bits_f32(scaled) | special | nan |
                                      (uint32_t)(x & 0x8000u) << 16));
}

/* To nearest, ties to even; infinity from 65520 on. Below 2^-14 the results are multiples of 2^-24,
 * which is the last place of 1/2: adding it rounds. */
RT_ALWAYS uint16_t rt_f16_from_f32(float x)
{
    const uint32_t bits = (uint32_t)rt_bits_f32(x), size = bits & 0x7fffffffu;
    const uint32_t normal = (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13;
    const float half = rt_f32_from_bits((int32_t)size) + 0.5f;
    const uint32_t small = (uint32_t)rt_bits_f32(half) - 0x3f000000u;
    const uint32_t tiny = -(uint32_t)(size < 0x38800000u);
    const uint32_t over = -(uint32_t)(size >= 0x477ff000u);
    const uint32_t nan = -(uint32_t)(size > 0x7f800000u);
    uint32_t out = (small & tiny) | (normal & ~tiny);
    out = (out & ~over) | (0x7c00u & over) | ((0x200u | (size >> 13 & 0x3ffu)) & nan);
    return (uint16_t)(out | (bits >> 16 & 0x8000u));
}

/* ---- vectors --------------------------------------------------------------------- */

/* As wide as the machine's; all lanes are computed alike, so the width changes no bit. */
#if defined(__AVX512F__)
#define RT_WIDE_BYTES 64
#elif defined(__AVX__)
#define RT_WIDE_BYTES 32
#else
#define RT_WIDE_BYTES 16
#endif
enum { RT_WF_LANES = RT_WIDE_BYTES / 4, RT_WD_LANES = RT_WIDE_BYTES / 8 };

typedef float rt_wf __attribute__((vector_size(RT_WIDE_BYTES)));
typedef int32_t rt_wi __attribute__((vector_size(RT_WIDE_BYTES)));
typedef uint32_t rt_wu __attribute__((vector_size(RT_WIDE_BYTES)));
typedef uint16_t rt_wh __attribute__((vector_size(RT_WIDE_BYTES / 2)));
typedef double rt_wd __attribute__((vector_size(RT_WIDE_BYTES)));
typedef int64_t rt_wl __attribute__((vector_size(RT_WIDE_BYTES)));
typedef uint64_t rt_wul __attribute__((vector_size(RT_WIDE_BYTES)));

RT_ALWAYS rt_wf rt_wf_load(const float *p)
{
    rt_wf v;
    memcpy(&v, p, sizeof v);
    return v;
}

RT_ALWAYS void rt_wf_store(float *p, rt_wf v)
{
    memcpy(p, &v, sizeof v);
}

RT_ALWAYS rt_wf rt_wf_load_bf16(const uint16_t *p)
{
    rt_wh v;
    memcpy(&v, p, sizeof v);
    return (rt_wf)(__builtin_convertvector(v, rt_wu) << 16);
}

RT_ALWAYS void rt_wf_store_bf16(uint16_t *p, rt_wf x)
{
    const rt_wu bits = (rt_wu)x;
    const rt_wu rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    const rt_wu nan = (rt_wu)((rt_wi)(bits & 0x7fffffffu) > 0x7f800000);
    const rt_wu out = ((rounded & ~nan) | ((bits | 0x400000u) & nan)) >> 16;
    const rt_wh v = __builtin_convertvector(out, rt_wh);
    memcpy(p, &v, sizeof v);
}

RT_ALWAYS rt_wf rt_wf_load_f16(const uint16_t *p)
{
    rt_wh v;
    memcpy(&v, p, sizeof v);
    const rt_wu x = __builtin_convertvector(v, rt_wu), size = (x & 0x7fffu) << 13;
    const rt_wu special = (rt_wu)((rt_wi)size >= 0x0f800000) & 0x7f800000u;
    const rt_wu nan = (rt_wu)((rt_wi)size > 0x0f800000) & 0x400000u;
    return (rt_wf)((rt_wu)((rt_wf)size * 0x1p112f) | special | nan | (x & 0x8000u) << 16);
}

RT_ALWAYS void rt_wf_store_f16(uint16_t *p, rt_wf x)
{
    const rt_wu bits = (rt_wu)x, size = bits & 0x7fffffffu;
    const rt_wu normal = (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13;
    const rt_wu small = (rt_wu)((rt_wf)size + 0.5f) - 0x3f000000u;
    const rt_wu tiny = (rt_wu)((rt_wi)size < 0x38800000);
    const rt_wu over = (rt_wu)((rt_wi)size >= 0x477ff000);
    const rt_wu nan = (rt_wu)((rt_wi)size > 0x7f800000);
    rt_wu out = (small & tiny) | (normal & ~tiny);
    out = (out & ~over) | (0x7c00u & over) | ((0x200u | (size >> 13 & 0x3ffu)) & nan);
    const rt_wh v = __builtin_convertvector(out | (bits >> 16 & 0x8000u), rt_wh);
    memcpy(p, &v, sizeof v);
}

RT_ALWAYS rt_wd rt_wd_load(const double *p)
{
    rt_wd v;
    memcpy(&v, p, sizeof v);
    return v;
}

RT_ALWAYS void rt_wd_store(double *p, rt_wd v)
{
    memcpy(p, &v, sizeof v);
}

/* ---- functions ------------------------------------------------------------------- */

RT_ALWAYS float rt_sqrtf(float x)
{
    return __builtin_sqrtf(x);
}

RT_ALWAYS double rt_sqrt(double x)
{
    return __builtin_sqrt(x);
}

/* One body for four types: F the floating type, I an integer of equal width, per lane. */
#define RT_NAME(name) rt_##name##f
#define RT_F float
#define RT_I int32_t
#define RT_U uint32_t
#define RT_DOUBLE 0
#define RT_BITS(x) rt_bits_f32(x)
#define RT_FLOAT(i) rt_f32_from_bits(i)
#define RT_MASK(condition) (-(int32_t)(condition))
#include "rt_math_body.h"

#define RT_NAME(name) rt_##name
#define RT_F double
#define RT_I int64_t
#define RT_U uint64_t
#define RT_DOUBLE 1
#define RT_BITS(x) rt_bits_f64(x)
#define RT_FLOAT(i) rt_f64_from_bits(i)
#define RT_MASK(condition) (-(int64_t)(condition))
#include "rt_math_body.h"

#define RT_NAME(name) rt_wf_##name
#define RT_F rt_wf
#define RT_I rt_wi
#define RT_U rt_wu
#define RT_DOUBLE 0
#define RT_BITS(x) ((rt_wi)(x))
#define RT_FLOAT(i) ((rt_wf)(i))
#define RT_MASK(condition) ((rt_wi)(condition))
#include "rt_math_body.h"

#define RT_NAME(name) rt_wd_##name
#define RT_F rt_wd
#define RT_I rt_wl
#define RT_U rt_wul
#define RT_DOUBLE 1
#define RT_BITS(x) ((rt_wl)(x))
#define RT_FLOAT(i) ((rt_wd)(i))
#define RT_MASK(condition) ((rt_wl)(condition))
#include "rt_math_body.h"

/* log(x), x = 2^e m with m in [sqrt(1/2), sqrt(2)): with f = m - 1 and s = f / (2 + f),
 * log(m) = 2 s + s^3 R(s^2), written so that f itself enters exactly. */
RT_ALWAYS double rt_log(double x)
{
    const int64_t one = rt_bits_f64(1.0), sqrt_half = 0x3fe6a09e667f3bcd;
    const int64_t tiny = -(int64_t)(x < 0x1p-1022); /* denormal: scaled up to be normal */
    const double scale = rt_f64_from_bits((rt_bits_f64(0x1p54) & tiny) | (one & ~tiny));
    const int64_t bits = rt_bits_f64(x * scale);
    /* Its top 12 bits are e; unsigned, because x may be negative or NaN. */
    const uint64_t offset = (uint64_t)bits - (uint64_t)sqrt_half;
    const int64_t exponent =
        (int64_t)((offset >> 52) + 4096) - ((int64_t)(offset >> 63) * 4096);
    const double m = rt_f64_from_bits((int64_t)((uint64_t)bits - ((offset >> 52) << 52)));
    /* exponent + 4096 is positive: as the mantissa of 2^52 it converts without an instruction that
     * not every vector unit has. */
    const double e = rt_f64_from_bits(rt_bits_f64(0x1p52) | exponent) - (0x1p52 + 4096) -
                     rt_f64_from_bits(rt_bits_f64(54.0) & tiny);
    const double f = m - 1.0, s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    double p = 0.13088034850927555;
    p = p * z + 0.13268638369266825;
    p = p * z + 0.15386244737621665;
    p = p * z + 0.18181795547521137;
    p = p * z + 0.22222222392581045;
    p = p * z + 0.28571428570799784;
    p = p * z + 0.40000000000000885;
    p = p * z + 0.66666666666666663;
    const double high = e * 0x1.62e42feep-1, low = e * 0x1.a39ef35793c76p-33;
    const double y = high - ((half - (s * (half + z * p) + low)) - f);
    /* 0: -inf; below: NaN; inf and NaN: themselves */
    const int64_t inf = rt_bits_f64(__builtin_inf());
    const int64_t zero = -(int64_t)(x == 0.0), bad = -(int64_t)(x < 0.0);
    const int64_t same = -(int64_t)(!(x < __builtin_inf()));
    int64_t out = rt_bits_f64(y);
    out = (out & ~zero) | ((inf | INT64_MIN) & zero);
    out = (out & ~bad) | ((inf | (INT64_C(1) << 51)) & bad);
    out = (out & ~same) | (rt_bits_f64(x) & same);
    return rt_f64_from_bits(out);
}

RT_ALWAYS float rt_logf(float x)
{
    return (float)rt_log((double)x);
}

/* max(x, 0) + log(1 + e), e = exp(-|x|). The last term has what 1 + e lost of e: all of it where e is
 * small, so that the result keeps its digits there. */
RT_ALWAYS double rt_softplus(double x)
{
    const double e = rt_exp(x > 0 ? -x : x), u = 1.0 + e;
    return (x <= 0 ? 0 : x) + (rt_log(u) + (e - (u - 1.0)) / u);
}

RT_ALWAYS float rt_softplusf(float x)
{
    const float e = rt_expf(x > 0 ? -x : x), u = 1.0f + e;
    return (x <= 0 ? 0 : x) + (rt_logf(u) + (e - (u - 1.0f)) / u);
}

/* sin and cos of x = n pi/2 + r + tail, |r| <= pi/4, by polynomials in r^2; an odd n exchanges
 * them. pi/2 is subtracted in three parts of 33, 33 and 53 bits, so that the products with n are
 * exact: accurate for |x| up to 2^20, then slowly worse. */
RT_ALWAYS double rt_sin_turned(double x, int64_t quarters)
{
    const double magic = 0x1.8p52; /* adding it rounds to an integer, in the low bits */
    const double shifted = x * 0x1.45f306dc9c883p-1 + magic, n = shifted - magic;
    const double a = x - n * 0x1.921fb544p+0, b = n * 0x1.0b4611a6p-34;
    const double c = a - b, left = ((a - c) - b) - n * 0x1.3198a2e037073p-69;
    const double r = c + left, tail = (c - r) + left, z = r * r;
    double s = -7.5866368828251592e-13;
    s = s * z + 1.6058530596645953e-10;
    s = s * z + -2.5052106225994401e-08;
    s = s * z + 2.7557319219320579e-06;
    s = s * z + -0.00019841269841265041;
    s = s * z + 0.0083333333333333315;
    s = s * z + -0.16666666666666666;
    s = r + (tail + z * r * s - 0.5 * z * tail);
    double t = 4.7458384125310228e-14;
    t = t * z + -1.1470460319209511e-11;
    t = t * z + 2.0876755787492604e-09;
    t = t * z + -2.755731922139249e-07;
    t = t * z + 2.4801587301584632e-05;
    t = t * z + -0.0013888888888888887;
    t = t * z + 0.041666666666666664;
    const double h = 0.5 * z, w = 1.0 - h;
    t = w + (((1.0 - w) - h) + (z * z * t - r * tail));
    const int64_t turn = rt_bits_f64(shifted) + quarters;
    const int64_t odd = -(turn & 1);
    const int64_t y = (rt_bits_f64(t) & odd) | (rt_bits_f64(s) & ~odd);
    return rt_f64_from_bits(y ^ (int64_t)((uint64_t)(turn & 2) << 62));
}

RT_ALWAYS double rt_sin(double x)
{
    return rt_sin_turned(x, 0);
}

RT_ALWAYS double rt_cos(double x)
{
    return rt_sin_turned(x, 1);
}

static inline void rt_row_widen_f16(float *restrict to, const uint16_t *restrict from,
                                    int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = rt_f32_from_f16(from[i]);
}

/* ---- rows ------------------------------------------------------------------------ */

#define RT_ROW(name) rt_row_##name##_f32
#define RT_T float
#define RT_A float
#define RT_V rt_wf
#define RT_LANES 16
#define RT_WIDTH RT_WF_LANES
#define RT_TO_ACC(x) (x)
#define RT_LOAD(p) rt_wf_load(p)
#define RT_STORE(p, v) rt_wf_store(p, v)
#define RT_ROUND(x) (x)
#define RT_VECTOR(name) rt_wf_##name
#define RT_SCALAR(name) rt_##name##f
#include "rt_row_body.h"

#define RT_ROW(name) rt_row_##name##_bf16
#define RT_T uint16_t
#define RT_A float
#define RT_V rt_wf
#define RT_LANES 16
#define RT_WIDTH RT_WF_LANES
#define RT_TO_ACC(x) rt_f32_from_bf16(x)
#define RT_LOAD(p) rt_wf_load_bf16(p)
#define RT_STORE(p, v) rt_wf_store_bf16(p, v)
#define RT_ROUND(x) rt_bf16_from_f32(x)
#define RT_VECTOR(name) rt_wf_##name
#define RT_SCALAR(name) rt_##name##f
#include "rt_row_body.h"

#define RT_ROW(name) rt_row_##name##_f16
#define RT_T uint16_t
#define RT_A float
#define RT_V rt_wf
#define RT_LANES 16
#define RT_WIDTH RT_WF_LANES
#define RT_TO_ACC(x) rt_f32_from_f16(x)
#define RT_LOAD(p) rt_wf_load_f16(p)
#define RT_STORE(p, v) rt_wf_store_f16(p, v)
#define RT_ROUND(x) rt_f16_from_f32(x)
#define RT_VECTOR(name) rt_wf_##name
#define RT_SCALAR(name) rt_##name##f
#include "rt_row_body.h"

#define RT_ROW(name) rt_row_##name##_f64
#define RT_T double
#define RT_A double
#define RT_V rt_wd
#define RT_LANES 8
#define RT_WIDTH RT_WD_LANES
#define RT_TO_ACC(x) (x)
#define RT_LOAD(p) rt_wd_load(p)
#define RT_STORE(p, v) rt_wd_store(p, v)
#define RT_ROUND(x) (x)
#define RT_VECTOR(name) rt_wd_##name
#define RT_SCALAR(name) rt_##name
#include "rt_row_body.h"

#endif
