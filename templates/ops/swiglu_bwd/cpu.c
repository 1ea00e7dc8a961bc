//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- swiglu_bwd: dgu may be gu.
//@ local f_ = acc == "float" and "f" or ""
//@ local two_c = 1.5957691216057308 -- 2 sqrt(2 / pi): see gelu
static void ${fn}(const ${gu.type} *gu, const ${dy.type} *restrict dy, ${dgu.type} *dgu)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${2 * f}, from = i * ${f};
#pragma omp simd
        for (int64_t j = 0; j < ${f}; j++) {
            const ${acc} gate = ${ld(gu, "at + j")};
            const ${acc} up = ${ld(gu, "at + " .. f .. " + j")};
//@ if act == "gelu" then
            const ${acc} square = gate * gate;
            const ${acc} u = ${lit(two_c)} * (gate + ${lit(0.044715)} * square * gate);
            const ${acc} slope = ${lit(two_c)} * (1 + ${lit(3 * 0.044715)} * square);
            const ${acc} d = ${ld(dy, "from + j")}, s = rt_sigmoid${f_}(u);
            ${st(dgu, "at + j", "d * up * (s + gate * s * (1 - s) * slope)")};
//@ else
            const ${acc} d = ${ld(dy, "from + j")}, s = rt_sigmoid${f_}(gate);
            ${st(dgu, "at + j", "d * up * (s * (1 + gate * (1 - s)))")};
//@ end
            ${st(dgu, "at + " .. f .. " + j", "d * (gate * s)")};
        }
    }
}
