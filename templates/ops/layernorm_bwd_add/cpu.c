//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- layernorm_bwd_add: dx may be dres. As layernorm_bwd; its dx is rounded before dres is added.
//@ -- Sums over rows: a thread owns 64 columns, rows in order, 64 at a time.
//@ local cols, rows = 64, 64
//@ local full, rest = d // cols, d % cols
//@ local blocks = full + (rest > 0 and 1 or 0)
//@ local h = "(" .. ld(x, "at + j") .. " - mean[i]) * rstd[i]"
//@ local dx0 = "rstd[i] * (" .. ld(dy, "at + j") .. " * " .. ld(w, "j") .. " - e - (" .. h .. ") * eh)"
RT_ALWAYS void ${fn}_columns(const int cols, int64_t c, const ${x.type} *restrict x,
                             const ${mean.type} *restrict mean,
                             const ${rstd.type} *restrict rstd, const ${dy.type} *restrict dy,
                             ${dw.type} *restrict dw, ${db.type} *restrict db, float beta)
{
    ${acc} sum_w[${cols}] = {0}, sum_b[${cols}] = {0};
    for (int64_t first = 0; first < ${t}; first += ${rows}) {
        const int64_t last = first + ${rows} < ${t} ? first + ${rows} : ${t};
        ${acc} part_w[${cols}] = {0}, part_b[${cols}] = {0};
        for (int64_t i = first; i < last; i++) {
            const int64_t at = i * ${d} + c;
#pragma omp simd
            for (int j = 0; j < cols; j++) {
                part_w[j] += ${ld(dy, "at + j")} * (${h});
                part_b[j] += ${ld(dy, "at + j")};
            }
        }
        for (int j = 0; j < cols; j++) {
            sum_w[j] += part_w[j];
            sum_b[j] += part_b[j];
        }
    }
    for (int j = 0; j < cols; j++) {
        ${st(dw, "c + j", "(beta == 0 ? 0 : " .. ld(dw, "c + j") .. ") + sum_w[j]")};
        ${st(db, "c + j", "(beta == 0 ? 0 : " .. ld(db, "c + j") .. ") + sum_b[j]")};
    }
}

static void ${fn}(const ${x.type} *restrict x, const ${w.type} *restrict w,
                  const ${mean.type} *restrict mean, const ${rstd.type} *restrict rstd,
                  const ${dy.type} *restrict dy, const ${dres.type} *dres,
                  ${dx.type} *dx, ${dw.type} *restrict dw, ${db.type} *restrict db,
                  float beta)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${d};
        const ${acc} e = rt_row_dot_${x.dtype}(dy + at, w, ${d}) / ${d};
        const ${acc} eh =
            rt_row_dot_centred_${x.dtype}(dy + at, w, x + at, mean[i], ${d}) * rstd[i] / ${d};
#pragma omp simd
        for (int64_t j = 0; j < ${d}; j++) {
            ${st(dx, "at + j", ld(dres, "at + j") .. " + " .. rnd(dx, dx0))};
        }
    }
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < ${blocks}; block++) {
//@ if full > 0 and rest > 0 then
        if (block < ${full}) {
            ${fn}_columns(${cols}, block * ${cols}, x, mean, rstd, dy, dw, db, beta);
        } else {
            ${fn}_columns(${rest}, ${full * cols}, x, mean, rstd, dy, dw, db, beta);
        }
//@ else
        ${fn}_columns(${rest > 0 and rest or cols}, block * ${cols}, x, mean, rstd, dy, dw, db, beta);
//@ end
    }
}
