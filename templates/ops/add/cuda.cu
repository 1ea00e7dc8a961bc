//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- add: y may be a.
//@ local g = grid(t * d, a)
RT_GLOBAL(${g.threads})
${fn}(const ${a.type} *a, const ${b.type} *b, ${y.type} *y)
{
    const int64_t at = ((int64_t)blockIdx.x * ${g.threads} + threadIdx.x) * ${g.width};
//@ if not g.whole then
    if (at >= ${t * d})
        return;
//@ end
    ${acc} u[${g.width}], v[${g.width}];
    ${load("u", a, "at", g)};
    ${load("v", b, "at", g)};
    for (int k = 0; k < ${g.width}; k++)
        u[k] += v[k];
    ${store(y, "at", "u", g)};
}
//@ host
${kernel(fn, g.threads)}

/* y[${t}, ${d}] = a + b */
static void ${fn}(Rt *rt, const ${a.type} *a, const ${b.type} *b, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${g.blocks}, 1, (void *[]){ &a, &b, &y });
}
