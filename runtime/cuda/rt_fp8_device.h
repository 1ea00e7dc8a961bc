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

/* rt_e4m3x4, rt_e5m2x4: four values times 1 / scale, rounded, the first in the lowest byte. Hopper's
 * and Ada's instruction rounds two at a time to the bits of the functions above, but may make any NaN of
 * a NaN. A value is NaN or infinite only if the scale of its tensor is NaN (rt_fp8_scale); such
 * tensors become 0x7f. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define RT_FP8_X4(to)                                                                              \
    RT_DEVICE uint32_t rt_##to##x4(float a, float b, float c, float d, float inverse)              \
    {                                                                                              \
        uint16_t low, high;                                                                        \
        asm("cvt.rn.satfinite." #to "x2.f32 %0, %1, %2;"                                           \
            : "=h"(low) : "f"(b * inverse), "f"(a * inverse));                                     \
        asm("cvt.rn.satfinite." #to "x2.f32 %0, %1, %2;"                                           \
            : "=h"(high) : "f"(d * inverse), "f"(c * inverse));                                    \
        const uint32_t nan = inverse == inverse ? 0 : ~0u;                                         \
        return ((low | (uint32_t)high << 16) & ~nan) | (0x7f7f7f7fu & nan);                        \
    }
#else
#define RT_FP8_X4(to)                                                                              \
    RT_DEVICE uint32_t rt_##to##x4(float a, float b, float c, float d, float inverse)              \
    {                                                                                              \
        return rt_##to##_from_f32(a * inverse) |                                                   \
               (uint32_t)rt_##to##_from_f32(b * inverse) << 8 |                                    \
               (uint32_t)rt_##to##_from_f32(c * inverse) << 16 |                                   \
               (uint32_t)rt_##to##_from_f32(d * inverse) << 24;                                    \
    }
#endif
RT_FP8_X4(e4m3)
RT_FP8_X4(e5m2)
#undef RT_FP8_X4

/* Of a square of 64 x 64 bytes in shared memory, with rows of 17 words so that a column lies in all banks:
 * 16 rows of a column. */
enum { RT_FP8_ROW = 68 };
RT_DEVICE RtPack<uint8_t, 16> rt_fp8_column(const uint8_t *square, int row, int column)
{
    RtPack<uint8_t, 16> out;
    for (int n = 0; n < 16; n++)
        out.v[n] = square[(row + n) * RT_FP8_ROW + column];
    return out;
}

/* The bits of |x|. As integers they are in the order of the absolute values, and NaNs are above
 * all, so the largest of many is the same in any order. */
RT_DEVICE int32_t rt_fp8_size(float x)
{
    return rt_bits_f32(x) & 0x7fffffff;
}

/* The largest rt_fp8_size of n elements, and `top`. */
template <int n, typename A> RT_DEVICE int32_t rt_fp8_sizes(int32_t top, const A *v)
{
    RT_UNROLL
    for (int k = 0; k < n; k++) {
        const int32_t size = rt_fp8_size((float)v[k]);
        top = size > top ? size : top;
    }
    return top;
}

/* The same of n adjacent elements in memory. */
template <typename T, int n> RT_DEVICE int32_t rt_fp8_sizes_at(int32_t top, const typename T::T *x)
{
    decltype(T::load(*x)) v[n];
    rt_load<T, n>(v, x);
    return rt_fp8_sizes<n>(top, v);
}

/* Of a block's threads the largest, for elements that are stored as T: rounding keeps their order, so
 * only the largest is rounded. part: shared memory for one value per warp. */
template <typename T, int threads>
RT_DEVICE void rt_fp8_largest(int32_t top, int32_t *part, int32_t *largest)
{
    top = rt_block_max<threads>(top, part);
    if (threadIdx.x == 0)
        *largest = rt_fp8_size((float)T::load(T::store(rt_f32_from_bits(top))));
}

/* The scale of a tensor by the largest rt_fp8_size of its elements. */
RT_DEVICE float rt_fp8_scale(int32_t largest, int top)
{
    const int32_t exponent = (largest >> 23) - top + ((largest & 0x7fffff) > 0x600000);
    const int32_t scale = exponent < 1 ? 1 : exponent;
    return rt_f32_from_bits(largest >= 0x7f800000 ? 0x7fc00000 : scale << 23);
}

/* The same by the largest of each of `blocks` blocks, for the threads of one. */
template <int threads>
RT_DEVICE float rt_fp8_scale_of(const int32_t *largest, int blocks, int top, int32_t *part)
{
    int32_t most = 0;
    for (int i = threadIdx.x; i < blocks; i += threads)
        most = largest[i] > most ? largest[i] : most;
    return rt_fp8_scale(rt_block_max<threads>(most, part), top);
}

#endif
