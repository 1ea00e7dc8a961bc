//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- lion: an RtUpdateKernel on one run of elements. Where param has the master's
//@ -- dtype it is the master, and written once.
//@ local kept = "m * " .. lit(beta2) .. " + g * " .. lit(1 - beta2)
static void ${fn}(const RtUpdate *u, const RtUpdateRun *run)
{
//@ put(pointers(1))
    /* Values common to all elements, in double, rounded once. */
    const ${acc} scale = (${acc})u->scale64;
    const ${acc} lr = (${acc})(u->lr64 * run->lr_ratio);
    const ${acc} keep = (${acc})(1 - u->lr64 * run->lr_ratio * run->weight_decay);

#pragma omp parallel for schedule(static)
    for (int64_t from = 0; from < run->elems; from += 4096) {
        const int64_t to = run->elems - from < 4096 ? run->elems : from + 4096;
//@ put(noise("from", "to"))
#pragma omp simd
        for (int64_t i = from; i < to; i++) {
            const ${acc} g = ${ld(grad, "i")} * scale, m = ${ld(moment1, "i")};
            const ${acc} c = m * ${lit(beta1)} + g * ${lit(1 - beta1)};
            const ${acc} sign = (${acc})((c > 0) - (c < 0));
            const ${acc} next = ${rnd(master, ld(master, "i") .. " * keep - lr * sign")};
            ${st(moment1, "i", rnd(moment1, kept))};
            ${st(master, "i", "next")};
//@ if param.dtype ~= master.dtype then
            ${st(param, "i", "next")};
//@ end
        }
    }
}
