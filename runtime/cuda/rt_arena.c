/* SPDX-License-Identifier: MIT-0 */
/* rt_arena.c: the memory of a rank. In: the planned sizes. Out: one allocation of device
 * memory for each of its two spaces; in host memory, the page that all ranks share, with
 * a control area for each of them; windows, through which the host reads and writes the
 * arena.
 *
 * With guards, 4 KiB around each space contain a pattern that is checked at the end. */
#define _GNU_SOURCE
#include "cuda/rt_arena.h"
#include "cuda/rt_gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARD = 4096, PATTERN = 0xA5 };

/* ---- shared by all ranks, in host memory ----------------------------------------- */

int64_t rt_control_bytes(const RtTrainer *t)
{
    return rt_pages(RT_CONTROL_BYTES(t->micro_batches));
}

/* The loopback's slots, after everything else; not allocated until touched. */
static int64_t slots_offset(const RtTrainer *t)
{
    return rt_pages(sizeof(RtShared)) + t->world_size * rt_control_bytes(t);
}

static int64_t slots_bytes(const RtTrainer *t)
{
#ifdef RT_NCCL
    return rt_loopback_bytes(t);
#else
    (void)t;
    return 0;
#endif
}

static char *control_area;

int64_t rt_shared_bytes(const RtTrainer *t)
{
    return slots_offset(t) + slots_bytes(t);
}

int64_t rt_control_offset(const RtTrainer *t, int rank)
{
    return rt_pages(sizeof(RtShared)) + rank * rt_control_bytes(t);
}

char *rt_control(const Rt *rt, int rank)
{
    return control_area + rank * rt_control_bytes(rt->trainer);
}

/* ---- device memory --------------------------------------------------------------- */

static bool guarded;

/* The transport may provide its own memory for the symmetric space. */
static char *take(Rt *rt, RtSpace space, int64_t bytes)
{
    void *at = NULL;
#ifdef RT_NCCL
    if (space == RT_SPACE_SYMMETRIC && rt_transport->allocate != NULL)
        return rt_transport->allocate(rt, bytes);
#else
    (void)space;
#endif
    RT_CUDA_CALL(rt, cudaMalloc(&at, (size_t)bytes));
    return at;
}

static void give_back(Rt *rt, RtSpace space, char *at)
{
#ifdef RT_NCCL
    if (space == RT_SPACE_SYMMETRIC && rt_transport->release != NULL) {
        rt_transport->release(rt, at);
        return;
    }
#else
    (void)space;
#endif
    RT_CUDA_CALL(rt, cudaFree(at));
}

static char *allocate(Rt *rt, RtSpace space, int64_t bytes)
{
    const int64_t guard = guarded ? GUARD : 0;
    char *at = take(rt, space, rt_pages(bytes + 1) + 2 * guard);
    if (guarded)
        RT_CUDA_CALL(rt, cudaMemset(at, PATTERN, (size_t)(bytes + 2 * guard)));
    RT_CUDA_CALL(rt, cudaMemset(at + guard, 0, (size_t)bytes)); /* pads stay 0 */
    return at + guard;
}

bool rt_arena_map(Rt *rt, int fd, bool guard, char *error)
{
    const RtTrainer *t = rt->trainer;
    const int64_t bytes = t->world_size * rt_control_bytes(t);
    control_area = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                        rt_pages(sizeof(RtShared)));
    if (control_area == MAP_FAILED) {
        snprintf(error, RT_ERROR_BYTES, "%lld bytes of shared memory: %s",
                 (long long)bytes, rt_limits_map_error("", errno));
        return false;
    }
    guarded = guard;
    rt_gpu_open(rt);
#ifdef RT_NCCL
    if (rt->state->flags.loopback)
        rt_loopback_map(rt, fd, slots_offset(t));
#endif
    rt_gpu_expect(rt, t->symmetric_bytes + t->local_bytes);
    rt->symmetric = allocate(rt, RT_SPACE_SYMMETRIC, t->symmetric_bytes);
    rt->local = allocate(rt, RT_SPACE_LOCAL, t->local_bytes);
    RT_CUDA_CALL(rt, cudaDeviceSynchronize());
    rt_gpu_measure(RT_OUT_ARENA);
    rt_image_load(rt);
    rt_gpu_measure(RT_OUT_KERNELS);
    rt_blas_open(rt);
#ifdef RT_CUDNN
    rt_cudnn_open(rt);
