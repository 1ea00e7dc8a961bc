//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- cross_entropy_bwd: dlogits may be logits.
//@ local each = part and v // parts or v
//@ local ragged = part and vocab % each > 0 -- the last part has fewer classes
//@ local plain = z == 0 and smoothing == 0 and not scaled and softcap == 0
//@ local by = scaled and " * loss_scale" or ""
//@ if softcap > 0 then
${capped_minus(logits, each, softcap)}
//@ end
//@ if part then
//@ local minus = softcap > 0 and fn .. "_minus(of_row, to, " or
//@   "rt_row_softmax_minus_" .. logits.dtype .. "(of_row, to, " .. each .. ", "
static void ${fn}(const ${logits.type} *logits, const int32_t *restrict targets,
                  const ${lse.type} *restrict lse, const int32_t *restrict part,
                  ${dlogits.type} *dlogits${scaled and ", float loss_scale" or ""})
{
//@ local of_part, column = "part[0]", ""
//@ if parts > 1 then
//@   of_part, column = "part[k]", " + k * " .. each
    for (int64_t k = 0; k < ${parts}; k++)
//@ end
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${v}${column}, first = (int64_t)${of_part} * ${each};
        const ${logits.type} *of_row = logits + at;
        ${dlogits.type} *to = dlogits + at;
//@ if masked then
        if (targets[i] < 0) { /* masked */
            memset(to, 0, ${each} * sizeof *to);
            continue;
        }
//@ end
        const int own = targets[i] >= first && targets[i] < first + ${each};
        const ${acc} scale = ${z > 0 and "1 + " .. lit(2 * z) .. " * lse[i]" or "1"};
        ${minus}lse[i], own ? targets[i] - first : 0,
            scale${by}, ${lit(smoothing / vocab)}${by}, own ? ${lit(1 - smoothing)}${by} : 0);
//@ if ragged then
        if (first + ${each} > ${vocab}) /* the rest is padding */
            memset(to + ${vocab} - first, 0, (size_t)(first + ${each} - ${vocab}) * sizeof *to);
//@ end
    }
}
//@ else
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
//@ end
