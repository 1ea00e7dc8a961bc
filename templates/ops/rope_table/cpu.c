//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- rope_table: computed in double, rounded once; see op.lua for the scaling.
//@ local half, width = head_dim // 2, high_freq_factor - low_freq_factor
static void ${fn}(${_ENV.table.type} *restrict table)
{
    double frequency[${half}];
    for (int64_t i = 0; i < ${half}; i++) {
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
        frequency[i] = f;
    }
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < ${seq}; p++) {
        for (int64_t i = 0; i < ${half}; i++) {
            const double angle = (double)p * frequency[i];
            table[p * ${head_dim} + i] = (${_ENV.table.type})rt_cos(angle);
            table[p * ${head_dim} + ${half} + i] = (${_ENV.table.type})rt_sin(angle);
        }
    }
}
