/* SPDX-License-Identifier: Apache-2.0 */
/* infer_library.c: does a library's kernel or the target's own run a node? In: the node
 * with its inputs and attributes, what the description asks for, its measured choices,
 * the op's rule. Out: node->library; node->site, the text that names what a choice
 * depends on, of nodes that the library can run. Nothing here knows a machine's clock. */
#include "ops/ops.h"

#include <lauxlib.h>
#include <string.h>

/* What the rule's function `key` says of the node; NULL: nothing. */
static const char *rule_says(Gen *g, const Node *node, const char *key)
{
    const char *text = NULL;
    lua_State *L = g->L;
    int top = lua_gettop(L);

    ops_push_function(L, node->op, key);
    if (!lua_isnil(L, -1)) {
        infer_push_n(g, node);
        lua_call(L, 1, 1);
        text = lua_isstring(L, -1) ? gen_strdup(g, lua_tostring(L, -1)) : NULL;
    }
    lua_settop(L, top);
    return text;
}

const char *infer_library_problem(Gen *g, const Node *node)
{
    return rule_says(g, node, ops_kernel_library(g, node->op)->check);
}

const char *infer_library_slow(Gen *g, const Node *node)
{
    return rule_says(g, node, ops_kernel_library(g, node->op)->slow);
}

/* Files of Lua and C have it in quotes. */
static const char *site_of(Gen *g, const Node *node)
{
    const KernelLibrary *library = ops_kernel_library(g, node->op);
    const char *text = rule_says(g, node, library->site);

    if (!text)
        return NULL;
    for (const char *p = text; *p; p++)
        if (*p < ' ' || *p > '~' || *p == '"' || *p == '\\')
            luaL_error(g->L, "%s: %s(n) must return plain text without quotes",
                       node->op->name, library->site);
    return gen_printf(g, "%s, %s", text, dtype_name(node->in[0]->dtype));
}

const KernelChoice *infer_library_choice(const Gen *g, const Node *node)
{
    const Model *m = &g->model;

    for (int i = 0; node->site && i < m->n_kernel_choices; i++)
        if (!strcmp(m->kernel_choices[i].site, node->site))
            return &m->kernel_choices[i];
    return NULL;
}

void infer_library(Gen *g, Node *node)
{
    const KernelLibrary *library = ops_kernel_library(g, node->op);
    const bool choose = g->model.library_where_able;
    const KernelChoice *choice;

    node->library = NULL;
    node->site = NULL;
    if (!library)
        return;
    if (infer_library_problem(g, node)) { /* kernel_library.c reports it */
        node->library = choose ? NULL : library;
        return;
    }
    node->site = site_of(g, node);
    choice = infer_library_choice(g, node);
    if (!choose || (choice ? choice->by_library : !infer_library_slow(g, node)))
        node->library = library;
}
