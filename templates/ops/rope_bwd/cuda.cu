//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- rope_bwd: dx may be dy. As rope, turned back.
//@ local turns = rotary > 0 and rotary or head_dim -- elements of a head
//@ local half, turned = turns // 2, (heads + kv_heads) * head_dim
//@ local g = { width = width(half, dy, width(head_dim, dy)) }
//@ local lanes = half // g.width -- threads of a head
//@ local pairs = (heads + kv_heads) * lanes
//@ local threads = row_threads(pairs, 256)
//@ local v_width = width(c - turned, dy, g.width)
//@ local starts_param = starts and "const int32_t *starts, " or ""
//@ local position = "blockIdx.x % " .. seq .. (starts and " - starts[blockIdx.x]" or "")
//@ local largest = s and ", int32_t *largest" or ""
//@ local scale_out = s and ", " .. s.type .. " *s, char *workspace" or ""
//@ if s then
#include "rt_fp8_device.h"
//@ end
RT_GLOBAL(${threads})
${fn}(const ${dy.type} *dy, const ${table.type} *table, ${starts_param}${dx.type} *dx${largest})
{
//@ if s then
    RT_SHARED(int32_t, tops, ${threads // 32});
    int32_t top = 0;
//@ end
    const int position = ${position};
    const int64_t row = (int64_t)blockIdx.x * ${c}, angles = (int64_t)position * ${turns};
    for (int i = threadIdx.x; i < ${pairs}; i += ${threads}) {
        const int j = i % ${lanes} * ${g.width};
        const int64_t at = row + i / ${lanes} * ${head_dim} + j;
        ${acc} cosine[${g.width}], sine[${g.width}], d1[${g.width}], d2[${g.width}];
        ${load("cosine", table, "angles + j", g)};
        ${load("sine", table, "angles + " .. half .. " + j", g)};
        ${load("d1", dy, "at", g)};
        ${load("d2", dy, "at + " .. half, g)};
        for (int k = 0; k < ${g.width}; k++) {
            const ${acc} first = d1[k] * cosine[k] + d2[k] * sine[k];
            d2[k] = d2[k] * cosine[k] - d1[k] * sine[k];
            d1[k] = first;
        }
        ${store(dx, "at", "d1", g)};
        ${store(dx, "at + " .. half, "d2", g)};
//@ if s then
        top = rt_fp8_sizes<${g.width}>(rt_fp8_sizes<${g.width}>(top, d1), d2);
//@ end
    }
//@ if turns < head_dim then
//@   local rest = width(head_dim - turns, dy, g.width)
//@   local parts = (head_dim - turns) // rest
    /* the rest of each head as it is */
    for (int i = threadIdx.x; i < ${(heads + kv_heads) * parts}; i += ${threads}) {
        const int64_t at = row + i / ${parts} * ${head_dim} + ${turns} + i % ${parts} * ${rest};
        if (dx != dy)
            rt_copy<${rest}>(dx + at, dy + at);
//@   if s then
        top = rt_fp8_sizes_at<${tag(dy)}, ${rest}>(top, dy + at);
//@   end
    }
//@ end
    /* v unchanged */
    for (int j = threadIdx.x * ${v_width}; j < ${c - turned}; j += ${threads * v_width}) {
        if (dx != dy)
            rt_copy<${v_width}>(dx + row + ${turned} + j, dy + row + ${turned} + j);
//@ if s then
        top = rt_fp8_sizes_at<${tag(dy)}, ${v_width}>(top, dy + row + ${turned} + j);
//@ end
    }
//@ if s then
    rt_fp8_largest<${tag(dx)}, ${threads}>(top, tops, largest + blockIdx.x);
//@ end
}

//@ if s then
${scale_kernel(fn, s, to, t)}
//@ end
//@ host
${kernel(fn, threads)}
//@ if s then
${kernel(fn .. "_scale", 1024)}
//@ end

/* dx[${t}, ${c}]: q and k of dy rotated back */
static void ${fn}(Rt *rt, const ${dy.type} *dy, const ${table.type} *table,
                  ${starts_param}${dx.type} *dx${scale_out})
{
//@ if s then
    int32_t *largest = (int32_t *)(void *)workspace;
//@ end
    rt_launch(rt, &${fn}_kernel, ${t}, 1,
              (void *[]){ &dy, &table, ${starts and "&starts, " or ""}&dx${s and ", &largest" or ""} });
//@ if s then
    rt_launch(rt, &${fn}_scale_kernel, 1, 1, (void *[]){ &largest, &s });
//@ end
}
