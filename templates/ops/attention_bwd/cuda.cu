//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- attention_bwd: probabilities again from lse, in two kernels, each of which alone adds to
//@ -- what it writes, in a fixed order: in one a block has some queries of a head and passes
//@ -- over the keys that they see, for dq; in the other some keys of a kv head and passes over
//@ -- the queries that see them, of all heads that read it, for dk and dv. Two products more
//@ -- than needed, for sums without atomics, waiting or scratch memory.
//@ -- bf16 heads of up to 256 are multiplied by the tensor cores, as in attention:
//@ -- probabilities and the scores' gradients are rounded to bf16 on their way into dv, dk and
//@ -- dq. Any other rows are multiplied in acc.
//@ local hd, group, row = head_dim, heads // kv_heads, (heads + 2 * kv_heads) * head_dim
//@ local sequences, elem, o_row = t // seq, qkv.type, heads * head_dim
//@ local mma = elem == "rt_bf16" and hd <= 256
//@ -- A block keeps rows of two tiles and passes over those of two others, through two buffers,
//@ -- in shared memory that every device has. Where both sums of dk and dv in whole rows were
//@ -- too many registers, a block has a part of their columns.
//@ local parts = (hd + 127) // 128
//@ local columns = ((hd + 15) // 16 + parts - 1) // parts * 16
//@ local head = parts * columns
//@ local keep, pass = 32, 32
//@ local function bytes() return 4 * (keep + 2 * pass) * (head + 8) + 16 * pass end
//@ if mma then
//@   keep, pass = 64, head <= 64 and 64 or 32
//@   if bytes() > 99 * 1024 then pass = 16 end
//@   if bytes() > 99 * 1024 then keep = 32 end
//@ end
//@ local threads = mma and 2 * keep or 128
//@ local shared = mma and bytes() or 0
//@ local blocks = (seq + keep - 1) // keep
//@ local stride = blocks * keep -- of a head's numbers in the workspace
//@ local f = acc == "float" and "f" or ""
//@ local operand = { type = elem, dtype = qkv.dtype }
//@ local function at(name, index)
//@   return ld({ name = name, type = elem, dtype = qkv.dtype }, index)
//@ end
//@ local function into(name, index, value)
//@   return st({ name = name, type = elem, dtype = qkv.dtype }, index, value)
//@ end
//@ local starts_in = starts and "const int32_t *starts, " or ""
//@ local starts_of = starts and "starts, " or ""
//@ local masked = starts or window > 0
//@ local begin = masked and "begin" or "0"
//@ if mma then
#include "rt_mma.h"

//@ end
#define KEEP ${keep} /* rows that a block keeps, of queries for dq, of keys for dk and dv */
#define PASS ${pass} /* rows at a time that it passes over */
//@ if mma then
#define HEAD ${head}${hd < head and " /* " .. hd .. ", and zeros */" or ""}
#define KEEP_TILE (KEEP * RT_TILE_ROW(HEAD)) /* elements */
#define PASS_TILE (PASS * RT_TILE_ROW(HEAD))
#define LOG2_E 1.44269504f
#define SCALE ${lit(scale * 1.4426950408889634)} /* times log2(e): exp2 is the device's own */
#define COLUMNS ${columns} /* of dk and dv in a block */
//@ else
#define ROWS (KEEP / 4) /* of a warp */
#define PARTS ${(hd + 31) // 32} /* of 32 columns, one for each lane */
//@ end

//@ if masked then
/* The first key that a query sees. Queries beyond the sequence see what the last one does. */
//@   if starts then
RT_DEVICE int ${fn}_oldest(const int32_t *starts, int query)
//@   else
RT_DEVICE int ${fn}_oldest(int query)
//@   end
{
    const int last = query < ${seq} ? query : ${seq - 1};
//@   if starts and window > 0 then
    const int start = starts[last], seen = last + 1 - ${window};
    return start > seen ? start : seen;
//@   elseif starts then
    return starts[last];
//@   else
    return last + 1 > ${window} ? last + 1 - ${window} : 0;
//@   end
}

