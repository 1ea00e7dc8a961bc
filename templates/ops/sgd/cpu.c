//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- sgd: an RtUpdateKernel on one run of elements. Where param has the master's
//@ -- dtype it is the master, and written once.
//@ local next = rnd(master, ld(master, "i") .. " * keep - lr * m")
static void ${fn}(const RtUpdate *u, const RtUpdateRun *run)
{
//@ put(pointers(momentum ~= 0 and 1 or 0))
    /* Values common to all elements, in double, rounded once. */
    const ${acc} scale = (${acc})u->scale64;
    const ${acc} lr = (${acc})(u->lr64 * run->lr_ratio);
    const ${acc} keep = (${acc})(1 - u->lr64 * run->lr_ratio * run->weight_decay);

#pragma omp parallel for schedule(static)
    for (int64_t from = 0; from < run->elems; from += 4096) {
        const int64_t to = run->elems - from < 4096 ? run->elems : from + 4096;
//@ put(noise("from", "to", momentum ~= 0 and 1 or 0))
#pragma omp simd
        for (int64_t i = from; i < to; i++) {
//@ if momentum ~= 0 then
            const ${acc} g = ${ld(grad, "i")} * scale;
            const ${acc} m = ${rnd(moment1, ld(moment1, "i") .. " * " .. lit(momentum) .. " + g")};
//@ else
            const ${acc} m = ${ld(grad, "i")} * scale;
//@ end
            const ${acc} next = ${next};
//@ if momentum ~= 0 then
            ${st(moment1, "i", "m")};
//@ end
            ${st(master, "i", "next")};
//@ if param.dtype ~= master.dtype then
            ${st(param, "i", "next")};
//@ end
        }
    }
}
