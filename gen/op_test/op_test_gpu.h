/* SPDX-License-Identifier: Apache-2.0 */
/* op_test_gpu.h: between op_test, which does not use CUDA, and a real device. */
#ifndef OP_TEST_GPU_H
#define OP_TEST_GPU_H

#include <stddef.h>
#include <stdint.h>

struct RtKernel; /* rt_cuda.h */
struct RtMatmul;

/* A real device. The shared object of op_test_gpu.c, which --device names, exports it as
 * `op_test_gpu`, so that op_test itself does not need the CUDA runtime. */
typedef struct OpDevice {
    /* "sm_90a", or NULL with error set */
    const char *(*open)(char *error, size_t bytes);
    void (*unit)(const char *image);
    void (*prepare)(struct RtKernel *k);
    void (*launch)(const struct RtKernel *k, int64_t blocks_x, int64_t blocks_y,
                   void **args);
    void (*fill)(void *p, int byte, int64_t bytes);
    void (*matmul_prepare)(struct RtMatmul *p);
    void (*matmul)(const struct RtMatmul *p, const void *a, const void *b, void *c,
                   float beta);
    void (*matmul_fp8)(const struct RtMatmul *p, const void *a, const float *sa,
                       const void *b, const float *sb, void *c, float beta);
    void *(*put)(const void *from, size_t bytes);         /* a copy there */
    const char *(*take)(void *to, void *p, size_t bytes); /* back, and freed; an error */
} OpDevice;

#endif
