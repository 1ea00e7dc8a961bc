/* SPDX-License-Identifier: Apache-2.0 */
/* ${fn}: y = r + max(x, 0)^2, the square rounded first, ${t} rows of ${d} */
static void ${fn}(const ${r.type} *restrict r, const ${x.type} *restrict x,
    ${y.type} *restrict y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${x.elems}; i++) {
        const ${acc} v = ${ld(x, "i")};
        const ${acc} p = v <= 0 ? 0 : v;
        const ${acc} s = ${rnd(y, "p * p")};
        ${st(y, "i", ld(r, "i") .. " + s")};
    }
}
