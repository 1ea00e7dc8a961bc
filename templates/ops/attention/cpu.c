//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- attention: causal attention in blocks with an online softmax; nothing of seq x seq.
//@ -- f32 and f64 rows are multiplied as they are, f16 as f32. Of bf16 rows two elements of the
//@ -- summed axis go into one word (runtime/rt_simd.h): scores are sums of exact
//@ -- products, and probabilities are rounded to bf16 on their way to v.
//@ local pairs, single = qkv.type == "rt_bf16", acc == "float"
//@ local P = single and "rt_vf" or "rt_vd"
//@ local U = single and "RT_VF" or "RT_VD"
//@ local V, I = P, single and "rt_vi" or "rt_vl"
//@ local whole = single and "int32_t" or "int64_t"
//@ local hd, group, row = head_dim, heads // kv_heads, (heads + 2 * kv_heads) * head_dim
//@ local sequences, q_blocks = t // seq, (seq + 63) // 64
//@ local task, elem = "struct " .. fn .. "_task", qkv.type
//@ local block = pairs and "rt_pairs_block" or P .. "_block"
//@ local cell = pairs and "uint32_t" or acc      -- what products read
//@ local deep = pairs and (hd + 1) // 2 or hd    -- cells of a row of q or k
//@ local half = pairs and " / 2" or ""
//@ local copy = elem == "rt_f16" and "rt_row_widen_f16" or "memcpy" -- a row into cells
//@ local function of(name) return elem == "rt_f16" and "" or " * sizeof *" .. name end
//@ -- With a softcap, products become tanh(product * scale / softcap) first; scores are softcap of it.
//@ local of_score = lit(softcap > 0 and softcap or scale)
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
//@ -- A sink is a score of its own: what the softmax begins with, as if it had come first. No largest
//@ -- score is -inf, also where no key is seen yet: the difference of two is NaN.
//@ local least = single and "-3e38f" or "-1e308"
//@ local top = sinks and "sink < " .. least .. " ? " .. least .. " : sink" or least
//@ -- Rows of a register block over the head dimension: the tallest that divides it and
//@ -- fills at least half of the registers; else as tall as they go, with rows of zeros.
#include "rt_simd.h"

#define QUERIES 64 /* per task: a multiple of every register block's columns */
#define KEYS 96    /* at a time: a multiple of every register block's rows */
#define STRIPS (QUERIES / ${U}_COLS)
/* Rows of a register block over the head dimension, and that dimension rounded up to
 * them. */
#define HEAD_ROWS \
    ${block_rows(hd)}
#define HEAD ((${hd} + HEAD_ROWS - 1) / HEAD_ROWS * HEAD_ROWS)

/* The working memory of one task. Columns are queries, so a row of scores belongs to one
 * key, and no sum or maximum of the softmax crosses the lanes of a vector. */
${task} {
    ${cell} q[STRIPS][${deep}][${U}_COLS]; /* transposed */
    ${acc} o[STRIPS][HEAD][${U}_COLS]; /* sums of p v, transposed */
    ${acc} top[QUERIES], sum[QUERIES]; /* largest score so far, sum of exp */
    ${cell} k[KEYS][${deep}], v[KEYS${half}][HEAD];
//@ if listed then
    ${whole} oldest[QUERIES]; /* first key that each query sees, never decreasing */
//@ end
    ${acc} s[KEYS][${U}_COLS]; /* scores */
    ${cell} p[KEYS${half}][${U}_COLS]; /* exp(score - top) */
};

/* One vector of queries, from column c: computes exp of the scores, and rescales earlier
 * sums if top grows. edge: some query of the strip does not see some of the keys. */
