/* SPDX-License-Identifier: MIT-0 */
/* rt_simd.h: vectors of the widest unit the compiler may use (GCC vector extensions; the only
 * intrinsics are fused multiply-adds, which C cannot express for vectors), and the register block
 * that matrix products and attention share. In: pointers to float or double. Out: values whose
 * lanes are computed independently and alike, so no result depends on the lane or on where a tail
 * starts. rt_vf_* works on float, rt_vd_* on double: the same functions. */
#ifndef RT_SIMD_H
#define RT_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX__) /* which AVX2, FMA and AVX-512 imply */
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define RT_VEC_BYTES 64
#elif defined(__AVX__)
#define RT_VEC_BYTES 32
#else
#define RT_VEC_BYTES 16
#endif

/* Rows and vectors of a register block. Attention's tiles have 96 rows and 64 columns, which the
 * blocks must divide. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { RT_BLOCK_ROWS = 12, RT_BLOCK_VECS = 2 }; /* 24 of 32 registers hold sums */
#elif defined(__AVX__)
enum { RT_BLOCK_ROWS = 6, RT_BLOCK_VECS = 2 }; /* 12 of 16 registers */
#else
enum { RT_BLOCK_ROWS = 4, RT_BLOCK_VECS = 2 };
#endif
_Static_assert(96 % RT_BLOCK_ROWS == 0 && 64 % (RT_BLOCK_VECS * RT_VEC_BYTES / 4) == 0,
               "register blocks do not fill attention's tiles");

#define RT_INLINE static inline __attribute__((always_inline, unused))

typedef float rt_vf __attribute__((vector_size(RT_VEC_BYTES)));
typedef double rt_vd __attribute__((vector_size(RT_VEC_BYTES)));
typedef int32_t rt_vi __attribute__((vector_size(RT_VEC_BYTES)));
typedef int64_t rt_vl __attribute__((vector_size(RT_VEC_BYTES)));
enum { RT_VF_LANES = RT_VEC_BYTES / 4, RT_VD_LANES = RT_VEC_BYTES / 8 };
enum {
    RT_VF_COLS = RT_BLOCK_VECS * RT_VF_LANES,
    RT_VD_COLS = RT_BLOCK_VECS * RT_VD_LANES
};

/* a * b + c, rounded once if the hardware can (part of the platform, like the width). */
RT_INLINE rt_vf rt_vf_fma(rt_vf a, rt_vf b, rt_vf c)
{
#if defined(__AVX512F__)
    return (rt_vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX__) && defined(__FMA__)
    return (rt_vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (rt_vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

RT_INLINE rt_vd rt_vd_fma(rt_vd a, rt_vd b, rt_vd c)
{
#if defined(__AVX512F__)
    return (rt_vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__AVX__) && defined(__FMA__)
    return (rt_vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(__aarch64__)
    return (rt_vd)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
    return a * b + c;
#endif
}

/* One value in every lane. */
RT_INLINE rt_vf rt_vf_set(float x)
{
#if defined(__AVX512F__)
    return (rt_vf)_mm512_set1_ps(x);
#elif defined(__AVX__)
    return (rt_vf)_mm256_set1_ps(x);
#else
    return (rt_vf){x, x, x, x};
#endif
}

RT_INLINE rt_vd rt_vd_set(double x)
{
#if defined(__AVX512F__)
    return (rt_vd)_mm512_set1_pd(x);
#elif defined(__AVX__)
    return (rt_vd)_mm256_set1_pd(x);
#else
    return (rt_vd){x, x};
#endif
}

/* Functions with the same text for float and double. V vector, T scalar, I integer vector of the
 * same width, L integer scalar. load and store need no alignment. */
#define RT_SIMD_COMMON(P, V, T, I, L, LANES)                                             \
    RT_INLINE V P##_load(const T *p)                                                     \
    {                                                                                    \
        V v;                                                                             \
        memcpy(&v, p, sizeof v);                                                         \
        return v;                                                                        \
    }                                                                                    \
    RT_INLINE void P##_store(T *p, V v)                                                  \
    {                                                                                    \
        memcpy(p, &v, sizeof v);                                                         \
    }                                                                                    \
    /* yes where the mask's lane is -1, no where it is 0 */                              \
    RT_INLINE V P##_select(I mask, V yes, V no)                                          \
    {                                                                                    \
        return (V)((mask & (I)yes) | (~mask & (I)no));                                   \
    }                                                                                    \
    RT_INLINE V P##_max(V a, V b)                                                        \
    {                                                                                    \
        return P##_select((I)(a > b), a, b);                                             \
    }                                                                                    \
    /* first, first + 1, ... */                                                          \
    RT_INLINE I P##_count(L first)                                                       \
    {                                                                                    \
        I v = {0};                                                                       \
        for (int i = 0; i < (LANES); i++) {                                              \
            v[i] = first + i;                                                            \
        }                                                                                \
        return v;                                                                        \
    }                                                                                    \
    /* c[rows, vecs] (+)= a[rows, k] b[k, vecs], all sums in registers, k in order:      \
     * every element is one chain of fused multiply-adds from zero, then added to c.     \
     * rows and vecs are constants where it is called. */                                \
    RT_INLINE void P##_block(const int rows, const int vecs, int64_t k, const T *a,      \
                             int64_t row_stride, int64_t k_stride, const T *b,           \
                             int64_t ldb, T *c, int64_t ldc, const int add)              \
    {                                                                                    \
        V sum[RT_BLOCK_ROWS][RT_BLOCK_VECS];                                             \
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)                          \
        {                                                                                \
            _Pragma("GCC unroll 4") for (int j = 0; j < vecs; j++)                       \
            {                                                                            \
                sum[i][j] = P##_set(0);                                                  \
            }                                                                            \
        }                                                                                \
        for (int64_t p = 0; p < k; p++) {                                                \
            V bv[RT_BLOCK_VECS];                                                         \
            _Pragma("GCC unroll 4") for (int j = 0; j < vecs; j++)                       \
            {                                                                            \
                bv[j] = P##_load(b + p * ldb + j * (LANES));                             \
            }                                                                            \
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)                      \
            {                                                                            \
                const V av = P##_set(a[i * row_stride + p * k_stride]);                  \
                _Pragma("GCC unroll 4") for (int j = 0; j < vecs; j++)                   \
                {                                                                        \
                    sum[i][j] = P##_fma(av, bv[j], sum[i][j]);                           \
                }                                                                        \
            }                                                                            \
        }                                                                                \
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)                          \
        {                                                                                \
            _Pragma("GCC unroll 4") for (int j = 0; j < vecs; j++)                       \
            {                                                                            \
                T *at = c + i * ldc + j * (LANES);                                       \
                P##_store(at, add ? P##_load(at) + sum[i][j] : sum[i][j]);               \
            }                                                                            \
        }                                                                                \
    }

