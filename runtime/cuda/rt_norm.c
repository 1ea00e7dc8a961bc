/* SPDX-License-Identifier: MIT-0 */
/* rt_norm.c: sums and the end of a step, on the device. In: leaves' nodes, this rank's
 * shards of the summed gradient, losses. Out: partial sums; loss, gradient norm and what
 * the optimizer reads, all in device memory: the host enqueues the whole step and learns
 * of its end.
 *
 * Kernels read what changes between steps or rounds from device memory, where copies
 * outside the step's CUDA graphs put it.
 *
 * The norm is exact as on the CPU: chunk sums of squares are added as integers to the
 * control area, whose words one all-reduce adds over ranks. One rank counts each loss,
 * and it is zero elsewhere, so adding the losses is exact, too. */
#include "cuda/rt_gpu.h"
#include "rt_philox.h"

static RtKernel merge_kernel = {.name = "rt_merge_kernel", .threads = 256};
static RtKernel squares_kernel = {.name = "rt_squares_kernel", .threads = 256};
static RtKernel finish_kernel = {.name = "rt_finish_kernel", .threads = 32};
/* Of 2, 4 and 8 ranks; the last one of 16 and more. */
enum { SUM_KERNELS = 4, SUM_BLOCKS = 32 };
static RtKernel sum_kernels[SUM_KERNELS] = {
    {.name = "rt_sum_2_kernel", .threads = 1024},
    {.name = "rt_sum_4_kernel", .threads = 1024},
    {.name = "rt_sum_8_kernel", .threads = 1024},
    {.name = "rt_sum_16_kernel", .threads = 512},
};

/* Pinned: read, or written, when the device gets there. */
static RtStepIn *in;
static RtStepOut *out;
static RtRound *rounds; /* constants, one per round */

/* After the losses in the control area. */
typedef struct RtDeviceStep {
    double loss; /* of the current micro-batch */
    RtUpdate update;
    RtStepIn in;
    RtStepOut out;
    RtRound round;
} RtDeviceStep;

static char *control(const Rt *rt)
{
    return rt_symmetric(rt, rt->trainer->control_offset);
}

static RtDeviceStep *device_step(const Rt *rt)
{
    const int64_t losses_bytes = rt->trainer->micro_batches * 8;
    return (RtDeviceStep *)(control(rt) +
                            (RT_CONTROL_LOSSES + losses_bytes + 63) / 64 * 64);
}

_Static_assert(sizeof(RtDeviceStep) + RT_CONTROL_LOSSES + 64 <= RT_CONTROL_BYTES(0),
               "the control area holds it all");

void rt_norm_open(Rt *rt)
{
    rt_kernel_prepare(&merge_kernel);
    for (int i = 0; i < SUM_KERNELS; i++)
        rt_kernel_prepare(&sum_kernels[i]);
    rt_kernel_prepare(&squares_kernel);
    rt_kernel_prepare(&finish_kernel);
    RT_CUDA_CALL(rt, cudaHostAlloc((void **)&in, sizeof *in, cudaHostAllocDefault));
    RT_CUDA_CALL(rt, cudaHostAlloc((void **)&out, sizeof *out, cudaHostAllocDefault));
    const int64_t n = rt->trainer->rounds;
    RT_CUDA_CALL(rt, cudaHostAlloc((void **)&rounds, (size_t)n * sizeof *rounds,
                                   cudaHostAllocDefault));
    for (int64_t r = 0; r < n; r++)
        rounds[r] = (RtRound){rt_merge_levels(r), rt_is_last_round(rt, r)};
}

/* Enqueues a copy to the device. */
static void send(Rt *rt, void *to, const void *from, size_t bytes)
{
    RT_CUDA_CALL(rt, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice,
                                     rt_gpu.stream[RT_COMPUTE]));
}

static int64_t blocks_of(int64_t elems)
{
    return (elems + 255) / 256;
}

/* ---- sums ------------------------------------------------------------------------ */

void rt_round(Rt *rt, int64_t round)
{
    send(rt, &device_step(rt)->round, &rounds[round], sizeof *rounds);
}

void rt_merge(Rt *rt, void *node, void *partials, int64_t elems)
{
    const RtRound *round = &device_step(rt)->round;
    rt_launch(rt, &merge_kernel, blocks_of(elems), 1,
              (void *[]){&node, &partials, &elems, &elems, &round});
}

/* elems are whole grains, so no thread reads beyond them. A block takes 16 bytes for each
 * of its threads a turn, and has a multiprocessor for itself: SUM_BLOCKS of them add at
 * nearly the rate of memory, and leave the others to what runs beside them. */
