//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- rmsnorm: a block for each row; the row is in the first-level cache when it is read again.
//@ local f = acc == "float" and "f" or ""
//@ local threads = d >= 1024 and 256 or 128
RT_GLOBAL(${threads})
${fn}(const ${x.type} *x, const ${w.type} *w, ${y.type} *y, ${rstd.type} *rstd)
{
    RT_SHARED(${acc}, part, ${threads // 32});
    const int64_t at = (int64_t)blockIdx.x * ${d};
    ${acc} squares = 0;
    for (int j = threadIdx.x; j < ${d}; j += ${threads}) {
        const ${acc} v = ${ld(x, "at + j")};
        squares += v * v;
    }
    squares = rt_block_sum<${threads}>(squares, part);
    const ${acc} r = 1 / rt_sqrt${f}(squares / ${d} + ${lit(eps)});
    if (threadIdx.x == 0) {
        rstd[blockIdx.x] = r;
    }
    for (int j = threadIdx.x; j < ${d}; j += ${threads}) {
        ${st(y, "at + j", ld(x, "at + j") .. " * r * " .. ld(w, "j"))};
    }
}
//@ host
${kernel(fn, threads)}

static void ${fn}(Rt *rt, const ${x.type} *x, const ${w.type} *w, ${y.type} *y,
                  ${rstd.type} *rstd)
{
    rt_launch(rt, &${fn}_kernel, ${t}, 1, (void *[]){ &x, &w, &y, &rstd });
}
