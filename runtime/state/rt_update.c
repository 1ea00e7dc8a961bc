/* SPDX-License-Identifier: MIT-0 */
/* rt_update.c: the optimizer around its kernel: the scale, the bias corrections, and
 * calls for the runs of this rank's shard (rt_map.c). In: the step's norm and clip
 * factor, shards of summed gradients. Out: calls of the emitted kernel.
 *
 * The gradient is summed over all targets of the step, so its scale is clip factor /
 * targets, divided by the loss scale if there is one. Powers of beta are updated by one
 * multiplication per update, without pow. If the loss or the norm is not finite the
 * step's update is skipped; both are equal on all ranks, so all ranks skip it. */
#include "rt_philox.h"
#include "rt_target.h"
#include "state/rt_state.h"

int64_t rt_sum_bytes(const RtTrainer *t)
{
    return t->param_dtype == RT_F64 ? 8 : 4;
}

int64_t rt_step_tokens(const RtTrainer *t)
{
    return t->micro_batches * t->micro_batch * t->seq_tokens;
}

char *rt_grad_shard(const Rt *rt, int segment)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    return s->across ? rt_symmetric(rt, s->grad_shard) : rt_local(rt, s->grad_shard);
}

void rt_merge_segment(Rt *rt, int segment)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    void *node =
        s->grad_accum >= 0 ? rt_symmetric(rt, s->grad_accum) : rt_grad_shard(rt, segment);
    rt_merge(rt, node, rt_local(rt, s->partials), s->partial_elems);
}

RtUpdate rt_update(const Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    const RtState *st = rt->state;
    const RtWords step =
        rt_philox((uint64_t)st->flags.seed, RT_SITE_STEP, (uint64_t)st->step, 0);
    RtUpdate u = {.noise = step.w[0] | (uint64_t)step.w[1] << 32};
    u.scale64 = st->clip_factor / (double)st->valid_tokens / rt_scale(rt);
    u.lr64 = rt_learning_rate(t, st->step);
    u.bias1_64 = 1.0 - st->beta1_power * t->optimizer.beta1;
    u.bias2_64 = 1.0 - st->beta2_power * t->optimizer.beta2;
    u.scale = (float)u.scale64;
    u.lr = (float)u.lr64;
    u.bias1 = (float)u.bias1_64;
    u.bias2 = (float)u.bias2_64;
    return u;
}

void rt_noise(const RtUpdate *u, const RtUpdateRun *run, int site, int64_t from,
              int64_t n, uint16_t *noise)
{
    const uint32_t stream = rt_name_stream(run->param->name);
    for (int64_t i = 0; i < n;) {
        const int64_t element = run->element + from + i;
        const RtWords r =
            rt_philox(u->noise, (uint32_t)site, (uint64_t)element / 8, stream);
        for (int64_t half = element % 8; half < 8 && i < n; half++, i++)
            noise[i] = (uint16_t)(r.w[half / 2] >> half % 2 * 16);
    }
}

bool rt_is_finite(double x)
{
    return x - x == 0.0;
}

/* A skipped step advances the data and the schedule, not the optimizer. */
void rt_update_end(Rt *rt)
{
    const RtOptimizer *o = &rt->trainer->optimizer;
    RtState *st = rt->state;
    if (st->skip) {
        if (st->valid_tokens > 0) { /* a step without targets is not a failure */
            st->skipped++;
            st->skipped_in_a_row += !st->overflowed;
        }
        return;
    }
    st->skipped_in_a_row = 0;
    st->beta1_power *= o->beta1;
    st->beta2_power *= o->beta2;
}

/* ---- calls of the kernel --------------------------------------------------------- */

typedef struct Shard {
    Rt *rt;
    const RtTrainer *trainer;
    const RtUpdate *update;
    RtUpdateKernel kernel;
    char *weights, *master, *moment1, *moment2, *direction;
    const char *grad;
    int64_t param_item, master_item, moment_item, grad_item, sum_item;
    int segment;
    double lr_adjust; /* for a matrix; else 1 */
} Shard;

