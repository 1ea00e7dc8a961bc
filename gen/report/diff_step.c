/* SPDX-License-Identifier: Apache-2.0 */
/* diff_step.c: what a rank does in a step, for two trainers. In: step.c, tables and plans
 * of both. Out: how often a step executes each kind of instruction, the bytes it
 * receives, the predicted seconds, and which functions of step.c and bind.c differ.
 *
 * The counts follow the calls from trainer_step, and understand the two forms that the
 * template writes: loops to a constant, and `if (i % LEAF == LAST)`. */
#include "report/diff.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KINDS = 64, MAX_CALLS = 32, MAX_NESTED = 64 };
static const int64_t most = INT64_C(1) << 40;

typedef struct Function {
    const char *name;
    int from, end;  /* tokens of its body */
    int64_t *times; /* of each kind in one call; NULL: not counted yet */
    bool open;      /* being counted: a cycle counts as nothing */
} Function;

typedef struct Step {
    Gen *g;
    Tokens t;
    struct {
        Function *items;
        int count, cap;
    } functions;
    const char *kinds[MAX_KINDS];
    int n_kinds;
} Step;

/* The number of turns of a loop, for conditions in it. */
typedef struct Scope {
    int64_t times, turns;
    int calls, nested;
} Scope;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const Function *)a)->name, ((const Function *)b)->name);
}

static void find_functions(Step *s)
{
    const Tokens *t = &s->t;
    const Token *word = NULL;

    for (int i = 0; i < t->count; i++) {
        const Token *k = &t->items[i];

        if (k->kind == TOKEN_WORD && i + 1 < t->count && token_is(k + 1, "("))
            word = k;
        if (!token_is(k, "{") && !token_is(k, "(") && !token_is(k, "["))
            continue;
        if (token_is(k, "{") && i > 0 && token_is(k - 1, ")") && word)
            *gen_push(s->g, &s->functions) = (Function){
                .name = token_text(s->g, word), .from = i + 1, .end = tokens_close(t, i)};
        i = tokens_close(t, i);
    }
    if (s->functions.count)
        qsort(s->functions.items, (size_t)s->functions.count, sizeof *s->functions.items,
              by_name);
}

static Function *find_function(Step *s, const Token *name)
{
    const Function key = {.name = token_text(s->g, name)};

    return s->functions.count ? bsearch(&key, s->functions.items,
                                        (size_t)s->functions.count, sizeof key, by_name)
                              : NULL;
}

/* The kind of a call; NULL if it only names an address, a place or a number. */
static const char *kind_of(Gen *g, const Token *name)
{
    static const char *const silent[] = {"rt_at",        "rt_local", "rt_symmetric",
                                         "rt_loss_slot", "rt_leaf",  "rt_round"};

    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
        if (token_is(name, silent[i]))
            return NULL;
    if (name->n > 3 && name->n < 40 && !memcmp(name->s, "rt_", 3))
        return gen_strndup(g, name->s + 3, (size_t)name->n - 3);
    return token_ends(name, "_at") ? "span" : NULL;
}

static void count_kind(Step *s, int64_t *times, const char *kind, int64_t n)
{
    int k = 0;

    while (k < s->n_kinds && strcmp(s->kinds[k], kind) != 0)
        k++;
    if (k == MAX_KINDS)
        return;
    if (k == s->n_kinds)
        s->kinds[s->n_kinds++] = kind;
    times[k] = min_i64(most, times[k] + n);
}

static int64_t product(int64_t a, int64_t b)
{
    return a > 0 && b > most / a ? most : a * b;
}

/* `for (... ; i < N; ...)`: N, and where its body starts; 1 for other loops. */
static int64_t loop_turns(const Tokens *t, int *i)
{
    const int close = tokens_close(t, *i + 1);
    int64_t turns = 1;

    for (int k = *i; k + 1 < close; k++)
        if (token_is(&t->items[k], "<") && t->items[k + 1].kind == TOKEN_NUMBER)
            turns = token_value(&t->items[k + 1]);
    *i = close + 1;
    return turns < 0 || turns > most ? most : turns;
}

/* `if (i % L == K)` in a loop of N turns: the number of turns that take it; else all. */
static int64_t taken_turns(const Tokens *t, int *i, int64_t turns)
{
    const int close = tokens_close(t, *i + 1), at = *i;
    int64_t every, k;

    *i = close + 1;
    if (close != at + 8 || !token_is(&t->items[at + 3], "%") ||
        !token_is(&t->items[at + 5], "="))
        return turns;
    every = token_value(&t->items[at + 4]);
    k = token_value(&t->items[at + 7]);
    return every < 1 || k < 0 ? turns : turns > k ? (turns - k - 1) / every + 1 : 0;
}

static void count_function(Step *s, Function *f, int calls);

static void count_call(Step *s, int i, Scope scope, int64_t *times)
{
    const Token *name = &s->t.items[i];
    const char *kind = kind_of(s->g, name);
    Function *f = kind ? NULL : find_function(s, name);

    if (token_is(name, "rt_run")) { /* rt_run(rt, PART), or CONDITION ? PART : PART */
        i = tokens_close(&s->t, i + 1) - 1;
        f = i < s->t.count ? find_function(s, &s->t.items[i]) : NULL;
        kind = NULL;
    }
    if (kind)
        count_kind(s, times, kind, scope.times);
    if (!f || f->open || scope.calls == MAX_CALLS)
        return;
    if (!f->times)
        count_function(s, f, scope.calls + 1);
    for (int k = 0; k < s->n_kinds; k++)
        times[k] = min_i64(most, times[k] + product(scope.times, f->times[k]));
}

