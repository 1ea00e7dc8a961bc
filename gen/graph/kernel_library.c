/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_library.c: the description asks for a library's kernels, which run the ops that
 * have a file for it. In: the fused graph (fuse), in which each node has its library
 * (infer). Out: the unchanged graph, so the numerics are the same; and one message for
 * each op that these kernels cannot run (by its rule's check, under the library's name):
 * an error, or a note if the target's own kernels run it, as they do where they are
 * faster; errors for measured choices of sites that the model does not have. Breaks:
 * nothing. */
#include "graph/builder.h"

#include <string.h>

typedef struct LibraryCheck {
    Gen *g;
    const Node *node;
    const char *problem; /* NULL: none */
    const char *slow;    /* why the target's own kernel is preferred; NULL: it is not */
} LibraryCheck;

static int ask(lua_State *L)
{
    LibraryCheck *x = lua_touserdata(L, 1);

    x->problem = infer_library_problem(x->g, x->node);
    if (!x->problem && x->g->model.library_where_able &&
        !infer_library_choice(x->g, x->node))
        x->slow = infer_library_slow(x->g, x->node);
    return 0;
}

static void report(const LibraryCheck *x, Pos where)
{
    const KernelLibrary *library = x->g->model.kernel_library;

    if (x->slow)
        diag_add(x->g, DIAG_NOTE, where, NULL, "%s: a generated kernel runs %s: %s",
                 library->field, x->node->op->name, x->slow);
    else if (x->g->model.library_where_able)
        diag_add(x->g, DIAG_NOTE, where, NULL,
                 "%s: a generated kernel runs %s, because %s cannot: %s", library->field,
                 x->node->op->name, library->name, x->problem);
    else
        diag_add(x->g, DIAG_ERROR, where,
                 "leave it out, or write \"auto\": the generated kernels have no such "
                 "limit",
                 "%s: %s has no %s: %s", library->field, library->name, x->node->op->name,
                 x->problem);
}

static bool reads(const Node *n, const Value *v)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] == v)
            return true;
    return false;
}

/* A backward also reads what its forward read. One library runs both, because what passes
 * between them has a layout of that library. */
static void check_site(Gen *g, const Node *n, Pos where)
{
    for (int i = 0; i < n->n_in; i++) {
        const Node *forward = n->in[i]->def;
        bool pair = forward && forward->op->info->has_library_kernel &&
                    forward->n_in > 0 && reads(n, forward->in[0]);

        if (pair && forward->library != n->library)
            diag_add(g, DIAG_ERROR, where,
                     gen_printf(g, "let %s of both rules refuse the same",
                                g->model.kernel_library->check),
                     "%s: %s can run one of %s and %s, not both",
                     g->model.kernel_library->field, g->model.kernel_library->name,
                     forward->op->name, n->op->name);
    }
}

/* A node of the site, the first one in the order of the model; NULL: none. */
static const Node *find_site(const Gen *g, const char *site)
{
    for (int i = 0; i < g->classes.count; i++) {
        const Class *c = g->classes.items[i];

        for (int k = 0; k < c->nodes.count; k++) {
            const Node *n = c->nodes.items[k];

            if (n->site && (!site || !strcmp(n->site, site)))
                return n;
        }
    }
    return NULL;
}

/* Choices that were measured in another model are mistakes: this one's would be ignored.
 */
static void check_sites(Gen *g)
{
    const Model *m = &g->model;
    const Node *any = find_site(g, NULL);

    for (int i = 0; i < m->n_kernel_choices; i++) {
        const KernelChoice *c = &m->kernel_choices[i];

        if (!find_site(g, c->site))
            diag_add(g, DIAG_ERROR, model_pos(g, gen_printf(g, "%s.site", c->path)),
                     any ? gen_printf(g, "measure this model; one of its sites is \"%s\"",
                                      any->site)
                         : "leave it out",
                     "%s: the model has no site \"%s\"", m->kernel_library->choices,
                     c->site);
    }
    if (m->library_measured && !any)
        diag_add(g, DIAG_ERROR, model_pos(g, m->kernel_library->field), "leave it out",
                 "%s: %s can run no op of the model, so there is nothing to measure",
                 m->kernel_library->field, m->kernel_library->name);
}

void kernel_library_check(Gen *g)
{
    const KernelLibrary *library = g->model.kernel_library;
    Pos where = model_pos(g, library->field);
    const char *last = NULL;
    bool any = false;

    for (int i = 0; i < g->classes.count; i++) {
        Class *c = g->classes.items[i];

        for (int k = 0; k < c->nodes.count; k++) {
            LibraryCheck x = {.g = g, .node = c->nodes.items[k]};

            if (!ops_kernel_library(g, x.node->op))
                continue;
            any = true;
            check_site(g, x.node, where);
            builder_protect(g, ask, &x, where);
            if (!x.problem && !x.slow)
                continue;
            if (!last || strcmp(last, x.problem ? x.problem : x.slow) != 0)
                report(&x, where);
            last = x.problem ? x.problem : x.slow;
        }
    }
    if (!any && !g->model.library_where_able)
        diag_add(g, DIAG_ERROR, where, "leave it out",
                 "%s: %s has no kernel for any op of the model", library->field,
                 library->name);
    check_sites(g);
}

const KernelLibrary *kernel_library_used(const Gen *g)
{
    for (int i = 0; i < g->classes.count; i++) {
        const Class *c = g->classes.items[i];

        for (int k = 0; k < c->nodes.count; k++)
            if (c->nodes.items[k]->library)
                return c->nodes.items[k]->library;
    }
    return g->model.library_measured ? g->model.kernel_library : NULL;
}

const char *kernel_library_choices(Gen *g)
{
    const char *text = NULL;

    for (int i = 0; i < g->classes.count; i++) {
        const Class *c = g->classes.items[i];

        for (int k = 0; k < c->nodes.count; k++) {
            const Node *n = c->nodes.items[k];
            const char *by;

            if (!n->site || find_site(g, n->site) != n)
                continue;
            by = gen_printf(g, "%s: %s", n->site,
                            n->library ? n->library->name : "generated");
            text = text ? gen_printf(g, "%s; %s", text, by) : by;
        }
    }
    return text;
}
