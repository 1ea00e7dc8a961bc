//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- pad: rows of y begin and end with zeros.
//@ local rest = cols - first - c
static void ${fn}(const ${x.type} *restrict x, ${y.type} *restrict y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        ${y.type} *row = y + i * ${cols};
//@ if first > 0 then
        memset(row, 0, ${first} * sizeof *row);
//@ end
        memcpy(row + ${first}, x + i * ${c}, ${c} * sizeof *row);
//@ if rest > 0 then
        memset(row + ${first + c}, 0, ${rest} * sizeof *row);
//@ end
    }
}
