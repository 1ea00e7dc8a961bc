/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_lib.c: the library that chunks in the sandbox see. In: Lua's own base, string,
 * table, math and utf8. Out: the same minus what could do I/O, run unbounded inside C,
 * read an address, a clock or a random number, or depend on the order of a hash table.
 * `pairs` and `next` go in sorted order; `load` takes text and exists for trusted chunks
 * only (gen/lua). */
#include "base/sandbox.h"

#include <lualib.h>
#include <math.h>
#include <string.h>

enum {
    MAX_REPEAT_BYTES = 64 << 20, /* limit of string.rep's result */
    REAL_WORK = 400,             /* cost of writing a real number */
    ARGUMENTS_PER_WORK = 8,
    BYTES_PER_WORK = 8 /* bytes that a loop in C handles at the cost of one instruction */
};

static const char safe_key[] =
    "fsdpgen.safe"; /* registry: the table that environments copy */

/* ---- texts without addresses ----------------------------------------------------- */

/* The sign of a NaN, which Lua writes, depends on the processor. */
static void push_positive_nan(lua_State *L, int arg)
{
    if (lua_type(L, arg) == LUA_TNUMBER && lua_tonumber(L, arg) != lua_tonumber(L, arg)) {
        lua_pushnumber(L, NAN);
        lua_replace(L, arg);
    }
}

void sandbox_push_text(lua_State *L, int arg)
{
    int type = lua_type(L, arg);
    bool own = luaL_getmetafield(L, arg, "__tostring") != LUA_TNIL;

    if (own)
        lua_pop(L, 1);
    push_positive_nan(L, arg);
    if (!own && (type == LUA_TTABLE || type == LUA_TFUNCTION || type == LUA_TUSERDATA ||
                 type == LUA_TLIGHTUSERDATA || type == LUA_TTHREAD))
        lua_pushstring(L, lua_typename(L, type));
    else
        luaL_tolstring(L, arg, NULL);
}

static int base_tostring(lua_State *L)
{
    luaL_checkany(L, 1);
    sandbox_push_text(L, 1);
    return 1;
}

/* ---- strings --------------------------------------------------------------------- */

/* A function whose work is bounded by its arguments and the bytes of its strings (even
 * numbers may stand after a million blanks). */
static int charged(lua_State *L)
{
    const int top = lua_gettop(L);
    int64_t work = top / ARGUMENTS_PER_WORK;

    for (int i = 1; i <= top; i++)
        if (lua_type(L, i) == LUA_TSTRING)
            work += (int64_t)lua_rawlen(L, i) / BYTES_PER_WORK;
    sandbox_charge(L, work);
    return sandbox_original(L);
}

static int str_format(lua_State *L)
{
    size_t bytes;
    const char *f = luaL_checklstring(L, 1, &bytes),
               *end = f + bytes; /* it may hold NUL */
    int top = lua_gettop(L), arg = 1;
    int64_t work = (int64_t)bytes / BYTES_PER_WORK;

    for (; f < end; f++) {
        if (*f != '%')
            continue;
        f++;
        if (*f == '%')
            continue;
        f += strspn(f, "-+ #0123456789.");
        if (!*f)
            break;
        work += strchr("aAeEfFgG", *f) ? REAL_WORK : 1;
        if (*f == 'p')
            return luaL_error(
                L, "string.format: '%%p' shows an address; it is not available");
        if (++arg > top)
            break; /* Lua reports the missing argument */
        push_positive_nan(L, arg);
        if (*f == 's') {
            sandbox_push_text(L, arg);
            lua_replace(L, arg);
        }
        if (lua_type(L, arg) == LUA_TSTRING)
            work += (int64_t)lua_rawlen(L, arg) / BYTES_PER_WORK;
    }
    sandbox_charge(L, work);
    return sandbox_original(L);
}

/* A position in a string as Lua counts it: from the end if negative. */
static lua_Integer place(lua_Integer at, size_t n)
{
    return at >= 0 ? at : at < -(lua_Integer)n ? 0 : (lua_Integer)n + at + 1;
}

static int str_byte(lua_State *L) /* byte(s [, i [, j]]): the stretch is the work */
{
    size_t n;
    lua_Integer from, to;

    luaL_checklstring(L, 1, &n);
    from = luaL_optinteger(L, 2, 1);
    to = place(luaL_optinteger(L, 3, from), n);
    from = place(from, n);
    to = to < (lua_Integer)n ? to : (lua_Integer)n;
    if (from < to)
        sandbox_charge(L, to - (from > 0 ? from : 0));
    return sandbox_original(L);
}