static inline void ${fn}_softmax(${task} *a, int strip, int c, int64_t query0,
                                 int64_t key0, int64_t first, int64_t last,
                                 const bool edge)
{
    ${acc} *top_at = &a->top[strip * ${U}_COLS + c];
    ${acc} *sum_at = &a->sum[strip * ${U}_COLS + c];
    const ${I} query = ${P}_count((int)(query0 + c));
//@ if listed then
    ${I} oldest;
    memcpy(&oldest, &a->oldest[strip * ${U}_COLS + c], sizeof oldest);
//@ end
    const ${V} before = ${P}_load(top_at), scale = ${P}_set(${of_score});
    ${V} top = before;
    for (int64_t j = first; j < last; j++) {
        const ${V} most = ${P}_max(${P}_load(&a->s[j][c]) * scale, top);
        const int key = (int)(key0 + j);
        top = edge ? ${P}_select(${seen()}, most, top) : most;
    }
    const ${V} shrink = ${P}_exp(before - top);
    ${V} sum = ${P}_load(sum_at) * shrink;
//@ if pairs then
    for (int64_t j = first; j < last; j += 2) {
        rt_vf p[2];
        for (int i = 0; i < 2; i++) {
            const int key = (int)(key0 + j + i);
            p[i] = rt_vf_exp(rt_vf_load(&a->s[j + i][c]) * scale - top);
            p[i] = edge ? rt_vf_select(${seen()}, p[i], rt_vf_set(0)) : p[i];
            sum = sum + p[i];
        }
        rt_vf_store_pairs(&a->p[j / 2][c], p[0], p[1]);
    }
//@ else
    for (int64_t j = first; j < last; j++) {
        const int key = (int)(key0 + j);
        ${V} p = ${P}_exp(${P}_load(&a->s[j][c]) * scale - top);
        p = edge ? ${P}_select(${seen()}, p, ${P}_set(0)) : p;
        sum = sum + p;
        ${P}_store(&a->p[j][c], p);
    }
//@ end
    ${P}_store(top_at, top);
    ${P}_store(sum_at, sum);
    for (int64_t d = 0; d < HEAD; d++) {
        ${acc} *o = &a->o[strip][d][c];
        ${P}_store(o, ${P}_load(o) * shrink);
    }
}

