//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- add_pos: y may be x. Token blockIdx.x, a part of its columns.
//@ local g = grid(d, x)
//@ local starts_param = starts and "const int32_t *starts, " or ""
//@ local position = "blockIdx.x % " .. seq .. (starts and " - starts[blockIdx.x]" or "")
RT_GLOBAL(${g.threads})
${fn}(const ${x.type} *x, const ${w.type} *w, ${starts_param}${y.type} *y)
{
    const int j = (blockIdx.y * ${g.threads} + threadIdx.x) * ${g.width}, position = ${position};
    const int64_t at = (int64_t)blockIdx.x * ${d} + j;
//@ if not g.whole then
    if (j >= ${d})
        return;
//@ end
    ${acc} u[${g.width}], v[${g.width}];
    ${load("u", x, "at", g)};
    ${load("v", w, "(int64_t)position * " .. d .. " + j", g)};
    for (int k = 0; k < ${g.width}; k++)
        u[k] += v[k];
    ${store(y, "at", "u", g)};
}
//@ host
${kernel(fn, g.threads)}

/* y[${t}, ${d}] = x + w[position], w[${p}, ${d}] */
static void ${fn}(Rt *rt, const ${x.type} *x, const ${w.type} *w, ${starts_param}${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${t}, ${g.blocks},
              (void *[]){ &x, &w, ${starts and "&starts, " or ""}&y });
}
