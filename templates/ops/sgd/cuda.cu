//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- sgd: an RtUpdateKernel: enqueues a kernel for the run. A thread takes 8 elements. Where
//@ -- param has the master's dtype it is the master, and written once.
//@ local next = rnd(master, ld(master, "k") .. " * keep - lr * m")
//@ local own_param, moving = param.dtype ~= master.dtype, momentum ~= 0
//@ local draw = noise(nil, nil, moving and 1 or 0)
//@ local noisy = draw ~= ""
RT_GLOBAL(256)
${fn}(const RtUpdate *u, ${own_param and param.type .. " *params, " or ""}${master.type} *masters,
      ${moving and moment1.type .. " *moments1, " or ""}const ${grad.type} *grads, int64_t elems,
      double lr_ratio, double weight_decay${noisy and ", int64_t element, uint32_t stream" or ""})
{
    const int64_t at = ((int64_t)blockIdx.x * 256 + threadIdx.x) * 8;
    if (at >= elems || u->skip != 0)
        return;
    const int count = elems - at < 8 ? (int)(elems - at) : 8;
    ${grad.type} grad[8];
    ${master.type} master[8];
    rt_read<8>(grad, grads + at, count);
    rt_read<8>(master, masters + at, count);
//@ if moving then
    ${moment1.type} moment1[8];
    rt_read<8>(moment1, moments1 + at, count);
//@ end
//@ if own_param then
    ${param.type} param[8];
//@ end
//@ if master.dtype == "split" then
    rt_read<8>(param, params + at, count);
//@ end
//@ put(draw)
    /* Values common to all elements, in double, rounded once. */
    const ${acc} scale = (${acc})u->scale64;
    const ${acc} lr = (${acc})(u->lr64 * lr_ratio);
    const ${acc} keep = (${acc})(1 - u->lr64 * lr_ratio * weight_decay);
    RT_UNROLL
    for (int k = 0; k < 8; k++) {
//@ if moving then
        const ${acc} g = ${ld(grad, "k")} * scale;
        const ${acc} m = ${rnd(moment1, ld(moment1, "k") .. " * " .. lit(momentum) .. " + g")};
//@ else
        const ${acc} m = ${ld(grad, "k")} * scale;
//@ end
        const ${acc} next = ${next};
//@ if moving then
        ${st(moment1, "k", "m")};
//@ end
        ${st(master, "k", "next")};
//@ if own_param then
        ${st(param, "k", "next")};
//@ end
    }
//@ if moving then
    rt_write<8>(moments1 + at, moment1, count);
//@ end
    rt_write<8>(masters + at, master, count);
//@ if own_param then
    rt_write<8>(params + at, param, count);
//@ end
}
//@ host
${kernel(fn, 256)}

static void ${fn}(Rt *rt, const RtUpdate *u, const RtUpdateRun *run)
{
    RtUpdateRun r = *run;
//@ if noisy then
    uint32_t stream = rt_noise_stream(run);
//@ end
    rt_launch(rt, &${fn}_kernel, (r.elems + 2047) / 2048, 1,
              (void *[]){ &u, ${own_param and "&r.weights, " or ""}&r.master, ${moving and "&r.moment1, " or ""}&r.grad, &r.elems,
                          &r.lr_ratio, &r.weight_decay${noisy and ", &r.element, &stream" or ""} });
}
