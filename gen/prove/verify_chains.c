/* SPDX-License-Identifier: Apache-2.0 */
/* verify_chains.c: chains of formulas (graph/fuse_maps.c). In: the graph after fuse. Out:
 * nothing; a broken invariant is a bug of ours. A chain computes, on a few numbers, what
 * its nodes compute one by one (gen/lua/formula_check.lua); all that it reads exists
 * before it; and nothing reads what it no longer stores. */
#include "graph/builder.h"
#include "ops/ops.h"
#include "prove/verify.h"

static bool has(Value *const *list, int n, const Value *v)
{
    for (int i = 0; i < n; i++)
        if (list[i] == v)
            return true;
    return false;
}

static bool made_before(const Node *chain, int index, const Value *v)
{
    for (int i = 0; i < index; i++)
        if (has(chain->replaced[i]->out, chain->replaced[i]->n_out, v))
            return true;
    return false;
}

static void check_hidden(const Class *c, const Node *n, const Value *v)
{
    gen_require(!class_is_root(c, v), "%s: %s is returned, but a chain hides it", c->name,
                v->name);
    for (int i = 0; i < c->nodes.count; i++)
        gen_require(!has(c->nodes.items[i]->in, c->nodes.items[i]->n_in, v),
                    "%s: %s reads %s, which the chain %s hides", c->name,
                    c->nodes.items[i]->name, v->name, n->name);
}

static void check_nodes(const Gen *g, const Class *c, const Node *n)
{
    for (int i = 0; i < n->n_replaced; i++) {
        const Node *part = n->replaced[i];

        gen_require((part->op->info->map || part->op == ops_role(g, "column_sum")) &&
                        part->phase == n->phase && part->piece == n->piece,
                    "%s: %s of the chain %s runs elsewhere", c->name, part->name,
                    n->name);
        for (int k = 0; k < part->n_in; k++)
            gen_require(
                has(n->in, n->n_in, part->in[k]) || made_before(n, i, part->in[k]),
                "%s: the chain %s has no %s", c->name, n->name, part->in[k]->name);
        for (int k = 0; k < part->n_out; k++)
            if (!has(n->out, n->n_out, part->out[k]))
                check_hidden(c, n, part->out[k]);
    }
    for (int k = 0; k < n->n_in; k++)
        gen_require(!made_before(n, n->n_replaced, n->in[k]),
                    "%s: the chain %s reads itself", c->name, n->name);
}

static void check_values(Gen *g, const Class *c, const Node *n)
{
    lua_State *L = g->L;
    Chain chain = {n->replaced, n->in, n->out, n->n_replaced, n->n_in, n->n_out};
    int check = ops_load_function(g, "gen/lua/formula_check.lua");

    lua_rawgeti(L, LUA_REGISTRYINDEX, check);
    luaL_unref(L, LUA_REGISTRYINDEX, check);
    ops_push_chain(g, &chain);
    lua_rawgeti(L, LUA_REGISTRYINDEX, n->op->lua_ref);
    lua_call(L, 2, 1);
    gen_require(lua_isnil(L, -1), "%s: chain %s, %s: %s", c->name, n->name, n->op->name,
                lua_tostring(L, -1));
    lua_pop(L, 1);
}

void verify_chains(Gen *g, const Class *c)
{
    for (int i = 0; i < c->nodes.count; i++) {
        const Node *n = c->nodes.items[i];

        if (!n->op->info->map || !n->n_replaced)
            continue;
        check_nodes(g, c, n);
        check_values(g, c, n);
    }
}
