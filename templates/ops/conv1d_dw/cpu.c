//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- conv1d_dw: dw (+)= x^T dy.
//@ -- One product on tiles that are fixed here; see runtime/rt_gemm.h.
${gemm(fn .. "_gemm", "TN", k, n, t, x, dw)}
//@ prepare: rt_gemm_prepare(&${fn}_gemm);
/* dw[${k}, ${n}] = beta dw + x[${t}, ${k}]^T dy[${t}, ${n}] */
static void ${fn}(const ${x.type} *restrict x, const ${dy.type} *restrict dy,
                  ${dw.type} *restrict dw, float beta)
{
    rt_gemm(&${fn}_gemm, x, dy, dw, beta);
}
