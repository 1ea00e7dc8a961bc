//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- fp8_transpose: a block turns a square of 64 x 64 elements in shared memory.
//@ local ragged = t % 64 > 0 or k % 64 > 0
//@ local squares = (k + 63) // 64 -- beside each other
#include "rt_fp8_device.h"
RT_GLOBAL(256)
${fn}(const uint8_t *x, uint8_t *y)
{
    RT_SHARED(uint8_t, part, 64 * RT_FP8_ROW);
    const int row = blockIdx.x / ${squares} * 64, column = blockIdx.x % ${squares} * 64;
    const int i = threadIdx.x / 4, j = threadIdx.x % 4 * 16; /* 16 elements of a row */
//@ if ragged then
    if (row + i < ${t} && column + j < ${k}) {
//@ else
    {
//@ end
        const RtPack<uint32_t, 4> in = *(const RtPack<uint32_t, 4> *)(x + (int64_t)(row + i) * ${k} + column + j);
        for (int n = 0; n < 4; n++)
            *(uint32_t *)(part + i * RT_FP8_ROW + j + 4 * n) = in.v[n];
    }
    rt_block_sync();
//@ if ragged then
    if (column + i >= ${k} || row + j >= ${t})
        return;
//@ end
    *(RtPack<uint8_t, 16> *)(y + (int64_t)(column + i) * ${t} + row + j) = rt_fp8_column(part, j, i);
}
//@ host
${kernel(fn, 256)}

/* y[${k}, ${t}] = x[${t}, ${k}]^T */
static void ${fn}(Rt *rt, const uint8_t *x, uint8_t *y)
{
    rt_launch(rt, &${fn}_kernel, ${(t + 63) // 64 * squares}, 1, (void *[]){ &x, &y });
}
