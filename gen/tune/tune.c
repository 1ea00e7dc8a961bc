/* SPDX-License-Identifier: Apache-2.0 */
/* tune.c: `fsdpgen tune MODEL.lua [FIELD=A,B,C]...`. In: a description, and what is
 * varied. Out: a table, or JSON; with -o the best candidate as a description that changes
 * the given one.
 *
 * Every candidate is planned: those whose bytes exceed the budget, and those that are
 * refused, drop out; the others are ranked by the predicted rate. The best few and the
 * description as it is are then built and run here. */
#include "tune/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- planning -------------------------------------------------------------------- */

/* Does an earlier candidate do the same in the same order? */
static bool is_twice(const Tune *t, const Candidate *c)
{
    for (const Candidate *o = t->all.items; o < c; o++)
        if (!o->left_out && o->plan.program == c->plan.program &&
            o->plan.bytes == c->plan.bytes && o->plan.numerics == c->plan.numerics &&
            o->plan.seconds == c->plan.seconds && o->plan.target == c->plan.target)
            return true;
    return false;
}

static void judge(Tune *t, Candidate *c)
{
    if (c->plan.code == EXIT_FIT) {
        c->left_out = "needs more memory than the budget";
        t->large++;
    } else if (c->plan.code != EXIT_DONE) {
        c->left_out = c->plan.why;
        t->refused++;
    } else if (c->plan.numerics != t->base.numerics && !t->g->opt.allow_numerics) {
        c->left_out = "changes the numerics hash: --allow-numerics";
        t->other_numerics++;
    } else if (isinf(c->plan.seconds)) {
        c->left_out = "a step takes more than 26 days, too long for a prediction";
        t->endless++;
    } else if (is_twice(t, c)) {
        c->left_out = "does what an earlier candidate does";
        t->twice++;
    }
}

static int by_prediction(const void *pa, const void *pb)
{
    const Candidate *a = *(Candidate *const *)pa, *b = *(Candidate *const *)pb;
    const double ra = tune_rate(a, a->plan.seconds), rb = tune_rate(b, b->plan.seconds);

    if (ra != rb)
        return ra > rb ? -1 : 1;
    if (a->plan.bytes != b->plan.bytes)
        return a->plan.bytes < b->plan.bytes ? -1 : 1;
    return a->id - b->id;
}

static void show_progress(void *with)
{
    Tune *t = with;

    t->planned++;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, t->planned < t->all.count - 1 ? "\rplanned %d of %d" : "\r\033[K",
                t->planned, t->all.count - 1);
}

/* Where no combination is legal, the first one's messages say why; and where none can be
 * ranked, a message of ours. */
static int check_any(Tune *t)
{
    int code;

    if (t->ranked.count == 0 && t->endless > 0) {
        diag_add(t->g, DIAG_ERROR, (Pos){.file = t->g->opt.input},
                 "use more ranks, or a smaller model or global_batch",
                 "tune: every candidate that fits takes more than 26 days a step, too "
                 "long for a prediction that ranks them");
        return diag_finish(t->g);
    }
    if (t->refused == 0 || t->refused < t->all.count - 1)
        return EXIT_DONE;
    code = tune_check(t->g, &t->all.items[1].sets);
    return code == EXIT_DONE ? EXIT_BUG : code;
}

static int plan_all(Tune *t)
{
    const int n = t->all.count - 1; /* that of candidate 0 is known */
    TuneJob *jobs = gen_alloc(t->g, sizeof *jobs * (size_t)(n + 1));
    int code;

    for (int i = 0; i < n; i++)
        jobs[i] = (TuneJob){&t->all.items[i + 1].sets, &t->all.items[i + 1].plan};
    code = tune_plan(t->g, jobs, n, false, show_progress, t);
    if (code != EXIT_DONE)
        return code;
    for (int i = 0; i < t->all.count; i++)
        judge(t, &t->all.items[i]);
    for (int i = 0; i < t->all.count; i++)
        if (!t->all.items[i].left_out)
            *gen_push(t->g, &t->ranked) = &t->all.items[i];
    if (t->ranked.count)
        qsort(t->ranked.items, (size_t)t->ranked.count, sizeof *t->ranked.items,
              by_prediction);
    return check_any(t);
}

