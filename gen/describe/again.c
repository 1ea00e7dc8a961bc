/* SPDX-License-Identifier: Apache-2.0 */
/* again.c: a description's fields with other overrides, beside what was already made of
 * it. In: a Gen after the pass span; g->opt.sets: those it was made with, and others.
 * Out: g->model with the new fields, and whether the passes up to span would make the
 * same of them. Breaks: places of fields, for messages.
 *
 * That is decided by the resolved description, field by field, not by what was set:
 * defaults depend on other fields. A field that is not in the list counts as one that
 * those passes read. */
#include "describe/load.h"

#include <string.h>

/* Fields of a trainer that no pass before `checkpoint` reads; sorted. */
static const char *const schedule_fields[] = {
    "accumulate", "mesh", "prefetch", "recompute", "reshard_after_forward",
    "strategy",   "wrap"};

static bool is_word(const char *s, size_t n)
{
    for (size_t i = 0; i < sizeof schedule_fields / sizeof *schedule_fields; i++)
        if (strlen(schedule_fields[i]) == n && !strncmp(schedule_fields[i], s, n))
            return true;
    return false;
}

bool check_is_schedule(const char *path)
{
    return is_word(path, strcspn(path, ".="));
}

/* The next field of the trainer in a resolved description: a line that is indented by
 * four blanks, and those below it. Leaves out schedule fields. NULL at the end. */
static const char *next_field(const char *at, size_t *bytes)
{
    static const char indent[] = "\n    ";

    for (;;) {
        const char *end;

        at = strstr(at, indent);
        if (!at)
            return NULL;
        at += sizeof indent - 1;
        if (*at < 'a' || *at > 'z' || is_word(at, strcspn(at, " ")))
            continue;
        end = at;
        do
            end = strstr(end + 1, indent);
        while (end && (end[5] < 'a' || end[5] > 'z'));
        *bytes = end ? (size_t)(end - at) : strlen(at);
        return at;
    }
}

static bool same_graph(const char *a, const char *b)
{
    size_t n = 0, m = 0;

    a = next_field(a, &n);
    b = next_field(b, &m);
    while (a && b) {
        if (n != m || memcmp(a, b, n) != 0)
            return false;
        a = next_field(a + n, &n);
        b = next_field(b + m, &m);
    }
    return !a && !b;
}

bool check_again(Gen *g)
{
    const Model old = g->model;
    Model *m = &g->model;

    set_again(g);
    check_model(g);
    if (diag_errors(g))
        return true; /* they are what there is to say */
    if (old.library_order || !same_graph(old.resolved_lua, m->resolved_lua))
        return false;
    m->groups = old.groups; /* with what they match (graph/groups.c) */
    m->n_groups = old.n_groups;
    m->config_json = old.config_json; /* hf_config.c */
    m->config_names = old.config_names;
    m->config_checked = old.config_checked;
    m->config_says = old.config_says;
    return true;
}
