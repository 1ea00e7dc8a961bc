//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- add_rmsnorm: h may be x. The norm reads h as it was rounded, with the same sums
//@ -- as rmsnorm.
//@ local f = acc == "float" and "f" or ""
//@ local wj = offset == 0 and ld(w, "j") or "(" .. ld(w, "j") .. " + " .. lit(offset) .. ")"
static void ${fn}(const ${x.type} *x, const ${r.type} *r, const ${w.type} *restrict w,
                  ${h.type} *h, ${y.type} *restrict y, ${rstd.type} *restrict rstd)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${d};
#pragma omp simd
        for (int64_t j = 0; j < ${d}; j++)
            ${st(h, "at + j", ld(x, "at + j") .. " + " .. ld(r, "at + j"))};
        const ${acc} squares = rt_row_sum_squares_${h.dtype}(h + at, 0, ${d});
        const ${acc} scale = 1 / rt_sqrt${f}(squares / ${d} + ${lit(eps)});
        rstd[i] = scale;
#pragma omp simd
        for (int64_t j = 0; j < ${d}; j++)
            ${st(y, "at + j", ld(h, "at + j") .. " * scale * " .. wj)};
    }
}
