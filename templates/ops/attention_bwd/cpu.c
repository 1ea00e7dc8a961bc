//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- attention_bwd: probabilities again from lse, then the five products, in blocks. A
//@ -- task is one sequence's kv head with the query heads that read it: it alone adds to
//@ -- its dk and dv, in a fixed order. f16 rows become f32; bf16 rows are multiplied in pairs, as in
//@ -- attention: probabilities and the scores' gradients are rounded to bf16 on their way
//@ -- into dv, dk and dq; everything is summed in f32.
//@ local pairs, single = qkv.type == "rt_bf16", acc == "float"
//@ local P = single and "rt_vf" or "rt_vd"
//@ local U = single and "RT_VF" or "RT_VD"
//@ local V, I = P, single and "rt_vi" or "rt_vl"
//@ local whole = single and "int32_t" or "int64_t"
//@ local hd, group, row = head_dim, heads // kv_heads, (heads + 2 * kv_heads) * head_dim
//@ local o_row, elem = heads * head_dim, qkv.type
//@ local task = "struct " .. fn .. "_task"
//@ local block = pairs and "rt_pairs_block" or P .. "_block"
//@ local cell = pairs and "uint32_t" or acc      -- what products read
//@ local deep = pairs and (hd + 1) // 2 or hd    -- cells of a row of q, k, v or d_o
//@ local k_deep = pairs and deep or "HEAD"
//@ local half = pairs and " / 2" or ""
//@ local copy = elem == "rt_f16" and "rt_row_widen_f16" or "memcpy" -- a row into cells
//@ local function of(name) return elem == "rt_f16" and "" or " * sizeof *" .. name end
//@ local function at(name, index)
//@   return ld({ name = name, type = elem, dtype = qkv.dtype }, index)
//@ end
//@ local function into(name, index, value)
//@   return st({ name = name, type = elem, dtype = qkv.dtype }, index, value)
//@ end
//@ -- With a softcap, products become tanh(product * scale / softcap) first; scores are softcap of it,
//@ -- and their gradient also has its slope.
//@ local of_score = lit(softcap > 0 and softcap or scale)
//@ local slope = softcap > 0 and " * (1 - t * t)" or ""
//@ local chunk = key_chunk < seq and key_chunk or 0 -- one chunk cuts nothing
//@ local window = window < seq and window or 0 -- one that has all keys hides none
//@ local listed = starts or chunk > 0 -- a table has the first key that each query sees
//@ local start = starts and "starts[query]" or "query / " .. chunk .. " * " .. chunk
//@ if starts and chunk > 0 then start = "query - (query - starts[query]) % " .. chunk end
//@ local function seen()
//@   if listed then return "(key <= query) & (key >= oldest)" end
//@   if window == 0 then return "key <= query" end
//@   return "(key <= query) & (key > query - " .. window .. ")"
//@ end
//@ -- Rows of a register block over the head dimension: the tallest that divides it and
//@ -- fills at least half of the registers; else as tall as they go, with rows of zeros.
#include "rt_simd.h"

#define QUERIES 64 /* at a time: a multiple of every register block's columns */
#define KEYS 96    /* at a time: a multiple of every register block's rows */
#define STRIPS (QUERIES / ${U}_COLS)
/* Rows of a register block over the head dimension, and that dimension rounded up to
 * them. */
#define HEAD_ROWS \
    ${block_rows(hd)}
#define HEAD ((${hd} + HEAD_ROWS - 1) / HEAD_ROWS * HEAD_ROWS)
#define WIDE ((${hd} + ${U}_LANES - 1) / ${U}_LANES * ${U}_LANES) /* in lanes */

/* The blocks of one task. _t: transposed, with queries in columns, so that sums over keys
 * stay inside lanes; the others have the head dimension in columns. */
