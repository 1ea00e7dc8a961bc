//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- conv1d: y = x w, w with one row for each input feature.
//@ -- One product on tiles that are fixed here; see runtime/rt_gemm.h.
${gemm(fn .. "_gemm", "NN", t, n, k, x, y)}
//@ prepare: rt_gemm_prepare(&${fn}_gemm);
/* y[${t}, ${n}] = x[${t}, ${k}] w[${k}, ${n}] */
static void ${fn}(const ${x.type} *restrict x, const ${w.type} *restrict w,
                  ${y.type} *restrict y)
{
    rt_gemm(&${fn}_gemm, x, w, y, 0.0f);
}
