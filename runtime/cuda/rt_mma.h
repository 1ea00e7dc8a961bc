/* SPDX-License-Identifier: MIT-0 */
/* rt_mma.h: matrix products of a warp on tiles in shared memory, for kernels that multiply bf16
 * themselves. In: rt_device.h. Out: tiles loaded and stored by a block, and products into sums that
 * stay in registers.
 *
 * A tile is rows of bf16 in shared memory, head + 8 elements apart, where head is a multiple of 16:
 * an odd number of 16-byte units, so the 8 rows that ldmatrix reads are in different banks. Sums of
 * 16 m rows and n columns are float[m][n / 8][4] on each lane of the warp: element [i][j][e] is row
 * 16 i + lane / 4 + 8 (e / 2), column 8 j + 2 (lane % 4) + e % 2. */
#ifndef RT_MMA_H
#define RT_MMA_H

#define RT_TILE_ROW(head) ((head) + 8)
#define RT_LOG2_E 1.44269504f

/* rt_tile_load; whole: all rows are there. A thread keeps its column and goes down the rows, so the
 * addresses of its rounds differ by constants. */
template <int threads, int rows, int head, int elems, bool whole>
RT_DEVICE void rt_tile_load_rows(rt_bf16 *tile, const rt_bf16 *from, int64_t apart,
                                 int there)
{
    /* Threads of a row: a power of two that is enough for its units of 16 bytes, or more of them
     * than units where the tile has few rows. */
    constexpr int units = head / 8, few = units <= 2 ? 2 : units <= 4 ? 4 : 8;
    constexpr int enough = units <= 8 ? few : units <= 16 ? 16 : 32;
    constexpr int per = enough * rows < threads ? threads / rows : enough;
    constexpr int step = threads / per; /* rows of a round */
    static_assert(head <= 256 && rows % step == 0, "a tile is loaded in whole rounds");
    const int thread = threadIdx.x, first = thread / per, d = thread % per * 8;
    rt_bf16 *to = tile + first * RT_TILE_ROW(head) + d;
    const rt_bf16 *at = from + first * apart + d;
    if (units < per && d >= head)
        return;
    RT_UNROLL
    for (int row = 0; row < rows; row += step) {
        const bool inside =
            (whole || row < there - first) && (elems == head || d < elems);
        rt_cp_async_16(to + row * RT_TILE_ROW(head), inside ? at + row * apart : from,
                       inside ? 16 : 0);
    }
}

/* The same for rows whose length is not a multiple of 16 bytes. */
template <int threads, int rows, int head, int elems>
RT_DEVICE void rt_tile_load_elems(rt_bf16 *tile, const rt_bf16 *from, int64_t apart,
                                  int there)
{
    for (int i = threadIdx.x; i < rows * head; i += threads) {
        const int row = i / head, d = i % head;
        const bool inside = row < there && d < elems;
        tile[row * RT_TILE_ROW(head) + d] = inside ? from[row * apart + d] : (rt_bf16)0;
    }
}

/* Loads rows of `elems` elements, `apart` elements from one to the next in global memory, into a
 * tile; rows from `there` on, and columns from elems on, become zero. Rows whose length is a
 * multiple of 16 bytes are aligned to 16 bytes and are copied asynchronously: they are complete
 * after rt_cp_async_wait and a barrier, the others after a barrier. */
template <int threads, int rows, int head, int elems>
RT_DEVICE void rt_tile_load(rt_bf16 *tile, const rt_bf16 *from, int64_t apart, int there)
{
    if constexpr (elems % 8 == 0)
        rt_tile_load_rows<threads, rows, head, elems, false>(tile, from, apart, there);
    else
        rt_tile_load_elems<threads, rows, head, elems>(tile, from, apart, there);
}

/* The same where all rows of the tile are there. */
template <int threads, int rows, int head, int elems>
RT_DEVICE void rt_tile_load(rt_bf16 *tile, const rt_bf16 *from, int64_t apart)
{
    if constexpr (elems % 8 == 0)
        rt_tile_load_rows<threads, rows, head, elems, true>(tile, from, apart, rows);
    else
        rt_tile_load_elems<threads, rows, head, elems>(tile, from, apart, rows);
}