${task} {
    ${cell} q_t[${deep}][QUERIES], do_t[${deep}][QUERIES];
    ${cell} q[QUERIES${half}][WIDE], d_o[QUERIES${half}][WIDE];
    ${acc} lse[QUERIES], delta[QUERIES]; /* delta: sum of d_o o */
//@ if listed then
    ${whole} oldest[QUERIES]; /* first key that each query sees, never decreasing */
//@ end
    ${acc} dq_t[HEAD][QUERIES];
    ${cell} k[KEYS][${k_deep}], v[KEYS][${deep}];
    ${acc} s[KEYS][QUERIES], dp[KEYS][QUERIES];
    ${cell} p[KEYS][QUERIES${half}], ds[KEYS][QUERIES${half}];
//@ if pairs then
    /* the same k and ds with pairs along the keys */
    uint32_t k_pairs[KEYS / 2][HEAD], ds_pairs[KEYS / 2][QUERIES];
//@ end
};

/* Replaces scores by probabilities, and gradients of probabilities by those of scores,
 * in one vector of queries, from column c. edge: some query does not see some of the
 * keys. */
static inline void ${fn}_scores(${task} *a, int64_t c, int64_t query0, int64_t key0,
                                int64_t first, int64_t last, const bool edge)
{
    const ${I} query = ${P}_count((int)(query0 + c));
//@ if listed then
    ${I} oldest;
    memcpy(&oldest, &a->oldest[c], sizeof oldest);
//@ end
    const ${V} lse = ${P}_load(&a->lse[c]), delta = ${P}_load(&a->delta[c]);
    const ${V} scale = ${P}_set(${of_score});
//@ local step = pairs and 2 or 1
    for (int64_t j = first; j < last; j += ${step}) {
        ${V} ds[${step}];
        for (int i = 0; i < ${step}; i++) {
            const int key = (int)(key0 + j + i);
            ${V} p = ${P}_exp(${P}_load(&a->s[j + i][c]) * scale - lse);
            p = edge ? ${P}_select(${seen()}, p, ${P}_set(0)) : p;
//@ if softcap > 0 then
            const ${V} t = ${P}_load(&a->s[j + i][c]);
//@ end
            ds[i] = p * (${P}_load(&a->dp[j + i][c]) - delta)${slope};
//@ if pairs then
            rt_vf_store_bf16((rt_bf16 *)(void *)a->p[j + i] + c, p);
            rt_vf_store_bf16((rt_bf16 *)(void *)a->ds[j + i] + c, ds[i]);
        }
        rt_vf_store_pairs(&a->ds_pairs[j / 2][c], ds[0], ds[1]);
//@ else
            ${P}_store(&a->p[j][c], p);
            ${P}_store(&a->ds[j][c], ds[i]);
        }
//@ end
    }
}

/* Keys [first, last) of the block at key0 against the strip of queries at query0 + c:
 * their probabilities, the gradients of their scores, their part of dq. */
static void ${fn}_strip(${task} *a, int64_t c, int64_t query0, int64_t key0,
                        int64_t first, int64_t last)
{
    enum { ROWS = RT_BLOCK_ROWS, VECS = RT_BLOCK_VECS, Q = QUERIES };
    for (int64_t j = first; j < last; j += ROWS) {
        ${block}(ROWS, VECS, ${deep}, a->k[j], ${k_deep}, 1, &a->q_t[0][c], Q,
                 &a->s[j][c], Q, 0);
        ${block}(ROWS, VECS, ${deep}, a->v[j], ${deep}, 1, &a->do_t[0][c], Q,
                 &a->dp[j][c], Q, 0);
    }
//@ if softcap > 0 then
    for (int64_t j = first; j < last; j++) {
#pragma omp simd
        for (int64_t i = c; i < c + ${U}_COLS; i++)
            a->s[j][i] = rt_tanh${single and "f" or ""}(a->s[j][i] * ${lit(scale / softcap)});
    }
//@ end
    bool edge = key0 + last > query0 + c + 1; /* some key comes after some query */
//@ if listed then
    edge = edge || key0 + first < a->oldest[c + ${U}_COLS - 1];
//@ elseif window > 0 then
    edge = edge || key0 + first <= query0 + c + ${U}_COLS - 1 - ${window};
//@ end
    for (int64_t lane0 = c; lane0 < c + ${U}_COLS; lane0 += ${U}_LANES) {
        if (edge)
            ${fn}_scores(a, lane0, query0, key0, first, last, true);
        else
            ${fn}_scores(a, lane0, query0, key0, first, last, false);
    }
//@ local k_cells, ds_cells = "k[first]", "ds[first]"
//@ if pairs then k_cells, ds_cells = "k_pairs[first / 2]", "ds_pairs[first / 2]" end
    for (int64_t d = 0; d < HEAD; d += HEAD_ROWS) {
        ${block}(HEAD_ROWS, VECS, (last - first)${half}, &a->${k_cells}[d], 1, HEAD,
                 &a->${ds_cells}[c], Q, &a->dq_t[d][c], Q, 1);
    }
}

