//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- swiglu_bwd: dgu may be gu. Row blockIdx.x, a part of its columns.
//@ local f_ = acc == "float" and "f" or ""
//@ local two_c = 1.5957691216057308 -- 2 sqrt(2 / pi): see gelu
//@ local g = grid(f, gu)
RT_GLOBAL(${g.threads})
${fn}(const ${gu.type} *gu, const ${dy.type} *dy, ${dgu.type} *dgu)
{
    const int j = (blockIdx.y * ${g.threads} + threadIdx.x) * ${g.width};
    const int64_t at = (int64_t)blockIdx.x * ${2 * f} + j, from = (int64_t)blockIdx.x * ${f} + j;
//@ if not g.whole then
    if (j >= ${f})
        return;
//@ end
    ${acc} gate[${g.width}], up[${g.width}], d[${g.width}];
    ${load("gate", gu, "at", g)};
    ${load("up", gu, "at + " .. f, g)};
    ${load("d", dy, "from", g)};
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
    ${store(dgu, "at", "gate", g)};
    ${store(dgu, "at + " .. f, "up", g)};
}
//@ host
${kernel(fn, g.threads)}

/* dgu[${t}, ${2 * f}], the gradient of gu, from dy[${t}, ${f}] */
static void ${fn}(Rt *rt, const ${gu.type} *gu, const ${dy.type} *dy, ${dgu.type} *dgu)
{
    rt_launch(rt, &${fn}_kernel, ${t}, ${g.blocks}, (void *[]){ &gu, &dy, &dgu });
}
