/* SPDX-License-Identifier: MIT-0 */
/* rt_fp8_kernels.h: the runtime's kernels of weights that are gathered in fp8; kernels.cu includes it
 * after defining the dtype of weights. In and out: see rt_fp8_codes.c of this folder. */
#ifndef RT_FP8_KERNELS_H
#define RT_FP8_KERNELS_H

#include "rt_fp8_device.h"

#if defined(RT_F64_WEIGHTS)
typedef double RtWeight, RtScale;
RT_DEVICE float rt_weight(RtWeight x) { return (float)x; }
#elif defined(RT_F32_WEIGHTS)
typedef float RtWeight, RtScale;
RT_DEVICE float rt_weight(RtWeight x) { return x; }
#elif defined(RT_BF16_WEIGHTS)
typedef rt_bf16 RtWeight;
typedef float RtScale;
RT_DEVICE float rt_weight(RtWeight x) { return rt_f32_from_bf16(x); }
#elif defined(RT_F16_WEIGHTS)
typedef rt_f16 RtWeight;
typedef float RtScale;
RT_DEVICE float rt_weight(RtWeight x) { return rt_f32_from_f16(x); }
#else
#error "define RT_F32_WEIGHTS, RT_F64_WEIGHTS, RT_BF16_WEIGHTS or RT_F16_WEIGHTS"
#endif

/* A thread takes 8 elements: the boxes of an encoded parameter have multiples of 16. */
enum { RT_CODES_EACH = 8, RT_WEIGHTS_WIDTH = 16 / sizeof(RtWeight) };
RT_DEVICE void rt_weights_load(float *v, const RtWeight *w)
{
    for (int i = 0; i < RT_CODES_EACH; i += RT_WEIGHTS_WIDTH) {
        const RtPack<RtWeight, RT_WEIGHTS_WIDTH> in = *(const RtPack<RtWeight, RT_WEIGHTS_WIDTH> *)(w + i);
        for (int j = 0; j < RT_WEIGHTS_WIDTH; j++)
            v[i + j] = rt_weight(in.v[j]);
    }
}

/* largest = the largest of it and of |w|, as integers. */
RT_GLOBAL(256)
rt_largest_kernel(const RtWeight *w, int64_t elems, int32_t *largest)
{
    RT_SHARED(int32_t, part, 8);
    int32_t top = 0;
    for (int64_t at = ((int64_t)blockIdx.x * 256 + threadIdx.x) * RT_CODES_EACH; at < elems;
         at += (int64_t)gridDim.x * 256 * RT_CODES_EACH) {
        float v[RT_CODES_EACH];
        rt_weights_load(v, w + at);
        for (int i = 0; i < RT_CODES_EACH; i++) {
            const int32_t size = rt_fp8_size(v[i]);
            top = size > top ? size : top;
        }
    }
    top = rt_block_max<256>(top, part);
    if (threadIdx.x == 0 && top > 0)
        rt_atomic_max_i32(largest, top);
}

/* scales = those of the largest elements of all ranks, which start at 0 in the next step. Where it is 0
 * there, the weight is frozen and keeps its scale, or all zeros, of which any scale makes the same codes. */
RT_GLOBAL(256)
rt_scales_kernel(int32_t *largest, int64_t n, RtScale *scales)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= n || (largest[i] == 0 && scales[i] != 0))
        return;
    scales[i] = rt_fp8_scale(largest[i], RT_E4M3_TOP);
    largest[i] = 0;
}

/* codes = w / scale in e4m3 */
RT_GLOBAL(256)
rt_encode_kernel(const RtWeight *w, int64_t elems, const RtScale *scale, uint8_t *codes)
{
    const int64_t at = ((int64_t)blockIdx.x * 256 + threadIdx.x) * RT_CODES_EACH;
    if (at >= elems)
        return;
    const float inverse = (float)(1 / *scale);
    float v[RT_CODES_EACH];
    RtPack<uint32_t, RT_CODES_EACH / 4> out;
    rt_weights_load(v, w + at);
    for (int i = 0; i < RT_CODES_EACH; i += 4)
        out.v[i / 4] = rt_e4m3x4(v[i], v[i + 1], v[i + 2], v[i + 3], inverse);
    *(RtPack<uint32_t, RT_CODES_EACH / 4> *)(codes + at) = out;
}

#endif
