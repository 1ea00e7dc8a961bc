//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- split: a block for each row; an access divides the rows and both parts.
//@ local rest = c - at
//@ local w = width(at, x, width(c, x))
//@ local threads = row_threads(c // w, 256)
RT_GLOBAL(${threads})
${fn}(const ${x.type} *x, ${left.type} *left, ${right.type} *right)
{
    const int64_t row = blockIdx.x;
    for (int j = threadIdx.x * ${w}; j < ${c}; j += ${threads * w}) {
        if (j < ${at})
            rt_copy<${w}>(left + row * ${at} + j, x + row * ${c} + j);
        else
            rt_copy<${w}>(right + row * ${rest} + j - ${at}, x + row * ${c} + j);
    }
}
//@ host
${kernel(fn, threads)}

/* left[${t}, ${at}], right[${t}, ${rest}] = x[${t}, ${c}] */
static void ${fn}(Rt *rt, const ${x.type} *x, ${left.type} *left, ${right.type} *right)
{
    rt_launch(rt, &${fn}_kernel, ${t}, 1, (void *[]){ &x, &left, &right });
}
