/* SPDX-License-Identifier: MIT-0 */
/* rt_parts.c: parts exchange what they have of a value, on the device. In: pointers to
 * what this rank's parts have, and to what they get. Out: an exchange on the stream of
 * collectives, and kernels on the compute stream, which waits for it: what is enqueued
 * there later may read the results, and write again what the meet has read.
 *
 * 1. Each rank sends the others what they need of its parts; if that is not consecutive,
 *    a kernel packs it first. What it receives lies in a planned buffer, part after part,
 *    and behind it what was packed; its own parts' values stay where they are.
 * 2. A kernel reads all parts in their order. It is the same for any number of ranks, and
 *    so are the bits.
 *
 * A meet completes on no rank before all ranks of the group reached it, as the proof of
 * the placement assumes; of other ranks' values each reads copies only.
 *
 * Ranks exchange on the stream of all collectives (rt_nccl.c), behind gathers and sums
 * that started before. Those that are held begin behind the exchange: they move while the
 * parts compute until the next meet. */
#include "cuda/rt_gpu.h"

_Static_assert(RT_CONTROL_LOSSES + sizeof(RtUpdate) + sizeof(RtStepIn) +
                       sizeof(RtStepOut) + sizeof(RtRound) + 256 +
                       2 * RT_MAX_PARTS * sizeof(int32_t) <=
                   RT_CONTROL_BYTES(0),
               "the control area ends with the numbers of parts");

/* The end of the control area, after what rt_norm.c has there: of each part here, along
 * tensor, then along context. */
static int32_t *numbers(const Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    return (int32_t *)rt_symmetric(rt, t->control_offset +
                                           RT_CONTROL_BYTES(t->micro_batches)) -
           2 * RT_MAX_PARTS;
}

void rt_parts_open(Rt *rt)
{
    RtParts *p = &rt->state->parts;
    int32_t number[2 * RT_MAX_PARTS];
    p->rt = rt;
    rt_parts_lay(rt->trainer, rt->rank, p);
    p->tensor.number = numbers(rt);
    p->context.number = numbers(rt) + RT_MAX_PARTS;
    for (int i = 0; i < RT_MAX_PARTS; i++) {
        number[i] = p->tensor.first + i / p->tensor.step % p->tensor.here;
        number[RT_MAX_PARTS + i] = p->context.first + i % p->context.here;
    }
    RT_CUDA_CALL(rt,
                 cudaMemcpy(numbers(rt), number, sizeof number, cudaMemcpyHostToDevice));
}

RtParts *rt_parts(Rt *rt)
{
    return &rt->state->parts;
}

#ifdef RT_NCCL
/* What a rank sends to another of one of its parts: all that the part has, or what the
 * parts there need of it. So much of each other part arrives. */
static int64_t sent_bytes(const RtAlong *along, const RtMeet *m)
{
    return m->piece_bytes > 0 ? m->piece_bytes * along->here : m->bytes;
}

