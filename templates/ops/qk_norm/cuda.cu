//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- qk_norm: y may be qkv. A few lanes of a warp for each head, v heads too, which they copy.
//@ -- over_all: a block for each token's q, and one for its k, as in rmsnorm.
//@ local f = acc == "float" and "f" or ""
//@ local scale_k = offset == 0 and "scale[k]" or "(scale[k] + " .. lit(offset) .. ")"
//@ local normed, all = heads + kv_heads, heads + 2 * kv_heads
//@ local lanes = row_lanes(head_dim, qkv)
//@ local g = row(head_dim, qkv, lanes)
//@ local per_block = 256 // lanes
//@ local blocks = (t * all + per_block - 1) // per_block
//@ local whole = t * all % per_block == 0
//@ -- The norm of `cols` columns from `first` on; the last one's blocks copy v.
//@ local function norm(name, cols, first, weight, number)
//@   local g = row(cols, qkv, nil, width(head_dim, qkv))
RT_GLOBAL(${g.threads})
${fn}_${name}(const ${qkv.type} *qkv, const ${wq.type} *${weight}, ${y.type} *y,
${(" "):rep(#fn + 2 + #name)}${rstd.type} *rstd)
{
    RT_SHARED(${acc}, part, ${g.warps});
    const int64_t row = (int64_t)blockIdx.x * ${c}, at = row + ${first};
    ${acc} v[${g.part}], scale[${g.part}], squares = 0;
    ${load("v", qkv, "at", g)};
    ${load("scale", { name = weight, dtype = wq.dtype }, "0", g)};
    for (int k = 0; k < ${g.part}; k++)
        squares += v[k] * v[k];
    squares = rt_block_sum<${g.threads}>(squares, part);
    const ${acc} r = 1 / rt_sqrt${f}(squares / ${cols} + ${lit(eps)});
    if (threadIdx.x == 0)
        rstd[(int64_t)blockIdx.x * 2 + ${number}] = r;
    for (int k = 0; k < ${g.part}; k++)
        v[k] = v[k] * r * ${scale_k};
    ${store(y, "at", "v", g)};
//@   if number == 1 then
    if (y != qkv) { /* v as it is */
        for (int j = threadIdx.x * ${g.width}; j < ${cols}; j += ${g.threads * g.width})
            rt_copy<${g.width}>(y + row + ${first + cols} + j, qkv + row + ${first + cols} + j);
    }
//@   end
}

//@ end
//@ if over_all then
//@   norm("q", heads * head_dim, 0, "wq", 0)
//@   norm("k", kv_heads * head_dim, heads * head_dim, "wk", 1)
//@ else
RT_GLOBAL(256)
${fn}(const ${qkv.type} *qkv, const ${wq.type} *wq, const ${wk.type} *wk, ${y.type} *y,
      ${rstd.type} *rstd)
{
    const int64_t index = (int64_t)blockIdx.x * ${per_block} + threadIdx.x / ${lanes};
    const int64_t at = index * ${head_dim}, token = index / ${all};
    const int head = (int)(index % ${all});
    const bool here = ${whole and "true" or "index < " .. t * all};
    ${acc} v[${g.part}] = {}, scale[${g.part}], squares = 0;
    if (here)
        ${load("v", qkv, "at", g)};
    for (int k = 0; k < ${g.part}; k++)
        squares += v[k] * v[k];
    squares = rt_lanes_sum<${lanes}>(squares);
    if (!here || (head >= ${normed} && y == qkv)) { /* v unchanged */
        return;
    }
    if (head < ${normed}) {
        const ${acc} r = 1 / rt_sqrt${f}(squares / ${head_dim} + ${lit(eps)});
        if (threadIdx.x % ${lanes} == 0)
            rstd[token * ${normed} + head] = r;
        const ${wq.type} *weight = head < ${heads} ? wq : wk;
        ${load("scale", { name = "weight", dtype = wq.dtype }, "0", g)};
        for (int k = 0; k < ${g.part}; k++)
            v[k] = v[k] * r * ${scale_k};
    }
    ${store(y, "at", "v", g)};
}
//@ end
//@ host
//@ if over_all then
//@   for _, part in ipairs { { "_q", heads }, { "_k", kv_heads } } do
${kernel(fn .. part[1], row(part[2] * head_dim, qkv, nil, width(head_dim, qkv)).threads)}
//@   end
//@ else
${kernel(fn, 256)}
//@ end

/* y[${t}, ${c}], rstd[${t}, ${over_all and 2 or normed}] */
static void ${fn}(Rt *rt, const ${qkv.type} *qkv, const ${wq.type} *wq, const ${wk.type} *wk,
                  ${y.type} *y, ${rstd.type} *rstd)
{
//@ if over_all then
    rt_launch(rt, &${fn}_q_kernel, ${t}, 1, (void *[]){ &qkv, &wq, &y, &rstd });
    rt_launch(rt, &${fn}_k_kernel, ${t}, 1, (void *[]){ &qkv, &wk, &y, &rstd });
//@ else
    rt_launch(rt, &${fn}_kernel, ${blocks}, 1, (void *[]){ &qkv, &wq, &wk, &y, &rstd });
//@ end
}
