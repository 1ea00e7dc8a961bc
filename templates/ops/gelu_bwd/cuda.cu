//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- gelu_bwd: dx may be dy. s = sigmoid(u), u = 2 c (x + a x^3): dx = dy (s + x s (1
//@ -- - s) u').
//@ local f = acc == "float" and "f" or ""
//@ local two_c = 1.5957691216057308 -- 2 sqrt(2 / pi)
//@ local g = grid(t * d, x)
RT_GLOBAL(${g.threads})
${fn}(const ${x.type} *x, const ${dy.type} *dy, ${dx.type} *dx)
{
    const int64_t at = ((int64_t)blockIdx.x * ${g.threads} + threadIdx.x) * ${g.width};
//@ if not g.whole then
    if (at >= ${t * d})
        return;
//@ end
    ${acc} v[${g.width}], d[${g.width}];
    ${load("v", x, "at", g)};
    ${load("d", dy, "at", g)};
    for (int k = 0; k < ${g.width}; k++) {
        const ${acc} square = v[k] * v[k];
        const ${acc} u = ${lit(two_c)} * (v[k] + ${lit(0.044715)} * square * v[k]);
        const ${acc} slope = ${lit(two_c)} * (1 + ${lit(3 * 0.044715)} * square);
        const ${acc} s = rt_sigmoid${f}(u);
        d[k] *= s + v[k] * s * (1 - s) * slope;
    }
    ${store(dx, "at", "d", g)};
}
//@ host
${kernel(fn, g.threads)}

/* dx[${t}, ${d}] = dy gelu'(x) */
static void ${fn}(Rt *rt, const ${x.type} *x, const ${dy.type} *dy, ${dx.type} *dx)
{
    rt_launch(rt, &${fn}_kernel, ${g.blocks}, 1, (void *[]){ &x, &dy, &dx });
}
