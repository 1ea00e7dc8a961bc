//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- slice: a block for each row; an access divides the rows and what lies before them.
//@ local w = width(first, x, width(c, x, width(cols, x)))
//@ local threads = row_threads(cols // w, 256)
RT_GLOBAL(${threads})
${fn}(const ${x.type} *x, ${y.type} *y)
{
    const int64_t from = (int64_t)blockIdx.x * ${c} + ${first};
    const int64_t to = (int64_t)blockIdx.x * ${cols};
    for (int j = threadIdx.x * ${w}; j < ${cols}; j += ${threads * w})
        rt_copy<${w}>(y + to + j, x + from + j);
}
//@ host
${kernel(fn, threads)}

/* y[${t}, ${cols}] = columns ${first} .. ${first + cols - 1} of x[${t}, ${c}] */
static void ${fn}(Rt *rt, const ${x.type} *x, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${t}, 1, (void *[]){ &x, &y });
}
