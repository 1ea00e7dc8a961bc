//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- cross_entropy_bwd: dlogits may be logits.
static void ${fn}(const ${logits.type} *logits, const int32_t *restrict targets,
                  const ${lse.type} *restrict lse, ${dlogits.type} *dlogits)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        const int64_t at = i * ${v};
        rt_row_softmax_minus_onehot_${logits.dtype}(logits + at, dlogits + at, ${v}, lse[i],
                                                    targets[i]);
    }
}
