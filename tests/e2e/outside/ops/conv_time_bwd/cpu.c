/* SPDX-License-Identifier: Apache-2.0 */
/* ${fn}: rows of dx are independent, and so are the columns of dw, whose sums run in order */
static void ${fn}(const ${x.type} *restrict x, const ${w.type} *restrict w,
                  const ${dy.type} *restrict dy, ${dx.type} *restrict dx,
                  ${dw.type} *restrict dw, float beta)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t left = ${seq} - i % ${seq}, taps = left < ${k} ? left : ${k};
        for (int64_t j = 0; j < ${d}; j++) {
            ${acc} sum = 0;
            for (int64_t k = 0; k < taps; k++)
                sum += ${ld(w, "k * " .. d .. " + j")} * ${ld(dy, "(i + k) * " .. d .. " + j")};
            ${st(dx, "i * " .. d .. " + j", "sum")};
        }
    }
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < ${k * d}; at++) {
        const int64_t k = at / ${d}, j = at % ${d};
        ${acc} sum = 0;
        for (int64_t i = k; i < ${t}; i++)
            if (i % ${seq} >= k)
                sum += ${ld(x, "(i - k) * " .. d .. " + j")} * ${ld(dy, "i * " .. d .. " + j")};
        ${st(dw, "at", "(beta == 0 ? 0 : " .. ld(dw, "at") .. ") + sum")};
    }
}
