//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- muon_momentum: an RtUpdateKernel: enqueues a kernel for the run. A thread takes 8 elements
//@ -- of the parameter; a matrix may begin or end among them, so also the run.
//@ local ahead = "m + (g - m) * " .. lit(1 - momentum)
//@ local noisy = noise() ~= ""
RT_GLOBAL(256)
${fn}(const RtUpdate *u, ${moment1.type} *moments1, const ${grad.type} *grads,
      ${direction.type} *directions, int64_t elems, int before${noisy and ", int64_t element, uint32_t stream" or ""})
{
    const int64_t at = ((int64_t)blockIdx.x * 256 + threadIdx.x) * 8 - before;
    if (at >= elems || u->skip != 0)
        return;
    const int from = at < 0 ? before : 0, to = elems - at < 8 ? (int)(elems - at) : 8;
    ${grad.type} grad[8];
    ${moment1.type} moment1[8];
    ${direction.type} direction[8];
    rt_read_between<8>(grad, grads + at, from, to);
    rt_read_between<8>(moment1, moments1 + at, from, to);
//@ put(noise())
    const ${acc} scale = (${acc})u->scale64;
    RT_UNROLL
    for (int k = 0; k < 8; k++) {
        const ${acc} g = ${ld(grad, "k")} * scale, m1 = ${ld(moment1, "k")};
        const ${acc} m = ${rnd(moment1, "m1 + (g - m1) * " .. lit(1 - momentum))};
        ${st(moment1, "k", "m")};
        direction[k] = ${nesterov and ahead or "m"};
    }
    rt_write_between<8>(moments1 + at, moment1, from, to);
    rt_write_between<8>(directions + at, direction, from, to);
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
              (void *[]){ &u, &r.moment1, &r.grad, &r.direction, &r.elems,
                          &before${noisy and ", &r.element, &stream" or ""} });
}
