//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- scale: y may be x.
//@ local factor = rounded and rnd(y, lit(by)) or lit(by)
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
    for (int k = 0; k < ${g.width}; k++)
        v[k] *= ${factor};
    ${store(y, "at", "v", g)};
}
//@ host
${kernel(fn, g.threads)}

/* y[${t}, ${d}] = x times a constant */
static void ${fn}(Rt *rt, const ${x.type} *x, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${g.blocks}, 1, (void *[]){ &x, &y });
}
