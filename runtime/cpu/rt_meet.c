/* SPDX-License-Identifier: MIT-0 */
/* rt_meet.c: parts exchange what they have of a value. In: pointers to what this rank's
 * parts have, and to what they get. Out: the results of a kernel that reads all parts.
 *
 * 1. The ranks that share the parts along the axis begin a meet together: each has
 * published that its parts are complete.
 * 2. Peers' values are where this rank's are: every rank has the same layout of its
 *    symmetric space. A rank computes what its own parts get, and reads peers directly.
 * 3. They end it together, so that afterwards each may write again what others read. */
#include "cpu/rt_cpu.h"

RtParts *rt_parts(Rt *rt)
{
    RtParts *p = &rt->state->parts;
    if (p->rt == NULL) {
        p->rt = rt;
        rt_parts_lay(rt->trainer, rt->rank, p);
        for (int i = 0; i < RT_MAX_PARTS; i++) {
            p->tensor.number[i] = p->tensor.first + i / p->tensor.step % p->tensor.here;
            p->context.number[i] = p->context.first + i % p->context.here;
        }
    }
    return p;
}

/* What each part along the axis has, on whichever rank computes it. */
static void find_parts(const RtParts *p, const RtAlong *along, int lane,
                       const void **from)
{
    const Rt *rt = p->rt;
    for (int q = 0; q < along->all; q++) {
        const int owner = rt_group_rank(along->ranks, rt->rank, q / along->here);
        const char *here = p->from[lane + q % along->here * along->step];
        from[q] = owner == rt->rank ? here : rt->peer[owner] + (here - rt->symmetric);
    }
}

void rt_meet(RtParts *parts, const RtAlong *along, RtMeetKernel *kernel, float beta,
             int n)
{
    const void *from[RT_MAX_PARTS];
    Rt *rt = parts->rt;
    rt_comm_join(rt, along->ranks);
    for (int lane = 0; lane < along->lanes * along->lane_step; lane += along->lane_step) {
        find_parts(parts, along, lane, from);
        for (int p = 0; p < n; p++)
            kernel(along->first + p, from, parts->to[lane + p * along->step], beta);
    }
    rt_comm_join(rt, along->ranks);
}

void rt_piece(RtParts *parts, const RtAlong *along, RtMeetKernel *kernel, float beta,
              int n)
{
    for (int lane = 0; lane < along->lanes * along->lane_step; lane += along->lane_step)
        for (int p = 0; p < n; p++)
            kernel(along->first + p, &parts->from[lane + p * along->step],
                   parts->to[lane + p * along->step], beta);
}
