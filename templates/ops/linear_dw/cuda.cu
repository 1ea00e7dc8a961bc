//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- linear_dw: dw (+)= dy^T x: the library's product.
//@ host
${gemm(fn .. "_gemm", "TN", n, k, t, dy, dw)}
//@ prepare: rt_matmul_prepare(&${fn}_gemm);
/* dw[${n}, ${k}] = beta dw + dy[${t}, ${n}]^T x[${t}, ${k}] */
static void ${fn}(Rt *rt, const ${dy.type} *dy, const ${x.type} *x, ${dw.type} *dw, float beta)
{
    rt_matmul(rt, &${fn}_gemm, dy, x, dw, beta);
}
