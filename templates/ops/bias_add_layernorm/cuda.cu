//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- bias_add_layernorm: h may be r. As add_layernorm, of which r is the sum of r and rb.
//@ local f = acc == "float" and "f" or ""
//@ local g = row(d, x)
//@ local largest = s and ", int32_t *largest" or ""
//@ local scale_out = s and ", " .. s.type .. " *s, char *workspace" or ""
//@ if s then
#include "rt_fp8_device.h"
//@ end
RT_GLOBAL(${g.threads})
${fn}(const ${x.type} *x, const ${r.type} *r, const ${rb.type} *rb, const ${w.type} *w,
      const ${b.type} *b, ${h.type} *h, ${y.type} *y, ${mean.type} *mean,
      ${rstd.type} *rstd${largest})
{
    RT_SHARED(${acc}, part, ${g.warps});
//@ if s then
    RT_SHARED(int32_t, tops, ${g.warps});
//@ end
    const int64_t at = (int64_t)blockIdx.x * ${d};
    ${acc} v[${g.part}], more[${g.part}], bias[${g.part}], scale[${g.part}], shift[${g.part}];
    ${acc} sum = 0, squares = 0;
    ${load("v", x, "at", g)};
    ${load("more", r, "at", g)};
    ${load("bias", rb, "0", g)};
    ${load("scale", w, "0", g)};
    ${load("shift", b, "0", g)};
    for (int k = 0; k < ${g.part}; k++) {
        more[k] = ${rnd(h, "more[k] + bias[k]")};
        v[k] = ${rnd(h, "v[k] + more[k]")};
        sum += v[k];
    }
    ${store(h, "at", "v", g)};
    const ${acc} m = rt_block_sum<${g.threads}>(sum, part) / ${d};
    for (int k = 0; k < ${g.part}; k++) {
        v[k] = ${inside(g, "k", "v[k] - m")};
        squares += v[k] * v[k];
    }
    squares = rt_block_sum<${g.threads}>(squares, part);
    const ${acc} of_row = 1 / rt_sqrt${f}(squares / ${d} + ${lit(eps)});
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = m;
        rstd[blockIdx.x] = of_row;
    }
    for (int k = 0; k < ${g.part}; k++)
        v[k] = v[k] * of_row * scale[k] + shift[k];
    ${store(y, "at", "v", g)};
//@ if s then
    rt_fp8_largest<${tag(y)}, ${g.threads}>(rt_fp8_sizes<${g.part}>(0, v), tops,
                                            largest + blockIdx.x);
//@ end
}

//@ if s then
${scale_kernel(fn, s, to, t)}
//@ end
//@ host
${kernel(fn, g.threads)}
//@ if s then
${kernel(fn .. "_scale", 1024)}
//@ end

/* h[${t}, ${d}] = x + (r + rb), y[${t}, ${d}], mean[${t}], rstd[${t}] */
static void ${fn}(Rt *rt, const ${x.type} *x, const ${r.type} *r, const ${rb.type} *rb,
                  const ${w.type} *w, const ${b.type} *b, ${h.type} *h, ${y.type} *y,
                  ${mean.type} *mean, ${rstd.type} *rstd${scale_out})
{
//@ if s then
    int32_t *largest = (int32_t *)(void *)workspace;
//@ end
    rt_launch(rt, &${fn}_kernel, ${t}, 1,
              (void *[]){ &x, &r, &rb, &w, &b, &h, &y, &mean, &rstd${s and ", &largest" or ""} });
//@ if s then
    rt_launch(rt, &${fn}_scale_kernel, 1, 1, (void *[]){ &largest, &s });
//@ end
}
