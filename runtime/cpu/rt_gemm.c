/* SPDX-License-Identifier: MIT-0 */
/* rt_gemm.c: cuts a product into the output tiles that were fixed at generation and
 * shares them among threads. In: an RtGemm and pointers. Out: C. One thread computes a
 * tile with one call of the library chosen when this file was compiled (-DRT_GEMM_ONEDNN,
 * -DRT_GEMM_CBLAS, else our own kernels). K is never split among threads, so it does not
 * affect the bits which thread computes which tile. */
#include "cpu/rt_gemm_tile.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(RT_GEMM_ONEDNN) && defined(RT_GEMM_CBLAS)
#error "choose one of RT_GEMM_ONEDNN and RT_GEMM_CBLAS"
#endif

/* A product that rt_gemm_prepare has prepared. */
typedef struct Prepared {
    RtGemm g;
    void *library; /* oneDNN's primitives; NULL: other kernels */
    int threads;   /* that may compute it */
} Prepared;

static struct {
    Prepared *items;
    int count, cap;
    int threads;           /* for which scratch exists */
    int64_t scratch_bytes; /* per thread */
    char *scratch;         /* [threads][scratch_bytes] */
} gemms;

static _Noreturn void gemm_die(const RtGemm *g, const char *problem)
{
    fprintf(stderr, "rt_gemm: %s: op %d, m %lld, n %lld, k %lld, dtypes %d -> %d\n",
            problem, (int)g->op, (long long)g->m, (long long)g->n, (long long)g->k,
            g->in_dtype, g->out_dtype);
    abort();
}

static bool gemm_same(const RtGemm *a, const RtGemm *b)
{
    return a->op == b->op && a->m == b->m && a->n == b->n && a->k == b->k &&
           a->lda == b->lda && a->ldb == b->ldb && a->ldc == b->ldc &&
           a->tile_m == b->tile_m && a->tile_n == b->tile_n &&
           a->in_dtype == b->in_dtype && a->out_dtype == b->out_dtype;
}

static Prepared *gemm_find(const RtGemm *g)
{
    for (int i = 0; i < gemms.count; i++)
        if (gemm_same(&gemms.items[i].g, g))
            return &gemms.items[i];
    return NULL;
}

static void gemm_check(const RtGemm *g)
{
    const int64_t a_cols = g->op == RT_TN ? g->m : g->k;
    const int64_t b_cols = g->op == RT_NT ? g->k : g->n;
    if (g->m < 1 || g->n < 1 || g->k < 1 || g->tile_m < 1 || g->tile_n < 1)
        gemm_die(g, "a size is not positive");
    if (g->lda < a_cols || g->ldb < b_cols || g->ldc < g->n)
        gemm_die(g, "a row is longer than the distance between rows");
    if ((g->in_dtype == RT_F64) != (g->out_dtype == RT_F64))
        gemm_die(g, "this pair of dtypes is not supported");
}

/* The scratch that one thread needs for g: the library's, or the built-in kernel's. */
static int64_t gemm_scratch_bytes(const Prepared *p)
{
#if defined(RT_GEMM_ONEDNN)
    return p->library != NULL ? rt_onednn_scratch_bytes(p->library)
                              : rt_builtin_scratch_bytes(&p->g);
#elif defined(RT_GEMM_CBLAS)
    return rt_cblas_scratch_bytes(&p->g);
#else
    return rt_builtin_scratch_bytes(&p->g);
#endif
}

static void gemm_need_scratch(int threads, int64_t bytes)
{
    bytes = (bytes + 4095) / 4096 * 4096;
    if (bytes <= gemms.scratch_bytes && threads <= gemms.threads && gemms.scratch != NULL)
        return;
    gemms.scratch_bytes = bytes > gemms.scratch_bytes ? bytes : gemms.scratch_bytes;
    gemms.threads = threads > gemms.threads ? threads : gemms.threads;
    free(gemms.scratch);
    const size_t total = (size_t)gemms.threads * (size_t)gemms.scratch_bytes;
    gemms.scratch = aligned_alloc(4096, total > 0 ? total : 4096);
    if (gemms.scratch == NULL) {
        fprintf(stderr, "rt_gemm: out of memory: %zu bytes of scratch\n", total);
        abort();
    }
}

static void gemm_library_free(void *library)
{
#if defined(RT_GEMM_ONEDNN)
    rt_onednn_free(library);
#else
    (void)library;
#endif
}

static void *gemm_library_prepare(const RtGemm *g, int threads)
{
#if defined(RT_GEMM_ONEDNN)
    return rt_onednn_prepare(g, threads, 1);
#else
#if defined(RT_GEMM_CBLAS)
    rt_cblas_start();
#endif
    (void)g;
    (void)threads;
    return NULL;
#endif
}

static Prepared *gemm_add(const RtGemm *g)
{
    if (gemms.count == gemms.cap) {
        gemms.cap = gemms.cap == 0 ? 32 : 2 * gemms.cap;
        gemms.items = realloc(gemms.items, (size_t)gemms.cap * sizeof *gemms.items);
        if (gemms.items == NULL)
            gemm_die(g, "out of memory");
    }
    Prepared *p = &gemms.items[gemms.count++];
    *p = (Prepared){.g = *g};
    return p;
}

