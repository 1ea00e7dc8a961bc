/* SPDX-License-Identifier: MIT-0 */
/* rt_schedule.c: the learning rate. In: the schedule, the index of a step. Out: its rate.
 *
 * Of step t (the first one is 0), with W steps of warm-up, S steps in all, r = min_ratio:
 *   t < W       lr (t + 1) / W; step 0 has lr / W, step W - 1 all of lr
 *   constant    lr
 *   cosine      lr (r + (1 - r) (1 + cos(pi (t - W) / (S - W))) / 2);
 *               step W has lr, step S - 1 a little more than r lr
 *   t >= S      cosine: r lr, beyond the schedule's end (--steps)
 * In double, with our own cosine: the same bits everywhere. */
#include "rt_private.h"

double rt_learning_rate(const RtTrainer *t, int64_t step)
{
    const RtSchedule *s = &t->schedule;
    const double lr = t->optimizer.lr, pi = 3.141592653589793;
    if (step < s->warmup_steps) {
        return lr * ((double)(step + 1) / (double)s->warmup_steps);
    }
    if (s->kind == RT_LR_CONSTANT) {
        return lr;
    }
    if (step >= s->steps) {
        return lr * s->min_ratio;
    }
    const double done =
        (double)(step - s->warmup_steps) / (double)(s->steps - s->warmup_steps);
    return lr * (s->min_ratio + (1.0 - s->min_ratio) * (0.5 * (1.0 + rt_cos(pi * done))));
}
