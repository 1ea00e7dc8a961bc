//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- layernorm_bwd: dx row by row; then the sums over rows: a thread owns 64 columns,
//@ -- rows in order, 64 at a time, so that a long sum in float loses no more than a
//@ -- short one.
//@ local cols, rows = 64, 64
//@ local full, rest = d // cols, d % cols
//@ local blocks = full + (rest > 0 and 1 or 0)
//@ local xj, dyj = ld(x, "at + j"), ld(dy, "at + j")
//@ local h = "(" .. xj .. " - mean[i]) * rstd[i]"
//@ local e = dyj .. " * " .. ld(w, "j")
//@ local dxj = "rstd[i] * (" .. e .. " - mean_e - (" .. h .. ") * mean_eh)"
//@ local grads = dw and (",\n%18s%s *restrict dw, %s *restrict db, float beta"):format(
//@     "", dw.type, db.type) or ""
//@ local function plus(y, value) -- what beta asks for
//@     return st(y, "c + j", "(beta == 0 ? 0 : " .. ld(y, "c + j") .. ") + " .. value)
//@ end
//@ if dw then
RT_ALWAYS void ${fn}_columns(const int cols, int64_t c, const ${x.type} *restrict x,
                             const ${mean.type} *restrict mean,
                             const ${rstd.type} *restrict rstd,
                             const ${dy.type} *restrict dy, ${dw.type} *restrict dw,
                             ${db.type} *restrict db, float beta)
{
    ${acc} sum_w[${cols}] = {0}, sum_b[${cols}] = {0};
    for (int64_t first = 0; first < ${t}; first += ${rows}) {
        const int64_t last = first + ${rows} < ${t} ? first + ${rows} : ${t};
        ${acc} part_w[${cols}] = {0}, part_b[${cols}] = {0};
        for (int64_t i = first; i < last; i++) {
            const int64_t at = i * ${d} + c;
#pragma omp simd
            for (int j = 0; j < cols; j++) {
                part_w[j] += ${dyj} * (${h});
                part_b[j] += ${dyj};
            }
        }
        for (int j = 0; j < cols; j++) {
            sum_w[j] += part_w[j];
            sum_b[j] += part_b[j];
        }
    }
    for (int j = 0; j < cols; j++) {
        ${plus(dw, "sum_w[j]")};
        ${plus(db, "sum_b[j]")};
    }
}

//@ end
static void ${fn}(const ${x.type} *restrict x, const ${w.type} *restrict w,
                  const ${mean.type} *restrict mean, const ${rstd.type} *restrict rstd,
                  const ${dy.type} *restrict dy, ${dx.type} *restrict dx${grads})
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${d};
        const ${acc} mean_e = rt_row_dot_${x.dtype}(dy + at, w, ${d}) / ${d};
        const ${acc} sum_eh =
            rt_row_dot_centred_${x.dtype}(dy + at, w, x + at, mean[i], ${d});
        const ${acc} mean_eh = sum_eh * rstd[i] / ${d};
#pragma omp simd
        for (int64_t j = 0; j < ${d}; j++)
            ${st(dx, "at + j", dxj)};
    }
//@ if dw then
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < ${blocks}; block++) {
        const int64_t c = block * ${cols};
//@ if full > 0 and rest > 0 then
        if (block < ${full})
            ${fn}_columns(${cols}, c, x, mean, rstd, dy, dw, db, beta);
        else
            ${fn}_columns(${rest}, c, x, mean, rstd, dy, dw, db, beta);
//@ else
        ${fn}_columns(${rest > 0 and rest or cols}, c, x, mean, rstd, dy, dw, db, beta);
//@ end
    }
//@ end
}
