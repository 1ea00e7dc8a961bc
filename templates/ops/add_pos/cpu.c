//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- add_pos: y may be x.
//@ local position = starts and "(i % " .. seq .. " - starts[i])" or "i % " .. seq
//@ if starts then
static void ${fn}(const ${x.type} *x, const ${w.type} *restrict w,
                  const int32_t *restrict starts, ${y.type} *y)
//@ else
static void ${fn}(const ${x.type} *x, const ${w.type} *restrict w, ${y.type} *y)
//@ end
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${d}, position = ${position} * ${d};
#pragma omp simd
        for (int64_t j = 0; j < ${d}; j++)
            ${st(y, "at + j", ld(x, "at + j") .. " + " .. ld(w, "position + j"))};
    }
}
