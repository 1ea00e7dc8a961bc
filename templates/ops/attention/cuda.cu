//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- attention: causal attention with an online softmax; nothing of seq x seq. A block
//@ -- has some queries of one head and passes over the keys that they see. bf16 heads of
//@ -- up to 256 are multiplied by the tensor cores: a warp has whole rows of scores in
//@ -- registers, tiles of keys and values come through two buffers while the one before
//@ -- is used, and probabilities are rounded to bf16 on their way to v. Any other rows
//@ -- are multiplied in acc.
//@ local hd, group, row = head_dim, heads // kv_heads, (heads + 2 * kv_heads) * head_dim
//@ local sequences, elem, o_row = t // seq, qkv.type, heads * head_dim
//@ local mma = elem == "rt_bf16" and hd <= 256
//@ local head = (hd + 15) // 16 * 16
//@ local m = mma and hd <= 128 and seq > 64 and 2 or 1 -- 16 rows each, of a warp
//@ local queries = mma and 64 * m or 32
//@ local words = (hd + 31) // 32 * acc_bytes // 4 -- of a row's sums
//@ while not mma and queries > 4 and queries // 4 * words > 128 do
//@   queries = queries // 2
//@ end
//@ local keys = mma and hd <= 64 and 64 or 32
//@ local shared = mma and 2 * (queries + 4 * keys) * (head + 8) or 0
//@ local blocks = (seq + queries - 1) // queries
//@ local from = { name = "from", type = elem, dtype = qkv.dtype }
//@ local f = acc == "float" and "f" or ""
//@ local fold = scale > 0 and softcap == 0 -- the largest score is the largest one times scale
//@ local function capped(s, by) -- the score times `by` of a product
//@   if softcap == 0 then return s .. " * " .. lit(scale * by) end
//@   return lit(softcap * by) .. " * rt_tanh" .. f .. "(" .. s .. " * " .. lit(scale / softcap) .. ")"
//@ end
//@ local chunk = key_chunk < seq and key_chunk or 0 -- one chunk cuts nothing
//@ local window = window < seq and window or 0 -- one that has all keys hides none
//@ local masked = starts or window > 0 or chunk > 0
//@ -- How many rows of a tile are there: loads take it only where tiles do not divide the sequence.
//@ local function there(rows, left) return seq % rows == 0 and "" or ", " .. left end
//@ local function older(first) return masked and " && key >= " .. first or "" end
//@ local parameters = "const " .. elem .. " *qkv, "
//@   .. (starts and "const int32_t *starts, " or "")
//@   .. (sinks and "const " .. sinks.type .. " *sinks, " or "") .. elem .. " *o, " .. acc .. " *lse"
//@ local starts_of = starts and "starts, " or ""
//@ -- A sink is a score of its own, which the softmax begins with: its exp, 1, is one lane's of a row.
//@ -- Tensor cores' masked scores are finite; else no largest score is -inf, because the difference of
//@ -- two is NaN.
//@ local least = acc == "float" and "-1e30f" or "-1e300"
//@ local first_top = least
//@ if sinks and mma then
//@   first_top = ld(sinks, "head") .. " * " .. lit(fold and 1 / scale or 1.4426950408889634)
//@ elseif sinks then
//@   first_top = ("%s < %s ? %s : %s"):format(ld(sinks, "head"), least, least, ld(sinks, "head"))
//@ end
//@ if mma then
#include "rt_mma.h"

//@ end
#define SEQ ${seq} /* rows of a sequence */
#define ROW ${row} /* elements of a row of qkv */
#define O_ROW ${o_row} /* of o */
#define DIM ${hd} /* of a head */
#define QUERIES ${queries} /* of a block: 4 warps of ROWS */
#define ROWS (QUERIES / 4)
#define KEYS ${keys} /* at a time */
//@ if mma then
#define HEAD ${head} /* DIM rounded up to 16 */
#define TILE (KEYS * RT_TILE_ROW(HEAD)) /* elements */
//@   if fold then
#define SCALE ${lit(scale * 1.4426950408889634)} /* times log2(e), for exp2 */
//@   else
#define SCALE 1.0f /* scores are scaled earlier */
//@   end
//@ else
#define PARTS ${(hd + 31) // 32} /* of 32 columns, one for each lane */
//@ end