/* sums[rows of keys, head dim] += cells[keys, queries] rows[queries, head dim], for
 * queries from..to of both. */
static inline void ${fn}_add(const ${cell} *cells, const ${cell} *rows, ${acc} *sums,
                             int64_t from, int64_t to)
{
    enum { Q = QUERIES${half}, COLS = ${U}_COLS };
    const int64_t n = (to - from)${half};
    const ${cell} *row = rows + from${half} * WIDE;
    int64_t d = 0;
    cells += from${half};
    for (; d + COLS <= WIDE; d += COLS) {
        ${block}(RT_BLOCK_ROWS, RT_BLOCK_VECS, n, cells, Q, 1, row + d, WIDE, sums + d,
                 WIDE, 1);
    }
    for (; d < WIDE; d += ${U}_LANES)
        ${block}(RT_BLOCK_ROWS, 1, n, cells, Q, 1, row + d, WIDE, sums + d, WIDE, 1);
}

/* Keys and values side by side. Those beyond the sequence are zeros: they are masked, but
 * their rows enter the products. */
static void ${fn}_load_keys(${task} *a, const ${elem} *k, const ${elem} *v, int64_t keys)
{
    const bool padded = HEAD > ${hd} || ${hd} % 2 == 1;
    const int64_t zeros = padded ? 0 : keys; /* rows from here on are cleared */
    memset(a->k[zeros], 0, (size_t)(KEYS - zeros) * sizeof a->k[0]);
    memset(a->v[zeros], 0, (size_t)(KEYS - zeros) * sizeof a->v[0]);
//@ if pairs then
    memset(a->k_pairs[zeros / 2], 0,
           (size_t)(KEYS / 2 - zeros / 2) * sizeof a->k_pairs[0]);
//@ end
    for (int64_t j = 0; j < keys; j++) {
        ${copy}(a->k[j], k + j * ${row}, ${hd}${of("k")});
        ${copy}(a->v[j], v + j * ${row}, ${hd}${of("v")});
//@ if pairs then
        if (j % 2 == 1) {
            rt_pairs_zip(a->k_pairs[j / 2], k + (j - 1) * ${row}, k + j * ${row}, ${hd});
        } else if (j + 1 == keys) {
            for (int64_t d = 0; d < ${hd}; d++)
                a->k_pairs[j / 2][d] = k[j * ${row} + d];
        }
//@ end
    }
}

/* Queries [query0, query0 + queries) of one head against the keys that they see. k and
 * v point at the kv head's first row; dk and dv have rows of WIDE, in whole blocks of
 * keys. */
