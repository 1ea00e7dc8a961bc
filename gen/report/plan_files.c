/* SPDX-License-Identifier: Apache-2.0 */
/* plan_files.c: the files of `plan --html FILE --trace FILE`. In: a plan, in the child;
 * then, in the parent, the texts. Out: the files. */
#include "report/html.h"
#include "report/plan_line.h"
#include "report/report.h"

#include <string.h>

static const struct {
    size_t option; /* offset of its path in Options */
    void (*make)(Gen *g, Text *t);
    PageOf of;
} kinds[] = {
    {offsetof(Options, html),
     plan_page,
     {"<!doctype html>\n<!-- fsdpgen plan ", "a page of `fsdpgen plan`"}},
    {offsetof(Options, trace),
     plan_trace,
     {"{\"otherData\":{\"generator\":\"fsdpgen plan\"", "a trace of `fsdpgen plan`"}},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static const char *path_of(const Gen *g, int kind)
{
    const void *at = (const char *)&g->opt + kinds[kind].option;

    return *(const char *const *)at;
}

void plan_make_files(Gen *g)
{
    for (int k = 0; k < N_KINDS; k++) {
        Text t = {.g = g};
        OutFile *f;

        if (!path_of(g, k))
            continue;
        kinds[k].make(g, &t);
        f = gen_push(g, &base_of(g)->files);
        *f = (OutFile){path_of(g, k), t.s, t.len};
    }
}

/* No file is written unless all may be. */
int plan_write_files(Gen *g)
{
    int code = EXIT_DONE, next = 0;

    for (int k = 0; k < N_KINDS && code == EXIT_DONE; k++)
        if (path_of(g, k))
            code = page_check(g, path_of(g, k), &kinds[k].of, g->opt.force);
    for (int k = 0; k < N_KINDS && code == EXIT_DONE; k++) {
        const OutFile *f = &base_of(g)->files.items[next];
        Text t = {.g = g};

        if (!path_of(g, k))
            continue;
        gen_require(next < base_of(g)->files.count, "a file of the plan is missing");
        text_add(&t, f->data, f->bytes);
        code = page_write(g, path_of(g, k), &kinds[k].of, &t, g->opt.force);
        next++;
    }
    return code;
}
