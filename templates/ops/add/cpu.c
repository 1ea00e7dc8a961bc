//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- add: y may be a.
static void ${fn}(const ${a.type} *a, const ${b.type} *b, ${y.type} *y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${d};
#pragma omp simd
        for (int64_t j = 0; j < ${d}; j++)
            ${st(y, "at + j", ld(a, "at + j") .. " + " .. ld(b, "at + j"))};
    }
}
