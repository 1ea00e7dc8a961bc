//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- gelu: (1 + tanh(u)) / 2 is sigmoid(2 u), which does not cancel where x is below 0.
//@ local f = acc == "float" and "f" or ""
//@ local two_c = 1.5957691216057308 -- 2 sqrt(2 / pi)
//@ local g = grid(t * d, x)
RT_GLOBAL(${g.threads})
${fn}(const ${x.type} *x, ${y.type} *y)
{
    const int64_t at = ((int64_t)blockIdx.x * ${g.threads} + threadIdx.x) * ${g.width};
//@ if not g.whole then
    if (at >= ${t * d})
        return;
//@ end
    ${acc} v[${g.width}];
    ${load("v", x, "at", g)};
    for (int k = 0; k < ${g.width}; k++) {
        const ${acc} u = ${lit(two_c)} * (v[k] + ${lit(0.044715)} * (v[k] * v[k]) * v[k]);
        v[k] *= rt_sigmoid${f}(u);
    }
    ${store(y, "at", "v", g)};
}
//@ host
${kernel(fn, g.threads)}

/* y[${t}, ${d}] = gelu(x) */
static void ${fn}(Rt *rt, const ${x.type} *x, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${g.blocks}, 1, (void *[]){ &x, &y });
}
