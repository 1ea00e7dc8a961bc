/* SPDX-License-Identifier: Apache-2.0 */
/* infer_number.c: what a rule counts: flops, bytes. In: one of its functions, and n on
 * the stack. Out: the number. Counts of huge models do not fit Lua's integers, which wrap
 * silently: so the function is also asked with all of n in floats, and where the two
 * differ, floats are right. */
#include "ops/ops.h"

#include <math.h>

static void push_floats(lua_State *L, int n_index)
{
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, n_index);) {
        lua_pushvalue(L, -2);
        if (lua_isinteger(L, -2))
            lua_pushnumber(L, lua_tonumber(L, -2));
        else
            lua_pushvalue(L, -2);
        lua_settable(L, -5);
        lua_pop(L, 1);
    }
}

/* v where the function takes no floats. */
static double in_floats(lua_State *L, const OpRule *op, int n_index, const char *key,
                        double v)
{
    const int top = lua_gettop(L);

    ops_push_function(L, op, key);
    push_floats(L, n_index);
    if (!lua_pcall(L, 1, 1, 0) && lua_type(L, -1) == LUA_TNUMBER)
        v = lua_tonumber(L, -1);
    lua_settop(L, top);
    return v;
}

double infer_number(lua_State *L, const OpRule *op, int n_index, const char *key)
{
    double v, floats;
    int ok;

    ops_push_function(L, op, key);
    lua_pushvalue(L, n_index);
    lua_call(L, 1, 1);
    v = lua_tonumberx(L, -1, &ok);
    lua_pop(L, 1);
    floats = in_floats(L, op, n_index, key, v);
    if (fabs(v - floats) > 1e-6 * fabs(floats))
        v = floats;
    if (!ok || !isfinite(v) || v < 0 || v > 1e30)
        luaL_error(L, "%s: %s(n) must return a number that is not negative", op->name,
                   key);
    return v;
}
