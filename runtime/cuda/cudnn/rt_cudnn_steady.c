/* SPDX-License-Identifier: MIT-0 */
/* rt_cudnn_steady.c: trainer --tune-kernels, of attention by cuDNN where no other kernel
 * is there to choose (rt_cudnn_choose.c). In: the attentions of this trainer, an idle
 * GPU. Out: for each a line with its time; the rank ends if the bits of one vary,
 * although the library says that they do not.
 *
 * As of products (rt_tune.c): operands are random, and results of several runs are
 * compared, with a cold and a warm cache, alone and beside other work. */
#include "cuda/rt_blas.h"
#include "cuda/rt_cudnn.h"

#include <stdio.h>
#include <stdlib.h>

enum { RUNS = RT_DNN_RUNS, RANDOM_ELEMS = (1 << 20) + 7, MOST_TENSORS = 8 };

/* A tensor in the GPU's memory. */
typedef struct Tensor {
    char *at;
    int64_t bytes;
} Tensor;

typedef struct Steady {
    Rt *rt;
    const RtAttention *a;
    Tensor q, k, v, o, lse, d_o, dq, dk, dv, workspace, flush;
    cudaEvent_t from, to;
} Steady;

char *rt_dnn_allocate(const Rt *rt, int64_t bytes)
{
    void *at = NULL;
    const cudaError_t error = cudaMalloc(&at, (size_t)bytes);
    if (error != cudaSuccess) {
        rt_fail(rt, RT_EXIT_ERROR,
                "%lld bytes to check attention on GPU %d: %s; end what else runs there",
                (long long)bytes, rt_gpu.index, cudaGetErrorString(error));
    }
    return at;
}

static Tensor allocate(const Steady *s, int64_t bytes)
{
    return (Tensor){rt_dnn_allocate(s->rt, bytes), bytes};
}

void rt_dnn_fill(Rt *rt, char *at, int64_t bytes, RtDtype dtype, uint64_t seed)
{
    const int64_t size = (int64_t)rt_dtype_bytes(dtype), all = bytes / size;
    const int64_t n = all < RANDOM_ELEMS ? all : RANDOM_ELEMS;
    char *numbers = malloc((size_t)(n * size));
    if (numbers == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "no memory for %lld numbers", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits = rt_hash64(&i, sizeof i, seed);
        rt_store(dtype, numbers, i, 2 * ((double)(bits >> 11) * 0x1p-53) - 1, false);
    }
    for (int64_t i = 0; i < all; i += n) {
        const int64_t part = all - i < n ? all - i : n;
        RT_CUDA_CALL(rt,
                     cudaMemcpyAsync(at + i * size, numbers, (size_t)(part * size),
                                     cudaMemcpyHostToDevice, rt_gpu.stream[RT_COMPUTE]));
    }
    rt_gpu_drain(rt);
    free(numbers);
}

static void fill(const Steady *s, Tensor t, RtDtype dtype, uint64_t seed)
{
    rt_dnn_fill(s->rt, t.at, t.bytes, dtype, seed);
}

static void steady_open(Steady *s, const RtAttention *a)
{
    const int64_t rows = a->sequences * a->seq;
    const int64_t qkv = rows * a->qkv_row * 2, o = rows * a->o_row * 2; /* bf16, f16 */
    s->a = a;
    s->q = allocate(s, qkv);
    s->k = allocate(s, qkv);
    s->v = allocate(s, qkv);
    s->o = allocate(s, o);
    s->lse = allocate(s, a->sequences * a->lse_heads * a->seq * (int64_t)sizeof(float));
    s->workspace = allocate(s, a->workspace_bytes);
    fill(s, s->q, (RtDtype)a->dtype, 1);
    fill(s, s->k, (RtDtype)a->dtype, 2);
    fill(s, s->v, (RtDtype)a->dtype, 3);
    if (!a->backward)
        return;
    s->d_o = allocate(s, o);
    s->dq = allocate(s, qkv);
    s->dk = allocate(s, qkv);
    s->dv = allocate(s, qkv);
    fill(s, s->o, (RtDtype)a->dtype, 4);
    fill(s, s->lse, RT_F32, 5);
    fill(s, s->d_o, (RtDtype)a->dtype, 6);
}

static void steady_close(Steady *s)
{
    Tensor *const all[] = {&s->q,   &s->k,  &s->v,  &s->o,  &s->lse,
                           &s->d_o, &s->dq, &s->dk, &s->dv, &s->workspace};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        RT_CUDA_CALL(s->rt, cudaFree(all[i]->at)); /* NULL: nothing */
        *all[i] = (Tensor){NULL, 0};
    }
}

