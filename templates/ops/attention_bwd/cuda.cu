//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- attention_bwd: probabilities again from lse, in two kernels, each of which alone
//@ -- adds to what it writes, in a fixed order: in one a block has some queries of a head
//@ -- and passes over the keys that they see, for dq; in the other some keys of a kv head
//@ -- and passes over the queries that see them, of all heads that read it, for dk and
//@ -- dv. Two products more than needed, for sums without atomics, waiting or scratch
//@ -- memory. bf16 heads of up to 256 are multiplied by the tensor cores, as in
//@ -- attention: probabilities and the scores' gradients are rounded to bf16 on their way
//@ -- into dv, dk and dq. Any other rows are multiplied in acc.
//@ local hd, group, row = head_dim, heads // kv_heads, (heads + 2 * kv_heads) * head_dim
//@ local sequences, elem, o_row = t // seq, qkv.type, heads * head_dim
//@ local mma = elem == "rt_bf16" and hd <= 256
//@ -- A block keeps rows of two tiles and passes over those of two others, through two
//@ -- buffers, in shared memory that every device has. Where whole rows of dk and dv were
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
//@ local words = (hd + 31) // 32 * acc_bytes // 4 * 2 -- of a row's sums
//@ while not mma and keep > 4 and keep // 4 * words > 128 do keep = keep // 2 end
//@ -- For dq. Where registers allow it a warp has 32 queries, for half as many loads of keys;
//@ -- sums go over 16 keys at a time, in order, so their bits depend on none of the three.
//@ local rows, queries, keys = 16, keep, pass
//@ if mma and head <= 64 and seq > 64 then rows, queries, keys = 32, 128, 32 end
//@ local threads = mma and 2 * keep or 128
//@ local shared = mma and bytes() or 0
//@ local blocks = (seq + keep - 1) // keep
//@ local q_blocks = (seq + queries - 1) // queries
//@ local stride = blocks * keep -- of a head's numbers in the workspace
//@ local beyond = q_blocks * queries > stride and " && query < " .. stride or ""
//@ local f = acc == "float" and "f" or ""
//@ local function operand(name) return { name = name, type = elem, dtype = qkv.dtype } end
//@ local function at(name, index) return ld(operand(name), index) end
//@ local function into(name, index, value) return st(operand(name), index, value) end
//@ -- With a softcap c a score is c t, where t = tanh(product scale / c), and its slope 1 - t^2.
//@ local capped, factor = softcap > 0, softcap > 0 and softcap or scale
//@ local slope = capped and " * (1 - t * t)" or ""
//@ local function score(product, indent) -- without its factor, and what comes before
//@   local t = ("\n%sconst %s t = rt_tanh%s(%s * "):format((" "):rep(indent), acc, f, product)
//@   return capped and "t" or product, capped and t .. lit(scale / softcap) .. ");" or ""
//@ end
//@ local starts_in = starts and "const int32_t *starts, " or ""
//@ local starts_of = starts and "starts, " or ""
//@ local chunk = key_chunk < seq and key_chunk or 0 -- one chunk cuts nothing
//@ local window = window < seq and window or 0 -- one that has all keys hides none
//@ local masked = starts or window > 0 or chunk > 0
//@ -- How many rows of a tile are there: loads take it only where tiles do not divide the sequence.
//@ local function there(rows, left) return seq % rows == 0 and "" or ", " .. left end
//@ local some_queries, some_keys = there(queries, "queries"), there(keep, "keys")
//@ local function older(first) return masked and " && key >= " .. first or "" end
//@ local begin = masked and "begin" or "0"
//@ if mma then
#include "rt_mma.h"

