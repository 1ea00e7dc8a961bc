//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- swiglu_bwd: dgu may be gu.
//@ local f_ = acc == "float" and "f" or ""
static void ${fn}(const ${gu.type} *gu, const ${dy.type} *restrict dy, ${dgu.type} *dgu)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${2 * f}, from = i * ${f};
#pragma omp simd
        for (int64_t j = 0; j < ${f}; j++) {
            const ${acc} gate = ${ld(gu, "at + j")};
            const ${acc} up = ${ld(gu, "at + " .. f .. " + j")};
            const ${acc} d = ${ld(dy, "from + j")}, s = rt_sigmoid${f_}(gate);
            ${st(dgu, "at + j", "d * up * (s * (1 + gate * (1 - s)))")};
            ${st(dgu, "at + " .. f .. " + j", "d * (gate * s)")};
        }
    }
}
