//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- rmsnorm_bwd_add: dx may be dres. As rmsnorm_bwd, whose dx is rounded before dres is
//@ -- added.
//@ local g = row(d, x)
//@ local long = g.part * acc_bytes > 64 -- too much for registers: read twice, an access at a time
//@ local one = { width = g.width }
//@ local room = s and workspace - 4 * t or workspace
//@ local blocks = dw and room // (d * acc_bytes) or t -- a row each, without sums
//@ local early = dw and not long and ahead(g, x, blocks) -- the next row's loads, during the sums
//@ local sums = { dtype = rstd.dtype, name = "part" }
//@ local scale_k = offset == 0 and "scale[k]" or "(scale[k] + " .. lit(offset) .. ")"
//@ local part = (dw and ", " .. acc .. " *part" or "") .. (s and ", int32_t *largest" or "")
//@ local grads = dw and (", %s *dw"):format(dw.type) or ""
//@ local given = (dw and ", &part" or "") .. (s and ", &largest" or "")
//@ local scale_out = s and (", %s *s"):format(s.type) or ""
//@ local more = dw and ",\n                  float beta, char *workspace" or s and ", char *workspace" or ""
//@ local function long_row() -- in two passes
        ${acc} h[${g.width}], e[${g.width}], scale[${g.width}], past[${g.width}], sum_eh = 0;
${each_access(g)}
            ${load("h", x, "at + j", one)};
            ${load("e", dy, "at + j", one)};
            ${load("scale", w, "j", one)};
            for (int k = 0; k < ${g.width}; k++) {
                h[k] *= r;
//@   if dw then
                sum_w[first + k] += e[k] * h[k];
//@   end
                e[k] *= ${scale_k};
                sum_eh += e[k] * h[k];
            }
        }
        const ${acc} mean_eh = rt_block_sum<${g.threads}>(sum_eh, shared) / ${d};
${each_access(g)}
            ${load("h", x, "at + j", one)};
            ${load("e", dy, "at + j", one)};
            ${load("scale", w, "j", one)};
            ${load("past", dres, "at + j", one)};
            for (int k = 0; k < ${g.width}; k++) {
                h[k] *= r;
                e[k] *= ${scale_k};
                e[k] = past[k] + ${rnd(dx, "r * (e[k] - h[k] * mean_eh)")};
            }
            ${store(dx, "at + j", "e", one)};
//@   if s then
            top = rt_fp8_sizes<${g.width}>(top, e);
//@   end
        }
//@ end
//@ if s then
#include "rt_fp8_device.h"
//@ end
RT_GLOBAL(${g.threads})
${fn}(const ${x.type} *x, const ${w.type} *w, const ${rstd.type} *rstd,
      const ${dy.type} *dy, const ${dres.type} *dres,
      ${dx.type} *dx${part})
{
    RT_SHARED(${acc}, shared, ${g.warps});
//@ if s then
    RT_SHARED(int32_t, tops, ${g.warps});
    int32_t top = 0;
//@ end
//@ if not long then
    ${acc} scale[${g.part}];
//@ end
//@ if dw then
    ${acc} sum_w[${g.part}] = {};
//@ end
//@ if not long then
    ${load("scale", w, "0", g)};
//@ end
//@ if early then
${first_rows(g, { { "h", x }, { "e", dy }, { "past", dres } }, { { "r", rstd } })}
//@ end
    for (int64_t i = blockIdx.x; i < ${t}; i += ${blocks}) {
        const int64_t at = i * ${d};
        const ${acc} r = ${early and "next_r" or "rstd[i]"};
//@ if long then
//@   long_row()
//@ else
        ${acc} h[${g.part}], e[${g.part}], past[${g.part}], sum_eh = 0;
//@   if early then
${take_rows(g, blocks, t, { { "h", x }, { "e", dy } }, { { "r", rstd } })}
//@   else
        ${load("h", x, "at", g)};
        ${load("e", dy, "at", g)};
        ${load("past", dres, "at", g)};
//@   end
        for (int k = 0; k < ${g.part}; k++) {
            h[k] *= r;
//@ if dw then
            sum_w[k] += e[k] * h[k];
//@ end
            e[k] *= ${scale_k};
            sum_eh += e[k] * h[k];
        }
        const ${acc} mean_eh = rt_block_sum<${g.threads}>(sum_eh, shared) / ${d};
//@   if early then -- needed only now
${take_rows(g, blocks, t, { { "past", dres } }, {})}
//@   end
        for (int k = 0; k < ${g.part}; k++)
            e[k] = past[k] + ${rnd(dx, "r * (e[k] - h[k] * mean_eh)")};
        ${store(dx, "at", "e", g)};
//@   if s then
        top = rt_fp8_sizes<${g.part}>(top, e);
//@   end
//@ end
    }
//@ if s then
    rt_fp8_largest<${tag(dx)}, ${g.threads}>(top, tops, largest + blockIdx.x);
//@ end
//@ if dw then
    ${store(sums, "(int64_t)blockIdx.x * " .. d, "sum_w", g)};
//@ end
}

//@ if dw then
/* The sums of the blocks in order. */
RT_GLOBAL(1024)
${fn}_sum(const ${acc} *part, ${dw.type} *dw, float beta)
{
    RT_SHARED(${acc}, shared, 1024);
    const ${acc} sum = rt_column_sum(part, ${blocks}, ${d}, shared);
    const int j = blockIdx.x * 32 + threadIdx.x;
    if (threadIdx.x < 32 && j < ${d})
        ${st(dw, "j", "(beta == 0 ? 0 : " .. ld(dw, "j") .. ") + sum")};
}
//@ end

//@ if s then
${scale_kernel(fn, s, to, blocks)}
//@ end
//@ host
${kernel(fn, g.threads)}
//@ if dw then
${kernel(fn .. "_sum", 1024)}
//@ end
//@ if s then
${kernel(fn .. "_scale", 1024)}
//@ end

//@ if dw then
/* dx[${t}, ${d}] + dres, dw[${d}]; part: sums of ${blocks} blocks */
//@ else
/* dx[${t}, ${d}] + dres */
//@ end
static void ${fn}(Rt *rt, const ${x.type} *x, const ${w.type} *w, const ${rstd.type} *rstd,
                  const ${dy.type} *dy,
                  const ${dres.type} *dres, ${dx.type} *dx${grads}${scale_out}${more})
{
//@ if dw then
    ${acc} *part = (${acc} *)(void *)workspace;
//@ end
//@ if s then
    int32_t *largest = (int32_t *)(void *)(workspace + ${workspace - 4 * t});
//@ end
    rt_launch(rt, &${fn}_kernel, ${blocks}, 1,
              (void *[]){ &x, &w, &rstd, &dy, &dres, &dx${given} });
//@ if dw then
    rt_launch(rt, &${fn}_sum_kernel, ${(d + 31) // 32}, 1,
              (void *[]){ &part, &dw, &beta });
//@ end
//@ if s then
    rt_launch(rt, &${fn}_scale_kernel, 1, 1, (void *[]){ &largest, &s });
//@ end
}
