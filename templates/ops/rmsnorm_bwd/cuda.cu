//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- rmsnorm_bwd: blocks take rows in turn, one at a time in registers, and keep what their
//@ -- rows add to dw; then the blocks' sums in order.
//@ local g = row(d, x)
//@ local long = g.part * acc_bytes > 64 -- too much for registers: read twice, an access at a time
//@ local one = { width = g.width }
//@ local blocks = dw and workspace // (d * acc_bytes) or t -- a row each, without sums
//@ local early = dw and not long and ahead(g, x, blocks) -- the next row's loads, during the sums
//@ local sums = { dtype = rstd.dtype, name = "part" }
//@ local scale_k = offset == 0 and "scale[k]" or "(scale[k] + " .. lit(offset) .. ")"
//@ local part = dw and ", " .. acc .. " *part" or ""
//@ local grads = dw and (", %s *dw, float beta,\n%18schar *workspace"):format(dw.type, "") or ""
//@ local function long_row() -- in two passes
        ${acc} h[${g.width}], e[${g.width}], scale[${g.width}], sum_eh = 0;
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
            for (int k = 0; k < ${g.width}; k++) {
                h[k] *= r;
                e[k] *= ${scale_k};
                e[k] = r * (e[k] - h[k] * mean_eh);
            }
            ${store(dx, "at + j", "e", one)};
        }
//@ end
RT_GLOBAL(${g.threads})
${fn}(const ${x.type} *x, const ${w.type} *w, const ${rstd.type} *rstd,
      const ${dy.type} *dy, ${dx.type} *dx${part})
{
    RT_SHARED(${acc}, shared, ${g.warps});
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
${first_rows(g, { { "h", x }, { "e", dy } }, { { "r", rstd } })}
//@ end
    for (int64_t i = blockIdx.x; i < ${t}; i += ${blocks}) {
        const int64_t at = i * ${d};
        const ${acc} r = ${early and "next_r" or "rstd[i]"};
//@ if long then
//@   long_row()
//@ else
        ${acc} h[${g.part}], e[${g.part}], sum_eh = 0;
//@   if early then
${take_rows(g, blocks, t, { { "h", x }, { "e", dy } }, { { "r", rstd } })}
//@   else
        ${load("h", x, "at", g)};
        ${load("e", dy, "at", g)};
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
        for (int k = 0; k < ${g.part}; k++)
            e[k] = r * (e[k] - h[k] * mean_eh);
        ${store(dx, "at", "e", g)};
//@ end
    }
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
//@ host
${kernel(fn, g.threads)}
//@ if dw then
${kernel(fn .. "_sum", 1024)}
//@ end

//@ if dw then
/* dx[${t}, ${d}], dw[${d}]; part: sums of ${blocks} blocks */
//@ else
/* dx[${t}, ${d}] */
//@ end
static void ${fn}(Rt *rt, const ${x.type} *x, const ${w.type} *w, const ${rstd.type} *rstd,
                  const ${dy.type} *dy, ${dx.type} *dx${grads})
{
//@ if dw then
    ${acc} *part = (${acc} *)(void *)workspace;
//@ end
    rt_launch(rt, &${fn}_kernel, ${blocks}, 1,
              (void *[]){ &x, &w, &rstd, &dy, &dx${dw and ", &part" or ""} });
//@ if dw then
    rt_launch(rt, &${fn}_sum_kernel, ${(d + 31) // 32}, 1,
              (void *[]){ &part, &dw, &beta });
//@ end
}
