/* SPDX-License-Identifier: MIT-0 */
/* rt_gpu.c: the rank's device. In: the machine's devices, this rank. Out: streams, or one
 * line that says why there is no device and what to do. Device memory outside the arena
 * is measured on the way: free bytes before and after.
 *
 * The process that starts the ranks never comes here, because a CUDA context does not
 * survive a fork. */
#include "cuda/rt_gpu.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

RtGpu rt_gpu;

_Noreturn void rt_cuda_failed(const Rt *rt, const char *call, cudaError_t error)
{
    rt_fail(rt, RT_EXIT_ERROR, "%s on GPU %d%s: %s (%s)", call, rt_gpu.index,
            rt_gpu.during, cudaGetErrorString(error), cudaGetErrorName(error));
}

/* Why there is no device at all. */
static _Noreturn void no_device(const Rt *rt, cudaError_t error)
{
    int driver = 0, runtime = 0;
    cudaRuntimeGetVersion(&runtime);
    if (error == cudaErrorInsufficientDriver) {
        cudaDriverGetVersion(&driver);
        if (driver == 0) {
            rt_fail(
                rt, RT_EXIT_ERROR,
                "no NVIDIA driver is installed; this trainer needs a GPU, and a driver "
                "for CUDA %d.%d",
                runtime / 1000, runtime % 1000 / 10);
        }
        rt_fail(rt, RT_EXIT_ERROR,
                "the NVIDIA driver is too old: it is one for CUDA %d.%d, the trainer was "
                "built with %d.%d; update the driver, or build with an older toolkit",
                driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    }
    if (error == cudaErrorNoDevice || error == cudaSuccess) {
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        rt_fail(rt, RT_EXIT_ERROR, "no GPU is found%s%s%s",
                visible ? "; CUDA_VISIBLE_DEVICES is \"" : "", visible ? visible : "",
                visible ? "\"" : "");
    }
    rt_cuda_failed(rt, "cudaGetDeviceCount", error);
}

/* One for each rank of this machine; a launcher may show each process only its own. */
static int choose(const Rt *rt, int devices)
{
    const int rank = rt_ranks_here(rt->state->shared, rt->rank),
              ranks = rt_ranks_here(rt->state->shared, rt->world_size);
#ifdef RT_NCCL
    rt_transport = rt->state->flags.loopback ? &rt_loopback : &rt_nccl;
    if (rt->state->flags.loopback)
        return rt->rank % devices;
#endif
    const char *shared = getenv("NCCL_MULTI_RANK_GPU_ENABLE"),
               *host = getenv("NCCL_HOSTID");
    if (host != NULL && devices < ranks) { /* NCCL takes such ranks for separate hosts */
        char id[512];
        snprintf(id, sizeof id, "%s-%d", host, rt->rank);
        setenv("NCCL_HOSTID", id, 1);
    }
    if (rank < devices)
        return rank;
    const bool visible = getenv("CUDA_VISIBLE_DEVICES") != NULL && devices == 1;
    if (visible || shared != NULL || host != NULL) /* NCCL refuses what it cannot do */
        return rank % devices;
    rt_fail(rt, RT_EXIT_ERROR,
            "%d ranks need a GPU each, and %d %s found; generate the trainer for "
            "mesh.shard = %d, or pass --loopback, by which ranks share GPUs, slowly",
            ranks, devices, devices == 1 ? "is" : "are", devices);
}

void rt_gpu_open(Rt *rt)
{
    int devices = 0, least = 0, greatest = 0;
    size_t free_bytes = 0, total_bytes = 0;
    struct cudaDeviceProp p;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices == 0)
        no_device(rt, error);
    rt_gpu.index = choose(rt, devices);
    const cudaError_t taken = cudaSetDevice(rt_gpu.index);
    if (taken == cudaErrorInsufficientDriver) /* some drivers say so only now */
        no_device(rt, taken);
    RT_CUDA_CALL(rt, taken);
    RT_CUDA_CALL(rt, cudaGetDeviceProperties(&p, rt_gpu.index));
    snprintf(rt_gpu.name, sizeof rt_gpu.name, "%.*s", (int)sizeof rt_gpu.name - 1,
             p.name);
    snprintf(rt_gpu.arch, sizeof rt_gpu.arch, "sm_%d%d", p.major, p.minor);
    rt_gpu.multiprocessors = p.multiProcessorCount;
    RT_CUDA_CALL(rt, cudaMemGetInfo(&free_bytes, &total_bytes));
    rt_gpu.total_bytes = (int64_t)total_bytes;
    rt_gpu.free_bytes = (int64_t)total_bytes; /* the context took the difference */
    rt_gpu_measure(RT_OUT_CONTEXT);
    RT_CUDA_CALL(rt, cudaDeviceGetStreamPriorityRange(&least, &greatest));
    for (int s = 0; s < RT_DEVICE_STREAMS; s++) {
        if (s == RT_REDUCE)
            continue;
        /* Collectives have priority, or persistent products starve them; place reports
         * are small. */
        RT_CUDA_CALL(
            rt, cudaStreamCreateWithPriority(&rt_gpu.stream[s], cudaStreamNonBlocking,
                                             s == RT_COMPUTE ? least : greatest));
    }
    /* One order of all collectives: see rt_loopback.c, rt_nccl.c. */
    rt_gpu.stream[RT_REDUCE] = rt_gpu.stream[RT_GATHER];
}

void rt_gpu_expect(Rt *rt, int64_t bytes)
{
    const double gib = 1073741824.0;
    if (bytes <= rt_gpu.free_bytes)
        return;
    rt_fail(
        rt, RT_EXIT_ERROR,
        "GPU %d (%s) has %.2f of %.2f GiB free, the planned arena takes %.2f: end what "
        "else "
        "runs there, or generate with more ranks, a smaller micro_batch or recompute = "
        "\"block\"",
        rt_gpu.index, rt_gpu.name, (double)rt_gpu.free_bytes / gib,
        (double)rt_gpu.total_bytes / gib, (double)bytes / gib);
}

void rt_gpu_measure(RtOutside kind)
{
    size_t free_bytes = 0, total_bytes = 0;
    if (cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess) {
        rt_gpu.outside[kind] += rt_gpu.free_bytes - (int64_t)free_bytes;
        rt_gpu.free_bytes = (int64_t)free_bytes;
    }
}

/* The host has nothing to do but check for failures. */
static void nap(Rt *rt)
{
    const struct timespec short_while = {0, 20000};
    atomic_store_explicit(&rt->state->shared->rank[rt->rank].looked_ns, rt_clock_ns(),
                          memory_order_relaxed);
    if (atomic_load_explicit(&rt->state->shared->abort, memory_order_relaxed) != 0)
        rt_leave(rt);
#ifdef RT_NCCL
    rt_transport->check(rt);
#endif
    rt_places_passed(rt);
    nanosleep(&short_while, NULL);
}

void rt_gpu_reach(Rt *rt, cudaEvent_t event)
{
    cudaError_t state;
    while ((state = cudaEventQuery(event)) == cudaErrorNotReady)
        nap(rt);
    if (state != cudaSuccess)
        rt_cuda_failed(rt, "a kernel or copy", state);
}

void rt_gpu_drain(Rt *rt)
{
    for (int s = 0; s < RT_DEVICE_STREAMS; s++) {
        cudaError_t state;
        while ((state = cudaStreamQuery(rt_gpu.stream[s])) == cudaErrorNotReady)
            nap(rt);
        if (state != cudaSuccess)
            rt_cuda_failed(rt, "a kernel or copy", state);
    }
}
