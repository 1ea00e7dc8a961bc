//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- layernorm: the mean first, then the squares around it: no cancellation.
//@ local f = acc == "float" and "f" or ""
//@ local normed = "(" .. ld(x, "at + j") .. " - m) * r * " .. ld(w, "j")
static void ${fn}(const ${x.type} *restrict x, const ${w.type} *restrict w,
                  const ${b.type} *restrict b, ${y.type} *restrict y,
                  ${mean.type} *restrict mean, ${rstd.type} *restrict rstd)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${d};
        const ${acc} m = rt_row_sum_${x.dtype}(x + at, ${d}) / ${d};
        const ${acc} squares = rt_row_sum_squares_${x.dtype}(x + at, m, ${d});
        const ${acc} r = 1 / rt_sqrt${f}(squares / ${d} + ${lit(eps)});
        mean[i] = m;
        rstd[i] = r;
#pragma omp simd
        for (int64_t j = 0; j < ${d}; j++)
            ${st(y, "at + j", normed .. " + " .. ld(b, "j"))};
    }
}
