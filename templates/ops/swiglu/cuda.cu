//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- swiglu: row blockIdx.x, a part of its columns.
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
${fn}(const ${gu.type} *gu, ${y.type} *y${largest})
{
    const int j = (blockIdx.y * ${g.threads} + threadIdx.x) * ${g.width};
    const int64_t at = (int64_t)blockIdx.x * ${2 * f} + j, into = (int64_t)blockIdx.x * ${f} + j;
//@ if s then
    RT_SHARED(int32_t, tops, ${g.threads // 32});
//@ elseif not g.whole then
    if (j >= ${f})
        return;
//@ end
    ${acc} gate[${g.width}]${zero}, up[${g.width}]${zero};
    ${inside}${load("gate", gu, "at", g)};
    ${inside}${load("up", gu, "at + " .. f, g)};
//@ if act == "gelu" then
    for (int k = 0; k < ${g.width}; k++) {
        const ${acc} v = gate[k], u = ${lit(two_c)} * (v + ${lit(0.044715)} * (v * v) * v);
        up[k] = v * rt_sigmoid${f_}(u) * up[k];
    }
//@ else
    for (int k = 0; k < ${g.width}; k++)
        up[k] = gate[k] * rt_sigmoid${f_}(gate[k]) * up[k];
//@ end
    ${inside}${store(y, "into", "up", g)};
//@ if s then
    rt_fp8_largest<${tag(y)}, ${g.threads}>(rt_fp8_sizes<${g.width}>(0, up), tops,
                                            largest + blockIdx.x * ${g.blocks} + blockIdx.y);
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

/* y[${t}, ${f}] = silu(gate) up, of gu[${t}, gate ${f} | up ${f}] */
static void ${fn}(Rt *rt, const ${gu.type} *gu, ${y.type} *y${scale_out})
{
//@ if s then
    int32_t *largest = (int32_t *)(void *)workspace;
//@ end
    rt_launch(rt, &${fn}_kernel, ${t}, ${g.blocks},
              (void *[]){ &gu, &y${s and ", &largest" or ""} });
//@ if s then
    rt_launch(rt, &${fn}_scale_kernel, 1, 1, (void *[]){ &largest, &s });
//@ end
}
