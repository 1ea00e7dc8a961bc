/* SPDX-License-Identifier: MIT-0 */
/* rt_due.c: when a run writes a checkpoint, and when it ends before its last step. In:
 * flags, signals, clocks, skipped updates. Out: after each step one decision of all
 * ranks.
 *
 * 1. Ranks notice a signal at different times, and their clocks differ. So the signals of
 *    all ranks are added up, and only rank 0 reads a clock. Which steps are saved changes
 *    no bit.
 * 2. --stop-after reserves time for the save: twice the longest save of this run so far,
 *    one that still runs included (before the first one, the time for its bytes at 100
 *    MB/s), twice the longest step, and two seconds. A step is always computed, so that a
 *    chain of such runs makes progress.
 * 3. Other slow work, such as hashing data, asks rt_due_soon (job/) and stops if it would
 *    use that time. */
#include "checkpoint/rt_checkpoint.h"

#include <string.h>

static const double first_bytes_per_second = 1e8, spare_seconds = 2;

/* What rank 0 finds due. */
enum { SAVE = 1, TIME_IS_UP = 2, LOG_IS_LOST = 4 };
enum { NOW = 1 }; /* a clock that is past: other work gives way */

/* ---- time ------------------------------------------------------------------------ */

static double save_seconds(const RtCheckpoint *c)
{
    const int64_t longest = atomic_load(&c->due.longest_save_ns);
    double bytes = 0;
    for (int i = 0; i < c->n_lasting_files; i++)
        bytes += (double)c->files[i].bytes;
    return longest > 0 ? 2e-9 * (double)longest : bytes / first_bytes_per_second;
}

static bool is_writing(const RtCheckpoint *c)
{
    return c->writing >= 0 && !atomic_load(&c->written);
}

static double left_seconds(const RtFlags *f)
{
    return f->stop_seconds - 1e-9 * (double)(rt_clock_ns() - f->started_ns);
}

void rt_due_begin(Rt *rt)
{
    RtState *st = rt->state;
    const double until =
        st->flags.stop_seconds - save_seconds(st->checkpoint) - spare_seconds;
    const int64_t from = st->flags.started_ns + (int64_t)(1e9 * until);
    int64_t before = atomic_load(&st->gives_way_ns);
    if (st->flags.stop_seconds > 0 && before != NOW) /* `from` may be before the boot */
        atomic_compare_exchange_strong(&st->gives_way_ns, &before,
                                       from > NOW ? from : NOW);
}

void rt_due_writes(const Rt *rt)
{
    atomic_store(&rt->state->checkpoint->due.began_ns, rt_clock_ns());
}

void rt_due_fails(const Rt *rt)
{
    atomic_store(&rt->state->checkpoint->due.began_ns, 0);
}

void rt_due_saved(Rt *rt)
{
    RtDue *due = &rt->state->checkpoint->due;
    const int64_t ns = 1 + rt_clock_ns() - atomic_exchange(&due->began_ns, 0);
    if (ns <= atomic_load(&due->longest_save_ns))
        return;
    atomic_store(&due->longest_save_ns, ns);
    rt_due_begin(rt);
}

/* If a save is still running, it is not waited for (as with --checkpoint-every): the next
 * one starts after it. */
static bool is_due_by_clock(const RtCheckpoint *c, const RtFlags *f)
{
    return f->checkpoint_seconds > 0 && !is_writing(c) &&
           rt_clock() - c->due.saved >= f->checkpoint_seconds;
}

/* For rank 0, after a step. */
static uint64_t find_due(const Rt *rt)
{
    const RtState *st = rt->state;
    const RtFlags *f = &st->flags;
    RtCheckpoint *c = st->checkpoint;
    RtDue *due = &c->due;
    if (due->saved == 0)
        due->saved = due->ended = st->started_seconds;
    const double seconds = rt_clock() - due->ended;
    if (seconds > due->longest_step)
        due->longest_step = seconds;
    due->left = left_seconds(f);
    const int64_t began = atomic_load(&due->began_ns);
    const double running = began > 0 ? 2e-9 * (double)(rt_clock_ns() - began) : 0;
    const double save = running > save_seconds(c) ? running : save_seconds(c);
    due->reserved = save + 2 * due->longest_step + spare_seconds;
    const bool up = f->stop_seconds > 0 && due->left < due->reserved;
    return (is_due_by_clock(c, f) ? SAVE : 0) | (up ? TIME_IS_UP : 0) |
           (st->lost[0] != '\0' ? LOG_IS_LOST : 0);
}

/* ---- the end --------------------------------------------------------------------- */

