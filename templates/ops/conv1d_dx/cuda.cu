//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- conv1d_dx: dx = dy w^T: the library's product.
//@ host
${gemm(fn .. "_gemm", "NT", t, k, n, dy, dx)}
//@ prepare: rt_matmul_prepare(&${fn}_gemm);
/* dx[${t}, ${k}] = dy[${t}, ${n}] w[${k}, ${n}]^T */
static void ${fn}(Rt *rt, const ${dy.type} *dy, const ${w.type} *w, ${dx.type} *dx)
{
    rt_matmul(rt, &${fn}_gemm, dy, w, dx, 0.0f);
}
