/* SPDX-License-Identifier: Apache-2.0 */
/* tune_axes.c: what is tried. In: words FIELD=A,B,C of the command line, or the plan of
 * the description. Out: the axes, and a candidate for every combination of their values
 * after the description itself, which is candidate 0.
 *
 * Values are written as --set takes them, and are separated by commas outside of
 * brackets and quotes. Planning finds the combinations that the rules refuse,
 * and duplicates. */
#include "tune/tune.h"

#include <string.h>

enum { MAX_CANDIDATES = 20000 };

const char *tune_sets_text(Gen *g, const OptionList *sets, const char *between)
{
    Text t = {.g = g};

    text_add(&t, "", 0);
    for (int i = 0; i < sets->count; i++)
        text_printf(&t, "%s%s", i ? between : "", sets->items[i]);
    return t.s;
}

static TuneAxis *add_axis(Tune *t, const char *name)
{
    TuneAxis *a = gen_push(t->g, &t->axes);

    a->name = name;
    return a;
}

/* Adds a value: fields separated by blanks. */
static void add_value(Tune *t, TuneAxis *a, const char *sets)
{
    TuneValue *v = gen_push(t->g, &a->values);

    while (*sets) {
        const size_t n = strcspn(sets, " ");

        *gen_push(t->g, &v->sets) = gen_strndup(t->g, sets, n);
        sets += n + strspn(sets + n, " ");
    }
}

/* ---- named axes ------------------------------------------------------------------ */

/* Bytes of the first value: up to a comma outside of brackets and quotes. */
static size_t value_bytes(const char *s)
{
    int depth = 0;
    char quote = '\0';
    size_t n = 0;

    for (; s[n]; n++) {
        if (quote) {
            quote = s[n] == quote ? '\0' : quote;
            continue;
        }
        if (s[n] == '"' || s[n] == '\'')
            quote = s[n];
        depth += strchr("({[", s[n]) != NULL;
        depth -= strchr(")}]", s[n]) != NULL;
        if (s[n] == ',' && depth <= 0)
            break;
    }
    return n;
}

static int wrong_word(Tune *t, const char *word, const char *why)
{
    diag_add(
        t->g, DIAG_ERROR, (Pos){0},
        "write FIELD=A,B,C: `fsdpgen tune MODEL.lua wrap=1,2,4 recompute=none,block`",
        "tune: %s: %s", word, why);
    t->g->base.exit_code = EXIT_USAGE;
    return diag_finish(t->g);
}

static int named_axis(Tune *t, const char *word)
{
    const char *eq = strchr(word, '='), *s;
    TuneAxis *a;

    if (!eq || eq == word)
        return wrong_word(t, word, "a field and its values are expected");
    for (int i = 0; i < t->axes.count; i++)
        if (!strncmp(t->axes.items[i].name, word, (size_t)(eq - word)) &&
            !t->axes.items[i].name[eq - word])
            return wrong_word(t, word, "the field is given twice");
    a = add_axis(t, gen_strndup(t->g, word, (size_t)(eq - word)));
    for (s = eq + 1;; s++) {
        const size_t n = value_bytes(s);
        TuneValue *v;

        if (n == 0)
            return wrong_word(t, word, "a value is empty");
        v = gen_push(t->g, &a->values);
        *gen_push(t->g, &v->sets) = gen_printf(t->g, "%s=%.*s", a->name, (int)n, s);
        s += n;
        if (!*s)
            return EXIT_DONE;
    }
}

/* ---- the axes of a model --------------------------------------------------------- */

/* The strategies that cut something over ranks that are not all: without a cut a mesh
 * with copies does what the one without does. */
static void copies_values(Tune *t, TuneAxis *a, const char *shared, long long copies,
                          long long shards)
{
    for (int i = 0; i < N_STRATEGIES; i++) {
        const StrategyRule *rule = strategy_rule((Strategy)i);

        if (!rule->one_copy && rule->cut[HELD_OPTIMIZER])
            add_value(t, a,
                      gen_printf(t->g,
                                 "%smesh.replicate=%lld mesh.shard=%lld strategy=%s",
                                 shared, copies, shards, rule->name));
    }
}

