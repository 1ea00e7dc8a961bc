/* SPDX-License-Identifier: Apache-2.0 */
/* ${fn}: dx = dy * 2 max(x, 0), ${t} rows of ${d} */
static void ${fn}(const ${x.type} *restrict x, const ${dy.type} *restrict dy,
    ${dx.type} *restrict dx)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${x.elems}; i++) {
        const ${acc} v = ${ld(x, "i")};
        const ${acc} r = v <= 0 ? 0 : v;
        ${st(dx, "i", ld(dy, "i") .. " * (2 * r)")};
    }
}
