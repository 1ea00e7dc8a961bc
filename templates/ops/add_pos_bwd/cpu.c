//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- add_pos_bwd: one position after another; its sequences in order.
static void ${fn}(const ${dy.type} *restrict dy, ${dw.type} *restrict dw, float beta)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${seq}; i++) {
        const int64_t to = i * ${d};
#pragma omp simd
        for (int64_t j = 0; j < ${d}; j++) {
            ${acc} sum = ${ld(dy, "to + j")};
//@ for sequence = 1, t // seq - 1 do
            sum += ${ld(dy, (sequence * seq * d) .. " + to + j")};
//@ end
            ${st(dw, "to + j", "(beta == 0 ? 0 : " .. ld(dw, "to + j") .. ") + sum")};
        }
    }
//@ if positions > seq then
    if (beta == 0) { /* positions that no token has */
        memset(dw + ${seq * d}, 0, ${(positions - seq) * d} * sizeof *dw);
    }
//@ end
}
