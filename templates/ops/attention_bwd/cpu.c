//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- attention_bwd: probabilities again from lse, then the five products, in blocks. A task is
//@ -- one sequence's kv head with the query heads that read it: it alone adds to its dk and dv,
//@ -- in a fixed order.
//@ local P = acc == "float" and "rt_vf" or "rt_vd"
//@ local U = acc == "float" and "RT_VF" or "RT_VD"
//@ local V, I = P, acc == "float" and "rt_vi" or "rt_vl"
//@ local group = heads // kv_heads
//@ local width = (heads + 2 * kv_heads) * head_dim
//@ local o_width = heads * head_dim
//@ local tasks = t // seq * kv_heads
//@ local kind = qkv.type
//@ local function from(name, index) return ld({ name = name, type = kind, dtype = qkv.dtype }, index) end
//@ local function into(name, index, value)
//@   return st({ name = name, type = kind, dtype = qkv.dtype }, index, value)
//@ end
//@ -- See attention: rows of a register block over the head dimension.
//@ local function rows_for(most)
//@   for r = most, most // 2, -1 do
//@     if head_dim % r == 0 then return r end
//@   end
//@   return most
//@ end
enum {
    ${fn}_QUERIES = 64,  /* at a time: a multiple of every register block's columns */
    ${fn}_KEYS = 96,     /* at a time: a multiple of every register block's rows */
    ${fn}_D_ROWS = RT_BLOCK_ROWS == 12  ? ${rows_for(12)}
                   : RT_BLOCK_ROWS == 8 ? ${rows_for(8)}
                   : RT_BLOCK_ROWS == 6 ? ${rows_for(6)}
                                        : ${rows_for(4)},
    ${fn}_D = (${head_dim} + ${fn}_D_ROWS - 1) / ${fn}_D_ROWS * ${fn}_D_ROWS,
    ${fn}_WIDE = (${head_dim} + ${U}_LANES - 1) / ${U}_LANES * ${U}_LANES,
    ${fn}_STRIPS = ${fn}_QUERIES / ${U}_COLS,
};

/* Blocks of one task. _t: transposed, columns are queries, so that sums over keys stay inside
 * lanes; the others have the head dimension in their columns. */
struct ${fn}_task {
    ${acc} q_t[${head_dim}][${fn}_QUERIES], do_t[${head_dim}][${fn}_QUERIES]; /* q: times scale */
    ${acc} q[${fn}_QUERIES][${fn}_WIDE], d_o[${fn}_QUERIES][${fn}_WIDE];
    ${acc} lse[${fn}_QUERIES], delta[${fn}_QUERIES]; /* delta: sum of d_o o */
    ${acc} dq_t[${fn}_D][${fn}_QUERIES];
    ${acc} k[${fn}_KEYS][${fn}_D], v[${fn}_KEYS][${head_dim}];
    ${acc} p[${fn}_KEYS][${fn}_QUERIES], ds[${fn}_KEYS][${fn}_QUERIES];
};

/* Which keys of the block at key0 the strip at query `begin` sees: [first, last), whole register
 * blocks of rows, 0 <= first <= last <= KEYS. */
static void ${fn}_span(int64_t begin, int64_t key0, int64_t there, int64_t *first, int64_t *last)
{
    int64_t end = begin + ${U}_COLS - key0;
    end = end < there ? end : there;
    *last = end > 0 ? (end + RT_BLOCK_ROWS - 1) / RT_BLOCK_ROWS * RT_BLOCK_ROWS : 0;
//@ if window > 0 then
    int64_t from = begin + 1 - ${window} - key0;
    from = from > 0 ? from / RT_BLOCK_ROWS * RT_BLOCK_ROWS : 0;
    *first = from < *last ? from : *last;
//@ else
    *first = 0;
//@ end
}

