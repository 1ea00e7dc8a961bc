/* SPDX-License-Identifier: Apache-2.0 */
/* op_test_gpu.c: kernels of op folders on a real GPU, for op_test --device. A shared
 * object, built by tests/gpu/run.sh with the toolkit that is there, of this file and
 * runtime/cuda/rt_blas.c: op_test itself needs no CUDA. In: cubins, launches, operands in
 * host memory. Out: the same, computed by the device. Products are those of trainers. */
#include "op_test/op_test_gpu.h"

#include "rt_blas.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

RtGpu rt_gpu;

enum { LIBRARY_BYTES = 32 << 20 };
static RtTrainer trainer = {.library_bytes = LIBRARY_BYTES, .world_size = 1};
static RtState state;
static Rt rt = {.world_size = 1, .trainer = &trainer, .state = &state};
static cudaLibrary_t library;

/* ---- what rt_blas.c asks of the runtime ------------------------------------------ */

void rt_fail(const Rt *unused, int code, const char *fmt, ...)
{
    va_list ap;
    (void)unused, (void)code;
    va_start(ap, fmt);
    fprintf(stderr, "op_test: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    _Exit(1);
}

void rt_cuda_failed(const Rt *unused, const char *call, cudaError_t error)
{
    rt_fail(unused, 1, "%s: %s (%s)", call, cudaGetErrorString(error),
            cudaGetErrorName(error));
}

/* No kernels.wis: the library's first algorithms, and nothing is searched for. */
void rt_wisdom_open(Rt *unused)
{
    (void)unused;
}

const cublasLtMatmulAlgo_t *rt_wisdom_find(const char *product)
{
    (void)product;
    return NULL;
}

bool rt_wisdom_is_open(void)
{
    return false;
}

const char *rt_wisdom_path(void)
{
    return "";
}

const char *rt_wisdom_name(void)
{
    return "the library's";
}

void rt_profile_from(Rt *unused, cudaStream_t stream, const char *name, double flops)
{
    (void)unused, (void)stream, (void)name, (void)flops;
}

void rt_profile_to(Rt *unused, cudaStream_t stream)
{
    (void)unused, (void)stream;
}

void rt_tune_add(const RtMatmul *p)
{
    (void)p;
}

size_t rt_dtype_bytes(RtDtype d)
{
    return d == RT_F64 ? 8 : d == RT_F32 ? 4 : 2;
}

/* ---- the device ------------------------------------------------------------------ */

static const char *open_device(char *error, size_t bytes)
{
    struct cudaDeviceProp p;
    const cudaError_t found = cudaSetDevice(0);
    if (found != cudaSuccess) {
        snprintf(error, bytes, "no GPU: %s", cudaGetErrorString(found));
        return NULL;
    }
    RT_CUDA_CALL(&rt, cudaGetDeviceProperties(&p, 0));
    snprintf(rt_gpu.name, sizeof rt_gpu.name, "%.*s", (int)sizeof rt_gpu.name - 1,
             p.name);
    /* kernels may use what this very architecture has */
    snprintf(rt_gpu.arch, sizeof rt_gpu.arch, "sm_%d%d%s", p.major, p.minor,
             p.major >= 9 ? "a" : "");
    rt_gpu.multiprocessors = p.multiProcessorCount;
    for (int s = 0; s < RT_DEVICE_STREAMS; s++) {
        RT_CUDA_CALL(&rt,
                     cudaStreamCreateWithFlags(&rt_gpu.stream[s], cudaStreamNonBlocking));
    }
    RT_CUDA_CALL(&rt, cudaMalloc((void **)&rt.local, LIBRARY_BYTES));
    state.flags.quiet = true;
    rt_blas_open(&rt);
    return rt_gpu.arch;
}

static void unit(const char *image)
{
    FILE *f = fopen(image, "rb");
    long bytes = 0;
    if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (bytes = ftell(f)) < 0)
        rt_fail(&rt, 1, "%s cannot be read", image);
    rewind(f);
    char *code = malloc((size_t)bytes + 1); /* kept: the library refers to it */
    if (code == NULL || fread(code, 1, (size_t)bytes, f) != (size_t)bytes)
        rt_fail(&rt, 1, "%s cannot be read", image);
    fclose(f);
    RT_CUDA_CALL(&rt, cudaLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0));
}

static void prepare(struct RtKernel *k)
{
    cudaKernel_t kernel = NULL;
    const cudaError_t error = cudaLibraryGetKernel(&kernel, library, k->name);
    if (error != cudaSuccess)
        rt_fail(&rt, 1, "no kernel %s: %s", k->name, cudaGetErrorString(error));
    k->handle = (void *)kernel;
    if (k->shared_bytes > 48 * 1024) {
        RT_CUDA_CALL(&rt, cudaFuncSetAttribute(
                              k->handle, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              k->shared_bytes));
    }
}

static void launch(const struct RtKernel *k, int64_t blocks_x, int64_t blocks_y,
                   void **args)
{
    const cudaLaunchConfig_t config = {
        .gridDim = {(unsigned)blocks_x, (unsigned)blocks_y, 1},
        .blockDim = {(unsigned)k->threads, 1, 1},
        .dynamicSmemBytes = (size_t)k->shared_bytes,
        .stream = rt_gpu.stream[RT_COMPUTE],
    };
    const cudaError_t error = cudaLaunchKernelExC(&config, k->handle, args);
    if (error != cudaSuccess) {
        rt_fail(&rt, 1, "launch of %s, %lld x %lld blocks of %d: %s", k->name,
                (long long)blocks_x, (long long)blocks_y, k->threads,
                cudaGetErrorString(error));
    }
}

static void fill(void *p, int byte, int64_t bytes)
{
    RT_CUDA_CALL(&rt, cudaMemsetAsync(p, byte, (size_t)bytes, rt_gpu.stream[RT_COMPUTE]));
}

static void matmul(const struct RtMatmul *p, const void *a, const void *b, void *c,
                   float beta)
{
    rt_matmul(&rt, p, a, b, c, beta);
}

static void matmul_fp8(const struct RtMatmul *p, const void *a, const float *sa,
                       const void *b, const float *sb, void *c, float beta)
{
    rt_matmul_fp8(&rt, p, a, sa, b, sb, c, beta);
}

static void *put(const void *from, size_t bytes)
{
    void *p = NULL;
    RT_CUDA_CALL(&rt, cudaMalloc(&p, bytes));
    RT_CUDA_CALL(&rt, cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice));
    return p;
}

static const char *take(void *to, void *p, size_t bytes)
{
    cudaError_t error = cudaStreamSynchronize(rt_gpu.stream[RT_COMPUTE]);
    if (error == cudaSuccess)
        error = cudaMemcpy(to, p, bytes, cudaMemcpyDeviceToHost);
    cudaFree(p);
    return error == cudaSuccess ? NULL : cudaGetErrorString(error);
}

__attribute__((visibility("default"))) const OpDevice op_test_gpu = {
    .open = open_device,
    .unit = unit,
    .prepare = prepare,
    .launch = launch,
    .fill = fill,
    .matmul_prepare = rt_matmul_prepare,
    .matmul = matmul,
    .matmul_fp8 = matmul_fp8,
    .put = put,
    .take = take,
};
