//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- rope_table: a thread for each angle, in double, rounded once; see op.lua for the scaling.
//@ local half, width = head_dim // 2, high_freq_factor - low_freq_factor
RT_GLOBAL(256)
${fn}(${_ENV.table.type} *table)
{
    const int64_t at = (int64_t)blockIdx.x * 256 + threadIdx.x;
    const int64_t p = at / ${half}, i = at % ${half};
    if (p >= ${seq})
        return;
    double f = rt_exp(-((double)(2 * i) / ${head_dim}) * rt_log(${real(theta)}));
//@ if original > 0 then
    /* turns that this frequency made in the context of pretraining */
    const double turns = ${real(original)} * f / (2 * 3.141592653589793);
    if (turns < ${real(low_freq_factor)}) {
        f = f / ${real(factor)};
    } else if (turns <= ${real(high_freq_factor)}) {
        const double smooth = (turns - ${real(low_freq_factor)}) / ${real(width)};
        f = (1 - smooth) * f / ${real(factor)} + smooth * f;
    }
//@ end
    table[p * ${head_dim} + i] = (${_ENV.table.type})rt_cos((double)p * f);
    table[p * ${head_dim} + ${half} + i] = (${_ENV.table.type})rt_sin((double)p * f);
}
//@ host
${kernel(fn, 256)}

/* table[${seq}, ${head_dim}]: cosines, then sines of each position */
static void ${fn}(Rt *rt, ${_ENV.table.type} *table)
{
    rt_launch(rt, &${fn}_kernel, ${(seq * half + 255) // 256}, 1, (void *[]){ &table });
}
