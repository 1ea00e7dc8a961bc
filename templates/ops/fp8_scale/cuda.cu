//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- fp8_scale: the largest of each block, then of all blocks.
//@ local elems = t * k
//@ local w = width(elems, x)
//@ local blocks = math.min(1024, (elems + 4095) // 4096)
#include "rt_fp8_device.h"
RT_GLOBAL(256)
${fn}_largest(const ${x.type} *x, int32_t *largest)
{
    RT_SHARED(int32_t, part, 8);
    int32_t top = 0;
    for (int64_t at = ((int64_t)blockIdx.x * 256 + threadIdx.x) * ${w}; at < ${elems};
         at += ${blocks * 256 * w}) {
        ${acc} v[${w}];
        ${load("v", x, "at", { width = w })};
        for (int j = 0; j < ${w}; j++) {
            const int32_t size = rt_fp8_size((float)v[j]);
            top = size > top ? size : top;
        }
    }
    top = rt_block_max<256>(top, part);
    if (threadIdx.x == 0)
        largest[blockIdx.x] = top;
}

RT_GLOBAL(256)
${fn}(const int32_t *largest, ${acc} *s)
{
    RT_SHARED(int32_t, part, 8);
    int32_t top = 0;
    for (int i = threadIdx.x; i < ${blocks}; i += 256)
        top = largest[i] > top ? largest[i] : top;
    top = rt_block_max<256>(top, part);
    if (threadIdx.x == 0)
        *s = rt_fp8_scale(top, RT_${string.upper(to)}_TOP);
}
//@ host
${kernel(fn .. "_largest", 256)}
${kernel(fn, 256)}

/* s = the scale in ${to} of x[${t}, ${k}]; workspace: the largest of each block */
static void ${fn}(Rt *rt, const ${x.type} *x, ${acc} *s, char *workspace)
{
    int32_t *largest = (int32_t *)(void *)workspace;
    rt_launch(rt, &${fn}_largest_kernel, ${blocks}, 1, (void *[]){ &x, &largest });
    rt_launch(rt, &${fn}_kernel, 1, 1, (void *[]){ &largest, &s });
}
