//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- linear: y = x w^T, w with one row for each output feature: the library's product.
//@ host
${gemm(fn .. "_gemm", "NT", t, n, k, x, y)}
//@ prepare: rt_matmul_prepare(&${fn}_gemm);
/* y[${t}, ${n}] = x[${t}, ${k}] w[${n}, ${k}]^T */
static void ${fn}(Rt *rt, const ${x.type} *x, const ${w.type} *w, ${y.type} *y)
{
    rt_matmul(rt, &${fn}_gemm, x, w, y, 0.0f);
}
