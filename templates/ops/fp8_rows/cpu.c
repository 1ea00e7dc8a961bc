//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- fp8_rows
#include "rt_fp8.h"
/* q[${t}, ${k}] = x / s in ${to} */
static void ${fn}(const ${x.type} *restrict x, const ${acc} *restrict s,
                  uint8_t *restrict q)
{
    const float inverse = (float)(1 / *s);
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < ${t * k}; i++)
        q[i] = rt_${to}_from_f32((float)${ld(x, "i")} * inverse);
}
