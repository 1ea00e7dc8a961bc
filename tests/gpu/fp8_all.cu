/* SPDX-License-Identifier: Apache-2.0 */
/* fp8_all.cu: the instruction behind rt_e4m3x4 and rt_e5m2x4 rounds every f32 to the bits of
 * rt_e4m3_from_f32 and rt_e5m2_from_f32, which are the CPU's. All 2^32 of them; NaNs have
 * a NaN as scale. Out: one line; exit code 1 if a float differs. */
#include <cstdint>
#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>
#include "rt_device.h"
#include "rt_fp8_device.h"

struct Wrong {
    unsigned long long compared, count;
    unsigned int first, is, should;
};

/* The word of x, 0, -x and 1, each rounded alone. */
static __device__ uint32_t word(uint32_t x, uint32_t minus, uint32_t one)
{
    return x | minus << 16 | one << 24;
}

/* A thread takes 16 floats. */
__global__ void compare(float scale_of_nans, Wrong *wrong)
{
    const uint32_t base = (blockIdx.x * 256u + threadIdx.x) * 16u;
    for (uint32_t bits = base; bits - base < 16; bits++) {
        const float x = rt_f32_from_bits((int32_t)bits), inverse = x == x ? 1.0f : scale_of_nans;
        const uint32_t nans = x == x ? 0 : 0x7f7f7f7fu;
        const uint32_t e4m3 = nans ? nans : word(rt_e4m3_from_f32(x), rt_e4m3_from_f32(-x), rt_e4m3_from_f32(1));
        const uint32_t e5m2 = nans ? nans : word(rt_e5m2_from_f32(x), rt_e5m2_from_f32(-x), rt_e5m2_from_f32(1));
        const uint32_t is4 = rt_e4m3x4(x, 0, -x, 1, inverse), is5 = rt_e5m2x4(x, 0, -x, 1, inverse);
        if (is4 == e4m3 && is5 == e5m2)
            continue;
        if (atomicAdd(&wrong->count, 1ull) == 0) {
            wrong->first = bits;
            wrong->is = is4 != e4m3 ? is4 : is5;
            wrong->should = is4 != e4m3 ? e4m3 : e5m2;
        }
    }
    atomicAdd(&wrong->compared, 16ull);
}

int main()
{
    Wrong *wrong, host;
    if (cudaMalloc(&wrong, sizeof *wrong) || cudaMemset(wrong, 0, sizeof *wrong))
        return 2;
    compare<<<1u << 20, 256>>>(nanf(""), wrong);
    if (cudaGetLastError() || cudaDeviceSynchronize() ||
        cudaMemcpy(&host, wrong, sizeof host, cudaMemcpyDeviceToHost))
        return 2;
    if (host.count)
        printf("%llu floats differ; from 0x%08x: 0x%08x, should be 0x%08x\n", host.count,
               host.first, host.is, host.should);
    else
        printf("%llu floats round to the CPU's bits\n", host.compared);
    return host.count || host.compared != 1ull << 32;
}
