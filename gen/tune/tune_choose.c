/* SPDX-License-Identifier: Apache-2.0 */
/* tune_choose.c: which candidate is taken. In: the ranked candidates, some of them
 * measured. Out: one of them.
 *
 * The description as it is stays unless another one is clearly faster: a search over many
 * candidates always finds one whose runs were lucky. Two sets of runs are compared pair
 * by pair (Mann and Whitney's count), which one slow run does not upset. */
#include "tune/tune.h"

#include <math.h>

enum { FEWEST_RUNS = 3, CLEAR_PERCENT = 90 };

/* Standard deviations of the count above its mean, which chance exceeds once in 100
 * times. */
static const double CLEAR_DEVIATIONS = 2.33;

double tune_rate(const Candidate *c, double seconds)
{
    return seconds > 0 ? (double)c->plan.step_tokens / seconds : 0;
}

/* How many of n times m pairs are clear? 90 %: with five runs each, chance alone reaches
 * that once in 63 times. More runs show as surely with fewer pairs that the times differ:
 * 71 % of 20 times 20. */
static double clear_pairs(int n, int m)
{
    const double pairs = (double)n * m;
    const double deviation = sqrt(pairs * (n + m + 1) / 12);

    return fmin(pairs * CLEAR_PERCENT / 100, pairs / 2 + CLEAR_DEVIATIONS * deviation);
}

bool tune_is_clear(const Candidate *c, const Candidate *own)
{
    const int n = c->step_seconds.count, m = own->step_seconds.count;
    int better = 0;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < m; k++)
            better += tune_rate(c, c->step_seconds.items[i]) >
                      tune_rate(own, own->step_seconds.items[k]);
    return n >= FEWEST_RUNS && m >= FEWEST_RUNS && better >= clear_pairs(n, m);
}

/* The fastest one that was measured, of all or of those clearly faster than own. */
static const Candidate *fastest(const Tune *t, const Candidate *own)
{
    const Candidate *best = NULL;

    for (int i = 0; i < t->ranked.count; i++) {
        const Candidate *c = t->ranked.items[i];

        if (c->median > 0 && !c->failed && (!own || tune_is_clear(c, own)) &&
            (!best || tune_rate(c, c->median) > tune_rate(best, best->median)))
            best = c;
    }
    return best;
}

const Candidate *tune_fastest(const Tune *t)
{
    return fastest(t, NULL);
}

/* Runs of few steps hide a difference that lasts: what may still be the fastest runs on.
 */
bool tune_is_open(const Tune *t, const Candidate *c)
{
    const Candidate *best = tune_fastest(t), *own = &t->all.items[0];
    bool any = false;

    if (!best || c->failed)
        return false;
    for (int i = 0; i < t->ranked.count && !any; i++) {
        const Candidate *o = t->ranked.items[i];

        any = o != best && o->median > 0 && !o->failed && !tune_is_clear(best, o);
    }
    return any && (c == best || c == own || (c->median > 0 && !tune_is_clear(best, c)));
}

bool tune_is_kept(const Tune *t)
{
    const Candidate *best = tune_best(t), *any = tune_fastest(t);

    return best && best->id == 0 && any && any != best;
}

/* The best one by prediction that has not failed here. */
static const Candidate *predicted(const Tune *t)
{
    for (int i = 0; i < t->ranked.count; i++)
        if (!t->ranked.items[i]->failed)
            return t->ranked.items[i];
    return t->ranked.count ? t->ranked.items[0] : NULL;
}

const Candidate *tune_best(const Tune *t)
{
    const Candidate *own = &t->all.items[0], *best = tune_fastest(t);

    if (!best)
        return predicted(t);
    if (own->left_out || own->failed)
        return best; /* there is nothing to compare it with */
    best = fastest(t, own);
    return best ? best : own; /* also where a stop came before enough runs of own */
}
