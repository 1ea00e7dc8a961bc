//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- linear_dx: dx = dy w.
//@ -- One product on tiles that are fixed here; see runtime/rt_gemm.h.
${gemm(fn .. "_gemm", "NN", t, k, n, dy, dx)}
//@ prepare: rt_gemm_prepare(&${fn}_gemm);
/* dx[${t}, ${k}] = dy[${t}, ${n}] w[${n}, ${k}] */
static void ${fn}(const ${dy.type} *restrict dy, const ${w.type} *restrict w,
                  ${dx.type} *restrict dx)
{
    rt_gemm(&${fn}_gemm, dy, w, dx, 0.0f);
}
