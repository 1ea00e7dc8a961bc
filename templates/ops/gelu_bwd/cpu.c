//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- gelu_bwd: dx may be dy. s = sigmoid(u), u = 2 c (x + a x^3): dx = dy (s + x s (1
//@ -- - s) u').
//@ local f = acc == "float" and "f" or ""
//@ local two_c = 1.5957691216057308 -- 2 sqrt(2 / pi)
static void ${fn}(const ${x.type} *restrict x, const ${dy.type} *dy, ${dx.type} *dx)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${d};
#pragma omp simd
        for (int64_t j = 0; j < ${d}; j++) {
            const ${acc} v = ${ld(x, "at + j")}, square = v * v;
            const ${acc} u = ${lit(two_c)} * (v + ${lit(0.044715)} * square * v);
            const ${acc} slope = ${lit(two_c)} * (1 + ${lit(3 * 0.044715)} * square);
            const ${acc} s = rt_sigmoid${f}(u);
            ${st(dx, "at + j", ld(dy, "at + j") .. " * (s + v * s * (1 - s) * slope)")};
        }
    }
}
