/* SPDX-License-Identifier: MIT-0 */
/* rt_cuda.h: what the host part of an op's cuda.cu asks of the runtime: kernels by name,
 * matrix products, and attention by cuDNN. Everything is enqueued on the rank's compute stream and returns at once. */
#ifndef RT_CUDA_H
#define RT_CUDA_H

#ifndef RT_CUDA
#error "rt.h must know that this trainer is one for CUDA: -DRT_CUDA"
#endif

#include "rt.h"

/* A kernel of kernels.cu, found by its name when the trainer starts. */
typedef struct RtKernel {
    const char *name;
    int threads;             /* of a block */
    int shared_bytes;        /* beside the arrays it declares */
    void *handle;
} RtKernel;

void rt_kernel_prepare(RtKernel *k);
/* Ends the run unless there is a kernel of this name: it says of which mathematics all are. */
void rt_kernels_check(const char *name);
/* args: addresses of the arguments, in the order of the kernel's parameters. */
void rt_launch(Rt *rt, const RtKernel *k, int64_t blocks_x, int64_t blocks_y, void **args);

/* C[m, n] = A op B (+ C when beta is 1), row-major, as rt_gemm.h has it: RT_NT, RT_NN, RT_TN.
 * Sums are f32 (f64 for f64), rounded once. */
typedef struct RtMatmul {
    RtGemmOp op;
    int64_t m, n, k;
    int64_t lda, ldb, ldc;   /* elements between rows */
    int in_dtype, out_dtype; /* RtDtype of A and B, and of C */
    void *plan;              /* the library's, made by rt_matmul_prepare */
} RtMatmul;

void rt_matmul_prepare(RtMatmul *p);
void rt_matmul(Rt *rt, const RtMatmul *p, const void *a, const void *b, void *c, float beta);

/* Causal attention by cuDNN of a slice: `sequences` of `seq` tokens, of each `heads` queries,
 * of which heads / kv_heads share a key and a value. A query sees the keys up to its own, the
 * last `window` of them unless that is 0; scores are multiplied by `scale`. Rows of q, k and v,
 * one a token, begin qkv_row elements apart, those of the result o_row; of lse the seq values of
 * a head lie together, lse_heads heads in a sequence. */
typedef struct RtAttention {
    bool backward;
    int64_t sequences, seq, heads, kv_heads, head_dim, window;
    int64_t qkv_row, o_row, lse_heads;
    float scale;
    int dtype;               /* RT_BF16, RT_F16 */
    int64_t workspace_bytes; /* that is planned */
    void *plan;              /* the library's, made by rt_attention_prepare */
} RtAttention;

void rt_attention_prepare(RtAttention *a);
void rt_attention(Rt *rt, const RtAttention *a, const void *q, const void *k, const void *v,
                  void *o, float *lse, void *workspace);
void rt_attention_backward(Rt *rt, const RtAttention *a, const void *q, const void *k,
                           const void *v, const void *o, const float *lse, const void *d_o,
                           void *dq, void *dk, void *dv, void *workspace);

/* The stream by which the elements of the run draw noise (rt_noise of rt_device.h). */
uint32_t rt_noise_stream(const RtUpdateRun *run);
/* Fills device memory with one byte. */
void rt_fill(Rt *rt, void *p, int byte, int64_t bytes);

#endif
