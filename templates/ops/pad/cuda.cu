//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- pad: a block for each row; an access divides the rows, and where x begins and ends.
//@ local g = { width = width(first, x, width(c, x, width(cols, x))) }
//@ local threads = row_threads(cols // g.width, 256)
RT_GLOBAL(${threads})
${fn}(const ${x.type} *x, ${y.type} *y)
{
    const int64_t from = (int64_t)blockIdx.x * ${c} - ${first};
    const int64_t to = (int64_t)blockIdx.x * ${cols};
    for (int j = threadIdx.x * ${g.width}; j < ${cols}; j += ${threads * g.width}) {
        ${acc} v[${g.width}] = {};
        if (j >= ${first} && j < ${first + c})
            ${load("v", x, "from + j", g)};
        ${store(y, "to + j", "v", g)};
    }
}
//@ host
${kernel(fn, threads)}

/* y[${t}, ${cols}] = x[${t}, ${c}] from column ${first} on, and zeros */
static void ${fn}(Rt *rt, const ${x.type} *x, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${t}, 1, (void *[]){ &x, &y });
}
