//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- qk_norm: y may be qkv. A head is a short row: see rmsnorm.
//@ local f = acc == "float" and "f" or ""
//@ local normed = heads + kv_heads
//@ local weight = { name = "weight", type = wq.type }
static void ${fn}(const ${qkv.type} *qkv, const ${wq.type} *restrict wq,
                  const ${wk.type} *restrict wk, ${y.type} *y,
                  ${rstd.type} *restrict rstd)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        for (int64_t h = 0; h < ${normed}; h++) {
            const int64_t at = i * ${c} + h * ${head_dim};
            const ${wq.type} *weight = h < ${heads} ? wq : wk;
            const ${acc} squares =
                rt_row_sum_squares_${qkv.dtype}(qkv + at, 0, ${head_dim});
            const ${acc} r = 1 / rt_sqrt${f}(squares / ${head_dim} + ${lit(eps)});
            rstd[i * ${normed} + h] = r;
#pragma omp simd
            for (int64_t j = 0; j < ${head_dim}; j++)
                ${st(y, "at + j", ld(qkv, "at + j") .. " * r * " .. ld(weight, "j"))};
        }
        if (y != qkv) { /* v unchanged */
            const int64_t v = i * ${c} + ${normed * head_dim};
            memcpy(y + v, qkv + v, ${kv_heads * head_dim} * sizeof *y);
        }
    }
}
