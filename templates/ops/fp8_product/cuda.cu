//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- fp8_product: the library's product, which reads the scales from device memory.
//@ host
${gemm(fn .. "_gemm", "NT", m, n, k, a, y, { b = b, fast = fast })}
//@ prepare: rt_matmul_prepare(&${fn}_gemm);
/* y[${m}, ${n}] = a[${m}, ${k}] b[${n}, ${k}]^T sa sb, of ${a.dtype} and ${b.dtype} */
static void ${fn}(Rt *rt, const uint8_t *a, const float *sa, const uint8_t *b, const float *sb,
                  ${y.type} *y)
{
    rt_matmul_fp8(rt, &${fn}_gemm, a, sa, b, sb, y, 0.0f);
}
