//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- embed_bwd: a thread owns columns, so a row that several tokens share is summed in
//@ -- token order by one thread.
//@ local cols = 64
//@ local full, rest = d // cols, d % cols
//@ local blocks = full + (rest > 0 and 1 or 0)
//@ local narrow = dw.type ~= acc -- sums are wider than what is stored
//@ local lists = narrow and "first, next" or part and "tokens, part" or "tokens"
//@ if part then
//@ local rows = vocab // parts
/* The row of dw for an id, or -1: another part has it. */
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
//@ if narrow then
/* Columns [c, c + cols) of the rows of all tokens. next[i] is the next token with the id
 * of token i, so that a row's sum is complete before it is rounded. */
RT_ALWAYS void ${fn}_columns(const int cols, int64_t c, const int32_t *restrict first,
                             const int32_t *restrict next,
                             const ${dy.type} *restrict dy, ${dw.type} *restrict dw)
{
    for (int64_t row = 0; row < ${vocab}; row++) {
        ${acc} sum[${cols}];
        const int64_t to = row * ${d} + c;
        if (first[row] < 0)
            continue;
        for (int j = 0; j < cols; j++)
            sum[j] = ${ld(dw, "to + j")};
        for (int64_t i = first[row]; i >= 0; i = next[i]) {
            const int64_t at = i * ${d} + c;
#pragma omp simd
            for (int j = 0; j < cols; j++)
                sum[j] += ${ld(dy, "at + j")};
        }
        for (int j = 0; j < cols; j++)
            ${st(dw, "to + j", "sum[j]")};
    }
}
//@ else
RT_ALWAYS void ${fn}_columns(const int cols, int64_t c, const int32_t *restrict tokens,
//@ if part then
                             const int32_t *restrict part, const ${dy.type} *restrict dy,
                             ${dw.type} *restrict dw)
//@ else
                             const ${dy.type} *restrict dy, ${dw.type} *restrict dw)
//@ end
{
    for (int64_t i = 0; i < ${t}; i++) {
//@ if part then
        const int64_t row = ${fn}_row(tokens[i], part);
        const int64_t to = row * ${d} + c, at = i * ${d} + c;
        if (row < 0)
            continue;
//@ else
        const int64_t to = (int64_t)tokens[i] * ${d} + c, at = i * ${d} + c;
//@ end
#pragma omp simd
        for (int j = 0; j < cols; j++)
            ${st(dw, "to + j", ld(dw, "to + j") .. " + " .. ld(dy, "at + j"))};
    }
}
//@ end

static void ${fn}(const int32_t *restrict tokens, const ${dy.type} *restrict dy,
//@ if part then
                  const int32_t *restrict part,
//@ end
                  ${dw.type} *restrict dw, float beta${narrow and ", char *restrict workspace" or ""})
{
//@ if narrow then
    int32_t *first = (int32_t *)(void *)workspace, *next = first + ${vocab};
    memset(first, 0xff, ${vocab} * sizeof *first);
    for (int64_t i = ${t} - 1; i >= 0; i--) { /* backwards: chains are in token order */
//@ if part then
        const int64_t row = ${fn}_row(tokens[i], part);
        if (row < 0)
            continue;
        next[i] = first[row];
        first[row] = (int32_t)i;
//@ else
        next[i] = first[tokens[i]];
        first[tokens[i]] = (int32_t)i;
//@ end
    }
//@ end
    if (beta == 0) {
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < ${vocab}; i++)
            memset(dw + i * ${d}, 0, ${d} * sizeof *dw);
    }
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < ${blocks}; block++) {
        const int64_t c = block * ${cols};
//@ if full > 0 and rest > 0 then
        if (block < ${full})
            ${fn}_columns(${cols}, c, ${lists}, dy, dw);
        else
            ${fn}_columns(${rest}, c, ${lists}, dy, dw);
//@ else
        ${fn}_columns(${rest > 0 and rest or cols}, c, ${lists}, dy, dw);
//@ end
    }
}
