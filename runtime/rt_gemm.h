/* SPDX-License-Identifier: MIT-0 */
/* rt_gemm.h: matrix products whose bits do not depend on the number of threads. The output is cut
 * into tiles that were fixed when the trainer was generated. Each tile is one single-threaded call
 * of the library (oneDNN, a CBLAS, or the built-in kernel), and threads share the tiles.
 *
 * 1. On one platform, the bits of an element of C depend on its row of A, its column of B, the old
 *    C if beta is 1, and the call: op, dtypes, k, distances between rows, size of its tile, and its
 *    position in the tile. They depend neither on the tile's position nor on other rows and
 *    columns. So products of equal shape have equal bits, and so do tiles of equal shape.
 * 2. They may depend on the number of rows of a product, because its tiles do: libraries choose
 *    kernels and blocks of k by the shape of a call. Padding to whole register blocks would not
 *    help: oneDNN 2.6.3 blocks k by rows and columns (f32 from a k of a few hundred, bf16 into f32
 *    from a few thousand), and OpenBLAS's Haswell kernels sum in another order at another position
 *    in the tile.
 * 3. So a computation whose result must not depend on how it is cut is cut into products of one
 *    shape, or uses the built-in kernels: there an element depends only on its row, its column and
 *    k. */
#ifndef RT_GEMM_H
#define RT_GEMM_H

#include <stdint.h>

/* C[m, n] = A op B (+ C if beta is 1), row-major; op says how A and B are stored.
 *    RT_NT: A [m, k], B [n, k]   (y = x W^T)
 *    RT_NN: A [m, k], B [k, n]   (dx = dy W)
 *    RT_TN: A [k, m], B [k, n]   (dW = dy^T x) */
typedef enum { RT_NT, RT_NN, RT_TN } RtGemmOp;

typedef struct RtGemm {
    RtGemmOp op;
    int64_t m, n, k;
    int64_t lda, ldb, ldc;   /* elements between rows */
    int64_t tile_m, tile_n;  /* fixed at generation */
    int in_dtype, out_dtype; /* RtDtype of A and B, and of C: f64, or any of the others; sums are
                              * f32, rounded once if C has 16 bits */
} RtGemm;

/* At start: creates what the library needs for this product on every tile shape, and scratch for
 * every thread that OpenMP may use now, so that rt_gemm allocates none of our memory. */
void rt_gemm_prepare(const RtGemm *g);
/* beta: 0 stores without reading C, 1 adds. */
void rt_gemm(const RtGemm *g, const void *a, const void *b, void *c, float beta);
/* The same with beta 0; then adds bias[n] (dtype of C) to every row while its tile is in cache. The
 * product is rounded to C's dtype first, so the bits are those of two separate passes. */
void rt_gemm_bias(const RtGemm *g, const void *a, const void *b, const void *bias,
                  void *c);
/* Name and version of the library, for the platform hash: "oneDNN 2.6.3". */
const char *rt_gemm_library(void);
/* On CPUs: kernels far below this processor, which the library took because it does not know it;
 * NULL: none. */
const char *rt_gemm_slow_kernels(void);

#endif
