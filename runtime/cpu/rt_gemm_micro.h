/* SPDX-License-Identifier: MIT-0 */
/* rt_gemm_micro.h: one output tile by packed panels; included by rt_gemm_builtin.c once
 * for each kind of arithmetic. In: macros below. Out: static void MICRO_NAME(tile)(g, t).
 *   MICRO_NAME(x)    x with this kind's suffix
 *   MICRO_IN         element of A and B in memory
 *   MICRO_PACKED     element of the packed panels: MICRO_PAIR elements of K each
 *   MICRO_SUM        element in which products are summed (float or double)
 *   MICRO_COLS       columns of a register block, MICRO_LANES of them in a vector
 *   MICRO_BLOCK      register block: c (+)= a b, see rt_simd.h
 * and what packs strips, rt_gemm_pack.h's functions or others:
 *   MICRO_NAME(pack_a)(dst, stride, src, ld, rows, k)   rows of row-major A
 *   MICRO_NAME(pack_a_t)(dst, src, ld, rows, k)         columns of A, [k][RT_BLOCK_ROWS]
 *   MICRO_NAME(pack_b)(dst, src, ld, cols, k)           columns of B, [k][MICRO_COLS]
 *   MICRO_NAME(pack_b_t)(dst, src, ld, cols, k)         rows of B as columns
 *
 * Loops, outside in: blocks of K; B's block packed once and kept in the second-level
 * cache; a strip of RT_BLOCK_ROWS rows of A packed into the first-level cache; register
 * blocks along the columns. Every element of C is, for each block of K in order, one
 * chain of fused multiply-adds, added to what was there: the same for full blocks and for
 * tails. */

/* Packed steps per block of K: as even as possible, at most MICRO_K, whatever the tile. */
static int64_t MICRO_NAME(k_step)(int64_t steps)
{
    const int64_t blocks = (steps + MICRO_K - 1) / MICRO_K;
    return ((steps + blocks - 1) / blocks + 3) / 4 * 4;
}

/* One strip of rows against the packed block of B. rows <= RT_BLOCK_ROWS. */
static void MICRO_NAME(strip)(const MICRO_PACKED *a, int64_t row_stride, int64_t k_stride,
                              int64_t rows, const MICRO_PACKED *b, int64_t cols,
                              int64_t k, MICRO_SUM *c, int64_t ldc, bool add, bool spill,
                              MICRO_SUM *edge)
{
    enum { ROWS = RT_BLOCK_ROWS, HALF = (RT_BLOCK_ROWS + 1) / 2 };
    for (int64_t j = 0; j < cols; j += MICRO_COLS) {
        const MICRO_PACKED *bj = b + j * k;
        if (rows == ROWS && (spill || cols - j >= MICRO_COLS)) {
            if (add) {
                MICRO_BLOCK(ROWS, RT_BLOCK_VECS, k, a, row_stride, k_stride, bj,
                            MICRO_COLS, c + j, ldc, 1);
            } else {
                MICRO_BLOCK(ROWS, RT_BLOCK_VECS, k, a, row_stride, k_stride, bj,
                            MICRO_COLS, c + j, ldc, 0);
            }
            continue;
        }
        if (rows <= HALF) {
            MICRO_BLOCK(HALF, RT_BLOCK_VECS, k, a, row_stride, k_stride, bj, MICRO_COLS,
                        edge, MICRO_COLS, 0);
        } else {
            MICRO_BLOCK(ROWS, RT_BLOCK_VECS, k, a, row_stride, k_stride, bj, MICRO_COLS,
                        edge, MICRO_COLS, 0);
        }
        const int64_t left = cols - j < MICRO_COLS ? cols - j : MICRO_COLS;
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t q = 0; q < left; q++) {
                const MICRO_SUM sum = edge[i * MICRO_COLS + q];
                MICRO_SUM *at = &c[i * ldc + j + q];
                *at = add ? *at + sum : sum;
            }
        }
    }
}

/* The tile into c (MICRO_SUM). spill: the rows of c have room up to a multiple of MICRO_COLS. */
static void MICRO_NAME(product)(const RtGemm *g, const RtTile *t, MICRO_SUM *c,
                                int64_t ldc, bool add, bool spill, char *scratch)
{
    const int64_t steps = (g->k + MICRO_PAIR - 1) / MICRO_PAIR;
    const int64_t block = MICRO_NAME(k_step)(steps);
    const int64_t wide = (t->cols + MICRO_COLS - 1) / MICRO_COLS * MICRO_COLS;
    MICRO_PACKED *pb = (MICRO_PACKED *)scratch;
    MICRO_PACKED *pa = pb + block * wide;
    MICRO_SUM *edge = (MICRO_SUM *)(pa + (block + MICRO_LANES) * RT_BLOCK_ROWS);
    const MICRO_IN *a = t->a, *b = t->b;
    for (int64_t s = 0; s < steps; s += block) {
        const int64_t n = steps - s < block ? steps - s : block;
        const int64_t k0 = s * MICRO_PAIR;
        const int64_t k = g->k - k0 < n * MICRO_PAIR ? g->k - k0 : n * MICRO_PAIR;
        for (int64_t j = 0; j < t->cols; j += MICRO_COLS) {
            const int64_t cols = t->cols - j < MICRO_COLS ? t->cols - j : MICRO_COLS;
            if (g->op == RT_NT)
                MICRO_NAME(pack_b_t)(pb + j * n, b + j * g->ldb + k0, g->ldb, cols, k);
            else
                MICRO_NAME(pack_b)(pb + j * n, b + k0 * g->ldb + j, g->ldb, cols, k);
        }
        for (int64_t i = 0; i < t->rows; i += RT_BLOCK_ROWS) {
            const int64_t rows =
                t->rows - i < RT_BLOCK_ROWS ? t->rows - i : RT_BLOCK_ROWS;
            if (g->op == RT_TN) {
                MICRO_NAME(pack_a_t)(pa, a + k0 * g->lda + i, g->lda, rows, k);
                MICRO_NAME(strip)
                (pa, 1, RT_BLOCK_ROWS, rows, pb, t->cols, n, c + i * ldc, ldc,
                 add || s > 0, spill, edge);
            } else {
                MICRO_NAME(pack_a)(pa, block + MICRO_LANES, a + i * g->lda + k0, g->lda,
                                   rows, k);
                MICRO_NAME(strip)
                (pa, block + MICRO_LANES, 1, rows, pb, t->cols, n, c + i * ldc, ldc,
                 add || s > 0, spill, edge);
            }
        }
    }
}

static int64_t MICRO_NAME(scratch_bytes)(const RtGemm *g)
{
    const int64_t block = MICRO_NAME(k_step)((g->k + MICRO_PAIR - 1) / MICRO_PAIR);
    const int64_t wide = (g->tile_n + MICRO_COLS - 1) / MICRO_COLS * MICRO_COLS;
    return (block * wide + (block + MICRO_LANES) * RT_BLOCK_ROWS) *
               (int64_t)sizeof(MICRO_PACKED) +
           RT_BLOCK_ROWS * MICRO_COLS * (int64_t)sizeof(MICRO_SUM);
}

#undef MICRO_NAME
#undef MICRO_IN
#undef MICRO_PACKED
#undef MICRO_PAIR
#undef MICRO_SUM
#undef MICRO_COLS
#undef MICRO_LANES
#undef MICRO_K
#undef MICRO_BLOCK
