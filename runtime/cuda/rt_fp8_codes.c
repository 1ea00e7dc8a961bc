/* SPDX-License-Identifier: MIT-0 */
/* rt_fp8_codes.c: weights that are gathered in fp8, on the device. In: this rank's
 * weights. Out: the scale of each parameter, equal on all ranks, and codes of what this
 * rank holds.
 *
 * A scale follows from the largest element of the whole parameter, as an integer
 * (rt_fp8_device.h), so neither order nor mesh changes it: scales and codes are those
 * that a rank would make of gathered weights. */
#include "cuda/rt_gpu.h"

static RtKernel largest_kernel = {.name = "rt_largest_kernel", .threads = 256};
static RtKernel scales_kernel = {.name = "rt_scales_kernel", .threads = 256};
static RtKernel encode_kernel = {.name = "rt_encode_kernel", .threads = 256};
enum { EACH = 8 }; /* elements of a thread: RT_CODES_EACH */

/* The first use is before the first step, not in a graph. */
static void prepare(RtKernel *k)
{
    if (k->handle == NULL)
        rt_kernel_prepare(k);
}

static int64_t blocks_of(int64_t elems)
{
    return (elems + 256 * EACH - 1) / (256 * EACH);
}

static void *weights_at(const Rt *rt, const RtSegment *s, int64_t at)
{
    return rt_symmetric(rt, s->param_shard + at * (int64_t)rt_dtype_bytes(s->dtype));
}

static void add_largest(void *ctx, const RtParam *p, int64_t at, int64_t n)
{
    Rt *rt = ctx;
    const RtTrainer *t = rt->trainer;
    void *w = weights_at(rt, &t->segments[p->segment], at);
    int32_t *largest = (int32_t *)rt_symmetric(rt, t->largest_offset) + p->scale;
    /* more blocks would only meet at the same word */
    const int64_t blocks = blocks_of(n), most = 4 * rt_gpu.multiprocessors;
    rt_launch(rt, &largest_kernel, blocks < most ? blocks : most, 1,
              (void *[]){&w, &n, &largest});
}

void rt_largest_add(Rt *rt, int segment)
{
    prepare(&largest_kernel);
    rt_resting_runs(rt, segment, false, add_largest, rt);
}

void rt_largest_reduce(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    int32_t *largest = rt_symmetric(rt, t->largest_offset);
    void *scales = rt_local(rt, t->scales_offset);
    int64_t n = t->n_scales;
    prepare(&scales_kernel);
#ifdef RT_NCCL
    rt_detour_begin(rt);
    rt_transport->largest(rt, largest, n);
    rt_detour_end(rt);
#endif
    rt_launch(rt, &scales_kernel, (n + 255) / 256, 1, (void *[]){&largest, &n, &scales});
}

static void encode(void *ctx, const RtParam *p, int64_t at, int64_t n)
{
    Rt *rt = ctx;
    const RtTrainer *t = rt->trainer;
    const RtSegment *s = &t->segments[p->segment];
    const int64_t item = t->param_dtype == RT_F64 ? 8 : 4;
    void *w = weights_at(rt, s, at), *codes = rt_symmetric(rt, s->codes + at);
    void *scale = rt_local(rt, t->scales_offset + p->scale * item);
    rt_launch(rt, &encode_kernel, blocks_of(n), 1, (void *[]){&w, &n, &scale, &codes});
}

void rt_encode_segment(Rt *rt, int segment)
{
    prepare(&encode_kernel);
    rt_resting_runs(rt, segment, true, encode, rt);
}