RT_SIMD_COMMON(rt_vf, rt_vf, float, rt_vi, int32_t, RT_VF_LANES)
RT_SIMD_COMMON(rt_vd, rt_vd, double, rt_vl, int64_t, RT_VD_LANES)

/* ---- bf16, two to a 32-bit word -------------------------------------------------- */

/* Products of bf16 take two elements of the summed axis at once, the first in the low half of a
 * word. Sums are f32. With AVX512-BF16 the hardware does both products; elsewhere a shift and a
 * mask widen the halves exactly. */

typedef uint16_t rt_vh __attribute__((vector_size(RT_VEC_BYTES / 2)));

/* bf16 of every lane in the low half of a word, to nearest even; NaN stays NaN. */
RT_INLINE rt_vi rt_vf_round_bf16(rt_vf x)
{
#if defined(__AVX512BF16__)
    return (rt_vi)_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)x));
#else
    typedef uint32_t words __attribute__((vector_size(RT_VEC_BYTES)));
    const words bits = (words)x;
    const words rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    const words nan = (words)((rt_vi)(bits & 0x7fffffffu) > 0x7f800000);
    return (rt_vi)(((rounded & ~nan) | ((bits | 0x400000u) & nan)) >> 16);
#endif
}

RT_INLINE void rt_vf_store_bf16(uint16_t *p, rt_vf x)
{
    const rt_vh v = __builtin_convertvector(rt_vf_round_bf16(x), rt_vh);
    memcpy(p, &v, sizeof v);
}

/* Words of two vectors: lanes of first low, of second high. */
RT_INLINE void rt_vf_store_pairs(uint32_t *p, rt_vf first, rt_vf second)
{
    const rt_vi v = rt_vf_round_bf16(first) | rt_vf_round_bf16(second) << 16;
    memcpy(p, &v, sizeof v);
}

/* Words of two rows of bf16: first low, second high. */
RT_INLINE void rt_pairs_zip(uint32_t *dst, const uint16_t *first, const uint16_t *second,
                            int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = first[i] | (uint32_t)second[i] << 16;
}

/* sum + the two products of a's and b's halves, lane by lane. */
RT_INLINE rt_vf rt_pairs_fma(rt_vi a, rt_vi b, rt_vf sum)
{
#if defined(__AVX512BF16__)
    return (rt_vf)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
    const rt_vi high = (rt_vi){0} + (int32_t)0xffff0000;
    sum = rt_vf_fma((rt_vf)(a << 16), (rt_vf)(b << 16), sum);
    return rt_vf_fma((rt_vf)(a & high), (rt_vf)(b & high), sum);
#endif
}

