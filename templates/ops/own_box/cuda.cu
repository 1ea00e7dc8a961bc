//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- own_box: a thread copies adjacent elements, 16 bytes if they divide the matrix.
//@ local w, elems = width(t * d, x), t * d
RT_GLOBAL(256)
${fn}(const ${x.type} *x, ${y.type} *y)
{
    const int64_t at = ((int64_t)blockIdx.x * 256 + threadIdx.x) * ${w};
//@ if elems % (256 * w) > 0 then
    if (at >= ${elems})
        return;
//@ end
    rt_copy<${w}>(y + at, x + at);
}
//@ host
${kernel(fn, 256)}

/* y[${t}, ${d}] = x */
static void ${fn}(Rt *rt, const ${x.type} *x, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${(elems + 256 * w - 1) // (256 * w)}, 1, (void *[]){ &x, &y });
}