/* Probabilities and score gradients of one strip, then its part of dq. */
static void ${fn}_strip(struct ${fn}_task *a, int64_t at, int64_t query0, int64_t key0,
                         int64_t first, int64_t last)
{
    enum { ROWS = RT_BLOCK_ROWS, VECS = RT_BLOCK_VECS, LANES = ${U}_LANES, Q = ${fn}_QUERIES };
    for (int64_t j = first; j < last; j += ROWS) {
        ${P}_block(ROWS, VECS, ${head_dim}, &a->k[j][0], ${fn}_D, 1, &a->q_t[0][at], Q, &a->p[j][at],
                    Q, 0);
        ${P}_block(ROWS, VECS, ${head_dim}, &a->v[j][0], ${head_dim}, 1, &a->do_t[0][at], Q,
                    &a->ds[j][at], Q, 0);
    }
//@ if window > 0 then
    const bool edge = key0 + last > query0 + at + 1 ||
                      key0 + first <= query0 + at + ${U}_COLS - 1 - ${window};
//@ else
    const bool edge = key0 + last > query0 + at + 1; /* some key lies after some query */
//@ end
    for (int64_t c = at; c < at + ${U}_COLS; c += LANES) {
        const ${I} query = ${P}_count((int)(query0 + c));
        const ${V} lse = ${P}_load(&a->lse[c]), delta = ${P}_load(&a->delta[c]);
        for (int64_t j = first; j < last; j++) {
            ${V} p = ${P}_exp(${P}_load(&a->p[j][c]) - lse);
            if (edge) {
                const int key = (int)(key0 + j);
//@ if window > 0 then
                p = ${P}_select((key <= query) & (key > query - ${window}), p, ${P}_set(0));
//@ else
                p = ${P}_select(key <= query, p, ${P}_set(0));
//@ end
            }
            ${P}_store(&a->p[j][c], p);
            ${P}_store(&a->ds[j][c], p * (${P}_load(&a->ds[j][c]) - delta));
        }
    }
    for (int64_t d = 0; d < ${fn}_D; d += ${fn}_D_ROWS) {
        ${P}_block(${fn}_D_ROWS, VECS, last - first, &a->k[first][d], 1, ${fn}_D, &a->ds[first][at], Q,
                    &a->dq_t[d][at], Q, 1);
    }
}

/* dst[rows of keys, head dim] += scores[keys, queries from..to] rows[queries, head dim]. */
static inline void ${fn}_add(const ${acc} *scores, const ${acc} *rows, ${acc} *dst, int64_t from,
                              int64_t to)
{
    enum { Q = ${fn}_QUERIES, WIDE = ${fn}_WIDE, COLS = ${U}_COLS };
    int64_t d = 0;
    for (; d + COLS <= WIDE; d += COLS) {
        ${P}_block(RT_BLOCK_ROWS, RT_BLOCK_VECS, to - from, scores + from, Q, 1,
                    rows + from * WIDE + d, WIDE, dst + d, WIDE, 1);
    }
    for (; d < WIDE; d += ${U}_LANES) {
        ${P}_block(RT_BLOCK_ROWS, 1, to - from, scores + from, Q, 1, rows + from * WIDE + d, WIDE,
                    dst + d, WIDE, 1);
    }
}

/* Queries [query0, query0 + queries) of one head against the keys they see. k and v point at the
 * kv head's first row; dk and dv hold ${seq} rows of WIDE and a block's tail. */
static void ${fn}_queries(struct ${fn}_task *a, const ${kind} *k, const ${kind} *v, int64_t query0,
                           int64_t queries, ${acc} *dk, ${acc} *dv)
{
    enum { ROWS = RT_BLOCK_ROWS, COLS = ${U}_COLS, WIDE = ${fn}_WIDE, KEYS = ${fn}_KEYS };
    const int strips = (int)((queries + COLS - 1) / COLS);
//@ if window > 0 then
    const int64_t oldest = query0 + 1 > ${window} ? query0 + 1 - ${window} : 0;
    int64_t key0 = oldest / KEYS * KEYS;
//@ else
    int64_t key0 = 0;
//@ end
    for (; key0 < query0 + queries; key0 += KEYS) {
        const int64_t there = ${seq} - key0 < KEYS ? ${seq} - key0 : KEYS;
        for (int64_t j = 0; j < there; j++) {
            const ${kind} *k_row = k + (key0 + j) * ${width}, *v_row = v + (key0 + j) * ${width};
            for (int64_t d = 0; d < ${head_dim}; d++) {
                a->k[j][d] = ${from("k_row", "d")};
                a->v[j][d] = ${from("v_row", "d")};
            }
            for (int64_t d = ${head_dim}; d < ${fn}_D; d++) {
                a->k[j][d] = 0;
            }
        }
        /* keys beyond the sequence: masked, but their rows enter the products */
        memset(a->k[there], 0, (size_t)(KEYS - there) * sizeof a->k[0]);
        memset(a->v[there], 0, (size_t)(KEYS - there) * sizeof a->v[0]);
        int64_t first[${fn}_STRIPS], last[${fn}_STRIPS], rows = 0;
        for (int s = 0; s < strips; s++) {
            ${fn}_span(query0 + s * COLS, key0, there, &first[s], &last[s]);
            if (first[s] < last[s]) {
                ${fn}_strip(a, s * COLS, query0, key0, first[s], last[s]);
            }
            rows = last[s] > rows ? last[s] : rows;
        }
        /* a row of keys meets a run of consecutive strips: later ones see later keys */
        for (int64_t j = 0; j < rows; j += ROWS) {
            int from = 0, to = strips;
            while (from < to && last[from] <= j) {
                from++;
            }
            while (to > from && first[to - 1] > j) {
                to--;
            }
            if (from < to) {
                const int64_t at = (key0 + j) * WIDE;
                ${fn}_add(&a->p[j][0], &a->d_o[0][0], dv + at, from * COLS, to * COLS);
                ${fn}_add(&a->ds[j][0], &a->q[0][0], dk + at, from * COLS, to * COLS);
            }
        }
    }
}

