//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- fp8_both: fp8_columns, whose blocks also write their squares as they are.
//@ local w = width(16, x)
//@ local each = math.max(w, 4)
#include "rt_fp8_device.h"
RT_GLOBAL(256)
${fn}(const ${x.type} *x, const ${acc} *s, uint8_t *q, uint8_t *qt)
{
    RT_SHARED(uint8_t, part, 64 * 68); /* rows of 17 words: a column lies in all banks */
    const int column = blockIdx.x * 64, row = blockIdx.y * 64;
    const float inverse = (float)(1 / *s);
    for (int item = threadIdx.x; item < ${64 * 64 // each}; item += 256) {
        const int i = item / ${64 // each}, j = item % ${64 // each} * ${each};
        const int64_t at = (int64_t)(row + i) * ${k} + column + j;
        ${acc} v[${each}];
        RtPack<uint8_t, ${each}> out;
        if (row + i >= ${t} || column + j >= ${k})
            continue;
        for (int n = 0; n < ${each}; n += ${w})
            ${load("v + n", x, "at + n", { width = w })};
        for (int n = 0; n < ${each}; n++)
            out.v[n] = rt_${to}_from_f32((float)v[n] * inverse);
        for (int n = 0; n < ${each}; n += 4) {
            uint32_t word;
            memcpy(&word, out.v + n, 4);
            *(uint32_t *)(part + i * 68 + j + n) = word;
        }
        *(RtPack<uint8_t, ${each}> *)(q + at) = out;
    }
    rt_block_sync();
    const int j = threadIdx.x / 4, i = threadIdx.x % 4 * 16; /* 16 rows of a column */
    if (column + j < ${k} && row + i < ${t}) {
        RtPack<uint8_t, 16> out;
        for (int n = 0; n < 16; n++)
            out.v[n] = part[(i + n) * 68 + j];
        *(RtPack<uint8_t, 16> *)(qt + (int64_t)(column + j) * ${t} + row + i) = out;
    }
}
//@ host
${kernel(fn, 256)}

/* q[${t}, ${k}] = x / s in ${to}, qt[${k}, ${t}] = q^T */
static void ${fn}(Rt *rt, const ${x.type} *x, const ${acc} *s, uint8_t *q, uint8_t *qt)
{
    rt_launch(rt, &${fn}_kernel, ${(k + 63) // 64}, ${(t + 63) // 64}, (void *[]){ &x, &s, &q, &qt });
}