//@   if starts then
/* The first query that sees nothing up to `key`: starts do not descend. */
RT_DEVICE int ${fn}_end(const int32_t *starts, int key, int *part)
{
    int n = 0;
    for (int query = threadIdx.x; query < ${seq}; query += ${threads}) {
        n += ${fn}_oldest(starts, query) <= key;
    }
    return rt_block_sum<${threads}>(n, part);
}
//@   else
/* The first query that sees nothing up to `key`. */
RT_DEVICE int ${fn}_end(int key)
{
    return key + ${window} < ${seq} ? key + ${window} : ${seq};
}
//@   end

//@ end
//@ local function place_queries() -- which queries of which head: text of both kinds
    /* the last queries see the most keys: their blocks go first */
    const int query0 = (${blocks - 1} - (int)(blockIdx.x / ${heads * sequences})) * KEEP;
    const int queries = ${seq} - query0 < KEEP ? ${seq} - query0 : KEEP;
    const int head = (int)(blockIdx.x % ${heads}), end = query0 + queries;
    const int sequence = (int)(blockIdx.x / ${heads} % ${sequences});
    const int64_t row0 = (int64_t)sequence * ${seq};
    const int64_t q_at = (row0 + query0) * ${row} + head * ${hd};
    const int64_t o_at = (row0 + query0) * ${o_row} + head * ${hd};
    const ${elem} *k_rows = qkv + row0 * ${row} + (${heads} + head / ${group}) * ${hd};
    const ${elem} *v_rows = k_rows + ${kv_heads * hd};
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
//@   if starts then
    starts += row0;
//@   end
//@   if masked then
    const int begin = ${fn}_oldest(${starts_of}query0) / PASS * PASS;
//@   end
//@ end
//@ local function place_keys()
//@   local slices = mma and parts or 1
    /* the first keys are seen by the most queries: their blocks go first */
    const int key0 = (int)(blockIdx.x / ${kv_heads * sequences * slices}) * KEEP;
    const int keys = ${seq} - key0 < KEEP ? ${seq} - key0 : KEEP;
//@   if slices > 1 then
    const int column0 = (int)(blockIdx.x % ${slices}) * COLUMNS;
    const int kv_head = (int)(blockIdx.x / ${slices} % ${kv_heads});
    const int sequence = (int)(blockIdx.x / ${slices * kv_heads} % ${sequences});
//@   else
    const int kv_head = (int)(blockIdx.x % ${kv_heads});
    const int sequence = (int)(blockIdx.x / ${kv_heads} % ${sequences});
