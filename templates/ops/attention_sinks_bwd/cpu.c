//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- attention_sinks_bwd: a query's heads one after the other; a head is a row.
//@ local f, wide = acc == "float" and "f" or "", e // h
/* shares[${t}, ${h}] from rows of ${h} heads, ${wide} wide */
static void ${fn}(const ${o.type} *restrict o, const ${lse.type} *restrict lse,
                  const ${d_o.type} *restrict d_o, const ${sinks.type} *restrict sinks,
                  ${shares.type} *restrict shares)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
        for (int64_t head = 0; head < ${h}; head++) {
            const int64_t at = i * ${h} + head;
            const ${acc} delta = rt_row_dot_${o.dtype}(o + at * ${wide}, d_o + at * ${wide}, ${wide});
            shares[at] = -rt_exp${f}(${ld(sinks, "head")} - lse[at]) * delta;
        }
    }
}
