//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- fp8_rows: a thread makes one or two words.
//@ local w = width(16, x)
//@ local each, elems = math.max(w, 4), t * k
//@ local blocks = (elems + 256 * each - 1) // (256 * each)
#include "rt_fp8_device.h"
RT_GLOBAL(256)
${fn}(const ${x.type} *x, const ${acc} *s, uint8_t *q)
{
    const int64_t at = ((int64_t)blockIdx.x * 256 + threadIdx.x) * ${each};
    const float inverse = (float)(1 / *s);
//@ if elems % (256 * each) > 0 then
    if (at >= ${elems})
        return;
//@ end
    ${acc} v[${each}];
    RtPack<uint32_t, ${each // 4}> out;
    for (int i = 0; i < ${each}; i += ${w})
        ${load("v + i", x, "at + i", { width = w })};
    for (int i = 0; i < ${each}; i += 4)
        out.v[i / 4] = rt_${to}x4((float)v[i], (float)v[i + 1], (float)v[i + 2], (float)v[i + 3], inverse);
    *(RtPack<uint32_t, ${each // 4}> *)(q + at) = out;
}
//@ host
${kernel(fn, 256)}

/* q[${t}, ${k}] = x / s in ${to} */
static void ${fn}(Rt *rt, const ${x.type} *x, const ${acc} *s, uint8_t *q)
{
    rt_launch(rt, &${fn}_kernel, ${blocks}, 1, (void *[]){ &x, &s, &q });
}
