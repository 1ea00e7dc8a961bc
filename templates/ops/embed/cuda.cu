//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- embed: token blockIdx.x, a part of its columns; w and y have one dtype.
//@ local g = grid(d, w)
RT_GLOBAL(${g.threads})
${fn}(const int32_t *tokens, const ${w.type} *w, ${y.type} *y)
{
    const int j = (blockIdx.y * ${g.threads} + threadIdx.x) * ${g.width};
//@ if not g.whole then
    if (j >= ${d})
        return;
//@ end
    const int64_t from = (int64_t)tokens[blockIdx.x] * ${d} + j;
    rt_copy<${g.width}>(y + (int64_t)blockIdx.x * ${d} + j, w + from);
}
//@ host
${kernel(fn, g.threads)}

/* y[${t}, ${d}] = w[tokens], w[${v}, ${d}] */
static void ${fn}(Rt *rt, const int32_t *tokens, const ${w.type} *w, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${t}, ${g.blocks}, (void *[]){ &tokens, &w, &y });
}