/* The description must be legal. It may be too large: some candidate may fit. */
static int plan_base(Tune *t)
{
    TunePlan fields = {0};
    int code = tune_plan(t->g, &(TuneJob){NULL, &t->base}, 1, false, NULL, NULL);

    if (code != EXIT_DONE)
        return code;
    if (t->base.code != EXIT_DONE && t->base.code != EXIT_FIT) {
        code = tune_check(t->g, NULL); /* its messages */
        return code == EXIT_DONE ? EXIT_BUG : code;
    }
    code = tune_plan(t->g, &(TuneJob){NULL, &fields}, 1, true, NULL, NULL);
    t->base.fields = fields.fields;
    return code;
}

/* ---- what is shown --------------------------------------------------------------- */

/* The hashes of all resolved fields for each of those lists. */
static int fields_of(Tune *t, const OptionList *lists, TunePlan *plans, int n)
{
    TuneJob *jobs = gen_alloc(t->g, sizeof *jobs * (size_t)(n + 1));

    for (int i = 0; i < n; i++)
        jobs[i] = (TuneJob){&lists[i], &plans[i]};
    return tune_plan(t->g, jobs, n, true, NULL, NULL);
}

static TuneKnown *known_of(Tune *t, const char *set)
{
    for (int i = 0; i < t->known.count; i++)
        if (!strcmp(t->known.items[i].set, set))
            return &t->known.items[i];
    return NULL;
}

/* Which fields does the description say already? Asked once for each field and value. */
static int find_own(Tune *t, Candidate *const *list, int n)
{
    OptionList *one;
    TunePlan *plans;
    int code;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < list[i]->sets.count; k++)
            if (!known_of(t, list[i]->sets.items[k]))
                *gen_push(t->g, &t->known) = (TuneKnown){list[i]->sets.items[k], false};
    one = gen_alloc(t->g, sizeof *one * (size_t)(t->known.count + 1));
    plans = gen_alloc(t->g, sizeof *plans * (size_t)(t->known.count + 1));
    for (int i = 0; i < t->known.count; i++)
        *gen_push(t->g, &one[i]) = t->known.items[i].set;
    code = fields_of(t, one, plans, t->known.count);
    for (int i = 0; i < t->known.count; i++)
        t->known.items[i].own = plans[i].fields == t->base.fields;
    return code;
}

/* Without the fields whose indices are marked. */
static OptionList without(Gen *g, const OptionList *sets, const bool *dropped)
{
    OptionList left = {0};

    for (int i = 0; i < sets->count; i++)
        if (!dropped[i])
            *gen_push(g, &left) = sets->items[i];
    return left;
}

/* Defaults depend on other fields, and what remains must give the same description. So
 * fields that cannot be dropped together are dropped one by one. */
static int drop_each(Tune *t, Candidate *c, uint64_t fields)
{
    bool *dropped = gen_alloc(t->g, sizeof *dropped * (size_t)(c->sets.count + 1));
    int code = EXIT_DONE;

    for (int i = 0; i < c->sets.count && code == EXIT_DONE; i++) {
        OptionList left;
        TunePlan p = {0};

        dropped[i] = known_of(t, c->sets.items[i])->own;
        if (!dropped[i])
            continue;
        left = without(t->g, &c->sets, dropped);
        code = fields_of(t, &left, &p, 1);
        dropped[i] = p.fields == fields;
    }
    c->changes = without(t->g, &c->sets, dropped);
    return code;
}

