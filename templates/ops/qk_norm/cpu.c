//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- qk_norm: y may be qkv. A head is a short row: see rmsnorm.
//@ local f = acc == "float" and "f" or ""
//@ local wide_q = over_all and heads * head_dim or head_dim -- columns of a norm
//@ local wide_k = over_all and kv_heads * head_dim or head_dim
//@ local of_q, normed = heads, heads + kv_heads
//@ if over_all then of_q, normed = 1, 2 end
//@ local cols = wide_k == wide_q and wide_q or "cols"
//@ local weight = { name = "weight", type = wq.type }
//@ local wj = ld(weight, "j")
//@ if offset ~= 0 then wj = "(" .. wj .. " + " .. lit(offset) .. ")" end
static void ${fn}(const ${qkv.type} *qkv, const ${wq.type} *restrict wq,
                  const ${wk.type} *restrict wk, ${y.type} *y,
                  ${rstd.type} *restrict rstd)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        for (int64_t h = 0; h < ${normed}; h++) {
            const int64_t at = i * ${c} + h * ${wide_q};
//@ if wide_k ~= wide_q then
            const int64_t cols = h < ${of_q} ? ${wide_q} : ${wide_k};
//@ end
            const ${wq.type} *weight = h < ${of_q} ? wq : wk;
            const ${acc} squares =
                rt_row_sum_squares_${qkv.dtype}(qkv + at, 0, ${cols});
            const ${acc} r = 1 / rt_sqrt${f}(squares / ${cols} + ${lit(eps)});
            rstd[i * ${normed} + h] = r;
#pragma omp simd
            for (int64_t j = 0; j < ${cols}; j++)
                ${st(y, "at + j", ld(qkv, "at + j") .. " * r * " .. wj)};
        }
        if (y != qkv) { /* v unchanged */
            const int64_t v = i * ${c} + ${(heads + kv_heads) * head_dim};
            memcpy(y + v, qkv + v, ${kv_heads * head_dim} * sizeof *y);
        }
    }
}
