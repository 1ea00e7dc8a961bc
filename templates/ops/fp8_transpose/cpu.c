//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- fp8_transpose: squares of 64 x 64 elements, turned in a buffer.
//@ local squares = (k + 63) // 64
/* y[${k}, ${t}] = x[${t}, ${k}]^T */
static void ${fn}(const uint8_t *restrict x, uint8_t *restrict y)
{
#pragma omp parallel for schedule(static)
    for (int64_t square = 0; square < ${(t + 63) // 64 * squares}; square++) {
        const int64_t row = square / ${squares} * 64, column = square % ${squares} * 64;
        const int64_t rows = ${t} - row < 64 ? ${t} - row : 64;
        const int64_t columns = ${k} - column < 64 ? ${k} - column : 64;
        uint8_t part[64][64];
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++)
                part[i][j] = x[(row + i) * ${k} + column + j];
        for (int64_t j = 0; j < columns; j++) {
            uint8_t *to = y + (column + j) * ${t} + row;
            for (int64_t i = 0; i < rows; i++)
                to[i] = part[i][j];
        }
    }
}
