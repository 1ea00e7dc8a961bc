/* SPDX-License-Identifier: Apache-2.0 */
/* diff.c: `fsdpgen diff A B`: what changed between two trainers, and what that means for
 * a run that continues with the other one. In: two generated folders or descriptions.
 * Out: six sections and a verdict on stdout, as text or as one JSON object. Runs in the
 * child.
 *
 * The result is deterministic: both are read whole, everything is in order of names or of
 * the plan, and apart from the two paths nothing depends on this machine. */
#include "report/diff.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- members --------------------------------------------------------------------- */

void diff_set(json_t *o, const char *key, json_t *value)
{
    gen_require(json_object_set_new(o, key, value) == 0, "json: %s", key);
}

void diff_push(json_t *list, json_t *value)
{
    gen_require(json_array_append_new(list, value) == 0, "json: a list");
}

json_t *diff_word(Gen *g, const char *s)
{
    return json_string(printable_text(g, s, strlen(s)));
}

json_t *diff_row(Gen *g, const char *key, const char *name, int64_t old, int64_t now)
{
    json_t *o = json_object();

    diff_set(o, key, diff_word(g, name));
    diff_set(o, "old", json_integer(old));
    diff_set(o, "new", json_integer(now));
    diff_set(o, "difference", json_integer(now - old)); /* both are in 0 .. 2^62 */
    return o;
}

/* ---- sections that need both sides at once --------------------------------------- */

static json_t *side_json(Gen *g, DiffSide *s)
{
    json_t *o = json_object(), *edited = json_array();

    diff_set(o, "path", diff_word(g, s->path));
    diff_set(o, "generator", diff_word(g, s->generator));
    diff_set(o, "name",
             diff_word(g, json_string_value(json_object_get(s->plan, "name"))));
    diff_set(o, "ranks", json_integer(side_integer(s, s->plan, "", "ranks")));
    for (int i = 0; i < s->edited.count; i++)
        diff_push(edited, diff_word(g, s->edited.items[i]));
    diff_set(o, "edited", edited);
    return o;
}

/* math.* and kernels.* of both sides, in order of names. */
static json_t *diff_mathematics(Gen *g, DiffSide *old, DiffSide *now)
{
    json_t *list = json_array();

    for (int i = 0, j = 0; i < old->maths.count || j < now->maths.count;) {
        const int c = i == old->maths.count ? 1
                      : j == now->maths.count
                          ? -1
                          : strcmp(old->maths.items[i], now->maths.items[j]);
        const char *name = c <= 0 ? old->maths.items[i] : now->maths.items[j];
        size_t n[2] = {0};
        const char *a = c <= 0 ? side_text(old, name, true, &n[0]) : NULL;
        const char *b = c >= 0 ? side_text(now, name, true, &n[1]) : NULL;
        json_t *o = code_compare(g, a, n[0], b, n[1]);

        diff_set(o, "file", json_string(name));
        diff_set(o, "in", json_string(c == 0 ? "both" : c < 0 ? "A" : "B"));
        diff_push(list, o);
        i += c <= 0;
        j += c >= 0;
    }
    return list;
}

static json_t *fields_on(const json_t *description, const char *side)
{
    json_t *list = json_array();
    size_t i;
    const json_t *o;

    json_array_foreach(description, i, o)
    {
        if (!strcmp(json_string_value(json_object_get(o, "hash")), side))
            diff_push(list, json_incref(json_object_get(o, "field")));
    }
    return list;
}

