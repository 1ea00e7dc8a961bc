//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- split: rows of both outputs are parts of rows of x.
//@ local rest = c - at
static void ${fn}(const ${x.type} *restrict x, ${left.type} *restrict left,
             ${string.rep(" ", #fn)}${right.type} *restrict right)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        memcpy(left + i * ${at}, x + i * ${c}, ${at} * sizeof *left);
        memcpy(right + i * ${rest}, x + i * ${c} + ${at}, ${rest} * sizeof *right);
    }
}
