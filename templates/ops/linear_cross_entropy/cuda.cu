//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- linear_cross_entropy: a chunk of tokens at a time: logits, then their gradient over them,
//@ -- then the two products that use it (one, where there is no dx or no dw). Rows of logits
//@ -- are padded to 16 bytes, and so is the number of rows of w where 16 bytes do not divide the
//@ -- vocabulary, by zeros, whose logits and gradients are 0: GPT-2's products of 50,257
//@ -- classes are 7 times as slow as those of 50,264 (H100, cuBLASLt 13.1). dw has no
//@ -- such rows; the few at its end are a product of their own. The losses are added by one
//@ -- block at the end, in an order that the number of tokens fixes.
//@ local rows = math.min(chunk, t)
//@ local tail = t % rows
//@ local each = 16 // ({ bf16 = 2, f16 = 2, f32 = 4, f64 = 8 })[x.dtype]
//@ local stride = (v + each - 1) // each * each
//@ local g = long_row(v, x, stride)
//@ local by = scaled and " * *loss_scale" or ""
//@ local take, give = scaled and ", const float *loss_scale" or "", scaled and ", &loss_scale" or ""
//@ local row = { name = "row", type = x.type, dtype = x.dtype }
//@ local z_loss = z > 0 and " + " .. lit(z) .. " * lse * lse" or ""
//@ local item = 16 // each
//@ local logits_bytes = (item * rows * stride + 63) // 64 * 64
//@ local odd = v % each
//@ local head_at = (logits_bytes + acc_bytes * t + 63) // 64 * 64
//@ local head = odd > 0 and "head" or "w"
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

//@ if odd > 0 then
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
${kernel(fn .. "_softmax", g.threads)}
${kernel(fn .. "_loss", 1024)}
//@ if odd > 0 then
${kernel(fn .. "_pad", grid(d, w).threads)}
//@ end
//@ -- A chunk's products; it begins at a multiple of `row`.
//@ local function products(name, rows, row)
//@   local function at_row(x) return row * d * (x.bytes // x.elems) end
//@   local head_at = odd > 0 and head_at or 0
${gemm(name .. "_logits", "NT", rows, stride, d, x, x, { a_at = at_row(x), b_at = head_at })}
//@ prepare: rt_matmul_prepare(&${name}_logits);
//@   if dx then
${gemm(name .. "_dx", "NN", rows, d, stride, x, dx, { b_at = head_at, c_at = at_row(dx) })}
//@ prepare: rt_matmul_prepare(&${name}_dx);
//@   end
//@   if dw and v > odd then
${gemm(name .. "_dw", "TN", v - odd, d, rows, x, dw, { lda = stride, b_at = at_row(x) })}
//@ prepare: rt_matmul_prepare(&${name}_dw);
//@   end
//@   if dw and odd > 0 then
//@     local more = { lda = stride, a_at = (v - odd) * item, b_at = at_row(x) }
//@     more.c_at = (v - odd) * d * (dw.bytes // dw.elems)
${gemm(name .. "_dw_odd", "TN", odd, d, rows, x, dw, more)}
//@ prepare: rt_matmul_prepare(&${name}_dw_odd);
//@   end
//@ end
//@ products(fn, rows, t // rows > 1 and rows or 0)
//@ if tail > 0 then
/* The last chunk is shorter. */
//@   products(fn .. "_tail", tail, t - tail)
//@ end
//@ local function add_dw(indent, name, x, beta)
//@   if dw and v > odd then
${indent}rt_matmul(rt, &${name}_dw, logits, ${x}, dw, ${beta});
//@   end
//@   if dw and odd > 0 then
${indent}rt_matmul(rt, &${name}_dw_odd, logits + ${v - odd}, ${x}, dw + ${(v - odd) * d}, ${beta});
//@   end
//@ end

//@ local results = "loss" .. (dx and (", dx[%d, %d]"):format(t, d) or "")
//@     .. (dw and (", dw[%d, %d]"):format(v, d) or "")
/* ${results} of cross_entropy(x w^T), ${rows} tokens at a time;
 * workspace: logits of those, [${rows}, ${stride}], then the loss of each token${odd > 0 and (", then w with\n * zeros below, [%d, %d]"):format(stride, d) or ""} */
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
//@ if odd > 0 then
    ${w.type} *head = (${w.type} *)(void *)(workspace + ${head_at});
    rt_launch(rt, &${fn}_pad_kernel, ${stride}, ${grid(d, w).blocks}, (void *[]){ &w, &head });
//@ end
//@ if t // rows > 1 then
    for (int64_t i = 0; i < ${t - tail}; i += ${rows}) {
        const int32_t *chunk_targets = targets + i;
        ${acc} *chunk_losses = losses + i;
        rt_matmul(rt, &${fn}_logits, x + i * ${d}, ${head}, logits, 0.0f);
        rt_launch(rt, &${fn}_softmax_kernel, ${rows}, 1,
                  (void *[]){ &logits, &chunk_targets, &chunk_losses${give} });
//@   if dx then
        rt_matmul(rt, &${fn}_dx, logits, ${head}, dx + i * ${d}, 0.0f);
//@   end
//@   add_dw("        ", fn, "x + i * " .. d, "i == 0 ? beta : 1.0f")
    }
//@ else
    rt_matmul(rt, &${fn}_logits, x, ${head}, logits, 0.0f);
    rt_launch(rt, &${fn}_softmax_kernel, ${rows}, 1,
              (void *[]){ &logits, &targets, &losses${give} });
//@   if dx then
    rt_matmul(rt, &${fn}_dx, logits, ${head}, dx, 0.0f);
//@   end
//@   add_dw("    ", fn, "x", "beta")
//@ end
//@ if tail > 0 then
    const int32_t *tail_targets = targets + ${t - tail};
    ${acc} *tail_losses = losses + ${t - tail};
    rt_matmul(rt, &${fn}_tail_logits, x + ${(t - tail) * d}, ${head}, logits, 0.0f);
    rt_launch(rt, &${fn}_softmax_kernel, ${tail}, 1,
              (void *[]){ &logits, &tail_targets, &tail_losses${give} });
//@   if dx then
    rt_matmul(rt, &${fn}_tail_dx, logits, ${head}, dx + ${(t - tail) * d}, 0.0f);
//@   end
//@   add_dw("    ", fn .. "_tail", "x + " .. (t - tail) * d, "1.0f")
//@ end
    rt_launch(rt, &${fn}_loss_kernel, 1, 1, (void *[]){ &losses, &loss });
}
