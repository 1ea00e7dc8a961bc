//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- bias: y may be x.
static void ${fn}(const ${x.type} *x, const ${b.type} *restrict b, ${y.type} *y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${n};
#pragma omp simd
        for (int64_t j = 0; j < ${n}; j++)
            ${st(y, "at + j", ld(x, "at + j") .. " + " .. ld(b, "j"))};
    }
}
