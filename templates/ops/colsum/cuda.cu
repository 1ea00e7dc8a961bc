//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- colsum: a block sums some columns over every chunks-th group of 8 rows, a warp a row at
//@ -- a time; then the chunks' sums in order.
//@ local n_width = width(n, dy)
//@ local cols, chunks = 32 * n_width, workspace // (n * acc_bytes)
//@ local g = { width = n_width }
RT_GLOBAL(256)
${fn}(const ${dy.type} *dy, ${acc} *part)
{
    RT_SHARED(${acc}, shared, ${8 * cols});
    const int first = blockIdx.x * ${cols}, mine = threadIdx.x % 32 * ${n_width};
    ${acc} sum[${n_width}] = {}, v[${n_width}];
    if (first + mine < ${n}) {
        RT_UNROLL_BY(4)
        for (int64_t i = blockIdx.y * 8 + threadIdx.x / 32; i < ${t}; i += ${8 * chunks}) {
            ${load("v", dy, "i * " .. n .. " + first + mine", g)};
            for (int k = 0; k < ${n_width}; k++)
                sum[k] += v[k];
        }
    }
    for (int k = 0; k < ${n_width}; k++)
        shared[threadIdx.x / 32 * ${cols} + mine + k] = sum[k];
    rt_block_sync();
    const int j = threadIdx.x;
    if (j < ${cols} && first + j < ${n}) {
        ${acc} of_warps = shared[j];
        for (int warp = 1; warp < 8; warp++)
            of_warps += shared[warp * ${cols} + j];
        part[(int64_t)blockIdx.y * ${n} + first + j] = of_warps;
    }
}

/* The sums of the chunks in order. */
RT_GLOBAL(1024)
${fn}_sum(const ${acc} *part, ${db.type} *db, float beta)
{
    RT_SHARED(${acc}, shared, 1024);
    const ${acc} sum = rt_column_sum(part, ${chunks}, ${n}, shared);
    const int j = blockIdx.x * 32 + threadIdx.x;
    if (threadIdx.x < 32 && j < ${n})
        ${st(db, "j", "(beta == 0 ? 0 : " .. ld(db, "j") .. ") + sum")};
}
//@ host
${kernel(fn, 256)}
${kernel(fn .. "_sum", 1024)}

/* db[${n}] = beta db + the sum of dy[${t}, ${n}] over rows; part: sums of ${chunks} chunks */
static void ${fn}(Rt *rt, const ${dy.type} *dy, ${db.type} *db, float beta, char *workspace)
{
    ${acc} *part = (${acc} *)(void *)workspace;
    rt_launch(rt, &${fn}_kernel, ${(n + cols - 1) // cols}, ${chunks}, (void *[]){ &dy, &part });
    rt_launch(rt, &${fn}_sum_kernel, ${(n + 31) // 32}, 1, (void *[]){ &part, &db, &beta });
}
