/* SPDX-License-Identifier: MIT-0 */
/* rt_gemm_cblas.c: tiles through any CBLAS (OpenBLAS, BLIS, MKL, netlib). In: one output
 * tile. Out: C. A CBLAS has no bf16: A and B are converted block by block of K into f32
 * scratch, summed there in f32, and rounded once. Libraries with threads of their own are
 * held to one, through functions that are looked up weakly: a library without them has
 * none. */
#if defined(RT_GEMM_CBLAS)

#include "rt_gemm_tile.h"

#include <cblas.h>
#include <stdio.h>

enum { K_BLOCK = 512 }; /* of K converted at a time, so that scratch stays in cache */

extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern char *openblas_get_config(void) __attribute__((weak));
extern void bli_thread_set_num_threads(int64_t threads) __attribute__((weak));
extern const char *bli_info_get_version_str(void) __attribute__((weak));
extern void MKL_Set_Num_Threads(int threads) __attribute__((weak));
extern void MKL_Get_Version_String(char *text, int bytes) __attribute__((weak));

void rt_cblas_start(void)
{
    if (openblas_set_num_threads != NULL) {
        openblas_set_num_threads(1);
    }
    if (bli_thread_set_num_threads != NULL) {
        bli_thread_set_num_threads(1);
    }
    if (MKL_Set_Num_Threads != NULL) {
        MKL_Set_Num_Threads(1);
    }
}

int64_t rt_cblas_scratch_bytes(const RtGemm *g)
{
    if (g->in_dtype != RT_BF16) {
        return 0;
    }
    const int64_t k = g->k < K_BLOCK ? g->k : K_BLOCK;
    const int64_t sum = g->out_dtype == RT_BF16 ? g->tile_m * g->tile_n : 0;
    return 4 * (g->tile_m * k + g->tile_n * k + sum);
}

static void widen(float *dst, const rt_bf16 *src, int64_t ld, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            dst[i * cols + j] = rt_f32_from_bf16(src[i * ld + j]);
        }
    }
}

static void product_f32(const RtGemm *g, int64_t rows, int64_t cols, int64_t k,
                        const float *a, int64_t lda, const float *b, int64_t ldb,
                        float beta, float *c, int64_t ldc)
{
    cblas_sgemm(CblasRowMajor, g->op == RT_TN ? CblasTrans : CblasNoTrans,
                g->op == RT_NT ? CblasTrans : CblasNoTrans, (int)rows, (int)cols, (int)k,
                1.0f, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

static void tile_bf16(const RtGemm *g, const RtTile *t)
{
    const int64_t block = g->k < K_BLOCK ? g->k : K_BLOCK;
    float *a = (float *)(void *)t->scratch;
    float *b = a + g->tile_m * block;
    const bool round = g->out_dtype == RT_BF16;
    float *c = round ? b + g->tile_n * block : t->c;
    const int64_t ldc = round ? t->cols : g->ldc;
    const rt_bf16 *a16 = t->a, *b16 = t->b;
    for (int64_t k0 = 0; k0 < g->k; k0 += block) {
        const int64_t k = g->k - k0 < block ? g->k - k0 : block;
        if (g->op == RT_TN) {
            widen(a, a16 + k0 * g->lda, g->lda, k, t->rows);
        } else {
            widen(a, a16 + k0, g->lda, t->rows, k);
        }
        if (g->op == RT_NT) {
            widen(b, b16 + k0, g->ldb, t->cols, k);
        } else {
            widen(b, b16 + k0 * g->ldb, g->ldb, k, t->cols);
        }
        const float beta = k0 > 0 || (!round && t->beta != 0) ? 1.0f : 0.0f;
        product_f32(g, t->rows, t->cols, k, a, g->op == RT_TN ? t->rows : k, b,
                    g->op == RT_NT ? k : t->cols, beta, c, ldc);
    }
    if (!round) {
        return;
    }
    rt_bf16 *out = t->c;
    for (int64_t i = 0; i < t->rows; i++) {
        for (int64_t j = 0; j < t->cols; j++) {
            rt_bf16 *at = &out[i * g->ldc + j];
            const float sum = c[i * t->cols + j];
            *at = rt_bf16_from_f32(t->beta == 0 ? sum : rt_f32_from_bf16(*at) + sum);
        }
    }
}

void rt_cblas_tile(const RtGemm *g, const RtTile *t)
{
    if (g->in_dtype == RT_F32) {
        product_f32(g, t->rows, t->cols, g->k, t->a, g->lda, t->b, g->ldb, t->beta, t->c,
                    g->ldc);
    } else if (g->in_dtype == RT_F64) {
        cblas_dgemm(CblasRowMajor, g->op == RT_TN ? CblasTrans : CblasNoTrans,
                    g->op == RT_NT ? CblasTrans : CblasNoTrans, (int)t->rows,
                    (int)t->cols, (int)g->k, 1.0, t->a, (int)g->lda, t->b, (int)g->ldb,
                    t->beta, t->c, (int)g->ldc);
    } else {
        tile_bf16(g, t);
    }
}

const char *rt_cblas_name(void)
{
    static char name[256];
    if (name[0] != '\0') {
        return name;
    }
    if (openblas_get_config != NULL) {
        snprintf(name, sizeof name, "CBLAS: %s", openblas_get_config());
    } else if (bli_info_get_version_str != NULL) {
        snprintf(name, sizeof name, "CBLAS: BLIS %s", bli_info_get_version_str());
    } else if (MKL_Get_Version_String != NULL) {
        char version[200] = "";
        MKL_Get_Version_String(version, sizeof version);
        snprintf(name, sizeof name, "CBLAS: %s", version);
    } else {
        snprintf(name, sizeof name, "CBLAS of unknown make");
    }
    return name;
}

#else
typedef int rt_gemm_cblas_unused; /* ISO C wants a declaration in every file */
#endif
