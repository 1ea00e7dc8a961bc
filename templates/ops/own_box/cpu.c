//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- own_box
/* y[${t}, ${d}] = x */
static void ${fn}(const ${x.type} *restrict x, ${y.type} *restrict y)
{
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < ${t * d}; i++)
        y[i] = x[i];
}
