/* SPDX-License-Identifier: Apache-2.0 */
/* runs_summary.c: the figures of runs. In: their rows. Out: a summary of each, and all of
 * them as JSON. */
#include "report/runs.h"

#include <math.h>
#include <string.h>

/* The least evaluation loss, and its first step. */
static void find_best(RunSummary *s, const RunLog *r)
{
    s->best_eval = NAN;
    for (size_t i = 0; i < r->n; i++) {
        const double x = r->rows[i].value[RUN_EVAL];

        if (isfinite(x) && !(x >= s->best_eval)) {
            s->best_eval = x;
            s->best_eval_step = r->rows[i].step;
        }
    }
}

static bool same_value(double x, double y)
{
    return x == y || (isnan(x) && isnan(y));
}

/* Finds where the losses diverge from those of the first run. */
static void compare(RunSummary *s, const RunLog *r, const RunLog *first)
{
    for (size_t i = 0, k = 0; i < r->n && k < first->n && !s->differs;) {
        const RunRow *a = &r->rows[i], *b = &first->rows[k];

        if (a->step == b->step) {
            s->common++;
            if (!same_value(a->value[RUN_LOSS], b->value[RUN_LOSS]))
                s->differs = a->step;
        }
        i += a->step <= b->step;
        k += b->step <= a->step;
    }
}

static double last_tokens(const RunLog *r)
{
    for (size_t i = r->n; i > 0; i--)
        if (isfinite(r->rows[i - 1].tokens))
            return r->rows[i - 1].tokens;
    return NAN;
}

RunSummary runs_summary(Gen *g, const RunLog *r, const RunLog *first)
{
    const RunRow *last = &r->rows[r->n - 1];
    RunSummary s = {.steps = last->step,
                    .tokens = last_tokens(r),
                    .seconds = last->seconds,
                    .loss = last->value[RUN_LOSS],
                    .smooth_loss = NAN,
                    .eval = runs_last(r, RUN_EVAL),
                    .grad_norm = runs_median(r, RUN_GRAD_NORM),
                    .rate = runs_median(r, RUN_RATE),
                    .mfu = runs_median(r, RUN_MFU),
                    .memory = runs_most(r, RUN_MEMORY),
                    .skipped = runs_last(r, RUN_SKIPPED)};
    const RunCurve smooth = runs_smooth(g, r, RUN_LOSS, 1);

    if (smooth.count)
        s.smooth_loss = smooth.items[smooth.count - 1].value;
    for (size_t i = 0; i < r->n; i++)
        s.not_finite += !isfinite(r->rows[i].value[RUN_LOSS]);
    find_best(&s, r);
    compare(&s, r, first);
    return s;
}

/* ---- JSON ------------------------------------------------------------------------ */

static void set(json_t *o, const char *key, json_t *value)
{
    gen_require(json_object_set_new(o, key, value) == 0, "json: %s", key);
}

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *whole(double x)
{
    return isfinite(x) && fabs(x) < 9e15 ? json_integer((json_int_t)x) : real(x);
}

/* What each resume changed: its first step, and the changed members of the record. */
static json_t *changes(const RunLog *r)
{
    const json_t *before = r->record;
    json_t *list = json_array(), *v;
    const char *key;

    for (int i = 0; i < r->again.count; before = r->again.items[i++].record) {
        const RunAgain *again = &r->again.items[i];
        json_t *o = json_object();

        json_object_foreach(again->record, key, v)
        {
            if (runs_changed(before, again->record, key))
                set(o, key, json_incref(v));
        }
        json_object_foreach((json_t *)before, key, v)
        {
            if (!json_object_get(again->record, key) &&
                runs_changed(before, again->record, key))
                set(o, key, json_null());
        }
        if (json_object_size(o)) {
            set(o, "step", json_integer(again->step));
            json_array_append_new(list, o);
        } else {
            json_decref(o);
        }
    }
    return list;
}

static json_t *json_of(Gen *g, const RunLog *r, const RunLog *first)
{
    const RunSummary s = runs_summary(g, r, first);
    json_t *o = json_object();

    set(o, "label", json_string(r->label));
    set(o, "log", json_string(r->path));
    set(o, "steps", json_integer(s.steps));
    set(o, "tokens", whole(s.tokens));
    set(o, "train_seconds", real(s.seconds));
    set(o, "loss", real(s.loss));
    set(o, "loss_smoothed", real(s.smooth_loss));
    set(o, "loss_not_finite_steps", json_integer(s.not_finite));
    set(o, "eval_loss", real(s.eval));
    set(o, "eval_loss_best", real(s.best_eval));
    set(o, "eval_loss_best_step", whole(s.best_eval_step ? s.best_eval_step : NAN));
    set(o, "grad_norm_median", real(s.grad_norm));
    set(o, "tokens_per_second_median", real(s.rate));
    set(o, "mfu_median", real(s.mfu));
    set(o, "memory_bytes_peak", whole(s.memory));
    set(o, "memory_bytes_planned", whole(r->plan_bytes ? (double)r->plan_bytes : NAN));
    set(o, "skipped", whole(s.skipped));
    set(o, "resumes", json_integer((json_int_t)r->resumes));
    set(o, "steps_in_first", json_integer(s.common));
    set(o, "differs_from_first_at", whole(s.differs ? (double)s.differs : NAN));
    set(o, "run", r->record ? json_incref(r->record) : json_null());
    set(o, "changes", changes(r));
    return o;
}

json_t *runs_json(Gen *g, const RunList *runs)
{
    json_t *list = json_array(), *all = json_object();

    for (int i = 0; i < runs->count; i++)
        gen_require(json_array_append_new(
                        list, json_of(g, &runs->items[i], &runs->items[0])) == 0,
                    "json: runs");
    set(all, "runs", list);
    return all;
}