/* Reads the changes of all candidates, and their fields as given, in one batch. */
static int drop_own(Tune *t, Candidate *const *list, int n)
{
    OptionList *lists = gen_alloc(t->g, sizeof *lists * (size_t)(2 * n + 1));
    TunePlan *plans = gen_alloc(t->g, sizeof *plans * (size_t)(2 * n + 1));
    int code;

    for (int i = 0; i < n; i++) {
        const OptionList *sets = &list[i]->sets;
        bool *dropped = gen_alloc(t->g, sizeof *dropped * (size_t)(sets->count + 1));

        for (int k = 0; k < sets->count; k++)
            dropped[k] = known_of(t, sets->items[k])->own;
        lists[2 * i] = *sets;
        lists[2 * i + 1] = list[i]->changes = without(t->g, sets, dropped);
    }
    code = fields_of(t, lists, plans, 2 * n);
    for (int i = 0; i < n && code == EXIT_DONE; i++)
        if (plans[2 * i].fields != plans[2 * i + 1].fields)
            code = drop_each(t, list[i], plans[2 * i].fields);
    return code;
}

/* The table leaves out fields that change nothing. */
static int find_changes(Tune *t)
{
    Candidate **list = gen_alloc(t->g, sizeof *list * (size_t)(t->ranked.count + 1));
    const Candidate *best = tune_best(t);
    int n = 0, code;

    for (int i = 0; i < t->ranked.count; i++)
        if (tune_is_shown(t, i) || i < t->measure || t->ranked.items[i] == best)
            list[n++] = t->ranked.items[i];
    code = n ? find_own(t, list, n) : EXIT_DONE;
    return code == EXIT_DONE && n ? drop_own(t, list, n) : code;
}

/* ---- the command ----------------------------------------------------------------- */

static int rank_and_run(Tune *t)
{
    int code = plan_all(t);

    if (code == EXIT_DONE && t->measure && t->ranked.count) {
        code = find_changes(t); /* the table of the runs shows them */
        if (code == EXIT_DONE)
            code = tune_measure(t);
    }
    if (code == EXIT_DONE)
        code = find_changes(t);
    if (code != EXIT_DONE)
        return code;
    if (t->stopped && !t->broke)
        print_line(stderr, "fsdpgen: ", "stopped; what was measured is in %s",
                   t->wisdom ? gen_printf(t->g, "%s: the same command goes on", t->wisdom)
                             : "the table only (--wisdom FILE keeps it)");
    if (t->g->opt.output && t->ranked.count && t->broke != EXIT_BUG) {
        code = tune_override_write(t);
        t->written = code == EXIT_DONE;
    }
    if (t->g->opt.json)
        tune_print_json(t);
    else
        tune_print(t);
    if (!t->ranked.count)
        return EXIT_FIT;
    if (t->g->opt.html && code == EXIT_DONE)
        code = tune_page(t);
    if (t->broke)
        return t->broke;
    return t->stopped && code == EXIT_DONE ? 128 + t->stopped : code;
}

int tune_command(Gen *g)
{
    Tune t = {.g = g};
    const char *out = g->opt.output;
    int code = plan_base(&t);

    if (g->opt.data)
        input_note(g->opt.data);
    if (code == EXIT_DONE) /* what is read is known now, and must stay */
        code = tune_override_check(g);
    if (code == EXIT_DONE)
        code = tune_page_check(g);
    if (code == EXIT_DONE)
        code = tune_axes(&t);
    if (code != EXIT_DONE)
        return code;
    t.measure = g->opt.plan_only ? 0
                : g->opt.measure ? g->opt.measure
                                 : (t.base.cpu ? 3 : 0);
    t.steps = g->opt.steps ? g->opt.steps : 4;
    t.minutes = g->opt.minutes ? g->opt.minutes : 5;
    t.work = g->opt.work;
    t.data = g->opt.data;
    t.wisdom = g->opt.wisdom ? g->opt.wisdom
               : out         ? gen_printf(g, "%.*s.wisdom", (int)strlen(out) - 4, out)
                             : NULL;
    return rank_and_run(&t);
}
