/* SPDX-License-Identifier: MIT-0 */
/* rt_fp8_device.h: the roundings and scales of rt_fp8.h, which explains them, for kernels. */
#ifndef RT_FP8_DEVICE_H
#define RT_FP8_DEVICE_H

enum { RT_E4M3_TOP = 8, RT_E5M2_TOP = 15 }; /* exponents of the largest values */

/* Below 2^-6 results are multiples of 2^-9, which is the last place of 2^14: adding it rounds. */
RT_DEVICE uint8_t rt_e4m3_from_f32(float x)
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
RT_DEVICE uint8_t rt_e5m2_from_f32(float x)
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

/* The bits of |x|. As integers they are in the order of the absolute values, and NaNs are above
 * all, so the largest of many is the same in any order. */
RT_DEVICE int32_t rt_fp8_size(float x)
{
    return rt_bits_f32(x) & 0x7fffffff;
}

/* The scale of a tensor by the largest rt_fp8_size of its elements. */
RT_DEVICE float rt_fp8_scale(int32_t largest, int top)
{
    const int32_t exponent = (largest >> 23) - top + ((largest & 0x7fffff) > 0x600000);
    const int32_t scale = exponent < 1 ? 1 : exponent;
    return rt_f32_from_bits(largest >= 0x7f800000 ? 0x7fc00000 : scale << 23);
}

#endif
