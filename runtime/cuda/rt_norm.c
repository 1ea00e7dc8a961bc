/* SPDX-License-Identifier: MIT-0 */
/* rt_norm.c: sums and the end of a step, on the device. In: leaves' nodes, this rank's
 * shards of the summed gradient, losses. Out: partial sums; loss, gradient norm and what
 * the optimizer reads, all in device memory: the host enqueues the whole step and hears
 * of its end.
 *
 * The norm is exact as on the CPU: chunk sums of squares are added as integers into the
 * control area, whose words one all-reduce adds over ranks. Each loss was computed by one
 * rank and is zero elsewhere, so that adding them is exact, too. */
#include "rt_gpu.h"
#include "rt_philox.h"

static RtKernel merge_kernel = {.name = "rt_merge_kernel", .threads = 256};
static RtKernel sum_kernel = {.name = "rt_sum_kernel", .threads = 256};
static RtKernel squares_kernel = {.name = "rt_squares_kernel", .threads = 256};
static RtKernel finish_kernel = {.name = "rt_finish_kernel", .threads = 32};

static RtStepIn *in;   /* pinned: read when the device comes there */
static RtStepOut *out; /* pinned */

/* After the losses in the control area. */
typedef struct Ends {
    RtUpdate update;
    RtStepIn in;
    RtStepOut out;
} Ends;

static char *control(const Rt *rt)
{
    return rt_symmetric(rt, rt->trainer->control_offset);
}

static Ends *ends(const Rt *rt)
{
    return (Ends *)(control(rt) +
                    (RT_CONTROL_LOSSES + rt->trainer->micro_batches * 8 + 63) / 64 * 64);
}

_Static_assert(sizeof(Ends) + RT_CONTROL_LOSSES + 64 <= RT_CONTROL_BYTES(0),
               "the control area holds it all");

void rt_norm_open(Rt *rt)
{
    rt_kernel_prepare(&merge_kernel);
    rt_kernel_prepare(&sum_kernel);
    rt_kernel_prepare(&squares_kernel);
    rt_kernel_prepare(&finish_kernel);
    RT_CUDA_CALL(rt, cudaHostAlloc((void **)&in, sizeof *in, cudaHostAllocDefault));
    RT_CUDA_CALL(rt, cudaHostAlloc((void **)&out, sizeof *out, cudaHostAllocDefault));
}

static int64_t blocks_of(int64_t elems)
{
    return (elems + 255) / 256;
}

/* ---- sums -------------------------------------------------------------------------- */

void rt_merge(Rt *rt, void *node, void *partials, int64_t elems, int64_t partial_elems,
              int64_t round, bool last)
{
    int levels = 0, is_last = last;
    while (round >> levels & 1) {
        levels++;
    }
    rt_launch(rt, &merge_kernel, blocks_of(elems), 1,
              (void *[]){&node, &partials, &elems, &partial_elems, &levels, &is_last});
}

void rt_add_parts(Rt *rt, cudaStream_t stream, const void *own, const void *staging,
                  int64_t stride, int mine, int ranks, int64_t elems, void *to)
{
    rt_launch_on(rt, stream, &sum_kernel, blocks_of(elems), 1,
                 (void *[]){&own, &staging, &stride, &mine, &ranks, &elems, &to});
}

/* ---- the norm ---------------------------------------------------------------------- */

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
    /* 16 chunks a block and turn; more blocks than that only add more to the same words
     */
    const int64_t blocks = (elems + 16 * RT_GRAIN_ELEMS - 1) / (16 * RT_GRAIN_ELEMS);
    const int64_t most = 4 * rt_gpu.multiprocessors;
    rt_launch(s->rt, &squares_kernel, blocks < most ? blocks : most, 1,
              (void *[]){&grad, &elems, &to});
}

void rt_norm_add(Rt *rt, int segment)
{
    NormShard s = {rt, rt_grad_shard(rt, segment)};
    rt_share_runs(rt, segment, norm_run, &s);
}

void rt_norm_reduce(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    RtState *st = rt->state;
    const cudaStream_t stream = rt_gpu.stream[RT_COMPUTE];
    Ends *e = ends(rt);
    void *words = control(rt), *update = &e->update, *step_in = &e->in,
         *step_out = &e->out;
    int64_t micro_batches = t->micro_batches;
    st->valid_tokens = 1; /* what rt_update divides by; the device knows better */
    const RtUpdate u = rt_update(rt);
    *in = (RtStepIn){u.lr64,       u.bias1_64, u.bias2_64, t->optimizer.clip,
                     rt_scale(rt), u.noise};
    RT_CUDA_CALL(
        rt, cudaMemcpyAsync(step_in, in, sizeof *in, cudaMemcpyHostToDevice, stream));
#ifdef RT_NCCL
    rt_transport->control(rt, words, RT_CONTROL_WORDS, control(rt) + RT_CONTROL_LOSSES,
                          micro_batches);
#endif
    rt_launch(rt, &finish_kernel, 1, 1,
              (void *[]){&words, &micro_batches, &step_in, &step_out, &update});
    RT_CUDA_CALL(
        rt, cudaMemcpyAsync(out, step_out, sizeof *out, cudaMemcpyDeviceToHost, stream));
}

void rt_norm_results(Rt *rt)
{
    RtState *st = rt->state;
    st->loss = out->loss;
    st->grad_norm = out->grad_norm;
    st->clip_factor = out->clip_factor;
    st->valid_tokens = out->valid_tokens;
    st->skip = out->skip != 0;
    if (st->skip && st->valid_tokens > 0) {
        rt_scale_overflow(rt);
    }
}

double rt_loss_take(Rt *rt)
{
    const int64_t at = (char *)rt_loss_slot(rt) - rt->symmetric;
    const double zero = 0;
    double loss;
    rt_arena_read(rt, RT_SPACE_SYMMETRIC, at, &loss, sizeof loss);
    rt_arena_write(rt, RT_SPACE_SYMMETRIC, at, &zero, sizeof zero);
    return loss;
}

double *rt_loss_slot(Rt *rt)
{
    return (double *)(control(rt) + RT_CONTROL_LOSSES) + rt->state->micro_batch;
}

const RtUpdate *rt_device_update(const Rt *rt)
{
    return &ends(rt)->update;
}

uint32_t rt_noise_stream(const RtUpdateRun *run)
{
    return rt_name_stream(run->param->name);
}
