//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- repeat_heads_bwd: q heads of a row lie together; the copies of a head lie behind each other.
//@ local hd, times = c // (heads + 2 * copies), copies // kv_heads
//@ local q, wide = heads * hd, (heads + 2 * kv_heads) * hd
static void ${fn}(const ${dy.type} *restrict dy, ${dqkv.type} *restrict dqkv)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        memcpy(dqkv + i * ${wide}, dy + i * ${c}, ${q} * sizeof *dqkv);
        for (int64_t h = 0; h < ${2 * kv_heads}; h++) {
            const int64_t from = i * ${c} + ${q} + h * ${times * hd};
            const int64_t to = i * ${wide} + ${q} + h * ${hd};
#pragma omp simd
            for (int64_t j = 0; j < ${hd}; j++) {
                ${acc} sum = ${ld(dy, "from + j")};
//@ for k = 1, times - 1 do
                sum += ${ld(dy, "from + " .. k * hd .. " + j")};
//@ end
                ${st(dqkv, "to + j", "sum")};
            }
        }
    }
}
