/* SPDX-License-Identifier: Apache-2.0 */
/* groups.c: parameter groups. In: the description's `groups`, the names of parameters.
 * Out: the group of each parameter; messages for patterns that match nothing.
 *
 * The first group with a pattern (base/glob.h) that matches a name takes the parameter;
 * fields that the group does not set keep their ordinary values. */
#include "base/glob.h"
#include "graph/builder.h"

#include <string.h>

ParamGroup *group_of(Gen *g, const char *name)
{
    ParamGroup *taken = NULL;

    for (int i = 0; i < g->model.n_groups; i++) {
        ParamGroup *group = &g->model.groups[i];

        for (int k = 0; k < group->n_match; k++) {
            if (!glob_matches(group->match[k], name))
                continue;
            group->matches[k]++;
            taken = taken ? taken : group;
        }
    }
    if (taken)
        taken->n_params++;
    return taken;
}

/* ---- messages -------------------------------------------------------------------- */

/* The tensor of which the pattern names a part, or NULL: the parts of a tensor belong to
 * one group. */
static const Param *whole_of(Gen *g, const char *glob)
{
    for (int i = 0; i < g->params.count; i++) {
        const Param *p = &g->params.items[i];

        for (int k = 0; k < p->decl->n_parts; k++) {
            const char *part = p->decl->part_name[k];

            if (glob_matches(glob, p->decl->tied_global
                                       ? part
                                       : gen_printf(g, "%s%s", p->block->prefix, part)))
                return p;
        }
    }
    return NULL;
}

/* The name nearest to the pattern, even if stars replace its ends. */
static const char *nearest_name(Gen *g, const char *glob)
{
    const char **names = gen_alloc(g, sizeof *names * (size_t)(2 * g->params.count + 1));
    int n = 0;

    for (int i = 0; i < g->params.count; i++) {
        const Param *p = &g->params.items[i];
        const char *parts[] = {p->name, gen_printf(g, "*%s", p->decl->name)};

        for (int k = 0; k < 2; k++) {
            bool seen = false;

            for (int j = 0; j < n; j++)
                seen = seen || !strcmp(names[j], parts[k]);
            if (!seen)
                names[n++] = parts[k];
        }
    }
    return diag_nearest(glob, names, n);
}

static const char *some_names(Gen *g)
{
    Text t = {.g = g};
    int n = 0;

    for (int i = 0; i < g->params.count && n < 6; i++) {
        bool seen = false;

        for (int k = 0; k < i; k++)
            seen = seen ||
                   !strcmp(g->params.items[k].decl->name, g->params.items[i].decl->name);
        if (!seen)
            text_printf(&t, "%s%s", n++ ? ", " : "", g->params.items[i].name);
    }
    return t.s;
}

static void unmatched(Gen *g, const ParamGroup *group, int k)
{
    const char *path = gen_printf(g, "%s.match", group->path), *help, *near;
    const Param *whole = whole_of(g, group->match[k]);

    if (whole)
        help =
            gen_printf(g, "it names a part of %s, which is one tensor here: match that",
                       whole->name);
    else if ((near = nearest_name(g, group->match[k])))
        help = gen_printf(g, "did you mean \"%s\"?", near);
    else
        help =
            gen_printf(g, "names are %s, ...; * stands for any letters", some_names(g));
    diag_add(g, DIAG_ERROR, model_pos(g, path), help, "%s: no parameter matches \"%s\"",
             path, group->match[k]);
}

void groups_check(Gen *g)
{
    bool trains = g->params.count == 0;

    for (int i = 0; i < g->model.n_groups; i++) {
        const ParamGroup *group = &g->model.groups[i];
        bool all_match = true;

        for (int k = 0; k < group->n_match; k++) {
            if (group->matches[k] == 0)
                unmatched(g, group, k);
            all_match = all_match && group->matches[k] > 0;
        }
        if (group->n_match == 0)
            diag_add(g, DIAG_ERROR, model_pos(g, group->path),
                     "write match = \"*norm*\", or leave the group out",
                     "%s: match is an empty list", group->path);
        else if (all_match && group->n_params == 0)
            diag_add(g, DIAG_ERROR, model_pos(g, group->path),
                     "the first group that matches takes a parameter: put narrow "
                     "patterns before wide ones",
                     "%s: the groups before it take all parameters that it matches",
                     group->path);
    }
    for (int i = 0; i < g->params.count; i++)
        trains = trains || !g->params.items[i].decl->frozen;
    if (!trains)
        diag_add(g, DIAG_ERROR, model_pos(g, "groups"),
                 "leave something that is not frozen",
                 "groups: all %d parameters are frozen: nothing trains", g->params.count);
}
