//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- cross_entropy_bwd: dlogits may be logits. A block for each row, or part of a row.
//@ local each = part and v // parts or v
//@ local ragged = part and vocab % each > 0 -- the last part has fewer classes
//@ local g = long_row(each, logits)
//@ local by = scaled and " * *loss_scale" or ""
//@ local take, give = scaled and ", const float *loss_scale" or "", scaled and ", &loss_scale" or ""
//@ local scale = z > 0 and "(1 + " .. lit(2 * z) .. " * lse[blockIdx.x])" or lit(1)
//@ local share = smoothing / (part and vocab or v)
//@ local of_part = part and "const int32_t *part, " or ""
//@ if softcap > 0 then
${capped_minus(logits, each, softcap, g)}
//@ end
RT_GLOBAL(${g.threads})
${fn}(const ${logits.type} *logits, const int32_t *targets, const ${lse.type} *lse,
      ${of_part}${dlogits.type} *dlogits${take})
{
//@ if part then
    const int first = part[blockIdx.y] * ${each}; /* class of the first column */
    const int64_t at = (int64_t)blockIdx.x * ${v} + blockIdx.y * ${each};
    const int32_t target = targets[blockIdx.x] - first; /* or in another part */
//@   if masked then
    if (targets[blockIdx.x] < 0) { /* masked */
        ${access("zero", dlogits, g, acc)}(dlogits + at);
        return;
    }
//@   end
//@ else
    const int64_t at = (int64_t)blockIdx.x * ${v};
    const int32_t target = targets[blockIdx.x];
//@   if masked then
    if (target < 0) { /* masked */
        ${access("zero", dlogits, g, acc)}(dlogits + at);
        return;
    }
//@   end
//@ end
    const ${acc} scale = ${scale}${by}, share = ${lit(share)}${by}, hot = ${lit(1 - smoothing)}${by};
//@ if softcap > 0 then
    ${fn}_minus(logits + at, dlogits + at, lse[blockIdx.x], target, scale, share, hot);
//@ else
    ${access("softmax_minus", logits, g)}(logits + at, dlogits + at, lse[blockIdx.x],
                                          target, scale, share, hot);
//@ end
//@ if ragged then
    rt_block_sync();
    for (int j = ${vocab} - first + threadIdx.x; j < ${each}; j += ${g.threads})
        dlogits[at + j] = 0; /* padding */
//@ end
}
//@ host
${kernel(fn, g.threads)}

/* dlogits[${t}, ${v}] */
static void ${fn}(Rt *rt, const ${logits.type} *logits, const int32_t *targets,
//@ if part then
                  const ${lse.type} *lse, const int32_t *part, ${dlogits.type} *dlogits${take})
{
    rt_launch(rt, &${fn}_kernel, ${t}, ${parts},
              (void *[]){ &logits, &targets, &lse, &part, &dlogits${give} });
//@ else
                  const ${lse.type} *lse, ${dlogits.type} *dlogits${take})
{
    rt_launch(rt, &${fn}_kernel, ${t}, 1,
              (void *[]){ &logits, &targets, &lse, &dlogits${give} });
//@ end
}