void rt_gemm_prepare(const RtGemm *g)
{
    const int threads = omp_get_max_threads();
    gemm_check(g);
    Prepared *p = gemm_find(g);
    if (p == NULL)
        p = gemm_add(g);
    else if (p->threads >= threads)
        return;
    gemm_library_free(p->library);
    p->library = gemm_library_prepare(g, threads);
    p->threads = threads;
    gemm_need_scratch(threads, gemm_scratch_bytes(p));
}

static void gemm_tile(const Prepared *p, const RtTile *t)
{
#if defined(RT_GEMM_ONEDNN)
    if (p->library != NULL) {
        rt_onednn_tile(p->library, &p->g, t);
        return;
    }
    rt_builtin_tile(&p->g, t);
#elif defined(RT_GEMM_CBLAS)
    rt_cblas_tile(&p->g, t);
#else
    rt_builtin_tile(&p->g, t);
#endif
}

/* The tile's rows and columns of C += bias, each sum rounded to C's dtype. */
static void gemm_tile_bias(const RtGemm *g, const RtTile *t, const void *bias)
{
    for (int64_t i = 0; i < t->rows; i++) {
        if (g->out_dtype == RT_F32) {
            float *c = (float *)t->c + i * g->ldc;
            const float *b = bias;
            for (int64_t j = 0; j < t->cols; j++)
                c[j] += b[j];
        } else if (g->out_dtype == RT_F64) {
            double *c = (double *)t->c + i * g->ldc;
            const double *b = bias;
            for (int64_t j = 0; j < t->cols; j++)
                c[j] += b[j];
        } else {
            const int d = g->out_dtype;
            uint16_t *c = (uint16_t *)t->c + i * g->ldc;
            const uint16_t *b = bias;
            for (int64_t j = 0; j < t->cols; j++) {
                c[j] =
                    rt_16_from_f32(d, rt_f32_from_16(d, c[j]) + rt_f32_from_16(d, b[j]));
            }
        }
    }
}

static void gemm_run(const RtGemm *g, const void *a, const void *b, const void *bias,
                     void *c, float beta)
{
    const Prepared *p = gemm_find(g);
    if (p == NULL)
        gemm_die(g, "rt_gemm_prepare was not called for this product");
    const int64_t in_bytes = rt_dtype_bytes(g->in_dtype);
    const int64_t out_bytes = rt_dtype_bytes(g->out_dtype);
    const int64_t tiles_m = (g->m + g->tile_m - 1) / g->tile_m;
    const int64_t tiles_n = (g->n + g->tile_n - 1) / g->tile_n;
    /* Consecutive tiles share the larger operand's slice, which then stays in cache. */
    const bool m_first = g->m <= g->n;
    const int max_threads = omp_get_max_threads();
    const int threads = max_threads < p->threads ? max_threads : p->threads;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t i = 0; i < tiles_m * tiles_n; i++) {
        const int64_t m0 = (m_first ? i % tiles_m : i / tiles_n) * g->tile_m;
        const int64_t n0 = (m_first ? i / tiles_m : i % tiles_n) * g->tile_n;
        const int64_t a_at = g->op == RT_TN ? m0 : m0 * g->lda;
        const int64_t b_at = g->op == RT_NT ? n0 * g->ldb : n0;
        const int thread = omp_get_thread_num();
        const RtTile t = {
            .rows = g->m - m0 < g->tile_m ? g->m - m0 : g->tile_m,
            .cols = g->n - n0 < g->tile_n ? g->n - n0 : g->tile_n,
            .a = (const char *)a + a_at * in_bytes,
            .b = (const char *)b + b_at * in_bytes,
            .c = (char *)c + (m0 * g->ldc + n0) * out_bytes,
            .beta = beta,
            .thread = thread,
            .scratch = gemms.scratch + thread * gemms.scratch_bytes,
        };
        /* In a team of one the region is not active, and libraries would split the tile
         * among threads. This lasts until the region ends. */
        omp_set_num_threads(1);
        gemm_tile(p, &t);
        if (bias != NULL)
            gemm_tile_bias(g, &t, (const char *)bias + n0 * out_bytes);
    }
}

void rt_gemm(const RtGemm *g, const void *a, const void *b, void *c, float beta)
{
    gemm_run(g, a, b, NULL, c, beta);
}

void rt_gemm_bias(const RtGemm *g, const void *a, const void *b, const void *bias,
                  void *c)
{
    gemm_run(g, a, b, bias, c, 0);
}

const char *rt_gemm_library(void)
{
#if defined(RT_GEMM_ONEDNN)
    return rt_onednn_name();
#elif defined(RT_GEMM_CBLAS)
    return rt_cblas_name();
#else
    return rt_builtin_name();
#endif
}

const char *rt_gemm_slow_kernels(void)
{
#if defined(RT_GEMM_CBLAS)
    return rt_cblas_slow_kernels();
#else
    return NULL;
#endif
}
