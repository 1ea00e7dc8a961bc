//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- logits_row: one row is copied.
static void ${fn}(const ${logits.type} *restrict logits, const int32_t *restrict row,
                  ${next_logits.type} *restrict next_logits)
{
    memcpy(next_logits, logits + (int64_t)*row * ${v}, ${v} * sizeof *logits);
}
