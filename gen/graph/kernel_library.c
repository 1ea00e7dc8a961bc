/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_library.c: the description asks for a library's kernels, which run the ops that
 * have a file for it. In: the fused graph (fuse). Out: the unchanged graph, so the
 * numerics are the same; and one message for each op that these kernels cannot run (by
 * its rule's check, under the library's name). Breaks: nothing. */
#include "graph/builder.h"

#include <string.h>

typedef struct LibraryCheck {
    Gen *g;
    const Node *node;
    const char *problem; /* NULL: none */
} LibraryCheck;

static int ask(lua_State *L)
{
    LibraryCheck *x = lua_touserdata(L, 1);

    ops_push_function(L, x->node->op, x->g->model.kernel_library->check);
    if (lua_isnil(L, -1))
        return 0;
    infer_push_n(x->g, x->node);
    lua_call(L, 1, 1);
    if (lua_isstring(L, -1))
        x->problem = gen_strdup(x->g, lua_tostring(L, -1));
    return 0;
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
            builder_protect(g, ask, &x, where);
            if (x.problem && (!last || strcmp(last, x.problem) != 0))
                diag_add(g, DIAG_ERROR, where,
                         "leave it out: the generated kernels have no such limit",
                         "%s: %s has no %s: %s", library->field, library->name,
                         x.node->op->name, x.problem);
            last = x.problem ? x.problem : last;
        }
    }
    if (!any)
        diag_add(g, DIAG_ERROR, where, "leave it out",
                 "%s: %s has no kernel for any op of the model", library->field,
                 library->name);
}
