//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- rmsnorm: a block for each row, which it holds in registers.
//@ local f = acc == "float" and "f" or ""
//@ local g = row(d, x)
RT_GLOBAL(${g.threads})
${fn}(const ${x.type} *x, const ${w.type} *w, ${y.type} *y, ${rstd.type} *rstd)
{
    RT_SHARED(${acc}, part, ${g.warps});
    const int64_t at = (int64_t)blockIdx.x * ${d};
    ${acc} v[${g.part}], scale[${g.part}], squares = 0;
    ${load("v", x, "at", g)};
    ${load("scale", w, "0", g)};
    for (int k = 0; k < ${g.part}; k++)
        squares += v[k] * v[k];
    squares = rt_block_sum<${g.threads}>(squares, part);
    const ${acc} r = 1 / rt_sqrt${f}(squares / ${d} + ${lit(eps)});
    if (threadIdx.x == 0)
        rstd[blockIdx.x] = r;
    for (int k = 0; k < ${g.part}; k++)
        v[k] = v[k] * r * ${offset == 0 and "scale[k]" or "(scale[k] + " .. lit(offset) .. ")"};
    ${store(y, "at", "v", g)};
}
//@ host
${kernel(fn, g.threads)}

/* y[${t}, ${d}], rstd[${t}] */
static void ${fn}(Rt *rt, const ${x.type} *x, const ${w.type} *w, ${y.type} *y,
                  ${rstd.type} *rstd)
{
    rt_launch(rt, &${fn}_kernel, ${t}, 1, (void *[]){ &x, &w, &y, &rstd });
}
