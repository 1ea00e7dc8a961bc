//@ local f_ = acc == "float" and "f" or ""
//@ local place = grid(x.elems, x)
/* SPDX-License-Identifier: Apache-2.0 */
/* ${fn}: y = x * sigmoid(g), ${t} rows of ${d} */
RT_GLOBAL(${place.threads})
${fn}(const ${x.type} *x, const ${g.type} *g, ${y.type} *y)
{
    const int64_t at = ((int64_t)blockIdx.x * ${place.threads} + threadIdx.x) * ${place.width};
//@ if not place.whole then
    if (at >= ${x.elems})
        return;
//@ end
    ${acc} u[${place.width}], v[${place.width}];
    ${load("u", x, "at", place)};
    ${load("v", g, "at", place)};
    for (int k = 0; k < ${place.width}; k++)
        u[k] *= rt_sigmoid${f_}(v[k]);
    ${store(y, "at", "u", place)};
}
//@ host
${kernel(fn, place.threads)}

static void ${fn}(Rt *rt, const ${x.type} *x, const ${g.type} *g, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${place.blocks}, 1, (void *[]){ &x, &g, &y });
}
