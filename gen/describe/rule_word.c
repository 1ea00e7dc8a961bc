/* SPDX-License-Identifier: Apache-2.0 */
/* rule_word.c: the word `op` in an op.lua. In: the file's environment. Out: `op { ... }`
 * and `op.map { ... }` in it, which return their table; of the latter it is remembered.
 */
#include "base/sandbox.h"
#include "describe/load.h"

#include <lauxlib.h>

static const char map_mark;

static int c_op(lua_State *L)
{
    lua_remove(L, 1); /* `op` itself */
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    return 1;
}

static int c_map(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_pushboolean(L, true);
    lua_rawsetp(L, 1, &map_mark);
    return 1;
}

static int c_unknown(lua_State *L)
{
    sandbox_push_text(L, 2);
    return luaL_error(
        L, "there is no op.%s; write op { ... }, or op.map { ... } for a formula",
        lua_tostring(L, -1));
}

void rule_word_push(lua_State *L)
{
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, c_map);
    lua_setfield(L, -2, "map");
    lua_createtable(L, 0, 2);
    lua_pushcfunction(L, c_op);
    lua_setfield(L, -2, "__call");
    lua_pushcfunction(L, c_unknown);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
}

bool rule_take_map(lua_State *L)
{
    bool map;

    if (!lua_istable(L, -1))
        return false;
    map = lua_rawgetp(L, -1, &map_mark) == LUA_TBOOLEAN;
    lua_pop(L, 1);
    lua_pushnil(L);
    lua_rawsetp(L, -2, &map_mark);
    return map;
}
