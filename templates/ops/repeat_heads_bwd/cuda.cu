//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- repeat_heads_bwd: a block for each row; an access lies in one head.
//@ local hd, times = c // (heads + 2 * copies), copies // kv_heads
//@ local q, wide = heads * hd, (heads + 2 * kv_heads) * hd
//@ local g = { width = width(hd, dy) }
//@ local threads = row_threads(wide // g.width, 256)
RT_GLOBAL(${threads})
${fn}(const ${dy.type} *dy, ${dqkv.type} *dqkv)
{
    const int64_t from = (int64_t)blockIdx.x * ${c}, to = (int64_t)blockIdx.x * ${wide};
    for (int j = threadIdx.x * ${g.width}; j < ${wide}; j += ${threads * g.width}) {
        const int summed = j - ${q}; /* columns of k and v before it */
        if (summed < 0) {
            rt_copy<${g.width}>(dqkv + to + j, dy + from + j);
            continue;
        }
        const int64_t at = from + ${q} + summed / ${hd} * ${times * hd} + summed % ${hd};
        ${acc} sum[${g.width}];
        ${load("sum", dy, "at", g)};
        for (int copy = 1; copy < ${times}; copy++) {
            ${acc} v[${g.width}];
            ${load("v", dy, "at + copy * " .. hd, g)};
            for (int k = 0; k < ${g.width}; k++)
                sum[k] += v[k];
        }
        ${store(dqkv, "to + j", "sum", g)};
    }
}
//@ host
${kernel(fn, threads)}

/* dqkv[${t}, ${wide}] = dy[${t}, ${c}], the sum of ${times} copies of each head of k and v */
static void ${fn}(Rt *rt, const ${dy.type} *dy, ${dqkv.type} *dqkv)
{
    rt_launch(rt, &${fn}_kernel, ${t}, 1, (void *[]){ &dy, &dqkv });
}
