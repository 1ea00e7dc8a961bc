//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- add_pos_bwd: position after position, 64 columns at a time; sequences in order.
//@ -- With documents: columns among threads, tokens in order.
//@ local cols = 64
//@ local full, rest = d // cols, d % cols
//@ local old = "(beta == 0 ? 0 : " .. ld(dw, "at + j") .. ")"
//@ if starts then
/* Columns [c, c + cols) of all positions. A thread owns columns, so if several documents
 * have a position, one thread adds it up in token order. */
RT_ALWAYS void ${fn}_columns(const int cols, int64_t c, const ${dy.type} *restrict dy,
                             const int32_t *restrict starts, ${dw.type} *restrict dw,
                             float beta, ${acc} *restrict sum)
{
    for (int64_t at = c; at < ${seq * d}; at += ${d}) {
#pragma omp simd
        for (int j = 0; j < cols; j++)
            sum[at + j] = 0;
    }
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${d} + c, to = (i % ${seq} - starts[i]) * ${d} + c;
#pragma omp simd
        for (int j = 0; j < cols; j++)
            sum[to + j] += ${ld(dy, "at + j")};
    }
    for (int64_t at = c; at < ${seq * d}; at += ${d}) {
#pragma omp simd
        for (int j = 0; j < cols; j++)
            ${st(dw, "at + j", old .. " + sum[at + j]")};
    }
}

static void ${fn}(const ${dy.type} *restrict dy, const int32_t *restrict starts,
                  ${dw.type} *restrict dw, float beta, char *restrict workspace)
{
    ${acc} *sum = (${acc} *)(void *)workspace;
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < ${d}; c += ${cols}) {
//@ if full > 0 and rest > 0 then
        if (c < ${full * cols})
            ${fn}_columns(${cols}, c, dy, starts, dw, beta, sum);
        else
            ${fn}_columns(${rest}, c, dy, starts, dw, beta, sum);
//@ else
        ${fn}_columns(${rest > 0 and rest or cols}, c, dy, starts, dw, beta, sum);
//@ end
    }
//@ else
/* dw[at ..] of one position; at is also its offset in dy for the first sequence. */
RT_ALWAYS void ${fn}_columns(const int cols, int64_t at, const ${dy.type} *restrict dy,
                             ${dw.type} *restrict dw, float beta)
{
    ${acc} sum[${cols}] = {0};
    for (int64_t i = at; i < ${t * d}; i += ${seq * d}) {
#pragma omp simd
        for (int j = 0; j < cols; j++)
            sum[j] += ${ld(dy, "i + j")};
    }
#pragma omp simd
    for (int j = 0; j < cols; j++)
        ${st(dw, "at + j", old .. " + sum[j]")};
}

static void ${fn}(const ${dy.type} *restrict dy, ${dw.type} *restrict dw, float beta)
{
#pragma omp parallel for schedule(static)
    for (int64_t position = 0; position < ${seq}; position++) {
//@ if full > 0 then
        for (int64_t c = 0; c < ${full * cols}; c += ${cols})
            ${fn}_columns(${cols}, position * ${d} + c, dy, dw, beta);
//@ end
//@ if rest > 0 then
        ${fn}_columns(${rest}, position * ${d} + ${full * cols}, dy, dw, beta);
//@ end
    }
//@ end
//@ if positions > seq then
    if (beta == 0) { /* positions without a token */
        memset(dw + ${seq * d}, 0, ${(positions - seq) * d} * sizeof *dw);
    }
//@ end
}
