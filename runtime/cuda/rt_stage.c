/* SPDX-License-Identifier: MIT-0 */
/* rt_stage.c: copies micro-batches to the device. In: numbers that rt_data.c puts into
 * pinned memory. Out: copies enqueued before the micro-step that reads them; the number
 * of its targets. The host is at most a few micro-batches ahead. */
#include "cuda/rt_gpu.h"

#include <time.h>

enum { SLOTS = 4 };

static struct {
    int32_t *numbers; /* pinned: tokens, targets, starts */
    cudaEvent_t sent;
    bool used;
} slots[SLOTS];
static int at;

static RtKernel targets_kernel = {.name = "rt_targets_kernel", .threads = 256};

static int64_t batch_tokens(const Rt *rt)
{
    return rt->trainer->micro_batch * rt->trainer->seq_tokens;
}

void rt_stage_open(Rt *rt)
{
    rt_kernel_prepare(&targets_kernel);
    for (int i = 0; i < SLOTS; i++) {
        RT_CUDA_CALL(rt, cudaHostAlloc((void **)&slots[i].numbers,
                                       (size_t)batch_tokens(rt) * 3 * sizeof(int32_t),
                                       cudaHostAllocDefault));
        RT_CUDA_CALL(rt,
                     cudaEventCreateWithFlags(&slots[i].sent, cudaEventDisableTiming));
    }
}

RtStage rt_stage(Rt *rt)
{
    const int64_t n = batch_tokens(rt);
    at = (at + 1) % SLOTS;
    if (slots[at].used)
        rt_gpu_reach(rt, slots[at].sent);
    int32_t *numbers = slots[at].numbers;
    return (RtStage){numbers, numbers + n, numbers + 2 * n};
}

static void send(Rt *rt, int64_t offset, const int32_t *numbers)
{
    RT_CUDA_CALL(rt, cudaMemcpyAsync(rt_local(rt, offset), numbers,
                                     (size_t)batch_tokens(rt) * sizeof *numbers,
                                     cudaMemcpyHostToDevice, rt_gpu.stream[RT_COMPUTE]));
}

void rt_stage_send(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    const int64_t n = batch_tokens(rt);
    const int32_t *numbers = slots[at].numbers;
    send(rt, t->tokens_offset, numbers);
    send(rt, t->targets_offset, numbers + n);
    if (t->packed)
        send(rt, t->starts_offset, numbers + 2 * n);
    RT_CUDA_CALL(rt, cudaEventRecord(slots[at].sent, rt_gpu.stream[RT_COMPUTE]));
    slots[at].used = true;
}

void rt_stage_close(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    int64_t n = batch_tokens(rt);
    void *targets = rt_local(rt, t->targets_offset);
    void *control = rt_symmetric(rt, t->control_offset);
    rt_stage_send(rt);
    if (!rt_counts(rt))
        return;
    const int64_t blocks = (n + 255) / 256;
    rt_launch(rt, &targets_kernel, blocks < 64 ? blocks : 64, 1,
              (void *[]){&targets, &n, &control});
}