//@ end
#define SEQ ${seq} /* rows of a sequence */
#define ROW ${row} /* elements of a row of qkv */
#define O_ROW ${o_row} /* of o */
#define DIM ${hd} /* of a head */
#define KEEP ${keep} /* rows that a block holds: ${mma and "" or "queries for dq, "}keys for dk and dv */
#define PASS ${pass} /* rows per pass over the others */
//@ if mma then
#define QUERIES ${queries} /* that a block holds for dq */
#define ROWS ${rows} /* of them, of a warp */
#define KEYS ${keys} /* per pass over them */
#define HEAD ${head} /* DIM rounded up to 16 */
#define COLUMNS ${columns} /* of dk and dv in a block */
#define QUERY_TILE (QUERIES * RT_TILE_ROW(HEAD)) /* elements */
#define KEY_TILE (KEYS * RT_TILE_ROW(HEAD))
#define KEEP_TILE (KEEP * RT_TILE_ROW(HEAD))
#define PASS_TILE (PASS * RT_TILE_ROW(HEAD))
#define SCALE ${lit(factor * 1.4426950408889634)} /* times log2(e), for exp2 */
//@ else
#define ROWS (KEEP / 4) /* of a warp */
#define PARTS ${(hd + 31) // 32} /* of 32 columns, one for each lane */
//@ end

//@ if masked then
${oldest_key(fn, starts, window, chunk)}

${end_query(fn, starts, window, threads, chunk)}

//@ end
//@ local function place_queries() -- which queries of which head: text of both kinds
//@   local block, step = mma and "QUERIES" or "KEEP", mma and "KEYS" or "PASS"
    /* The last queries see the most keys, so their blocks go first. */
    const int query0 = (${q_blocks - 1} - (int)(blockIdx.x / ${heads * sequences})) * ${block};
    const int queries = SEQ - query0 < ${block} ? SEQ - query0 : ${block};
    const int head = (int)(blockIdx.x % ${heads}), end = query0 + queries;
    const int sequence = (int)(blockIdx.x / ${heads} % ${sequences});
    const int64_t row0 = (int64_t)sequence * SEQ;
    const int64_t q_at = (row0 + query0) * ROW + head * DIM;
    const int64_t o_at = (row0 + query0) * O_ROW + head * DIM;
    const ${elem} *k_rows = qkv + row0 * ROW + (${heads} + head / ${group}) * DIM;
    const ${elem} *v_rows = k_rows + ${kv_heads * hd};
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
//@   if starts then
    starts += row0;
//@   end
//@   if masked then
    const int begin = ${fn}_oldest(${starts_of}query0) / ${step} * ${step};
//@   end
//@   if mma then
    const int own = query0 + warp * ROWS; /* the warp's first query */
//@     if masked then
    const int first_seen = ${fn}_oldest(${starts_of}own);
    /* From here on every query of the warp sees the keys. */
    const int all_see = ${fn}_oldest(${starts_of}own + ROWS - 1);
    int oldest[ROWS / 16][2];
//@     end
//@   end
//@ end
//@ local function place_keys()
//@   local slices = mma and parts or 1
    /* The first keys are seen by the most queries, so their blocks go first. */
    const int key0 = (int)(blockIdx.x / ${kv_heads * sequences * slices}) * KEEP;
    const int keys = SEQ - key0 < KEEP ? SEQ - key0 : KEEP;
//@   if slices > 1 then
    const int column0 = (int)(blockIdx.x % ${slices}) * COLUMNS;
    const int kv_head = (int)(blockIdx.x / ${slices} % ${kv_heads});
    const int sequence = (int)(blockIdx.x / ${slices * kv_heads} % ${sequences});
//@   else
    const int kv_head = (int)(blockIdx.x % ${kv_heads});
    const int sequence = (int)(blockIdx.x / ${kv_heads} % ${sequences});
