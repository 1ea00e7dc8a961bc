/* SPDX-License-Identifier: MIT-0 */
/* rt_gemm.h: matrix products whose bits do not depend on the number of threads. The
 * output is cut into tiles fixed when the trainer was generated; each tile is one
 * single-threaded call of the library (oneDNN, a CBLAS, or the built-in kernel), and
 * threads share tiles.
 *
 * On one platform the bits of an element of C depend on its row of A, its column of B,
 * what C held where beta is 1, and on the call: op, dtypes, k, distances between rows,
 * rows and columns of its tile, and its place in the tile. They depend neither on where
 * the tile lies nor on the other rows and columns. So products of equal shape have equal
 * bits, and so have tiles of equal shape.
 *
 * They may depend on how many rows a product has, because its tiles do: libraries choose
 * kernels and blocks of k by the shape of a call. Padding to whole register blocks would
 * not help: oneDNN 2.6.3 blocks k by rows and columns (f32 from k of a few hundred on,
 * bf16 into f32 from a few thousand), and OpenBLAS's Haswell kernels sum in another order
 * at another place in the tile. What must not know how it is cut is cut into products of
 * one shape, or left to the built-in kernels: there an element depends on its row, its
 * column and k alone. */
#ifndef RT_GEMM_H
#define RT_GEMM_H

#include <stdint.h>

/* C[m, n] = A op B (+ C when beta is 1), row-major; op says how A and B lie in memory.
 *   RT_NT: A [m, k], B [n, k]   (y = x W^T)
 *   RT_NN: A [m, k], B [k, n]   (dx = dy W)
 *   RT_TN: A [k, m], B [k, n]   (dW = dy^T x) */
typedef enum { RT_NT, RT_NN, RT_TN } RtGemmOp;

typedef struct RtGemm {
    RtGemmOp op;
    int64_t m, n, k;
    int64_t lda, ldb, ldc;   /* elements between rows */
    int64_t tile_m, tile_n;  /* fixed at generation */
    int in_dtype, out_dtype; /* RtDtype of A and B, and of C: f64, or any of the others;
                                sums are f32, and rounded once where C has 16 bits */
} RtGemm;

/* At start: creates what the library needs for this product on every tile shape, and
 * scratch for every thread OpenMP may use now, so rt_gemm allocates nothing of ours. */
void rt_gemm_prepare(const RtGemm *g);
/* beta: 0 stores without reading C, 1 adds. */
void rt_gemm(const RtGemm *g, const void *a, const void *b, void *c, float beta);
/* The same with beta 0, then bias[n] (dtype of C) added to every row while its tile is
 * warm: the product is rounded to C's dtype first, so the bits are those of two separate
 * passes. */
void rt_gemm_bias(const RtGemm *g, const void *a, const void *b, const void *bias,
                  void *c);
/* Name and version of the library, for the platform hash: "oneDNN 2.6.3". */
const char *rt_gemm_library(void);

#endif
