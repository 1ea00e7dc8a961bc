/* SPDX-License-Identifier: Apache-2.0 */
/* runs.c: `fsdpgen report RUN...`. In: logs of trainers. Out: one HTML page, on stdout or
 * in a file, or the figures as JSON. The child reads the logs and writes no file; it
 * returns the page. */
#include "report/html.h"
#include "report/runs.h"

#include <stdlib.h>
#include <sys/stat.h>

enum { MAX_PAGE_BYTES = 64 << 20 };

static const PageOf page_of = {"<!doctype html>\n<!-- fsdpgen report ",
                               "a page of `fsdpgen report`"};

typedef struct Report {
    const RunOptions *o;
    Text page; /* in the parent */
} Report;

static void print_json(Gen *g, const RunList *runs)
{
    json_t *o = runs_json(g, runs);
    char *s =
        json_dumps(o, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));

    gen_require(s, "the figures cannot be written as JSON");
    printf("%s\n", s);
    free(s);
    json_decref(o);
}

/* Notes, once per run, what the curves leave out. */
static void note_all(Gen *g, const RunList *runs)
{
    for (int i = 0; i < runs->count; i++) {
        const RunLog *r = &runs->items[i];

        if (r->other_lines)
            diag_add(g, DIAG_WARNING, (Pos){.file = r->path}, NULL,
                     "%zu line%s left out: neither a step nor a run", r->other_lines,
                     r->other_lines == 1 ? " is" : "s are");
        if (r->cut)
            diag_add(g, DIAG_NOTE, (Pos){.file = r->path}, NULL,
                     "the last line is incomplete and is left out");
    }
}

static int work(Gen *g, void *with)
{
    const RunOptions *o = ((Report *)with)->o;
    RunList runs = {0};
    Text page = {.g = g};
    int code;

    runs_open(g, &runs, o->words, o->count);
    if (!diag_errors(g))
        note_all(g, &runs);
    code = diag_finish(g);
    if (code != EXIT_DONE)
        return code;
    if (o->output || !o->json) {
        runs_page(g, &runs, &page);
        child_put(page.s, page.len);
    }
    if (o->json)
        print_json(g, &runs);
    return EXIT_DONE;
}

static bool take(void *with, const char *s, size_t n)
{
    Report *r = with;

    gen_require(r->page.len + n <= MAX_PAGE_BYTES, "a page of more than %d bytes",
                MAX_PAGE_BYTES);
    text_add(&r->page, s, n);
    return true;
}

/* Ten microseconds per byte are about a hundred times what reading takes. */
static Limits limits_of(Gen *g, const RunOptions *o)
{
    Limits l = default_limits;

    for (int i = 0; i < o->count; i++) {
        int n;
        const char *file = runs_file(g, o->words[i], &n);
        struct stat s;

        if (file && stat(file, &s) == 0)
            l.cpu_seconds += s.st_size / 100000;
    }
    l.wall_seconds = 0; /* a slow disk is not the log's fault */
    return l;
}

int runs_command(Gen *g, const RunOptions *o)
{
    Report r = {.o = o, .page = {.g = g}};
    const ChildWork child = {.what = "the report",
                             .cause = "report fewer logs at once",
                             .with = &r,
                             .work = work,
                             .take = take};
    const Limits limits = limits_of(g, o);
    int code = child_stream(g, &limits, &child);

    if (code != EXIT_DONE || (o->json && !o->output))
        return code;
    if (!o->output) {
        fwrite(r.page.s, 1, r.page.len, stdout);
        return code;
    }
    code = page_write(g, o->output, &page_of, &r.page, o->force);
    if (code == EXIT_DONE && !o->json)
        print_line(stdout, "", "%s: %d run%s, %zu KiB", o->output, o->count,
                   o->count == 1 ? "" : "s", (r.page.len + 1023) / 1024);
    return code;
}
