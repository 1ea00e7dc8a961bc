//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- logits_row: one row is copied, and capped; its number lies in device memory.
RT_GLOBAL(256)
${fn}(const ${logits.type} *logits, const int32_t *row, ${next_logits.type} *next_logits)
{
    const int j = blockIdx.x * 256 + threadIdx.x;
//@ if softcap > 0 then
//@   local f, at = acc == "float" and "f" or "", "(int64_t)*row * " .. v .. " + j"
    if (j < ${v}) {
        const ${acc} t = rt_tanh${f}(${ld(logits, at)} * ${lit(1 / softcap)});
        ${st(next_logits, "j", lit(softcap) .. " * t")};
    }
//@ else
    if (j < ${v})
        next_logits[j] = logits[(int64_t)*row * ${v} + j];
//@ end
}
//@ host
${kernel(fn, 256)}

/* next_logits[${v}] = logits[row], logits[${t}, ${v}] */
static void ${fn}(Rt *rt, const ${logits.type} *logits, const int32_t *row,
                  ${next_logits.type} *next_logits)
{
    rt_launch(rt, &${fn}_kernel, ${(v + 255) // 256}, 1, (void *[]){ &logits, &row, &next_logits });
}
