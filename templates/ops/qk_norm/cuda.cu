//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- qk_norm: y may be qkv. A few lanes of a warp for each head, v heads too, which they copy.
//@ local f = acc == "float" and "f" or ""
//@ local normed, all = heads + kv_heads, heads + 2 * kv_heads
//@ local lanes = row_lanes(head_dim, qkv)
//@ local g = row(head_dim, qkv, lanes)
//@ local per_block = 256 // lanes
//@ local blocks = (t * all + per_block - 1) // per_block
//@ local whole = t * all % per_block == 0
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
            v[k] = v[k] * r * scale[k];
    }
    ${store(y, "at", "v", g)};
}
//@ host
${kernel(fn, 256)}

/* y[${t}, ${c}], rstd[${t}, ${normed}] */
static void ${fn}(Rt *rt, const ${qkv.type} *qkv, const ${wq.type} *wq, const ${wk.type} *wk,
                  ${y.type} *y, ${rstd.type} *rstd)
{
    rt_launch(rt, &${fn}_kernel, ${blocks}, 1, (void *[]){ &qkv, &wq, &wk, &y, &rstd });
}
