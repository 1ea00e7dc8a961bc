//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- swiglu
//@ local f_ = acc == "float" and "f" or ""
static void ${fn}(const ${gu.type} *restrict gu, ${y.type} *restrict y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${2 * f}, to = i * ${f};
#pragma omp simd
        for (int64_t j = 0; j < ${f}; j++) {
            const ${acc} gate = ${ld(gu, "at + j")};
            const ${acc} up = ${ld(gu, "at + " .. f .. " + j")};
            ${st(y, "to + j", "gate * rt_sigmoid" .. f_ .. "(gate) * up")};
        }
    }
}
