//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- linear_loss: a chunk of tokens at a time: logits, then the losses, as
//@ -- linear_cross_entropy computes them. Parts that do not have the token give -0.0.
//@ local rows = math.min(chunk, t)
//@ local tail = t % rows
//@ local suffix = ({ rt_bf16 = "bf16", rt_f16 = "f16", float = "f32", double = "f64" })[x.type]
//@ local elem_bytes = ({ rt_bf16 = 2, rt_f16 = 2, float = 4, double = 8 })[x.type]
//@ local expected = ld({ name = "of_token", type = x.type }, "targets[i]")
//@ local function capped(e)
//@   local f = acc == "float" and "f" or ""
//@   return lit(softcap) .. " * rt_tanh" .. f .. "(" .. e .. " * " .. lit(1 / softcap) .. ")"
//@ end
//@ if softcap > 0 then expected = capped(expected) end
//@ local z_loss = z > 0 and " + " .. lit(z) .. " * lse * lse" or ""
//@ local logits_bytes = (elem_bytes * rows * v + 63) // 64 * 64
${gemm(fn .. "_logits", "NT", rows, v, d, x, x)}
//@ prepare: rt_gemm_prepare(&${fn}_logits);
//@ if tail > 0 then
/* The last chunk is shorter. */
${gemm(fn .. "_tail_logits", "NT", tail, v, d, x, x)}
//@ prepare: rt_gemm_prepare(&${fn}_tail_logits);
//@ end

//@ if softcap > 0 then
${capped_rows({ type = x.type, dtype = suffix }, v, softcap)}
//@ end
/* Adds the losses of logits [tokens, ${v}] to sum in token order; copies those of token
 * row, if it is among them. */
static double ${fn}_losses(const ${x.type} *logits, const int32_t *targets, int64_t tokens,
                           ${acc} *losses, double sum, int64_t row, ${x.type} *next_logits)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < tokens; i++) {
        const ${x.type} *of_token = logits + i * ${v};
//@ if masked then
        if (targets[i] < 0) { /* masked */
            losses[i] = 0;
            continue;
        }
//@ end
//@ if softcap > 0 then
        const ${acc} lse = ${fn}_lse(of_token);
//@ else
        const ${acc} lse = rt_row_lse_${suffix}(of_token, ${v});
//@ end
//@ if smoothing > 0 then
        /* The target's share, and the share of all tokens. */
        const ${acc} expected = ${lit(1 - smoothing)} * ${expected} +
//@   if softcap > 0 then
                               ${lit(smoothing / v)} * ${fn}_sum(of_token);
//@   else
                               ${lit(smoothing / v)} * rt_row_sum_${suffix}(of_token, ${v});
//@   end
//@   expected = "expected"
//@ end
        losses[i] = lse - ${expected}${z_loss};
    }
    for (int64_t i = 0; i < tokens; i++)
        sum += (double)losses[i];
    if (row >= 0 && row < tokens)
//@ if softcap > 0 then
        for (int64_t j = 0; j < ${v}; j++)
            ${st(next_logits, "j", capped(ld({ name = "logits", type = x.type, dtype = suffix }, "row * " .. v .. " + j")))};
//@ else
        memcpy(next_logits, logits + row * ${v}, ${v} * sizeof *logits);
//@ end
    return sum;
}

/* loss of cross_entropy(x w^T), next_logits[${v}] of token row, ${rows} tokens at a time;
 * workspace: logits of those, then their losses */
static void ${fn}(const ${x.type} *restrict x, const ${w.type} *restrict w,
                  const int32_t *restrict targets, const int32_t *restrict row,
//@ if part then
                  const int32_t *restrict part, double *restrict loss,
                  ${next_logits.type} *restrict next_logits, char *restrict workspace)
//@ else
                  double *restrict loss, ${next_logits.type} *restrict next_logits,
                  char *restrict workspace)
//@ end
{
    ${x.type} *logits = (${x.type} *)(void *)workspace;
    ${acc} *losses = (${acc} *)(void *)(workspace + ${logits_bytes});
    double sum = 0;
//@ local at = part and "at" or "*row"
//@ if part and parts == 1 then
    const int64_t at = *row - (int64_t)*part * ${t}; /* of the row in x */
//@ elseif part then
    int64_t at = -1; /* of the row in x */
    for (int k = 0; k < ${parts}; k++) {
        const int64_t i = *row - (int64_t)part[k] * ${t // parts};
        if (i >= 0 && i < ${t // parts})
            at = k * ${t // parts} + i;
    }
//@ end
//@ if part then
    for (int64_t j = 0; j < ${v}; j++) /* x + -0.0 is x, also if x is -0.0 */
        ${st(next_logits, "j", acc == "float" and "-0.0f" or "-0.0")};
//@ end
//@ if t // rows > 1 then
    for (int64_t i = 0; i < ${t - tail}; i += ${rows}) {
        rt_gemm(&${fn}_logits, x + i * ${d}, w, logits, 0.0f);
        sum = ${fn}_losses(logits, targets + i, ${rows}, losses, sum,
                           ${at} - i, next_logits);
    }
//@ else
    rt_gemm(&${fn}_logits, x, w, logits, 0.0f);
    sum = ${fn}_losses(logits, targets, ${rows}, losses, sum, ${at},
                       next_logits);
//@ end
//@ if tail > 0 then
    rt_gemm(&${fn}_tail_logits, x + ${(t - tail) * d}, w, logits, 0.0f);
    sum = ${fn}_losses(logits, targets + ${t - tail}, ${tail}, losses,
                       sum, ${at} - ${t - tail}, next_logits);
//@ end
    *loss = sum;
}
