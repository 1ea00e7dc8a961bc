//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- swiglu
//@ local f_ = acc == "float" and "f" or ""
//@ local two_c = 1.5957691216057308 -- 2 sqrt(2 / pi): see gelu
static void ${fn}(const ${gu.type} *restrict gu, ${y.type} *restrict y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${2 * f}, to = i * ${f};
#pragma omp simd
        for (int64_t j = 0; j < ${f}; j++) {
            const ${acc} gate = ${ld(gu, "at + j")};
            const ${acc} up = ${ld(gu, "at + " .. f .. " + j")};
//@ if act == "gelu" then
            const ${acc} u = ${lit(two_c)} * (gate + ${lit(0.044715)} * (gate * gate) * gate);
            ${st(y, "to + j", "gate * rt_sigmoid" .. f_ .. "(u) * up")};
//@ else
            ${st(y, "to + j", "gate * rt_sigmoid" .. f_ .. "(gate) * up")};
//@ end
        }
    }
}