//@ if masked then
${oldest_key(fn, starts, window, chunk)}

//@ end
//@ local function place() -- which queries of which head: text of both kernels
    /* The last queries see the most keys, so their blocks go first. */
    const int query0 = (${blocks - 1} - (int)(blockIdx.x / ${heads * sequences})) * QUERIES;
    const int queries = SEQ - query0 < QUERIES ? SEQ - query0 : QUERIES;
    const int head = (int)(blockIdx.x % ${heads}), end = query0 + queries;
    const int64_t row0 = (int64_t)(blockIdx.x / ${heads} % ${sequences}) * SEQ;
    const ${elem} *rows = qkv + row0 * ROW;
    const ${elem} *q_rows = rows + (int64_t)query0 * ROW + head * DIM;
    const ${elem} *k_rows = rows + (${heads} + head / ${group}) * DIM;
    const ${elem} *v_rows = k_rows + ${kv_heads * hd};
    const int warp = threadIdx.x / 32;
//@   if masked or sinks or not mma then
    const int lane = threadIdx.x % 32;
//@   end
//@   if starts then
    starts += row0;
//@   end
//@   if masked then
    const int begin = ${fn}_oldest(${starts_of}query0) / KEYS * KEYS;
//@   end
//@ end
//@ if mma then
//@   local first = masked and "begin" or "0"
//@   local left = there(keys, "SEQ - key0")
/* Loads keys and values from key0 on into the two tiles of their turn. */
RT_DEVICE void ${fn}_load(rt_bf16 *tiles, const rt_bf16 *k_rows, const rt_bf16 *v_rows,
                          int key0)
{
    rt_bf16 *tile = tiles + key0 / KEYS % 2 * 2 * TILE;
    const int64_t at = (int64_t)key0 * ROW;
    rt_tile_load<128, KEYS, HEAD, DIM>(tile, k_rows + at, ROW${left});
    rt_tile_load<128, KEYS, HEAD, DIM>(tile + TILE, v_rows + at, ROW${left});
    rt_cp_async_commit();
}

/* Makes masked scores so small that their exp is 0. */
//@   if masked then
RT_DEVICE void ${fn}_mask(float (*s)[KEYS / 8][4], int key0, int query0,
                          const int (*oldest)[2])
//@   else
RT_DEVICE void ${fn}_mask(float (*s)[KEYS / 8][4], int key0, int query0)
//@   end
{
    const int lane = threadIdx.x % 32;
    RT_UNROLL
    for (int i = 0; i < ROWS / 16; i++) {
        RT_UNROLL
        for (int j = 0; j < KEYS / 8; j++) {
            RT_UNROLL
            for (int e = 0; e < 4; e++) {
                const int query = query0 + 16 * i + lane / 4 + e / 2 * 8;
                const int key = key0 + 8 * j + lane % 4 * 2 + e % 2;
                const bool seen = key <= query${older("oldest[i][e / 2]")};
                s[i][j][e] = seen ? s[i][j][e] : -1e38f;
            }
        }
    }
}

/* Replaces scores by exp(score - the row's largest so far), and rescales earlier sums if
 * that grows. */
