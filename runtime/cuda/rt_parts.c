/* SPDX-License-Identifier: MIT-0 */
/* rt_parts.c: parts exchange what they have of a value, on the device. In: pointers to
 * what this rank's parts have, and to what they get. Out: an exchange on the stream of
 * collectives, and kernels on the compute stream, which waits for it: what is enqueued
 * there later may read the results, and write again what the meet has read.
 *
 * 1. Each rank sends the others what they need of its parts. What it receives lies in a
 *    planned buffer, part after part; its own parts' values stay where they are.
 * 2. A kernel reads all parts in their order. It is the same for any number of ranks, and
 *    so are the bits.
 *
 * A meet completes on no rank before all ranks of the group reached it, as the proof of
 * the placement assumes; of other ranks' values each reads copies only.
 *
 * Ranks exchange on the stream of all collectives (rt_nccl.c), behind gathers and sums
 * that started before. */
#include "cuda/rt_gpu.h"

_Static_assert(RT_CONTROL_LOSSES + sizeof(RtUpdate) + sizeof(RtStepIn) +
                       sizeof(RtStepOut) + sizeof(RtRound) + 256 +
                       RT_MAX_PARTS * sizeof(int32_t) <=
                   RT_CONTROL_BYTES(0),
               "the control area ends with the numbers of parts");

/* The end of the control area, after what rt_norm.c has there. */
static int32_t *numbers(const Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    return (int32_t *)rt_symmetric(rt, t->control_offset +
                                           RT_CONTROL_BYTES(t->micro_batches)) -
           RT_MAX_PARTS;
}

void rt_parts_open(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    RtParts *p = &rt->state->parts;
    int32_t number[RT_MAX_PARTS];
    p->rt = rt;
    p->all = t->parts;
    p->here = t->parts / rt_group_ranks(t->sharers);
    p->first = rt_group_index(t->sharers, rt->rank) * p->here;
    p->number = numbers(rt);
    for (int i = 0; i < p->here; i++)
        number[i] = p->first + i;
    RT_CUDA_CALL(rt, cudaMemcpy(numbers(rt), number, (size_t)p->here * sizeof *number,
                                cudaMemcpyHostToDevice));
}

RtParts *rt_parts(Rt *rt)
{
    return &rt->state->parts;
}

#ifdef RT_NCCL
/* The place of part q of another rank: the planned buffer has one for each, as large as
 * the largest meet needs. */
static char *received(const RtParts *p, int q)
{
    const RtTrainer *t = p->rt->trainer;
    const int64_t stride = t->meeting_bytes / (p->all - p->here);
    return (char *)rt_local(p->rt, t->meeting_offset) +
           (q < p->first ? q : q - p->here) * stride;
}

static void exchange(Rt *rt, const RtParcel *parcel, int n, int64_t most_bytes)
{
    const cudaStream_t stream = rt_gpu.stream[RT_GATHER];
    rt_detour_begin(rt);
    rt_profile_from(rt, stream, "parts meet", 0);
    rt_transport->exchange(rt, RT_GATHER, rt->trainer->sharers, 0, parcel, n, most_bytes);
    rt_profile_to(rt, stream);
    rt_detour_end(rt);
}

/* from: what each of all parts has, once all ranks have sent it. Where only a piece
 * arrives, kernels read nothing else: from is where the whole value would begin. */
static void receive(const RtParts *p, const RtMeet *m, const void **from)
{
    Rt *rt = p->rt;
    const RtGroup group = rt->trainer->sharers;
    const int64_t piece = m->piece_bytes * p->here;
    const int64_t bytes = piece > 0 ? piece : m->bytes;
    RtParcel parcel[RT_MAX_PARTS];
    int n = 0;
    for (int q = 0; q < p->all; q++) {
        const int peer = q / p->here, i = q % p->here;
        from[q] = p->from[i];
        if (q >= p->first && q < p->first + p->here)
            continue;
        from[q] = received(p, q) - p->first / p->here * piece;
        rt_count_bytes(rt, rt_group_rank(group, rt->rank, peer), bytes,
                       &rt->state->met_bytes);
        parcel[n++] = (RtParcel){.peer = peer,
                                 .send = (const char *)p->from[i] + peer * piece,
                                 .send_bytes = bytes,
                                 .receive = received(p, q),
                                 .receive_bytes = bytes};
    }
    exchange(rt, parcel, n, p->here * bytes);
}
#endif

void rt_meet_on_device(RtParts *parts, const RtMeet *m, float beta, int n)
{
    const void **from = parts->from;
#ifdef RT_NCCL
    const void *of_all[RT_MAX_PARTS];
    if (m->bytes > 0 && parts->here < parts->all) {
        receive(parts, m, of_all);
        from = of_all;
    }
#endif
    for (int p = 0; p < n; p++) {
        int part = parts->first + p;
        rt_launch(parts->rt, m->kernel, m->blocks, 1,
                  (void *[]){from, &part, &parts->to[p], &beta});
    }
}
