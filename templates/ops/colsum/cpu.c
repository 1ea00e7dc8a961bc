//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- colsum: a thread owns 64 columns, rows in order, 64 at a time, so that a long sum
//@ -- in float loses no more than a short one.
//@ local cols, rows = 64, 64
//@ local full, rest = n // cols, n % cols
//@ local blocks = full + (rest > 0 and 1 or 0)
//@ local old = "(beta == 0 ? 0 : " .. ld(db, "c + j") .. ")"
RT_ALWAYS void ${fn}_columns(const int cols, int64_t c, const ${dy.type} *restrict dy,
                             ${db.type} *restrict db, float beta)
{
    ${acc} sum[${cols}] = {0};
    for (int64_t first = 0; first < ${t}; first += ${rows}) {
        const int64_t last = first + ${rows} < ${t} ? first + ${rows} : ${t};
        ${acc} part[${cols}] = {0};
        for (int64_t i = first; i < last; i++) {
            const int64_t at = i * ${n} + c;
#pragma omp simd
            for (int j = 0; j < cols; j++)
                part[j] += ${ld(dy, "at + j")};
        }
        for (int j = 0; j < cols; j++)
            sum[j] += part[j];
    }
    for (int j = 0; j < cols; j++)
        ${st(db, "c + j", old .. " + sum[j]")};
}

static void ${fn}(const ${dy.type} *restrict dy, ${db.type} *restrict db, float beta)
{
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < ${blocks}; block++) {
        const int64_t c = block * ${cols};
//@ if full > 0 and rest > 0 then
        if (block < ${full})
            ${fn}_columns(${cols}, c, dy, db, beta);
        else
            ${fn}_columns(${rest}, c, dy, db, beta);
//@ else
        ${fn}_columns(${rest > 0 and rest or cols}, c, dy, db, beta);
//@ end
    }
}
