/* SPDX-License-Identifier: MIT-0 */
/* rt_cuda.h: what the host part of an op's cuda.cu needs from the runtime: kernels by name, matrix
 * products, and attention by cuDNN. Every call enqueues on the rank's compute stream and returns at
 * once. */
#ifndef RT_CUDA_H
#define RT_CUDA_H

#ifndef RT_CUDA
#error "rt.h must know that this trainer is one for CUDA: -DRT_CUDA"
#endif

#include "rt.h"

/* A kernel of kernels.cu, found by its name when the trainer starts. */
typedef struct RtKernel {
    const char *name;
    int threads;             /* per block */
    int shared_bytes;        /* in addition to the arrays it declares */
    void *handle;
} RtKernel;

void rt_kernel_prepare(RtKernel *k);
/* Ends the run unless a kernel of this name exists: its name identifies the mathematics of all
 * kernels. */
void rt_kernels_check(const char *name);
/* args: addresses of the arguments, in the order of the kernel's parameters. */
void rt_launch(Rt *rt, const RtKernel *k, int64_t blocks_x, int64_t blocks_y, void **args);

enum { RT_BUFFER_ALIGN_BYTES = 256 }; /* buffers begin at multiples: ARENA_ALIGN_BYTES of gen/ */

/* C[m, n] = A op B (+ C if beta is 1), row-major, as in rt_gemm.h: RT_NT, RT_NN, RT_TN. Sums are
 * f32 (f64 for f64), rounded once. */
typedef struct RtMatmul {
    RtGemmOp op;
    int64_t m, n, k;
    int64_t lda, ldb, ldc;   /* elements between rows */
    int in_dtype, out_dtype; /* RtDtype of A and B, and of C */
    int b_dtype;             /* of B, if A is fp8: then B is, too, and op is RT_NT */
    bool fast;               /* fp8: sums may have fewer bits than f32 */
    /* Every call's A, B and C begin at multiples of these, powers of two up to that of buffers. */
    int a_align_bytes, b_align_bytes, c_align_bytes;
    void *plan;              /* the library's, from rt_matmul_prepare */
} RtMatmul;

void rt_matmul_prepare(RtMatmul *p);
void rt_matmul(Rt *rt, const RtMatmul *p, const void *a, const void *b, void *c, float beta);
/* Of fp8, times the scales at sa and sb in device memory. */
void rt_matmul_fp8(Rt *rt, const RtMatmul *p, const void *a, const float *sa, const void *b,
                   const float *sb, void *c, float beta);

/* Causal attention by cuDNN on a slice: `sequences` of `seq` tokens, each with `heads` queries;
 * heads / kv_heads of them share a key and a value. A query sees the keys up to its own, or only
 * the last `window` of them if that is not 0; scores are multiplied by `scale`. Rows of q, k and v,
 * one per token, start qkv_row elements apart, those of the result o_row; in lse the seq values of
 * a head are adjacent, with lse_heads heads per sequence. */
typedef struct RtAttention {
    bool backward;
    int64_t sequences, seq, heads, kv_heads, head_dim, window;
    int64_t qkv_row, o_row, lse_heads;
    float scale;
    int dtype;               /* RT_BF16, RT_F16 */
    int64_t workspace_bytes; /* planned */
    void *plan;              /* the library's, from rt_attention_prepare */
} RtAttention;

void rt_attention_prepare(RtAttention *a);
void rt_attention(Rt *rt, const RtAttention *a, const void *q, const void *k, const void *v,
                  void *o, float *lse, void *workspace);
void rt_attention_backward(Rt *rt, const RtAttention *a, const void *q, const void *k,
                           const void *v, const void *o, const float *lse, const void *d_o,
                           void *dq, void *dk, void *dv, void *workspace);

/* A meet of parts: the kernel has arguments from, part, to, beta; from: pointers to what each of all
 * parts has, or to the one value that all have. */
typedef struct RtMeet {
    RtKernel *kernel;
    int64_t blocks;
    int64_t bytes;           /* of what one part has; 0: all have one value, nothing is exchanged */
    int64_t piece_bytes;     /* of that, what one part needs; 0: all of it */
    /* If it is not consecutive there: what packs it for each part, with arguments from, to; blocks of one;
     * and the kernel that reads such pieces. */
    RtKernel *pack, *packed;
    int64_t pack_blocks;
} RtMeet;

/* Joins the ranks that share the parts along the axis; then the first n parts here along it, in each
 * lane, get what they need. */
void rt_meet_on_device(RtParts *parts, const RtAlong *along, const RtMeet *m, float beta, int n);

/* The noise stream of the run's elements (rt_noise of rt_device.h). */
uint32_t rt_noise_stream(const RtUpdateRun *run);
/* Fills device memory with one byte. */
void rt_fill(Rt *rt, void *p, int byte, int64_t bytes);

#endif
