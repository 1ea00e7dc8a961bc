//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- logits_row: one row is copied, and capped; its number lies in device memory.
//@ local take, give = part and ", const int32_t *part" or "", part and ", &part" or ""
//@ local f, rows = acc == "float" and "f" or "", part and t // parts
//@ local at = (part and "at * " or "(int64_t)*row * ") .. v .. " + j"
RT_GLOBAL(256)
${fn}(const ${logits.type} *logits, const int32_t *row${take}, ${next_logits.type} *next_logits)
{
    const int j = blockIdx.x * 256 + threadIdx.x;
//@ if part then
//@ if parts == 1 then
    const int64_t at = *row - (int64_t)*part * ${rows}; /* of the row in logits */
    if (j < ${v} && (at < 0 || at >= ${rows})) {
//@ else
    int64_t at = -1; /* of the row in logits */
    for (int k = 0; k < ${parts}; k++) {
        const int64_t i = *row - (int64_t)part[k] * ${rows};
        if (i >= 0 && i < ${rows})
            at = k * ${rows} + i;
    }
    if (j < ${v} && at < 0) {
//@ end
        ${st(next_logits, "j", "-0.0" .. f)}; /* x + -0.0 is x, also if x is -0.0 */
        return;
    }
//@ end
//@ if softcap > 0 then
    if (j < ${v}) {
        const ${acc} t = rt_tanh${f}(${ld(logits, at)} * ${lit(1 / softcap)});
        ${st(next_logits, "j", lit(softcap) .. " * t")};
    }
//@ else
    if (j < ${v})
        next_logits[j] = logits[${at}];
//@ end
}
//@ host
${kernel(fn, 256)}

//@ if part then
/* next_logits[${v}] = logits[row], -0.0 if other parts have it, logits[${t}, ${v}] */
//@ else
/* next_logits[${v}] = logits[row], logits[${t}, ${v}] */
//@ end
static void ${fn}(Rt *rt, const ${logits.type} *logits, const int32_t *row${take},
                  ${next_logits.type} *next_logits)
{
    rt_launch(rt, &${fn}_kernel, ${(v + 255) // 256}, 1, (void *[]){ &logits, &row${give}, &next_logits });
}
