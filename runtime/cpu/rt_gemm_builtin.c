/* SPDX-License-Identifier: MIT-0 */
/* rt_gemm_builtin.c: matrix products without a library. In: one output tile. Out: C.
 * Panels are packed by rt_gemm_pack.h, and multiplied by the register block of rt_simd.h
 * through rt_gemm_micro.h. bf16 and f16 are converted to f32 while packing; with
 * AVX512-BF16 bf16 stays packed as pairs of K, by the functions here, and the hardware
 * multiplies pairs into f32 sums. Rows and columns outside the matrix are packed as
 * zeros, so that the register block never needs a mask; results for them are not
 * stored. */
#include "cpu/rt_gemm_tile.h"
#include "rt_simd.h"

/* ---- what panels take from memory ------------------------------------------------ */

static inline void take_f32(float *dst, const float *src, int64_t n)
{
    memcpy(dst, src, (size_t)n * sizeof *dst);
}

static inline void take_f64(double *dst, const double *src, int64_t n)
{
    memcpy(dst, src, (size_t)n * sizeof *dst);
}

static inline void take_f16(float *restrict dst, const rt_f16 *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = rt_f32_from_f16(src[i]);
}

/* ---- f32, f64, f16 --------------------------------------------------------------- */

#define MICRO_NAME(x) f32_##x
#define MICRO_IN float
#define MICRO_PACKED float
#define MICRO_PAIR 1
#define MICRO_SUM float
#define MICRO_COLS RT_VF_COLS
#define MICRO_LANES RT_VF_LANES
#define MICRO_K 384
#define MICRO_BLOCK rt_vf_block
#define MICRO_TAKE take_f32
#include "cpu/rt_gemm_pack.h"
#include "cpu/rt_gemm_micro.h"

#define MICRO_NAME(x) f64_##x
#define MICRO_IN double
#define MICRO_PACKED double
#define MICRO_PAIR 1
#define MICRO_SUM double
#define MICRO_COLS RT_VD_COLS
#define MICRO_LANES RT_VD_LANES
#define MICRO_K 192
#define MICRO_BLOCK rt_vd_block
#define MICRO_TAKE take_f64
#include "cpu/rt_gemm_pack.h"
#include "cpu/rt_gemm_micro.h"

#define MICRO_NAME(x) f16_##x
#define MICRO_IN rt_f16
#define MICRO_PACKED float
#define MICRO_PAIR 1
#define MICRO_SUM float
#define MICRO_COLS RT_VF_COLS
#define MICRO_LANES RT_VF_LANES
#define MICRO_K 384
#define MICRO_BLOCK rt_vf_block
#define MICRO_TAKE take_f16
#include "cpu/rt_gemm_pack.h"
#include "cpu/rt_gemm_micro.h"

/* ---- bf16 ------------------------------------------------------------------------ */

#if defined(__AVX512BF16__)

/* Pairs of consecutive K in one 32-bit word, the first in the low half; an odd K ends
 * with a zero. Word w of a row is src[2 w], src[2 w + 1]. */
static uint32_t pair_word(const rt_bf16 *low, const rt_bf16 *high)
{
    return (uint32_t)*low | (high != NULL ? (uint32_t)*high << 16 : 0);
}

static void bf16_pack_a(uint32_t *dst, int64_t stride, const rt_bf16 *src, int64_t ld,
                        int64_t rows, int64_t k)
{
    for (int64_t i = 0; i < RT_BLOCK_ROWS; i++) {
        uint32_t *row = dst + i * stride;
        if (i >= rows) {
            memset(row, 0, (size_t)(k + 1) / 2 * 4);
            continue;
        }
        memcpy(row, src + i * ld, (size_t)k * 2);
        if (k % 2 == 1)
            row[k / 2] = src[i * ld + k - 1];
    }
}

/* [pairs of K][width]: two rows of the source interleaved, zeros up to width. */
static inline void pack_pairs(uint32_t *dst, const int64_t width, const rt_bf16 *src,
                              int64_t ld, int64_t valid, int64_t k)
{
    for (int64_t p = 0; p < k; p += 2) {
        const rt_bf16 *low = src + p * ld, *high = low + ld;
        uint32_t *row = dst + p / 2 * width;
        int64_t j = 0;
        if (p + 1 < k) {
            rt_pairs_zip(row, low, high, valid);
            j = valid;
        }
        for (; j < width; j++)
            row[j] = j < valid ? pair_word(low + j, p + 1 < k ? high + j : NULL) : 0;
    }
}

static void bf16_pack_a_t(uint32_t *dst, const rt_bf16 *src, int64_t ld, int64_t rows,
                          int64_t k)
{
    pack_pairs(dst, RT_BLOCK_ROWS, src, ld, rows, k);
}

