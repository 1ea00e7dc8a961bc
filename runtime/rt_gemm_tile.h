/* SPDX-License-Identifier: MIT-0 */
/* rt_gemm_tile.h: between rt_gemm.c, which cuts products into tiles and shares them among
 * threads, and the libraries that compute one tile in one thread. Private to the runtime.
 */
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
    char *scratch; /* of this thread, as many bytes as the library asked for */
} RtTile;

static inline int64_t rt_dtype_bytes(int dtype)
{
    return dtype == RT_F64 ? 8 : dtype == RT_F32 ? 4 : 2;
}

/* The built-in kernels: always there, for every dtype. */
int64_t rt_builtin_scratch_bytes(const RtGemm *g);
void rt_builtin_tile(const RtGemm *g, const RtTile *t);
const char *rt_builtin_name(void);

/* oneDNN: primitives for g's tile shapes, or NULL when the built-in kernel is to be used.
 * `threads` may run them at once, each with inner_threads, which a primitive decides when
 * it is created: 1, but for a benchmark that wants the library's own way with whole
 * matrices. */
void *rt_onednn_prepare(const RtGemm *g, int threads, int inner_threads);
void rt_onednn_free(void *prepared);
int64_t rt_onednn_scratch_bytes(const void *prepared);
void rt_onednn_tile(const void *prepared, const RtGemm *g, const RtTile *t);
const char *rt_onednn_name(void);

/* A CBLAS: f32 and f64; bf16 through f32 tiles in scratch. */
void rt_cblas_start(void);
int64_t rt_cblas_scratch_bytes(const RtGemm *g);
void rt_cblas_tile(const RtGemm *g, const RtTile *t);
const char *rt_cblas_name(void);

#endif
