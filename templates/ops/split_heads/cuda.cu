//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- split_heads: a block for each token; an access lies in one head.
//@ local hd = c // heads
//@ local w = width(hd, x)
//@ local threads = row_threads(c // w, 256)
RT_GLOBAL(${threads})
${fn}(const ${x.type} *x, ${y.type} *y)
{
    const int64_t first = (int64_t)(blockIdx.x / ${seq}) * ${heads * seq} + blockIdx.x % ${seq};
    const int64_t from = (int64_t)blockIdx.x * ${c};
    for (int j = threadIdx.x * ${w}; j < ${c}; j += ${threads * w}) {
        const int64_t h = j / ${hd}; /* h * seq may exceed an int */
        rt_copy<${w}>(y + (first + h * ${seq}) * ${hd} + j - h * ${hd}, x + from + j);
    }
}
//@ host
${kernel(fn, threads)}

/* y[${t * heads}, ${hd}] = the ${heads} heads of x[${t}, ${c}], sequences of ${seq} */
static void ${fn}(Rt *rt, const ${x.type} *x, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${t}, 1, (void *[]){ &x, &y });
}
