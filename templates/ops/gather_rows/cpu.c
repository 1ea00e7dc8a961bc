//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- gather_rows: whole rows are copied.
//@ local row = seq > 0 and "(i / " .. seq .. " * " .. seq .. " + index[i])" or "(int64_t)index[i]"
static void ${fn}(const ${x.type} *restrict x, const int32_t *restrict index,
                  ${y.type} *restrict y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${n}; i++)
        memcpy(y + i * ${d}, x + ${row} * ${d}, ${d} * sizeof *y);
}
