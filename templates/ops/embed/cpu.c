//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- embed: whole rows are copied; w and y have one dtype.
//@ if part then
//@ local rows = v // parts
/* The row of w for an id, or -1: another part has it. */
RT_ALWAYS int64_t ${fn}_row(int32_t id, const int32_t *part)
{
//@ if parts == 1 then
    const int64_t row = id - (int64_t)*part * ${rows};
    return row >= 0 && row < ${rows} ? row : -1;
//@ else
    for (int k = 0; k < ${parts}; k++) {
        const int64_t row = id - (int64_t)part[k] * ${rows};
        if (row >= 0 && row < ${rows})
            return k * ${rows} + row;
    }
    return -1;
//@ end
}

//@ end
static void ${fn}(const int32_t *restrict tokens, const ${w.type} *restrict w,
//@ if part then
                  const int32_t *restrict part, ${y.type} *restrict y)
//@ else
                  ${y.type} *restrict y)
//@ end
{
#pragma omp parallel for schedule(static)
//@ if part then
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t row = ${fn}_row(tokens[i], part), at = i * ${d};
        if (row >= 0) {
            memcpy(y + at, w + row * ${d}, ${d} * sizeof *y);
            continue;
        }
        for (int64_t j = 0; j < ${d}; j++) /* x + -0.0 is x, also if x is -0.0 */
            ${st(y, "at + j", acc == "float" and "-0.0f" or "-0.0")};
    }
//@ else
    for (int64_t i = 0; i < ${t}; i++)
        memcpy(y + i * ${d}, w + (int64_t)tokens[i] * ${d}, ${d} * sizeof *y);
//@ end
}
