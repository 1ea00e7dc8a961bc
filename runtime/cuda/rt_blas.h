/* SPDX-License-Identifier: MIT-0 */
/* rt_blas.h: products in the form of cuBLASLt: what rt_blas.c, which runs them, shares
 * with rt_tune.c, which measures algorithms, and rt_wisdom.c, which stores what is best.
 */
#ifndef RT_BLAS_H
#define RT_BLAS_H

#include "cuda/rt_gpu.h"

#include <cublasLt.h>

#define RT_BLAS_CALL(rt, call)                                                           \
    do {                                                                                 \
        const cublasStatus_t status_ = (call);                                           \
        if (status_ != CUBLAS_STATUS_SUCCESS) {                                          \
            rt_fail(rt, RT_EXIT_ERROR, "%s on GPU %d: %s", #call, rt_gpu.index,          \
                    cublasLtGetStatusString(status_));                                   \
        }                                                                                \
    } while (0)

typedef struct RtProduct {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c; /* as the library sees them: b is the caller's A */
    cublasLtMatmulAlgo_t algorithm;
} RtProduct;

typedef enum RtSplit { RT_WHOLE_K, RT_SPLIT_K } RtSplit;

/* ---- rt_blas.c ------------------------------------------------------------------- */

/* Everything except the algorithm. */
RtProduct rt_product_describe(const RtMatmul *p);
/* Algorithms that the library proposes, in its order; returns how many. RT_WHOLE_K: at
 * least one, or the rank ends. RT_SPLIT_K: perhaps none. A proposal may do otherwise than
 * requested. */
int rt_product_propose(const RtMatmul *p, const RtProduct *q, RtSplit split,
                       cublasLtMatmulHeuristicResult_t *results, int most);
/* Into how many parts, each summed by a block of its own, does it split k? 1: it does
 * not. */
int rt_algorithm_parts(const cublasLtMatmulAlgo_t *algorithm);
/* Is each sum of parts documented to have one order, and to round only once? */
bool rt_algorithm_in_order(const RtMatmul *p, const cublasLtMatmulAlgo_t *algorithm);
/* "algorithm 66, tile 20, k in 3 parts" */
const char *rt_algorithm_name(const cublasLtMatmulAlgo_t *algorithm, char *text,
                              size_t bytes);
int64_t rt_operand_bytes(int dtype); /* an element of A, B or C */
/* Of fp8: where the scales of the caller's A and B will be when it runs. */
void rt_product_scales(const RtProduct *q, const float *sa, const float *sb);
/* The workspace is the trainer's library_bytes. A pointer that is less aligned than the
 * product states ends the run. */
cublasStatus_t rt_product_run(const Rt *rt, const RtMatmul *p, const RtProduct *q,
                              const void *a, const void *b, void *c, float beta,
                              void *workspace);

enum { RT_PRODUCT_TEXT = 128 };
/* "NT 8192 x 6144 x 4096 rows 4096 4096 6144 bf16 to f32": identifies a product. If A, B
 * or C may begin at less than buffers do: "... rows 4096 4096 6144 aligned 64 256 256
 * bf16 to f32", because the library may choose another algorithm then. */
const char *rt_product_text(const RtMatmul *p, char *text);

/* ---- rt_tune.c ------------------------------------------------------------------- */

/* With --tune-kernels: registers the product for the search. */
void rt_tune_add(const RtMatmul *p);
/* With --tune-kernels: what else is checked, before products are measured. */
void rt_tune_also(void (*check)(Rt *rt));

/* ---- rt_wisdom.c ----------------------------------------------------------------- */

typedef struct RtChoice {
    char product[RT_PRODUCT_TEXT];
    cublasLtMatmulAlgo_t algorithm;
    char measured[RT_PRODUCT_TEXT]; /* for people */
} RtChoice;

/* Reads the file that the flags name, or the one beside the trainer if it exists. */
void rt_wisdom_open(Rt *rt);
/* NULL: the product is not in the file. */
const cublasLtMatmulAlgo_t *rt_wisdom_find(const char *product);
bool rt_wisdom_is_open(void);
const char *rt_wisdom_path(void);
/* For the platform's text: "the library's" or "tuned HASH". */
const char *rt_wisdom_name(void);
/* Writes to the file, replacing what it said about these products on this GPU. */
void rt_wisdom_write(Rt *rt, const RtChoice *choices, int n);

#endif