static int str_rep(lua_State *L)
{
    size_t n, sep_n;
    const char *s = luaL_checklstring(L, 1, &n);
    lua_Integer times = luaL_checkinteger(L, 2);
    const char *sep = luaL_optlstring(L, 3, "", &sep_n);
    luaL_Buffer b;

    if (times <= 0 || n + sep_n == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    if (n + sep_n > (size_t)MAX_REPEAT_BYTES / (size_t)times)
        return luaL_error(L, "string.rep: the result is longer than %d MiB",
                          MAX_REPEAT_BYTES >> 20);
    sandbox_charge(L, (int64_t)(n + sep_n) * times / BYTES_PER_WORK);
    luaL_buffinit(L, &b);
    for (lua_Integer i = 0; i < times; i++) {
        luaL_addlstring(&b, s, n);
        if (i + 1 < times)
            luaL_addlstring(&b, sep, sep_n);
    }
    luaL_pushresult(&b);
    return 1;
}

/* ---- metatables, load ------------------------------------------------------------ */

static int base_setmetatable(lua_State *L)
{
    static const char *const refused[] = {"__gc", "__mode"};

    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_argexpected(L, lua_isnil(L, 2) || lua_istable(L, 2), 2, "nil or table");
    for (int i = 0; lua_istable(L, 2) && i < 2; i++) {
        lua_pushstring(L, refused[i]);
        if (lua_rawget(L, 2) != LUA_TNIL)
            return luaL_error(L, "setmetatable: '%s' is not available here", refused[i]);
        lua_pop(L, 1);
    }
    return sandbox_original(L);
}

/* xpcall(f, handler, ...). Lua runs the handler where the error is raised. For an error
 * of the budget that is inside the hook, where no hook fires; so this one runs the
 * handler afterwards. */
static int base_xpcall(lua_State *L)
{
    int status;

    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 1); /* f, handler, f, arguments */
    status = lua_pcall(L, lua_gettop(L) - 3, LUA_MULTRET, 0);
    if (status != LUA_OK) {
        lua_pushvalue(L, 2);
        lua_insert(L, -2);
        lua_call(L, 1, 1);
    }
    lua_pushboolean(L, status == LUA_OK);
    lua_replace(L, 2);
    return lua_gettop(L) - 1;
}

static int base_load(lua_State *L) /* load(text, chunkname, "t", env) */
{
    size_t n;
    const char *text, *chunk;

    luaL_checktype(L, 1, LUA_TSTRING);
    text = lua_tolstring(L, 1, &n);
    chunk = luaL_optstring(L, 2, text);
    lua_settop(L, 4);
    if (sandbox_load(L, text, n, chunk) != LUA_OK) {
        lua_pushnil(L);
        lua_insert(L, -2);
        return 2;
    }
    if (!lua_isnil(L, 4)) {
        lua_pushvalue(L, 4);
        if (!lua_setupvalue(L, -2, 1))
            lua_pop(L, 1);
    }
    return 1;
}

/* ---- putting it together --------------------------------------------------------- */

/* What remains of each library; wrapped names are added later. */
static const char *const kept_base[] = {"assert", "error",  "getmetatable", "ipairs",
                                        "pcall",  "rawget", "rawset",       "rawequal",
                                        "type",   NULL};
static const char *const charged_base[] = {"select", "tonumber", NULL};
static const char *const kept_string[] = {"len", "sub", NULL};
static const char *const charged_string[] = {"char", "lower", "upper", "reverse", NULL};
static const char *const charged_utf8[] = {"char", "codepoint", "codes",
                                           "len",  "offset",    NULL};
/* metamethods of strings: they compute with numbers written as text */
static const char *const charged_sums[] = {"__add", "__sub",  "__mul", "__div",
                                           "__mod", "__idiv", "__unm", NULL};

/* The table at `from` (Lua's) → the table at `to` (ours). */
static void keep(lua_State *L, int from, int to, const char *const *names)
{
    for (; *names; names++) {
        lua_getfield(L, from, *names);
        lua_setfield(L, to, *names);
    }
}

static void wrap(lua_State *L, int from, int to, const char *name, lua_CFunction f)
{
    lua_getfield(L, from, name);
    lua_pushcclosure(L, f, 1);
    lua_setfield(L, to, name);
}

