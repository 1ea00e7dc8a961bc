//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- repeat_heads: a head is copied whole; q heads of a row lie together.
//@ local hd, times = c // (heads + 2 * kv_heads), copies // kv_heads
//@ local q, wide = heads * hd, (heads + 2 * copies) * hd
static void ${fn}(const ${qkv.type} *restrict qkv, ${y.type} *restrict y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const ${qkv.type} *from = qkv + i * ${c};
        ${y.type} *to = y + i * ${wide};
        memcpy(to, from, ${q} * sizeof *y);
        for (int64_t h = 0; h < ${2 * copies}; h++)
            memcpy(to + ${q} + h * ${hd}, from + ${q} + h / ${times} * ${hd}, ${hd} * sizeof *y);
    }
}
