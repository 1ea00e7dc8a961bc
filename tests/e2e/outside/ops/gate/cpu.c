//@ local f_ = acc == "float" and "f" or ""
/* SPDX-License-Identifier: Apache-2.0 */
/* ${fn}: y = x * sigmoid(g), ${t} rows of ${d} */
static void ${fn}(const ${x.type} *restrict x, const ${g.type} *restrict g, ${y.type} *restrict y)
{
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < ${x.elems}; i++)
        ${st(y, "i", ld(x, "i") .. " * rt_sigmoid" .. f_ .. "(" .. ld(g, "i") .. ")")};
}
