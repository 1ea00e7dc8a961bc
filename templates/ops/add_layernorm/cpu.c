//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- add_layernorm: h may be x. The norm reads h as it was rounded, with the sums of
//@ -- layernorm.
//@ local f = acc == "float" and "f" or ""
//@ local normed = "(" .. ld(h, "at + j") .. " - m) * scale * " .. ld(w, "j")
static void ${fn}(const ${x.type} *x, const ${r.type} *r, const ${w.type} *restrict w,
                  const ${b.type} *restrict b, ${h.type} *h, ${y.type} *restrict y,
                  ${mean.type} *restrict mean, ${rstd.type} *restrict rstd)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${d};
#pragma omp simd
        for (int64_t j = 0; j < ${d}; j++)
            ${st(h, "at + j", ld(x, "at + j") .. " + " .. ld(r, "at + j"))};
        const ${acc} m = rt_row_sum_${h.dtype}(h + at, ${d}) / ${d};
        const ${acc} squares = rt_row_sum_squares_${h.dtype}(h + at, m, ${d});
        const ${acc} scale = 1 / rt_sqrt${f}(squares / ${d} + ${lit(eps)});
        mean[i] = m;
        rstd[i] = scale;
#pragma omp simd
        for (int64_t j = 0; j < ${d}; j++)
            ${st(y, "at + j", normed .. " + " .. ld(b, "j"))};
    }
}
