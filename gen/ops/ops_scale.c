/* SPDX-License-Identifier: Apache-2.0 */
/* ops_scale.c: ops that make the scale of what they make. In: rules that say `scale_of`.
 * Out: for each NAME the op NAME_scale, by gen/lua/op_scale.lua. It has kernels for
 * devices only, and the bits of NAME and of the op with the role "scale". */
#include "ops/ops.h"
#include "base/sandbox.h"

#include <string.h>

/* Not if a folder of --ops has the name. */
static bool says_scale(Gen *g, const OpRule *op, const char *name)
{
    bool says;

    for (int i = 0; i < g->ops.count; i++)
        if (!strcmp(g->ops.items[i].name, name))
            return false;
    ops_push_function(g->L, op, "scale_of");
    says = lua_toboolean(g->L, -1);
    lua_pop(g->L, 1);
    return says && !ops_foreign(g, op);
}

/* Leaves the rule of NAME_scale on the stack. maker: registry reference of op_scale.lua's
 * function. */
static void push_rule(Gen *g, const OpRule *op, const OpRule *scale, int maker)
{
    lua_State *L = g->L;

    lua_rawgeti(L, LUA_REGISTRYINDEX, maker);
    lua_rawgeti(L, LUA_REGISTRYINDEX, op->lua_ref);
    lua_pushstring(L, op->name);
    lua_rawgeti(L, LUA_REGISTRYINDEX, scale->lua_ref);
    lua_pushstring(L, scale->name);
    if (lua_pcall(L, 4, 1, 0))
        sandbox_fault(L, op->name);
}

void ops_add_scales(Gen *g, int checker)
{
    const OpRule *scale = ops_role(g, "scale");
    int maker, count = g->ops.count;

    if (!scale || ops_foreign(g, scale))
        return;
    maker = ops_load_function(g, "gen/lua/op_scale.lua");
    for (int i = 0; i < count; i++) {
        const OpRule *op = &g->ops.items[i];
        OpRule made = {.folder = op->folder, .name = gen_printf(g, "%s_scale", op->name)};

        if (!says_scale(g, op, made.name))
            continue;
        made.info = gen_alloc(g, sizeof *made.info);
        *made.info = (OpInfo){.path = op->info->path,
                              .text = op->info->text,
                              .text_bytes = op->info->text_bytes,
                              .from_disk = op->info->from_disk,
                              .with_scale = true};
        push_rule(g, op, ops_role(g, "scale"), maker);
        if (ops_take_rule(g, &made, checker))
            *gen_push(g, &g->ops) = made;
    }
    luaL_unref(g->L, LUA_REGISTRYINDEX, maker);
}