static bool has_runtime(const DiffSide *s)
{
    const char *name;
    json_t *v;

    json_object_foreach(json_object_get(s->manifest, "files"), name, v)
    {
        if (!strncmp(name, "runtime/", 8))
            return true;
    }
    return false;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Is it a file of the runtime that computes? The text of those is part of the
 * platform. */
static bool computes(const char *name)
{
    return !strncmp(name, "runtime/", 8) && runtime_computes(name + 8);
}

/* Names whose hashes differ, in order; arithmetic: among the computing files of the
 * runtime, else among all others. */
static json_t *other_files(Gen *g, const DiffSide *old, const DiffSide *now,
                           bool arithmetic)
{
    const DiffSide *sides[] = {old, now};
    json_t *list = json_array();
    struct {
        const char **items;
        int count, cap;
    } names = {0};

    for (int k = 0; k < 2; k++) {
        json_t *files = json_object_get(sides[k]->manifest, "files"), *v;
        const char *name;

        json_object_foreach(files, name, v)
        {
            const char *other = side_hash(sides[1 - k], name);

            if (computes(name) != arithmetic || (k && other) ||
                (other && !strcmp(other, json_string_value(v))))
                continue;
            *gen_push(g, &names) = name;
        }
    }
    if (names.count)
        qsort(names.items, (size_t)names.count, sizeof *names.items, by_text);
    for (int i = 0; i < names.count; i++)
        diff_push(list, diff_word(g, names.items[i]));
    return list;
}

static json_t *diff_hashes(Gen *g, DiffSide *old, DiffSide *now,
                           const json_t *description)
{
    json_t *o = json_object(), *numerics = json_object(), *platform = json_object();
    const bool a = has_runtime(old), b = has_runtime(now);

    diff_set(numerics, "equal", json_boolean(!strcmp(old->numerics, now->numerics)));
    diff_set(numerics, "old", json_string(old->numerics));
    diff_set(numerics, "new", json_string(now->numerics));
    diff_set(numerics, "fields", fields_on(description, "in"));
    diff_set(platform, "fields", fields_on(description, "platform"));
    diff_set(platform, "runtime",
             json_string(a && b   ? "compared"
                         : a || b ? "in one folder"
                                  : "in neither folder"));
    diff_set(platform, "runtime_files",
             a && b ? other_files(g, old, now, true) : json_array());
    diff_set(o, "numerics", numerics);
    diff_set(o, "platform", platform);
    return o;
}

/* ---- the verdict ----------------------------------------------------------------- */

static json_t *at(const json_t *o, const char *a, const char *b)
{
    return json_object_get(json_object_get(o, a), b);
}

static bool any(const json_t *list)
{
    return json_array_size(list) > 0;
}

static bool all_same(const json_t *files, const char *least)
{
    size_t i;
    const json_t *o;

    json_array_foreach(files, i, o)
    {
        const char *same = json_string_value(json_object_get(o, "same"));

        if (strcmp(same, "bytes") != 0 && strcmp(same, least) != 0)
            return false;
    }
    return true;
}

static bool rows_differ(const json_t *rows)
{
    size_t i;
    const json_t *o;

    json_array_foreach(rows, i, o)
    {
        if (json_integer_value(json_object_get(o, "difference")) != 0)
            return true;
    }
    return false;
}

/* Do both have the same parameters, wherever they are placed? */
static bool same_parameters(const json_t *r)
{
    const json_t *p = at(r, "layout", "parameters");

    return !any(json_object_get(p, "added")) && !any(json_object_get(p, "removed")) &&
           !any(json_object_get(p, "resized"));
}

static bool same_plan(const json_t *r)
{
    const char *step =
        json_string_value(json_object_get(at(r, "schedule", "step.c"), "same"));
    const char *bind =
        json_string_value(json_object_get(at(r, "schedule", "bind.c"), "same"));
    const json_t *s = at(r, "layout", "segments");

    return strcmp(step, "no") != 0 && strcmp(bind, "no") != 0 && same_parameters(r) &&
           !any(json_object_get(s, "added")) && !any(json_object_get(s, "removed")) &&
           !any(json_object_get(s, "resized")) &&
           !any(json_object_get(at(r, "layout", "parameters"), "moved")) &&
           !rows_differ(at(r, "schedule", "bytes")) &&
           !rows_differ(json_object_get(r, "memory"));
}

static const char *join(Gen *g, const json_t *list)
{
    Text t = {.g = g};
    const size_t n = json_array_size(list);

    text_add(&t, "", 0);
    for (size_t i = 0; i < n && i < 4; i++)
        text_printf(&t, "%s%s", i ? ", " : "",
                    json_string_value(json_array_get(list, i)));
    if (n > 4)
        text_printf(&t, " and %zu more", n - 4);
    return t.s;
}

static const char *other_numerics(Gen *g, const json_t *r)
{
    const json_t *fields = at(r, "hashes", "numerics");
    const bool same = same_parameters(r);

    fields = json_object_get(fields, "fields");
    return gen_printf(
        g, "Other numerics (%s): B refuses to resume A's checkpoints%s.",
        any(fields) ? join(g, fields) : "the graph or the arithmetic of an op",
        same ? " without --accept-numerics; a new run takes A's weights by --init "
               "CHECKPOINT"
             : "; its parameters differ too, so --init cannot take A's weights either");
}

/* The numerics are equal: which input of the platform differs? NULL: none. */
static const char *other_platform(Gen *g, const json_t *r)
{
    const json_t *p = at(r, "hashes", "platform");
    Text t = {.g = g};

    if (!all_same(json_object_get(r, "mathematics"), "code"))
        text_printf(&t, ", mathematics");
    if (any(json_object_get(p, "fields")))
        text_printf(&t, ", %s", join(g, json_object_get(p, "fields")));
    if (any(json_object_get(p, "runtime_files")))
        text_printf(&t, ", runtime");
    return t.len ? t.s + 2 : NULL;
}

/* The edited files of both sides; NULL: none. */
static const char *edited_files(Gen *g, const json_t *r)
{
    json_t *a = at(r, "a", "edited"), *b = at(r, "b", "edited");

    return any(a) && any(b) ? gen_printf(g, "A: %s; B: %s", join(g, a), join(g, b))
           : any(a)         ? gen_printf(g, "A: %s", join(g, a))
           : any(b)         ? gen_printf(g, "B: %s", join(g, b))
                            : NULL;
}

static json_t *verdict(Gen *g, const json_t *r)
{
    json_t *o = json_object();
    const json_t *files = json_object_get(r, "other_files");
    const char *kind = "none", *text = "No difference.";
    const char *platform = other_platform(g, r), *edited = edited_files(g, r);

    if (!json_is_true(json_object_get(at(r, "hashes", "numerics"), "equal"))) {
        kind = "numerics";
        text = other_numerics(g, r);
    } else if (edited) {
        kind = "edited";
        text = gen_printf(g,
                          "Same numerics, but files were edited by hand (%s): nothing is "
                          "promised of B's bits.",
                          edited);
    } else if (platform) {
        kind = "platform";
        text = gen_printf(g,
                          "Same numerics, other inputs of the platform (%s): B resumes "
                          "A's checkpoints, but may give other bits.",
                          platform);
    } else if (!same_plan(r)) {
        kind = "schedule";
        text = "Same numerics, other schedule: a run resumed with B gives the same bits.";
    } else if (any(files)) {
        kind = "files";
        text = gen_printf(g,
                          "Same numerics, same schedule: only %s differ%s; a run resumed "
                          "with B gives the same bits.",
                          join(g, files), json_array_size(files) == 1 ? "s" : "");
    }
    diff_set(o, "kind", json_string(kind));
    diff_set(o, "text", json_string(text));
    return o;
}

/* ---- the command ----------------------------------------------------------------- */

/* All sections; NULL after messages. */
static json_t *compare(Gen *g, DiffSide *a, DiffSide *b)
{
    json_t *r = json_object(), *description = diff_description(g, a, b);
    json_t *mathematics = diff_mathematics(g, a, b), *layout = diff_layout(g, a, b);
    json_t *schedule = diff_schedule(g, a, b);

    diff_set(r, "a", side_json(g, a)); /* the edited files are known now */
    diff_set(r, "b", side_json(g, b));
    diff_set(r, "description", description);
    diff_set(r, "hashes", diff_hashes(g, a, b, description));
    diff_set(r, "mathematics", mathematics);
    diff_set(r, "layout", layout);
    diff_set(r, "schedule", schedule);
    diff_set(r, "memory", diff_bytes(g, a, b, "bytes_per_rank"));
    diff_set(r, "other_files", other_files(g, a, b, false));
    if (diag_errors(g)) {
        json_decref(r);
        return NULL;
    }
    diff_set(r, "verdict", verdict(g, r));
    return r;
}

json_t *diff_trainers(Gen *g, MakeTrainer *make, int *code)
{
    DiffSide a = {0}, b = {0};
    json_t *r = NULL;

    *code = side_open(g, &a, g->opt.input, make);
    if (*code == EXIT_DONE)
        *code = side_open(g, &b, g->opt.other, make);
    if (*code == EXIT_DONE && !diag_errors(g))
        r = compare(g, &a, &b);
    side_close(&a);
    side_close(&b);
    return r;
}

int diff_run(Gen *g, MakeTrainer *make)
{
    Text t = {.g = g};
    int code;
    json_t *r = diff_trainers(g, make, &code);

    if (code == EXIT_DONE)
        code = diag_finish(g);
    if (code != EXIT_DONE)
        return code;
    if (g->opt.json) {
        char *s =
            json_dumps(r, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));

        gen_require(s, "the difference cannot be written as JSON");
        text_printf(&t, "%s\n", s);
        free(s);
    } else {
        diff_print(&t, r);
    }
    json_decref(r);
    fwrite(t.s, 1, t.len, stdout);
    return EXIT_DONE;
}