void rt_add_parts(Rt *rt, cudaStream_t stream, const RtRankParts *parts, int64_t elems,
                  void *to, int ctas)
{
    const int64_t bytes = elems * (int64_t)rt_dtype_bytes(rt->trainer->reduce_dtype);
    const int64_t most = ctas > 0 ? ctas : SUM_BLOCKS;
    RtRankParts p = *parts;
    int kernel = 0;
    while (kernel < SUM_KERNELS - 1 && 4 << kernel <= p.ranks)
        kernel++;
    const int64_t turn = sum_kernels[kernel].threads * 16;
    const int64_t blocks = (bytes + turn - 1) / turn;
    if (elems % RT_GRAIN_ELEMS != 0 || p.stride % RT_GRAIN_ELEMS != 0)
        rt_fail(rt, RT_EXIT_ERROR, "a sum of %lld elements, not of whole grains: a bug",
                (long long)elems);
    rt_launch_on(rt, stream, &sum_kernels[kernel], blocks < most ? blocks : most, 1,
                 (void *[]){&p, &elems, &to});
}

/* ---- the norm -------------------------------------------------------------------- */

typedef struct NormShard {
    Rt *rt;
    const char *grad;
} NormShard;

static void norm_run(void *ctx, const RtRun *run)
{
    const NormShard *s = ctx;
    const int64_t item = (int64_t)rt_dtype_bytes(s->rt->trainer->reduce_dtype);
    const void *grad = s->grad + run->shard_offset_elems * item;
    void *to = control(s->rt);
    int64_t elems = run->elems;
    /* 16 chunks per block and turn; more blocks would only add more to the same words. */
    const int64_t blocks = (elems + 16 * RT_GRAIN_ELEMS - 1) / (16 * RT_GRAIN_ELEMS);
    const int64_t most = 4 * rt_gpu.multiprocessors;
    rt_launch(s->rt, &squares_kernel, blocks < most ? blocks : most, 1,
              (void *[]){&grad, &elems, &to});
}

void rt_norm_add(Rt *rt, int segment)
{
    NormShard s = {rt, rt_grad_shard(rt, segment)};
    rt_share_stored(rt, segment, norm_run, &s);
}

/* The pinned memory is free: the end of each step waits for the device. */
void rt_step_begin(Rt *rt)
{
    rt_profile_begin(rt);
    const double scale = rt_scale(rt);
    rt->state->valid_tokens = 1; /* rt_update's divisor; the device has the real one */
    const RtUpdate u = rt_update(rt);
    *in = (RtStepIn){.lr = u.lr64,
                     .bias1 = u.bias1_64,
                     .bias2 = u.bias2_64,
                     .clip = rt->trainer->optimizer.clip,
                     .scale = scale,
                     .noise = u.noise,
                     .loss_scale = (float)scale};
    send(rt, &device_step(rt)->in, in, sizeof *in);
}

void rt_norm_reduce(Rt *rt)
{
    RtDeviceStep *step = device_step(rt);
    void *words = control(rt), *update = &step->update, *step_in = &step->in,
         *step_out = &step->out;
    int64_t micro_batches = rt->trainer->micro_batches;
#ifdef RT_NCCL
    rt_detour_begin(rt);
    rt_transport->control(rt, words, RT_CONTROL_WORDS, control(rt) + RT_CONTROL_LOSSES,
                          micro_batches);
    rt_detour_end(rt);
#endif
    rt_launch(rt, &finish_kernel, 1, 1,
              (void *[]){&words, &micro_batches, &step_in, &step_out, &update});
    RT_CUDA_CALL(rt, cudaMemcpyAsync(out, step_out, sizeof *out, cudaMemcpyDeviceToHost,
                                     rt_gpu.stream[RT_COMPUTE]));
}

void rt_norm_results(Rt *rt)
{
    RtState *st = rt->state;
    st->loss = out->loss;
    st->grad_norm = out->grad_norm;
    st->clip_factor = out->clip_factor;
    st->valid_tokens = out->valid_tokens;
    st->skip = out->skip != 0;
    if (st->skip && st->valid_tokens > 0)
        rt_scale_overflow(rt);
}

/* For a completed evaluation. */
double rt_loss_take(Rt *rt)
{
    double loss;
    rt_arena_read(rt, RT_SPACE_SYMMETRIC, (char *)rt_loss_slot(rt) - rt->symmetric, &loss,
                  sizeof loss);
    return loss;
}

/* The same for all micro-batches. */
double *rt_loss_slot(Rt *rt)
{
    return &device_step(rt)->loss;
}

void rt_loss_put(Rt *rt)
{
    double *losses = (double *)(control(rt) + RT_CONTROL_LOSSES);
    RT_CUDA_CALL(rt, cudaMemcpyAsync(&losses[rt->state->micro_batch], rt_loss_slot(rt),
                                     sizeof *losses, cudaMemcpyDeviceToDevice,
                                     rt_gpu.stream[RT_COMPUTE]));
}

const float *rt_loss_scale(const Rt *rt)
{
    return &device_step(rt)->in.loss_scale;
}

const RtUpdate *rt_device_update(const Rt *rt)
{
    return &device_step(rt)->update;
}

uint32_t rt_noise_stream(const RtUpdateRun *run)
{
    return rt_name_stream(run->param->name);
}
