/* SPDX-License-Identifier: MIT-0 */
/* rt_gemm_pack.h: strips of A and B as panels, one element of K a step; included by
 * rt_gemm_builtin.c before rt_gemm_micro.h, for each kind of arithmetic but pairs. In:
 * that file's macros, and MICRO_TAKE(dst, src, n): n elements of memory as those of a
 * panel. Out: static functions, which that file lists. Rows and columns outside the
 * matrix are zeros. */

static void MICRO_NAME(pack_a)(MICRO_PACKED *dst, int64_t stride, const MICRO_IN *src,
                               int64_t ld, int64_t rows, int64_t k)
{
    for (int64_t i = 0; i < RT_BLOCK_ROWS; i++)
        if (i < rows)
            MICRO_TAKE(dst + i * stride, src + i * ld, k);
        else
            memset(dst + i * stride, 0, (size_t)k * sizeof(MICRO_PACKED));
}

/* [k][width]: rows of the source side by side. */
static inline void MICRO_NAME(pack_rows)(MICRO_PACKED *dst, const int64_t width,
                                         const MICRO_IN *src, int64_t ld, int64_t valid,
                                         int64_t k)
{
    for (int64_t p = 0; p < k; p++) {
        if (valid == width) {
            MICRO_TAKE(dst + p * width, src + p * ld, width);
        } else {
            memset(dst + p * width, 0, (size_t)width * sizeof(MICRO_PACKED));
            MICRO_TAKE(dst + p * width, src + p * ld, valid);
        }
    }
}

static void MICRO_NAME(pack_a_t)(MICRO_PACKED *dst, const MICRO_IN *src, int64_t ld,
                                 int64_t rows, int64_t k)
{
    MICRO_NAME(pack_rows)(dst, RT_BLOCK_ROWS, src, ld, rows, k);
}

static void MICRO_NAME(pack_b)(MICRO_PACKED *dst, const MICRO_IN *src, int64_t ld,
                               int64_t cols, int64_t k)
{
    MICRO_NAME(pack_rows)(dst, MICRO_COLS, src, ld, cols, k);
}

/* Four rows of the source into four columns of the panel. */
static inline void MICRO_NAME(transpose4)(MICRO_PACKED *dst, const MICRO_PACKED src[4][4])
{
    typedef MICRO_PACKED Four __attribute__((vector_size(4 * sizeof(MICRO_PACKED))));
    Four r[4];
    memcpy(r, src, sizeof r);
    const Four a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    const Four b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    const Four c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    const Four d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    r[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    r[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
    r[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
    for (int i = 0; i < 4; i++)
        memcpy(dst + i * MICRO_COLS, &r[i], sizeof r[i]);
}

static void MICRO_NAME(pack_b_t)(MICRO_PACKED *dst, const MICRO_IN *src, int64_t ld,
                                 int64_t cols, int64_t k)
{
    const int64_t cols4 = cols / 4 * 4, k4 = k / 4 * 4;
    for (int64_t j = 0; j < cols4; j += 4) {
        for (int64_t p = 0; p < k4; p += 4) {
            MICRO_PACKED rows[4][4];
            for (int i = 0; i < 4; i++)
                MICRO_TAKE(rows[i], src + (j + i) * ld + p, 4);
            MICRO_NAME(transpose4)(dst + p * MICRO_COLS + j, rows);
        }
    }
    for (int64_t j = 0; j < MICRO_COLS; j++)
        for (int64_t p = j < cols4 ? k4 : 0; p < k; p++)
            if (j < cols)
                MICRO_TAKE(dst + p * MICRO_COLS + j, src + j * ld + p, 1);
            else
                dst[p * MICRO_COLS + j] = 0;
}

#undef MICRO_TAKE
