//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- rope: y may be qkv. A row of the table serves all heads of a token.
//@ local turns = rotary > 0 and rotary or head_dim -- elements of a head
//@ local half, turned = turns // 2, (heads + kv_heads) * head_dim
//@ local position = starts and "(i % " .. seq .. " - starts[i])" or "i % " .. seq
//@ -- Heads of two: both results are adjacent, and GCC 12.0 to 12.2 would contract a product and a sum of them,
//@ -- whatever -ffp-contract says (its bug 107647). It leaves volatile values alone.
//@ if starts then
static void ${fn}(const ${qkv.type} *qkv, const ${table.type} *restrict table,
                  const int32_t *restrict starts, ${y.type} *y)
//@ else
static void ${fn}(const ${qkv.type} *qkv, const ${table.type} *restrict table,
                  ${y.type} *y)
//@ end
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t row = ${position} * ${turns}, v = i * ${c} + ${turned};
        for (int64_t at = i * ${c}; at < v; at += ${head_dim}) {
#pragma omp simd
            for (int64_t j = 0; j < ${half}; j++) {
                const ${acc} cosine = ${ld(table, "row + j")};
                const ${acc} sine = ${ld(table, "row + " .. half .. " + j")};
                const ${acc} x1 = ${ld(qkv, "at + j")};
                const ${acc} x2 = ${ld(qkv, "at + " .. half .. " + j")};
//@ if half == 1 then
                volatile ${acc} first = x2 * sine, second = x1 * sine;
                ${st(y, "at + j", "x1 * cosine - first")};
                ${st(y, "at + 1 + j", "x2 * cosine + second")};
//@ else
                ${st(y, "at + j", "x1 * cosine - x2 * sine")};
                ${st(y, "at + " .. half .. " + j", "x2 * cosine + x1 * sine")};
//@ end
            }
//@ if turns < head_dim then
            if (y != qkv) { /* the rest of the head as it is */
                memcpy(y + at + ${turns}, qkv + at + ${turns},
                       ${head_dim - turns} * sizeof *y);
            }
//@ end
        }
        if (y != qkv) { /* v unchanged */
            memcpy(y + v, qkv + v, ${c - turned} * sizeof *y);
        }
    }
}
