//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- qk_norm_bwd: a block for every 8 rows, a few lanes of a warp for each head; what heads
//@ -- add to both weights stays in registers, then in shared memory, then in the workspace.
//@ -- over_all: as rmsnorm_bwd, once for q and once for k.
//@ local normed, all = heads + kv_heads, heads + 2 * kv_heads
//@ local chunks = (t + 7) // 8 -- as op.lua has it
//@ local lanes = row_lanes(head_dim, qkv)
//@ local g = row(head_dim, qkv, lanes)
//@ local groups = 256 // lanes
//@ local scale_k = offset == 0 and "scale[k]" or "(scale[k] + " .. lit(offset) .. ")"
//@ local part = dwq and ", " .. acc .. " *part" or ""
//@ local grads = dwq and (",\n%18s%s *dwq, %s *dwk, float beta, char *workspace"):format(
//@     "", dwq.type, dwk.type) or ""
//@ local weight = { name = "weight", dtype = wq.dtype }
//@ -- For over_all: the blocks of a norm, and where its sums lie, in elements.
//@ local wide_q, wide_k = heads * head_dim, kv_heads * head_dim
//@ local blocks = not dwq and t or workspace // ((wide_q + wide_k) * acc_bytes)
//@ -- The gradient of the norm of `cols` columns from `first` on; the last one passes v on.
//@ local function norm(name, cols, first, weight, number)
//@   local g = row(cols, qkv, nil, width(head_dim, qkv))
//@   local long = g.part * acc_bytes > 64 -- too much for registers: read twice, an access at a time
//@   local one = { width = g.width }
//@   local sums = { dtype = rstd.dtype, name = "part" }
//@   local scaled = { name = weight, dtype = wq.dtype }
//@   local function long_row() -- in two passes
        ${acc} h[${g.width}], e[${g.width}], scale[${g.width}], sum_eh = 0;
${each_access(g)}
            ${load("h", qkv, "at + j", one)};
            ${load("e", dy, "at + j", one)};
            ${load("scale", scaled, "j", one)};
            for (int k = 0; k < ${g.width}; k++) {
                h[k] *= r;
//@     if dwq then
                sum_w[first + k] += e[k] * h[k];
//@     end
                e[k] *= ${scale_k};
                sum_eh += e[k] * h[k];
            }
        }
        const ${acc} mean_eh = rt_block_sum<${g.threads}>(sum_eh, shared) / ${cols};
${each_access(g)}
            ${load("h", qkv, "at + j", one)};
            ${load("e", dy, "at + j", one)};
            ${load("scale", scaled, "j", one)};
            for (int k = 0; k < ${g.width}; k++) {
                h[k] *= r;
                e[k] *= ${scale_k};
                e[k] = r * (e[k] - h[k] * mean_eh);
            }
            ${store(dx, "at + j", "e", one)};
        }
