//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- rmsnorm_bwd: dx row by row; then the sums over rows: a thread owns 64 columns,
//@ -- rows in order, 64 at a time, so that a long sum in float loses no more than a
//@ -- short one.
//@ local cols, rows = 64, 64
//@ local full, rest = d // cols, d % cols
//@ local blocks = full + (rest > 0 and 1 or 0)
//@ local xj, dyj = ld(x, "at + j"), ld(dy, "at + j")
//@ local h = xj .. " * rstd[i]"
//@ local wj = offset == 0 and ld(w, "j") or "(" .. ld(w, "j") .. " + " .. lit(offset) .. ")"
//@ local e = dyj .. " * " .. wj
//@ local dxj = "rstd[i] * (" .. e .. " - " .. h .. " * mean_eh)"
//@ local grads = dw and (",\n%18s%s *restrict dw, float beta"):format("", dw.type) or ""
//@ local function plus(y, value) -- what beta asks for
//@     return st(y, "c + j", "(beta == 0 ? 0 : " .. ld(y, "c + j") .. ") + " .. value)
//@ end
//@ if dw then
RT_ALWAYS void ${fn}_columns(const int cols, int64_t c, const ${x.type} *restrict x,
                             const ${rstd.type} *restrict rstd,
                             const ${dy.type} *restrict dy, ${dw.type} *restrict dw,
                             float beta)
{
    ${acc} sum[${cols}] = {0};
    for (int64_t first = 0; first < ${t}; first += ${rows}) {
        const int64_t last = first + ${rows} < ${t} ? first + ${rows} : ${t};
        ${acc} part[${cols}] = {0};
        for (int64_t i = first; i < last; i++) {
            const int64_t at = i * ${d} + c;
#pragma omp simd
            for (int j = 0; j < cols; j++)
                part[j] += ${dyj} * (${h});
        }
        for (int j = 0; j < cols; j++)
            sum[j] += part[j];
    }
    for (int j = 0; j < cols; j++)
        ${plus(dw, "sum[j]")};
}

//@ end
static void ${fn}(const ${x.type} *restrict x, const ${w.type} *restrict w,
                  const ${rstd.type} *restrict rstd, const ${dy.type} *restrict dy,
                  ${dx.type} *restrict dx${grads})
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${d};
        const ${acc} sum_eh =
//@ if offset == 0 then
            rt_row_dot_centred_${x.dtype}(dy + at, w, x + at, 0, ${d});
//@ else
            rt_row_dot_centred_${x.dtype}(dy + at, w, x + at, 0, ${d}) +
            ${lit(offset)} * rt_row_dot_${x.dtype}(dy + at, x + at, ${d});
//@ end
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
            ${fn}_columns(${cols}, c, x, rstd, dy, dw, beta);
        else
            ${fn}_columns(${rest}, c, x, rstd, dy, dw, beta);
//@ else
        ${fn}_columns(${rest > 0 and rest or cols}, c, x, rstd, dy, dw, beta);
//@ end
    }
//@ end
}
