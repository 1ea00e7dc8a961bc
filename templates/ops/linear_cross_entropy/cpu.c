//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- linear_cross_entropy: a chunk of tokens at a time: logits, their lse and losses,
//@ -- then their gradient over them, then the two products that use it (one, where there is
//@ -- no dx or no dw). Row functions and products are those of the ops it stands
//@ -- for, so each chunk has the bits of those ops on its tokens.
//@ local rows = math.min(chunk, t)
//@ local tail = t % rows
//@ local suffix = ({ rt_bf16 = "bf16", rt_f16 = "f16", float = "f32", double = "f64" })[x.type]
//@ local elem_bytes = ({ rt_bf16 = 2, rt_f16 = 2, float = 4, double = 8 })[x.type]
//@ local plain = z == 0 and smoothing == 0 and not scaled and softcap == 0
//@ local by = scaled and " * loss_scale" or ""
//@ local take = scaled and ", float loss_scale" or ""
//@ local give = scaled and ", loss_scale" or ""
//@ local expected = ld({ name = "row", type = x.type }, "targets[i]")
//@ if softcap > 0 then
//@   local f = acc == "float" and "f" or ""
//@   expected = lit(softcap) .. " * rt_tanh" .. f .. "(" .. expected .. " * " .. lit(1 / softcap) .. ")"
//@ end
//@ local z_loss = z > 0 and " + " .. lit(z) .. " * lse * lse" or ""
//@ local logits_bytes = (elem_bytes * rows * v + 63) // 64 * 64
${gemm(fn .. "_logits", "NT", rows, v, d, x, x)}
//@ if dx then
${gemm(fn .. "_dx", "NN", rows, d, v, x, dx)}
//@ end
//@ if dw then
${gemm(fn .. "_dw", "TN", v, d, rows, x, dw)}
//@ end
//@ prepare: rt_gemm_prepare(&${fn}_logits);
//@ if dx then
//@ prepare: rt_gemm_prepare(&${fn}_dx);
//@ end
//@ if dw then
//@ prepare: rt_gemm_prepare(&${fn}_dw);
//@ end
//@ if tail > 0 then
/* The last chunk is shorter. */
${gemm(fn .. "_tail_logits", "NT", tail, v, d, x, x)}
//@   if dx then
${gemm(fn .. "_tail_dx", "NN", tail, d, v, x, dx)}
//@   end
//@   if dw then
${gemm(fn .. "_tail_dw", "TN", v, d, tail, x, dw)}
//@   end
//@ prepare: rt_gemm_prepare(&${fn}_tail_logits);
//@   if dx then
//@ prepare: rt_gemm_prepare(&${fn}_tail_dx);
//@   end
//@   if dw then
//@ prepare: rt_gemm_prepare(&${fn}_tail_dw);
//@   end
//@ end

//@ if softcap > 0 then
${capped_rows({ type = x.type, dtype = suffix }, v, softcap)}
${capped_minus({ type = x.type, dtype = suffix }, v, softcap)}
//@ end
/* Replaces logits [tokens, ${v}] by their gradient; adds the losses to sum in token
 * order. */
static double ${fn}_softmax(${x.type} *logits, const int32_t *targets, int64_t tokens,
                            ${acc} *losses, double sum${take})
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        ${x.type} *row = logits + i * ${v};
//@ if masked then
        if (targets[i] < 0) { /* masked */
            losses[i] = 0;
            memset(row, 0, ${v} * sizeof *row);
            continue;
        }
//@ end
//@ if softcap > 0 then
        const ${acc} lse = ${fn}_lse(row);
//@ else
        const ${acc} lse = rt_row_lse_${suffix}(row, ${v});
//@ end
//@ if smoothing > 0 then
        /* The target's share, and the share of all tokens. */
        const ${acc} expected = ${lit(1 - smoothing)} * ${expected} +
//@   if softcap > 0 then
                               ${lit(smoothing / v)} * ${fn}_sum(row);
//@   else
                               ${lit(smoothing / v)} * rt_row_sum_${suffix}(row, ${v});
//@   end
//@   expected = "expected"
//@ end
        losses[i] = lse - ${expected}${z_loss};
//@ if plain then
        rt_row_softmax_minus_onehot_${suffix}(row, row, ${v}, lse, targets[i]);
//@ else
        const ${acc} scale = ${z > 0 and "1 + " .. lit(2 * z) .. " * lse" or "1"};
//@   if softcap > 0 then
        ${fn}_minus(row, row, lse, targets[i], scale${by}, ${lit(smoothing / v)}${by},
                    ${lit(1 - smoothing)}${by});
//@   else
        rt_row_softmax_minus_${suffix}(row, row, ${v}, lse, targets[i], scale${by},
                                       ${lit(smoothing / v)}${by}, ${lit(1 - smoothing)}${by});
//@   end
//@ end
    }
    for (int64_t i = 0; i < tokens; i++)
        sum += (double)losses[i];
    return sum;
}

//@ local results = "loss" .. (dx and (", dx[%d, %d]"):format(t, d) or "")
//@     .. (dw and (", dw[%d, %d]"):format(v, d) or "")
/* ${results} of cross_entropy(x w^T),
 * ${rows} tokens at a time; workspace: logits of those, then their losses */
static void ${fn}(const ${x.type} *restrict x, const ${w.type} *restrict w,
                  const int32_t *restrict targets, double *restrict loss,
//@ if dx then
                  ${dx.type} *restrict dx,
//@ end
//@ if dw then
                  ${dw.type} *restrict dw, float beta,
//@ end
                  char *restrict workspace${take})
{
    ${x.type} *logits = (${x.type} *)(void *)workspace;
    ${acc} *losses = (${acc} *)(void *)(workspace + ${logits_bytes});
    double sum = 0;
//@ if t // rows > 1 then
    for (int64_t i = 0; i < ${t - tail}; i += ${rows}) {
        rt_gemm(&${fn}_logits, x + i * ${d}, w, logits, 0.0f);
        sum = ${fn}_softmax(logits, targets + i, ${rows}, losses, sum${give});
//@   if dx then
        rt_gemm(&${fn}_dx, logits, w, dx + i * ${d}, 0.0f);
//@   end
//@   if dw then
        rt_gemm(&${fn}_dw, logits, x + i * ${d}, dw, i == 0 ? beta : 1.0f);
//@   end
    }
//@ else
    rt_gemm(&${fn}_logits, x, w, logits, 0.0f);
    sum = ${fn}_softmax(logits, targets, ${rows}, losses, sum${give});
//@   if dx then
    rt_gemm(&${fn}_dx, logits, w, dx, 0.0f);
//@   end
//@   if dw then
    rt_gemm(&${fn}_dw, logits, x, dw, beta);
//@   end
//@ end
//@ if tail > 0 then
    rt_gemm(&${fn}_tail_logits, x + ${(t - tail) * d}, w, logits, 0.0f);
    sum = ${fn}_softmax(logits, targets + ${t - tail}, ${tail}, losses, sum${give});
//@   if dx then
    rt_gemm(&${fn}_tail_dx, logits, w, dx + ${(t - tail) * d}, 0.0f);
//@   end
//@   if dw then
    rt_gemm(&${fn}_tail_dw, logits, x + ${(t - tail) * d}, dw, 1.0f);
//@   end
//@ end
    *loss = sum;
}
