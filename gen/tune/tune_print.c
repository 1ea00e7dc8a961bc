/* SPDX-License-Identifier: Apache-2.0 */
/* tune_print.c: what tuning found. In: the candidates, ranked and some of them
 * measured. Out: a table or JSON on stdout. */
#include "tune/tune.h"

#include "base/show.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { TOP = 10 };

/* ---- the table ------------------------------------------------------------------- */

static const char *printable(const Tune *t, const char *s)
{
    return printable_text(t->g, s, strlen(s));
}

/* Four digits, as candidates are alike. */
static const char *seconds_text(Gen *g, double s)
{
    return s > 0 ? show_seconds_to(g, s, 4) : "-";
}

const char *tune_sets_of(const Tune *t, const Candidate *c)
{
    const OptionList *sets = c->left_out ? &c->sets : &c->changes;
    const char *text = tune_sets_text(t->g, sets, " ");

    return c->left_out || sets->count ? printable(t, text) : "as described";
}

bool tune_is_shown(const Tune *t, int place)
{
    const Candidate *c = t->ranked.items[place];

    return place < TOP || c->median > 0 || c->failed || c->id == 0;
}

/* "0.4011 s x5": the median of so many runs. */
const char *tune_measured_of(Gen *g, const Candidate *c)
{
    return c->median > 0 ? gen_printf(g, "%s x%d", seconds_text(g, c->median),
                                      c->step_seconds.count)
                         : "-";
}

static void print_row(const Tune *t, Text *to, int place, const Candidate *c)
{
    const bool any = tune_best(t)->median >
                     0; /* all rows show measured rates, or all predicted ones */
    const double seconds = any ? c->median : c->plan.seconds;

    text_printf(to, "%4d  %11s  %14s  %10s  %10s  %s\n", place,
                seconds_text(t->g, c->plan.seconds), tune_measured_of(t->g, c),
                seconds > 0 ? show_amount(t->g, tune_rate(c, seconds)) : "-",
                show_bytes(t->g, c->plan.bytes), tune_sets_of(t, c));
    if (c->failed)
        text_printf(to, "      could not be measured: %s\n", printable(t, c->failed));
}

static void print_counts(const Tune *t, Text *to)
{
    text_printf(to, "%d candidates: %d ranked", t->all.count, t->ranked.count);
    if (t->twice)
        text_printf(to, ", %d like another", t->twice);
    if (t->large)
        text_printf(to, ", %d over the budget", t->large);
    if (t->refused)
        text_printf(to, ", %d refused", t->refused);
    if (t->endless)
        text_printf(to, ", %d too long for a prediction", t->endless);
    if (t->other_numerics)
        text_printf(to, ", %d with other numerics (--allow-numerics)", t->other_numerics);
    text_printf(to, "\n");
    for (int i = 0; i < t->all.count; i++) { /* one reason, as an example */
        const Candidate *c = &t->all.items[i];

        if (c->left_out != c->plan.why || !*c->left_out)
            continue;
        text_printf(to, "  refused, for one: %s: %s\n", tune_sets_of(t, c),
                    printable(t, c->left_out));
        return;
    }
}

static void print_gain(const Tune *t, Text *to, const Candidate *best)
{
    const Candidate *own = &t->all.items[0];
    const bool measured = best->median > 0;
    const double now = own->left_out || own->failed ? 0
                       : measured                   ? own->median
                                                    : own->plan.seconds;
    const double then = measured ? best->median : best->plan.seconds;

    if (best != own && now > 0)
        text_printf(to, "  %.1f %% more tokens a second than as described\n",
                    100 * (tune_rate(best, then) / tune_rate(own, now) - 1));
}

/* The description was kept though another candidate ran faster. */
static void print_kept(const Tune *t, Text *to, const Candidate *best)
{
    const Candidate *fastest = tune_fastest(t);

    if (!tune_is_kept(t))
        return;
    if (best->median <= 0) {
        text_printf(to, "  %s ran, this one did not: too few runs to tell (--minutes)\n",
                    tune_sets_of(t, fastest));
        return;
    }
    text_printf(
        to, "  %s ran %.1f %% faster: ", tune_sets_of(t, fastest),
        100 * (tune_rate(fastest, fastest->median) / tune_rate(best, best->median) - 1));
    if (fastest->step_seconds.count < 3 || best->step_seconds.count < 3)
        text_printf(to, "too few runs to tell (--minutes)\n");
    else
        text_printf(to, "within the spread of the runs\n");
}

