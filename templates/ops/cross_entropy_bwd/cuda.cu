//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- cross_entropy_bwd: dlogits may be logits. A block for each row.
//@ local g = long_row(v, logits)
//@ local by = scaled and " * *loss_scale" or ""
//@ local take, give = scaled and ", const float *loss_scale" or "", scaled and ", &loss_scale" or ""
//@ local scale = z > 0 and "(1 + " .. lit(2 * z) .. " * lse[blockIdx.x])" or lit(1)
//@ if softcap > 0 then
${capped_rows(logits, v, softcap, g)}
//@ end
RT_GLOBAL(${g.threads})
${fn}(const ${logits.type} *logits, const int32_t *targets, const ${lse.type} *lse,
      ${dlogits.type} *dlogits${take})
{
    const int64_t at = (int64_t)blockIdx.x * ${v};
    const int32_t target = targets[blockIdx.x];
//@ if masked then
    if (target < 0) { /* masked */
        ${access("zero", dlogits, g, acc)}(dlogits + at);
        return;
    }
//@ end
    const ${acc} scale = ${scale}${by}, share = ${lit(smoothing / v)}${by}, hot = ${lit(1 - smoothing)}${by};
//@ if softcap > 0 then
    ${fn}_minus(logits + at, dlogits + at, lse[blockIdx.x], target, scale, share, hot);
//@ else
    ${access("softmax_minus", logits, g)}(logits + at, dlogits + at, lse[blockIdx.x],
                                          target, scale, share, hot);
//@ end
}
//@ host
${kernel(fn, g.threads)}

/* dlogits[${t}, ${v}] */
static void ${fn}(Rt *rt, const ${logits.type} *logits, const int32_t *targets,
                  const ${lse.type} *lse, ${dlogits.type} *dlogits${take})
{
    rt_launch(rt, &${fn}_kernel, ${t}, 1,
              (void *[]){ &logits, &targets, &lse, &dlogits${give} });
}
