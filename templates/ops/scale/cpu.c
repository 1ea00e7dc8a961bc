//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- scale: y may be x.
//@ local factor = rounded and rnd(y, lit(by)) or lit(by)
static void ${fn}(const ${x.type} *x, ${y.type} *y)
{
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < ${y.elems}; i++)
        ${st(y, "i", ld(x, "i") .. " * " .. factor)};
}
