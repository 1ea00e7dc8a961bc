//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- fp8_columns: a block turns a square of 64 x 64 elements in shared memory.
//@ local w = width(16, x)
//@ local each = math.max(w, 4)
//@ local lanes, ragged = 64 // each, t % 64 > 0 or k % 64 > 0
//@ local squares = (k + 63) // 64 -- beside each other
#include "rt_fp8_device.h"
RT_GLOBAL(256)
${fn}(const ${x.type} *x, const ${acc} *s, uint8_t *q)
{
    RT_SHARED(uint8_t, part, 64 * RT_FP8_ROW);
    const int row = blockIdx.x / ${squares} * 64, column = blockIdx.x % ${squares} * 64;
    const int i = threadIdx.x / ${lanes}, j = threadIdx.x % ${lanes} * ${each};
    const float inverse = (float)(1 / *s);
    RT_UNROLL
    for (int below = 0; below < 64; below += ${256 // lanes}) {
//@ if ragged then
        if (row + i + below >= ${t} || column + j >= ${k})
            continue;
//@ end
        const int64_t at = (int64_t)(row + i + below) * ${k} + column + j;
        ${acc} v[${each}];
        for (int n = 0; n < ${each}; n += ${w})
            ${load("v + n", x, "at + n", { width = w })};
        for (int n = 0; n < ${each}; n += 4)
            *(uint32_t *)(part + (i + below) * RT_FP8_ROW + j + n) =
                rt_${to}x4((float)v[n], (float)v[n + 1], (float)v[n + 2], (float)v[n + 3], inverse);
    }
    rt_block_sync();
    const int across = threadIdx.x / 4, down = threadIdx.x % 4 * 16; /* 16 rows of a column */
//@ if ragged then
    if (column + across >= ${k} || row + down >= ${t})
        return;
//@ end
    *(RtPack<uint8_t, 16> *)(q + (int64_t)(column + across) * ${t} + row + down) =
        rt_fp8_column(part, down, across);
}
//@ host
${kernel(fn, 256)}

/* q[${k}, ${t}] = (x[${t}, ${k}] / s)^T in ${to} */
static void ${fn}(Rt *rt, const ${x.type} *x, const ${acc} *s, uint8_t *q)
{
    rt_launch(rt, &${fn}_kernel, ${(t + 63) // 64 * squares}, 1, (void *[]){ &x, &s, &q });
}
