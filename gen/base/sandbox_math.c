/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_math.c: `math` and `x ^ y` for foreign chunks. In: numbers. Out: the same bits
 * on every machine (exact.c). Functions that are exact by definition stay Lua's: floor,
 * fmod, sqrt.
 *
 * Lua's `^` is an instruction whose constants the compiler folds, and both call the C
 * library's pow. So this program defines a pow of its own, which a static or dynamic
 * linker also uses for liblua. If one does not, sandbox_open ends the program. */
#include "base/sandbox.h"

#include "base/exact.h"

#include <math.h>

enum { FUNCTION_WORK = 100 }; /* cost of one call beside an instruction */

static _Thread_local bool pow_was_asked;

double pow(double x, double y)
{
    pow_was_asked = true;
    return exact_pow(x, y);
}

void sandbox_check_pow(lua_State *L)
{
    pow_was_asked = false;
    lua_pushnumber(L, 10000);
    lua_pushnumber(L, 0.3);
    lua_arith(L, LUA_OPPOW);
    lua_pop(L, 1);
    if (!pow_was_asked)
        gen_die(
            "Lua's `^` does not call this program's pow: what is emitted would depend "
            "on this machine's C library. Link liblua statically");
}

static double number(lua_State *L, int arg)
{
    sandbox_charge(L, FUNCTION_WORK);
    return luaL_checknumber(L, arg);
}

/* math.NAME(x), upvalue 1: which */
static int of_one(lua_State *L)
{
    static double (*const functions[])(double) = {exact_exp, exact_sin,  exact_cos,
                                                  exact_tan, exact_asin, exact_acos};

    lua_pushnumber(L, functions[lua_tointeger(L, lua_upvalueindex(1))](number(L, 1)));
    return 1;
}

static int math_atan(lua_State *L) /* atan(y [, x]) */
{
    const double y = number(L, 1);

    lua_pushnumber(L, exact_atan2(y, luaL_optnumber(L, 2, 1)));
    return 1;
}

static int math_log(lua_State *L) /* log(x [, base]) */
{
    const double x = number(L, 1);
    const double base = luaL_optnumber(L, 2, 0);

    if (lua_isnoneornil(L, 2))
        lua_pushnumber(L, exact_log(x));
    else if (base == 2)
        lua_pushnumber(L, exact_log2(x));
    else if (base == 10)
        lua_pushnumber(L, exact_log10(x));
    else
        lua_pushnumber(L, exact_log(x) / exact_log(base));
    return 1;
}

void sandbox_install_math(lua_State *L, int lua_math)
{
    static const char *const kept[] = {
        "abs",  "ceil", "deg", "floor", "fmod", "huge", "max",       "maxinteger", "min",
        "modf", "pi",   "rad", "sqrt",  "type", "ult",  "tointeger", "mininteger", NULL};
    static const char *const of_ones[] = {"exp",  "sin",  "cos", "tan",
                                          "asin", "acos", NULL};

    for (int i = 0; kept[i]; i++) {
        lua_getfield(L, lua_math, kept[i]);
        lua_setfield(L, -2, kept[i]);
    }
    for (int i = 0; of_ones[i]; i++) {
        lua_pushinteger(L, i);
        lua_pushcclosure(L, of_one, 1);
        lua_setfield(L, -2, of_ones[i]);
    }
    lua_pushcfunction(L, math_atan);
    lua_setfield(L, -2, "atan");
    lua_pushcfunction(L, math_log);
    lua_setfield(L, -2, "log");
}
