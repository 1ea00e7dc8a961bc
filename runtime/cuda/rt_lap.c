/* SPDX-License-Identifier: MIT-0 */
/* rt_lap.c: what --calibrate needs of a device: events on the compute stream, products,
 * copies, the least launch. In: bytes of the local space. Out: seconds between two
 * events. */
#include "cuda/rt_gpu.h"

static cudaEvent_t from_event, to_event;

void rt_lap_begin(Rt *rt, bool waits)
{
    (void)waits;
    if (from_event == NULL) {
        RT_CUDA_CALL(rt, cudaEventCreate(&from_event));
        RT_CUDA_CALL(rt, cudaEventCreate(&to_event));
    }
    rt_gpu_drain(rt);
    RT_CUDA_CALL(rt, cudaEventRecord(from_event, rt_gpu.stream[RT_COMPUTE]));
}

double rt_lap_end(Rt *rt)
{
    float ms = 0;
    RT_CUDA_CALL(rt, cudaEventRecord(to_event, rt_gpu.stream[RT_COMPUTE]));
    rt_gpu_reach(rt, to_event);
    RT_CUDA_CALL(rt, cudaEventElapsedTime(&ms, from_event, to_event));
    return 1e-3 * (double)ms;
}

void rt_product(Rt *rt, void *product, const void *a, const void *b, void *c)
{
    RtMatmul *p = product;
    if (p->plan == NULL)
        rt_matmul_prepare(p);
    rt_matmul(rt, p, a, b, c, 0.0f);
}

void rt_copy(Rt *rt, char *to, const char *from, int64_t bytes)
{
    RT_CUDA_CALL(rt, cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice,
                                     rt_gpu.stream[RT_COMPUTE]));
}

void rt_launch_least(Rt *rt, char *at)
{
    rt_fill(rt, at, 0, 4);
}
