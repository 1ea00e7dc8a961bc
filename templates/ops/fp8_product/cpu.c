//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- fp8_product: the operands become numbers of the sum's type, then multiply as others do. No
//@ -- processor of these multiplies fp8; the values are exact.
#include "rt_fp8.h"
//@ local word = { dtype = acc == "double" and "f64" or "f32" }
${gemm(fn .. "_gemm", "NT", m, n, k, word, y)}
//@ prepare: rt_gemm_prepare(&${fn}_gemm);
//@ for _, x in ipairs { a, b } do
RT_ALWAYS void ${fn}_${x.name}(const uint8_t *restrict x, ${acc} scale, ${acc} *restrict y)
{
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < ${x.elems}; i++)
        y[i] = (${acc})rt_f32_from_${x.dtype}(x[i]) * scale;
}

//@ end
/* y[${m}, ${n}] = a[${m}, ${k}] b[${n}, ${k}]^T sa sb, of ${a.dtype} and ${b.dtype}; workspace:
 * both as ${acc} */
static void ${fn}(const uint8_t *restrict a, const ${acc} *restrict sa,
                  const uint8_t *restrict b, const ${acc} *restrict sb,
                  ${y.type} *restrict y, char *restrict workspace)
{
    ${acc} *of_a = (${acc} *)(void *)workspace, *of_b = of_a + ${m * k};
    ${fn}_a(a, *sa, of_a);
    ${fn}_b(b, *sb, of_b);
    rt_gemm(&${fn}_gemm, of_a, of_b, y, 0.0f);
}
