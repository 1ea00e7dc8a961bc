//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- merge_heads: a block for each token; an access lies in one head.
//@ local t, c = r // heads, heads * hd
//@ local w = width(hd, x)
//@ local threads = row_threads(c // w, 256)
RT_GLOBAL(${threads})
${fn}(const ${x.type} *x, ${y.type} *y)
{
    const int64_t first = (int64_t)(blockIdx.x / ${seq}) * ${heads * seq} + blockIdx.x % ${seq};
    const int64_t to = (int64_t)blockIdx.x * ${c};
    for (int j = threadIdx.x * ${w}; j < ${c}; j += ${threads * w}) {
        const int64_t h = j / ${hd}; /* h * seq may exceed an int */
        rt_copy<${w}>(y + to + j, x + (first + h * ${seq}) * ${hd} + j - h * ${hd});
    }
}
//@ host
${kernel(fn, threads)}

/* y[${t}, ${c}] = the ${heads} heads of x[${r}, ${hd}] beside each other, sequences of ${seq} */
static void ${fn}(Rt *rt, const ${x.type} *x, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${t}, 1, (void *[]){ &x, &y });
}
