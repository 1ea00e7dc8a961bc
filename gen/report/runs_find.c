/* SPDX-License-Identifier: Apache-2.0 */
/* runs_find.c: which files the RUNs of `fsdpgen report` are. In: words of the command
 * line: a log, or a folder that contains one. Out: the runs, read, each with a label and,
 * if its trainer's plan is beside the log, with the planned bytes. */
#include "report/runs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_LABEL_BYTES = 80 };
static const char log_name[] = "log.jsonl", ending[] = ".jsonl";
static const char help[] =
    "give a file that `trainer --log FILE` wrote, or the folder where it lies";

static bool ends_with(const char *s, const char *tail)
{
    const size_t n = strlen(s), m = strlen(tail);

    return n > m && !strcmp(s + n - m, tail);
}

/* The only *.jsonl of a folder; NULL: there are several, or none; *n: how many. */
static const char *only_log(Gen *g, const char *folder, int *n)
{
    DIR *d = opendir(folder);
    const char *found = NULL;

    *n = 0;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (ends_with(e->d_name, ending) && e->d_name[0] != '.') {
            found = gen_printf(g, "%s/%s", folder, e->d_name);
            ++*n;
        }
    if (d)
        closedir(d);
    return *n == 1 ? found : NULL;
}

const char *runs_file(Gen *g, const char *word, int *n)
{
    const char *file = gen_printf(g, "%s/%s", word, log_name);
    struct stat s;

    *n = 0;
    if (stat(word, &s) != 0 || !S_ISDIR(s.st_mode))
        return word;
    return stat(file, &s) == 0 ? file : only_log(g, word, n);
}

static void no_log(Gen *g, const char *folder, int n)
{
    if (n)
        diag_add(g, DIAG_ERROR, (Pos){.file = folder}, "name the file",
                 "the folder has %d files *%s, but no %s", n, ending, log_name);
    else
        diag_add(g, DIAG_ERROR, (Pos){.file = folder}, help,
                 "the folder has no %s and no other *%s", log_name, ending);
}

/* ---- labels ---------------------------------------------------------------------- */

/* Removes what all logs are called: runs/a/log.jsonl becomes runs/a, b.jsonl becomes
 * b. */
static const char *trimmed(Gen *g, const char *word)
{
    size_t n = strlen(word);
    const char *slash;

    while (n > 1 && word[n - 1] == '/')
        n--;
    word = gen_strndup(g, word, n);
    slash = strrchr(word, '/');
    if (slash && slash > word && !strcmp(slash + 1, log_name))
        return gen_strndup(g, word, (size_t)(slash - word));
    if (ends_with(word, ending) && (!slash || strlen(slash + 1) > strlen(ending)))
        return gen_strndup(g, word, n - strlen(ending));
    return word;
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

static const char *printable(Gen *g, const char *s, size_t most)
{
    Text t = {.g = g};
    const size_t n = strlen(s);

    text_add(&t, "", 0);
    if (n > most)
        text_printf(&t, "...");
    text_printable(&t, n > most ? s + n - most : s, n > most ? most : n, false);
    return t.s;
}

/* Labels each run by the last name of its path if these differ, else by the path as
 * given. */
static void label_all(Gen *g, RunList *runs, const char *const *words)
{
    bool differ = true;

    for (int i = 0; i < runs->count; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(last_name(trimmed(g, words[i])), last_name(trimmed(g, words[k]))))
                differ = false;
    for (int i = 0; i < runs->count; i++) {
        const char *s = trimmed(g, words[i]);

        runs->items[i].path = printable(g, words[i], 4096);
        runs->items[i].label = printable(g, differ ? last_name(s) : s, MAX_LABEL_BYTES);
    }
}

/* ---- what was planned ------------------------------------------------------------ */

static int64_t bytes_of(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    return json_is_integer(v) && json_integer_value(v) > 0 ? json_integer_value(v) : 0;
}

/* plan.json beside the log, as in a trainer's folder. A damaged one is ignored. */
static int64_t plan_beside(Gen *g, const char *file)
{
    const char *slash = strrchr(file, '/'), *text;
    const int n = slash ? (int)(slash - file + 1) : 0;
    const char *path = gen_printf(g, "%.*splan.json", n, file);
    size_t bytes;
    json_t *plan;
    int64_t total;

    if (read_whole_file(path, &text, &bytes) != 0)
        return 0;
    plan = json_loadb(text, bytes, 0, NULL);
    total = bytes_of(json_object_get(plan, "bytes_per_rank"), "total");
    json_decref(plan);
    free((char *)text);
    return total;
}

/* ---- all of them ----------------------------------------------------------------- */

void runs_open(Gen *g, RunList *runs, const char *const *words, int count)
{
    size_t rows = MAX_ROWS;

    for (int i = 0; i < count; i++) {
        RunLog *r = gen_push(g, runs);
        int n;
        const char *file = runs_file(g, words[i], &n);

        if (!file) {
            no_log(g, words[i], n);
            continue;
        }
        runs_read(g, r, file, rows);
        rows -= r->n;
        r->plan_bytes = plan_beside(g, file);
        if (r->plan_bytes == 0) /* everything but the libraries */
            r->plan_bytes = bytes_of(r->record, "arena_bytes");
    }
    label_all(g, runs, words);
}
