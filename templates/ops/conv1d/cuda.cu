//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- conv1d: y = x w, w with one row for each input feature: the library's product.
//@ host
${gemm(fn .. "_gemm", "NN", t, n, k, x, y)}
//@ prepare: rt_matmul_prepare(&${fn}_gemm);
/* y[${t}, ${n}] = x[${t}, ${k}] w[${k}, ${n}] */
static void ${fn}(Rt *rt, const ${x.type} *x, const ${w.type} *w, ${y.type} *y)
{
    rt_matmul(rt, &${fn}_gemm, x, w, y, 0.0f);
}
