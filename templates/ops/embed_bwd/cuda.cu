//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- embed_bwd: tokens are sorted by their id, equal ones in token order, by counting those
//@ -- before each; then a block sums the rows of one id in that order.
//@ local g = grid(d, dy)
//@ local rows = g.width > 4 and 4 or 8 -- loaded at once
//@ local many = 2 * rows -- if so many are left; more cost registers, so blocks
//@ local take, give = part and ", const int32_t *part" or "", part and ", &part" or ""
//@ local function id_of(token) -- ids of other parts are sorted before these parts' rows
//@   return part and "(int32_t)" .. fn .. "_row(" .. token .. ", part)" or token
//@ end
//@ if part then
//@ local of_part = vocab // parts
/* The row of dw for an id, or -1: another part has it. */
RT_DEVICE int64_t ${fn}_row(int32_t id, const int32_t *part)
{
//@ if parts == 1 then
    const int64_t row = id - (int64_t)*part * ${of_part};
    return row >= 0 && row < ${of_part} ? row : -1;
//@ else
    for (int k = 0; k < ${parts}; k++) {
        const int64_t row = id - (int64_t)part[k] * ${of_part};
        if (row >= 0 && row < ${of_part})
            return k * ${of_part} + row;
    }
    return -1;
//@ end
}

//@ end
/* order[r]: the token with rank r when sorted by id; ids[r]: its id. */
RT_GLOBAL(256)
${fn}_sort(const int32_t *tokens${take}, int32_t *order, int32_t *ids)
{
    RT_SHARED(int32_t, others, 256);
    const int first = blockIdx.x * 256, i = first + threadIdx.x;
    const int32_t id = i < ${t} ? ${id_of "tokens[i]"} : 0;
    int before = 0;
    for (int from = 0; from < ${t}; from += 256) {
        const int32_t below = from < first ? id + 1 : id; /* equal ones go in token order */
        const int j = from + threadIdx.x;
        rt_block_sync();
        others[threadIdx.x] = j < ${t} ? ${id_of "tokens[j]"} : ${vocab};
        rt_block_sync();
        RT_UNROLL_BY(16)
        for (int k = 0; k < 256; k++)
            before += others[k] < below;
        if (from == first) {
            for (int k = 0; k < threadIdx.x; k++)
                before += others[k] == id;
        }
    }
    if (i < ${t}) {
        order[before] = i;
        ids[before] = id;
    }
}

/* Adds the rows of the id whose first token has rank blockIdx.x; otherwise does
 * nothing. */
RT_GLOBAL(${g.threads})
${fn}(const int32_t *order, const int32_t *ids, const ${dy.type} *dy, ${dw.type} *dw)
{
    const int first = blockIdx.x, j = (blockIdx.y * ${g.threads} + threadIdx.x) * ${g.width};
    const int32_t id = ids[first];
//@ if part then
    if (id < 0)
        return;
//@ end
//@ if g.whole then
    if (first > 0 && ids[first - 1] == id) {
//@ else
    if ((first > 0 && ids[first - 1] == id) || j >= ${d}) {
//@ end
        return;
    }
    const int64_t to = (int64_t)id * ${d} + j;
    ${acc} sum[${g.width}];
    ${load("sum", dw, "to", g)};
    int from = first;
    for (; from + ${many - 1} < ${t} && ids[from + ${many - 1}] == id; from += ${many}) {
        ${acc} v[${many}][${g.width}];
        RT_UNROLL
        for (int r = 0; r < ${many}; r++)
            ${load("v[r]", dy, "(int64_t)order[from + r] * " .. d .. " + j", g)};
        RT_UNROLL
        for (int r = 0; r < ${many}; r++) {
            for (int k = 0; k < ${g.width}; k++)
                sum[k] += v[r][k];
        }
    }
    for (; from < ${t} && ids[from] == id; from += ${rows}) {
        ${acc} v[${rows}][${g.width}] = {};
        RT_UNROLL
        for (int r = 0; r < ${rows}; r++) {
            if (from + r < ${t} && ids[from + r] == id)
                ${load("v[r]", dy, "(int64_t)order[from + r] * " .. d .. " + j", g)};
        }
        RT_UNROLL
        for (int r = 0; r < ${rows}; r++) {
            for (int k = 0; k < ${g.width}; k++)
                sum[k] += v[r][k];
        }
    }
    ${store(dw, "to", "sum", g)};
}
//@ host
${kernel(fn .. "_sort", 256)}
${kernel(fn, g.threads)}

/* dw[${vocab}, ${d}] = beta dw + the rows of dy[${t}, ${d}] where their tokens stand */
//@ if part then
static void ${fn}(Rt *rt, const int32_t *tokens, const ${dy.type} *dy, const int32_t *part,
                  ${dw.type} *dw, float beta, char *workspace)
//@ else
static void ${fn}(Rt *rt, const int32_t *tokens, const ${dy.type} *dy, ${dw.type} *dw,
                  float beta, char *workspace)
//@ end
{
    int32_t *order = (int32_t *)(void *)workspace, *ids = order + ${t};
    if (beta == 0)
        rt_fill(rt, dw, 0, ${vocab * d} * (int64_t)sizeof *dw);
    rt_launch(rt, &${fn}_sort_kernel, ${(t + 255) // 256}, 1,
              (void *[]){ &tokens${give}, &order, &ids });
    rt_launch(rt, &${fn}_kernel, ${t}, ${g.blocks}, (void *[]){ &order, &ids, &dy, &dw });
}
