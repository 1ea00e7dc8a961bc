/* SPDX-License-Identifier: MIT-0 */
/* rt_cudnn.h: attention in the form of cuDNN: what rt_cudnn.c, which runs it, shares with
 * rt_cudnn_graph.c, which describes it, and rt_cudnn_steady.c and rt_cudnn_choose.c, which check its
 * bits. */
#ifndef RT_CUDNN_H
#define RT_CUDNN_H

#include "cuda/rt_cuda.h"

#include <cudnn.h>
#include <stdbool.h>

/* Earlier versions: a replayed backward could read outside its tensors. */
enum { RT_DNN_OLDEST = 91501 };

/* The caller's tensors, by their numbers for cuDNN. */
enum {
    RT_DNN_Q = 1,
    RT_DNN_K,
    RT_DNN_V,
    RT_DNN_O,
    RT_DNN_LSE,
    RT_DNN_SCALE, /* one float each, in host memory: the scale, the value that hides a score, the
                   * window */
    RT_DNN_HIDDEN,
    RT_DNN_WINDOW,
    RT_DNN_ONE,
    RT_DNN_D_O, /* the rest: backward only */
    RT_DNN_DELTA,
    RT_DNN_DQ,
    RT_DNN_DK,
    RT_DNN_DV,
    RT_DNN_TENSORS
};

typedef struct RtDnnPlan {
    cudnnBackendDescriptor_t plan;
    int64_t engine;
    int64_t workspace_bytes; /* the library's, without delta */
} RtDnnPlan;

/* Plans `a` for the handle's device or, without a handle, for a described one, with the first
 * proposed engine that needs at most this workspace. False, with a reason, if there is none. */
bool rt_dnn_plan(const RtAttention *a, cudnnHandle_t handle,
                 cudnnBackendDescriptor_t device, int64_t most_bytes, RtDnnPlan *plan,
                 char *why, size_t why_bytes);

enum { RT_DNN_TEXT = 128 };
/* "attention backward of 2 x 4096 tokens, 32 heads of 8, 128 wide" */
const char *rt_cudnn_text(const RtAttention *a, char text[RT_DNN_TEXT]);
const RtAttention *rt_cudnn_attention(int i); /* that has a plan; NULL: no more */
void rt_cudnn_steady(Rt *rt);
void rt_cudnn_choose(Rt *rt); /* rt_cudnn_choose.c */

/* What the two share: memory of the GPU; numbers from -1 to 1 in it, again and again; a hash of it,
 * continued; the median, in microseconds. */
enum { RT_DNN_RUNS = 9 };
char *rt_dnn_allocate(const Rt *rt, int64_t bytes);
void rt_dnn_fill(Rt *rt, char *at, int64_t bytes, RtDtype dtype, uint64_t seed);
uint64_t rt_dnn_bits(Rt *rt, char *at, int64_t bytes, uint64_t hash);
float rt_dnn_median(float *ms, int n);

/* Bytes of delta, a float per query: the start of the backward's workspace. */
static inline int64_t rt_dnn_delta_bytes(const RtAttention *a)
{
    return a->backward ? (a->sequences * a->heads * a->seq * 4 + 255) / 256 * 256 : 0;
}

#endif
