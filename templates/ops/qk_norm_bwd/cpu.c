//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- qk_norm_bwd: rows in chunks of a fixed size, each with its own sums for both weights in the
//@ -- workspace; then the chunks' sums in order.
//@ local normed, rows = heads + kv_heads, 32
//@ local chunks = (t + rows - 1) // rows
//@ local w = { name = "w", type = wq.type }
//@ local h = ld(qkv, "at + j") .. " * r"
static void ${fn}(const ${qkv.type} *restrict qkv, const ${wq.type} *restrict wq,
                  const ${wk.type} *restrict wk, const ${rstd.type} *restrict rstd,
                  const ${dy.type} *restrict dy, ${dx.type} *restrict dx,
                  ${dwq.type} *restrict dwq, ${dwk.type} *restrict dwk, float beta,
                  char *workspace)
{
    ${acc}(*sums)[2][${head_dim}] = (void *)workspace; /* [${chunks}]: of wq, of wk */
#pragma omp parallel for schedule(static)
    for (int64_t chunk = 0; chunk < ${chunks}; chunk++) {
        memset(sums[chunk], 0, sizeof sums[chunk]);
        for (int64_t i = chunk * ${rows}; i < ${t} && i < (chunk + 1) * ${rows}; i++) {
            for (int64_t head = 0; head < ${normed}; head++) {
                const int64_t at = i * ${c} + head * ${head_dim};
                const ${wq.type} *restrict w = head < ${heads} ? wq : wk;
                ${acc} *restrict sum = sums[chunk][head >= ${heads}];
                const ${acc} r = rstd[i * ${normed} + head];
                const ${acc} eh = rt_row_dot_centred_${qkv.dtype}(dy + at, w, qkv + at, 0, ${head_dim})
                                  * r / ${head_dim};
#pragma omp simd
                for (int64_t j = 0; j < ${head_dim}; j++) {
                    sum[j] += ${ld(dy, "at + j")} * (${h});
                    ${st(dx, "at + j", "r * (" .. ld(dy, "at + j") .. " * " .. ld(w, "j") .. " - " .. h .. " * eh)")};
                }
            }
            memcpy(dx + i * ${c} + ${normed * head_dim}, dy + i * ${c} + ${normed * head_dim},
                   ${kv_heads * head_dim} * sizeof *dx);
        }
    }
    for (int64_t j = 0; j < ${head_dim}; j++) {
        ${acc} q = 0, k = 0;
        for (int64_t chunk = 0; chunk < ${chunks}; chunk++) {
            q += sums[chunk][0][j];
            k += sums[chunk][1][j];
        }
        ${st(dwq, "j", "(beta == 0 ? 0 : " .. ld(dwq, "j") .. ") + q")};
        ${st(dwk, "j", "(beta == 0 ? 0 : " .. ld(dwk, "j") .. ") + k")};
    }
}
