/* SPDX-License-Identifier: Apache-2.0 */
/* ${fn}: y = max(x, 0)^2, ${t} rows of ${d} */
static void ${fn}(const ${x.type} *restrict x, ${y.type} *restrict y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${x.elems}; i++) {
        const ${acc} v = ${ld(x, "i")};
        const ${acc} r = v <= 0 ? 0 : v; /* NaN stays NaN */
        ${st(y, "i", "r * r")};
    }
}