//@   end
RT_GLOBAL(${g.threads})
${fn}_${name}(const ${qkv.type} *qkv, const ${wq.type} *${weight}, const ${rstd.type} *rstd,
${(" "):rep(#fn + 2 + #name)}const ${dy.type} *dy, ${dx.type} *dx${part})
{
    RT_SHARED(${acc}, shared, ${g.warps});
//@   if not long then
    ${acc} scale[${g.part}];
//@   end
//@   if dwq then
    ${acc} sum_w[${g.part}] = {};
//@   end
//@   if not long then
    ${load("scale", scaled, "0", g)};
//@   end
    for (int64_t i = blockIdx.x; i < ${t}; i += ${blocks}) {
        const int64_t row = i * ${c}, at = row + ${first};
        const ${acc} r = rstd[i * 2 + ${number}];
//@   if long then
//@     long_row()
//@   else
        ${acc} h[${g.part}], e[${g.part}], sum_eh = 0;
        ${load("h", qkv, "at", g)};
        ${load("e", dy, "at", g)};
        for (int k = 0; k < ${g.part}; k++) {
            h[k] *= r;
//@   if dwq then
            sum_w[k] += e[k] * h[k];
//@   end
            e[k] *= ${scale_k};
            sum_eh += e[k] * h[k];
        }
        const ${acc} mean_eh = rt_block_sum<${g.threads}>(sum_eh, shared) / ${cols};
        for (int k = 0; k < ${g.part}; k++)
            e[k] = r * (e[k] - h[k] * mean_eh);
        ${store(dx, "at", "e", g)};
//@   end
//@   if number == 1 then
        for (int j = threadIdx.x * ${g.width}; j < ${cols}; j += ${g.threads * g.width})
            rt_copy<${g.width}>(dx + row + ${first + cols} + j, dy + row + ${first + cols} + j);
//@   end
    }
//@   if dwq then
    ${store(sums, "(int64_t)blockIdx.x * " .. cols, "sum_w", g)};
//@   end
}

//@   if dwq then
/* The sums of the blocks in order. */
//@     local to = { name = "to", type = dwq.type, dtype = dwq.dtype }
RT_GLOBAL(1024)
${fn}_${name}_sum(const ${acc} *part, ${dwq.type} *to, float beta)
{
    RT_SHARED(${acc}, shared, 1024);
    const ${acc} sum = rt_column_sum(part, ${blocks}, ${cols}, shared);
    const int j = blockIdx.x * 32 + threadIdx.x;
    if (threadIdx.x < 32 && j < ${cols})
        ${st(to, "j", "(beta == 0 ? 0 : " .. ld(to, "j") .. ") + sum")};
}

//@   end
//@ end
//@ if over_all then
//@   norm("q", wide_q, 0, "wq", 0)
//@   norm("k", wide_k, wide_q, "wk", 1)
//@ else
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
                sum_eh += e[k] * ${scale_k} * h[k];
            }
        }
        const ${acc} mean_eh = rt_lanes_sum<${lanes}>(sum_eh) / ${head_dim};
        for (int k = 0; k < ${g.part}; k++)
            e[k] = is_normed ? r * (e[k] * ${scale_k} - h[k] * mean_eh) : e[k];
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
//@ end
//@ host
//@ if over_all then
//@   for _, part in ipairs { { "_q", wide_q }, { "_k", wide_k } } do
${kernel(fn .. part[1], row(part[2], qkv, nil, width(head_dim, qkv)).threads)}
//@     if dwq then
${kernel(fn .. part[1] .. "_sum", 1024)}
//@     end
//@   end
//@ else
${kernel(fn, 256)}
//@ if dwq then
${kernel(fn .. "_sum", 1024)}
//@ end
//@ end

//@ if dwq then
/* dx[${t}, ${c}], dwq and dwk; part: sums of blocks for both */
//@ else
/* dx[${t}, ${c}] */
//@ end
static void ${fn}(Rt *rt, const ${qkv.type} *qkv, const ${wq.type} *wq, const ${wk.type} *wk,
                  const ${rstd.type} *rstd, const ${dy.type} *dy, ${dx.type} *dx${grads})
{
//@ if dwq then
    ${acc} *part = (${acc} *)(void *)workspace;
//@ end
//@ if over_all then
//@   local parts = dwq and ", &part" or ""
//@   for number, name in ipairs { "q", "k" } do
//@     local cols = number == 1 and wide_q or wide_k
//@     if dwq and number == 2 then
    part += ${blocks * wide_q};
//@     end
    rt_launch(rt, &${fn}_${name}_kernel, ${blocks}, 1,
              (void *[]){ &qkv, &w${name}, &rstd, &dy, &dx${parts} });
//@     if dwq then
    rt_launch(rt, &${fn}_${name}_sum_kernel, ${(cols + 31) // 32}, 1,
              (void *[]){ &part, &dw${name}, &beta });
//@     end
//@   end
//@ else
    rt_launch(rt, &${fn}_kernel, ${chunks}, 1,
              (void *[]){ &qkv, &wq, &wk, &rstd, &dy, &dx${dwq and ", &part" or ""} });
//@ if dwq then
    rt_launch(rt, &${fn}_sum_kernel, ${(2 * head_dim + 31) // 32}, 1,
              (void *[]){ &part, &dwq, &dwk, &beta });
//@ end
//@ end
}
