//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- gelu: (1 + tanh(u)) / 2 is sigmoid(2 u), which does not cancel where x is below 0.
//@ local f = acc == "float" and "f" or ""
//@ local two_c = 1.5957691216057308 -- 2 sqrt(2 / pi)
static void ${fn}(const ${x.type} *restrict x, ${y.type} *restrict y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${d};
#pragma omp simd
        for (int64_t j = 0; j < ${d}; j++) {
            const ${acc} v = ${ld(x, "at + j")};
            const ${acc} u = ${lit(two_c)} * (v + ${lit(0.044715)} * (v * v) * v);
            ${st(y, "at + j", "v * rt_sigmoid" .. f .. "(u)")};
        }
    }
}