RT_DEVICE void ${fn}_softmax(float (*s)[KEYS / 8][4], float (*top)[2], float (*sum)[2],
                             float (*sums)[HEAD / 8][4])
{
    float shrink[ROWS / 16][2];
    RT_UNROLL
    for (int i = 0; i < ROWS / 16; i++) {
        RT_UNROLL
        for (int half = 0; half < 2; half++) {
            float most = top[i][half], part = 0;
            RT_UNROLL
            for (int j = 0; j < KEYS / 8; j++)
                most = rt_maxf(most, rt_maxf(s[i][j][2 * half], s[i][j][2 * half + 1]));
            most = rt_quad_max(most);
            shrink[i][half] = rt_exp2f((top[i][half] - most) * SCALE);
            RT_UNROLL
            for (int j = 0; j < KEYS / 8; j++) {
                RT_UNROLL
                for (int e = 2 * half; e < 2 * half + 2; e++) {
                    s[i][j][e] = rt_exp2f(rt_fmaf(s[i][j][e], SCALE, -most * SCALE));
                    part += s[i][j][e];
                }
            }
            top[i][half] = most;
            sum[i][half] = rt_fmaf(sum[i][half], shrink[i][half], part);
        }
    }
    /* Most rows soon have their largest score. 1 x is x to the bit, also of zeros and of
     * infinities; a NaN stays one, and rt_tile_round makes all of them equal. */
    RT_UNROLL
    for (int i = 0; i < ROWS / 16; i++) {
        if (rt_warp_all(shrink[i][0] == 1 && shrink[i][1] == 1))
            continue;
        RT_UNROLL
        for (int j = 0; j < HEAD / 2; j++)
            sums[i][j / 4][j % 4] *= shrink[i][j % 4 / 2];
    }
}

/* Stores the warp's lse, and its rows of o in place of its rows of q. lse: of the head;
 * own: the warp's first query. */
RT_DEVICE void ${fn}_finish(rt_bf16 *own_q, float *lse, const float (*sums)[HEAD / 8][4],
                            const float (*top)[2], const float (*sum)[2], int own, int end)
{
    const int lane = threadIdx.x % 32;
    RT_UNROLL
    for (int i = 0; i < ROWS / 16; i++) {
        float over[2];
        RT_UNROLL
        for (int half = 0; half < 2; half++) {
            const int query = own + 16 * i + 8 * half + lane / 4;
            const float total = rt_quad_sum(sum[i][half]);
            over[half] = 1 / total;
            if (lane % 4 == 0 && query < end) {
                lse[(int64_t)query * ${heads}] =
                    top[i][half] * (SCALE / RT_LOG2_E) + rt_logf(total);
            }
        }
        rt_warp_sync();
        rt_tile_round<HEAD, HEAD>(own_q + 16 * i * RT_TILE_ROW(HEAD), sums[i], over);
    }
}

/* o[${t}, ${o_row}] and lse[${t}, ${heads}]
 * from rows [${heads} q | ${kv_heads} k | ${kv_heads} v] of ${hd}; sequences of ${seq} */
