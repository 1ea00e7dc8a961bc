//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- linear: y = x w^T, w with one row for each output feature.
//@ -- One product on tiles that are fixed here; see runtime/rt_gemm.h.
${gemm(fn .. "_gemm", "NT", t, n, k, x, y)}
//@ prepare: rt_gemm_prepare(&${fn}_gemm);
/* y[${t}, ${n}] = x[${t}, ${k}] w[${n}, ${k}]^T */
static void ${fn}(const ${x.type} *restrict x, const ${w.type} *restrict w,
                  ${y.type} *restrict y)
{
    rt_gemm(&${fn}_gemm, x, w, y, 0.0f);
}
