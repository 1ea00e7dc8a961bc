//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- attention: causal attention in blocks, with an online softmax; nothing of size seq x seq.
//@ local P = acc == "float" and "rt_vf" or "rt_vd"
//@ local U = acc == "float" and "RT_VF" or "RT_VD"
//@ local V, I = P, acc == "float" and "rt_vi" or "rt_vl"
//@ local group = heads // kv_heads
//@ local width = (heads + 2 * kv_heads) * head_dim
//@ local q_blocks = (seq + 63) // 64
//@ local tasks = t // seq * heads * q_blocks
//@ -- Rows of a register block over the head dimension: the tallest that divides it and fills
//@ -- at least half of the registers; else as tall as they go, with rows of zeros.
//@ local function rows_for(most)
//@   for r = most, most // 2, -1 do
//@     if head_dim % r == 0 then return r end
//@   end
//@   return most
//@ end
enum {
    ${fn}_QUERIES = 64,  /* of a task: a multiple of every register block's columns */
    ${fn}_KEYS = 96,     /* converted at a time: a multiple of every register block's rows */
    ${fn}_D_ROWS = RT_BLOCK_ROWS == 12  ? ${rows_for(12)}
                   : RT_BLOCK_ROWS == 8 ? ${rows_for(8)}
                   : RT_BLOCK_ROWS == 6 ? ${rows_for(6)}
                                        : ${rows_for(4)},
    ${fn}_D = (${head_dim} + ${fn}_D_ROWS - 1) / ${fn}_D_ROWS * ${fn}_D_ROWS,
    ${fn}_STRIPS = ${fn}_QUERIES / ${U}_COLS,
};

/* What one task works on: columns are queries, so a row of scores belongs to one key, and no
 * sum or maximum of the softmax crosses the lanes of a vector. */
struct ${fn}_task {
    ${acc} q[${fn}_STRIPS][${head_dim}][${U}_COLS];    /* q^T * scale */
    ${acc} o[${fn}_STRIPS][${fn}_D][${U}_COLS];        /* sums of p v, transposed */
    ${acc} top[${fn}_QUERIES], sum[${fn}_QUERIES];  /* largest score so far, sum of exp */
    ${acc} k[${fn}_KEYS][${head_dim}], v[${fn}_KEYS][${fn}_D];
    ${acc} p[${fn}_KEYS][${U}_COLS];                /* scores, then probabilities */
};

/* Keys [first, last) of the block at key0 against one strip of queries that begins at query0. */
static void ${fn}_strip(struct ${fn}_task *a, int strip, int64_t query0, int64_t key0,
                         int64_t first, int64_t last)
{
    enum { ROWS = RT_BLOCK_ROWS, VECS = RT_BLOCK_VECS, COLS = ${U}_COLS, LANES = ${U}_LANES };
    for (int64_t j = first; j < last; j += ROWS) {
        ${P}_block(ROWS, VECS, ${head_dim}, &a->k[j][0], ${head_dim}, 1, &a->q[strip][0][0], COLS,
                    &a->p[j][0], COLS, 0);
    }
//@ if window > 0 then
    const bool edge = key0 + last > query0 + 1 || key0 + first <= query0 + COLS - 1 - ${window};
//@ else
    const bool edge = key0 + last > query0 + 1; /* some key lies after some query */
//@ end
    for (int c = 0; c < COLS; c += LANES) {
        ${acc} *top_at = &a->top[strip * COLS + c], *sum_at = &a->sum[strip * COLS + c];
        const ${I} query = ${P}_count((int)(query0 + c));
        const ${V} before = ${P}_load(top_at), none = ${P}_set(0);
        ${V} top = before;
        for (int64_t j = first; j < last; j++) {
            const ${V} s = ${P}_load(&a->p[j][c]);
            if (edge) {
                const int key = (int)(key0 + j);
//@ if window > 0 then
                const ${I} seen = (key <= query) & (key > query - ${window});
//@ else
                const ${I} seen = key <= query;
//@ end
                top = ${P}_select(seen, ${P}_max(s, top), top);
            } else {
                top = ${P}_max(s, top);
            }
        }
        const ${V} shrink = ${P}_exp(before - top);
        ${V} sum = ${P}_load(sum_at) * shrink;
        for (int64_t j = first; j < last; j++) {
            ${V} p = ${P}_exp(${P}_load(&a->p[j][c]) - top);
            if (edge) {
                const int key = (int)(key0 + j);
//@ if window > 0 then
                const ${I} seen = (key <= query) & (key > query - ${window});
//@ else
                const ${I} seen = key <= query;
//@ end
                p = ${P}_select(seen, p, none);
            }
            sum = sum + p;
            ${P}_store(&a->p[j][c], p);
        }
        ${P}_store(top_at, top);
        ${P}_store(sum_at, sum);
        for (int64_t d = 0; d < ${fn}_D; d++) {
            ${acc} *o = &a->o[strip][d][c];
            ${P}_store(o, ${P}_load(o) * shrink);
        }
    }
    for (int64_t d = 0; d < ${fn}_D; d += ${fn}_D_ROWS) {
        ${P}_block(${fn}_D_ROWS, VECS, last - first, &a->v[first][d], 1, ${fn}_D,
                    &a->p[first][0], COLS, &a->o[strip][d][0], COLS, 1);
    }
}

