//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- qk_norm_bwd: a block for every 8 rows, a few lanes of a warp for each head; what heads
//@ -- add to both weights stays in registers, then in shared memory, then in the workspace.
//@ local normed, all = heads + kv_heads, heads + 2 * kv_heads
//@ local chunks = (t + 7) // 8 -- as op.lua has it
//@ local lanes = row_lanes(head_dim, qkv)
//@ local g = row(head_dim, qkv, lanes)
//@ local groups = 256 // lanes
//@ local part = dwq and ", " .. acc .. " *part" or ""
//@ local grads = dwq and (",\n%18s%s *dwq, %s *dwk, float beta, char *workspace"):format(
//@     "", dwq.type, dwk.type) or ""
//@ local weight = { name = "weight", dtype = wq.dtype }
RT_GLOBAL(256)
${fn}(const ${qkv.type} *qkv, const ${wq.type} *wq, const ${wk.type} *wk,
      const ${rstd.type} *rstd, const ${dy.type} *dy, ${dx.type} *dx${part})
{
//@ if dwq then
    RT_SHARED(${acc}, shared, ${256 * g.part});
    ${acc} sum_q[${g.part}] = {}, sum_k[${g.part}] = {};
//@ end
    const int group = threadIdx.x / ${lanes};
    const int64_t first = (int64_t)blockIdx.x * ${8 * all}; /* heads of 8 rows */
    for (int64_t from = first; from < first + ${8 * all}; from += ${groups}) {
        const int64_t index = from + group, at = index * ${head_dim};
        const int head = (int)(index % ${all});
        const bool here = index < first + ${8 * all} && index < ${t * all};
        const bool is_normed = here && head < ${normed}, is_q = head < ${heads};
        ${acc} h[${g.part}] = {}, e[${g.part}] = {}, scale[${g.part}] = {}, sum_eh = 0, r = 0;
        if (here)
            ${load("e", dy, "at", g)};
        if (is_normed) {
            const ${wq.type} *weight = is_q ? wq : wk;
            r = rstd[index / ${all} * ${normed} + head];
            ${load("h", qkv, "at", g)};
            ${load("scale", weight, "0", g)};
            for (int k = 0; k < ${g.part}; k++) {
                h[k] *= r;
//@ if dwq then
                sum_q[k] += is_q ? e[k] * h[k] : 0;
                sum_k[k] += is_q ? 0 : e[k] * h[k];
//@ end
                sum_eh += e[k] * scale[k] * h[k];
            }
        }
        const ${acc} mean_eh = rt_lanes_sum<${lanes}>(sum_eh) / ${head_dim};
        for (int k = 0; k < ${g.part}; k++)
            e[k] = is_normed ? r * (e[k] * scale[k] - h[k] * mean_eh) : e[k];
        if (here) { /* v unchanged */
            ${store(dx, "at", "e", g)};
        }
    }
//@ if dwq then
    for (int q_or_k = 0; q_or_k < 2; q_or_k++) {
        rt_block_sync();
        for (int k = 0; k < ${g.part}; k++)
            shared[threadIdx.x * ${g.part} + k] = q_or_k == 0 ? sum_q[k] : sum_k[k];
        rt_block_sync();
        for (int j = threadIdx.x; j < ${head_dim}; j += 256) {
            /* The place of column j among the threads of a group. */
            const int at = j / ${g.width} % ${lanes} * ${g.part} +
                           j / ${g.width * lanes} * ${g.width} + j % ${g.width};
            ${acc} sum = 0;
            for (int i = 0; i < ${groups}; i++)
                sum += shared[i * ${lanes * g.part} + at];
            part[((int64_t)blockIdx.x * 2 + q_or_k) * ${head_dim} + j] = sum;
        }
    }
//@ end
}

//@ if dwq then
/* The sums of the blocks in order: [${chunks}][of wq, of wk][${head_dim}]. */
RT_GLOBAL(1024)
${fn}_sum(const ${acc} *part, ${dwq.type} *dwq, ${dwk.type} *dwk, float beta)
{
    RT_SHARED(${acc}, shared, 1024);
    const ${acc} sum = rt_column_sum(part, ${chunks}, ${2 * head_dim}, shared);
    const int column = blockIdx.x * 32 + threadIdx.x, j = column % ${head_dim};
    if (threadIdx.x < 32 && column < ${2 * head_dim}) {
        ${dwq.type} *to = column < ${head_dim} ? dwq : dwk;
//@ local to = { name = "to", type = dwq.type, dtype = dwq.dtype }
        ${st(to, "j", "(beta == 0 ? 0 : " .. ld(to, "j") .. ") + sum")};
    }
}
//@ end
//@ host
${kernel(fn, 256)}
//@ if dwq then
${kernel(fn .. "_sum", 1024)}
//@ end

//@ if dwq then
/* dx[${t}, ${c}], dwq[${head_dim}] and dwk; part: both sums of every 8 rows */
//@ else
/* dx[${t}, ${c}] */
//@ end
static void ${fn}(Rt *rt, const ${qkv.type} *qkv, const ${wq.type} *wq, const ${wk.type} *wk,
                  const ${rstd.type} *rstd, const ${dy.type} *dy, ${dx.type} *dx${grads})
{
//@ if dwq then
    ${acc} *part = (${acc} *)(void *)workspace;
//@ end
    rt_launch(rt, &${fn}_kernel, ${chunks}, 1,
              (void *[]){ &qkv, &wq, &wk, &rstd, &dy, &dx${dwq and ", &part" or ""} });
//@ if dwq then
    rt_launch(rt, &${fn}_sum_kernel, ${(2 * head_dim + 31) // 32}, 1,
              (void *[]){ &part, &dwq, &dwk, &beta });
//@ end
}