static void count_range(Step *s, int from, int end, Scope scope, int64_t *times)
{
    const Tokens *t = &s->t;

    for (int i = from; i < end; i++) {
        const bool loop = token_is(&t->items[i], "for"),
                   condition = token_is(&t->items[i], "if");

        if ((loop || condition) && scope.nested < MAX_NESTED) {
            Scope in = scope;
            int close;

            in.nested++;
            if (loop) {
                in.turns = loop_turns(t, &i);
                in.times = product(scope.times, in.turns);
            } else {
                in.times = product(scope.times / max_i64(scope.turns, 1),
                                   taken_turns(t, &i, scope.turns));
            }
            if (i >= end || !token_is(&t->items[i], "{")) {
                i--;
                continue;
            }
            close = tokens_close(t, i);
            count_range(s, i + 1, close < end ? close : end, in, times);
            i = close;
        } else if (t->items[i].kind == TOKEN_WORD && i + 1 < end &&
                   token_is(&t->items[i + 1], "(")) {
            count_call(s, i, scope, times);
        }
    }
}

static void count_function(Step *s, Function *f, int calls)
{
    int64_t *times = gen_alloc(s->g, MAX_KINDS * sizeof *times);

    f->open = true;
    count_range(s, f->from, f->end, (Scope){1, 1, calls, 0}, times);
    f->open = false;
    f->times = times;
}

/* ---- comparing ------------------------------------------------------------------- */

static int64_t times_of(const Step *s, const Function *f, const char *kind)
{
    for (int k = 0; f && k < s->n_kinds; k++)
        if (!strcmp(s->kinds[k], kind))
            return f->times[k];
    return 0;
}

static const Function *count_step(Step *s, DiffSide *side)
{
    static const char name[] = "trainer_step";
    const Token token = {name, sizeof name - 1, TOKEN_WORD};
    size_t bytes;
    const char *text = side_text(side, "step.c", true, &bytes);
    Function *f;

    s->g = side->g;
    if (!text)
        return NULL;
    s->t = code_tokens(s->g, text, bytes);
    find_functions(s);
    f = find_function(s, &token);
    if (f)
        count_function(s, f, 0);
    else
        side_complain(side, "step.c", "generate it again with `fsdpgen MODEL.lua -o DIR`",
                      "damaged: it has no function trainer_step");
    return f;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static json_t *diff_counts(Gen *g, DiffSide *old, DiffSide *now)
{
    Step *a = gen_alloc(g, sizeof *a), *b = gen_alloc(g, sizeof *b);
    const Function *x = count_step(a, old), *y = count_step(b, now);
    const char *kinds[2 * MAX_KINDS];
    json_t *list = json_array();
    int n = 0;

    for (int k = 0; k < a->n_kinds; k++)
        kinds[n++] = a->kinds[k];
    for (int k = 0; k < b->n_kinds; k++)
        kinds[n++] = b->kinds[k];
    if (n)
        qsort(kinds, (size_t)n, sizeof *kinds, by_text);
    for (int k = 0; k < n; k++)
        if (!k || strcmp(kinds[k], kinds[k - 1]) != 0)
            diff_push(list, diff_row(g, "kind", kinds[k], times_of(a, x, kinds[k]),
                                     times_of(b, y, kinds[k])));
    return list;
}

/* Members of an object that both plans have, in A's order; then those of B alone. */
json_t *diff_bytes(Gen *g, DiffSide *old, DiffSide *now, const char *what)
{
    const json_t *a = json_object_get(old->plan, what);
    const json_t *b = json_object_get(now->plan, what);
    const char *dot = gen_printf(g, "%s.", what), *key;
    json_t *list = json_array(), *v;

    json_object_foreach((json_t *)a, key, v)
    {
        const int64_t n = side_integer(old, a, dot, key);

        diff_push(list,
                  diff_row(g, "name", key, n,
                           json_object_get(b, key) ? side_integer(now, b, dot, key) : 0));
    }
    json_object_foreach((json_t *)b, key, v)
    {
        if (!json_object_get(a, key))
            diff_push(list, diff_row(g, "name", key, 0, side_integer(now, b, dot, key)));
    }
    return list;
}

static double plan_number(DiffSide *s, const char *key)
{
    const json_t *v = json_object_get(s->plan, key);

    if (json_is_null(v) && !strcmp(key, "step_seconds")) /* more than 26 days */
        return INFINITY;
    if (!json_is_number(v) || !isfinite(json_number_value(v)))
        side_complain(s, "plan.json", "generate it again with `fsdpgen MODEL.lua -o DIR`",
                      "damaged: %s must be a number", key);
    return v ? json_number_value(v) : 0;
}

json_t *diff_schedule(Gen *g, DiffSide *old, DiffSide *now)
{
    static const char *const numbers[] = {"step_seconds", "flops_per_token"};
    static const char *const files[] = {"step.c", "bind.c"};
    json_t *o = json_object(), *pair;

    for (int i = 0; i < 2; i++) {
        size_t n[2] = {0};
        const char *a = side_text(old, files[i], false, &n[0]);
        const char *b = side_text(now, files[i], false, &n[1]);

        diff_set(o, files[i], code_compare(g, a, n[0], b, n[1]));
    }
    diff_set(o, "instructions", diff_counts(g, old, now));
    diff_set(o, "bytes", diff_bytes(g, old, now, "step_bytes_per_rank"));
    for (int i = 0; i < 2; i++) {
        pair = json_object();
        diff_set(pair, "old", json_finite(plan_number(old, numbers[i])));
        diff_set(pair, "new", json_finite(plan_number(now, numbers[i])));
        diff_set(o, numbers[i], pair);
    }
    return o;
}
