/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn.c: target.attention = "cudnn": kernels of cuDNN's run the ops that have a
 * cudnn.cu. In: the fused graph (fuse). Out: the graph as it is, so the numerics are the
 * same; and a message, once, for each op that these kernels cannot run (check_cudnn of
 * its rule). Breaks: nothing. */
#include "graph/builder.h"

#include <string.h>

typedef struct CudnnCheck {
    Gen *g;
    const Node *node;
    const char *problem; /* NULL: none */
} CudnnCheck;

static int ask(lua_State *L)
{
    CudnnCheck *x = lua_touserdata(L, 1);

    ops_push_function(L, x->node->op, "check_cudnn");
    if (lua_isnil(L, -1))
        return 0;
    infer_push_n(x->g, x->node);
    lua_call(L, 1, 1);
    if (lua_isstring(L, -1))
        x->problem = gen_strdup(x->g, lua_tostring(L, -1));
    return 0;
}

void cudnn_check(Gen *g)
{
    Pos where = model_pos(g, "target.attention");
    const char *last = NULL;
    bool any = false;

    for (int i = 0; i < g->classes.count; i++) {
        Class *c = g->classes.items[i];

        for (int k = 0; k < c->nodes.count; k++) {
            CudnnCheck x = {.g = g, .node = c->nodes.items[k]};

            if (!x.node->op->info->has_cudnn)
                continue;
            any = true;
            builder_protect(g, ask, &x, where);
            if (x.problem && (!last || strcmp(last, x.problem) != 0))
                diag_add(g, DIAG_ERROR, where,
                         "leave it out: the generated kernels have no such limit",
                         "target.attention: cuDNN has no %s: %s", x.node->op->name,
                         x.problem);
            last = x.problem ? x.problem : last;
        }
    }
    if (!any)
        diag_add(g, DIAG_ERROR, where, "leave it out",
                 "target.attention: cuDNN has no kernel for any op of the model");
}
