/* SPDX-License-Identifier: Apache-2.0 */
/* ${fn}: ${k} taps over sequences of ${seq} rows of ${d} */
static void ${fn}(const ${x.type} *restrict x, const ${w.type} *restrict w, ${y.type} *restrict y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t position = i % ${seq}, taps = position < ${k - 1} ? position + 1 : ${k};
        for (int64_t j = 0; j < ${d}; j++) {
            ${acc} sum = 0;
            for (int64_t k = 0; k < taps; k++)
                sum += ${ld(w, "k * " .. d .. " + j")} * ${ld(x, "(i - k) * " .. d .. " + j")};
            ${st(y, "i * " .. d .. " + j", "sum")};
        }
    }
}