/* The meshes whose axes but that of parts have `data` ranks. */
static void data_values(Tune *t, TuneAxis *a, const char *shared, long long data)
{
    const long long nodes = t->base.world_size / t->base.node_ranks;

    for (int i = 0; i < N_STRATEGIES; i++)
        if (!strategy_rule((Strategy)i)->copies)
            add_value(t, a,
                      gen_printf(t->g, "%smesh.replicate=1 mesh.shard=%lld strategy=%s",
                                 shared, data, strategy_name((Strategy)i)));
    for (long long copies = 2; copies < data; copies *= 2)
        if (copies <= 8 || copies == nodes)
            copies_values(t, a, shared, copies, data / copies);
}

/* "mesh.tensor=2 ", if there are parts that ranks could share. */
static const char *ranks_text(Tune *t, PartsAxis axis, long long n)
{
    return t->base.parts[axis] > 1
               ? gen_printf(t->g, "mesh.%s=%lld ", axis_name(parts_mesh(axis)), n)
               : "";
}

/* Parts may be shared by as many ranks as divide them; along tensor, by those of a node
 * that links join. */
static void mesh_axis(Tune *t)
{
    const long long world = t->base.world_size;
    const long long near = min_i64(t->base.node_ranks, t->base.near_ranks);
    const long long tensor = min_i64(t->base.parts[PARTS_TENSOR], near);
    const long long context = t->base.parts[PARTS_CONTEXT];
    TuneAxis *a = add_axis(t, "mesh and strategy");

    for (long long c = 1; c <= context && world % c == 0; c *= 2)
        for (long long n = 1; n <= tensor && world / c % n == 0; n *= 2)
            data_values(t, a,
                        gen_printf(t->g, "%s%s", ranks_text(t, PARTS_CONTEXT, c),
                                   ranks_text(t, PARTS_TENSOR, n)),
                        world / c / n);
}

static void wrap_axis(Tune *t)
{
    TuneAxis *a = add_axis(t, "wrap");

    for (long long n = 1; n <= 4 && n < t->base.blocks; n *= 2)
        add_value(t, a, gen_printf(t->g, "wrap=per_block(%lld)", n));
    add_value(t, a, "wrap=root_only");
}

static void model_axes(Tune *t)
{
    TuneAxis *a;

    if (t->base.world_size > 1) {
        mesh_axis(t);
        wrap_axis(t);
        a = add_axis(t, "prefetch");
        for (int n = 0; n <= 2; n++)
            add_value(t, a,
                      gen_printf(t->g, "prefetch.forward=%d prefetch.backward=%d", n, n));
    }
    a = add_axis(t, "recompute");
    add_value(t, a, "recompute=none");
    add_value(t, a, "recompute=cheap");
    add_value(t, a, "recompute=block");
    if (t->base.budget_bytes)
        add_value(t, a, "recompute=auto");
    if (t->base.world_size > 1 && t->base.rounds > 1) {
        a = add_axis(t, "accumulate");
        add_value(t, a, "accumulate=sharded");
        add_value(t, a, "accumulate=unsharded");
    }
}

/* ---- candidates ------------------------------------------------------------------ */

static int combine(Tune *t)
{
    int64_t total = 1;

    for (int i = 0; i < t->axes.count; i++)
        total = min_i64(total * t->axes.items[i].values.count, MAX_CANDIDATES + 1);
    if (total > MAX_CANDIDATES) {
        diag_add(t->g, DIAG_ERROR, (Pos){0}, "name fewer fields, or fewer values of them",
                 "tune: more than %d combinations", MAX_CANDIDATES);
        return diag_finish(t->g);
    }
    gen_push(t->g, &t->all)->plan = t->base;
    for (int64_t k = 0; k < total; k++) {
        Candidate *c = gen_push(t->g, &t->all);
        int64_t rest = k, step = total;

        c->id = t->all.count - 1;
        for (int i = 0; i < t->axes.count; i++) {
            const TuneAxis *a = &t->axes.items[i];
            const OptionList *sets;

            step /= a->values.count;
            sets = &a->values.items[rest / step].sets;
            rest %= step;
            for (int s = 0; s < sets->count; s++)
                *gen_push(t->g, &c->sets) = sets->items[s];
        }
    }
    return EXIT_DONE;
}

int tune_axes(Tune *t)
{
    const OptionList *words = &t->g->opt.words;
    int code = EXIT_DONE;

    for (int i = 1; i < words->count && code == EXIT_DONE; i++)
        code = named_axis(t, words->items[i]);
    if (words->count <= 1)
        model_axes(t);
    return code == EXIT_DONE ? combine(t) : code;
}
