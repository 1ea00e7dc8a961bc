//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- conv1d_dw: dw (+)= x^T dy: the library's product.
//@ host
${gemm(fn .. "_gemm", "TN", k, n, t, x, dw)}
//@ prepare: rt_matmul_prepare(&${fn}_gemm);
/* dw[${k}, ${n}] = beta dw + x[${t}, ${k}]^T dy[${t}, ${n}] */
static void ${fn}(Rt *rt, const ${x.type} *x, const ${dy.type} *dy, ${dw.type} *dw, float beta)
{
    rt_matmul(rt, &${fn}_gemm, x, dy, dw, beta);
}