/* rt_vf_block for words: k counts words. */
RT_INLINE void rt_pairs_block(const int rows, const int vecs, int64_t k,
                              const uint32_t *a, int64_t row_stride, int64_t k_stride,
                              const uint32_t *b, int64_t ldb, float *c, int64_t ldc,
                              const int add)
{
    rt_vf sum[RT_BLOCK_ROWS][RT_BLOCK_VECS];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < vecs; j++)
            sum[i][j] = rt_vf_set(0);
    }
    for (int64_t p = 0; p < k; p++) {
        rt_vi bv[RT_BLOCK_VECS];
#pragma GCC unroll 4
        for (int j = 0; j < vecs; j++)
            memcpy(&bv[j], b + p * ldb + j * RT_VF_LANES, sizeof bv[j]);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const rt_vi av = (rt_vi){0} + (int32_t)a[i * row_stride + p * k_stride];
#pragma GCC unroll 4
            for (int j = 0; j < vecs; j++)
                sum[i][j] = rt_pairs_fma(av, bv[j], sum[i][j]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < vecs; j++) {
            float *at = c + i * ldc + j * RT_VF_LANES;
            rt_vf_store(at, add ? rt_vf_load(at) + sum[i][j] : sum[i][j]);
        }
    }
}

/* ---- exp ------------------------------------------------------------------------- */

/* exp(x): x = n ln 2 + r with |r| <= ln 2 / 2, Taylor polynomial in r (degree 7: relative error
 * under 6e-9 before rounding), times 2^n. Below -87 the result is 0, above 88 it saturates; softmax
 * only needs x <= 0. */
RT_INLINE rt_vf rt_vf_exp(rt_vf x)
{
    const rt_vf magic =
        rt_vf_set(12582912.0f); /* 1.5 * 2^23: adding it rounds to integer */
    const rt_vf low = rt_vf_set(-87.0f), high = rt_vf_set(88.0f);
    const rt_vi tiny = (rt_vi)(x < low);
    x = rt_vf_select((rt_vi)(x > high), high, rt_vf_select(tiny, low, x));
    const rt_vf shifted = rt_vf_fma(x, rt_vf_set(1.44269504f), magic);
    const rt_vf n = shifted - magic;
    rt_vf r =
        rt_vf_fma(n, rt_vf_set(-0.693359375f), x); /* high bits of ln 2: exact product */
    r = rt_vf_fma(n, rt_vf_set(2.12194440e-4f), r);
    rt_vf p = rt_vf_set(1.0f / 5040);
    p = rt_vf_fma(p, r, rt_vf_set(1.0f / 720));
    p = rt_vf_fma(p, r, rt_vf_set(1.0f / 120));
    p = rt_vf_fma(p, r, rt_vf_set(1.0f / 24));
    p = rt_vf_fma(p, r, rt_vf_set(1.0f / 6));
    p = rt_vf_fma(p, r, rt_vf_set(0.5f));
    p = rt_vf_fma(p, r, rt_vf_set(1.0f));
    p = rt_vf_fma(p, r, rt_vf_set(1.0f));
    /* The low bits of shifted are n: they become the exponent of 2^n; NaN stays NaN. */
    const rt_vf e = p * (rt_vf)(((rt_vi)shifted + 127) << 23);
    return (rt_vf)((rt_vi)e & ~tiny);
}

/* The same for double: degree 13, relative error under 1e-17 before rounding. */
RT_INLINE rt_vd rt_vd_exp(rt_vd x)
{
    const rt_vd magic = rt_vd_set(6755399441055744.0); /* 1.5 * 2^52 */
    const rt_vd low = rt_vd_set(-708.0), high = rt_vd_set(709.0);
    const rt_vl tiny = (rt_vl)(x < low);
    x = rt_vd_select((rt_vl)(x > high), high, rt_vd_select(tiny, low, x));
    const rt_vd shifted = rt_vd_fma(x, rt_vd_set(0x1.71547652b82fep+0), magic);
    const rt_vd n = shifted - magic;
    rt_vd r = rt_vd_fma(n, rt_vd_set(-0x1.62e42fee00000p-1), x);
    r = rt_vd_fma(n, rt_vd_set(-0x1.a39ef35793c76p-33), r);
    static const double taylor[] = {1.0 / 6227020800,
                                    1.0 / 479001600,
                                    1.0 / 39916800,
                                    1.0 / 3628800,
                                    1.0 / 362880,
                                    1.0 / 40320,
                                    1.0 / 5040,
                                    1.0 / 720,
                                    1.0 / 120,
                                    1.0 / 24,
                                    1.0 / 6,
                                    0.5,
                                    1.0,
                                    1.0};
    rt_vd p = rt_vd_set(taylor[0]);
    for (int i = 1; i < 14; i++)
        p = rt_vd_fma(p, r, rt_vd_set(taylor[i]));
    const rt_vd e = p * (rt_vd)(((rt_vl)shifted + 1023) << 52);
    return (rt_vd)((rt_vl)e & ~tiny);
}

#endif