static void bf16_pack_b(uint32_t *dst, const rt_bf16 *src, int64_t ld, int64_t cols,
                        int64_t k)
{
    pack_pairs(dst, RT_VF_COLS, src, ld, cols, k);
}

static void bf16_pack_b_t(uint32_t *dst, const rt_bf16 *src, int64_t ld, int64_t cols,
                          int64_t k)
{
    const int64_t cols4 = cols / 4 * 4, k8 = k / 8 * 8;
    for (int64_t j = 0; j < cols4; j += 4) {
        for (int64_t p = 0; p < k8; p += 8) {
            float rows[4][4];
            for (int i = 0; i < 4; i++)
                memcpy(rows[i], src + (j + i) * ld + p, 16);
            f32_transpose4((float *)(void *)(dst + p / 2 * RT_VF_COLS + j), rows);
        }
    }
    for (int64_t j = 0; j < RT_VF_COLS; j++) {
        const rt_bf16 *row = src + j * ld;
        for (int64_t p = j < cols4 ? k8 : 0; p < k; p += 2) {
            dst[p / 2 * RT_VF_COLS + j] =
                j < cols ? pair_word(row + p, p + 1 < k ? row + p + 1 : NULL) : 0;
        }
    }
}

#define BF16_KIND ", bf16 pairs"
#define MICRO_PACKED uint32_t
#define MICRO_PAIR 2
#define MICRO_BLOCK rt_pairs_block

#else /* no hardware for bf16: panels are f32 */

static inline void take_bf16(float *restrict dst, const rt_bf16 *restrict src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = rt_f32_from_bf16(src[i]);
}

#define BF16_KIND ""
#define MICRO_PACKED float
#define MICRO_PAIR 1
#define MICRO_BLOCK rt_vf_block
#define MICRO_TAKE take_bf16

#endif

#define MICRO_NAME(x) bf16_##x
#define MICRO_IN rt_bf16
#define MICRO_SUM float
#define MICRO_COLS RT_VF_COLS
#define MICRO_LANES RT_VF_LANES
#define MICRO_K 384
#if !defined(__AVX512BF16__)
#include "cpu/rt_gemm_pack.h"
#endif
#include "cpu/rt_gemm_micro.h"

/* ---- called by rt_gemm.c --------------------------------------------------------- */

static bool narrow(int dtype)
{
    return dtype == RT_BF16 || dtype == RT_F16;
}

/* Rows of complete sums, before rounding. */
static int64_t sums_stride(const RtGemm *g)
{
    return (g->tile_n + RT_VF_COLS - 1) / RT_VF_COLS * RT_VF_COLS;
}

static int64_t panel_bytes(const RtGemm *g)
{
    return g->in_dtype == RT_F64   ? f64_scratch_bytes(g)
           : g->in_dtype == RT_F32 ? f32_scratch_bytes(g)
           : g->in_dtype == RT_F16 ? f16_scratch_bytes(g)
                                   : bf16_scratch_bytes(g);
}

int64_t rt_builtin_scratch_bytes(const RtGemm *g)
{
    return panel_bytes(g) + (narrow(g->out_dtype) ? g->tile_m * sums_stride(g) * 4 : 0);
}

static void product(const RtGemm *g, const RtTile *t, float *c, int64_t ldc, bool add,
                    bool spill, char *scratch)
{
    if (g->in_dtype == RT_F32)
        f32_product(g, t, c, ldc, add, spill, scratch);
    else if (g->in_dtype == RT_F16)
        f16_product(g, t, c, ldc, add, spill, scratch);
    else
        bf16_product(g, t, c, ldc, add, spill, scratch);
}

void rt_builtin_tile(const RtGemm *g, const RtTile *t)
{
    const bool add = t->beta != 0;
    if (g->in_dtype == RT_F64) {
        f64_product(g, t, t->c, g->ldc, add, false, t->scratch);
    } else if (narrow(g->out_dtype)) {
        float *sums = (float *)(void *)t->scratch;
        const int64_t stride = sums_stride(g);
        product(g, t, sums, stride, false, true, t->scratch + g->tile_m * stride * 4);
        rt_tile_round(g, t, sums, stride);
    } else {
        product(g, t, t->c, g->ldc, add, false, t->scratch);
    }
}

const char *rt_builtin_name(void)
{
#if defined(__AVX512F__)
    return "built-in (AVX-512" BF16_KIND ")";
#elif defined(__AVX__) && defined(__FMA__)
    return "built-in (256-bit FMA" BF16_KIND ")";
#elif defined(__AVX__)
    return "built-in (256-bit" BF16_KIND ")";
#elif defined(__aarch64__)
    return "built-in (NEON" BF16_KIND ")";
#else
    return "built-in (128-bit" BF16_KIND ")";
#endif
}