RT_GLOBAL(128)
${fn}(${parameters})
{
    RT_SHARED_BYTES(shared);
    rt_bf16 *q = (rt_bf16 *)(void *)shared, *tiles = q + QUERIES * RT_TILE_ROW(HEAD);
//@ place()
    const int own = query0 + warp * ROWS; /* the warp's first query */
    rt_bf16 *own_q = q + warp * ROWS * RT_TILE_ROW(HEAD);
    float sums[ROWS / 16][HEAD / 8][4] = {}, top[ROWS / 16][2], sum[ROWS / 16][2] = {};
//@   if masked then
    const int first_seen = ${fn}_oldest(${starts_of}own);
    /* From here on every query of the warp sees the keys. */
    const int all_see = ${fn}_oldest(${starts_of}own + ROWS - 1);
    int oldest[ROWS / 16][2];
//@   end
    RT_UNROLL
    for (int i = 0; i < ROWS / 8; i++) {
        top[i / 2][i % 2] = ${first_top};
//@   if sinks then
        sum[i / 2][i % 2] = lane % 4 == 0 ? 1 : 0;
//@   end
//@   if masked then
        oldest[i / 2][i % 2] = ${fn}_oldest(${starts_of}own + 8 * i + lane / 4);
//@   end
    }
    rt_tile_load<128, QUERIES, HEAD, DIM>(q, q_rows, ROW${there(queries, "queries")});
    ${fn}_load(tiles, k_rows, v_rows, ${first});
    for (int key0 = ${first}; key0 < end; key0 += KEYS) {
        const rt_bf16 *k = tiles + key0 / KEYS % 2 * 2 * TILE, *v = k + TILE;
        rt_cp_async_wait(0);
        rt_block_sync(); /* these have arrived, and the other two are not read any more */
        if (key0 + KEYS < end)
            ${fn}_load(tiles, k_rows, v_rows, key0 + KEYS);
        if (key0 >= own + ROWS${masked and " || key0 + KEYS <= first_seen" or ""}) {
            continue; /* no query of the warp sees any of these */
        }
        float s[ROWS / 16][KEYS / 8][4] = {};
        rt_mma_rows<ROWS / 16, KEYS, HEAD>(s, own_q, k);
//@   if not fold then
        RT_UNROLL
//@     if softcap > 0 then
        for (int i = 0; i < ROWS * KEYS / 32; i++) {
            float *of = &s[i / (KEYS / 2)][i / 4 % (KEYS / 8)][i % 4];
            *of = ${capped("*of", 1.4426950408889634)};
        }
//@     else
        for (int i = 0; i < ROWS * KEYS / 32; i++)
            s[i / (KEYS / 2)][i / 4 % (KEYS / 8)][i % 4] *= ${lit(scale * 1.4426950408889634)};
//@     end
//@   end
        if (key0 + KEYS > own + 1${masked and " || key0 < all_see" or ""})
            ${fn}_mask(s, key0, own${masked and ", oldest" or ""});
        ${fn}_softmax(s, top, sum, sums);
        rt_mma_sums<ROWS / 16, HEAD, KEYS, HEAD>(sums, s, v);
    }
    ${fn}_finish(own_q, lse + row0 * ${heads} + head, sums, top, sum, own, end);
    rt_block_sync();
    rt_tile_store<128, QUERIES, HEAD, DIM, DIM>(
        o + (row0 + query0) * O_ROW + head * DIM, O_ROW, q, queries, 0);
}
//@ else
//@   local first = masked and "begin" or "0"
/* Loads columns [d, d + 32) of rows into shared memory, `apart` elements from one row to
 * the next; zeros beyond the rows. */
RT_DEVICE void ${fn}_load(${acc} *to, int rows, int apart, const ${elem} *from, int d,
                          int there)
{
    RT_UNROLL_BY(2)
    for (int i = threadIdx.x; i < rows * 32; i += 128) {
        const int64_t at = (int64_t)(i / 32) * ROW + d + i % 32;
        const bool inside = i / 32 < there && d + i % 32 < DIM;
        to[i / 32 * apart + i % 32] = inside ? ${ld(from, "at")} : 0;
    }
}

//@   local function begin_rows()
    for (int i = 0; i < ROWS; i++)
        top[i] = ${first_top};
//@     if sinks then
    for (int i = 0; i < ROWS; i++)
        sum[i] = lane == 0 ? 1 : 0;
//@     end
//@   end
/* The warp's scores of the lane's key: replaces them by p = exp(score - the row's largest
 * so far), and rescales earlier sums if that grows. query0: the warp's first. */
//@   local starts_in = starts and "const int32_t *starts, " or ""
RT_DEVICE void ${fn}_softmax(${acc} *own, const ${acc} *s, ${acc} *top, ${acc} *sum,
                             ${acc} (*out)[PARTS], ${starts_in}int query0, int key)
{
    const int lane = threadIdx.x % 32;
    RT_UNROLL
    for (int i = 0; i < ROWS; i++) {
        const int query = query0 + i;
//@   if masked then
        const int oldest = ${fn}_oldest(${starts_of}query);
//@   end
        const bool seen = key <= query${older("oldest")};
        const ${acc} score = ${capped("s[i]", 1)};
        const ${acc} most = rt_warp_max(seen && score > top[i] ? score : top[i]);
        const ${acc} shrink = rt_exp${f}(top[i] - most);
        const ${acc} p = seen ? rt_exp${f}(score - most) : 0;
        top[i] = most;
        sum[i] = sum[i] * shrink + p;
        own[i * 32 + lane] = p;
        RT_UNROLL
        for (int part = 0; part < PARTS; part++)
            out[i][part] *= shrink;
    }
}

