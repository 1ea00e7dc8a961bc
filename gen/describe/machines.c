/* SPDX-License-Identifier: Apache-2.0 */
/* machines.c: datasheets of GPUs, nodes and fabrics. In: gen/lua/machines.lua, which has
 * those of fsdpgen; the Lua files of --machines, whose rows are added to them. Out: their
 * names and the GPUs' rows for describe.lua; the function that joins the datasheets of a
 * node and a fabric (network.c). */
#include "describe/check.h"

#include "base/base.h"
#include "base/sandbox.h"

#include <string.h>

/* The table that the file returns, as it is written: the first without a function's name
 * from its last `return` on; NULL: it is made elsewhere. */
static const LexTable *returned(const LexFile *f, Pos at)
{
    for (int i = 0; i < f->tables.count; i++)
        if (f->tables.items[i]->line >= at.line && !f->tables.items[i]->callee)
            return f->tables.items[i];
    return NULL;
}

/* fail(path, problem, help) of machines.lua. Upvalue 1: the Check. */
static int machines_fail(lua_State *L)
{
    Check *c = lua_touserdata(L, lua_upvalueindex(1));
    const char *path = gen_printf(c->g, "machines.%s", luaL_checkstring(L, 1));

    COMPLAIN(c, path, gen_strdup(c->g, luaL_checkstring(L, 3)), "%s: %s", path,
             luaL_checkstring(L, 2));
    return 0;
}

/* Checks the file's value on top of the stack and adds its rows. module: stack index of
 * machines.lua's table. */
static void add_rows(Gen *g, int module, const LexFile *f)
{
    lua_State *L = g->L;
    Check c = {.g = g, .L = L, .ld = g->loader};
    const Pos at = loader_place_of_return(g, f->file);
    const LexTable *lex = returned(f, at);

    if (!lua_istable(L, -1)) {
        diag_add(
            g, DIAG_ERROR, at,
            "end it with: return { gpus = { ... }, nodes = { ... }, fabrics = { ... } }",
            "machines: it returns %s, not a table",
            lua_isnil(L, -1) ? "nothing" : gen_printf(g, "a %s", luaL_typename(L, -1)));
        return;
    }
    check_table(&c, g->loader->machines, "machines", lua_gettop(L),
                (Site){.pos = at, .lex = lex, .written = true});
    if (c.errors)
        return;
    lua_getfield(L, module, "add");
    lua_insert(L, -2);
    lua_pushlightuserdata(L, &c);
    lua_pushcclosure(L, machines_fail, 1);
    if (lua_pcall(L, 2, 0, 0) != LUA_OK)
        sandbox_fault(L, "gen/lua/machines.lua");
}

/* Runs a file of --machines. module: as above. */
static void add_file(Gen *g, int module, const char *path)
{
    const char *text;
    size_t bytes;
    LexFile *f;
    int env, e = read_whole_file(path, &text, &bytes);

    if (e) {
        diag_add(g, DIAG_ERROR, (Pos){0}, "name a Lua file of datasheets: docs/plan.md",
                 "--machines %s: %s", path, file_problem(e));
        return;
    }
    f = loader_add_file(g, path, text, bytes);
    env = g->loader->env_ref = record_strict_env(g);
    loader_check_twice(g, f);
    if (sandbox_run(g->L, text, bytes, gen_printf(g, "@%s", path), env, 1))
        loader_lua_error(g, "machines", lex_word(f, 1, NULL));
    else
        add_rows(g, module, f);
}

bool machines_load(Gen *g)
{
    const Embedded *e = embed_find("gen/lua/machines.lua");
    lua_State *L = g->L;
    int module;

    gen_require(e, "gen/lua/machines.lua is not in the binary");
    if (sandbox_run(L, (const char *)e->data, e->bytes, "@gen/lua/machines.lua",
                    LUA_NOREF, 1))
        sandbox_fault(L, "gen/lua/machines.lua");
    module = lua_gettop(L);
    lua_getfield(L, module, "of");
    g->loader->machine_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_getfield(L, module, "fields");
    g->loader->machines = fields_read(g, L, -1, "none", false);
    for (int i = 0; i < g->opt.machines.count; i++) {
        add_file(g, module, g->opt.machines.items[i]);
        if (diag_errors(g)) /* it may have left no time or memory to go on */
            return false;
    }
    lua_settop(L, module);
    lua_getfield(L, module, "words");
    if (lua_pcall(L, 0, 1, 0) != LUA_OK)
        sandbox_fault(L, "gen/lua/machines.lua");
    lua_remove(L, module);
    return true;
}
