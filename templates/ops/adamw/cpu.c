//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- adamw: an RtUpdateKernel on one run of elements. Where param has the master's
//@ -- dtype it is the master, and written once.
//@ local f = acc == "float" and "f" or ""
//@ local decayed = lit(1 - beta2) .. " * g * g"
static void ${fn}(const RtUpdate *u, const RtUpdateRun *run)
{
//@ put(pointers(2))
    /* Values common to all elements, in double, rounded once. */
    const ${acc} scale = (${acc})u->scale64;
    const double lr = u->lr64 * run->lr_ratio;
    const ${acc} keep = (${acc})(1 - lr * run->weight_decay);
    const ${acc} step = (${acc})(lr / u->bias1_64);
    const ${acc} root_bias2 = (${acc})rt_sqrt(u->bias2_64);

#pragma omp parallel for schedule(static)
    for (int64_t from = 0; from < run->elems; from += 4096) {
        const int64_t to = run->elems - from < 4096 ? run->elems : from + 4096;
//@ put(noise("from", "to"))
#pragma omp simd
        for (int64_t i = from; i < to; i++) {
            const ${acc} g = ${ld(grad, "i")} * scale;
            const ${acc} p = ${ld(master, "i")} * keep;
            const ${acc} m1 = ${ld(moment1, "i")}, m2 = ${ld(moment2, "i")};
            const ${acc} m = ${rnd(moment1, "m1 + (g - m1) * " .. lit(1 - beta1))};
            const ${acc} v = ${rnd(moment2, "m2 * " .. lit(beta2) .. " + " .. decayed)};
            const ${acc} denominator = rt_sqrt${f}(v) / root_bias2 + ${lit(eps)};
            const ${acc} next = ${rnd(master, "p - step * m / denominator")};
            ${st(moment1, "i", "m")};
            ${st(moment2, "i", "v")};
            ${st(master, "i", "next")};
//@ if param.dtype ~= master.dtype then
            ${st(param, "i", "next")};
//@ end
        }
    }
}
