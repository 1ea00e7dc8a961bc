/* SPDX-License-Identifier: Apache-2.0 */
/* tune_override.c: -o FILE. In: the best candidate. Out: a description that changes the
 * given one.
 *
 * The text is made in a child, since rules of --ops run where the language is opened. It
 * is loaded before it takes its name: it must say what was ranked and measured. */
#include "tune/tune.h"

#include "base/child.h"
#include "base/show.h"
#include "base/take_name.h"
#include "describe/load.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char first_line[] = "-- fsdpgen tune: ";
static const char last_line[] = "-- Written by fsdpgen tune; the hash of all above: ";

static int problem(Gen *g, const char *file, const char *help, const char *text)
{
    diag_add(g, DIAG_ERROR, (Pos){.file = file}, help, "%s", text);
    return diag_finish(g);
}

/* ---- its text, in the child ------------------------------------------------------ */

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* The name that `require` finds the description by, from its folder. */
static const char *module_of(Gen *g)
{
    const char *name = last_name(g->opt.input);
    const size_t n = strlen(name);

    return gen_printf(g, "%.*s", (int)(n > 4 ? n - 4 : n), name);
}

/* A word of --set means itself (describe/set.c), unless the language knows its name. */
static bool is_word(Gen *g, const char *s)
{
    size_t head = 0;
    const char *name;
    bool known;

    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    for (const char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_.-", *p))
            return false;
    while (isalnum((unsigned char)s[head]) || s[head] == '_')
        head++;
    name = gen_strndup(g, s, head);
    if (!strcmp(name, "true") || !strcmp(name, "false") || !strcmp(name, "nil"))
        return false;
    known = lua_getglobal(g->L, name) != LUA_TNIL;
    lua_pop(g->L, 1);
    return !known && !kinds_find(&g->loader->kinds, name);
}

/* --set takes a number for some tables: prefetch = 2, wrap = 4. Fields of it can be set
 * when it is a table. */
static void expand_number(Gen *g, Text *to, const char *path)
{
    const Field *f = fields_find(g->loader->trainer, path);

    if (!f || !(f->number_makes || f->number_sets.count))
        return;
    text_printf(to, "if type(t.%s) == \"number\" then t.%s = %s", path, path,
                f->number_makes ? gen_printf(g, "%s(t.%s)", f->number_makes, path)
                                : "{ ");
    for (int i = 0; !f->number_makes && i < f->number_sets.count; i++)
        text_printf(to, "%s%s = t.%s", i ? ", " : "", f->number_sets.items[i], path);
    text_printf(to, "%s end\n", f->number_makes ? "" : " }");
}

/* What --set starts from, where the description omits a table: "{}", or "cpu {}". */
static const char *missing_table(Gen *g, const char *path)
{
    const Field *f = fields_find(g->loader->trainer, path);

    if (f && f->type == FIELD_RECORD && f->default_ref != LUA_NOREF)
        return gen_printf(g, "%s {}", loader_default_kind(g, path));
    return "{}";
}

static void add_tables(Gen *g, Text *to, const char *field, OptionList *tables)
{
    for (const char *dot = strchr(field, '.'); dot; dot = strchr(dot + 1, '.')) {
        const char *table = gen_strndup(g, field, (size_t)(dot - field));
        bool known = false;

        for (int i = 0; !known && i < tables->count; i++)
            known = !strcmp(tables->items[i], table);
        if (known)
            continue;
        text_printf(to, "if t.%s == nil then t.%s = %s end\n", table, table,
                    missing_table(g, table));
        expand_number(g, to, table);
        *gen_push(g, tables) = table;
    }
}

static void add_set(Gen *g, Text *to, const char *set, OptionList *tables)
{
    const char *eq = strchr(set, '='), *field = gen_strndup(g, set, (size_t)(eq - set));
    const char *value = eq + 1 + strspn(eq + 1, " \t");

    add_tables(g, to, field, tables);
    text_printf(to,
                is_word(g, value) || size_is_written(value) ? "t.%s = \"%s\"\n"
                                                            : "t.%s = %s\n",
                field, value);
}

/* Ends the file: edits of the text before it show. */
static void add_hash(Text *t)
{
    text_printf(t, "%s%016" PRIx64 "\n", last_line, hash_bytes(t->s, t->len));
}

typedef struct Override {
    const Tune *t;
    Text text; /* in the parent */
} Override;

static int put_text(Gen *g, void *with)
{
    const Tune *t = ((Override *)with)->t;
    const Candidate *best = tune_best(t);
    const double seconds = best->median > 0 ? best->median : best->plan.seconds;
    const char *module = module_of(g);
    Text to = {.g = g};
    OptionList tables = {0};

    loader_open(g);
    diag_stop_on_errors(g);
    text_printf(&to, "%s%s, %s a step, %s\n", first_line, module,
                seconds > 0 ? show_seconds_to(g, seconds, 4) : "-",
                best->median > 0 ? "measured" : "predicted");
    text_printf(&to,
                "-- Keep it beside %s.lua, or pass that one's folder: --path FOLDER.\n"
                "local t = require \"%s\"\n\n",
                module, module);
    if (g->opt.target)
        text_printf(&to, "t.target = %s {}\n", g->opt.target);
    for (int i = 0; i < g->opt.sets.count; i++)
        add_set(g, &to, g->opt.sets.items[i], &tables);
    for (int i = 0; i < best->changes.count; i++)
        add_set(g, &to, best->changes.items[i], &tables);
    text_printf(&to, "\nreturn t\n");
    add_hash(&to);
    child_put(to.s, to.len);
    return EXIT_DONE;
}

static bool take_text(void *with, const char *s, size_t n)
{
    text_add(&((Override *)with)->text, s, n);
    return true;
}

static int make_text(const Tune *t, Override *o)
{
    Gen own = {.opt = t->g->opt};
    const ChildWork work = {.what = "the description of -o",
                            .cause = "is there a loop in a rule?",
                            .with = o,
                            .work = put_text,
                            .take = take_text};

    *o = (Override){t, {.g = t->g}};
    return child_stream(&own, &default_limits, &work);
}

/* ---- the file -------------------------------------------------------------------- */

typedef enum { OURS, EDITED, OTHER } Written;

static Written written_by(Gen *g, const char *path)
{
    Text t = {.g = g};
    const char *text = NULL;
    const size_t tail = sizeof last_line - 1 + 17;
    size_t bytes = 0;
    const bool begun = read_whole_file(path, &text, &bytes) == 0 &&
                       !strncmp(text, first_line, sizeof first_line - 1);

    if (begun && bytes > tail) {
        text_add(&t, text, bytes - tail);
        add_hash(&t);
    }
    bytes = t.len == bytes && begun ? !memcmp(t.s, text, bytes) : 0;
    free((char *)text);
    return bytes ? OURS : begun ? EDITED : OTHER;
}

/* May it take that name? Asked before the work and after it. */
static int check_free(Gen *g, const char *path)
{
    struct stat st;
    Written by;

    if (lstat(path, &st) != 0)
        return EXIT_DONE;
    if (stat(path, &st) == 0 && input_is(&st))
        return problem(g, path, "take another name", INPUT_TEXT);
    by = g->opt.force ? OURS : written_by(g, path);
    if (by == OURS)
        return EXIT_DONE;
    return problem(g, path, "take another name, or --force to replace it",
                   by == EDITED ? "the file was edited after fsdpgen tune wrote it"
                                : "the file exists, and fsdpgen tune did not write it");
}

static const char *folder_of(Gen *g, const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return ".";
    return slash == path ? "/" : gen_strndup(g, path, (size_t)(slash - path));
}

/* The override requires the description by its name. */
static int check_name(Gen *g)
{
    const char *input = last_name(g->opt.input), *module = module_of(g);
    const size_t n = strlen(input);

    if (n > 4 && !strcmp(input + n - 4, ".lua") &&
        require_is_name(module, strlen(module)))
        return EXIT_DONE;
    return problem(
        g, g->opt.input,
        "rename it: lower-case letters, digits, _, - and single dots, then .lua",
        "-o writes a description that requires this one, whose name `require` "
        "does not take");
}

int tune_override_check(Gen *g)
{
    const char *path = g->opt.output;
    const size_t n = path ? strlen(path) : 0;

    if (!path)
        return EXIT_DONE;
    if (n < 5 || strcmp(path + n - 4, ".lua") != 0)
        return problem(g, path, "-o tuned.lua",
                       "the best candidate is written as a description, whose name ends "
                       "in .lua");
    if (check_name(g) != EXIT_DONE)
        return EXIT_DIAG;
    if (check_free(g, path) != EXIT_DONE)
        return EXIT_DIAG;
    if (!strcmp(last_name(path), last_name(g->opt.input)))
        return problem(g, path, "take another name",
                       "it would require itself: it has the description's name");
    if (access(folder_of(g, path), W_OK) != 0)
        return problem(g, path, NULL,
                       gen_printf(g, "cannot be written: %s", strerror(errno)));
    return EXIT_DONE;
}

/* Loads it and compares: all resolved fields, and the numerics. */
static int check_file(const Tune *t, const char *file)
{
    const Candidate *best = tune_best(t);
    Gen own = {.opt = t->g->opt};
    TunePlan plan = {0};
    OptionList paths = {0};
    int code;

    own.opt.input = file;
    own.opt.target = NULL;
    own.opt.sets = (OptionList){0};
    for (int i = 0; i < t->g->opt.paths.count; i++)
        *gen_push(t->g, &paths) = t->g->opt.paths.items[i];
    *gen_push(t->g, &paths) = folder_of(t->g, t->g->opt.input);
    own.opt.paths = paths;
    code = tune_plan(&own, &(TuneJob){NULL, &plan}, 1, false, NULL, NULL);
    if (code != EXIT_DONE)
        return code;
    if (plan.resolved == best->plan.resolved && plan.numerics == best->plan.numerics)
        return EXIT_DONE;
    return problem(t->g, t->g->opt.output,
                   best->sets.count ? gen_printf(t->g, "write --set for each of: %s",
                                                 tune_sets_text(t->g, &best->sets, " "))
                                    : NULL,
                   *plan.why
                       ? gen_printf(t->g, "not written: it does not load: %s", plan.why)
                       : "not written: read back, it is another description");
}

static bool put_in_place(const char *beside, const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 ? rename(beside, path) == 0
                                 : take_name(AT_FDCWD, beside, AT_FDCWD, path);
}

int tune_override_write(const Tune *t)
{
    Gen *g = t->g;
    const char *path = g->opt.output,
               *beside = gen_printf(g, "%s.%ld.part", path, (long)getpid());
    Override o;
    bool good;
    int fd, code = make_text(t, &o);

    if (code != EXIT_DONE)
        return code;
    fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    good = fd >= 0 && file_write_all(fd, o.text.s, o.text.len) && fsync(fd) == 0;
    good = (fd < 0 || close(fd) == 0) && good;
    code = good ? check_file(t, beside) : EXIT_DONE;
    if (good && code == EXIT_DONE)
        code = check_free(g, path);
    if (good && code == EXIT_DONE && put_in_place(beside, path))
        return EXIT_DONE;
    if (code == EXIT_DONE)
        code = problem(g, path, NULL,
                       gen_printf(g, "cannot be written: %s", strerror(errno)));
    if (fd >= 0)
        unlink(beside);
    return code;
}
