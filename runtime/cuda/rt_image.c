/* SPDX-License-Identifier: MIT-0 */
/* rt_image.c: the kernels of kernels.cu. In: images that make embeds into the trainer,
 * one per architecture, or with JIT=1 the sources. Out: kernels by name, launches. */
#include "cuda/rt_gpu.h"

#include <string.h>

/* RT_IMAGES lists RT_IMAGE(name, "file"): the files become part of this object. */
#define RT_IMAGE(name, file)                                                             \
    extern const char rt_image_##name[], rt_image_end_##name[];                          \
    __asm__(".pushsection .rodata\n"                                                     \
            ".balign 64\n"                                                               \
            "rt_image_" #name ":\n"                                                      \
            ".incbin \"" file "\"\n"                                                     \
            "rt_image_end_" #name ":\n"                                                  \
            ".byte 0\n"                                                                  \
            ".popsection\n");
#include RT_IMAGES
#undef RT_IMAGE
#define RT_IMAGE(name, file) {#name, rt_image_##name, rt_image_end_##name},
const RtImage rt_images[] = {
#include RT_IMAGES
};
#undef RT_IMAGE
const int rt_n_images = sizeof rt_images / sizeof *rt_images;

static cudaLibrary_t libraries[RT_PROGRAMS];
static int n_libraries;
static const Rt *this_rank;

#ifndef RT_JIT
/* An image for sm_90a runs on sm_90 only; one for sm_80 on 8.x from 8.0 on. */
static int fits(const char *image, const char *arch)
{
    const size_t n = strlen(arch);
    const bool special = strlen(image) > n;
    if (strncmp(image, arch, n) == 0)
        return special ? 1000 : 999;
    const char last = image[strlen(image) - 1];
    if (last == 'a' || strlen(image) != n || strncmp(image, arch, n - 1) != 0 ||
        last > arch[n - 1])
        return 0;
    return 1 + last - '0';
}

static const void *find_image(const Rt *rt)
{
    char all[256] = "";
    const RtImage *best = NULL;
    for (int i = 0; i < rt_n_images; i++) {
        const size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s%s", i > 0 ? ", " : "", rt_images[i].name);
        if (fits(rt_images[i].name, rt_gpu.arch) > 0 &&
            (best == NULL ||
             fits(rt_images[i].name, rt_gpu.arch) > fits(best->name, rt_gpu.arch)))
            best = &rt_images[i];
    }
    if (best == NULL) {
        rt_fail(
            rt, RT_EXIT_ERROR,
            "GPU %d (%s) is %s, the trainer's kernels are for %s: make ARCHS=%s, or make "
            "JIT=1",
            rt_gpu.index, rt_gpu.name, rt_gpu.arch, all, rt_gpu.arch);
    }
    rt_gpu.image = best->name;
    return best->from;
}
#endif

void rt_image_load(Rt *rt)
{
#ifdef RT_JIT
    const void *images[RT_PROGRAMS];
    rt_jit(rt, rt_images, rt_n_images, images);
    n_libraries = RT_PROGRAMS;
    rt_gpu.image = "compiled at start";
#else
    const void *images[] = {find_image(rt)};
    n_libraries = 1;
#endif
    this_rank = rt;
    for (int i = 0; i < n_libraries; i++) {
        RT_CUDA_CALL(rt, cudaLibraryLoadData(&libraries[i], images[i], NULL, NULL, 0,
                                             NULL, NULL, 0));
    }
}

static cudaError_t find_kernel(const char *name, cudaKernel_t *kernel)
{
    cudaError_t error = cudaErrorSymbolNotFound;
    for (int i = 0; i < n_libraries && error != cudaSuccess; i++)
        error = cudaLibraryGetKernel(kernel, libraries[i], name);
    if (error == cudaSuccess)
        cudaGetLastError(); /* other libraries need not have it */
    return error;
}

void rt_kernels_check(const char *name)
{
    cudaKernel_t kernel = NULL;
    if (find_kernel(name, &kernel) != cudaSuccess) {
        rt_fail(this_rank, RT_EXIT_ERROR,
                "kernels.c and the kernels for %s come from different generations: run "
                "fsdpgen and make again",
                rt_gpu.image);
    }
}

void rt_kernel_prepare(RtKernel *k)
{
    cudaKernel_t kernel = NULL;
    const cudaError_t error = find_kernel(k->name, &kernel);
    if (error != cudaSuccess) {
        rt_fail(this_rank, RT_EXIT_ERROR, "kernels.cu has no kernel %s for %s: %s",
                k->name, rt_gpu.image, cudaGetErrorString(error));
    }
    k->handle = (void *)kernel;
    if (k->shared_bytes > 48 * 1024) { /* larger sizes must be requested */
        RT_CUDA_CALL(this_rank,
                     cudaFuncSetAttribute(k->handle,
                                          cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          k->shared_bytes));
    }
}

void rt_launch_on(Rt *rt, cudaStream_t stream, const RtKernel *k, int64_t blocks_x,
                  int64_t blocks_y, void **args)
{
    const cudaLaunchConfig_t config = {
        .gridDim = {(unsigned)blocks_x, (unsigned)blocks_y, 1},
        .blockDim = {(unsigned)k->threads, 1, 1},
        .dynamicSmemBytes = (size_t)k->shared_bytes,
        .stream = stream,
    };
    rt_profile_from(rt, stream, k->name, 0);
    const cudaError_t error = cudaLaunchKernelExC(&config, k->handle, args);
    rt_profile_to(rt, stream);
    if (error != cudaSuccess) {
        rt_fail(rt, RT_EXIT_ERROR,
                "launch of %s on GPU %d%s, %lld x %lld blocks of %d: %s", k->name,
                rt_gpu.index, rt_gpu.during, (long long)blocks_x, (long long)blocks_y,
                k->threads, cudaGetErrorString(error));
    }
}

void rt_launch(Rt *rt, const RtKernel *k, int64_t blocks_x, int64_t blocks_y, void **args)
{
    rt_launch_on(rt, rt_gpu.stream[RT_COMPUTE], k, blocks_x, blocks_y, args);
}

void rt_fill(Rt *rt, void *p, int byte, int64_t bytes)
{
    RT_CUDA_CALL(rt, cudaMemsetAsync(p, byte, (size_t)bytes, rt_gpu.stream[RT_COMPUTE]));
}
