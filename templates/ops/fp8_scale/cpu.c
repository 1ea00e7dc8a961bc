//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- fp8_scale: the largest bits of all, as an integer: threads may take them in any order.
#include "rt_fp8.h"
/* s = the scale in ${to} of x[${t}, ${k}] */
static void ${fn}(const ${x.type} *restrict x, ${acc} *restrict s)
{
    int32_t largest = 0;
#pragma omp parallel for simd schedule(static) reduction(max : largest)
    for (int64_t i = 0; i < ${t * k}; i++) {
        const int32_t size = rt_fp8_size((float)${ld(x, "i")});
        largest = size > largest ? size : largest;
    }
    *s = rt_fp8_scale(largest, RT_${string.upper(to)}_TOP);
}
