-- SPDX-License-Identifier: Apache-2.0
-- template_capped.lua: rows of logits with a softcap, for the templates of the loss. In: the
-- environment of a kernel, and the function that renders a template. Out: functions in it, whose
-- text does for softcap tanh(x / softcap) what runtime/ does for x:
--
--   capped_rows(x, cols, softcap, g)   FN_lse and FN_sum, for rt_row_lse and rt_row_sum. x: an
--                    operand, for its dtype; g: on CUDA, the threads of a row; there FN_capped
--                    replaces the dtype of rt_row_lse and sum
--   capped_minus(x, cols, softcap, g)  FN_minus, for rt_row_softmax_minus
--
-- Logits stay in memory as the product made them; they are capped in the dtype of sums each time
-- that they are read, so fused and unfused losses have the same bits.

-- A row is summed in blocks of as many elements as those of runtime/rt_row_body.h.
local cpu_rows = [[
//@ local function sum(value)
    double total = 0;
    for (int64_t from = 0; from < ${cols}; from += 1024) {
        const int64_t n = ${cols} - from < 1024 ? ${cols} - from : 1024;
        ${acc} y[1024];
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            y[j] = ${value};
        total += (double)rt_row_sum_${sums}(y, n);
    }
//@ end
//@ local y = cap .. " * rt_tanh" .. f .. "(" .. ld(x, "from + j") .. " * " .. part .. ")"
/* log(sum(exp(y))) of the capped logits y of a row */
RT_ALWAYS ${acc} ${fn}_lse(const ${x.type} *x)
{
    const ${acc} top = ${cap} * rt_tanh${f}(rt_row_max_${x.dtype}(x, ${cols}) * ${part});
//@ sum("rt_exp" .. f .. "(" .. y .. " - top)")
    return (${acc})((double)top + rt_log(total));
}

/* their sum */
RT_ALWAYS ${acc} ${fn}_sum(const ${x.type} *x)
{
//@ sum(y)
    return (${acc})total;
}
]]

local cpu_minus = [[
/* dx = (scale exp(y - lse) - share - hot onehot(target)) (1 - t^2), t = tanh(x / softcap). dx
 * may be x. */
RT_ALWAYS void ${fn}_minus(const ${x.type} *x, ${x.type} *dx, ${acc} lse, int64_t target,
                           ${acc} scale, ${acc} share, ${acc} hot)
{
    const ${acc} u = rt_tanh${f}(${ld(x, "target")} * ${part});
    const ${acc} p = rt_exp${f}(${cap} * u - lse);
#pragma omp simd
    for (int64_t j = 0; j < ${cols}; j++) {
        const ${acc} t = rt_tanh${f}(${ld(x, "j")} * ${part});
        const ${acc} d = rt_exp${f}(${cap} * t - lse) * scale - share;
        ${st(dx, "j", "d * (1 - t * t)")};
    }
    ${st(dx, "target", "(p * scale - share - hot) * (1 - u * u)")};
}
]]

local cuda_rows = [[
/* Logits that are capped where they are loaded. */
struct ${fn}_capped {
    typedef ${x.type} T;
    RT_DEVICE ${acc} load(T x)
    {
        return ${cap} * rt_tanh${f}(${tag}::load(x) * ${part});
    }
};
]]

local cuda_minus = [[
/* dx = (scale exp(y - lse) - share - hot onehot(target)) (1 - t^2), t = tanh(x / softcap), of
 * capped logits y. dx may be x. */
RT_DEVICE void ${fn}_minus(const ${x.type} *x, ${x.type} *dx, ${acc} lse, int target,
                           ${acc} scale, ${acc} share, ${acc} hot)
{
    for (int j = threadIdx.x * ${g.width}; j < ${cols}; j += ${g.threads * g.width}) {
        ${acc} v[${g.width}];
        rt_load<${tag}, ${g.width}>(v, x + j);
        for (int k = 0; k < ${g.width}; k++) {
            const ${acc} t = rt_tanh${f}(v[k] * ${part});
            const ${acc} p = rt_exp${f}(${cap} * t - lse);
            v[k] = (p * scale - share - (j + k == target ? hot : 0)) * (1 - t * t);
        }
        rt_store<${tag}, ${g.width}>(dx + j, v);
    }
//@ if cols % g.width > 0 then
    if (threadIdx.x == ${cols // g.width % g.threads}) { /* had the last access */
        const ${acc} zero[1] = {};
        for (int j = ${cols}; j < ${(cols // g.width + 1) * g.width}; j++)
            rt_store<${tag}, 1>(dx + j, zero);
    }
//@ end
}
]]

local tags = { f16 = "RtF16", bf16 = "RtBf16", f32 = "RtF32", f64 = "RtF64" }

return function(env, render)
  local function text(template, x, cols, softcap, g)
    local float = env.acc == "float"
    return render(template, "gen/lua/template_capped.lua", {
      fn = env.fn, acc = env.acc, ld = env.ld, st = env.st, cols = cols, g = g,
      x = { name = "x", type = x.type, dtype = x.dtype },
      dx = { name = "dx", type = x.type, dtype = x.dtype },
      cap = env.lit(softcap), part = env.lit(1 / softcap), f = float and "f" or "",
      sums = float and "f32" or "f64", tag = tags[x.dtype],
    })
  end
  -- An operand or a dim keeps its name.
  if env.capped_rows == nil then
    function env.capped_rows(x, cols, softcap, g)
      return text(g and cuda_rows or cpu_rows, x, cols, softcap, g)
    end
  end
  if env.capped_minus == nil then
    function env.capped_minus(x, cols, softcap, g)
      return text(g and cuda_minus or cpu_minus, x, cols, softcap, g)
    end
  end
end
