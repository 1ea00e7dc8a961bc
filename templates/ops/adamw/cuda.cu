//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- adamw: an RtUpdateKernel: enqueues a kernel for the run. A thread takes 8 elements. Where
//@ -- param has the master's dtype it is the master, and written once.
//@ local f = acc == "float" and "f" or ""
//@ local decayed = lit(1 - beta2) .. " * g * g"
//@ local own_param = param.dtype ~= master.dtype
//@ local noisy = noise() ~= ""
RT_GLOBAL(256)
${fn}(const RtUpdate *u, ${own_param and param.type .. " *params, " or ""}${master.type} *masters,
      ${moment1.type} *moments1, ${moment2.type} *moments2, const ${grad.type} *grads,
      int64_t elems, double lr_ratio, double weight_decay${noisy and ", int64_t element, uint32_t stream" or ""})
{
    const int64_t at = ((int64_t)blockIdx.x * 256 + threadIdx.x) * 8;
    if (at >= elems || u->skip != 0)
        return;
    const int count = elems - at < 8 ? (int)(elems - at) : 8;
    ${grad.type} grad[8];
    ${master.type} master[8];
    ${moment1.type} moment1[8];
    ${moment2.type} moment2[8];
    rt_read<8>(grad, grads + at, count);
    rt_read<8>(master, masters + at, count);
    rt_read<8>(moment1, moments1 + at, count);
    rt_read<8>(moment2, moments2 + at, count);
//@ if own_param then
    ${param.type} param[8];
//@ end
//@ if master.dtype == "split" then
    rt_read<8>(param, params + at, count);
//@ end
//@ put(noise())
    /* Values common to all elements, in double, rounded once. */
    const ${acc} scale = (${acc})u->scale64;
    const double lr = u->lr64 * lr_ratio;
    const ${acc} keep = (${acc})(1 - lr * weight_decay);
    const ${acc} step = (${acc})(lr / u->bias1_64);
    const ${acc} root_bias2 = (${acc})rt_sqrt(u->bias2_64);
    RT_UNROLL
    for (int k = 0; k < 8; k++) {
        const ${acc} g = ${ld(grad, "k")} * scale;
        const ${acc} p = ${ld(master, "k")} * keep;
        const ${acc} m1 = ${ld(moment1, "k")}, m2 = ${ld(moment2, "k")};
        const ${acc} m = ${rnd(moment1, "m1 + (g - m1) * " .. lit(1 - beta1))};
        const ${acc} v = ${rnd(moment2, "m2 * " .. lit(beta2) .. " + " .. decayed)};
        const ${acc} denominator = rt_sqrt${f}(v) / root_bias2 + ${lit(eps)};
        const ${acc} next = ${rnd(master, "p - step * m / denominator")};
        ${st(moment1, "k", "m")};
        ${st(moment2, "k", "v")};
        ${st(master, "k", "next")};
//@ if own_param then
        ${st(param, "k", "next")};
//@ end
    }
    rt_write<8>(moments1 + at, moment1, count);
    rt_write<8>(moments2 + at, moment2, count);
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
              (void *[]){ &u, ${own_param and "&r.weights, " or ""}&r.master, &r.moment1, &r.moment2, &r.grad,
                          &r.elems, &r.lr_ratio, &r.weight_decay${noisy and ", &r.element, &stream" or ""} });
}
