//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- conv1d_bias: y = x w + b. The product is rounded before the bias is added, in place.
//@ local g = grid(n, y)
RT_GLOBAL(${g.threads})
${fn}_bias(const ${b.type} *b, ${y.type} *y)
{
    const int j = (blockIdx.y * ${g.threads} + threadIdx.x) * ${g.width};
    const int64_t at = (int64_t)blockIdx.x * ${n} + j;
//@ if not g.whole then
    if (j >= ${n})
        return;
//@ end
    ${acc} u[${g.width}], v[${g.width}];
    ${load("u", y, "at", g)};
    ${load("v", b, "j", g)};
    for (int k = 0; k < ${g.width}; k++)
        u[k] += v[k];
    ${store(y, "at", "u", g)};
}
//@ host
${gemm(fn .. "_gemm", "NN", t, n, k, x, y)}
${kernel(fn .. "_bias", g.threads)}
//@ prepare: rt_matmul_prepare(&${fn}_gemm);

/* y[${t}, ${n}] = x[${t}, ${k}] w[${k}, ${n}], rounded, + b[${n}] */
static void ${fn}(Rt *rt, const ${x.type} *x, const ${w.type} *w, const ${b.type} *b,
                  ${y.type} *y)
{
    rt_matmul(rt, &${fn}_gemm, x, w, y, 0.0f);
    rt_launch(rt, &${fn}_bias_kernel, ${t}, ${g.blocks}, (void *[]){ &b, &y });
}