static void ${fn}_queries(${task} *a, const ${elem} *k, const ${elem} *v, int64_t query0,
                          int64_t queries, ${acc} *dk, ${acc} *dv)
{
    enum { ROWS = RT_BLOCK_ROWS, COLS = ${U}_COLS };
    const int strips = (int)((queries + COLS - 1) / COLS);
//@ if listed then
    const int64_t oldest = a->oldest[0];
//@ elseif window > 0 then
    const int64_t oldest = query0 + 1 > ${window} ? query0 + 1 - ${window} : 0;
//@ else
    const int64_t oldest = 0;
//@ end
    for (int64_t key0 = oldest / KEYS * KEYS; key0 < query0 + queries; key0 += KEYS) {
        const int64_t keys = ${seq} - key0 < KEYS ? ${seq} - key0 : KEYS;
        int64_t first[STRIPS], last[STRIPS], rows = 0;
        ${fn}_load_keys(a, k + key0 * ${row}, v + key0 * ${row}, keys);
        for (int s = 0; s < strips; s++) {
            /* Whole register blocks of rows that cover the keys visible to the strip. */
            const int64_t end = query0 + (s + 1) * COLS - key0;
            last[s] = end < keys ? end : keys;
            last[s] = last[s] > 0 ? (last[s] + ROWS - 1) / ROWS * ROWS : 0;
            first[s] = 0;
//@ if listed or window > 0 then
//@   local begin = listed and "a->oldest[s * COLS] - key0" or "end - COLS + 1 - " .. window
            const int64_t begin = ${begin};
            first[s] = begin > 0 ? begin / ROWS * ROWS : 0;
            first[s] = first[s] < last[s] ? first[s] : last[s];
//@ end
            if (first[s] < last[s])
                ${fn}_strip(a, s * COLS, query0, key0, first[s], last[s]);
            rows = last[s] > rows ? last[s] : rows;
        }
        /* A row of keys meets a run of consecutive strips, because later strips see later
         * keys. */
        for (int64_t j = 0; j < rows; j += ROWS) {
            int from = 0, to = strips;
            while (from < to && last[from] <= j)
                from++;
            while (to > from && first[to - 1] > j)
                to--;
            if (from < to) {
                const int64_t sums = (key0 + j) * WIDE;
                ${fn}_add(a->p[j], a->d_o[0], dv + sums, from * COLS, to * COLS);
                ${fn}_add(a->ds[j], a->q[0], dk + sums, from * COLS, to * COLS);
            }
        }
    }
}

//@ if listed then
//@   if chunk > 0 then
/* The first key that each query sees. Queries beyond the sequence use the last one's. */
//@   else
/* The first key that each query sees, by its document or the window. Queries beyond the
 * sequence use the last one's. */
//@   end
static void ${fn}_load_starts(${task} *a, ${starts and "const int32_t *starts, " or ""}int64_t query0,
                              int64_t queries)
{
    for (int64_t i = 0; i < QUERIES; i++) {
        const int64_t query = query0 + (i < queries ? i : queries - 1);
//@ if window > 0 then
        const int64_t start = ${start}, seen = query + 1 - ${window};
        a->oldest[i] = (${whole})(start > seen ? start : seen);
//@ else
        a->oldest[i] = ${chunk > 0 and "(" .. whole .. ")(" .. start .. ")" or start};
//@ end
    }
}

//@ end
/* One query's row of q, o and d_o into column or row i. */
static void ${fn}_load_query(${task} *a, int64_t i, const ${elem} *q, const ${elem} *o,
                             const ${elem} *d_o)
{
    ${cell} q_cells[${deep}] = {0}, do_cells[${deep}] = {0};
    ${acc} parts[${U}_LANES] = {0};
    ${copy}(q_cells, q, ${hd}${of("q")});
    ${copy}(do_cells, d_o, ${hd}${of("d_o")});
    for (int64_t d = 0; d < ${deep}; d++) {
        a->q_t[d][i] = q_cells[d];
        a->do_t[d][i] = do_cells[d];
    }
    for (int64_t d = 0; d < ${hd}; d++) {
//@ if pairs then
        a->q[i / 2][d] |= (uint32_t)q[d] << (i % 2 * 16);
        a->d_o[i / 2][d] |= (uint32_t)d_o[d] << (i % 2 * 16);
//@ else
        a->q[i][d] = ${at("q", "d")};
        a->d_o[i][d] = ${at("d_o", "d")};
//@ end
        parts[d % ${U}_LANES] += ${at("d_o", "d")} * ${at("o", "d")};
    }
    a->delta[i] = 0;
    for (int64_t c = 0; c < ${U}_LANES; c++)
        a->delta[i] += parts[c];
}