/* Stores the first `there` rows of a tile to rows of `elems` elements in global memory: the tile's
 * first `columns` columns to columns from `first` on, as far as these exist. */
template <int threads, int rows, int head, int elems, int columns>
RT_DEVICE void rt_tile_store(rt_bf16 *to, int64_t apart, const rt_bf16 *tile, int there,
                             int first)
{
    const int step = elems % 8 == 0 ? 8 : 1; /* elements at a time */
    for (int i = threadIdx.x; i < rows * columns / step; i += threads) {
        const int row = i / (columns / step), d = i % (columns / step) * step;
        const rt_bf16 *x = tile + row * RT_TILE_ROW(head) + d;
        rt_bf16 *y = to + row * apart + first + d;
        if (row >= there || first + d >= elems)
            continue;
        if (step == 8)
            *(RtVec16 *)(void *)y = *(const RtVec16 *)(const void *)x;
        else
            *y = *x;
    }
}

/* sums += a b^T: 16 m rows of tile a, n rows of tile b, all along `head`. */
template <int m, int n, int head>
RT_DEVICE void rt_mma_rows(float (*sums)[n / 8][4], const rt_bf16 *a, const rt_bf16 *b)
{
    const int lane = threadIdx.x % 32, row = RT_TILE_ROW(head);
    const rt_bf16 *a_at = a + lane % 16 * row + lane / 16 * 8;
    const rt_bf16 *b_at = b + (lane / 16 * 8 + lane % 8) * row + lane / 8 % 2 * 8;
    RT_UNROLL
    for (int d = 0; d < head; d += 16) {
        uint32_t a_part[m][4];
        RT_UNROLL
        for (int i = 0; i < m; i++)
            rt_ldmatrix_x4(a_part[i], a_at + 16 * i * row + d);
        RT_UNROLL
        for (int j = 0; j < n; j += 16) {
            uint32_t b_part[4];
            rt_ldmatrix_x4(b_part, b_at + j * row + d);
            RT_UNROLL
            for (int i = 0; i < m; i++) {
                rt_mma_bf16(sums[i][j / 8], a_part[i], b_part);
                rt_mma_bf16(sums[i][j / 8 + 1], a_part[i], b_part + 2);
            }
        }
    }
}

/* 16 m rows of a tile in registers, for rt_mma_kept. */
template <int m, int head>
RT_DEVICE void rt_mma_keep(uint32_t (*parts)[head / 16][4], const rt_bf16 *a)
{
    const int lane = threadIdx.x % 32, row = RT_TILE_ROW(head);
    RT_UNROLL
    for (int i = 0; i < m; i++) {
        RT_UNROLL
        for (int d = 0; d < head; d += 16) {
            rt_ldmatrix_x4(parts[i][d / 16],
                           a + (16 * i + lane % 16) * row + lane / 16 * 8 + d);
        }
    }
}

/* sums += a b^T, like rt_mma_rows, for 16 m rows in registers. */
template <int m, int n, int head>
RT_DEVICE void rt_mma_kept(float (*sums)[n / 8][4], const uint32_t (*a)[head / 16][4],
                           const rt_bf16 *b)
{
    const int lane = threadIdx.x % 32, row = RT_TILE_ROW(head);
    const rt_bf16 *b_at = b + (lane / 16 * 8 + lane % 8) * row + lane / 8 % 2 * 8;
    RT_UNROLL
    for (int d = 0; d < head; d += 16) {
        RT_UNROLL
        for (int j = 0; j < n; j += 16) {
            uint32_t b_part[4];
            rt_ldmatrix_x4(b_part, b_at + j * row + d);
            RT_UNROLL
            for (int i = 0; i < m; i++) {
                rt_mma_bf16(sums[i][j / 8], a[i][d / 16], b_part);
                rt_mma_bf16(sums[i][j / 8 + 1], a[i][d / 16], b_part + 2);
            }
        }
    }
}

