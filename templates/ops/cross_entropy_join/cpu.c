//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- cross_entropy_join: tokens among threads; the loss by one thread, in token order.
//@ local f = acc == "float" and "f" or ""
//@ local z_loss = z > 0 and " + " .. lit(z) .. " * lse[i] * lse[i]" or ""
/* The sum over parts, in order, of one of a token's numbers. */
RT_ALWAYS ${acc} ${fn}_sum(const ${acc} *of_token)
{
    ${acc} sum = of_token[0];
    for (int64_t k = 1; k < ${p}; k++)
        sum += of_token[k * ${t * c}];
    return sum;
}

/* log(sum(exp)) over all parts, relative to the largest logit of all */
RT_ALWAYS ${acc} ${fn}_lse(const ${acc} *of_token)
{
    ${acc} top = of_token[0];
    double total = 0;
    for (int64_t k = 1; k < ${p}; k++)
        top = of_token[k * ${t * c}] > top ? of_token[k * ${t * c}] : top;
    for (int64_t k = 0; k < ${p}; k++) {
        const ${acc} *of_part = of_token + k * ${t * c};
        total += (double)(of_part[1] * rt_exp${f}(of_part[0] - top));
    }
    return (${acc})((double)top + rt_log(total));
}

static void ${fn}(const ${acc} *restrict stats, const int32_t *restrict targets,
                  double *restrict loss, ${acc} *restrict lse)
{
//@ if not masked then
    (void)targets; /* all are targets */
//@ end
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
//@ if masked then
        if (targets[i] < 0) { /* masked */
            lse[i] = 0;
            continue;
        }
//@ end
        lse[i] = ${fn}_lse(stats + i * ${c});
    }
    double sum = 0;
    for (int64_t i = 0; i < ${t}; i++) {
//@ if masked then
        if (targets[i] < 0)
            continue;
//@ end
        const ${acc} target = ${fn}_sum(stats + i * ${c} + 2);
//@ if smoothing > 0 then
        /* The target's share, and the share of all tokens. */
        const ${acc} expected = ${lit(1 - smoothing)} * target +
                                ${lit(smoothing / vocab)} * ${fn}_sum(stats + i * ${c} + 3);
//@ else
        const ${acc} expected = target;
//@ end
        const ${acc} token_loss = lse[i] - expected${z_loss};
        sum += (double)token_loss;
    }
    *loss = sum;
}
