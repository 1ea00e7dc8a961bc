//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- fp8_product_dw: the library's product, which reads the scales from device memory.
//@ host
${gemm(fn .. "_gemm", "NT", m, n, k, a, dw, { b = b })}
//@ prepare: rt_matmul_prepare(&${fn}_gemm);
/* dw[${m}, ${n}] = a[${m}, ${k}] b[${n}, ${k}]^T sa sb, of ${a.dtype} and ${b.dtype} */
static void ${fn}(Rt *rt, const uint8_t *a, const float *sa, const uint8_t *b, const float *sb,
                  ${dw.type} *dw, float beta)
{
    rt_matmul_fp8(rt, &${fn}_gemm, a, sa, b, sb, dw, beta);
}
