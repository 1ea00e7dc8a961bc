//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- swiglu_bwd: dgu may be gu. Row blockIdx.x, a part of its columns.
//@ local f_ = acc == "float" and "f" or ""
//@ local two_c = 1.5957691216057308 -- 2 sqrt(2 / pi): see gelu
//@ local g = grid(f, gu)
//@ local largest = s and ", int32_t *largest" or ""
//@ local inside = s and not g.whole and "if (j < " .. f .. ")\n        " or "" -- all are in the largest
//@ local zero = s and not g.whole and " = {}" or ""
//@ local scale_out = s and ", " .. s.type .. " *s, char *workspace" or ""
//@ if s then
#include "rt_fp8_device.h"
//@ end
RT_GLOBAL(${g.threads})
${fn}(const ${gu.type} *gu, const ${dy.type} *dy, ${dgu.type} *dgu${largest})
{
    const int j = (blockIdx.y * ${g.threads} + threadIdx.x) * ${g.width};
    const int64_t at = (int64_t)blockIdx.x * ${2 * f} + j, from = (int64_t)blockIdx.x * ${f} + j;
//@ if s then
    RT_SHARED(int32_t, tops, ${g.threads // 32});
//@ elseif not g.whole then
    if (j >= ${f})
        return;
//@ end
    ${acc} gate[${g.width}]${zero}, up[${g.width}]${zero}, d[${g.width}]${zero};
    ${inside}${load("gate", gu, "at", g)};
    ${inside}${load("up", gu, "at + " .. f, g)};
    ${inside}${load("d", dy, "from", g)};
    for (int k = 0; k < ${g.width}; k++) {
//@ if act == "gelu" then
        const ${acc} v = gate[k], square = v * v;
        const ${acc} u = ${lit(two_c)} * (v + ${lit(0.044715)} * square * v);
        const ${acc} slope = ${lit(two_c)} * (1 + ${lit(3 * 0.044715)} * square);
        const ${acc} s = rt_sigmoid${f_}(u), of_up = d[k] * (v * s);
        gate[k] = d[k] * up[k] * (s + v * s * (1 - s) * slope);
//@ else
        const ${acc} s = rt_sigmoid${f_}(gate[k]), of_up = d[k] * (gate[k] * s);
        gate[k] = d[k] * up[k] * (s * (1 + gate[k] * (1 - s)));
//@ end
        up[k] = of_up;
    }
    ${inside}${store(dgu, "at", "gate", g)};
    ${inside}${store(dgu, "at + " .. f, "up", g)};
//@ if s then
    const int32_t top = rt_fp8_sizes<${g.width}>(rt_fp8_sizes<${g.width}>(0, gate), up);
    rt_fp8_largest<${tag(dgu)}, ${g.threads}>(top, tops, largest + blockIdx.x * ${g.blocks} + blockIdx.y);
//@ end
}

//@ if s then
${scale_kernel(fn, s, to, t * g.blocks)}
//@ end
//@ host
${kernel(fn, g.threads)}
//@ if s then
${kernel(fn .. "_scale", 1024)}
//@ end

/* dgu[${t}, ${2 * f}], the gradient of gu, from dy[${t}, ${f}] */
static void ${fn}(Rt *rt, const ${gu.type} *gu, const ${dy.type} *dy, ${dgu.type} *dgu${scale_out})
{
//@ if s then
    int32_t *largest = (int32_t *)(void *)workspace;
//@ end
    rt_launch(rt, &${fn}_kernel, ${t}, ${g.blocks},
              (void *[]){ &gu, &dy, &dgu${s and ", &largest" or ""} });
//@ if s then
    rt_launch(rt, &${fn}_scale_kernel, 1, 1, (void *[]){ &largest, &s });
//@ end
}
