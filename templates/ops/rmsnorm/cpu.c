//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- rmsnorm: row by row; the row is in the first-level cache when it is read again.
//@ local f = acc == "float" and "f" or ""
//@ local wj = offset == 0 and ld(w, "j") or "(" .. ld(w, "j") .. " + " .. lit(offset) .. ")"
static void ${fn}(const ${x.type} *restrict x, const ${w.type} *restrict w,
                  ${y.type} *restrict y, ${rstd.type} *restrict rstd)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${d};
        const ${acc} squares = rt_row_sum_squares_${x.dtype}(x + at, 0, ${d});
        const ${acc} r = 1 / rt_sqrt${f}(squares / ${d} + ${lit(eps)});
        rstd[i] = r;
#pragma omp simd
        for (int64_t j = 0; j < ${d}; j++)
            ${st(y, "at + j", ld(x, "at + j") .. " * r * " .. wj)};
    }
}
