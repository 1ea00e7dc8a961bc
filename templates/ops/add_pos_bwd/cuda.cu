//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- add_pos_bwd: a thread sums some columns of a position, sequences in order. With
//@ -- documents, tokens are sorted by position first, as embed_bwd does by id.
//@ local g = grid(d, dy)
//@ local rows = g.width > 4 and 4 or 8 -- loaded at once
//@ if starts then
/* order[r]: the token with rank r when sorted by position, equal ones in token order;
 * places[r]: its position. */
RT_GLOBAL(256)
${fn}_sort(const int32_t *starts, int32_t *order, int32_t *places)
{
    RT_SHARED(int32_t, others, 256);
    const int first = blockIdx.x * 256, i = first + threadIdx.x;
    const int32_t place = i < ${t} ? i % ${seq} - starts[i] : 0;
    int before = 0;
    for (int from = 0; from < ${t}; from += 256) {
        const int32_t below = from < first ? place + 1 : place;
        const int j = from + threadIdx.x;
        rt_block_sync();
        others[threadIdx.x] = j < ${t} ? j % ${seq} - starts[j] : ${seq};
        rt_block_sync();
        RT_UNROLL_BY(16)
        for (int k = 0; k < 256; k++)
            before += others[k] < below;
        if (from == first) {
            for (int k = 0; k < threadIdx.x; k++)
                before += others[k] == place;
        }
    }
    if (i < ${t}) {
        order[before] = i;
        places[before] = place;
    }
}

/* Adds the rows of the position whose first token has rank blockIdx.x; otherwise does
 * nothing. */
RT_GLOBAL(${g.threads})
${fn}(const int32_t *order, const int32_t *places, const ${dy.type} *dy, ${dw.type} *dw)
{
    const int first = blockIdx.x, j = (blockIdx.y * ${g.threads} + threadIdx.x) * ${g.width};
    const int32_t place = places[first];
//@ if g.whole then
    if (first > 0 && places[first - 1] == place) {
//@ else
    if ((first > 0 && places[first - 1] == place) || j >= ${d}) {
//@ end
        return;
    }
    const int64_t to = (int64_t)place * ${d} + j;
    ${acc} sum[${g.width}] = {}, old[${g.width}];
    for (int from = first; from < ${t} && places[from] == place; from += ${rows}) {
        ${acc} v[${rows}][${g.width}] = {};
        RT_UNROLL
        for (int r = 0; r < ${rows}; r++) {
            if (from + r < ${t} && places[from + r] == place)
                ${load("v[r]", dy, "(int64_t)order[from + r] * " .. d .. " + j", g)};
        }
        RT_UNROLL
        for (int r = 0; r < ${rows}; r++) {
            for (int k = 0; k < ${g.width}; k++)
                sum[k] += v[r][k];
        }
    }
    ${load("old", dw, "to", g)};
    for (int k = 0; k < ${g.width}; k++)
        sum[k] += old[k];
    ${store(dw, "to", "sum", g)};
}
//@ else
RT_GLOBAL(${g.threads})
${fn}(const ${dy.type} *dy, ${dw.type} *dw, float beta)
{
    const int j = (blockIdx.y * ${g.threads} + threadIdx.x) * ${g.width};
    const int64_t to = (int64_t)blockIdx.x * ${d} + j;
//@ if not g.whole then
    if (j >= ${d})
        return;
//@ end
    ${acc} sum[${g.width}] = {}, v[${g.width}] = {};
    RT_UNROLL_BY(4)
    for (int64_t at = to; at < ${t * d}; at += ${seq * d}) {
        ${load("v", dy, "at", g)};
        for (int k = 0; k < ${g.width}; k++)
            sum[k] += v[k];
    }
    if (beta != 0) {
        ${load("v", dw, "to", g)};
        for (int k = 0; k < ${g.width}; k++)
            sum[k] += v[k];
    }
    ${store(dw, "to", "sum", g)};
}
//@ end
//@ host
//@ if starts then
${kernel(fn .. "_sort", 256)}
${kernel(fn, g.threads)}

/* dw[${positions}, ${d}] = beta dw + the rows of dy[${t}, ${d}] at their positions */
static void ${fn}(Rt *rt, const ${dy.type} *dy, const int32_t *starts, ${dw.type} *dw,
                  float beta, char *workspace)
{
    int32_t *order = (int32_t *)(void *)workspace, *places = order + ${t};
    if (beta == 0)
        rt_fill(rt, dw, 0, ${positions * d} * (int64_t)sizeof *dw);
    rt_launch(rt, &${fn}_sort_kernel, ${(t + 255) // 256}, 1,
              (void *[]){ &starts, &order, &places });
    rt_launch(rt, &${fn}_kernel, ${t}, ${g.blocks}, (void *[]){ &order, &places, &dy, &dw });
}
//@ else
${kernel(fn, g.threads)}

/* dw[${positions}, ${d}] = beta dw + the sum of dy[${t}, ${d}] over sequences */
static void ${fn}(Rt *rt, const ${dy.type} *dy, ${dw.type} *dw, float beta)
{
//@ if positions > seq then
    if (beta == 0) { /* positions without a token */
        rt_fill(rt, dw + ${seq * d}, 0, ${(positions - seq) * d} * (int64_t)sizeof *dw);
    }
//@ end
    rt_launch(rt, &${fn}_kernel, ${seq}, ${g.blocks}, (void *[]){ &dy, &dw, &beta });
}
//@ end
