//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- cross_entropy_join: a thread for each token, then the losses by one block, in an order that
//@ -- the number of tokens fixes.
//@ local z_loss = z > 0 and " + " .. lit(z) .. " * of_row * of_row" or ""
RT_GLOBAL(256)
${fn}(const ${acc} *stats, const int32_t *targets, ${acc} *lse, ${acc} *losses)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= ${t})
        return;
//@ if masked then
    if (targets[i] < 0) { /* masked */
        lse[i] = 0;
        losses[i] = 0;
        return;
    }
//@ end
    const ${acc} *of_token = stats + (int64_t)i * ${c};
    ${acc} top = of_token[0], total = 0, target = of_token[2];
//@ if smoothing > 0 then
    ${acc} all = of_token[3];
//@ end
    for (int k = 1; k < ${p}; k++) {
        const ${acc} *of_part = of_token + (int64_t)k * ${t * c};
        top = of_part[0] > top ? of_part[0] : top;
        target += of_part[2];
//@ if smoothing > 0 then
        all += of_part[3];
//@ end
    }
    for (int k = 0; k < ${p}; k++) {
        const ${acc} *of_part = of_token + (int64_t)k * ${t * c};
        total += of_part[1] * rt_exp_of(of_part[0] - top);
    }
    const ${acc} of_row = top + rt_log_of(total);
//@ if smoothing > 0 then
    /* The target's share, and the share of all tokens. */
    const ${acc} expected = ${lit(1 - smoothing)} * target + ${lit(smoothing / vocab)} * all;
//@ else
    const ${acc} expected = target;
//@ end
    lse[i] = of_row;
    losses[i] = of_row - expected${z_loss};
}

RT_GLOBAL(1024)
${fn}_loss(const ${acc} *losses, double *loss)
{
    RT_SHARED(double, part, 32);
    double sum = 0;
    for (int i = threadIdx.x; i < ${t}; i += 1024)
        sum += (double)losses[i];
    sum = rt_block_sum<1024>(sum, part);
    if (threadIdx.x == 0)
        *loss = sum;
}
//@ host
${kernel(fn, 256)}
${kernel(fn .. "_loss", 1024)}

/* loss and lse[${t}] of stats[${p}, ${t}, ${c}]; workspace: the loss of each token */
static void ${fn}(Rt *rt, const ${acc} *stats, const int32_t *targets, double *loss, ${acc} *lse,
                  char *workspace)
{
    ${acc} *losses = (${acc} *)(void *)workspace;
    rt_launch(rt, &${fn}_kernel, ${(t + 255) // 256}, 1,
              (void *[]){ &stats, &targets, &lse, &losses });
    rt_launch(rt, &${fn}_loss_kernel, 1, 1, (void *[]){ &losses, &loss });
}
