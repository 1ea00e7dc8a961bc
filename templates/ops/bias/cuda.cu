//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- bias: y may be x. Row blockIdx.x, a part of its columns.
//@ local g = grid(n, x)
RT_GLOBAL(${g.threads})
${fn}(const ${x.type} *x, const ${b.type} *b, ${y.type} *y)
{
    const int j = (blockIdx.y * ${g.threads} + threadIdx.x) * ${g.width};
    const int64_t at = (int64_t)blockIdx.x * ${n} + j;
//@ if not g.whole then
    if (j >= ${n})
        return;
//@ end
    ${acc} u[${g.width}], v[${g.width}];
    ${load("u", x, "at", g)};
    ${load("v", b, "j", g)};
    for (int k = 0; k < ${g.width}; k++)
        u[k] += v[k];
    ${store(y, "at", "u", g)};
}
//@ host
${kernel(fn, g.threads)}

/* y[${t}, ${n}] = x + b[${n}] */
static void ${fn}(Rt *rt, const ${x.type} *x, const ${b.type} *b, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${t}, ${g.blocks}, (void *[]){ &x, &b, &y });
}