/* Keys [first, last) of the block at key0 against the strip of queries at query0. */
static void ${fn}_strip(${task} *a, int strip, int64_t query0, int64_t key0,
                        int64_t first, int64_t last)
{
    enum { ROWS = RT_BLOCK_ROWS, VECS = RT_BLOCK_VECS, COLS = ${U}_COLS };
    for (int64_t j = first; j < last; j += ROWS) {
        ${block}(ROWS, VECS, ${deep}, a->k[j], ${deep}, 1, a->q[strip][0], COLS, a->s[j],
                 COLS, 0);
    }
//@ if softcap > 0 then
    for (int64_t j = first; j < last; j++) {
#pragma omp simd
        for (int c = 0; c < COLS; c++)
            a->s[j][c] = rt_tanh${single and "f" or ""}(a->s[j][c] * ${lit(scale / softcap)});
    }
//@ end
    bool edge = key0 + last > query0 + 1; /* some key comes after some query */
//@ if listed then
    edge = edge || key0 + first < a->oldest[strip * COLS + COLS - 1];
//@ elseif window > 0 then
    edge = edge || key0 + first <= query0 + COLS - 1 - ${window};
//@ end
    for (int c = 0; c < COLS; c += ${U}_LANES) {
        if (edge)
            ${fn}_softmax(a, strip, c, query0, key0, first, last, true);
        else
            ${fn}_softmax(a, strip, c, query0, key0, first, last, false);
    }
    for (int64_t d = 0; d < HEAD; d += HEAD_ROWS) {
        ${block}(HEAD_ROWS, VECS, (last - first)${half}, &a->v[first${half}][d], 1, HEAD,
                 a->p[first${half}], COLS, a->o[strip][d], COLS, 1);
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
/* Queries of a task, transposed; those beyond the sequence are zeros. */
//@ if sinks then
static void ${fn}_load_queries(${task} *a, const ${elem} *q, int64_t queries, ${acc} sink)
//@ else
static void ${fn}_load_queries(${task} *a, const ${elem} *q, int64_t queries)
//@ end
{
    for (int64_t i = 0; i < QUERIES; i++) {
        ${cell} cells[${deep}] = {0};
        if (i < queries)
            ${copy}(cells, q + i * ${row}, ${hd}${of("q")});
        for (int64_t d = 0; d < ${deep}; d++)
            a->q[i / ${U}_COLS][d][i % ${U}_COLS] = cells[d];
        a->top[i] = ${top};
        a->sum[i] = ${sinks and 1 or 0};
    }
    memset(a->o, 0, sizeof a->o);
}

/* Keys and values side by side. Those beyond the sequence are zeros: they are masked, but
 * their rows enter the products. */
static void ${fn}_load_keys(${task} *a, const ${elem} *k, const ${elem} *v, int64_t keys)
{
    const bool padded = HEAD > ${hd} || ${hd} % 2 == 1;
    const int64_t zeros = padded ? 0 : keys; /* rows from here on are cleared */
    memset(a->k[zeros], 0, (size_t)(KEYS - zeros) * sizeof a->k[0]);
    memset(a->v[zeros${half}], 0,
           (size_t)(KEYS${half} - zeros${half}) * sizeof a->v[0]);
    for (int64_t j = 0; j < keys; j++) {
        ${copy}(a->k[j], k + j * ${row}, ${hd}${of("k")});
//@ if pairs then
        if (j % 2 == 1) {
            rt_pairs_zip(a->v[j / 2], v + (j - 1) * ${row}, v + j * ${row}, ${hd});
        } else if (j + 1 == keys) {
            for (int64_t d = 0; d < ${hd}; d++)
                a->v[j / 2][d] = v[j * ${row} + d];
        }
//@ else
        ${copy}(a->v[j], v + j * ${row}, ${hd}${of("v")});
//@ end
    }
}

/* All keys that are visible to queries [query0, query0 + queries) of one sequence's
 * head. */
static void ${fn}_queries(${task} *a, const ${elem} *k, const ${elem} *v, int64_t query0,
                          int64_t queries)
{
    enum { ROWS = RT_BLOCK_ROWS, COLS = ${U}_COLS };
//@ if listed then
    const int64_t oldest = a->oldest[0];
//@ elseif window > 0 then
    const int64_t oldest = query0 + 1 > ${window} ? query0 + 1 - ${window} : 0;
//@ else
    const int64_t oldest = 0;
//@ end
    for (int64_t key0 = oldest / KEYS * KEYS; key0 < query0 + queries; key0 += KEYS) {
        const int64_t keys = ${seq} - key0 < KEYS ? ${seq} - key0 : KEYS;
        ${fn}_load_keys(a, k + key0 * ${row}, v + key0 * ${row}, keys);
        for (int strip = 0; strip * COLS < queries; strip++) {
            /* Whole register blocks of rows that cover the keys visible to the strip. */
            const int64_t begin = query0 + strip * COLS;
            int64_t first = 0, last = begin + COLS - key0;
            last = last < keys ? last : keys;
            last = (last + ROWS - 1) / ROWS * ROWS;
//@ if listed then
            first = a->oldest[strip * COLS] - key0;
            first = first > 0 ? first / ROWS * ROWS : 0;
//@ elseif window > 0 then
            first = begin + 1 - ${window} - key0;
            first = first > 0 ? first / ROWS * ROWS : 0;
//@ end
            if (first < last)
                ${fn}_strip(a, strip, begin, key0, first, last);
        }
    }
}

/* o[${t}, ${heads} * ${hd}] and lse[${t}, ${heads}]
 * from rows [${heads} q | ${kv_heads} k | ${kv_heads} v] of ${hd}; sequences of ${seq} */
//@ if sinks then
//@   local list = { "const " .. elem .. " *restrict qkv", "const " .. sinks.type .. " *restrict sinks",
//@                  elem .. " *restrict o", acc .. " *restrict lse" }
//@   if starts then table.insert(list, 2, "const int32_t *restrict starts") end
${call("static void " .. fn .. "(", list, ")")}
//@ elseif starts then
static void ${fn}(const ${elem} *restrict qkv, const int32_t *restrict starts,
                  ${elem} *restrict o, ${acc} *restrict lse)
//@ else
static void ${fn}(const ${elem} *restrict qkv, ${elem} *restrict o,
                  ${acc} *restrict lse)
//@ end
{
    const int64_t q_blocks = ${q_blocks}, head_tasks = ${sequences * heads};
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t task = 0; task < q_blocks * head_tasks; task++) {
        ${task} a;
        /* The last queries see the most keys, so they go first. */
        const int64_t query0 = (q_blocks - 1 - task / head_tasks) * QUERIES;
        const int64_t head = task % ${heads};
        const int64_t row0 = task / ${heads} % ${sequences} * ${seq};
        const int64_t left = ${seq} - query0;
        const int64_t queries = left < QUERIES ? left : QUERIES;
        const ${elem} *rows = qkv + row0 * ${row};
        const ${elem} *k = rows + (${heads} + head / ${group}) * ${hd};
//@ if listed then
        ${fn}_load_starts(&a, ${starts and "starts + row0, " or ""}query0, queries);
//@ end
//@ if sinks then
        ${fn}_load_queries(&a, rows + query0 * ${row} + head * ${hd}, queries,
        ${(" "):rep(#fn)}              ${ld(sinks, "head")});
//@ else
        ${fn}_load_queries(&a, rows + query0 * ${row} + head * ${hd}, queries);
//@ end
        ${fn}_queries(&a, k, k + ${kv_heads * hd}, query0, queries);
        for (int64_t i = 0; i < queries; i++) {
            const int64_t at = (row0 + query0 + i) * ${heads} + head;
            const int64_t strip = i / ${U}_COLS, c = i % ${U}_COLS;
            const ${acc} over = 1 / a.sum[i];
            for (int64_t d = 0; d < ${hd}; d++)
                ${st(o, "at * " .. hd .. " + d", "a.o[strip][d][c] * over")};
            lse[at] = a.top[i] + ${single and "rt_logf" or "rt_log"}(a.sum[i]);
        }
    }
}

#undef QUERIES
#undef KEYS
#undef STRIPS
#undef HEAD_ROWS
#undef HEAD
