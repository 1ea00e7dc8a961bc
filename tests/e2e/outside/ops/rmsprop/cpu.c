//@ -- SPDX-License-Identifier: MIT-0
//@ -- rmsprop: an RtUpdateKernel on one run of elements. Where param has the master's
//@ -- dtype it is the master, and written once.
//@ local f = acc == "float" and "f" or ""
//@ local kept = "v0 * " .. lit(alpha) .. " + " .. lit(1 - alpha) .. " * g * g"
static void ${fn}(const RtUpdate *u, const RtUpdateRun *run)
{
//@ put(pointers(1))
    /* what is the same for all elements, in double, rounded once */
    const ${acc} scale = (${acc})u->scale64;
    const ${acc} lr = (${acc})(u->lr64 * run->lr_ratio);
    const ${acc} keep = (${acc})(1 - u->lr64 * run->lr_ratio * run->weight_decay);

#pragma omp parallel for schedule(static)
    for (int64_t from = 0; from < run->elems; from += 4096) {
        const int64_t to = run->elems - from < 4096 ? run->elems : from + 4096;
//@ put(noise("from", "to"))
#pragma omp simd
        for (int64_t i = from; i < to; i++) {
            const ${acc} g = ${ld(grad, "i")} * scale, v0 = ${ld(moment1, "i")};
            const ${acc} v = ${rnd(moment1, kept)};
            const ${acc} step = lr * g / (rt_sqrt${f}(v) + ${lit(eps)});
            const ${acc} next = ${rnd(master, ld(master, "i") .. " * keep - step")};
            ${st(moment1, "i", "v")};
            ${st(master, "i", "next")};
//@ if param.dtype ~= master.dtype then
            ${st(param, "i", "next")};
//@ end
        }
    }
}
