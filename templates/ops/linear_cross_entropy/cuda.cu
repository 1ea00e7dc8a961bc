//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- linear_cross_entropy: a chunk of tokens at a time: logits, then their gradient over them,
//@ -- then the two products that use it (one, where there is no dx or no dw). Rows of logits
//@ -- are padded to 16 bytes. The losses are added by one block at the end, in an order
//@ -- that the number of tokens fixes.
//@ local rows = math.min(chunk, t)
//@ local tail = t % rows
//@ local each = 16 // ({ bf16 = 2, f16 = 2, f32 = 4, f64 = 8 })[x.dtype]
//@ local stride = (v + each - 1) // each * each
//@ local g = long_row(v, x, stride)
//@ local by = scaled and " * *loss_scale" or ""
//@ local take, give = scaled and ", const float *loss_scale" or "", scaled and ", &loss_scale" or ""
//@ local row = { name = "row", type = x.type, dtype = x.dtype }
//@ local z_loss = z > 0 and " + " .. lit(z) .. " * lse * lse" or ""
//@ local logits_bytes = (16 // each * rows * stride + 63) // 64 * 64
//@ -- With a softcap rows are capped where they are loaded.
//@ local function access_of(what, x, g)
//@   if softcap == 0 then return access(what, x, g) end
//@   return (access(what, x, g):gsub("<%w+", "<" .. fn .. "_capped"))
//@ end
//@ if softcap > 0 then
${capped_rows(x, v, softcap, g)}
${capped_minus(x, v, softcap, g)}
//@ end
/* Replaces the logits of a token by their gradient, and computes its loss. */
RT_GLOBAL(${g.threads})
${fn}_softmax(${x.type} *logits, const int32_t *targets, ${acc} *losses${take})
{
    RT_SHARED(${acc}, part, ${g.warps});
    ${x.type} *row = logits + (int64_t)blockIdx.x * ${stride};
    const int32_t target = targets[blockIdx.x];
//@ if masked then
    if (target < 0) { /* masked */
        ${access("zero", x, g, acc)}(row);
        if (threadIdx.x == 0)
            losses[blockIdx.x] = 0;
        return;
    }
//@ end
    const ${acc} of_target = ${softcap > 0 and fn .. "_capped::load(row[target])" or ld(row, "target")}; /* before the row is overwritten */
    const ${acc} lse = ${access_of("lse", x, g)}(row, part);
//@ if smoothing > 0 then
    /* The target's share, and the share of all tokens. */
    const ${acc} all = ${access_of("sum", x, g)}(row, part);
    const ${acc} expected = ${lit(1 - smoothing)} * of_target + ${lit(smoothing / v)} * all;
//@ end
    if (threadIdx.x == 0)
        losses[blockIdx.x] = lse - ${smoothing > 0 and "expected" or "of_target"}${z_loss};
    const ${acc} scale = ${z > 0 and "(1 + " .. lit(2 * z) .. " * lse)" or lit(1)}${by};
    const ${acc} share = ${lit(smoothing / v)}${by}, hot = ${lit(1 - smoothing)}${by};
    ${softcap > 0 and fn .. "_minus" or access("softmax_minus", x, g)}(row, row, lse, target, scale, share, hot);
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
${kernel(fn .. "_softmax", g.threads)}
${kernel(fn .. "_loss", 1024)}
${gemm(fn .. "_logits", "NT", rows, v, d, x, x, { ldc = stride })}
//@ if dx then
${gemm(fn .. "_dx", "NN", rows, d, v, x, dx, { lda = stride })}
//@ end
//@ if dw then
${gemm(fn .. "_dw", "TN", v, d, rows, x, dw, { lda = stride })}
//@ end
//@ prepare: rt_matmul_prepare(&${fn}_logits);
//@ if dx then
//@ prepare: rt_matmul_prepare(&${fn}_dx);
//@ end
//@ if dw then
//@ prepare: rt_matmul_prepare(&${fn}_dw);
//@ end
//@ if tail > 0 then
/* The last chunk is shorter. */
${gemm(fn .. "_tail_logits", "NT", tail, v, d, x, x, { ldc = stride })}
//@   if dx then
${gemm(fn .. "_tail_dx", "NN", tail, d, v, x, dx, { lda = stride })}
//@   end
//@   if dw then
${gemm(fn .. "_tail_dw", "TN", v, d, tail, x, dw, { lda = stride })}
//@   end
//@ prepare: rt_matmul_prepare(&${fn}_tail_logits);
//@   if dx then
//@ prepare: rt_matmul_prepare(&${fn}_tail_dx);
//@   end
//@   if dw then
//@ prepare: rt_matmul_prepare(&${fn}_tail_dw);
//@   end
//@ end

//@ local results = "loss" .. (dx and (", dx[%d, %d]"):format(t, d) or "")
//@     .. (dw and (", dw[%d, %d]"):format(v, d) or "")
/* ${results} of cross_entropy(x w^T), ${rows} tokens at a time;
 * workspace: logits of those, [${rows}, ${stride}], then the loss of each token */
static void ${fn}(Rt *rt, const ${x.type} *x, const ${w.type} *w, const int32_t *targets,
                  double *loss,
//@ if dx then
                  ${dx.type} *dx,
//@ end
//@ if dw then
                  ${dw.type} *dw, float beta,
//@ end
                  char *workspace${take})
{
    ${x.type} *logits = (${x.type} *)(void *)workspace;
    ${acc} *losses = (${acc} *)(void *)(workspace + ${logits_bytes});
//@ if t // rows > 1 then
    for (int64_t i = 0; i < ${t - tail}; i += ${rows}) {
        const int32_t *chunk_targets = targets + i;
        ${acc} *chunk_losses = losses + i;
        rt_matmul(rt, &${fn}_logits, x + i * ${d}, w, logits, 0.0f);
        rt_launch(rt, &${fn}_softmax_kernel, ${rows}, 1,
                  (void *[]){ &logits, &chunk_targets, &chunk_losses${give} });
//@   if dx then
        rt_matmul(rt, &${fn}_dx, logits, w, dx + i * ${d}, 0.0f);
//@   end
//@   if dw then
        rt_matmul(rt, &${fn}_dw, logits, x + i * ${d}, dw, i == 0 ? beta : 1.0f);
//@   end
    }
//@ else
    rt_matmul(rt, &${fn}_logits, x, w, logits, 0.0f);
    rt_launch(rt, &${fn}_softmax_kernel, ${rows}, 1,
              (void *[]){ &logits, &targets, &losses${give} });
//@   if dx then
    rt_matmul(rt, &${fn}_dx, logits, w, dx, 0.0f);
//@   end
//@   if dw then
    rt_matmul(rt, &${fn}_dw, logits, x, dw, beta);
//@   end
//@ end
//@ if tail > 0 then
    const int32_t *tail_targets = targets + ${t - tail};
    ${acc} *tail_losses = losses + ${t - tail};
    rt_matmul(rt, &${fn}_tail_logits, x + ${(t - tail) * d}, w, logits, 0.0f);
    rt_launch(rt, &${fn}_softmax_kernel, ${tail}, 1,
              (void *[]){ &logits, &tail_targets, &tail_losses${give} });
//@   if dx then
    rt_matmul(rt, &${fn}_tail_dx, logits, w, dx + ${(t - tail) * d}, 0.0f);
//@   end
//@   if dw then
    rt_matmul(rt, &${fn}_tail_dw, logits, x + ${(t - tail) * d}, dw, 1.0f);
//@   end
//@ end
    rt_launch(rt, &${fn}_loss_kernel, 1, 1, (void *[]){ &losses, &loss });
}
