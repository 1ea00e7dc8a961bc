//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- gather_rows_bwd: numbers are sorted, equal ones in their order, by counting those before
//@ -- each; then a block sums the rows of one number in that order.
//@ local g = grid(d, dy)
//@ local function row(i) return (seq > 0 and i .. " / " .. seq .. " * " .. seq .. " + " or "") .. "index[" .. i .. "]" end
/* order[r]: what stands at r when sorted; ids[r]: its row of dx. */
RT_GLOBAL(256)
${fn}_sort(const int32_t *index, int32_t *order, int32_t *ids)
{
    RT_SHARED(int32_t, others, 256);
    const int first = blockIdx.x * 256, i = first + threadIdx.x;
    const int32_t id = i < ${n} ? ${row("i")} : 0;
    int before = 0;
    for (int from = 0; from < ${n}; from += 256) {
        const int32_t below = from < first ? id + 1 : id; /* equal ones go in order */
        const int j = from + threadIdx.x;
        rt_block_sync();
        others[threadIdx.x] = j < ${n} ? ${row("j")} : ${rows};
        rt_block_sync();
        RT_UNROLL_BY(16)
        for (int k = 0; k < 256; k++)
            before += others[k] < below;
        if (from == first) {
            for (int k = 0; k < threadIdx.x; k++)
                before += others[k] == id;
        }
    }
    if (i < ${n}) {
        order[before] = i;
        ids[before] = id;
    }
}

/* The rows of the number that begins at blockIdx.x in sorted order; where none does, nothing. */
RT_GLOBAL(${g.threads})
${fn}(const int32_t *order, const int32_t *ids, const ${dy.type} *dy, ${dx.type} *dx)
{
    const int first = blockIdx.x, j = (blockIdx.y * ${g.threads} + threadIdx.x) * ${g.width};
    const int32_t id = ids[first];
//@ if g.whole then
    if (first > 0 && ids[first - 1] == id)
        return;
//@ else
    if ((first > 0 && ids[first - 1] == id) || j >= ${d})
        return;
//@ end
    ${acc} sum[${g.width}] = {};
    for (int from = first; from < ${n} && ids[from] == id; from++) {
        ${acc} v[${g.width}];
        ${load("v", dy, "(int64_t)order[from] * " .. d .. " + j", g)};
        for (int k = 0; k < ${g.width}; k++)
            sum[k] += v[k];
    }
    ${store(dx, "(int64_t)id * " .. d .. " + j", "sum", g)};
}
//@ host
${kernel(fn .. "_sort", 256)}
${kernel(fn, g.threads)}

/* dx[${rows}, ${d}] = sums of the rows of dy[${n}, ${d}] where their numbers stand */
static void ${fn}(Rt *rt, const int32_t *index, const ${dy.type} *dy, ${dx.type} *dx,
                  char *workspace)
{
    int32_t *order = (int32_t *)(void *)workspace, *ids = order + ${n};
    rt_fill(rt, dx, 0, ${rows * d} * (int64_t)sizeof *dx);
    rt_launch(rt, &${fn}_sort_kernel, ${(n + 255) // 256}, 1,
              (void *[]){ &index, &order, &ids });
    rt_launch(rt, &${fn}_kernel, ${n}, ${g.blocks}, (void *[]){ &order, &ids, &dy, &dx });
}
