//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- add_pos: y may be x.
static void ${fn}(const ${x.type} *x, const ${w.type} *restrict w, ${y.type} *y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${d}, position = i % ${seq} * ${d};
#pragma omp simd
        for (int64_t j = 0; j < ${d}; j++) {
            ${st(y, "at + j", ld(x, "at + j") .. " + " .. ld(w, "position + j"))};
        }
    }
}
