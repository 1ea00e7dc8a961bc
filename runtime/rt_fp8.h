/* SPDX-License-Identifier: MIT-0 */
/* rt_fp8.h: the two forms of fp8, and the scale of a tensor, for kernels of trainers with
 * dtypes.linear = "fp8". In: floats. Out: the same bits with every compiler and instruction set, and
 * on GPUs (cuda/rt_fp8_device.h): integer code without branches, which vectorises.
 *
 *    e4m3   sign, 4 bits of exponent, 3 of mantissa; largest 448, no infinity, NaN 0x7f
 *    e5m2   sign, 5 bits of exponent, 2 of mantissa; largest 57344
 *
 * Conversion to fp8 is to nearest, ties to even. What is larger than the largest becomes the
 * largest, infinity too; a NaN becomes 0x7f.
 *
 * A tensor's scale is the smallest power of two s for which no element is larger than the largest
 * of the form, times s: with the tensor's largest absolute value m 2^k, 1 <= m < 2, and the form's
 * largest value 1.75 2^t (t is 8 or 15), s = 2^(k - t), or twice that if m > 1.75; at least 2^-126.
 * So dividing by s, and multiplying by it, is exact, and a product of two tensors is scaled by a
 * power of two. A tensor with an element that is not finite has the scale NaN, so that every result
 * of its products is NaN, too.
 *
 * tests/ops/fp8_test.c compares with the conversions of another library. */
#ifndef RT_FP8_H
#define RT_FP8_H

#include "rt_math.h"

enum { RT_E4M3_TOP = 8, RT_E5M2_TOP = 15 }; /* exponents of the largest values */

/* Below 2^-6 results are multiples of 2^-9, which is the last place of 2^14: adding it rounds. */
RT_ALWAYS uint8_t rt_e4m3_from_f32(float x)
{
    const uint32_t bits = (uint32_t)rt_bits_f32(x), size = bits & 0x7fffffffu;
    const uint32_t normal = (size - 0x3c000000u + 0x7ffffu + (size >> 20 & 1u)) >> 20;
    const float sum = rt_f32_from_bits((int32_t)size) + 0x1p14f;
    const uint32_t small = (uint32_t)rt_bits_f32(sum) - 0x46800000u;
    const uint32_t tiny = -(uint32_t)(size < 0x3c800000u);
    const uint32_t over = -(uint32_t)(size >= 0x43e00000u);
    const uint32_t nan = -(uint32_t)(size > 0x7f800000u);
    uint32_t out = (small & tiny) | (normal & ~tiny);
    out = (out & ~over) | (0x7eu & over) | (bits >> 24 & 0x80u);
    return (uint8_t)((out & ~nan) | (0x7fu & nan));
}

/* Below 2^-14 results are multiples of 2^-16, the last place of 2^7. */
RT_ALWAYS uint8_t rt_e5m2_from_f32(float x)
{
    const uint32_t bits = (uint32_t)rt_bits_f32(x), size = bits & 0x7fffffffu;
    const uint32_t normal = (size - 0x38000000u + 0xfffffu + (size >> 21 & 1u)) >> 21;
    const float sum = rt_f32_from_bits((int32_t)size) + 0x1p7f;
    const uint32_t small = (uint32_t)rt_bits_f32(sum) - 0x43000000u;
    const uint32_t tiny = -(uint32_t)(size < 0x38800000u);
    const uint32_t over = -(uint32_t)(size >= 0x47600000u);
    const uint32_t nan = -(uint32_t)(size > 0x7f800000u);
    uint32_t out = (small & tiny) | (normal & ~tiny);
    out = (out & ~over) | (0x7bu & over) | (bits >> 24 & 0x80u);
    return (uint8_t)((out & ~nan) | (0x7fu & nan));
}

/* The bits below the sign, as a float's, are the value times 2^-120, or 2^-112: the product is
 * exact, for subnormals too. */
RT_ALWAYS float rt_f32_from_e4m3(uint8_t x)
{
    const uint32_t size = x & 0x7fu;
    const uint32_t nan = -(uint32_t)(size == 0x7fu) & 0x7fc00000u;
    const float value = rt_f32_from_bits((int32_t)(size << 20)) * 0x1p120f;
    return rt_f32_from_bits(
        (int32_t)((uint32_t)rt_bits_f32(value) | nan | (uint32_t)(x & 0x80u) << 24));
}

RT_ALWAYS float rt_f32_from_e5m2(uint8_t x)
{
    const uint32_t size = x & 0x7fu;
    const uint32_t special = -(uint32_t)(size >= 0x7cu) & 0x7f800000u;
    const uint32_t nan = -(uint32_t)(size > 0x7cu) & 0x400000u;
    const float value = rt_f32_from_bits((int32_t)(size << 21)) * 0x1p112f;
    return rt_f32_from_bits((int32_t)((uint32_t)rt_bits_f32(value) | special | nan |
                                      (uint32_t)(x & 0x80u) << 24));
}

/* The bits of |x|. As integers they are in the order of the absolute values, and NaNs are above
 * all, so the largest of many is the same in any order. */
RT_ALWAYS int32_t rt_fp8_size(float x)
{
    return rt_bits_f32(x) & 0x7fffffff;
}

/* The scale of a tensor by the largest rt_fp8_size of its elements. */
RT_ALWAYS float rt_fp8_scale(int32_t largest, int top)
{
    const int32_t exponent = (largest >> 23) - top + ((largest & 0x7fffff) > 0x600000);
    const int32_t scale = exponent < 1 ? 1 : exponent;
    return rt_f32_from_bits(largest >= 0x7f800000 ? 0x7fc00000 : scale << 23);
}

#endif
