//@ local f_ = acc == "float" and "f" or ""
//@ local place = grid(x.elems, x)
/* SPDX-License-Identifier: Apache-2.0 */
/* ${fn}: dx = dy * s, dg = dy * x * s * (1 - s), s = sigmoid(g) */
RT_GLOBAL(${place.threads})
${fn}(const ${x.type} *x, const ${g.type} *g, const ${dy.type} *dy, ${dx.type} *dx, ${dg.type} *dg)
{
    const int64_t at = ((int64_t)blockIdx.x * ${place.threads} + threadIdx.x) * ${place.width};
//@ if not place.whole then
    if (at >= ${x.elems})
        return;
//@ end
    ${acc} u[${place.width}], v[${place.width}], d[${place.width}];
    ${load("u", x, "at", place)};
    ${load("v", g, "at", place)};
    ${load("d", dy, "at", place)};
    for (int k = 0; k < ${place.width}; k++) {
        const ${acc} s = rt_sigmoid${f_}(v[k]);
        v[k] = d[k] * u[k] * (s * (1 - s));
        u[k] = d[k] * s;
    }
    ${store(dx, "at", "u", place)};
    ${store(dg, "at", "v", place)};
}
//@ host
${kernel(fn, place.threads)}

static void ${fn}(Rt *rt, const ${x.type} *x, const ${g.type} *g, const ${dy.type} *dy,
                  ${dx.type} *dx, ${dg.type} *dg)
{
    rt_launch(rt, &${fn}_kernel, ${place.blocks}, 1, (void *[]){ &x, &g, &dy, &dx, &dg });
}
