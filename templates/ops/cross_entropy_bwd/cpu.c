//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- cross_entropy_bwd: dlogits may be logits.
//@ local plain = z == 0 and smoothing == 0 and not scaled and softcap == 0
//@ local by = scaled and " * loss_scale" or ""
//@ if softcap > 0 then
${capped_rows(logits, v, softcap)}
//@ end
static void ${fn}(const ${logits.type} *logits, const int32_t *restrict targets,
                  const ${lse.type} *restrict lse, ${dlogits.type} *dlogits${scaled and ", float loss_scale" or ""})
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${v};
//@ if masked then
        if (targets[i] < 0) { /* masked */
            memset(dlogits + at, 0, ${v} * sizeof *dlogits);
            continue;
        }
//@ end
//@ if plain then
        rt_row_softmax_minus_onehot_${logits.dtype}(logits + at, dlogits + at, ${v}, lse[i],
                                                    targets[i]);
//@ else
        const ${acc} scale = ${z > 0 and "1 + " .. lit(2 * z) .. " * lse[i]" or "1"};
//@   if softcap > 0 then
        ${fn}_minus(logits + at, dlogits + at, lse[i], targets[i], scale${by},
                    ${lit(smoothing / v)}${by}, ${lit(1 - smoothing)}${by});
//@   else
        rt_row_softmax_minus_${logits.dtype}(logits + at, dlogits + at, ${v}, lse[i], targets[i],
                                             scale${by}, ${lit(smoothing / v)}${by}, ${lit(1 - smoothing)}${by});
//@   end
//@ end
    }
}
