//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- embed_bwd: a thread owns columns, so a row that several tokens share is summed in
//@ -- token order by one thread.
//@ local cols = 64
//@ local full, rest = d // cols, d % cols
//@ local blocks = full + (rest > 0 and 1 or 0)
RT_ALWAYS void ${fn}_columns(const int cols, int64_t c, const int32_t *restrict tokens,
                             const ${dy.type} *restrict dy, ${dw.type} *restrict dw)
{
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t to = (int64_t)tokens[i] * ${d} + c, at = i * ${d} + c;
#pragma omp simd
        for (int j = 0; j < cols; j++) {
            ${st(dw, "to + j", ld(dw, "to + j") .. " + " .. ld(dy, "at + j"))};
        }
    }
}

static void ${fn}(const int32_t *restrict tokens, const ${dy.type} *restrict dy,
                  ${dw.type} *restrict dw, float beta)
{
    if (beta == 0) {
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < ${vocab}; i++) {
            memset(dw + i * ${d}, 0, ${d} * sizeof *dw);
        }
    }
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < ${blocks}; block++) {
        const int64_t c = block * ${cols};
//@ if full > 0 and rest > 0 then
        if (block < ${full}) {
            ${fn}_columns(${cols}, c, tokens, dy, dw);
        } else {
            ${fn}_columns(${rest}, c, tokens, dy, dw);
        }
//@ else
        ${fn}_columns(${rest > 0 and rest or cols}, c, tokens, dy, dw);
//@ end
    }
}
