//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- linear_loss: a chunk of tokens at a time: logits, then the losses, as
//@ -- linear_cross_entropy computes them, with the same zeros below w; the block of token row
//@ -- copies its logits. Parts that do not have the token give -0.0.
//@ local rows = math.min(chunk, t)
//@ local tail = t % rows
//@ local each = 16 // ({ bf16 = 2, f16 = 2, f32 = 4, f64 = 8 })[x.dtype]
//@ local stride = (v + each - 1) // each * each
//@ local g = long_row(v, x, stride)
//@ local of_token = { name = "of_token", type = x.type, dtype = x.dtype }
//@ local z_loss = z > 0 and " + " .. lit(z) .. " * lse * lse" or ""
//@ local logits_bytes = (16 // each * rows * stride + 63) // 64 * 64
//@ local head_at = (logits_bytes + acc_bytes * t + 63) // 64 * 64
//@ local head = v < stride and "head" or "w"
//@ local b_at = v < stride and head_at or 0
//@ local chunk_at = t // rows > 1 and rows * d * (16 // each) or 0
//@ local tail_at = (t - tail) * d * (16 // each)
//@ -- With a softcap rows are capped where they are loaded.
//@ local function access_of(what, x, g)
//@   if softcap == 0 then return access(what, x, g) end
//@   return (access(what, x, g):gsub("<%w+", "<" .. fn .. "_capped"))
//@ end
//@ if softcap > 0 then
${capped_rows(x, v, softcap, g)}
//@ end
//@ local at, take, give = "*row", part and ", const int32_t *part" or "", part and ", &part" or ""
//@ local number = part and ", const int32_t *number" or "" -- `part` is shared memory
/* The loss of token first + blockIdx.x; and its logits, if it is token row. */
RT_GLOBAL(${g.threads})
${fn}_losses(const ${x.type} *logits, const int32_t *targets, ${acc} *losses, const int32_t *row${number},
             int first, ${next_logits.type} *next_logits)
{
    RT_SHARED(${acc}, part, ${g.warps});
    const ${x.type} *of_token = logits + (int64_t)blockIdx.x * ${stride};
    const int32_t target = targets[blockIdx.x];
//@ if part then
//@ at = "at"
//@ if parts == 1 then
    const int64_t at = *row - (int64_t)*number * ${t}; /* of the row in x */
    if (first + blockIdx.x == 0 && (at < 0 || at >= ${t})) {
//@ else
    int64_t at = -1; /* of the row in x */
    for (int k = 0; k < ${parts}; k++) {
        const int64_t i = *row - (int64_t)number[k] * ${t // parts};
        if (i >= 0 && i < ${t // parts})
            at = k * ${t // parts} + i;
    }
    if (first + blockIdx.x == 0 && at < 0) {
//@ end
        for (int j = threadIdx.x; j < ${v}; j += ${g.threads})
            ${st(next_logits, "j", "-0.0" .. (acc == "float" and "f" or ""))}; /* x + -0.0 is x, also if x is -0.0 */
    }
//@ end
    if (first + (int)blockIdx.x == ${at}) {
        for (int j = threadIdx.x; j < ${v}; j += ${g.threads})
            ${softcap > 0 and st(next_logits, "j", fn .. "_capped::load(of_token[j])") or "next_logits[j] = of_token[j]"};
    }
//@ if masked then
    if (target < 0) { /* masked */
        if (threadIdx.x == 0)
            losses[blockIdx.x] = 0;
        return;
    }
//@ end
    const ${acc} lse = ${access_of("lse", x, g)}(of_token, part);
//@ local expected = ld(of_token, "target")
//@ if softcap > 0 then expected = fn .. "_capped::load(of_token[target])" end
//@ if smoothing > 0 then
    /* The target's share, and the share of all tokens. */
    const ${acc} all = ${access_of("sum", x, g)}(of_token, part);
    const ${acc} expected = ${lit(1 - smoothing)} * ${expected} + ${lit(smoothing / v)} * all;
//@ expected = "expected"
//@ end
    if (threadIdx.x == 0)
        losses[blockIdx.x] = lse - ${expected}${z_loss};
}

//@ if v < stride then
${padded(fn, w, v, d, stride, acc)}

//@ end
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
${kernel(fn .. "_losses", g.threads)}
${kernel(fn .. "_loss", 1024)}
//@ if v < stride then
${kernel(fn .. "_pad", grid(d, w).threads)}
//@ end
${gemm(fn .. "_logits", "NT", rows, stride, d, x, x, { a_at = chunk_at, b_at = b_at })}
//@ prepare: rt_matmul_prepare(&${fn}_logits);
//@ if tail > 0 then
/* The last chunk is shorter. */
${gemm(fn .. "_tail_logits", "NT", tail, stride, d, x, x, { a_at = tail_at, b_at = b_at })}
//@ prepare: rt_matmul_prepare(&${fn}_tail_logits);
//@ end

/* loss of cross_entropy(x w^T), next_logits[${v}] of token row, ${rows} tokens at a time;
 * workspace: logits of those, [${rows}, ${stride}], then the loss of each token${v < stride and (", then w with\n * zeros below, [%d, %d]"):format(stride, d) or ""} */
static void ${fn}(Rt *rt, const ${x.type} *x, const ${w.type} *w, const int32_t *targets,
                  const int32_t *row${take}, double *loss, ${next_logits.type} *next_logits,
                  char *workspace)
{
    ${x.type} *logits = (${x.type} *)(void *)workspace;
    ${acc} *losses = (${acc} *)(void *)(workspace + ${logits_bytes});
//@ if v < stride then
    ${w.type} *head = (${w.type} *)(void *)(workspace + ${head_at});
    rt_launch(rt, &${fn}_pad_kernel, ${stride}, ${grid(d, w).blocks}, (void *[]){ &w, &head });
//@ end
//@ if t // rows > 1 then
    for (int i = 0; i < ${t - tail}; i += ${rows}) {
        const int32_t *chunk_targets = targets + i;
        ${acc} *chunk_losses = losses + i;
        rt_matmul(rt, &${fn}_logits, x + (int64_t)i * ${d}, ${head}, logits, 0.0f);
        rt_launch(rt, &${fn}_losses_kernel, ${rows}, 1,
                  (void *[]){ &logits, &chunk_targets, &chunk_losses, &row${give}, &i, &next_logits });
    }
//@ else
    int first = 0;
    rt_matmul(rt, &${fn}_logits, x, ${head}, logits, 0.0f);
    rt_launch(rt, &${fn}_losses_kernel, ${rows}, 1,
              (void *[]){ &logits, &targets, &losses, &row${give}, &first, &next_logits });
//@ end
//@ if tail > 0 then
    int tail_first = ${t - tail};
    const int32_t *tail_targets = targets + ${t - tail};
    ${acc} *tail_losses = losses + ${t - tail};
    rt_matmul(rt, &${fn}_tail_logits, x + ${(t - tail) * d}, ${head}, logits, 0.0f);
    rt_launch(rt, &${fn}_losses_kernel, ${tail}, 1,
              (void *[]){ &logits, &tail_targets, &tail_losses, &row${give}, &tail_first, &next_logits });
//@ end
    rt_launch(rt, &${fn}_loss_kernel, 1, 1, (void *[]){ &losses, &loss });
}