#endif
    rt_gpu_measure(RT_OUT_BLAS);
    rt_norm_open(rt);
    rt_stage_open(rt);
    rt_comm_open(rt);
    if (t->tensor_parts > 1 || t->context_parts > 1)
        rt_parts_open(rt);
    rt_gpu_measure(RT_OUT_NCCL); /* pinned memory, events; NCCL itself in rt_comm_begin */
    return true;
}

void rt_arena_free(Rt *rt)
{
    const int64_t guard = guarded ? GUARD : 0;
    give_back(rt, RT_SPACE_SYMMETRIC, rt->symmetric - guard);
    give_back(rt, RT_SPACE_LOCAL, rt->local - guard);
    rt->symmetric = rt->local = NULL;
}

static bool is_pattern(const Rt *rt, const char *at)
{
    unsigned char bytes[GUARD];
    RT_CUDA_CALL(rt, cudaMemcpy(bytes, at, GUARD, cudaMemcpyDeviceToHost));
    for (int i = 0; i < GUARD; i++)
        if (bytes[i] != PATTERN)
            return false;
    return true;
}

bool rt_arena_intact(const Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    return is_pattern(rt, rt->symmetric - GUARD) &&
           is_pattern(rt, rt->symmetric + t->symmetric_bytes) &&
           is_pattern(rt, rt->local - GUARD) &&
           is_pattern(rt, rt->local + t->local_bytes);
}

/* ---- the host's access ----------------------------------------------------------- */

static char *address(const Rt *rt, RtSpace space, int64_t offset)
{
    return (space == RT_SPACE_SYMMETRIC ? rt->symmetric : rt->local) + offset;
}

void rt_arena_read(const Rt *rt, RtSpace space, int64_t offset, void *to, int64_t bytes)
{
    RT_CUDA_CALL(rt, cudaMemcpyAsync(to, address(rt, space, offset), (size_t)bytes,
                                     cudaMemcpyDeviceToHost, rt_gpu.stream[RT_COMPUTE]));
    RT_CUDA_CALL(rt, cudaStreamSynchronize(rt_gpu.stream[RT_COMPUTE]));
}

void rt_arena_write(Rt *rt, RtSpace space, int64_t offset, const void *from,
                    int64_t bytes)
{
    RT_CUDA_CALL(rt, cudaMemcpyAsync(address(rt, space, offset), from, (size_t)bytes,
                                     cudaMemcpyHostToDevice, rt_gpu.stream[RT_COMPUTE]));
    RT_CUDA_CALL(rt, cudaStreamSynchronize(rt_gpu.stream[RT_COMPUTE]));
}

void rt_arena_pin(const Rt *rt, void *at, int64_t bytes)
{
    const cudaError_t e = cudaHostRegister(at, (size_t)bytes, cudaHostRegisterDefault);
    if (e != cudaSuccess) {
        cudaGetLastError(); /* reported here, so not an error of the next call */
        rt_say("trainer: warning: [rank %d] %.2f MiB of memory for saves cannot be "
               "pinned (%s): the copies for them take longer",
               rt->rank, (double)bytes / 1048576.0, cudaGetErrorString(e));
    }
}

/* ---- windows --------------------------------------------------------------------- */

typedef struct Window {
    char *host; /* pinned, allocated at first use */
    void *at;
    int64_t bytes;
    int mode;
} Window;
static Window windows[RT_WINDOWS];

void *rt_window(Rt *rt, int window, void *at, int64_t bytes, int mode)
{
    Window *w = &windows[window];
    if (w->host == NULL) {
        RT_CUDA_CALL(
            rt, cudaHostAlloc((void **)&w->host, RT_WINDOW_BYTES, cudaHostAllocDefault));
    }
    w->at = at;
    w->bytes = bytes;
    w->mode = mode;
    if (mode == RT_READ) {
        RT_CUDA_CALL(rt,
                     cudaMemcpyAsync(w->host, at, (size_t)bytes, cudaMemcpyDeviceToHost,
                                     rt_gpu.stream[RT_COMPUTE]));
        RT_CUDA_CALL(rt, cudaStreamSynchronize(rt_gpu.stream[RT_COMPUTE]));
    }
    return w->host;
}

void rt_window_close(Rt *rt, int window)
{
    const Window *w = &windows[window];
    if (w->mode == RT_WRITE) {
        RT_CUDA_CALL(rt,
                     cudaMemcpyAsync(w->at, w->host, (size_t)w->bytes,
                                     cudaMemcpyHostToDevice, rt_gpu.stream[RT_COMPUTE]));
        RT_CUDA_CALL(rt, cudaStreamSynchronize(rt_gpu.stream[RT_COMPUTE]));
    }
}
