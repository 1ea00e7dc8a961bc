//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- cross_entropy: a block for each row, then the losses by one block, in an order that the
//@ -- number of tokens fixes.
//@ local g = long_row(v, logits)
//@ local z_loss = z > 0 and " + " .. lit(z) .. " * of_row * of_row" or ""
//@ -- With a softcap rows are capped where they are loaded.
//@ local function access_of(what, x, g)
//@   if softcap == 0 then return access(what, x, g) end
//@   return (access(what, x, g):gsub("<%w+", "<" .. fn .. "_capped"))
//@ end
//@ if softcap > 0 then
${capped_rows(logits, v, softcap, g)}
//@ end
RT_GLOBAL(${g.threads})
${fn}(const ${logits.type} *logits, const int32_t *targets, ${lse.type} *lse, ${acc} *losses)
{
    RT_SHARED(${acc}, part, ${g.warps});
    const ${logits.type} *row = logits + (int64_t)blockIdx.x * ${v};
    const int32_t target = targets[blockIdx.x];
//@ if masked then
    if (target < 0) { /* masked */
        if (threadIdx.x == 0) {
            lse[blockIdx.x] = 0;
            losses[blockIdx.x] = 0;
        }
        return;
    }
//@ end
    const ${acc} of_row = ${access_of("lse", logits, g)}(row, part);
//@ local expected = ld({ name = "row", type = logits.type, dtype = logits.dtype }, "target")
//@ if softcap > 0 then expected = fn .. "_capped::load(row[target])" end
//@ if smoothing > 0 then
    /* The target's share, and the share of all tokens. */
    const ${acc} all = ${access_of("sum", logits, g)}(row, part);
    const ${acc} expected = ${lit(1 - smoothing)} * ${expected} + ${lit(smoothing / v)} * all;
//@   expected = "expected"
//@ end
    if (threadIdx.x == 0) {
        lse[blockIdx.x] = of_row;
        losses[blockIdx.x] = of_row - ${expected}${z_loss};
    }
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
${kernel(fn, g.threads)}
${kernel(fn .. "_loss", 1024)}

/* loss and lse[${t}] of logits[${t}, ${v}]; workspace: the loss of each token */
static void ${fn}(Rt *rt, const ${logits.type} *logits, const int32_t *targets, double *loss,
                  ${lse.type} *lse, char *workspace)
{
    ${acc} *losses = (${acc} *)(void *)workspace;
    rt_launch(rt, &${fn}_kernel, ${t}, 1, (void *[]){ &logits, &targets, &lse, &losses });
    rt_launch(rt, &${fn}_loss_kernel, 1, 1, (void *[]){ &losses, &loss });
}
