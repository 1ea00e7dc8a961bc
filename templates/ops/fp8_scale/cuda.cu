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
        top = rt_fp8_sizes<${w}>(top, v);
    }
    top = rt_block_max<256>(top, part);
    if (threadIdx.x == 0)
        largest[blockIdx.x] = top;
}

${scale_kernel(fn, s, to, blocks)}
//@ host
${kernel(fn .. "_largest", 256)}
${kernel(fn .. "_scale", 1024)}

/* s = the scale in ${to} of x[${t}, ${k}]; workspace: the largest of each block */
static void ${fn}(Rt *rt, const ${x.type} *x, ${acc} *s, char *workspace)
{
    int32_t *largest = (int32_t *)(void *)workspace;
    rt_launch(rt, &${fn}_largest_kernel, ${blocks}, 1, (void *[]){ &x, &largest });
    rt_launch(rt, &${fn}_scale_kernel, 1, 1, (void *[]){ &largest, &s });
}
