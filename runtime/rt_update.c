/* SPDX-License-Identifier: MIT-0 */
/* rt_update.c: what the optimizer needs around its kernel: the learning rate, the scale, the
 * bias corrections, and the runs of parameters in this rank's shard.
 *
 * Learning rate of step t (0-based), warmup of W steps, S steps in all:
 *   t < W        lr (t + 1) / W
 *   constant     lr
 *   cosine       lr (r + (1 - r) (1 + cos(pi (t - W) / (S - W))) / 2), r = min_ratio; r lr from S on
 * so the first step trains with lr / W and the last one just above r lr. */
#include "rt_private.h"

size_t rt_dtype_bytes(RtDtype d)
{
    return d == RT_F64 ? 8 : d == RT_F32 ? 4 : 2;
}

int64_t rt_shard_index(const Rt *rt, int segment)
{
    return rt->trainer->segments[segment].shards == 1 ? 0 : rt->rank;
}

void rt_shard_runs(const Rt *rt, int segment, void (*fn)(void *ctx, const RtRun *run), void *ctx)
{
    const RtTrainer *t = rt->trainer;
    const RtSegment *s = &t->segments[segment];
    const int64_t lo = rt_shard_index(rt, segment) * s->shard_elems;
    const int64_t hi = lo + s->shard_elems;
    for (int i = 0; i < s->n_params; i++) {
        const int id = t->segment_params[s->first_param + i];
        const RtParam *p = &t->params[id];
        const int64_t from = p->offset_elems > lo ? p->offset_elems : lo;
        const int64_t end = p->offset_elems + p->elems;
        const int64_t to = end < hi ? end : hi;
        if (from >= to)
            continue;
        const RtRun run = {p, id, from - lo, from - p->offset_elems, to - from};
        fn(ctx, &run);
    }
}

double rt_learning_rate(const RtTrainer *t, int64_t step)
{
    const RtSchedule *s = &t->schedule;
    const double lr = t->optimizer.lr;
    if (step < s->warmup_steps)
        return lr * ((double)(step + 1) / (double)s->warmup_steps);
    if (s->kind == RT_LR_CONSTANT)
        return lr;
    if (step >= s->steps)
        return lr * s->min_ratio;
    const double done =
        (double)(step - s->warmup_steps) / (double)(s->steps - s->warmup_steps);
    const double pi = 3.141592653589793;
    return lr * (s->min_ratio + (1.0 - s->min_ratio) * 0.5 * (1.0 + rt_cos(pi * done)));
}

RtUpdate rt_update(const Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    const RtState *st = rt->state;
    const double tokens = (double)(t->micro_batches * t->micro_batch * t->seq_tokens);
    RtUpdate u = {0};
    u.scale64 = st->clip_factor / tokens;
    u.lr64 = rt_learning_rate(t, st->step);
    u.bias1_64 = 1.0 - st->beta1_power * t->optimizer.beta1;
    u.bias2_64 = 1.0 - st->beta2_power * t->optimizer.beta2;
    u.scale = (float)u.scale64;
    u.lr = (float)u.lr64;
    u.bias1 = (float)u.bias1_64;
    u.bias2 = (float)u.bias2_64;
    return u;
}

typedef struct Shard {
    RtUpdate update;
    RtUpdateKernel kernel;
    char *param, *master, *moment1, *moment2;
    const char *grad;
    int64_t param_item, master_item, moment_item, grad_item;
} Shard;

static void update_run(void *ctx, const RtRun *run)
{
    const Shard *s = ctx;
    const int64_t at = run->shard_offset_elems;
    s->kernel(&s->update, run->param->weight_decay, run->elems, s->param + at * s->param_item,
              s->master + at * s->master_item,
              s->moment1 ? s->moment1 + at * s->moment_item : NULL,
              s->moment2 ? s->moment2 + at * s->moment_item : NULL,
              s->grad + at * s->grad_item);
}

void rt_update_segment(Rt *rt, int segment, RtUpdateKernel kernel)
{
    const RtTrainer *t = rt->trainer;
    const RtSegment *g = &t->segments[segment];
    char *param = rt_symmetric(rt, g->param_shard);
    Shard s = {
        .update = rt_update(rt),
        .kernel = kernel,
        .param = param,
        .master = g->master < 0 ? param : rt_local(rt, g->master),
        .moment1 = g->moment1 < 0 ? NULL : rt_local(rt, g->moment1),
        .moment2 = g->moment2 < 0 ? NULL : rt_local(rt, g->moment2),
        .grad = rt_local(rt, g->grad_shard),
        .param_item = (int64_t)rt_dtype_bytes(t->param_dtype),
        .master_item = (int64_t)rt_dtype_bytes(t->master_dtype),
        .moment_item = (int64_t)rt_dtype_bytes(t->moments_dtype),
        .grad_item = (int64_t)rt_dtype_bytes(t->reduce_dtype),
    };
    rt_shard_runs(rt, segment, update_run, &s);
}
