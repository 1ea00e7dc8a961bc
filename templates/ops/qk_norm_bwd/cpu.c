//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- qk_norm_bwd: rows in chunks of a fixed size, each with its own sums for both
//@ -- weights in the workspace; then the chunks' sums in order.
//@ local wide_q = over_all and heads * head_dim or head_dim -- columns of a norm
//@ local wide_k = over_all and kv_heads * head_dim or head_dim
//@ local of_q, normed, rows = heads, heads + kv_heads, 32
//@ if over_all then of_q, normed = 1, 2 end
//@ local cols = wide_k == wide_q and wide_q or "cols"
//@ local chunks = (t + rows - 1) // rows
//@ local weight = { name = "weight", type = wq.type }
//@ local h = ld(qkv, "at + j") .. " * r"
//@ local wj = ld(weight, "j")
//@ if offset ~= 0 then wj = "(" .. wj .. " + " .. lit(offset) .. ")" end
//@ local e = ld(dy, "at + j") .. " * " .. wj
//@ local grads = dwq and (",\n%18s%s *restrict dwq, %s *restrict dwk, float beta,\n"
//@     .. "%18schar *workspace"):format("", dwq.type, dwk.type, "") or ""
//@ local function plus(y, value) -- what beta asks for
//@     return st(y, "j", "(beta == 0 ? 0 : " .. ld(y, "j") .. ") + " .. value)
//@ end
static void ${fn}(const ${qkv.type} *restrict qkv, const ${wq.type} *restrict wq,
                  const ${wk.type} *restrict wk, const ${rstd.type} *restrict rstd,
                  const ${dy.type} *restrict dy, ${dx.type} *restrict dx${grads})
{
//@ if dwq then
    ${acc}(*sums)[2][${wide_q}] = (void *)workspace; /* [${chunks}]: of wq, of wk */
//@ end
#pragma omp parallel for schedule(static)
    for (int64_t chunk = 0; chunk < ${chunks}; chunk++) {
//@ if dwq then
        memset(sums[chunk], 0, sizeof sums[chunk]);
//@ end
        for (int64_t i = chunk * ${rows}; i < ${t} && i < (chunk + 1) * ${rows}; i++) {
            for (int64_t head = 0; head < ${normed}; head++) {
                const int64_t at = i * ${c} + head * ${wide_q};
//@ if wide_k ~= wide_q then
                const int64_t cols = head < ${of_q} ? ${wide_q} : ${wide_k};
//@ end
                const ${wq.type} *weight = head < ${of_q} ? wq : wk;
//@ if dwq then
                ${acc} *restrict sum = sums[chunk][head >= ${of_q}];
//@ end
                const ${acc} r = rstd[i * ${normed} + head];
                const ${acc} sum_eh = rt_row_dot_centred_${qkv.dtype}(
                    dy + at, weight, qkv + at, 0, ${cols});
//@ if offset ~= 0 then
                const ${acc} sum_dh = rt_row_dot_${qkv.dtype}(dy + at, qkv + at, ${cols});
                const ${acc} mean_eh = (sum_eh + ${lit(offset)} * sum_dh) * r / ${cols};
//@ else
                const ${acc} mean_eh = sum_eh * r / ${cols};
//@ end
#pragma omp simd
                for (int64_t j = 0; j < ${cols}; j++) {
//@ if dwq then
                    sum[j] += ${ld(dy, "at + j")} * (${h});
//@ end
                    ${st(dx, "at + j", "r * (" .. e .. " - " .. h .. " * mean_eh)")};
                }
            }
            const int64_t v = i * ${c} + ${(heads + kv_heads) * head_dim};
            memcpy(dx + v, dy + v, ${kv_heads * head_dim} * sizeof *dx);
        }
    }
//@ if dwq then
    for (int64_t j = 0; j < ${wide_q}; j++) {
        ${acc} q = 0, k = 0;
        for (int64_t chunk = 0; chunk < ${chunks}; chunk++) {
            q += sums[chunk][0][j];
            k += sums[chunk][1][j];
        }
        ${plus(dwq, "q")};
//@ if wide_k < wide_q then
        if (j < ${wide_k})
            ${plus(dwk, "k")};
//@ else
        ${plus(dwk, "k")};
//@ end
    }
//@ end
}
