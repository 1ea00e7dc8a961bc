//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- cross_entropy: rows among threads; the loss by one thread, in token order.
//@ local expected = ld(logits, "at")
//@ if softcap > 0 then
//@   local f = acc == "float" and "f" or ""
//@   expected = lit(softcap) .. " * rt_tanh" .. f .. "(" .. expected .. " * " .. lit(1 / softcap) .. ")"
${capped_rows(logits, v, softcap)}
//@ end
//@ local z_loss = z > 0 and " + " .. lit(z) .. " * lse[i] * lse[i]" or ""
static void ${fn}(const ${logits.type} *restrict logits, const int32_t *restrict targets,
                  double *restrict loss, ${lse.type} *restrict lse)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
//@ if masked then
        if (targets[i] < 0) { /* masked */
            lse[i] = 0;
            continue;
        }
//@ end
//@ if softcap > 0 then
        lse[i] = ${fn}_lse(logits + i * ${v});
//@ else
        lse[i] = rt_row_lse_${logits.dtype}(logits + i * ${v}, ${v});
//@ end
    }
    double sum = 0;
    for (int64_t i = 0; i < ${t}; i++) {
//@ if masked then
        if (targets[i] < 0)
            continue;
//@ end
        const int64_t at = i * ${v} + targets[i];
//@ if smoothing > 0 then
        /* The target's share, and the share of all tokens. */
        const ${acc} expected =
            ${lit(1 - smoothing)} * ${expected} +
//@   if softcap > 0 then
            ${lit(smoothing / v)} * ${fn}_sum(logits + i * ${v});
//@   else
            ${lit(smoothing / v)} * rt_row_sum_${logits.dtype}(logits + i * ${v}, ${v});
//@   end
//@   expected = "expected"
//@ end
        const ${acc} token_loss = lse[i] - ${expected}${z_loss};
        sum += (double)token_loss;
    }
    *loss = sum;
}
