//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- embed: token blockIdx.x, a part of its columns; w and y have one dtype.
//@ local g = grid(d, w)
//@ local take, give = part and ", const int32_t *part" or "", part and ", &part" or ""
//@ if part then
//@ local rows = v // parts
/* The row of w for an id, or -1: another part has it. */
RT_DEVICE int64_t ${fn}_row(int32_t id, const int32_t *part)
{
//@ if parts == 1 then
    const int64_t row = id - (int64_t)*part * ${rows};
    return row >= 0 && row < ${rows} ? row : -1;
//@ else
    for (int k = 0; k < ${parts}; k++) {
        const int64_t row = id - (int64_t)part[k] * ${rows};
        if (row >= 0 && row < ${rows})
            return k * ${rows} + row;
    }
    return -1;
//@ end
}

//@ end
RT_GLOBAL(${g.threads})
${fn}(const int32_t *tokens, const ${w.type} *w${take}, ${y.type} *y)
{
    const int j = (blockIdx.y * ${g.threads} + threadIdx.x) * ${g.width};
//@ if not g.whole then
    if (j >= ${d})
        return;
//@ end
//@ if part then
    const int64_t row = ${fn}_row(tokens[blockIdx.x], part);
    if (row < 0) {
        ${acc} none[${g.width}];
        for (int k = 0; k < ${g.width}; k++)
            none[k] = ${acc == "float" and "-0.0f" or "-0.0"}; /* x + -0.0 is x, also if x is -0.0 */
        ${store(y, "(int64_t)blockIdx.x * " .. d .. " + j", "none", g)};
        return;
    }
    const int64_t from = row * ${d} + j;
//@ else
    const int64_t from = (int64_t)tokens[blockIdx.x] * ${d} + j;
//@ end
    rt_copy<${g.width}>(y + (int64_t)blockIdx.x * ${d} + j, w + from);
}
//@ host
${kernel(fn, g.threads)}

//@ if part then
/* y[${t}, ${d}] = w[tokens], -0.0 where other parts have the row; w[${v}, ${d}] */
//@ else
/* y[${t}, ${d}] = w[tokens], w[${v}, ${d}] */
//@ end
static void ${fn}(Rt *rt, const int32_t *tokens, const ${w.type} *w${take}, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${t}, ${g.blocks}, (void *[]){ &tokens, &w${give}, &y });
}
