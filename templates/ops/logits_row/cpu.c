//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- logits_row: one row is copied, and capped.
static void ${fn}(const ${logits.type} *restrict logits, const int32_t *restrict row,
                  ${next_logits.type} *restrict next_logits)
{
//@ if softcap > 0 then
//@   local f = acc == "float" and "f" or ""
    logits += (int64_t)*row * ${v};
    for (int64_t j = 0; j < ${v}; j++) {
        const ${acc} t = rt_tanh${f}(${ld(logits, "j")} * ${lit(1 / softcap)});
        ${st(next_logits, "j", lit(softcap) .. " * t")};
    }
//@ else
    memcpy(next_logits, logits + (int64_t)*row * ${v}, ${v} * sizeof *logits);
//@ end
}
