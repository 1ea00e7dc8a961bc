//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- swiglu: row blockIdx.x, a part of its columns.
//@ local f_ = acc == "float" and "f" or ""
//@ local two_c = 1.5957691216057308 -- 2 sqrt(2 / pi): see gelu
//@ local g = grid(f, gu)
RT_GLOBAL(${g.threads})
${fn}(const ${gu.type} *gu, ${y.type} *y)
{
    const int j = (blockIdx.y * ${g.threads} + threadIdx.x) * ${g.width};
    const int64_t at = (int64_t)blockIdx.x * ${2 * f} + j, to = (int64_t)blockIdx.x * ${f} + j;
//@ if not g.whole then
    if (j >= ${f})
        return;
//@ end
    ${acc} gate[${g.width}], up[${g.width}];
    ${load("gate", gu, "at", g)};
    ${load("up", gu, "at + " .. f, g)};
//@ if act == "gelu" then
    for (int k = 0; k < ${g.width}; k++) {
        const ${acc} v = gate[k], u = ${lit(two_c)} * (v + ${lit(0.044715)} * (v * v) * v);
        up[k] = v * rt_sigmoid${f_}(u) * up[k];
    }
//@ else
    for (int k = 0; k < ${g.width}; k++)
        up[k] = gate[k] * rt_sigmoid${f_}(gate[k]) * up[k];
//@ end
    ${store(y, "to", "up", g)};
}
//@ host
${kernel(fn, g.threads)}

/* y[${t}, ${f}] = silu(gate) up, of gu[${t}, gate ${f} | up ${f}] */
static void ${fn}(Rt *rt, const ${gu.type} *gu, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${t}, ${g.blocks}, (void *[]){ &gu, &y });
}