/* sums += a b: a, in the layout of sums, with 16 m rows and k columns, is rounded to bf16; b is k
 * rows of a tile of head `head`, n columns from its column 0 on. */
template <int m, int n, int k, int head>
RT_DEVICE void rt_mma_sums(float (*sums)[n / 8][4], const float (*a)[k / 8][4],
                           const rt_bf16 *b)
{
    const int lane = threadIdx.x % 32, row = RT_TILE_ROW(head);
    const rt_bf16 *b_at = b + lane % 16 * row + lane / 16 * 8;
    RT_UNROLL
    for (int j = 0; j < k; j += 16) {
        uint32_t a_part[m][4];
        RT_UNROLL
        for (int i = 0; i < m; i++) {
            const float *left = a[i][j / 8], *right = a[i][j / 8 + 1];
            a_part[i][0] = rt_bf16x2_from_f32(left[0], left[1]);
            a_part[i][1] = rt_bf16x2_from_f32(left[2], left[3]);
            a_part[i][2] = rt_bf16x2_from_f32(right[0], right[1]);
            a_part[i][3] = rt_bf16x2_from_f32(right[2], right[3]);
        }
        RT_UNROLL
        for (int d = 0; d < n; d += 16) {
            uint32_t b_part[4];
            rt_ldmatrix_x4_trans(b_part, b_at + j * row + d);
            RT_UNROLL
            for (int i = 0; i < m; i++) {
                rt_mma_bf16(sums[i][d / 8], a_part[i], b_part);
                rt_mma_bf16(sums[i][d / 8 + 1], a_part[i], b_part + 2);
            }
        }
    }
}

/* 16 rows of sums, times factor[0] (rows 0 to 7) or factor[1], to rows of a tile. */
template <int n, int head>
RT_DEVICE void rt_tile_round(rt_bf16 *tile, const float (*sums)[4], const float factor[2])
{
    const int lane = threadIdx.x % 32;
    RT_UNROLL
    for (int half = 0; half < 2; half++) {
        rt_bf16 *to = tile + (8 * half + lane / 4) * RT_TILE_ROW(head) + lane % 4 * 2;
        RT_UNROLL
        for (int j = 0; j < n / 8; j++) {
            *(uint32_t *)(void *)(to + 8 * j) = rt_bf16x2_from_f32(
                sums[j][2 * half] * factor[half], sums[j][2 * half + 1] * factor[half]);
        }
    }
}

/* The sum and the maximum over the four lanes that hold a row of sums. */
RT_DEVICE float rt_quad_sum(float v)
{
    v += rt_shuffle_xor(v, 1);
    return v + rt_shuffle_xor(v, 2);
}

RT_DEVICE float rt_quad_max(float v)
{
    v = rt_maxf(v, rt_shuffle_xor(v, 1));
    return rt_maxf(v, rt_shuffle_xor(v, 2));
}

/* a . b over `elems` bf16 in global memory, computed by the four lanes of a quad, on each of
 * them. */
template <int elems> RT_DEVICE float rt_quad_dot(const rt_bf16 *a, const rt_bf16 *b)
{
    const int lane = threadIdx.x % 4;
    float sum = 0;
    if (elems % 8 == 0) {
        for (int d = 8 * lane; d < elems; d += 32) {
            const RtVec16 x = *(const RtVec16 *)(a + d), y = *(const RtVec16 *)(b + d);
            for (int i = 0; i < 4; i++) {
                sum = rt_fmaf(rt_f32_from_bf16((uint16_t)x.word[i]),
                              rt_f32_from_bf16((uint16_t)y.word[i]), sum);
                sum = rt_fmaf(rt_f32_from_bf16((uint16_t)(x.word[i] >> 16)),
                              rt_f32_from_bf16((uint16_t)(y.word[i] >> 16)), sum);
            }
        }
    } else {
        for (int d = lane; d < elems; d += 4)
            sum = rt_fmaf(rt_f32_from_bf16(a[d]), rt_f32_from_bf16(b[d]), sum);
    }
    return rt_quad_sum(sum);
}

#endif
