/* SPDX-License-Identifier: MIT-0 */
/* rt_gemm_cblas.c: tiles through any CBLAS (OpenBLAS, BLIS, MKL, netlib). In: one output
 * tile. Out: C. A CBLAS has neither bf16 nor f16: A and B are converted to f32 scratch in
 * blocks of K, summed there in f32, and rounded once. Libraries with threads of their own
 * are limited to one, through weak symbols: a library without these functions has no
 * threads. */
#if defined(RT_GEMM_CBLAS)

#include "cpu/rt_gemm_tile.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { K_BLOCK = 512 }; /* of K converted at a time, so that scratch stays in cache */

extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern char *openblas_get_config(void) __attribute__((weak));
extern char *openblas_get_corename(void) __attribute__((weak));
extern void bli_thread_set_num_threads(int64_t threads) __attribute__((weak));
extern const char *bli_info_get_version_str(void) __attribute__((weak));
extern void MKL_Set_Num_Threads(int threads) __attribute__((weak));
extern void MKL_Get_Version_String(char *text, int bytes) __attribute__((weak));

void rt_cblas_start(void)
{
    if (openblas_set_num_threads != NULL)
        openblas_set_num_threads(1);
    if (bli_thread_set_num_threads != NULL)
        bli_thread_set_num_threads(1);
    if (MKL_Set_Num_Threads != NULL)
        MKL_Set_Num_Threads(1);
}

static bool narrow(int dtype)
{
    return dtype == RT_BF16 || dtype == RT_F16;
}

int64_t rt_cblas_scratch_bytes(const RtGemm *g)
{
    const int64_t k = g->k < K_BLOCK ? g->k : K_BLOCK;
    const int64_t sum = narrow(g->out_dtype) ? g->tile_m * g->tile_n : 0;
    return 4 * ((narrow(g->in_dtype) ? (g->tile_m + g->tile_n) * k : 0) + sum);
}

static void widen(int dtype, float *dst, const uint16_t *src, int64_t ld, int64_t rows,
                  int64_t cols)
{
    for (int64_t i = 0; i < rows; i++) {
        if (dtype == RT_F16)
            for (int64_t j = 0; j < cols; j++)
                dst[i * cols + j] = rt_f32_from_f16(src[i * ld + j]);
        else
            for (int64_t j = 0; j < cols; j++)
                dst[i * cols + j] = rt_f32_from_bf16(src[i * ld + j]);
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

/* 16-bit A and B, in blocks of K, into f32 sums. */
static void product_16(const RtGemm *g, const RtTile *t, float *a, bool add, float *c,
                       int64_t ldc)
{
    const int64_t block = g->k < K_BLOCK ? g->k : K_BLOCK;
    const int d = g->in_dtype;
    float *b = a + g->tile_m * block;
    const uint16_t *a16 = t->a, *b16 = t->b;
    for (int64_t k0 = 0; k0 < g->k; k0 += block) {
        const int64_t k = g->k - k0 < block ? g->k - k0 : block;
        if (g->op == RT_TN)
            widen(d, a, a16 + k0 * g->lda, g->lda, k, t->rows);
        else
            widen(d, a, a16 + k0, g->lda, t->rows, k);
        if (g->op == RT_NT)
            widen(d, b, b16 + k0, g->ldb, t->cols, k);
        else
            widen(d, b, b16 + k0 * g->ldb, g->ldb, k, t->cols);
        product_f32(g, t->rows, t->cols, k, a, g->op == RT_TN ? t->rows : k, b,
                    g->op == RT_NT ? k : t->cols, k0 > 0 || add ? 1.0f : 0.0f, c, ldc);
    }
}

void rt_cblas_tile(const RtGemm *g, const RtTile *t)
{
    if (g->in_dtype == RT_F64) {
        cblas_dgemm(CblasRowMajor, g->op == RT_TN ? CblasTrans : CblasNoTrans,
                    g->op == RT_NT ? CblasTrans : CblasNoTrans, (int)t->rows,
                    (int)t->cols, (int)g->k, 1.0, t->a, (int)g->lda, t->b, (int)g->ldb,
                    t->beta, t->c, (int)g->ldc);
        return;
    }
    const bool round = narrow(g->out_dtype), add = !round && t->beta != 0;
    float *sum = (float *)(void *)t->scratch;
    float *c = round ? sum : t->c;
    const int64_t ldc = round ? t->cols : g->ldc;
    if (narrow(g->in_dtype)) {
        product_16(g, t, round ? sum + g->tile_m * g->tile_n : sum, add, c, ldc);
    } else {
        product_f32(g, t->rows, t->cols, g->k, t->a, g->lda, t->b, g->ldb,
                    add ? 1.0f : 0.0f, c, ldc);
    }
    if (round)
        rt_tile_round(g, t, sum, t->cols);
}

static void library_name(char *name, size_t bytes)
{
    if (openblas_get_config != NULL) { /* names its kernels, too: Haswell, SkylakeX */
        snprintf(name, bytes, "CBLAS: %s", openblas_get_config());
    } else if (bli_info_get_version_str != NULL) {
        snprintf(name, bytes, "CBLAS: BLIS %s", bli_info_get_version_str());
    } else if (MKL_Get_Version_String != NULL) {
        char version[200] = "";
        MKL_Get_Version_String(version, sizeof version);
        snprintf(name, bytes, "CBLAS: %s", version);
    } else {
        snprintf(name, bytes, "CBLAS of unknown make");
    }
}

const char *rt_cblas_name(void)
{
    /* These make libraries choose other kernels or blocks, and so change bits. */
    static const char *const changes[] = {"OPENBLAS_BLOCK_FACTOR", "BLIS_ARCH_TYPE",
                                          "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR"};
    static char name[512];
    if (name[0] != '\0')
        return name;
    library_name(name, sizeof name);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *value = getenv(changes[i]);
        const size_t at = strlen(name);
        if (value != NULL)
            snprintf(name + at, sizeof name - at, ", %s=%.40s", changes[i], value);
    }
    return name;
}

/* OpenBLAS 0.3.21 runs SSE3 on a processor that is newer than itself, at a quarter of the
 * rate. */
const char *rt_cblas_slow_kernels(void)
{
#if defined(__AVX2__)
    static const char *const old[] = {"Prescott", "Core2", "Nehalem", "Barcelona"};
    if (openblas_get_corename == NULL || getenv("OPENBLAS_CORETYPE") != NULL)
        return NULL;
    const char *kernels = openblas_get_corename();
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        if (strcasecmp(kernels, old[i]) == 0)
            return old[i];
#endif
    return NULL;
}

#else
typedef int rt_gemm_cblas_unused; /* ISO C requires a declaration in every file */
#endif
