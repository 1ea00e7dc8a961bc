//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- fp8_columns: squares of 64 x 64 elements, turned in a buffer.
//@ local squares = (k + 63) // 64
#include "rt_fp8.h"
/* q[${k}, ${t}] = (x[${t}, ${k}] / s)^T in ${to} */
static void ${fn}(const ${x.type} *restrict x, const ${acc} *restrict s,
                  uint8_t *restrict q)
{
    const float inverse = (float)(1 / *s);
#pragma omp parallel for schedule(static)
    for (int64_t square = 0; square < ${(t + 63) // 64 * squares}; square++) {
        const int64_t row = square / ${squares} * 64, column = square % ${squares} * 64;
        const int64_t rows = ${t} - row < 64 ? ${t} - row : 64;
        const int64_t columns = ${k} - column < 64 ? ${k} - column : 64;
        uint8_t part[64][64];
        for (int64_t i = 0; i < rows; i++) {
            const ${x.type} *from = x + (row + i) * ${k} + column;
#pragma omp simd
            for (int64_t j = 0; j < columns; j++)
                part[i][j] = rt_${to}_from_f32((float)${ld({ name = "from", type = x.type, dtype = x.dtype }, "j")} * inverse);
        }
        for (int64_t j = 0; j < columns; j++) {
            uint8_t *to = q + (column + j) * ${t} + row;
            for (int64_t i = 0; i < rows; i++)
                to[i] = part[i][j];
        }
    }
}
