//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- conv1d_bias: y = x w + b, the bias added to each tile while it is warm.
//@ -- One product on tiles that are fixed here; see runtime/rt_gemm.h.
${gemm(fn .. "_gemm", "NN", t, n, k, x, y)}
//@ prepare: rt_gemm_prepare(&${fn}_gemm);
/* y[${t}, ${n}] = x[${t}, ${k}] w[${k}, ${n}], rounded, + b[${n}] */
static void ${fn}(const ${x.type} *restrict x, const ${w.type} *restrict w,
                  const ${b.type} *restrict b, ${y.type} *restrict y)
{
    rt_gemm_bias(&${fn}_gemm, x, w, b, y);
}
