//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- attention_sinks_bwd: a warp for each head of each query.
//@ local f, wide = acc == "float" and "f" or "", e // h
RT_GLOBAL(256)
${fn}(const ${o.type} *o, const ${lse.type} *lse, const ${d_o.type} *d_o,
      const ${sinks.type} *sinks, ${shares.type} *shares)
{
    const int64_t at = (int64_t)blockIdx.x * 8 + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (at >= ${t * h})
        return;
    ${acc} sum = 0;
    for (int64_t k = at * ${wide} + lane; k < (at + 1) * ${wide}; k += 32)
        sum += ${ld(o, "k")} * ${ld(d_o, "k")};
    const ${acc} delta = rt_warp_sum(sum);
    if (lane == 0)
        shares[at] = -rt_exp${f}(${ld(sinks, "at % " .. h)} - lse[at]) * delta;
}
//@ host
${kernel(fn, 256)}

/* shares[${t}, ${h}] from rows of ${h} heads, ${wide} wide */
static void ${fn}(Rt *rt, const ${o.type} *o, const ${lse.type} *lse, const ${d_o.type} *d_o,
                  const ${sinks.type} *sinks, ${shares.type} *shares)
{
    rt_launch(rt, &${fn}_kernel, ${(t * h + 7) // 8}, 1,
              (void *[]){ &o, &lse, &d_o, &sinks, &shares });
}
