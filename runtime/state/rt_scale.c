/* SPDX-License-Identifier: MIT-0 */
/* rt_scale.c: the loss scale of f16 gradients. In: whether the step's gradient is finite,
 * equal on all ranks. Out: the power of two that multiplies the gradient of the logits,
 * and by which the norm and the optimizer divide.
 *
 * The scale refers to a micro-batch's mean loss, as in other systems, but gradients here
 * are those of the sum: the multiplier is scale / 2^floor(log2(tokens of a micro-batch)).
 * A gradient that is not finite skips the update and shrinks the scale; after `interval`
 * updates in a row it grows. At its minimum it no longer explains such a gradient. */
#include "state/rt_state.h"

enum { MOST_LOG2 = 40 }; /* its maximum */

double rt_scale(const Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    double scale = rt->state->loss_scale;
    if (t->loss_scale.init == 0)
        return 1.0;
    for (int64_t n = t->micro_batch * t->seq_tokens; n > 1; n /= 2)
        scale *= 0.5;
    return scale;
}

#ifndef RT_CUDA /* on CUDA it is sent to the device: rt_norm.c */
float rt_loss_scale(const Rt *rt)
{
    return (float)rt_scale(rt);
}
#endif

void rt_scale_overflow(Rt *rt)
{
    RtState *st = rt->state;
    st->overflowed = st->loss_scale > rt->trainer->loss_scale.min;
}

void rt_scale_step(Rt *rt)
{
    const RtLossScale *s = &rt->trainer->loss_scale;
    RtState *st = rt->state;
    if (st->overflowed) {
        const double less = st->loss_scale / s->factor;
        st->loss_scale = less > s->min ? less : s->min;
        st->scaled_updates = 0;
        st->overflowed = false;
    } else if (s->init != 0 && !st->skip && ++st->scaled_updates == s->interval) {
        const double more = st->loss_scale * s->factor;
        st->loss_scale =
            more <= (double)(INT64_C(1) << MOST_LOG2) ? more : st->loss_scale;
        st->scaled_updates = 0;
    }
}