static void wrap_charged(lua_State *L, int from, int to, const char *const *names)
{
    for (; *names; names++)
        wrap(L, from, to, *names, charged);
}

/* The metatable of all strings: ("x"):rep(2) finds methods in a table that no chunk can
 * reach. string: the stack index of our library. */
static void make_string_metatable(lua_State *L, int string)
{
    int meta;

    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    meta = lua_gettop(L);
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, string);) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_settable(L, -4);
    }
    lua_setfield(L, meta, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, meta, "__metatable");
    wrap_charged(L, meta, meta, charged_sums);
    sandbox_install_length(L);
}

/* luaopen_NAME: leaves a new table of ours on top; returns the index of Lua's own below
 * it. */
static int open_library(lua_State *L, const char *name, lua_CFunction open)
{
    luaL_requiref(L, name, open, 0);
    lua_newtable(L);
    return lua_gettop(L) - 1;
}

static void make_string(lua_State *L, int safe)
{
    const int from = open_library(L, "string", luaopen_string), to = from + 1;

    keep(L, from, to, kept_string);
    wrap_charged(L, from, to, charged_string);
    wrap(L, from, to, "format", str_format);
    wrap(L, from, to, "byte", str_byte);
    lua_pushcfunction(L, str_rep);
    lua_setfield(L, to, "rep");
    sandbox_install_match(L);
    lua_pushvalue(L, to);
    lua_setfield(L, safe, "string");
    make_string_metatable(L, to);
    lua_settop(L, from - 1);
}

static void make_base(lua_State *L, int safe)
{
    static const luaL_Reg own[] = {
        {"tostring", base_tostring}, {"xpcall", base_xpcall}, {NULL, NULL}};
    int from;

    luaL_requiref(L, "_G", luaopen_base, 0);
    from = lua_gettop(L);
    keep(L, from, safe, kept_base);
    keep(L, from, safe, (const char *const[]){"_VERSION", NULL});
    wrap_charged(L, from, safe, charged_base);
    wrap(L, from, safe, "setmetatable", base_setmetatable);
    lua_pushvalue(L, safe);
    luaL_setfuncs(L, own, 0);
    sandbox_install_order(L);
    lua_settop(L, from - 1);
}

/* A table of the safe names, libraries copied, so that a chunk can break only its own. */
static void push_copy(lua_State *L)
{
    int safe, to;

    lua_getfield(L, LUA_REGISTRYINDEX, safe_key);
    safe = lua_gettop(L);
    lua_newtable(L);
    to = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, safe);) {
        if (lua_istable(L, -1)) {
            int lib = lua_gettop(L);

            lua_newtable(L);
            for (lua_pushnil(L); lua_next(L, lib);) {
                lua_pushvalue(L, -2);
                lua_insert(L, -2);
                lua_rawset(L, lib + 1);
            }
            lua_replace(L, lib);
        }
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, to);
    }
    lua_pushvalue(L, to);
    lua_setfield(L, to, "_G");
    lua_remove(L, safe);
}

int sandbox_env(lua_State *L)
{
    push_copy(L);
    return luaL_ref(L, LUA_REGISTRYINDEX);
}

void sandbox_install(lua_State *L)
{
    int safe, from;

    lua_newtable(L);
    safe = lua_gettop(L);
    lua_pushvalue(L, safe);
    lua_setfield(L, LUA_REGISTRYINDEX, safe_key);
    make_base(L, safe);
    make_string(L, safe);
    from = open_library(L, "table", luaopen_table);
    sandbox_install_table(L, from);
    lua_setfield(L, safe, "table");
    from = open_library(L, "math", luaopen_math);
    sandbox_install_math(L, from);
    lua_setfield(L, safe, "math");
    from = open_library(L, "utf8", luaopen_utf8);
    keep(L, from, from + 1, (const char *const[]){"charpattern", NULL});
    wrap_charged(L, from, from + 1, charged_utf8);
    lua_setfield(L, safe, "utf8");

    /* luaL_requiref keeps Lua's own tables in the registry; nothing may find them */
    lua_pushnil(L);
    lua_setfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    push_copy(L); /* the globals of trusted chunks */
    lua_pushcfunction(L, base_load);
    lua_setfield(L, -2, "load");
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_settop(L, safe - 1);
}