static void print_verdict(const Tune *t, Text *to)
{
    const Candidate *best = tune_best(t);

    text_printf(to, "\nbest%s: %s\n",
                best->median > 0 ? ", measured here" : ", predicted",
                tune_sets_of(t, best));
    print_gain(t, to, best);
    print_kept(t, to, best);
    if (best->median <= 0 && t->g->opt.rates)
        text_printf(to, "  predicted by the rates of %s\n",
                    printable(t, t->g->opt.rates));
    else if (best->median <= 0)
        text_printf(to, "  the rates behind predictions are not calibrated: they order "
                        "candidates, and promise no time\n");
    if (t->written)
        text_printf(to, "  written: %s\n", printable(t, t->g->opt.output));
}

void tune_print(const Tune *t)
{
    Text to = {.g = t->g};

    print_counts(t, &to);
    if (t->ranked.count) {
        text_printf(&to, "\n%4s  %11s  %14s  %10s  %10s  %s\n", "", "predicted",
                    "measured", "tokens/s", "a rank", "what it sets");
        for (int i = 0; i < t->ranked.count; i++) {
            const Candidate *c = t->ranked.items[i];

            if (tune_is_shown(t, i))
                print_row(t, &to, i + 1, c);
        }
        print_verdict(t, &to);
    } else {
        text_printf(&to, "no candidate fits\n");
    }
    fwrite(to.s, 1, to.len, stdout);
}

/* ---- JSON ------------------------------------------------------------------------ */

/* jansson takes UTF-8 alone. */
static json_t *text_json(const Tune *t, const char *s)
{
    json_t *v = json_string(printable(t, s));

    gen_require(v, "tune: a text of JSON");
    return v;
}

static json_t *candidate_json(const Tune *t, const Candidate *c)
{
    json_t *o = json_object(), *sets = json_array(), *runs = json_array();

    for (int i = 0; i < c->sets.count; i++)
        json_array_append_new(sets, text_json(t, c->sets.items[i]));
    json_object_set_new(o, "id", json_integer(c->id));
    json_object_set_new(o, "sets", sets);
    if (c->left_out) {
        json_object_set_new(o, "left_out", text_json(t, c->left_out));
        json_decref(runs);
        return o;
    }
    json_object_set_new(o, "numerics_hash",
                        json_string(gen_printf(t->g, "%016" PRIx64, c->plan.numerics)));
    json_object_set_new(o, "rank_bytes", json_integer(c->plan.bytes));
    json_object_set_new(o, "step_tokens", json_integer(c->plan.step_tokens));
    json_object_set_new(o, "predicted_seconds", json_real(c->plan.seconds));
    for (int i = 0; i < c->step_seconds.count; i++)
        json_array_append_new(runs, json_real(c->step_seconds.items[i]));
    json_object_set_new(o, "measured_seconds", runs);
    json_object_set_new(o, "median_seconds",
                        c->median > 0 ? json_real(c->median) : json_null());
    json_object_set_new(o, "weights_hash",
                        c->weights ? text_json(t, c->weights) : json_null());
    if (c->failed)
        json_object_set_new(o, "failed", text_json(t, c->failed));
    return o;
}

void tune_print_json(const Tune *t)
{
    const Candidate *best = tune_best(t), *fastest = tune_fastest(t);
    json_t *o = json_object(), *list = json_array();
    char *s;

    for (int i = 0; i < t->ranked.count; i++)
        json_array_append_new(list, candidate_json(t, t->ranked.items[i]));
    json_object_set_new(o, "candidates", json_integer(t->all.count));
    json_object_set_new(o, "best", best ? json_integer(best->id) : json_null());
    json_object_set_new(o, "fastest", fastest ? json_integer(fastest->id) : json_null());
    json_object_set_new(o, "ranked", list);
    list = json_array();
    for (int i = 0; i < t->all.count; i++)
        if (t->all.items[i].left_out)
            json_array_append_new(list, candidate_json(t, &t->all.items[i]));
    json_object_set_new(o, "left_out", list);
    s = json_dumps(o, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));
    gen_require(s, "tune: JSON");
    printf("%s\n", s);
    free(s);
    json_decref(o);
}
