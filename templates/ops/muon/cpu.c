//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- muon: an RtUpdateKernel on one run of elements. Where param has the master's
//@ -- dtype it is the master, and written once.
static void ${fn}(const RtUpdate *u, const RtUpdateRun *run)
{
//@ if param.dtype ~= master.dtype then
    ${param.type} *param = run->weights;
//@ end
    ${master.type} *master = run->master;
    const ${direction.type} *direction = run->direction;
    /* Values common to all elements, in double, rounded once. */
    const double lr = u->lr64 * run->lr_ratio;
    const ${acc} step = (${acc})(lr * run->lr_adjust);
    const ${acc} keep = (${acc})(1 - lr * run->weight_decay);

#pragma omp parallel for schedule(static)
    for (int64_t from = 0; from < run->elems; from += 4096) {
        const int64_t to = run->elems - from < 4096 ? run->elems : from + 4096;
//@ put(noise("from", "to"))
#pragma omp simd
        for (int64_t i = from; i < to; i++) {
            const ${acc} next = ${rnd(master, ld(master, "i") .. " * keep - step * direction[i]")};
            ${st(master, "i", "next")};
//@ if param.dtype ~= master.dtype then
            ${st(param, "i", "next")};
//@ end
        }
    }
}
