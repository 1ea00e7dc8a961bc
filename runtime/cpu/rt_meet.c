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

RtParts *rt_parts(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    RtParts *p = &rt->state->parts;
    p->rt = rt;
    p->all = t->parts;
    p->here = t->parts / rt_group_ranks(t->sharers);
    p->first = rt_group_index(t->sharers, rt->rank) * p->here;
    for (int i = 0; i < p->here; i++)
        p->number[i] = p->first + i;
    return p;
}

/* What each part has, on whichever rank computes it. */
static void find_parts(const RtParts *p, const void **from)
{
    const Rt *rt = p->rt;
    for (int q = 0; q < p->all; q++) {
        const int owner = rt_group_rank(rt->trainer->sharers, rt->rank, q / p->here);
        const char *here = p->from[q % p->here];
        from[q] = owner == rt->rank ? here : rt->peer[owner] + (here - rt->symmetric);
    }
}

void rt_meet(RtParts *parts, RtMeetKernel *kernel, float beta, int n)
{
    const void *from[RT_MAX_PARTS];
    Rt *rt = parts->rt;
    find_parts(parts, from);
    rt_comm_join(rt, rt->trainer->sharers);
    for (int p = 0; p < n; p++)
        kernel(parts->first + p, from, parts->to[p], beta);
    rt_comm_join(rt, rt->trainer->sharers);
}
