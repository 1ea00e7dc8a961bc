//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- add_pos_bwd: position after position, 64 columns at a time; sequences in order.
//@ local cols = 64
//@ local full, rest = d // cols, d % cols
//@ local old = "(beta == 0 ? 0 : " .. ld(dw, "at + j") .. ")"
/* dw[at ..] of one position; at: also where the first sequence has it in dy */
RT_ALWAYS void ${fn}_columns(const int cols, int64_t at, const ${dy.type} *restrict dy,
                             ${dw.type} *restrict dw, float beta)
{
    ${acc} sum[${cols}] = {0};
    for (int64_t i = at; i < ${t * d}; i += ${seq * d}) {
#pragma omp simd
        for (int j = 0; j < cols; j++) {
            sum[j] += ${ld(dy, "i + j")};
        }
    }
#pragma omp simd
    for (int j = 0; j < cols; j++) {
        ${st(dw, "at + j", old .. " + sum[j]")};
    }
}

static void ${fn}(const ${dy.type} *restrict dy, ${dw.type} *restrict dw, float beta)
{
#pragma omp parallel for schedule(static)
    for (int64_t position = 0; position < ${seq}; position++) {
//@ if full > 0 then
        for (int64_t c = 0; c < ${full * cols}; c += ${cols}) {
            ${fn}_columns(${cols}, position * ${d} + c, dy, dw, beta);
        }
//@ end
//@ if rest > 0 then
        ${fn}_columns(${rest}, position * ${d} + ${full * cols}, dy, dw, beta);
//@ end
    }
//@ if positions > seq then
    if (beta == 0) { /* positions that no token has */
        memset(dw + ${seq * d}, 0, ${(positions - seq) * d} * sizeof *dw);
    }
//@ end
}