//@   end
    const int64_t row0 = (int64_t)sequence * SEQ;
    const int64_t k_at = (row0 + key0) * ROW + (${heads} + kv_head) * DIM;
    const int64_t v_at = k_at + ${kv_heads * hd};
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
//@   if starts then
    starts += row0;
    RT_SHARED(int, part, ${threads // 32});
    const int end = ${fn}_end(starts, key0 + keys - 1, part);
//@   elseif masked then
    const int end = ${fn}_end(key0 + keys - 1);
//@   else
    const int end = SEQ;
//@   end
    const int begin = key0 / PASS * PASS;
//@   if mma and masked then
    /* Up to here every query sees all keys of the block. */
    const int all_see = ${fn}_end(${starts_of}key0${starts and ", part" or ""});
//@   end
//@   if mma then
    const int head0 = kv_head * ${group}, head_end = head0 + ${group};
    const rt_bf16 *q_rows = qkv + row0 * ROW + head0 * DIM;
    const rt_bf16 *do_rows = d_o + row0 * O_ROW + head0 * DIM;
    lse2 += ((int64_t)sequence * ${heads} + head0) * ${stride};
    deltas += ((int64_t)sequence * ${heads} + head0) * ${stride};
//@   end
//@ end
//@ if mma then
//@   local kept = head <= 128 -- dq keeps its fragments of q and d_o in registers
//@   local kept_kv = head <= 64
//@   -- Two products: of the warp's rows, or the fragments that are kept of them, and a tile's.
//@   local function products(in_registers, shape, first, second)
//@     for _, p in ipairs { first, second } do
//@       if in_registers then
        rt_mma_kept<${shape}, HEAD>(${p[1]}, ${p[2]}_parts, ${p[3]});
//@       else
        rt_mma_rows<${shape}, HEAD>(${p[1]}, own_${p[2]}, ${p[3]});
//@       end
//@     end
//@   end
//@   local left = there(keys, "SEQ - key0")
/* Loads keys and values from key0 on into the two tiles of their turn. */
RT_DEVICE void ${fn}_load_keys(rt_bf16 *tiles, const rt_bf16 *k_rows,
                               const rt_bf16 *v_rows, int key0)
{
    rt_bf16 *tile = tiles + key0 / KEYS % 2 * 2 * KEY_TILE;
    const int64_t at = (int64_t)key0 * ROW;
    rt_tile_load<${threads}, KEYS, HEAD, DIM>(tile, k_rows + at, ROW${left});
    rt_tile_load<${threads}, KEYS, HEAD, DIM>(tile + KEY_TILE, v_rows + at, ROW${left});
    rt_cp_async_commit();
}

/* Turns the gradients of probabilities into those of the scores s; edge: zero where a
 * query of the warp (the first is own) does not see a key. */
//@   local oldest_in = masked and ", const int (*oldest)[2]" or ""
RT_DEVICE void ${fn}_ds(float (*ds)[KEYS / 8][4], const float (*s)[KEYS / 8][4],
                        const float (*top)[2], const float (*delta)[2], bool edge,
                        int own, int key0${oldest_in})
{
    const int lane = threadIdx.x % 32;
    RT_UNROLL
    for (int n = 0; n < ROWS * KEYS / 32; n++) {
//@   local number, before = score("s[i][j][e]", 8)
        const int i = n / (KEYS / 2), j = n / 4 % (KEYS / 8), e = n % 4;${before}
        const float p = rt_exp2f(rt_fmaf(${number}, SCALE, -top[i][e / 2]));
        ds[i][j][e] = p * (ds[i][j][e] - delta[i][e / 2])${slope};
    }
    if (!edge)
        return;
    RT_UNROLL
    for (int n = 0; n < ROWS * KEYS / 32; n++) {
        const int i = n / (KEYS / 2), j = n / 4 % (KEYS / 8), e = n % 4;
        const int query = own + 16 * i + lane / 4 + e / 2 * 8;
        const int key = key0 + 8 * j + lane % 4 * 2 + e % 2;
        ds[i][j][e] = key <= query${older("oldest[i][e / 2]")} ? ds[i][j][e] : 0;
    }
}

/* The part of dqkv for q; and for the second kernel two numbers per query: lse as a power
 * of 2, and delta, the sum of d_o o. Queries beyond the sequence get p = 0. */
RT_GLOBAL(${threads})
${fn}_dq(const rt_bf16 *qkv, const rt_bf16 *o, const float *lse, const rt_bf16 *d_o,
         ${starts_in}rt_bf16 *dqkv, float *lse2, float *deltas)
{
    RT_SHARED_BYTES(shared);
    rt_bf16 *q = (rt_bf16 *)(void *)shared, *tiles = q + 2 * QUERY_TILE;
//@ place_queries()
    rt_bf16 *own_q = q + warp * ROWS * RT_TILE_ROW(HEAD), *own_do = own_q + QUERY_TILE;
    float dq[ROWS / 16][HEAD / 8][4] = {}, top[ROWS / 16][2], delta[ROWS / 16][2];
//@   if kept then
    uint32_t q_parts[ROWS / 16][HEAD / 16][4], do_parts[ROWS / 16][HEAD / 16][4];
//@   end
    rt_tile_load<${threads}, QUERIES, HEAD, DIM>(q, qkv + q_at, ROW${some_queries});
    rt_tile_load<${threads}, QUERIES, HEAD, DIM>(q + QUERY_TILE, d_o + o_at, O_ROW${some_queries});
    rt_cp_async_commit();
    ${fn}_load_keys(tiles, k_rows, v_rows, ${begin});
    RT_UNROLL
    for (int i = 0; i < ROWS / 8; i++) {
        const int query = own + 8 * i + lane / 4;
        const int64_t at = ((int64_t)sequence * ${heads} + head) * ${stride} + query;
        const int64_t there = row0 + (query < end ? query : end - 1); /* any valid row */
        const int64_t o_there = there * O_ROW + head * DIM;
        top[i / 2][i % 2] = query < end ? lse[there * ${heads} + head] * RT_LOG2_E : 1e30f;
        delta[i / 2][i % 2] = rt_quad_dot<DIM>(o + o_there, d_o + o_there);
        if (lane % 4 == 0${beyond}) {
            lse2[at] = top[i / 2][i % 2];
            deltas[at] = delta[i / 2][i % 2];
        }
//@   if masked then
        oldest[i / 2][i % 2] = ${fn}_oldest(${starts_of}query);
//@   end
    }
//@   if kept then
    rt_cp_async_wait(1);
    rt_block_sync(); /* q and d_o have arrived */
    rt_mma_keep<ROWS / 16, HEAD>(q_parts, own_q);
    rt_mma_keep<ROWS / 16, HEAD>(do_parts, own_do);
//@   end
    for (int key0 = ${begin}; key0 < end; key0 += KEYS) {
        const rt_bf16 *k = tiles + key0 / KEYS % 2 * 2 * KEY_TILE, *v = k + KEY_TILE;
        float s[ROWS / 16][KEYS / 8][4] = {}, ds[ROWS / 16][KEYS / 8][4] = {};
        rt_cp_async_wait(0);
        rt_block_sync(); /* these have arrived, and the other two are not read any more */
        if (key0 + KEYS < end) {
//@   local next_keys = { "tiles", "k_rows", "v_rows", "key0 + KEYS" }
${call("            " .. fn .. "_load_keys(", next_keys, ");")}
        }
        const bool edge = key0 + KEYS > own + 1${masked and " || key0 < all_see" or ""};
        if (key0 >= own + ROWS${masked and " || key0 + KEYS <= first_seen" or ""}) {
            continue; /* no query of the warp sees any of these */
        }
//@   products(kept, "ROWS / 16, KEYS", { "s", "q", "k" }, { "ds", "do", "v" })
//@   local of = { "ds", "s", "top", "delta", "edge", "own", "key0" }
//@   if masked then of[#of + 1] = "oldest" end
${call("        " .. fn .. "_ds(", of, ");")}
        rt_mma_sums<ROWS / 16, HEAD, KEYS, HEAD>(dq, ds, k);
    }
    const float scale[2] = {${lit(scale)}, ${lit(scale)}};
    rt_warp_sync();
    RT_UNROLL
    for (int i = 0; i < ROWS / 16; i++) /* dq replaces q */
        rt_tile_round<HEAD, HEAD>(own_q + 16 * i * RT_TILE_ROW(HEAD), dq[i], scale);
    rt_block_sync();
    rt_tile_store<${threads}, QUERIES, HEAD, DIM, DIM>(dqkv + q_at, ROW, q, queries, 0);
}

//@   left = there(pass, "SEQ - query0")
/* Loads a head's queries from query0 on, their d_o, lse2 and deltas into a turn's tiles. */
RT_DEVICE void ${fn}_load_queries(rt_bf16 *tile, float *numbers, const rt_bf16 *q_rows,
                                  const rt_bf16 *do_rows, const float *lse2,
                                  const float *deltas, int query0)
{
    const int i = 4 * threadIdx.x;
    q_rows += (int64_t)query0 * ROW;
    do_rows += (int64_t)query0 * O_ROW;
    rt_tile_load<${threads}, PASS, HEAD, DIM>(tile, q_rows, ROW${left});
    rt_tile_load<${threads}, PASS, HEAD, DIM>(tile + PASS_TILE, do_rows, O_ROW${left});
    if (i < PASS) {
        rt_cp_async_16(numbers + i, lse2 + query0 + i, 16);
        rt_cp_async_16(numbers + PASS + i, deltas + query0 + i, 16);
    }
    rt_cp_async_commit();
}

/* Turns scores of the warp's keys (the first is own) into probabilities, and the
 * gradients of those into the scores'. number: lse2 of the lane's queries, followed by
 * the deltas; edge: zero where a query from query0 on does not see a key. */
RT_DEVICE void ${fn}_p_and_ds(float (*p)[4], float (*ds)[4], const float *number, bool edge,
                              ${starts_in}int own, int query0)
{
    const int lane = threadIdx.x % 32;
    RT_UNROLL
    for (int i = 0; i < PASS / 2; i++) {
//@   number, before = score("p[j][e]", 8)
//@   local rest = "(ds[j][e] - number[PASS + 8 * j + e % 2])"
        const int j = i / 4, e = i % 4;${before}${capped and "\n        ds[j][e] = " .. rest .. slope .. ";" or ""}
        p[j][e] = rt_exp2f(rt_fmaf(${number}, SCALE, -number[8 * j + e % 2]));
    }
    if (edge) {
        RT_UNROLL
        for (int i = 0; i < PASS / 2; i++) {
            const int j = i / 4, e = i % 4, key = own + lane / 4 + e / 2 * 8;
            const int query = query0 + 8 * j + lane % 4 * 2 + e % 2;
//@   if masked then
            const int oldest = ${fn}_oldest(${starts_of}query);
//@   end
            p[j][e] = key <= query${older("oldest")} ? p[j][e] : 0;
        }
    }
    RT_UNROLL
    for (int i = 0; i < PASS / 2; i++) {
        const int j = i / 4, e = i % 4;
        ds[j][e] = p[j][e] * ${capped and "ds[j][e]" or rest};
    }
}

//@   local first_column, plus = "0", ""
//@   if parts > 1 then first_column, plus = "column0", " + column0" end
/* The parts of dqkv for k and v. Rows of sums are keys, columns queries. */
RT_GLOBAL(${threads})
${fn}_dkv(const rt_bf16 *qkv, const rt_bf16 *d_o, ${starts_in}const float *lse2,
          const float *deltas, rt_bf16 *dqkv)
{
    RT_SHARED_BYTES(shared);
    rt_bf16 *k = (rt_bf16 *)(void *)shared, *v = k + KEEP_TILE, *tiles = v + KEEP_TILE;
    float *numbers = (float *)(void *)(tiles + 4 * PASS_TILE); /* lse2 and deltas */
//@ place_keys()
    const int own = key0 + warp * 16; /* the warp's first key */
    rt_bf16 *own_k = k + warp * 16 * RT_TILE_ROW(HEAD), *own_v = own_k + KEEP_TILE;
    float dk[1][COLUMNS / 8][4] = {}, dv[1][COLUMNS / 8][4] = {};
    rt_tile_load<${threads}, KEEP, HEAD, DIM>(k, qkv + k_at, ROW${some_keys});
    rt_tile_load<${threads}, KEEP, HEAD, DIM>(v, qkv + v_at, ROW${some_keys});
    rt_cp_async_commit();
//@   local from = { "tiles", "numbers", "q_rows", "do_rows", "lse2", "deltas", "begin" }
${call("    " .. fn .. "_load_queries(", from, ");")}
//@   if kept_kv then
    uint32_t k_parts[1][HEAD / 16][4], v_parts[1][HEAD / 16][4];
    rt_cp_async_wait(1);
    rt_block_sync(); /* k and v have arrived */
    rt_mma_keep<1, HEAD>(k_parts, own_k);
    rt_mma_keep<1, HEAD>(v_parts, own_v);
//@   end
    for (int turn = 0, head = head0, query0 = begin; head < head_end; turn = 1 - turn) {
        const rt_bf16 *q = tiles + turn * 2 * PASS_TILE, *d_out = q + PASS_TILE;
        const float *number = numbers + turn * 2 * PASS + lane % 4 * 2;
        const int first_query = query0; /* of this pass */
        float p[1][PASS / 8][4] = {}, ds[1][PASS / 8][4] = {};
        rt_cp_async_wait(0);
        rt_block_sync(); /* these have arrived, and the others are not read any more */
        query0 += PASS;
        if (query0 >= end) { /* continue with the next head */
            head++;
            query0 = begin;
            q_rows += DIM;
            do_rows += DIM;
            lse2 += ${stride};
            deltas += ${stride};
        }
        if (head < head_end) {
            rt_bf16 *tile = tiles + (1 - turn) * 2 * PASS_TILE;
            float *to = numbers + (1 - turn) * 2 * PASS;
//@   from = { "tile", "to", "q_rows", "do_rows", "lse2", "deltas", "query0" }
${call("            " .. fn .. "_load_queries(", from, ");")}
        }
        if (first_query + PASS <= own) {
            continue; /* no query sees any of the warp's keys */
        }
//@   local and_more = masked and " || first_query + PASS > all_see" or ""
        const bool edge = own + 15 > first_query${and_more};
//@   products(kept_kv, "1, PASS", { "p", "k", "q" }, { "ds", "v", "d_out" })
        ${fn}_p_and_ds(p[0], ds[0], number, edge, ${starts_of}own, first_query);
        rt_mma_sums<1, COLUMNS, PASS, HEAD>(dv, p, d_out${plus});
        rt_mma_sums<1, COLUMNS, PASS, HEAD>(dk, ds, q${plus});
    }
    const float scale[2] = {${lit(scale)}, ${lit(scale)}}, one[2] = {1, 1};
//@   if not kept_kv then
    rt_warp_sync();
//@   end
    rt_tile_round<COLUMNS, HEAD>(own_k, dk[0], scale); /* replace k and v */
    rt_tile_round<COLUMNS, HEAD>(own_v, dv[0], one);
    rt_block_sync();
    rt_tile_store<${threads}, KEEP, HEAD, DIM, COLUMNS>(dqkv + k_at, ROW, k, keys, ${first_column});
    rt_tile_store<${threads}, KEEP, HEAD, DIM, COLUMNS>(dqkv + v_at, ROW, v, keys, ${first_column});
}
//@ else
/* Loads columns [d, d + 32) of rows into shared memory, `apart` elements from one row to
 * the next; zeros beyond the rows. */
RT_DEVICE void ${fn}_load(${acc} *to, int rows, int apart, const ${elem} *from,
                          int64_t row, int d, int there)
{
    RT_UNROLL_BY(2)
    for (int i = threadIdx.x; i < rows * 32; i += 128) {
        const int64_t at = (int64_t)(i / 32) * row + d + i % 32;
        const bool inside = i / 32 < there && d + i % 32 < DIM;
        to[i / 32 * apart + i % 32] = inside ? ${at("from", "at")} : 0;
    }
}

/* sums[i] += 32 columns of the warp's row i times those of the lane's row. */
RT_DEVICE void ${fn}_dot(${acc} *sums, const ${acc} *own, const ${acc} *right)
{
    RT_UNROLL_BY(4)
    for (int d = 0; d < 32; d++) {
        RT_UNROLL
        for (int i = 0; i < ROWS; i++)
            sums[i] = rt_fma${f}(own[i * 32 + d], right[threadIdx.x % 32 * 33 + d], sums[i]);
    }
}

/* out[i][part] += the lane's column of a sum of 32 rows, with weights from the warp's row
 * i. */
RT_DEVICE void ${fn}_add(${acc} (*out)[PARTS], int part, const ${acc} *own,
                         const ${acc} *right)
{
    RT_UNROLL_BY(4)
    for (int j = 0; j < 32; j++) {
        RT_UNROLL
        for (int i = 0; i < ROWS; i++) {
            out[i][part] = rt_fma${f}(own[i * 32 + j], right[j * 33 + threadIdx.x % 32],
                                   out[i][part]);
        }
    }
}

//@   local number, before = score("s[i]", 12)
/* The part of dqkv for q, and for the second kernel delta, the sum of d_o o. */
RT_GLOBAL(128)
${fn}_dq(const ${elem} *qkv, const ${elem} *o, const ${acc} *lse, const ${elem} *d_o,
         ${starts_in}${elem} *dqkv, ${acc} *deltas)
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
        const int64_t there = row0 + (query < end ? query : end - 1); /* any valid row */
        ${acc} sum = 0;
        for (int d = lane; d < DIM; d += 32) {
            const int64_t at = there * O_ROW + head * DIM + d;
            sum += ${at("o", "at")} * ${at("d_o", "at")};
        }
        delta[i] = rt_warp_sum(sum);
        top[i] = lse[there * ${heads} + head];
        if (lane == 0)
            deltas[((int64_t)sequence * ${heads} + head) * ${stride} + query] = delta[i];
    }
    for (int key0 = ${begin}; key0 < end; key0 += PASS) {
        const int64_t rows = (int64_t)key0 * ROW;
        ${acc} s[ROWS] = {}, dp[ROWS] = {};
        for (int d = 0; d < DIM; d += 32) {
            rt_block_sync();
            ${fn}_load(q, KEEP, 32, qkv + q_at, ROW, d, queries);
            ${fn}_load(d_out, KEEP, 32, d_o + o_at, O_ROW, d, queries);
            ${fn}_load(k, PASS, 33, k_rows + rows, ROW, d, SEQ - key0);
            ${fn}_load(v, PASS, 33, v_rows + rows, ROW, d, SEQ - key0);
            rt_block_sync();
            ${fn}_dot(s, own_q, k);
            ${fn}_dot(dp, own_do, v);
        }
        rt_warp_sync();
        RT_UNROLL
        for (int i = 0; i < ROWS; i++) {
            const int query = query0 + warp * ROWS + i, key = key0 + lane;
//@   if masked then
            const int oldest = ${fn}_oldest(${starts_of}query);
//@   end
            const bool seen = key <= query${older("oldest")};${before}
            const ${acc} p = rt_exp${f}(${number} * ${lit(factor)} - top[i]);
            own_q[i * 32 + lane] = seen && query < end ? p * (dp[i] - delta[i])${slope} : 0;
        }
        RT_UNROLL
        for (int part = 0; part < PARTS; part++) {
            rt_block_sync();
            ${fn}_load(k, PASS, 33, k_rows + rows, ROW, 32 * part, SEQ - key0);
            rt_block_sync();
            ${fn}_add(dq, part, own_q, k);
        }
    }
    RT_UNROLL
    for (int i = 0; i < ROWS * PARTS; i++) {
        const int query = warp * ROWS + i / PARTS, d = i % PARTS * 32 + lane;
        const int64_t at = q_at + (int64_t)query * ROW + d;
        if (query < queries && d < DIM)
            ${into("dqkv", "at", "dq[i / PARTS][i % PARTS] * " .. lit(scale))};
    }
}