/* Fills the blocks of the queries. Those beyond the sequence get probability 0. */
static void ${fn}_load_queries(${task} *a, const ${elem} *q, const ${elem} *o,
                               const ${elem} *d_o, const ${acc} *lse, int64_t queries)
{
    memset(a->q, 0, sizeof a->q);
    memset(a->d_o, 0, sizeof a->d_o);
    memset(a->dq_t, 0, sizeof a->dq_t);
    if (queries < QUERIES) {
        memset(a->q_t, 0, sizeof a->q_t);
        memset(a->do_t, 0, sizeof a->do_t);
    }
    for (int64_t i = 0; i < QUERIES; i++) {
        a->lse[i] = i < queries ? lse[i * ${heads}] : ${single and "3e38f" or "1e308"};
        a->delta[i] = 0;
        if (i < queries)
            ${fn}_load_query(a, i, q + i * ${row}, o + i * ${o_row}, d_o + i * ${o_row});
    }
}

/* dqkv[${t}, ${row}] from rows [${heads} q | ${kv_heads} k | ${kv_heads} v] of ${hd}
 * and d_o[${t}, ${o_row}]; sequences of ${seq}. workspace: dk, dv of every kv head. */
static void ${fn}(const ${elem} *restrict qkv, const ${elem} *restrict o,
                  const ${acc} *restrict lse, const ${elem} *restrict d_o,
//@ if starts then
                  const int32_t *restrict starts, ${elem} *restrict dqkv,
                  char *restrict workspace)
//@ else
                  ${elem} *restrict dqkv, char *restrict workspace)
//@ end
{
    const int64_t sums = (INT64_C(${seq}) + KEYS - 1) / KEYS * KEYS * WIDE;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t task = 0; task < ${t // seq * kv_heads}; task++) {
        ${task} a;
        const int64_t row0 = task / ${kv_heads} * ${seq}, kv = task % ${kv_heads};
        const int64_t k_at = row0 * ${row} + (${heads} + kv) * ${hd};
        const int64_t v_at = k_at + ${kv_heads * hd};
        ${acc} *dk = (${acc} *)(void *)workspace + task * 2 * sums, *dv = dk + sums;
        memset(dk, 0, (size_t)(2 * sums) * sizeof *dk);
        for (int64_t i = 0; i < ${group} * ${(seq + 63) // 64}; i++) {
            const int64_t head = kv * ${group} + i % ${group};
            const int64_t query0 = i / ${group} * QUERIES, left = ${seq} - query0;
            const int64_t queries = left < QUERIES ? left : QUERIES;
            const int64_t q_row = row0 + query0;
            const int64_t q_at = q_row * ${row} + head * ${hd};
            const int64_t o_at = q_row * ${o_row} + head * ${hd};
//@ if listed then
            ${fn}_load_starts(&a, ${starts and "starts + row0, " or ""}query0, queries);
//@ end
            ${fn}_load_queries(&a, qkv + q_at, o + o_at, d_o + o_at,
                               lse + q_row * ${heads} + head, queries);
            ${fn}_queries(&a, qkv + k_at, qkv + v_at, query0, queries, dk, dv);
            for (int64_t r = 0; r < queries; r++) {
                ${elem} *dq = dqkv + q_at + r * ${row};
                for (int64_t d = 0; d < ${hd}; d++)
                    ${into("dq", "d", "a.dq_t[d][r] * " .. lit(scale))};
            }
        }
        for (int64_t r = 0; r < ${seq}; r++) {
            ${elem} *to_k = dqkv + k_at + r * ${row}, *to_v = dqkv + v_at + r * ${row};
            for (int64_t d = 0; d < ${hd}; d++) {
                ${into("to_k", "d", "dk[r * WIDE + d] * " .. lit(scale))};
                ${into("to_v", "d", "dv[r * WIDE + d]")};
            }
        }
    }
}

#undef QUERIES
#undef KEYS
#undef STRIPS
#undef HEAD_ROWS
#undef HEAD
#undef WIDE
