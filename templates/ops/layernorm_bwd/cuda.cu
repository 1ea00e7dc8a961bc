//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- layernorm_bwd: blocks take rows in turn, one at a time in registers, and keep what their
//@ -- rows add to dw and db; then the blocks' sums in order.
//@ local g = row(d, x)
//@ local long = g.part * acc_bytes > 64 -- too much for registers: read twice, an access at a time
//@ local one = { width = g.width }
//@ local blocks = dw and workspace // (2 * d * acc_bytes) or t -- a row each, without sums
//@ local to = dw and { dtype = dw.dtype, type = dw.type, name = "to" }
//@ -- the next row's loads are under way during the sums; two sums leave long parts no registers for it
//@ local early = dw and g.part <= 8 and not long and ahead(g, x, blocks)
//@ local sums = { dtype = rstd.dtype, name = "part" }
//@ local part = dw and ", " .. acc .. " *part" or ""
//@ local grads = dw and (", %s *dw, %s *db, float beta,\n%18schar *workspace"):format(
//@     dw.type, db.type, "") or ""
//@ local function long_row() -- in two passes
        ${acc} h[${g.width}], e[${g.width}], scale[${g.width}], sum_e = 0, sum_eh = 0;
${each_access(g)}
            ${load("h", x, "at + j", one)};
            ${load("e", dy, "at + j", one)};
            ${load("scale", w, "j", one)};
            for (int k = 0; k < ${g.width}; k++) {
                h[k] = (h[k] - m) * r;
//@   if dw then
                sum_w[first + k] += e[k] * h[k];
                sum_b[first + k] += e[k];
//@   end
                e[k] *= scale[k];
                sum_e += e[k];
                sum_eh += e[k] * h[k];
            }
        }
        const ${acc} mean_e = rt_block_sum<${g.threads}>(sum_e, shared) / ${d};
        const ${acc} mean_eh = rt_block_sum<${g.threads}>(sum_eh, shared) / ${d};
${each_access(g)}
            ${load("h", x, "at + j", one)};
            ${load("e", dy, "at + j", one)};
            ${load("scale", w, "j", one)};
            for (int k = 0; k < ${g.width}; k++) {
                h[k] = (h[k] - m) * r;
                e[k] *= scale[k];
                e[k] = r * (e[k] - mean_e - h[k] * mean_eh);
            }
            ${store(dx, "at + j", "e", one)};
        }
//@ end
RT_GLOBAL(${g.threads})
${fn}(const ${x.type} *x, const ${w.type} *w, const ${mean.type} *mean,
      const ${rstd.type} *rstd, const ${dy.type} *dy, ${dx.type} *dx${part})
{
    RT_SHARED(${acc}, shared, ${g.warps});
//@ if not long then
    ${acc} scale[${g.part}];
//@ end
//@ if dw then
    ${acc} sum_w[${g.part}] = {}, sum_b[${g.part}] = {};
//@ end
//@ if not long then
    ${load("scale", w, "0", g)};
//@ end
//@ if early then
${first_rows(g, { { "h", x }, { "e", dy } }, { { "m", mean }, { "r", rstd } })}
//@ end
    for (int64_t i = blockIdx.x; i < ${t}; i += ${blocks}) {
        const int64_t at = i * ${d};
        const ${acc} m = ${early and "next_m" or "mean[i]"}, r = ${early and "next_r" or "rstd[i]"};
//@ if long then
//@   long_row()
//@ else
        ${acc} h[${g.part}], e[${g.part}], sum_e = 0, sum_eh = 0;
//@   if early then
${take_rows(g, blocks, t, { { "h", x }, { "e", dy } }, { { "m", mean }, { "r", rstd } })}
//@   else
        ${load("h", x, "at", g)};
        ${load("e", dy, "at", g)};
//@   end
        for (int k = 0; k < ${g.part}; k++) {
            h[k] = (h[k] - m) * r;
//@ if dw then
            sum_w[k] += e[k] * h[k];
            sum_b[k] += e[k];
//@ end
            e[k] *= scale[k];
            sum_e += e[k];
            sum_eh += e[k] * h[k];
        }
        const ${acc} mean_e = rt_block_sum<${g.threads}>(sum_e, shared) / ${d};
        const ${acc} mean_eh = rt_block_sum<${g.threads}>(sum_eh, shared) / ${d};
        for (int k = 0; k < ${g.part}; k++)
            e[k] = r * (e[k] - mean_e - h[k] * mean_eh);
        ${store(dx, "at", "e", g)};
//@ end
    }
//@ if dw then
    part += (int64_t)blockIdx.x * ${d};
    ${store(sums, "0", "sum_w", g)};
    ${store(sums, blocks * d, "sum_b", g)};
//@ end
}

//@ if dw then
/* The sums of the blocks in order: of dw, of db. */
RT_GLOBAL(1024)
${fn}_sum(const ${acc} *part, ${dw.type} *dw, ${db.type} *db, float beta)
{
    RT_SHARED(${acc}, shared, 1024);
    const ${acc} *from = blockIdx.y == 0 ? part : part + ${blocks * d};
    ${dw.type} *to = blockIdx.y == 0 ? dw : db;
    const ${acc} sum = rt_column_sum(from, ${blocks}, ${d}, shared);
    const int j = blockIdx.x * 32 + threadIdx.x;
    if (threadIdx.x < 32 && j < ${d})
        ${st(to, "j", "(beta == 0 ? 0 : " .. ld(to, "j") .. ") + sum")};
}
//@ end
//@ host
${kernel(fn, g.threads)}
//@ if dw then
${kernel(fn .. "_sum", 1024)}
//@ end

//@ if dw then
/* dx[${t}, ${d}], dw[${d}] and db[${d}]; part: sums of ${blocks} blocks */
//@ else
/* dx[${t}, ${d}] */
//@ end
static void ${fn}(Rt *rt, const ${x.type} *x, const ${w.type} *w, const ${mean.type} *mean,
                  const ${rstd.type} *rstd, const ${dy.type} *dy, ${dx.type} *dx${grads})
{
//@ if dw then
    ${acc} *part = (${acc} *)(void *)workspace;
//@ end
    rt_launch(rt, &${fn}_kernel, ${blocks}, 1,
              (void *[]){ &x, &w, &mean, &rstd, &dy, &dx${dw and ", &part" or ""} });
//@ if dw then
    rt_launch(rt, &${fn}_sum_kernel, ${(d + 31) // 32}, 2,
              (void *[]){ &part, &dw, &db, &beta });
//@ end
}
