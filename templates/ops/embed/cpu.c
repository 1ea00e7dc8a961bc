//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- embed: whole rows are copied; w and y have one dtype.
static void ${fn}(const int32_t *restrict tokens, const ${w.type} *restrict w,
                  ${y.type} *restrict y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++)
        memcpy(y + i * ${d}, w + (int64_t)tokens[i] * ${d}, ${d} * sizeof *y);
}
