//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- gather_rows: row blockIdx.x of y, a part of its columns.
//@ local g = grid(d, x)
//@ local sequence = seq > 0 and "blockIdx.x / " .. seq .. " * " .. seq .. " + " or ""
RT_GLOBAL(${g.threads})
${fn}(const ${x.type} *x, const int32_t *index, ${y.type} *y)
{
    const int j = (blockIdx.y * ${g.threads} + threadIdx.x) * ${g.width};
//@ if not g.whole then
    if (j >= ${d})
        return;
//@ end
    const int64_t row = ${sequence}index[blockIdx.x];
    rt_copy<${g.width}>(y + (int64_t)blockIdx.x * ${d} + j, x + row * ${d} + j);
}
//@ host
${kernel(fn, g.threads)}

/* y[${n}, ${d}] = rows of x[${r}, ${d}] */
static void ${fn}(Rt *rt, const ${x.type} *x, const int32_t *index, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${n}, ${g.blocks}, (void *[]){ &x, &index, &y });
}
