//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- rope_bwd: dx may be dy. A row of the table serves all heads of a token.
//@ local turns = rotary > 0 and rotary or head_dim -- elements of a head
//@ local half, turned = turns // 2, (heads + kv_heads) * head_dim
//@ local position = starts and "(i % " .. seq .. " - starts[i])" or "i % " .. seq
//@ -- Heads of two: both results are adjacent, and GCC 12.0 to 12.2 would contract a product and a sum of them,
//@ -- whatever -ffp-contract says (its bug 107647). It leaves volatile values alone.
//@ if starts then
static void ${fn}(const ${dy.type} *dy, const ${table.type} *restrict table,
                  const int32_t *restrict starts, ${dx.type} *dx)
//@ else
static void ${fn}(const ${dy.type} *dy, const ${table.type} *restrict table,
                  ${dx.type} *dx)
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
                const ${acc} d1 = ${ld(dy, "at + j")};
                const ${acc} d2 = ${ld(dy, "at + " .. half .. " + j")};
//@ if half == 1 then
                volatile ${acc} first = d2 * sine, second = d1 * sine;
                ${st(dx, "at + j", "d1 * cosine + first")};
                ${st(dx, "at + 1 + j", "d2 * cosine - second")};
//@ else
                ${st(dx, "at + j", "d1 * cosine + d2 * sine")};
                ${st(dx, "at + " .. half .. " + j", "d2 * cosine - d1 * sine")};
//@ end
            }
//@ if turns < head_dim then
            if (dx != dy) { /* the rest of the head as it is */
                memcpy(dx + at + ${turns}, dy + at + ${turns},
                       ${head_dim - turns} * sizeof *dx);
            }
//@ end
        }
        if (dx != dy) { /* v unchanged */
            memcpy(dx + v, dy + v, ${c - turned} * sizeof *dx);
        }
    }
}
