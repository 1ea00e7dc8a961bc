//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- linear_dw: dw (+)= dy^T x.
//@ -- One product on tiles that are fixed here; see runtime/rt_gemm.h.
${gemm(fn .. "_gemm", "TN", n, k, t, dy, dw)}
//@ prepare: rt_gemm_prepare(&${fn}_gemm);
/* dw[${n}, ${k}] = beta dw + dy[${t}, ${n}]^T x[${t}, ${k}] */
static void ${fn}(const ${dy.type} *restrict dy, const ${x.type} *restrict x,
                  ${dw.type} *restrict dw, float beta)
{
    rt_gemm(&${fn}_gemm, dy, x, dw, beta);
}
