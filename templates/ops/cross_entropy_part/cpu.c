//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- cross_entropy_part: rows among threads. Sums are in the order of rt_row_body.h.
//@ local each, count = v // parts, smoothing > 0 and 4 or 3
//@ local ragged = vocab % each > 0 -- the last part has fewer classes
//@ local cols = ragged and "cols" or each
//@ local f = acc == "float" and "f" or ""
//@ local sums = acc == "float" and "f32" or "f64"
//@ local function logit(at)
//@   local x = ld({ name = "x", type = logits.type, dtype = logits.dtype }, at)
//@   if softcap == 0 then return x end
//@   return lit(softcap) .. " * rt_tanh" .. f .. "(" .. x .. " * " .. lit(1 / softcap) .. ")"
//@ end
//@ local function sum(name, value)
    double ${name} = 0;
    for (int64_t from = 0; from < ${cols}; from += 1024) {
        const int64_t n = ${cols} - from < 1024 ? ${cols} - from : 1024;
        ${acc} y[1024];
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            y[j] = ${value};
        ${name} += (double)rt_row_sum_${sums}(y, n);
    }
//@ end
/* Of a row's columns for classes from `first`: the largest logit, the sum of exponentials
 * relative to it, the target's logit${smoothing > 0 and ", the sum of logits" or ""}. */
RT_ALWAYS void ${fn}_row(const ${logits.type} *restrict x, int64_t first, int64_t target,
                         ${acc} *restrict stats)
{
//@ if ragged then
    const int64_t cols = ${vocab} - first < ${each} ? ${vocab} - first : ${each};
//@ end
//@ local max = "rt_row_max_" .. logits.dtype .. "(x, " .. cols .. ")"
//@ if softcap > 0 then
//@   max = lit(softcap) .. " * rt_tanh" .. f .. "(" .. max .. " * " .. lit(1 / softcap) .. ")"
//@ end
    const ${acc} top = ${max};
    const ${acc} least = -(${acc})__builtin_inf();
    const ${acc} base = top > least ? top : 0; /* all logits may be -inf */
//@ sum("total", "rt_exp" .. f .. "(" .. logit("from + j") .. " - base)")
    stats[0] = top;
    stats[1] = (${acc})total;
    target -= first;
    stats[2] = target >= 0 && target < ${cols} ? ${logit("target")} : 0;
//@ if smoothing > 0 then
//@ sum("all", logit("from + j"))
    stats[3] = (${acc})all;
//@ end
}

static void ${fn}(const ${logits.type} *restrict logits, const int32_t *restrict targets,
                  const int32_t *restrict part, ${acc} *restrict stats)
{
//@ local at, of_part, column = "i", "part[0]", ""
//@ if parts > 1 then
//@   at, of_part, column = "(k * " .. t .. " + i)", "part[k]", " + k * " .. each
    for (int64_t k = 0; k < ${parts}; k++)
//@ end
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        ${acc} *of_token = stats + ${at} * ${count};
        if (targets[i] < 0) /* masked */
            memset(of_token, 0, ${count} * sizeof *of_token);
        else
            ${fn}_row(logits + i * ${v}${column}, (int64_t)${of_part} * ${each}, targets[i],
                      of_token);
    }
}
