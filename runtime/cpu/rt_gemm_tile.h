/* SPDX-License-Identifier: MIT-0 */
/* rt_gemm_tile.h: between rt_gemm.c, which cuts products into tiles and shares them among threads,
 * and the libraries that compute one tile on one thread. Private to the runtime. */
#ifndef RT_GEMM_TILE_H
#define RT_GEMM_TILE_H

#include "rt.h"

/* One output tile: a, b and c point at its first elements; rows <= tile_m, cols <=
 * tile_n. */
typedef struct RtTile {
    int64_t rows, cols;
    const void *a, *b;
    void *c;
    float beta;
    int thread;
    char *scratch; /* of this thread, with the size that the library requested */
} RtTile;

static inline int64_t rt_dtype_bytes(int dtype)
{
    return dtype == RT_F64 ? 8 : dtype == RT_F32 ? 4 : 2;
}

/* Conversions from and to the 16 bits of a dtype. */
RT_ALWAYS float rt_f32_from_16(int dtype, uint16_t x)
{
    return dtype == RT_F16 ? rt_f32_from_f16(x) : rt_f32_from_bf16(x);
}

RT_ALWAYS uint16_t rt_16_from_f32(int dtype, float x)
{
    return dtype == RT_F16 ? rt_f16_from_f32(x) : rt_bf16_from_f32(x);
}

RT_ALWAYS void rt_tile_round_to(const int dtype, const RtGemm *g, const RtTile *t,
                                const float *sum, int64_t stride)
{
    for (int64_t i = 0; i < t->rows; i++) {
        uint16_t *row = (uint16_t *)t->c + i * g->ldc;
        const float *from = sum + i * stride;
        if (t->beta == 0) {
            for (int64_t j = 0; j < t->cols; j++)
                row[j] = rt_16_from_f32(dtype, from[j]);
        } else {
            for (int64_t j = 0; j < t->cols; j++)
                row[j] = rt_16_from_f32(dtype, rt_f32_from_16(dtype, row[j]) + from[j]);
        }
    }
}

/* 16-bit C = the tile's sums, rounded once; with beta 1 after C was added to them. sum: rows of
 * `stride`. */
static inline void rt_tile_round(const RtGemm *g, const RtTile *t, const float *sum,
                                 int64_t stride)
{
    if (g->out_dtype == RT_F16)
        rt_tile_round_to(RT_F16, g, t, sum, stride);
    else
        rt_tile_round_to(RT_BF16, g, t, sum, stride);
}

/* The built-in kernels: always available, for every dtype. */
int64_t rt_builtin_scratch_bytes(const RtGemm *g);
void rt_builtin_tile(const RtGemm *g, const RtTile *t);
const char *rt_builtin_name(void);

/* oneDNN: primitives for g's tile shapes, or NULL if the built-in kernel is to be used. `threads`
 * may run them at once, each with inner_threads, which is fixed when a primitive is created: 1,
 * except for a benchmark that measures the library's own way with whole matrices. */
void *rt_onednn_prepare(const RtGemm *g, int threads, int inner_threads);
void rt_onednn_free(void *prepared);
int64_t rt_onednn_scratch_bytes(const void *prepared);
void rt_onednn_tile(const void *prepared, const RtGemm *g, const RtTile *t);
const char *rt_onednn_name(void);

/* A CBLAS: f32 and f64; bf16 and f16 through f32 tiles in scratch. */
void rt_cblas_start(void);
int64_t rt_cblas_scratch_bytes(const RtGemm *g);
void rt_cblas_tile(const RtGemm *g, const RtTile *t);
const char *rt_cblas_name(void);
const char *rt_cblas_slow_kernels(void);

#endif
