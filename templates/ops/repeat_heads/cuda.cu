//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- repeat_heads: a block for each row; an access lies in one head.
//@ local hd, times = c // (heads + 2 * kv_heads), copies // kv_heads
//@ local q, wide = heads * hd, (heads + 2 * copies) * hd
//@ local w = width(hd, qkv)
//@ local threads = row_threads(wide // w, 256)
RT_GLOBAL(${threads})
${fn}(const ${qkv.type} *qkv, ${y.type} *y)
{
    const int64_t from = (int64_t)blockIdx.x * ${c}, to = (int64_t)blockIdx.x * ${wide};
    for (int j = threadIdx.x * ${w}; j < ${wide}; j += ${threads * w}) {
        const int copied = j - ${q}; /* columns of k and v before it */
        const int at = copied < 0 ? j : ${q} + copied / ${times * hd} * ${hd} + copied % ${hd};
        rt_copy<${w}>(y + to + j, qkv + from + at);
    }
}
//@ host
${kernel(fn, threads)}

/* y[${t}, ${wide}] = qkv[${t}, ${c}], each of ${2 * kv_heads} heads of k and v ${times} times */
static void ${fn}(Rt *rt, const ${qkv.type} *qkv, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${t}, 1, (void *[]){ &qkv, &y });
}
