//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- logits_row: one row is copied, and capped.
//@ local rows = part and t // parts
//@ local from = part and "at * " .. v or "(int64_t)*row * " .. v
//@ if part then
static void ${fn}(const ${logits.type} *restrict logits, const int32_t *restrict row,
                  const int32_t *restrict part, ${next_logits.type} *restrict next_logits)
{
//@ if parts == 1 then
    const int64_t at = *row - (int64_t)*part * ${rows}; /* of the row in logits */
    if (at < 0 || at >= ${rows}) {
//@ else
    int64_t at = -1; /* of the row in logits */
    for (int k = 0; k < ${parts}; k++) {
        const int64_t i = *row - (int64_t)part[k] * ${rows};
        if (i >= 0 && i < ${rows})
            at = k * ${rows} + i;
    }
    if (at < 0) {
//@ end
        for (int64_t j = 0; j < ${v}; j++) /* x + -0.0 is x, also if x is -0.0 */
            ${st(next_logits, "j", acc == "float" and "-0.0f" or "-0.0")};
        return;
    }
//@ else
static void ${fn}(const ${logits.type} *restrict logits, const int32_t *restrict row,
                  ${next_logits.type} *restrict next_logits)
{
//@ end
//@ if softcap > 0 then
//@   local f = acc == "float" and "f" or ""
    logits += ${from};
    for (int64_t j = 0; j < ${v}; j++) {
        const ${acc} t = rt_tanh${f}(${ld(logits, "j")} * ${lit(1 / softcap)});
        ${st(next_logits, "j", lit(softcap) .. " * t")};
    }
//@ else
    memcpy(next_logits, logits + ${from}, ${v} * sizeof *logits);
//@ end
}