static void run(const Steady *s)
{
    if (s->a->backward) {
        rt_attention_backward(s->rt, s->a, s->q.at, s->k.at, s->v.at, s->o.at,
                              (const float *)(const void *)s->lse.at, s->d_o.at, s->dq.at,
                              s->dk.at, s->dv.at, s->workspace.at);
    } else {
        rt_attention(s->rt, s->a, s->q.at, s->k.at, s->v.at, s->o.at,
                     (float *)(void *)s->lse.at, s->workspace.at);
    }
}

/* What it writes; elements between its rows stay what they were. Returns how many. */
static int results(const Steady *s, Tensor list[MOST_TENSORS])
{
    if (!s->a->backward) {
        list[0] = s->o;
        list[1] = s->lse;
        return 2;
    }
    list[0] = s->dq;
    list[1] = s->dk;
    list[2] = s->dv;
    return 3;
}

uint64_t rt_dnn_bits(Rt *rt, char *at, int64_t bytes, uint64_t hash)
{
    for (int64_t i = 0; i < bytes; i += RT_WINDOW_BYTES) {
        const int64_t left = bytes - i;
        const int64_t part = left < RT_WINDOW_BYTES ? left : RT_WINDOW_BYTES;
        hash = rt_hash64(rt_window(rt, 0, at + i, part, RT_READ), (size_t)part, hash);
        rt_window_close(rt, 0);
    }
    return hash;
}

static uint64_t bits(const Steady *s)
{
    Tensor list[MOST_TENSORS];
    const int n = results(s, list);
    uint64_t hash = 0;
    for (int k = 0; k < n; k++)
        hash = rt_dnn_bits(s->rt, list[k].at, list[k].bytes, hash);
    return hash;
}

static void set(const Steady *s, Tensor t, int stream)
{
    RT_CUDA_CALL(s->rt, cudaMemsetAsync(t.at, 0, (size_t)t.bytes, rt_gpu.stream[stream]));
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

float rt_dnn_median(float *ms, int n)
{
    qsort(ms, (size_t)n, sizeof *ms, compare_floats);
    return 1e3f * ms[n / 2];
}

/* The median of its times, in microseconds. */
static float check(const Steady *s, const char *name, const RtDnnPlan *plan)
{
    cudaStream_t compute = rt_gpu.stream[RT_COMPUTE];
    float ms[RUNS];
    uint64_t before = 0;
    Tensor list[MOST_TENSORS];
    const int n = results(s, list);
    for (int i = 0; i < RUNS; i++) {
        for (int k = 0; k < n; k++)
            set(s, list[k], RT_COMPUTE);
        if (i % 2 == 0)
            set(s, s->flush, i == 0 ? RT_COMPUTE : RT_GATHER);
        RT_CUDA_CALL(s->rt, cudaEventRecord(s->from, compute));
        run(s);
        RT_CUDA_CALL(s->rt, cudaEventRecord(s->to, compute));
        rt_gpu_drain(s->rt);
        RT_CUDA_CALL(s->rt, cudaEventElapsedTime(&ms[i], s->from, s->to));
        const uint64_t now = bits(s);
        if (i > 0 && now != before) {
            rt_fail(s->rt, RT_EXIT_ERROR,
                    "%s: engine %lld of %s gave other bits in run %d; generate without "
                    "target.attention = \"cudnn\"",
                    name, (long long)plan->engine, rt_cudnn_name(), i + 1);
        }
        before = now;
    }
    return rt_dnn_median(ms, RUNS);
}

void rt_cudnn_steady(Rt *rt)
{
    Steady s = {.rt = rt};
    int cache_bytes = 0;
    const RtAttention *a;
    RT_CUDA_CALL(
        rt, cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, rt_gpu.index));
    s.flush = allocate(&s, 2 * (int64_t)cache_bytes + 1);
    RT_CUDA_CALL(rt, cudaEventCreate(&s.from));
    RT_CUDA_CALL(rt, cudaEventCreate(&s.to));
    for (int i = 0; (a = rt_cudnn_attention(i)) != NULL; i++) {
        char name[RT_DNN_TEXT];
        const RtDnnPlan *plan = a->plan;
        rt_cudnn_text(a, name);
        steady_open(&s, a);
        const float us = check(&s, name, plan);
        steady_close(&s);
        printf("%s: engine %lld, %.1f us, the same bits in %d runs\n", name,
               (long long)plan->engine, (double)us, (int)RUNS);
        fflush(stdout);
    }
    RT_CUDA_CALL(rt, cudaEventDestroy(s.from));
    RT_CUDA_CALL(rt, cudaEventDestroy(s.to));
    RT_CUDA_CALL(rt, cudaFree(s.flush.at));
}