/* second: where the run's second moments are. */
static void call_kernel(const Shard *s, const RtRun *run, int64_t second)
{
    const int64_t at = run->shard_offset_elems;
    const RtUpdateRun r = {
        .param = run->param,
        .element = run->element,
        .elems = run->elems,
        .weights = s->weights + at * s->param_item,
        .master = s->master + at * s->master_item,
        .moment1 = s->moment1 ? s->moment1 + at * s->moment_item : NULL,
        .moment2 = s->moment2 ? s->moment2 + second * s->moment_item : NULL,
        .grad = s->grad + at * s->grad_item,
        .direction = s->direction ? s->direction + at * s->sum_item : NULL,
        .lr_ratio = run->param->lr_ratio != 0 ? run->param->lr_ratio : 1.0,
        .lr_adjust = s->lr_adjust,
        .weight_decay = run->param->weight_decay,
    };
#ifdef RT_CUDA
    s->kernel(s->rt, s->update, &r);
#else
    s->kernel(s->update, &r);
#endif
}

static void update_run(void *ctx, const RtRun *run)
{
    const Shard *s = ctx;
    if (run->param->n_matrices == 0)
        call_kernel(s, run, rt_second_moment(s->rt, s->segment, run->shard_offset_elems));
}

/* A matrix, in this rank's shard. */
typedef struct Held {
    const Shard *shard;
    const RtMatrix *matrix;
    RtCoordinate at;
} Held;

static void update_stretch(void *ctx, const RtStretch *x)
{
    const Held *h = ctx;
    const RtRun run = rt_stretch_run(h->shard->trainer, h->matrix, x, h->at);
    if (run.elems > 0)
        call_kernel(h->shard, &run, 0);
}

static void update_matrices(Shard *s)
{
    const RtTrainer *t = s->trainer;
    const RtSegment *g = &t->segments[s->segment];
    for (int i = 0; i < g->n_params; i++) {
        const RtParam *p = &t->params[t->segment_params[g->first_param + i]];
        for (int k = 0; k < p->n_matrices; k++) {
            const RtMatrix *m = &t->matrices[p->first_matrix + k];
            Held h = {s, m, rt_coordinate(g, s->rt->rank)};
            s->lr_adjust = m->lr_adjust;
            rt_matrix_stretches(t, m, update_stretch, &h);
        }
    }
}

static void for_runs(Rt *rt, int segment, RtUpdateKernel kernel, bool matrices)
{
    const RtTrainer *t = rt->trainer;
    const RtSegment *g = &t->segments[segment];
#ifdef RT_CUDA
    const RtUpdate *update = rt_device_update(rt); /* the kernels check u->skip */
#else
    const RtUpdate here = rt_update(rt), *update = &here;
    if (rt->state->skip)
        return;
#endif
    char *weights = rt_symmetric(rt, rt_param_part(rt, g));
    Shard s = {
        .rt = rt,
        .trainer = t,
        .segment = segment,
        .update = update,
        .kernel = kernel,
        .weights = weights,
        .master = g->master < 0 ? weights : rt_local(rt, g->master),
        .moment1 = g->moment1 < 0 ? NULL : rt_local(rt, g->moment1),
        .moment2 = g->moment2 < 0 ? NULL : rt_local(rt, g->moment2),
        .grad = rt_grad_shard(rt, segment),
        .direction = matrices ? rt_symmetric(rt, g->direction) : NULL,
        .param_item = (int64_t)rt_dtype_bytes(g->dtype),
        .master_item = (int64_t)rt_dtype_bytes(t->master_dtype),
        .moment_item = (int64_t)rt_dtype_bytes(t->moments_dtype),
        .grad_item = (int64_t)rt_dtype_bytes(t->reduce_dtype),
        .sum_item = rt_sum_bytes(t),
        .lr_adjust = 1.0,
    };
    if (matrices)
        update_matrices(&s);
    else
        rt_shard_stored(rt, segment, update_run, &s);
}

void rt_update_segment(Rt *rt, int segment, RtUpdateKernel kernel)
{
    for_runs(rt, segment, kernel, false);
}

void rt_update_matrices(Rt *rt, int segment, RtUpdateKernel kernel)
{
    for_runs(rt, segment, kernel, true);
}
