//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- gather_rows_bwd: a thread owns rows of dx; chains keep what is added to them in order.
//@ local row = seq > 0 and "i / " .. seq .. " * " .. seq .. " + index[i]" or "index[i]"
//@ local cols = 64
static void ${fn}(const int32_t *restrict index, const ${dy.type} *restrict dy,
                  ${dx.type} *restrict dx, char *restrict workspace)
{
    int32_t *first = (int32_t *)(void *)workspace, *next = first + ${rows};
    memset(first, 0xff, ${rows} * sizeof *first);
    for (int64_t i = ${n} - 1; i >= 0; i--) { /* backwards: chains are in order */
        const int64_t row = ${row};
        next[i] = first[row];
        first[row] = (int32_t)i;
    }
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < ${rows}; row++) {
        for (int64_t c = 0; c < ${d}; c += ${cols}) {
            const int64_t many = ${d} - c < ${cols} ? ${d} - c : ${cols}, to = row * ${d} + c;
            ${acc} sum[${cols}] = { 0 };
            for (int64_t i = first[row]; i >= 0; i = next[i]) {
                const int64_t at = i * ${d} + c;
#pragma omp simd
                for (int64_t j = 0; j < many; j++)
                    sum[j] += ${ld(dy, "at + j")};
            }
            for (int64_t j = 0; j < many; j++)
                ${st(dx, "to + j", "sum[j]")};
        }
    }
}
