//@ local f_ = acc == "float" and "f" or ""
/* SPDX-License-Identifier: Apache-2.0 */
/* ${fn}: dx = dy * s, dg = dy * x * s * (1 - s), s = sigmoid(g) */
static void ${fn}(const ${x.type} *restrict x, const ${g.type} *restrict g,
                  const ${dy.type} *restrict dy, ${dx.type} *restrict dx,
                  ${dg.type} *restrict dg)
{
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < ${x.elems}; i++) {
        const ${acc} s = rt_sigmoid${f_}(${ld(g, "i")}), d = ${ld(dy, "i")};
        ${st(dx, "i", "d * s")};
        ${st(dg, "i", "d * " .. ld(x, "i") .. " * (s * (1 - s))")};
    }
}
