//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- muon_momentum: an RtUpdateKernel on one run of elements.
//@ local ahead = "m + (g - m) * " .. lit(1 - momentum)
static void ${fn}(const RtUpdate *u, const RtUpdateRun *run)
{
    ${moment1.type} *moment1 = run->moment1;
    const ${grad.type} *grad = run->grad;
    ${direction.type} *direction = run->direction;
    const ${acc} scale = (${acc})u->scale64;

#pragma omp parallel for schedule(static)
    for (int64_t from = 0; from < run->elems; from += 4096) {
        const int64_t to = run->elems - from < 4096 ? run->elems : from + 4096;
//@ put(noise("from", "to"))
#pragma omp simd
        for (int64_t i = from; i < to; i++) {
            const ${acc} g = ${ld(grad, "i")} * scale, m1 = ${ld(moment1, "i")};
            const ${acc} m = ${rnd(moment1, "m1 + (g - m1) * " .. lit(1 - momentum))};
            ${st(moment1, "i", "m")};
            direction[i] = ${nesterov and ahead or "m"};
        }
    }
}
