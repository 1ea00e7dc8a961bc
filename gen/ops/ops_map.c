/* SPDX-License-Identifier: Apache-2.0 */
/* ops_map.c: ops that are a formula, `op.map { ... }`. In: their table. Out: by
 * gen/lua/op_map.lua the rule that `op { ... }` would be, and in OpInfo the texts of
 * their kernels, their formula for the numerics hash, and the op of their gradient. */
#include "ops/ops.h"
#include "base/sandbox.h"

#include <string.h>

static const char map_file[] = "gen/lua/op_map.lua";

/* The value that an embedded file returns; none of ours keeps anything between calls, so
 * each is read once for a Lua state. */
int ops_load_function(Gen *g, const char *path)
{
    lua_State *L = g->L;

    luaL_getsubtable(L, LUA_REGISTRYINDEX, "fsdpgen.read");
    if (lua_getfield(L, -1, path) == LUA_TNIL) {
        const Embedded *e = embed_find(path);

        lua_pop(L, 1);
        gen_require(e, "%s is not embedded", path);
        if (sandbox_run(L, (const char *)e->data, e->bytes, gen_printf(g, "@%s", path),
                        LUA_NOREF, 1))
            sandbox_fault(L, path);
        lua_pushvalue(L, -1);
        lua_setfield(L, -3, path);
    }
    lua_remove(L, -2);
    return luaL_ref(L, LUA_REGISTRYINDEX);
}

static void push_tool(Gen *g, const char *name, const char *path)
{
    int ref = ops_load_function(g, path);

    lua_rawgeti(g->L, LUA_REGISTRYINDEX, ref);
    lua_setfield(g->L, -2, name);
    luaL_unref(g->L, LUA_REGISTRYINDEX, ref);
}

void ops_push_tools(Gen *g)
{
    lua_createtable(g->L, 0, 7);
    lua_pushcfunction(g->L, ops_ident);
    lua_setfield(g->L, -2, "ident");
    push_tool(g, "formula", "gen/lua/formula.lua");
    push_tool(g, "grad", "gen/lua/formula_grad.lua");
    push_tool(g, "kernel", "gen/lua/formula_kernel.lua");
    push_tool(g, "rows", "gen/lua/formula_rows.lua");
    push_tool(g, "sums", "gen/lua/formula_sums.lua");
    push_tool(g, "rule", "gen/lua/formula_rule.lua");
}

OpMap *ops_map_read(Gen *g, const char *own)
{
    lua_State *L = g->L;
    OpMap *map = gen_alloc(g, sizeof *map);

    map->cpu = ops_text(g, "cpu");
    map->cuda = ops_text(g, "cuda");
    map->formula = gen_printf(g, "%s%s", ops_text(g, "formula"), own);
    map->gradient = ops_text(g, "derived_name");
    lua_getfield(L, -1, "operations");
    map->operations = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    lua_getfield(L, -1, "reduces");
    map->reduces = lua_toboolean(L, -1);
    lua_pop(L, 1);
    lua_getfield(L, -1, "program");
    map->program_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_getfield(L, -1, "interpret");
    map->interpret_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_getfield(L, -1, "derived");
    map->gradient_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_getfield(L, -1, "rule");
    lua_remove(L, -2);
    return map;
}

/* Nothing else of the folder would be looked at. */
static bool check_folder(Gen *g, const OpRule *op)
{
    for (int i = 1; ops_file(i); i++) {
        size_t bytes;

        if (!ops_folder_file(g, op, ops_file(i), &bytes))
            continue;
        diag_add(g, DIAG_ERROR, (Pos){.file = ops_template_path(g, op, ops_file(i))},
                 "delete it, or write the rule as op { ... }",
                 "op %s: op.map makes the kernels from the formula", op->name);
        return false;
    }
    return true;
}

bool ops_map_expand(Gen *g, OpRule *op)
{
    lua_State *L = g->L;
    int given = lua_gettop(L), map = ops_load_function(g, map_file);
    bool own;

    lua_pushliteral(L, "backward");
    lua_rawget(L, given);
    own = lua_toboolean(L, -1); /* false: it has no gradient */
    lua_pop(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, map);
    luaL_unref(L, LUA_REGISTRYINDEX, map);
    lua_insert(L, given);
    lua_pushstring(L, op->name);
    ops_push_tools(g);
    if (sandbox_status(L, lua_pcall(L, 3, 2, 0))) {
        ops_report_lua(g, op);
        return false;
    }
    if (sandbox_length(L, -1) > 0) {
        ops_report_problems(g, op);
        lua_pop(L, 2);
        return false;
    }
    lua_pop(L, 1);
    op->info->map =
        ops_map_read(g, own ? gen_strndup(g, op->info->text, op->info->text_bytes) : "");
    return check_folder(g, op);
}

bool ops_map_gradient(Gen *g, const OpRule *op, OpRule *gradient)
{
    const OpMap *map = op->info->map;

    if (!map || !map->gradient)
        return false;
    *gradient = (OpRule){.name = map->gradient, .folder = op->folder};
    gradient->info = gen_alloc(g, sizeof *gradient->info);
    *gradient->info = (OpInfo){.path = op->info->path,
                               .text = op->info->text,
                               .text_bytes = op->info->text_bytes,
                               .from_disk = op->info->from_disk};
    lua_rawgeti(g->L, LUA_REGISTRYINDEX, map->gradient_ref);
    gradient->info->map = ops_map_read(g, "");
    return true;
}

bool ops_map_finish(Gen *g, const OpRule *op)
{
    lua_State *L = g->L;

    if (!op->info->map)
        return true;
    lua_rawgeti(L, LUA_REGISTRYINDEX, op->lua_ref);
    lua_rawgeti(L, LUA_REGISTRYINDEX, op->info->map->interpret_ref);
    lua_setfield(L, -2, "interpret");
    lua_pop(L, 1);
    return true;
}

const char *ops_template(Gen *g, const OpRule *op, const char *file, size_t *bytes)
{
    const OpMap *map = op->info->map;
    const char *text;

    *bytes = 0;
    if (op->info->with_scale && strcmp(file, "cuda.cu") != 0)
        return NULL;
    if (!map)
        return ops_folder_file(g, op, file, bytes);
    text = !strcmp(file, "cpu.c")     ? map->cpu
           : !strcmp(file, "cuda.cu") ? map->cuda
                                      : NULL;
    *bytes = text ? strlen(text) : 0;
    return text;
}

bool ops_has_template(Gen *g, const OpRule *op, const char *file)
{
    size_t bytes;

    return ops_template(g, op, file, &bytes) != NULL;
}
