//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- muon: an RtUpdateKernel: enqueues a kernel for the run. A thread takes 8 elements of the
//@ -- parameter; a matrix may begin or end among them, so also the run. Where param has the
//@ -- master's dtype it is the master, and written once.
//@ local own_param = param.dtype ~= master.dtype
//@ local noisy = noise() ~= ""
RT_GLOBAL(256)
${fn}(const RtUpdate *u, ${own_param and param.type .. " *params, " or ""}${master.type} *masters,
      const ${direction.type} *directions, int64_t elems, int before, double lr_ratio,
      double lr_adjust, double weight_decay${noisy and ", int64_t element, uint32_t stream" or ""})
{
    const int64_t at = ((int64_t)blockIdx.x * 256 + threadIdx.x) * 8 - before;
    if (at >= elems || u->skip != 0)
        return;
    const int from = at < 0 ? before : 0, to = elems - at < 8 ? (int)(elems - at) : 8;
    ${master.type} master[8];
    ${direction.type} direction[8];
    rt_read_between<8>(master, masters + at, from, to);
    rt_read_between<8>(direction, directions + at, from, to);
//@ if own_param then
    ${param.type} param[8];
//@ end
//@ if master.dtype == "split" then
    rt_read_between<8>(param, params + at, from, to);
//@ end
//@ put(noise())
    /* Values common to all elements, in double, rounded once. */
    const double lr = u->lr64 * lr_ratio;
    const ${acc} step = (${acc})(lr * lr_adjust);
    const ${acc} keep = (${acc})(1 - lr * weight_decay);
    RT_UNROLL
    for (int k = 0; k < 8; k++) {
        const ${acc} next = ${rnd(master, ld(master, "k") .. " * keep - step * direction[k]")};
        ${st(master, "k", "next")};
//@ if own_param then
        ${st(param, "k", "next")};
//@ end
    }
    rt_write_between<8>(masters + at, master, from, to);
//@ if own_param then
    rt_write_between<8>(params + at, param, from, to);
//@ end
}
//@ host
${kernel(fn, 256)}

static void ${fn}(Rt *rt, const RtUpdate *u, const RtUpdateRun *run)
{
    RtUpdateRun r = *run;
    int before = (int)(r.element % 8);
//@ if noisy then
    uint32_t stream = rt_noise_stream(run);
//@ end
    rt_launch(rt, &${fn}_kernel, (r.elems + before + 2047) / 2048, 1,
              (void *[]){ &u, ${own_param and "&r.weights, " or ""}&r.master, &r.direction, &r.elems, &before,
                          &r.lr_ratio, &r.lr_adjust, &r.weight_decay${noisy and ", &r.element, &stream" or ""} });
}
