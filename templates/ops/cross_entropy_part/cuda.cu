//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- cross_entropy_part: a block for each row of a part, in two passes.
//@ local each, count = v // parts, smoothing > 0 and 4 or 3
//@ local ragged = vocab % each > 0 -- the last part has fewer classes
//@ local cols = ragged and "cols" or each
//@ local g = long_row(each, logits)
//@ local load_row = softcap == 0 and access("load", logits, { width = g.width })
//@   or "rt_load<" .. fn .. "_capped, " .. g.width .. ">"
//@ if softcap > 0 then
${capped_rows(logits, each, softcap, g)}
//@ end
RT_GLOBAL(${g.threads})
${fn}(const ${logits.type} *logits, const int32_t *targets, const int32_t *part, ${acc} *stats)
{
    RT_SHARED(${acc}, shared, ${g.warps});
    const ${acc} least = (${acc})-3e38f;
    const int i = blockIdx.x, k = blockIdx.y, first = part[k] * ${each}, target = targets[i];
    const ${logits.type} *row = logits + (int64_t)i * ${v} + k * ${each};
    ${acc} *of_token = stats + ((int64_t)k * ${t} + i) * ${count};
    if (target < 0) { /* masked */
        if (threadIdx.x < ${count})
            of_token[threadIdx.x] = 0;
        return;
    }
//@ if ragged then
    const int cols = ${vocab} - first < ${each} ? ${vocab} - first : ${each};
//@ end
    ${acc} top = least, own = 0;
    for (int j = threadIdx.x * ${g.width}; j < ${cols}; j += ${g.threads * g.width}) {
        ${acc} x[${g.width}];
        ${load_row}(x, row + j);
        for (int n = 0; n < ${g.width}; n++) {
            const bool inside = j + n < ${cols};
            top = inside && x[n] > top ? x[n] : top;
            own = inside && first + j + n == target ? x[n] : own;
        }
    }
    const ${acc} most = rt_block_max<${g.threads}>(top, shared);
    ${acc} sum = 0${smoothing > 0 and ", all = 0" or ""};
    for (int j = threadIdx.x * ${g.width}; j < ${cols}; j += ${g.threads * g.width}) {
        ${acc} x[${g.width}];
        ${load_row}(x, row + j);
        for (int n = 0; n < ${g.width}; n++) {
            sum += j + n < ${cols} ? rt_exp_of(x[n] - most) : 0;
//@ if smoothing > 0 then
            all += j + n < ${cols} ? x[n] : 0;
//@ end
        }
    }
    sum = rt_block_sum<${g.threads}>(sum, shared);
    own = rt_block_sum<${g.threads}>(own, shared); /* one thread has it, or none */
//@ if smoothing > 0 then
    all = rt_block_sum<${g.threads}>(all, shared);
//@ end
    if (threadIdx.x == 0) {
        of_token[0] = most;
        of_token[1] = sum;
        of_token[2] = own;
//@ if smoothing > 0 then
        of_token[3] = all;
//@ end
    }
}
//@ host
${kernel(fn, g.threads)}

/* stats[${parts}, ${t}, ${count}] of logits[${t}, ${v}] */
static void ${fn}(Rt *rt, const ${logits.type} *logits, const int32_t *targets, const int32_t *part,
                  ${acc} *stats)
{
    rt_launch(rt, &${fn}_kernel, ${t}, ${parts},
              (void *[]){ &logits, &targets, &part, &stats });
}