/* The parts of dqkv for k and v. */
RT_GLOBAL(128)
${fn}_dkv(const ${elem} *qkv, const ${acc} *lse, const ${elem} *d_o,
          ${starts_in}const ${acc} *deltas, ${elem} *dqkv)
{
    RT_SHARED(${acc}, k, KEEP * 32); /* columns of k, then ds */
    RT_SHARED(${acc}, v, KEEP * 32); /* columns of v, then p */
    RT_SHARED(${acc}, q, PASS * 33);
    RT_SHARED(${acc}, d_out, PASS * 33);
//@ place_keys()
    ${acc} *own_k = k + warp * ROWS * 32, *own_v = v + warp * ROWS * 32;
    ${acc} dk[ROWS][PARTS] = {}, dv[ROWS][PARTS] = {};
    const int passes = (end - begin + PASS - 1) / PASS; /* over the queries of a head */
    for (int pass = 0; pass < ${group} * passes; pass++) {
        const int head = kv_head * ${group} + pass / passes;
        const int query0 = begin + pass % passes * PASS, query = query0 + lane;
        const int64_t there = row0 + (query < SEQ ? query : SEQ - 1); /* any valid row */
        const int64_t q_at = (row0 + query0) * ROW + head * DIM;
        const int64_t o_at = (row0 + query0) * O_ROW + head * DIM;
        const ${acc} top = lse[there * ${heads} + head];
        const int64_t of_head = ((int64_t)sequence * ${heads} + head) * ${stride};
        const ${acc} delta = deltas[of_head + there - row0];
//@   if masked then
        const int oldest = ${fn}_oldest(${starts_of}query);
//@   end
        ${acc} s[ROWS] = {}, dp[ROWS] = {};
        for (int d = 0; d < DIM; d += 32) {
            rt_block_sync();
            ${fn}_load(k, KEEP, 32, qkv + k_at, ROW, d, keys);
            ${fn}_load(v, KEEP, 32, qkv + v_at, ROW, d, keys);
            ${fn}_load(q, PASS, 33, qkv + q_at, ROW, d, SEQ - query0);
            ${fn}_load(d_out, PASS, 33, d_o + o_at, O_ROW, d, SEQ - query0);
            rt_block_sync();
            ${fn}_dot(s, own_k, q);
            ${fn}_dot(dp, own_v, d_out);
        }
        rt_warp_sync();
        RT_UNROLL
        for (int i = 0; i < ROWS; i++) {
            const int key = key0 + warp * ROWS + i;
            const bool seen = query < SEQ && key <= query${older("oldest")};${before}
            const ${acc} p = seen ? rt_exp${f}(${number} * ${lit(factor)} - top) : 0;
            own_v[i * 32 + lane] = p;
            own_k[i * 32 + lane] = p * (dp[i] - delta)${slope};
        }
        RT_UNROLL
        for (int part = 0; part < PARTS; part++) {
            rt_block_sync();
            ${fn}_load(q, PASS, 33, qkv + q_at, ROW, 32 * part, SEQ - query0);
            ${fn}_load(d_out, PASS, 33, d_o + o_at, O_ROW, 32 * part, SEQ - query0);
            rt_block_sync();
            ${fn}_add(dk, part, own_k, q);
            ${fn}_add(dv, part, own_v, d_out);
        }
    }
    RT_UNROLL
    for (int i = 0; i < ROWS * PARTS; i++) {
        const int key = warp * ROWS + i / PARTS, d = i % PARTS * 32 + lane;
        const int64_t to_k = k_at + (int64_t)key * ROW + d;
        const int64_t to_v = v_at + (int64_t)key * ROW + d;
        if (key < keys && d < DIM) {
            ${into("dqkv", "to_k", "dk[i / PARTS][i % PARTS] * " .. lit(scale))};
            ${into("dqkv", "to_v", "dv[i / PARTS][i % PARTS]")};
        }
    }
}
//@ end

