//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- cross_entropy: rows among threads; the loss by one thread, in token order.
static void ${fn}(const ${logits.type} *restrict logits, const int32_t *restrict targets,
                  double *restrict loss, ${lse.type} *restrict lse)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        lse[i] = rt_row_lse_${logits.dtype}(logits + i * ${v}, ${v});
    }
    double sum = 0;
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${v} + targets[i];
        const ${acc} token_loss = lse[i] - ${ld(logits, "at")};
        sum += (double)token_loss;
    }
    *loss = sum;
}
