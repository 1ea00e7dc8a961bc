/* SPDX-License-Identifier: MIT-0 */
/* rt_best.c: the best step of a run. In: losses on held-out data. Out: RtState.best, the
 * step with the lowest loss so far and how many later evaluations were not lower; with
 * --patience, the end of the run.
 *
 * The loss has the same bits on every rank and on any mesh, so all ranks find the same
 * step, and so does a run that was killed and resumed. Every checkpoint's train state
 * records the best as of its step, and the newest one counts: no other file marks it, so
 * nothing can be half written. With --keep-best such a step is saved (rt_due.c) and kept
 * (rt_prune.c); one that could not be saved is forgotten before the next save. Losses on
 * other held-out data are not compared. */
#include "checkpoint/rt_checkpoint.h"

void rt_best_forget(Rt *rt)
{
    RtBest *b = &rt->state->best;
    if (rt->rank == 0 && b->step > 0) {
        rt_say("trainer: note: the held-out data are others than when step %lld had the "
               "lowest loss: the search for the best step restarts",
               (long long)b->step);
    }
    *b = (RtBest){0};
    if (rt->state->checkpoint != NULL)
        rt->state->checkpoint->best = *b;
}

/* Is the run's patience exhausted? */
static bool is_over(const RtState *st)
{
    const int64_t patience = st->flags.patience;
    return patience > 0 && st->best.waited >= patience;
}

static void tell(const Rt *rt, const char *end)
{
    const RtBest *b = &rt->state->best;
    if (rt->rank != 0)
        return;
    if (b->step > 0) {
        rt_say("trainer: --patience %lld: no loss over the held-out data was below the "
               "%.5f of step %lld in %lld evaluations: %s",
               (long long)rt->state->flags.patience, b->loss, (long long)b->step,
               (long long)b->waited, end);
    } else {
        rt_say("trainer: --patience %lld: no loss over the held-out data was finite in "
               "%lld evaluations: %s",
               (long long)rt->state->flags.patience, (long long)b->waited, end);
    }
}

void rt_best_step(Rt *rt)
{
    RtState *st = rt->state;
    RtBest *b = &st->best;
    const int64_t step = st->step + 1;
    char end[64];
    if (!st->evaluated)
        return;
    if (b->step > 0 && b->tokens != st->eval_tokens)
        rt_best_forget(rt);
    if (rt_is_finite(st->eval_loss) && (b->step == 0 || st->eval_loss < b->loss)) {
        *b = (RtBest){.step = step, .loss = st->eval_loss, .tokens = st->eval_tokens};
        return;
    }
    b->waited++;
    if (!is_over(st) || step >= st->flags.steps)
        return;
    snprintf(end, sizeof end, "the run ends with step %lld", (long long)step);
    tell(rt, end);
    st->flags.steps = step;
}

void rt_best_saves(Rt *rt, int64_t step)
{
    RtState *st = rt->state;
    const RtBest *on_disk = &st->checkpoint->best, lost = st->best;
    if (!st->flags.keep_best || lost.step == 0 || lost.step == step ||
        lost.step == on_disk->step)
        return;
    st->best = on_disk->tokens == lost.tokens ? *on_disk : (RtBest){0};
    st->best.waited = lost.waited;
    if (rt->rank != 0)
        return;
    if (st->best.step > 0) {
        rt_say("trainer: note: step %lld had the lowest loss and was not saved: the best "
               "step is %lld again",
               (long long)lost.step, (long long)st->best.step);
    } else {
        rt_say("trainer: note: step %lld had the lowest loss and was not saved: the "
               "search for the best step restarts",
               (long long)lost.step);
    }
}

void rt_best_resumed(Rt *rt)
{
    RtState *st = rt->state;
    if (!is_over(st) || st->step >= st->flags.steps)
        return;
    tell(rt, "the run has ended; a larger --patience goes on");
    st->flags.steps = st->step;
}