/* As plan_part_stride of gen/ has it. */
static int64_t meeting_stride(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* The place of part q of another rank, in a lane: the planned buffer has one for each. */
static char *received(const RtParts *p, const RtAlong *along, const RtMeet *m, int lane,
                      int q)
{
    const int64_t stride = meeting_stride(sent_bytes(along, m));
    const int place = q < along->first ? q : q - along->here;
    return (char *)rt_symmetric(p->rt, p->rt->trainer->meeting_offset) +
           (lane / along->lane_step * (along->all - along->here) + place) * stride;
}

/* Behind what is received: what all parts need of each part here, part after part. */
static char *packed(const RtParts *p, const RtAlong *along, const RtMeet *m, int lane,
                    int q)
{
    const int others = along->lanes * (along->all - along->here);
    const int place = lane / along->lane_step * along->here + q;
    return (char *)rt_symmetric(p->rt, p->rt->trainer->meeting_offset) +
           others * meeting_stride(sent_bytes(along, m)) +
           place * meeting_stride(m->bytes);
}

static void pack(const RtParts *p, const RtAlong *along, const RtMeet *m)
{
    for (int lane = 0; lane < along->lanes * along->lane_step; lane += along->lane_step)
        for (int q = 0; q < along->here; q++) {
            const void *from = p->from[lane + q * along->step];
            void *to = packed(p, along, m, lane, q);
            rt_launch(p->rt, m->pack, m->pack_blocks, along->all, (void *[]){&from, &to});
        }
}

static void exchange(Rt *rt, RtGroup ranks, const RtParcel *parcel, int n,
                     int64_t most_bytes)
{
    const cudaStream_t stream = rt_gpu.stream[RT_GATHER];
    rt_detour_begin(rt);
    rt_profile_from(rt, stream, "parts meet", 0);
    rt_transport->exchange(rt, RT_GATHER, ranks, 0, parcel, n, most_bytes);
    rt_profile_to(rt, stream);
    rt_detour_end(rt);
    rt_held_begin(rt);
}

/* All lanes exchange at once. */
static void receive(const RtParts *p, const RtAlong *along, const RtMeet *m)
{
    Rt *rt = p->rt;
    const int64_t bytes = sent_bytes(along, m);
    const int64_t piece = m->piece_bytes * along->here;
    const int lanes = along->lanes * along->lane_step;
    RtParcel parcel[RT_MAX_PARTS];
    int n = 0;
    for (int lane = 0; lane < lanes; lane += along->lane_step)
        for (int q = 0; q < along->all; q++) {
            const int peer = q / along->here, mine = q % along->here;
            const char *from = m->pack ? packed(p, along, m, lane, mine)
                                       : p->from[lane + mine * along->step];
            if (q >= along->first && q < along->first + along->here)
                continue;
            rt_count_bytes(rt, rt_group_rank(along->ranks, rt->rank, peer), bytes,
                           &rt->state->met_bytes);
            parcel[n++] = (RtParcel){.peer = peer,
                                     .send = from + peer * piece,
                                     .send_bytes = bytes,
                                     .receive = received(p, along, m, lane, q),
                                     .receive_bytes = bytes};
        }
    exchange(rt, along->ranks, parcel, n, along->lanes * along->here * bytes);
}

/* from: what part `part` reads of each of all parts along the axis, once all ranks have
 * sent it: pieces that were packed; or all, and where only a piece arrives, kernels read
 * nothing else: from is where the whole value would begin. */
static void find_parts(const RtParts *p, const RtAlong *along, const RtMeet *m, int lane,
                       int part, const void **from)
{
    const int64_t piece = m->piece_bytes, first = along->first;
    for (int q = 0; q < along->all; q++) {
        const bool here = q >= first && q < first + along->here;
        if (m->pack)
            from[q] = here ? packed(p, along, m, lane, q - along->first) + part * piece
                           : received(p, along, m, lane, q) + (part - first) * piece;
        else
            from[q] = here ? p->from[lane + (q - along->first) * along->step]
                           : received(p, along, m, lane, q) - first * piece;
    }
}
#endif

void rt_meet_on_device(RtParts *parts, const RtAlong *along, const RtMeet *m, float beta,
                       int n)
{
    const void *from[RT_MAX_PARTS];
    RtKernel *kernel = m->kernel;
#ifdef RT_NCCL
    const bool joins = m->bytes > 0 && along->here < along->all;
    if (joins && m->pack) {
        pack(parts, along, m);
        kernel = m->packed;
    }
    if (joins)
        receive(parts, along, m);
#endif
    for (int lane = 0; lane < along->lanes * along->lane_step; lane += along->lane_step) {
        for (int q = 0; q < along->here; q++)
            from[q] = parts->from[lane + q * along->step];
        for (int p = 0; p < n; p++) {
            int part = along->first + p;
#ifdef RT_NCCL
            if (joins)
                find_parts(parts, along, m, lane, part, from);
#endif
            rt_launch(parts->rt, kernel, m->blocks, 1,
                      (void *[]){from, &part, &parts->to[lane + p * along->step], &beta});
        }
    }
}