typedef struct Asked {
    uint64_t signals, due; /* ranks that have noticed a signal; what rank 0 finds */
} Asked;

static Asked ask_all(Rt *rt, uint64_t due)
{
    uint64_t words[2] = {atomic_load(&rt->state->shared->signal) != 0, due};
    rt_sum_words(rt, words, 2);
    return (Asked){words[0], words[1]};
}

/* For rank 0. */
static void why_it_ends(const Rt *rt, const Asked *a, char *why, size_t bytes)
{
    const RtDue *due = &rt->state->checkpoint->due;
    const int n = atomic_load(&rt->state->shared->signal);
    if (a->signals != 0) {
        snprintf(why, bytes, "signal %d (%s)", n, n != 0 ? strsignal(n) : "?");
    } else if ((a->due & TIME_IS_UP) != 0) {
        snprintf(why, bytes,
                 "--stop-after: %.1f s were left, and %.1f s are for the save", due->left,
                 due->reserved);
    } else {
        snprintf(why, bytes, "%s", rt->state->lost);
    }
}

/* Collective: the run ends after this step, which is saved, or could not be. Returns if
 * that is not a failure. */
static void end_here(Rt *rt, const Asked *a, int64_t step, bool saved)
{
    const bool asked = a->signals != 0 || (a->due & TIME_IS_UP) != 0;
    char why[RT_ERROR_BYTES];
    if (!saved)
        rt_first_error(rt);
    if (rt->rank != 0) {
        if (!saved || !asked)
            rt_leave(rt);
        return;
    }
    why_it_ends(rt, a, why, sizeof why);
    if (!saved) {
        rt_fail(rt, RT_EXIT_ERROR,
                "%s: the run was to end, but step %lld could not be saved", why,
                (long long)step);
    }
    if (!asked) {
        rt_fail(rt, RT_EXIT_ERROR,
                "%s; step %lld is saved: make room, and run it again with --resume", why,
                (long long)step);
    }
    rt_say("trainer: %s: stopped after step %lld, which is saved; run it again with "
           "--resume",
           why, (long long)step);
}

bool rt_checkpoint_asked(Rt *rt)
{
    const RtState *st = rt->state;
    if (st->checkpoint == NULL || st->checkpoint->saved != st->step ||
        st->step >= st->flags.steps)
        return false;
    const Asked a = ask_all(rt, 0);
    if (a.signals != 0)
        end_here(rt, &a, st->step, true);
    return a.signals != 0;
}

bool rt_checkpoint_step(Rt *rt)
{
    const RtState *st = rt->state;
    const RtFlags *f = &st->flags;
    const int64_t step = st->step + 1;
    RtCheckpoint *c = st->checkpoint;
    if (c == NULL)
        return false;
    const Asked a = ask_all(rt, rt->rank == 0 ? find_due(rt) : 0);
    const bool whole = step >= f->steps;
    const bool ends = a.signals != 0 || (a.due & (TIME_IS_UP | LOG_IS_LOST)) != 0;
    const bool periodic = f->checkpoint_every > 0 && step % f->checkpoint_every == 0;
    const bool best = f->keep_best && st->best.step == step;
    bool saved = true;
    if (ends) /* an earlier save that still runs notices it, too */
        atomic_store(&rt->state->gives_way_ns, NOW);
    if (periodic || best || (a.due & SAVE) != 0 || ends || whole) {
        c->due.saved = rt_clock();
        saved = rt_save(rt, step, c->apart && !ends && !whole);
    }
    c->due.ended = rt_clock();
    if (!ends || whole)
        return false;
    end_here(rt, &a, step, saved);
    return true;
}

/* All ranks come here together with equal results; the first one reports. A save during
 * training is completed first: it is the last one before the problem. */
void rt_update_gate(Rt *rt)
{
    const RtState *st = rt->state;
    if (st->skipped_in_a_row <= rt->trainer->max_skipped)
        return;
    atomic_store(&rt->state->gives_way_ns, NOW); /* that save does not wait for digests */
    if (st->checkpoint != NULL)
        rt_snapshot_join(rt);
    if (rt->rank != 0)
        rt_leave(rt);
    rt_fail(rt, RT_EXIT_GATE,
            "step %lld: the %s is not finite; the weights are still those after step "
            "%lld. Updates skipped in a row: %lld, max_skipped is %lld. A lower learning "
            "rate, a longer warm-up or tighter clipping may help",
            (long long)(st->step + 1), rt_is_finite(st->loss) ? "gradient norm" : "loss",
            (long long)(st->step + 1 - st->skipped_in_a_row),
            (long long)st->skipped_in_a_row, (long long)rt->trainer->max_skipped);
}