/* Fills the blocks that belong to queries. Queries beyond the sequence get probability 0. */
static void ${fn}_load(struct ${fn}_task *a, const ${kind} *q, const ${kind} *o, const ${kind} *d_o,
                        const ${lse.type} *lse, int64_t queries)
{
    memset(a->q, 0, sizeof a->q);
    memset(a->d_o, 0, sizeof a->d_o);
    memset(a->dq_t, 0, sizeof a->dq_t);
    for (int64_t i = 0; i < ${fn}_QUERIES; i++) {
        a->lse[i] = ${acc == "float" and "3e38f" or "1e308"};
        a->delta[i] = 0;
        if (i < queries) {
            ${acc} part[${fn}_WIDE] = {0};
            for (int64_t d = 0; d < ${head_dim}; d++) {
                a->q[i][d] = ${from("q", "i * " .. width .. " + d")} * ${lit(scale)};
                a->d_o[i][d] = ${from("d_o", "i * " .. o_width .. " + d")};
                part[d] = a->d_o[i][d] * ${from("o", "i * " .. o_width .. " + d")};
            }
            ${acc} lanes[${U}_LANES] = {0};
            for (int64_t d = 0; d < ${fn}_WIDE; d += ${U}_LANES) {
                for (int64_t c = 0; c < ${U}_LANES; c++) {
                    lanes[c] += part[d + c];
                }
            }
            for (int64_t c = 0; c < ${U}_LANES; c++) {
                a->delta[i] += lanes[c];
            }
            a->lse[i] = lse[i * ${heads}];
        }
        for (int64_t d = 0; d < ${head_dim}; d++) {
            a->q_t[d][i] = a->q[i][d];
            a->do_t[d][i] = a->d_o[i][d];
        }
    }
}

/* dqkv[${t}, ${width}] from rows [${heads} q | ${kv_heads} k | ${kv_heads} v] of ${head_dim} and d_o[${t}, ${o_width}] */
static void ${fn}(const ${kind} *restrict qkv, const ${o.type} *restrict o, const ${lse.type} *restrict lse,
                  const ${d_o.type} *restrict d_o, ${dqkv.type} *restrict dqkv, char *workspace)
{
    enum { WIDE = ${fn}_WIDE, ROOM = ((${seq} + ${fn}_KEYS - 1) / ${fn}_KEYS * ${fn}_KEYS) * WIDE };
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t task = 0; task < ${tasks}; task++) {
        struct ${fn}_task a;
        const int64_t row0 = task / ${kv_heads} * ${seq}, kv = task % ${kv_heads};
        const ${kind} *k = qkv + row0 * ${width} + (${heads} + kv) * ${head_dim};
        const ${kind} *v = k + ${kv_heads * head_dim};
        ${acc} *dk = (${acc} *)(void *)workspace + task * 2 * ROOM, *dv = dk + ROOM;
        memset(dk, 0, 2 * ROOM * sizeof *dk);
        for (int64_t head = kv * ${group}; head < (kv + 1) * ${group}; head++) {
            for (int64_t query0 = 0; query0 < ${seq}; query0 += ${fn}_QUERIES) {
                const int64_t left = ${seq} - query0;
                const int64_t queries = left < ${fn}_QUERIES ? left : ${fn}_QUERIES;
                const int64_t row = row0 + query0;
                const int64_t o_at = row * ${o_width} + head * ${head_dim};
                const int64_t q_at = row * ${width} + head * ${head_dim};
                ${fn}_load(&a, qkv + q_at, o + o_at, d_o + o_at, lse + row * ${heads} + head, queries);
                ${fn}_queries(&a, k, v, query0, queries, dk, dv);
                for (int64_t i = 0; i < queries; i++) {
                    ${kind} *dq = dqkv + q_at + i * ${width};
                    for (int64_t d = 0; d < ${head_dim}; d++) {
                        ${into("dq", "d", "a.dq_t[d][i] * " .. lit(scale))};
                    }
                }
            }
        }
        for (int64_t i = 0; i < ${seq}; i++) {
            ${kind} *dk_row = dqkv + (row0 + i) * ${width} + (${heads} + kv) * ${head_dim};
            ${kind} *dv_row = dk_row + ${kv_heads * head_dim};
            for (int64_t d = 0; d < ${head_dim}; d++) {
                ${into("dk_row", "d", "dk[i * WIDE + d]")};
                ${into("dv_row", "d", "dv[i * WIDE + d]")};
            }
        }
    }
}