/* o[${t}, ${heads}*${head_dim}], lse[${t}, ${heads}] from rows [${heads} q | ${kv_heads} k | ${kv_heads} v] of ${head_dim} */
static void ${fn}(const ${qkv.type} *restrict qkv, ${o.type} *restrict o, ${lse.type} *restrict lse)
{
    enum { ROWS = RT_BLOCK_ROWS, COLS = ${U}_COLS };
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t task = 0; task < ${tasks}; task++) {
        struct ${fn}_task a;
        /* the last queries see the most keys: they go first */
        const int64_t query0 = (${q_blocks - 1} - task / ${t // seq * heads}) * ${fn}_QUERIES;
        const int64_t head = task % ${heads}, row0 = task / ${heads} % ${t // seq} * ${seq};
        const int64_t queries = ${seq} - query0 < ${fn}_QUERIES ? ${seq} - query0 : ${fn}_QUERIES;
        const int64_t q_at = row0 * ${width} + head * ${head_dim};
        const int64_t k_at = row0 * ${width} + (${heads} + head / ${group}) * ${head_dim};
        const int64_t v_at = k_at + ${kv_heads * head_dim};
        for (int64_t i = 0; i < ${fn}_QUERIES; i++) {
            for (int64_t d = 0; d < ${head_dim}; d++) {
                a.q[i / COLS][d][i % COLS] =
                    i < queries ? ${ld(qkv, "q_at + (query0 + i) * " .. width .. " + d")} * ${lit(scale)} : 0;
            }
            a.top[i] = ${acc == "float" and "-3e38f" or "-1e308"};
            a.sum[i] = 0;
        }
        memset(a.o, 0, sizeof a.o);
//@ if window > 0 then
        const int64_t oldest = query0 + 1 > ${window} ? query0 + 1 - ${window} : 0;
        int64_t key0 = oldest / ${fn}_KEYS * ${fn}_KEYS;
//@ else
        int64_t key0 = 0;
//@ end
        for (; key0 < query0 + queries; key0 += ${fn}_KEYS) {
            const int64_t there = ${seq} - key0 < ${fn}_KEYS ? ${seq} - key0 : ${fn}_KEYS;
            for (int64_t j = 0; j < there; j++) {
                const ${qkv.type} *k = qkv + k_at + (key0 + j) * ${width};
                const ${qkv.type} *v = qkv + v_at + (key0 + j) * ${width};
                for (int64_t d = 0; d < ${head_dim}; d++) {
                    a.k[j][d] = ${ld({name = "k", type = qkv.type, dtype = qkv.dtype}, "d")};
                    a.v[j][d] = ${ld({name = "v", type = qkv.type, dtype = qkv.dtype}, "d")};
                }
                for (int64_t d = ${head_dim}; d < ${fn}_D; d++) {
                    a.v[j][d] = 0;
                }
            }
            /* keys beyond the sequence: masked, but their rows enter the products */
            memset(a.k[there], 0, (size_t)(${fn}_KEYS - there) * sizeof a.k[0]);
            memset(a.v[there], 0, (size_t)(${fn}_KEYS - there) * sizeof a.v[0]);
            for (int strip = 0; strip * COLS < queries; strip++) {
                const int64_t begin = query0 + strip * COLS;
                int64_t first = 0, last = begin + COLS - key0;
                last = last < there ? last : there;
//@ if window > 0 then
                first = begin + 1 - ${window} - key0;
                first = first > 0 ? first / ROWS * ROWS : 0;
//@ end
                last = (last + ROWS - 1) / ROWS * ROWS;
                if (first < last) {
                    ${fn}_strip(&a, strip, begin, key0, first, last);
                }
            }
        }
        for (int64_t i = 0; i < queries; i++) {
            const int64_t row = row0 + query0 + i;
            const ${acc} over = 1 / a.sum[i];
            for (int64_t d = 0; d < ${head_dim}; d++) {
                ${st(o, "row * " .. heads * head_dim .. " + head * " .. head_dim .. " + d", "a.o[i / COLS][d][i % COLS] * over")};
            }
            lse[row * ${heads} + head] = a.top[i] + ${acc == "float" and "rt_logf" or "rt_log"}(a.sum[i]);
        }
    }
}
