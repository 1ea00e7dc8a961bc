/* SPDX-License-Identifier: MIT-0 */
/* rt_meet.c: parts exchange what they have of a value. In: pointers to what this rank's
 * parts have, and to what they get. Out: the results of a kernel that reads all parts.
 *
 * 1. The ranks that share the parts begin a meet together: each has published that its
 *    parts are complete.
 * 2. Peers' values are where this rank's are: every rank has the same layout of its
 *    symmetric space. A rank computes what its own parts get, and reads peers directly.
 * 3. They end it together, so that afterwards each may write again what others read. */
#include "cpu/rt_cpu.h"

#include <string.h>

RtParts *rt_parts(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    RtParts *p = &rt->state->parts;
    p->rt = rt;
    p->all = t->parts;
    p->here = t->parts / rt_group_ranks(t->tensor);
    p->first = rt_group_index(t->tensor, rt->rank) * p->here;
    for (int i = 0; i < p->here; i++)
        p->number[i] = p->first + i;
    return p;
}

/* What each of all parts has, on whatever rank. */
static void find_parts(const RtParts *p, const void **from)
{
    const Rt *rt = p->rt;
    for (int q = 0; q < p->all; q++) {
        const int owner = rt_group_rank(rt->trainer->tensor, rt->rank, q / p->here);
        const char *here = p->from[q % p->here];
        from[q] = owner == rt->rank ? here : rt->peer[owner] + (here - rt->symmetric);
    }
}

void rt_meet(RtParts *parts, RtMeetKernel *kernel, float beta, int n)
{
    const void *from[RT_MAX_PARTS];
    Rt *rt = parts->rt;
    find_parts(parts, from);
    rt_comm_join(rt, rt->trainer->tensor);
    for (int p = 0; p < n; p++)
        kernel(parts->first + p, from, parts->to[p], beta);
    rt_comm_join(rt, rt->trainer->tensor);
}

/* Rounds once, as sums do. */
static void add_row(void *to, const void *from, int64_t bytes, RtDtype dtype)
{
    const int64_t n = bytes / (int64_t)rt_dtype_bytes(dtype);
    if (dtype == RT_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)to)[i] += ((const float *)from)[i];
    else if (dtype == RT_F64)
        for (int64_t i = 0; i < n; i++)
            ((double *)to)[i] += ((const double *)from)[i];
    else if (dtype == RT_BF16)
        for (int64_t i = 0; i < n; i++)
            ((rt_bf16 *)to)[i] =
                rt_bf16_from_f32(rt_f32_from_bf16(((rt_bf16 *)to)[i]) +
                                 rt_f32_from_bf16(((const rt_bf16 *)from)[i]));
    else
        for (int64_t i = 0; i < n; i++)
            ((rt_f16 *)to)[i] =
                rt_f16_from_f32(rt_f32_from_f16(((rt_f16 *)to)[i]) +
                                rt_f32_from_f16(((const rt_f16 *)from)[i]));
}

void rt_meet_rows(void *to, int64_t to_stride, const void *from, int64_t from_stride,
                  int64_t bytes, int64_t rows, RtDtype dtype, float beta)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++)
        if (beta != 0)
            add_row((char *)to + i * to_stride, (const char *)from + i * from_stride,
                    bytes, dtype);
        else
            memcpy((char *)to + i * to_stride, (const char *)from + i * from_stride,
                   (size_t)bytes);
}
