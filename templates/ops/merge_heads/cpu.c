//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- merge_heads: a head of a token is copied whole.
//@ local t, c = r // heads, heads * hd
static void ${fn}(const ${x.type} *restrict x, ${y.type} *restrict y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t first = i / ${seq} * ${heads * seq} + i % ${seq};
        for (int64_t h = 0; h < ${heads}; h++)
            memcpy(y + i * ${c} + h * ${hd}, x + (first + h * ${seq}) * ${hd}, ${hd} * sizeof *y);
    }
}
