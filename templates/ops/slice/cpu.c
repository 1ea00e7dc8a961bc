//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- slice: rows of y are parts of rows of x.
static void ${fn}(const ${x.type} *restrict x, ${y.type} *restrict y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++)
        memcpy(y + i * ${cols}, x + i * ${c} + ${first}, ${cols} * sizeof *y);
}
