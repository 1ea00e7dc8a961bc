/* SPDX-License-Identifier: MIT-0 */
/* rt_schedule.c: the learning rate. In: the schedule, the index of a step. Out: the ratio
 * of its rate to the optimizer's lr. A trainer has one schedule.
 *
 * For step t (the first one is 0), with W steps of warm-up, S steps in all, D of decay, r
 * = min_ratio:
 *    t < W          (t + 1) / W: step 0 has 1 / W, step W - 1 has 1
 *    constant       1
 *    inverse_sqrt   sqrt(W / (t + 1)), with 1 for W = 0: step W - 1 has 1, step 4 W - 1
 *                   has 1/2; it has no end
 *    linear         1 - (1 - r) (t - W) / (S - W): step W has 1, step S - 1 is the last
 *                   above r
 *    cosine         r + (1 - r) (1 + cos(pi (t - W) / (S - W))) / 2: likewise
 *    wsd            1 to step S - D, then 1 - (1 - r) (t - (S - D)) / D: step S - D is
 * the last with 1, step S - 1 the last above r t >= S         linear, cosine, wsd: r,
 * beyond the schedule's end (--steps) In double, with our own cosine: the same bits
 * everywhere. */
#include "state/rt_state.h"

static double warming(const RtSchedule *s, int64_t step)
{
    return (double)(step + 1) / (double)s->warmup_steps;
}

/* The completed fraction of the way from step `begin` to the schedule's end. */
static double done(const RtSchedule *s, int64_t begin, int64_t step)
{
    return (double)(step - begin) / (double)(s->steps - begin);
}

double rt_lr_constant(const RtSchedule *s, int64_t step)
{
    return step < s->warmup_steps ? warming(s, step) : 1.0;
}

double rt_lr_inverse_sqrt(const RtSchedule *s, int64_t step)
{
    if (step < s->warmup_steps)
        return warming(s, step);
    const int64_t flat = s->warmup_steps > 0 ? s->warmup_steps : 1;
    return rt_sqrt((double)flat / (double)(step + 1));
}

double rt_lr_linear(const RtSchedule *s, int64_t step)
{
    if (step < s->warmup_steps)
        return warming(s, step);
    if (step >= s->steps)
        return s->min_ratio;
    return 1.0 - (1.0 - s->min_ratio) * done(s, s->warmup_steps, step);
}

double rt_lr_cosine(const RtSchedule *s, int64_t step)
{
    const double pi = 3.141592653589793;
    if (step < s->warmup_steps)
        return warming(s, step);
    if (step >= s->steps)
        return s->min_ratio;
    const double angle = pi * done(s, s->warmup_steps, step);
    return s->min_ratio + (1.0 - s->min_ratio) * (0.5 * (1.0 + rt_cos(angle)));
}

double rt_lr_wsd(const RtSchedule *s, int64_t step)
{
    const int64_t begin = s->steps - s->decay_steps;
    if (step < s->warmup_steps)
        return warming(s, step);
    if (step >= s->steps)
        return s->min_ratio;
    return step <= begin ? 1.0 : 1.0 - (1.0 - s->min_ratio) * done(s, begin, step);
}

double rt_learning_rate(const RtTrainer *t, int64_t step)
{
    return t->optimizer.lr * t->schedule.ratio(&t->schedule, step);
}
