/* SPDX-License-Identifier: MIT-0 */
/* rt_fp8_codes.c: weights that are gathered in fp8. In: this rank's weights. Out: the
 * scale of each parameter, equal on all ranks, and codes of what this rank holds.
 *
 * A scale follows from the largest element of the whole parameter, as an integer
 * (rt_fp8.h), so neither order nor mesh changes it: scales and codes are those that a
 * rank would make of gathered weights. */
#include "cpu/rt_cpu.h"
#include "rt_fp8.h"

static float load(RtDtype d, const void *w, int64_t i)
{
    return d == RT_F64    ? (float)((const double *)w)[i]
           : d == RT_F32  ? ((const float *)w)[i]
           : d == RT_BF16 ? rt_f32_from_bf16(((const rt_bf16 *)w)[i])
                          : rt_f32_from_f16(((const rt_f16 *)w)[i]);
}

static double scale_of(const Rt *rt, int i)
{
    const void *scales = rt_local(rt, rt->trainer->scales_offset);
    return rt->trainer->param_dtype == RT_F64 ? ((const double *)scales)[i]
                                              : (double)((const float *)scales)[i];
}

static void add_largest(void *ctx, const RtParam *p, int64_t at, int64_t n)
{
    Rt *rt = ctx;
    const RtTrainer *t = rt->trainer;
    const RtSegment *s = &t->segments[p->segment];
    const void *w =
        rt_symmetric(rt, s->param_shard + at * (int64_t)rt_dtype_bytes(s->dtype));
    int32_t *largest = rt_symmetric(rt, t->largest_offset);
    int32_t top = 0;
#pragma omp parallel for schedule(static) reduction(max : top)
    for (int64_t i = 0; i < n; i++) {
        const int32_t size = rt_fp8_size(load(s->dtype, w, i));
        top = size > top ? size : top;
    }
    largest[p->scale] = top;
}

void rt_largest_add(Rt *rt, int segment)
{
    rt_resting_runs(rt, segment, false, add_largest, rt);
}

void rt_largest_reduce(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    void *scales = rt_local(rt, t->scales_offset);
    rt_exchange_begin(rt);
    rt_exchange_publish(rt, 0); /* of the ranks of one machine */
    for (int i = 0; i < t->n_scales; i++) {
        int32_t top = 0;
        for (int r = 0; r < rt->world_size; r++) {
            const int32_t *part = (const int32_t *)(rt->peer[r] + t->largest_offset);
            top = part[i] > top ? part[i] : top;
        }
        if (t->param_dtype == RT_F64)
            ((double *)scales)[i] = rt_fp8_scale(top, RT_E4M3_TOP);
        else
            ((float *)scales)[i] = rt_fp8_scale(top, RT_E4M3_TOP);
    }
    rt_exchange_end(rt);
    rt_exchange_begin(rt); /* all ranks have read ours */
}

static void encode(void *ctx, const RtParam *p, int64_t at, int64_t n)
{
    Rt *rt = ctx;
    const RtSegment *s = &rt->trainer->segments[p->segment];
    const void *w =
        rt_symmetric(rt, s->param_shard + at * (int64_t)rt_dtype_bytes(s->dtype));
    uint8_t *codes = rt_symmetric(rt, s->codes + at);
    const float inverse = (float)(1 / scale_of(rt, p->scale));
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        codes[i] = rt_e4m3_from_f32(load(s->dtype, w, i) * inverse);
}

void rt_encode_segment(Rt *rt, int segment)
{
    rt_resting_runs(rt, segment, true, encode, rt);
}