//@ local names = mma and "QUERIES ROWS KEYS HEAD COLUMNS QUERY_TILE KEY_TILE KEEP_TILE PASS_TILE SCALE" or "ROWS PARTS"
//@ for name in ("SEQ ROW O_ROW DIM KEEP PASS " .. names):gmatch "%S+" do
#undef ${name}
//@ end
//@ host
${kernel(fn .. "_dq", threads, shared)}
${kernel(fn .. "_dkv", threads, shared)}

//@ local args = starts and "&starts, " or ""
/* workspace: numbers for each query of each head of each sequence. */
static void ${fn}(Rt *rt, const ${elem} *qkv, const ${elem} *o, const ${acc} *lse,
                  const ${elem} *d_o, ${starts_in}${elem} *dqkv, char *workspace)
{
//@ local kv_blocks = blocks * kv_heads * sequences * (mma and parts or 1)
//@ if mma then
    float *lse2 = (float *)(void *)workspace, *deltas = lse2 + ${heads * sequences * stride};
    rt_launch(rt, &${fn}_dq_kernel, ${q_blocks * heads * sequences}, 1,
              (void *[]){ &qkv, &o, &lse, &d_o, ${args}&dqkv, &lse2, &deltas });
    rt_launch(rt, &${fn}_dkv_kernel, ${kv_blocks}, 1,
              (void *[]){ &qkv, &d_o, ${args}&lse2, &deltas, &dqkv });
//@ else
    ${acc} *deltas = (${acc} *)(void *)workspace;
    rt_launch(rt, &${fn}_dq_kernel, ${q_blocks * heads * sequences}, 1,
              (void *[]){ &qkv, &o, &lse, &d_o, ${args}&dqkv, &deltas });
    rt_launch(rt, &${fn}_dkv_kernel, ${kv_blocks}, 1,
              (void *[]){ &qkv, &lse, &d_o, ${args}&deltas, &dqkv });
//@ end
}