/* o[${t}, ${o_row}] and lse[${t}, ${heads}]
 * from rows [${heads} q | ${kv_heads} k | ${kv_heads} v] of ${hd}; sequences of ${seq} */
RT_GLOBAL(128)
${fn}(${parameters})
{
    RT_SHARED(${acc}, left, QUERIES * 32);  /* of q, then probabilities */
    RT_SHARED(${acc}, right, KEYS * 33);    /* of k, then of v */
//@ place()
    ${acc} *own = left + warp * ROWS * 32;
    ${acc} out[ROWS][PARTS] = {}, top[ROWS], sum[ROWS] = {};
//@ begin_rows()
    for (int key0 = ${first}; key0 < end; key0 += KEYS) {
        const int64_t at = (int64_t)key0 * ROW;
        ${acc} s[ROWS] = {};
        for (int part = 0; part < PARTS; part++) {
            rt_block_sync();
            ${fn}_load(left, QUERIES, 32, q_rows, 32 * part, queries);
            ${fn}_load(right, KEYS, 33, k_rows + at, 32 * part, SEQ - key0);
            rt_block_sync();
            RT_UNROLL_BY(4)
            for (int d = 0; d < 32; d++) {
                RT_UNROLL
                for (int i = 0; i < ROWS; i++)
                    s[i] = rt_fma${f}(own[i * 32 + d], right[lane * 33 + d], s[i]);
            }
        }
        rt_warp_sync();
//@   local of = { "own", "s", "top", "sum", "out", "query0 + warp * ROWS", "key0 + lane" }
//@   if starts then table.insert(of, 6, "starts") end
${call("        " .. fn .. "_softmax(", of, ");")}
        RT_UNROLL
        for (int part = 0; part < PARTS; part++) {
            rt_block_sync();
            ${fn}_load(right, KEYS, 33, v_rows + at, 32 * part, SEQ - key0);
            rt_block_sync();
            RT_UNROLL_BY(4)
            for (int j = 0; j < KEYS; j++) {
                RT_UNROLL
                for (int i = 0; i < ROWS; i++) {
                    out[i][part] =
                        rt_fma${f}(own[i * 32 + j], right[j * 33 + lane], out[i][part]);
                }
            }
        }
    }
    RT_UNROLL
    for (int i = 0; i < ROWS; i++) {
        const ${acc} total = rt_warp_sum(sum[i]);
        const int query = query0 + warp * ROWS + i;
        const int64_t at = (row0 + query) * ${heads} + head;
        if (query >= end)
            continue;
        if (lane == 0)
            lse[at] = top[i] + rt_log${f}(total);
        RT_UNROLL
        for (int part = 0; part < PARTS; part++) {
            const int d = 32 * part + lane;
            if (d < DIM)
                ${st(o, "at * DIM + d", "out[i][part] / total")};
        }
    }
}
//@ end

#undef SEQ
#undef ROW
#undef O_ROW
#undef DIM
#undef QUERIES
#undef ROWS
#undef KEYS
//@ if mma then
#undef HEAD
#undef TILE
#undef SCALE
//@ else
#undef PARTS
//@ end
//@ host
${kernel(fn, 128, shared)}

//@ if sinks then
${call("static void " .. fn .. "(", { "Rt *rt", parameters }, ")")}
{
    rt_launch(rt, &${fn}_kernel, ${blocks * heads * sequences}, 1,
              (void *[]){ &qkv, ${starts and "&starts, " or ""}&sinks, &o, &lse });
}
//@ elseif starts then
static void ${fn}(Rt *rt, const ${elem} *qkv, const int32_t *starts, ${elem} *o,
                  ${acc} *lse)
{
    rt_launch(rt, &${fn}_kernel, ${blocks * heads * sequences}, 1,
              (void *[]){ &qkv, &starts, &o, &lse });
}
//@ else
static void ${fn}(Rt *rt, const ${elem} *qkv, ${elem} *o, ${acc} *lse)
{
    rt_launch(rt, &${fn}_kernel, ${blocks * heads * sequences}, 1,
              (void *[]){ &qkv, &o, &lse });
}
//@ end