//@   end
    const int64_t row0 = (int64_t)sequence * ${seq};
    const int64_t k_at = (row0 + key0) * ${row} + (${heads} + kv_head) * ${hd};
    const int64_t v_at = k_at + ${kv_heads * hd};
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
//@   if starts then
    starts += row0;
    RT_SHARED(int, part, ${threads // 32});
    const int end = ${fn}_end(starts, key0 + keys - 1, part);
//@   elseif window > 0 then
    const int end = ${fn}_end(key0 + keys - 1);
//@   else
    const int end = ${seq};
//@   end
    const int begin = key0 / PASS * PASS;
    const int passes = (end - begin + PASS - 1) / PASS; /* over the queries of a head */
//@ end
//@ if mma then
/* Two tiles of rows, one behind the other, that begin at a and b. */
template <int rows>
RT_DEVICE void ${fn}_load(rt_bf16 *tile, const rt_bf16 *a, int64_t a_apart, const rt_bf16 *b,
                          int64_t b_apart, int there)
{
    rt_tile_load<${threads}, rows, HEAD, ${hd}>(tile, a, a_apart, there);
    rt_tile_load<${threads}, rows, HEAD, ${hd}>(tile + rows * RT_TILE_ROW(HEAD), b, b_apart,
                                       there);
}

/* The part of dqkv for q, and for the second kernel what it asks of each query: lse in powers
 * of 2 and delta, the sum of d_o o; of queries beyond the sequence so that p and ds are 0. */
RT_GLOBAL(${threads})
${fn}_dq(const rt_bf16 *qkv, const rt_bf16 *o, const float *lse, const rt_bf16 *d_o, ${starts_in}rt_bf16 *dqkv, float *lse2, float *deltas)
{
    RT_SHARED_BYTES(shared);
    rt_bf16 *q = (rt_bf16 *)(void *)shared, *tiles = q + 2 * KEEP_TILE;
//@ place_queries()
    const int own = query0 + warp * 16; /* the warp's first query */
    rt_bf16 *own_q = q + warp * 16 * RT_TILE_ROW(HEAD), *own_do = own_q + KEEP_TILE;
    float dq[1][HEAD / 8][4] = {}, top[2], delta[2];
//@   if masked then
    const int first_seen = ${fn}_oldest(${starts_of}own);
    const int all_seen = ${fn}_oldest(${starts_of}own + 15); /* by each query, from here */
    int oldest[2];
//@   end
    ${fn}_load<KEEP>(q, qkv + q_at, ${row}, d_o + o_at, ${o_row}, queries);
    ${fn}_load<PASS>(tiles + ${begin} / PASS % 2 * 2 * PASS_TILE, k_rows + (int64_t)${begin} * ${row}, ${row}, v_rows + (int64_t)${begin} * ${row}, ${row}, ${seq} - ${begin});
    rt_cp_async_commit();
    RT_UNROLL
    for (int half = 0; half < 2; half++) {
        const int query = own + 8 * half + lane / 4;
        const int64_t at = ((int64_t)sequence * ${heads} + head) * ${stride} + query;
        const int64_t there = row0 + (query < end ? query : end - 1); /* any row that is one */
        const int64_t o_there = there * ${o_row} + head * ${hd};
        const float sum = rt_quad_dot<${hd}>(o + o_there, d_o + o_there);
        top[half] = query < end ? lse[there * ${heads} + head] * LOG2_E : 1e30f;
        delta[half] = query < end ? sum : 0;
        if (lane % 4 == 0) {
            lse2[at] = top[half];
            deltas[at] = delta[half];
        }
//@   if masked then
        oldest[half] = ${fn}_oldest(${starts_of}query);
//@   end
    }
    for (int key0 = ${begin}; key0 < end; key0 += PASS) {
        const rt_bf16 *k = tiles + key0 / PASS % 2 * 2 * PASS_TILE, *v = k + PASS_TILE;
        rt_cp_async_wait(0);
        rt_block_sync(); /* these tiles are there, and no warp reads the others any more */
        if (key0 + PASS < end) {
            const int next = key0 + PASS;
            const int64_t at = (int64_t)next * ${row};
            ${fn}_load<PASS>(tiles + next / PASS % 2 * 2 * PASS_TILE, k_rows + at, ${row}, v_rows + at, ${row}, ${seq} - next);
            rt_cp_async_commit();
        }
//@   if masked then
        if (key0 >= own + 16 || key0 + PASS <= first_seen) {
            continue; /* no query of the warp sees any of these */
        }
        const bool edge = key0 + PASS > own + 1 || key0 < all_seen;
//@   else
        if (key0 >= own + 16) {
            continue; /* no query of the warp sees any of these */
        }
        const bool edge = key0 + PASS > own + 1;
//@   end
        float s[1][PASS / 8][4] = {}, dp[1][PASS / 8][4] = {};
        rt_mma_rows<1, PASS, HEAD>(s, own_q, k);
        rt_mma_rows<1, PASS, HEAD>(dp, own_do, v);
        RT_UNROLL
        for (int j = 0; j < PASS / 8; j++) {
            RT_UNROLL
            for (int e = 0; e < 4; e++) { /* dp becomes ds */
                const float p = rt_exp2f(rt_fmaf(s[0][j][e], SCALE, -top[e / 2]));
                dp[0][j][e] = p * (dp[0][j][e] - delta[e / 2]);
                if (edge) {
                    const int query = own + lane / 4 + e / 2 * 8;
                    const int key = key0 + 8 * j + lane % 4 * 2 + e % 2;
//@   if masked then
                    const bool seen = key <= query && key >= oldest[e / 2];
//@   else
                    const bool seen = key <= query;
//@   end
                    dp[0][j][e] = seen ? dp[0][j][e] : 0;
                }
            }
        }
        rt_mma_sums<1, HEAD, PASS, HEAD>(dq, dp, k);
    }
    const float scale[2] = {${lit(scale)}, ${lit(scale)}};
    rt_warp_sync();
    rt_tile_round<HEAD, HEAD>(own_q, dq[0], scale); /* the warp's rows take the place of its q */
    rt_block_sync();
    rt_tile_store<${threads}, KEEP, HEAD, ${hd}, ${hd}>(dqkv + q_at, ${row}, q, queries, 0);
}

/* The parts of dqkv for k and v. Rows of sums are keys, columns queries. */
RT_GLOBAL(${threads})
${fn}_dkv(const rt_bf16 *qkv, const rt_bf16 *d_o, ${starts_in}const float *lse2, const float *deltas, rt_bf16 *dqkv)
{
    RT_SHARED_BYTES(shared);
    rt_bf16 *k = (rt_bf16 *)(void *)shared, *tiles = k + 2 * KEEP_TILE;
    float *numbers = (float *)(void *)(tiles + 4 * PASS_TILE); /* lse2, then delta, of a pass */
//@ place_keys()
//@   local first_column = parts > 1 and "column0" or "0"
//@   local plus = parts > 1 and " + column0" or ""
//@   if starts then
    const int all_see = ${fn}_end(starts, key0, part); /* each of the keys, up to here */
//@   elseif window > 0 then
    const int all_see = ${fn}_end(key0);
//@   end
    const int own = key0 + warp * 16; /* the warp's first key */
    rt_bf16 *own_k = k + warp * 16 * RT_TILE_ROW(HEAD), *own_v = own_k + KEEP_TILE;
    float dk[1][COLUMNS / 8][4] = {}, dv[1][COLUMNS / 8][4] = {};
    ${fn}_load<KEEP>(k, qkv + k_at, ${row}, qkv + v_at, ${row}, keys);
    /* pass -1 only loads what pass 0 needs */
    for (int i = -1; i < ${group} * passes; i++) {
        if (i >= 0) {
            rt_cp_async_wait(0);
            rt_block_sync(); /* these tiles are there, and no warp reads the others any more */
        }
        if (i + 1 < ${group} * passes) {
            const int head = kv_head * ${group} + (i + 1) / passes;
            const int query0 = begin + (i + 1) % passes * PASS;
            const int64_t at = ((int64_t)sequence * ${heads} + head) * ${stride} + query0;
            rt_bf16 *tile = tiles + (i + 1) % 2 * 2 * PASS_TILE;
            float *number = numbers + (i + 1) % 2 * 2 * PASS;
            ${fn}_load<PASS>(tile, qkv + (row0 + query0) * ${row} + head * ${hd}, ${row}, d_o + (row0 + query0) * ${o_row} + head * ${hd}, ${o_row}, ${seq} - query0);
            if (threadIdx.x < PASS / 4) {
                rt_cp_async_16(number + 4 * threadIdx.x, lse2 + at + 4 * threadIdx.x, 16);
            } else if (threadIdx.x < PASS / 2) {
                rt_cp_async_16(number + 4 * threadIdx.x, deltas + at + 4 * threadIdx.x - PASS, 16);
            }
            rt_cp_async_commit();
        }
        if (i < 0) {
            continue;
        }
        const int query0 = begin + i % passes * PASS;
        const rt_bf16 *q = tiles + i % 2 * 2 * PASS_TILE, *d_out = q + PASS_TILE;
        const float *number = numbers + i % 2 * 2 * PASS + lane % 4 * 2;
        if (query0 + PASS <= own) {
            continue; /* no query sees any of the warp's keys */
        }
//@   if masked then
        const bool edge = own + 15 > query0 || query0 + PASS > all_see;
//@   else
        const bool edge = own + 15 > query0;
//@   end
        float p[1][PASS / 8][4] = {}, ds[1][PASS / 8][4] = {};
        rt_mma_rows<1, PASS, HEAD>(p, own_k, q);
        rt_mma_rows<1, PASS, HEAD>(ds, own_v, d_out);
        RT_UNROLL
        for (int j = 0; j < PASS / 8; j++) {
            RT_UNROLL
            for (int e = 0; e < 4; e++) { /* scores become p, its gradients ds */
                const float *of_query = number + 8 * j + e % 2;
                p[0][j][e] = rt_exp2f(rt_fmaf(p[0][j][e], SCALE, -of_query[0]));
                if (edge) {
                    const int key = own + lane / 4 + e / 2 * 8;
                    const int query = query0 + 8 * j + lane % 4 * 2 + e % 2;
//@   if masked then
                    const bool seen = key <= query && key >= ${fn}_oldest(${starts_of}query);
//@   else
                    const bool seen = key <= query;
//@   end
                    p[0][j][e] = seen ? p[0][j][e] : 0;
                }
                ds[0][j][e] = p[0][j][e] * (ds[0][j][e] - of_query[PASS]);
            }
        }
        rt_mma_sums<1, COLUMNS, PASS, HEAD>(dv, p, d_out${plus});
        rt_mma_sums<1, COLUMNS, PASS, HEAD>(dk, ds, q${plus});
    }
    const float scale[2] = {${lit(scale)}, ${lit(scale)}}, one[2] = {1, 1};
    rt_warp_sync();
    rt_tile_round<COLUMNS, HEAD>(own_k, dk[0], scale); /* they take the place of k and v */
    rt_tile_round<COLUMNS, HEAD>(own_v, dv[0], one);
    rt_block_sync();
    rt_tile_store<${threads}, KEEP, HEAD, ${hd}, COLUMNS>(dqkv + k_at, ${row}, k, keys, ${first_column});
    rt_tile_store<${threads}, KEEP, HEAD, ${hd}, COLUMNS>(dqkv + v_at, ${row}, k + KEEP_TILE, keys, ${first_column});
}
//@ else
/* Columns [d, d + 32) of rows into shared memory, `apart` elements from one to the next; zeros
 * where there are none. */
RT_DEVICE void ${fn}_load(${acc} *to, int apart, const ${elem} *from, int64_t row, int d, int there)
{
    for (int i = threadIdx.x; i < 32 * 32; i += 128) {
        const int64_t at = (int64_t)(i / 32) * row + d + i % 32;
        const bool inside = i / 32 < there && d + i % 32 < ${hd};
        to[i / 32 * apart + i % 32] = inside ? ${at("from", "at")} : 0;
    }
}

/* sums[i] += 32 columns of the warp's row i times those of the lane's row. */
RT_DEVICE void ${fn}_dot(${acc} *sums, const ${acc} *own, const ${acc} *right)
{
    for (int d = 0; d < 32; d++) {
        RT_UNROLL
        for (int i = 0; i < ROWS; i++) {
            sums[i] = rt_fma${f}(own[i * 32 + d], right[threadIdx.x % 32 * 33 + d], sums[i]);
        }
    }
}

/* out[i][part] += the lane's column of what the warp's row i says to take of 32 rows. */
RT_DEVICE void ${fn}_add(${acc} (*out)[PARTS], int part, const ${acc} *own, const ${acc} *right)
{
    for (int j = 0; j < 32; j++) {
        RT_UNROLL
        for (int i = 0; i < ROWS; i++) {
            out[i][part] = rt_fma${f}(own[i * 32 + j], right[j * 33 + threadIdx.x % 32],
                                   out[i][part]);
        }
    }
}

/* The part of dqkv for q, and for the second kernel each query's delta, the sum of d_o o. */
RT_GLOBAL(128)
${fn}_dq(const ${elem} *qkv, const ${elem} *o, const ${acc} *lse, const ${elem} *d_o, ${starts_in}${elem} *dqkv, ${acc} *deltas)
{
    RT_SHARED(${acc}, q, KEEP * 32); /* columns of q, then ds */
    RT_SHARED(${acc}, d_out, KEEP * 32);
    RT_SHARED(${acc}, k, PASS * 33);
    RT_SHARED(${acc}, v, PASS * 33);
//@ place_queries()
    ${acc} *own_q = q + warp * ROWS * 32, *own_do = d_out + warp * ROWS * 32;
    ${acc} dq[ROWS][PARTS] = {}, top[ROWS], delta[ROWS];
    RT_UNROLL
    for (int i = 0; i < ROWS; i++) {
        const int query = query0 + warp * ROWS + i;
        const int64_t there = row0 + (query < end ? query : end - 1); /* any row that is one */
        ${acc} sum = 0;
        for (int d = lane; d < ${hd}; d += 32) {
            const int64_t at = there * ${o_row} + head * ${hd} + d;
            sum += ${at("o", "at")} * ${at("d_o", "at")};
        }
        delta[i] = rt_warp_sum(sum);
        top[i] = lse[there * ${heads} + head];
        if (lane == 0) {
            deltas[((int64_t)sequence * ${heads} + head) * ${stride} + query] = delta[i];
        }
    }
    for (int key0 = ${begin}; key0 < end; key0 += PASS) {
        const int64_t rows = (int64_t)key0 * ${row};
        ${acc} s[ROWS] = {}, dp[ROWS] = {};
        for (int d = 0; d < ${hd}; d += 32) {
            rt_block_sync();
            ${fn}_load(q, 32, qkv + q_at, ${row}, d, queries);
            ${fn}_load(d_out, 32, d_o + o_at, ${o_row}, d, queries);
            ${fn}_load(k, 33, k_rows + rows, ${row}, d, ${seq} - key0);
            ${fn}_load(v, 33, v_rows + rows, ${row}, d, ${seq} - key0);
            rt_block_sync();
            ${fn}_dot(s, own_q, k);
            ${fn}_dot(dp, own_do, v);
        }
        rt_warp_sync();
        RT_UNROLL
        for (int i = 0; i < ROWS; i++) {
            const int query = query0 + warp * ROWS + i, key = key0 + lane;
//@   if masked then
            const bool seen = key <= query && key >= ${fn}_oldest(${starts_of}query);
//@   else
            const bool seen = key <= query;
//@   end
            const ${acc} p = rt_exp${f}(s[i] * ${lit(scale)} - top[i]);
            own_q[i * 32 + lane] = seen && query < end ? p * (dp[i] - delta[i]) : 0;
        }
        RT_UNROLL
        for (int part = 0; part < PARTS; part++) {
            rt_block_sync();
            ${fn}_load(k, 33, k_rows + rows, ${row}, 32 * part, ${seq} - key0);
            rt_block_sync();
            ${fn}_add(dq, part, own_q, k);
        }
    }
    RT_UNROLL
    for (int i = 0; i < ROWS * PARTS; i++) {
        const int query = warp * ROWS + i / PARTS, d = i % PARTS * 32 + lane;
        const int64_t at = q_at + (int64_t)query * ${row} + d;
        if (query < queries && d < ${hd}) {
            ${into("dqkv", "at", "dq[i / PARTS][i % PARTS] * " .. lit(scale))};
        }
    }
}

/* The parts of dqkv for k and v. */
RT_GLOBAL(128)
${fn}_dkv(const ${elem} *qkv, const ${acc} *lse, const ${elem} *d_o, ${starts_in}const ${acc} *deltas, ${elem} *dqkv)
{
    RT_SHARED(${acc}, k, KEEP * 32); /* columns of k, then ds */
    RT_SHARED(${acc}, v, KEEP * 32); /* columns of v, then p */
    RT_SHARED(${acc}, q, PASS * 33);
    RT_SHARED(${acc}, d_out, PASS * 33);
//@ place_keys()
    ${acc} *own_k = k + warp * ROWS * 32, *own_v = v + warp * ROWS * 32;
    ${acc} dk[ROWS][PARTS] = {}, dv[ROWS][PARTS] = {};
    for (int pass = 0; pass < ${group} * passes; pass++) {
        const int head = kv_head * ${group} + pass / passes;
        const int query0 = begin + pass % passes * PASS, query = query0 + lane;
        const int64_t there = row0 + (query < ${seq} ? query : ${seq - 1}); /* any that is one */
        const int64_t q_at = (row0 + query0) * ${row} + head * ${hd};
        const int64_t o_at = (row0 + query0) * ${o_row} + head * ${hd};
        const ${acc} top = lse[there * ${heads} + head];
        const ${acc} delta = deltas[((int64_t)sequence * ${heads} + head) * ${stride} + there - row0];
//@   if masked then
        const int oldest = ${fn}_oldest(${starts_of}query);
//@   end
        ${acc} s[ROWS] = {}, dp[ROWS] = {};
        for (int d = 0; d < ${hd}; d += 32) {
            rt_block_sync();
            ${fn}_load(k, 32, qkv + k_at, ${row}, d, keys);
            ${fn}_load(v, 32, qkv + v_at, ${row}, d, keys);
            ${fn}_load(q, 33, qkv + q_at, ${row}, d, ${seq} - query0);
            ${fn}_load(d_out, 33, d_o + o_at, ${o_row}, d, ${seq} - query0);
            rt_block_sync();
            ${fn}_dot(s, own_k, q);
            ${fn}_dot(dp, own_v, d_out);
        }
        rt_warp_sync();
        RT_UNROLL
        for (int i = 0; i < ROWS; i++) {
            const int key = key0 + warp * ROWS + i;
//@   if masked then
            const bool seen = query < ${seq} && key <= query && key >= oldest;
//@   else
            const bool seen = query < ${seq} && key <= query;
//@   end
            const ${acc} p = seen ? rt_exp${f}(s[i] * ${lit(scale)} - top) : 0;
            own_v[i * 32 + lane] = p;
            own_k[i * 32 + lane] = p * (dp[i] - delta);
        }
        RT_UNROLL
        for (int part = 0; part < PARTS; part++) {
            rt_block_sync();
            ${fn}_load(q, 33, qkv + q_at, ${row}, 32 * part, ${seq} - query0);
            ${fn}_load(d_out, 33, d_o + o_at, ${o_row}, 32 * part, ${seq} - query0);
            rt_block_sync();
            ${fn}_add(dk, part, own_k, q);
            ${fn}_add(dv, part, own_v, d_out);
        }
    }
    RT_UNROLL
    for (int i = 0; i < ROWS * PARTS; i++) {
        const int key = warp * ROWS + i / PARTS, d = i % PARTS * 32 + lane;
        const int64_t to_k = k_at + (int64_t)key * ${row} + d;
        const int64_t to_v = v_at + (int64_t)key * ${row} + d;
        if (key < keys && d < ${hd}) {
            ${into("dqkv", "to_k", "dk[i / PARTS][i % PARTS] * " .. lit(scale))};
            ${into("dqkv", "to_v", "dv[i / PARTS][i % PARTS]")};
        }
    }
}
//@ end

#undef KEEP
#undef PASS
//@ if mma then
#undef HEAD
#undef KEEP_TILE
#undef PASS_TILE
#undef LOG2_E
#undef SCALE
#undef COLUMNS
//@ else
#undef ROWS
#undef PARTS
//@ end
//@ host
${kernel(fn .. "_dq", threads, shared)}
${kernel(fn .. "_dkv", threads, shared)}

//@ local args = starts and "&starts, " or ""
/* workspace: of each head of each sequence, numbers of its queries. */
static void ${fn}(Rt *rt, const ${elem} *qkv, const ${elem} *o, const ${acc} *lse,
                  const ${elem} *d_o, ${starts_in}${elem} *dqkv, char *workspace)
{
//@ local kv_blocks = blocks * kv_heads * sequences * (mma and parts or 1)
//@ if mma then
    float *lse2 = (float *)(void *)workspace, *deltas = lse2 + ${heads * sequences * stride};
    rt_launch(rt, &${fn}_dq_kernel, ${blocks * heads * sequences}, 1,
              (void *[]){ &qkv, &o, &lse, &d_o, ${args}&dqkv, &lse2, &deltas });
    rt_launch(rt, &${fn}_dkv_kernel, ${kv_blocks}, 1,
              (void *[]){ &qkv, &d_o, ${args}&lse2, &deltas, &dqkv });
//@ else
    ${acc} *deltas = (${acc} *)(void *)workspace;
    rt_launch(rt, &${fn}_dq_kernel, ${blocks * heads * sequences}, 1,
              (void *[]){ &qkv, &o, &lse, &d_o, ${args}&dqkv, &deltas });
    rt_launch(rt, &${fn}_dkv_kernel, ${kv_blocks}, 1,
              (void *[]){ &qkv, &lse, &d_o, ${args}&deltas, &dqkv });
//@ end
}
