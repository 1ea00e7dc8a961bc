/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_lib.c: the library that chunks in the sandbox see. In: Lua's own base,
 * string, table, math and utf8. Out: the same minus what could do I/O, run unbounded
 * inside C, read an address, a clock or a random number, or depend on the order of a
 * hash table. `pairs` and `next` go in sorted order; `load` takes text and is for
 * trusted chunks only (gen/lua). */
#include "sandbox.h"

#include <lualib.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_LIST = 1 << 24,          /* elements a table function may walk */
    MAX_REPEAT_BYTES = 64 << 20, /* of string.rep's result */
    REAL_WORK = 400,             /* what writing a real number costs */
    BYTES_PER_WORK = 8           /* what a byte loop in C costs beside one instruction */
};

static const char safe_key[] =
    "fsdpgen.safe"; /* registry: what environments are copied from */

/* ---- texts without addresses ------------------------------------------------------- */

static void push_text(lua_State *L, int arg)
{
    int type = lua_type(L, arg);
    bool own = luaL_getmetafield(L, arg, "__tostring") != LUA_TNIL;

    if (own)
        lua_pop(L, 1);
    if (!own && (type == LUA_TTABLE || type == LUA_TFUNCTION || type == LUA_TUSERDATA ||
                 type == LUA_TLIGHTUSERDATA || type == LUA_TTHREAD))
        lua_pushstring(L, lua_typename(L, type));
    else
        luaL_tolstring(L, arg, NULL);
}

static int base_tostring(lua_State *L)
{
    luaL_checkany(L, 1);
    push_text(L, 1);
    return 1;
}

/* Upvalue 1: Lua's string.format. */
static int str_format(lua_State *L)
{
    const char *f = luaL_checkstring(L, 1);
    int top = lua_gettop(L), arg = 1;
    int64_t work = 0;

    for (; *f; f++) {
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
        if (++arg <= top && *f == 's') {
            push_text(L, arg);
            lua_replace(L, arg);
        }
    }
    sandbox_charge(L, work);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, top, 1);
    return 1;
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

/* Upvalue 1: a function whose work is at most its strings' bytes. */
static int charged(lua_State *L)
{
    int top = lua_gettop(L);
    int64_t work = 0;

    for (int i = 1; i <= top; i++)
        if (lua_type(L, i) == LUA_TSTRING)
            work += (int64_t)lua_rawlen(L, i) / BYTES_PER_WORK;
    sandbox_charge(L, work);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, top, LUA_MULTRET);
    return lua_gettop(L);
}

/* ---- table functions: honest lists of bounded length ------------------------------- */

/* A metatable can claim any length and a table with 60 keys can have a border at 2^60:
 * both would keep Lua's C loops busy for ever. */
static int64_t check_list(lua_State *L, int arg)
{
    int64_t n;

    luaL_checktype(L, arg, LUA_TTABLE);
    if (lua_getmetatable(L, arg))
        luaL_argerror(L, arg, "a plain table is expected, without a metatable");
    n = (int64_t)lua_rawlen(L, arg);
    if (n > MAX_LIST)
        luaL_argerror(L, arg, "the list is too long");
    return n;
}

static void check_range(lua_State *L, int64_t first, int64_t last)
{
    if (last < first)
        return;
    if (first < -(int64_t)MAX_LIST || last > (int64_t)MAX_LIST)
        luaL_error(L, "the range of positions is too long");
    sandbox_charge(L, last - first);
}

static int call_original(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

/* insert, remove, sort: work proportional to the list. */
static int list_function(lua_State *L)
{
    int64_t n = check_list(L, 1);

    sandbox_charge(L, n);
    return call_original(L);
}

/* concat(list, sep, i, j) and unpack(list, i, j): the range may be given. Upvalue 2:
 * where. */
static int range_function(lua_State *L)
{
    int at = (int)lua_tointeger(L, lua_upvalueindex(2));
    int64_t n = check_list(L, 1);

    check_range(L, luaL_optinteger(L, at, 1), luaL_optinteger(L, at + 1, n));
    return call_original(L);
}

static int table_move(lua_State *L) /* move(a1, f, e, t [, a2]) */
{
    int64_t first = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3);

    check_list(L, 1);
    if (!lua_isnoneornil(L, 5))
        check_list(L, 5);
    check_range(L, first, last);
    return call_original(L);
}

/* ---- sorted iteration -------------------------------------------------------------- */

typedef struct Key {
    int type; /* LUA_TNUMBER < LUA_TSTRING; booleans come first */
    bool integer;
    lua_Integer i;
    lua_Number n;
    const char *s;
    size_t len;
} Key;

static Key key_at(lua_State *L, int index)
{
    Key k = {.type = lua_type(L, index)};

    switch (k.type) {
    case LUA_TBOOLEAN:
        k.i = lua_toboolean(L, index);
        break;
    case LUA_TNUMBER:
        k.integer = lua_isinteger(L, index);
        k.i = k.integer ? lua_tointeger(L, index) : 0;
        k.n = lua_tonumber(L, index);
        break;
    case LUA_TSTRING:
        k.s = lua_tolstring(L, index, &k.len);
        break;
    default:
        luaL_error(L, "a table with a %s as a key has no order to go through",
                   lua_typename(L, k.type));
    }
    return k;
}

static int key_order(const void *pa, const void *pb)
{
    const Key *a = pa, *b = pb;
    int c;

    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    if (a->type == LUA_TBOOLEAN || (a->integer && b->integer))
        return (a->i > b->i) - (a->i < b->i);
    if (a->type == LUA_TNUMBER)
        return a->n != b->n ? (a->n < b->n ? -1 : 1) : (int)b->integer - (int)a->integer;
    c = memcmp(a->s, b->s, a->len < b->len ? a->len : b->len);
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

static void push_key(lua_State *L, const Key *k)
{
    if (k->type == LUA_TBOOLEAN)
        lua_pushboolean(L, (int)k->i);
    else if (k->type == LUA_TSTRING)
        lua_pushlstring(L, k->s, k->len);
    else if (k->integer)
        lua_pushinteger(L, k->i);
    else
        lua_pushnumber(L, k->n);
}

/* Upvalues: the sorted keys, how many were given. */
static int pairs_next(lua_State *L)
{
    lua_Integer i = lua_tointeger(L, lua_upvalueindex(2));

    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    for (;;) {
        if (lua_rawgeti(L, lua_upvalueindex(1), ++i) == LUA_TNIL)
            return 1;
        lua_pushvalue(L, -1);
        if (lua_rawget(L, 1) != LUA_TNIL) { /* not removed meanwhile */
            lua_pushinteger(L, i);
            lua_replace(L, lua_upvalueindex(2));
            return 2;
        }
        lua_pop(L, 2);
    }
}

static int base_pairs(lua_State *L)
{
    lua_Integer n = 0;
    Key *keys;

    luaL_checkany(L, 1);
    if (luaL_getmetafield(L, 1, "__pairs") != LUA_TNIL) {
        lua_pushvalue(L, 1);
        lua_call(L, 1, 3);
        return 3;
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1))
        n++;
    sandbox_charge(L, 4 * n);
    keys = lua_newuserdatauv(L, (size_t)(n ? n : 1) * sizeof *keys, 0);
    n = 0;
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1))
        keys[n++] = key_at(L, -2);
    if (n)
        qsort(keys, (size_t)n, sizeof *keys, key_order);
    lua_createtable(L, n < MAX_LIST ? (int)n : MAX_LIST, 0);
    for (lua_Integer i = 0; i < n; i++) {
        push_key(L, &keys[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, pairs_next, 2);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

static int base_next(lua_State *L)
{
    Key after = {0}, best = {0};
    bool first, found = false;
    int64_t n = 0;

    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    first = lua_isnil(L, 2);
    if (!first)
        after = key_at(L, 2);
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        Key k = key_at(L, -2);

        n++;
        if ((first || key_order(&k, &after) > 0) &&
            (!found || key_order(&k, &best) < 0)) {
            best = k;
            found = true;
        }
    }
    sandbox_charge(L, n);
    if (!found) {
        lua_pushnil(L);
        return 1;
    }
    push_key(L, &best);
    lua_pushvalue(L, -1);
    lua_rawget(L, 1);
    return 2;
}

/* ---- metatables, load -------------------------------------------------------------- */

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
    return call_original(L);
}

/* xpcall(f, handler, ...). Lua runs the handler where the error is raised, which for
 * an error of the budget is inside the hook, where no hook fires; this one runs it
 * afterwards. */
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
    sandbox_charge(L, (int64_t)n / BYTES_PER_WORK);
    if (luaL_loadbufferx(L, text, n, chunk, "t") != LUA_OK) {
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

/* ---- putting it together ----------------------------------------------------------- */

/* What remains of each library; wrapped names are set after. */
static const char *const kept_base[] = {
    "assert", "error",  "getmetatable", "ipairs",   "pcall", "rawequal", "rawget",
    "rawlen", "rawset", "select",       "tonumber", "type",  "_VERSION", NULL};
static const char *const kept_string[] = {"byte", "char", "len", "sub", NULL};
static const char *const charged_string[] = {"lower", "upper", "reverse", NULL};
static const char *const charged_utf8[] = {"char", "codepoint", "codes",
                                           "len",  "offset",    NULL};
static const char *const kept_math[] = {
    "abs",  "acos", "asin", "atan", "ceil",       "cos",  "deg",        "exp",  "floor",
    "fmod", "huge", "log",  "max",  "maxinteger", "min",  "mininteger", "modf", "pi",
    "rad",  "sin",  "sqrt", "tan",  "tointeger",  "type", "ult",        NULL};

/* The table below the top (Lua's) → the table on top (ours). */
static void keep(lua_State *L, int from, int to, const char *const *names)
{
    for (; *names; names++) {
        lua_getfield(L, from, *names);
        lua_setfield(L, to, *names);
    }
}

static void wrap(lua_State *L, int from, int to, const char *name, lua_CFunction f,
                 int where)
{
    lua_getfield(L, from, name);
    lua_pushinteger(L, where);
    lua_pushcclosure(L, f, 2);
    lua_setfield(L, to, name);
}

static void make_string(lua_State *L, int safe)
{
    int from, to;

    luaL_requiref(L, "string", luaopen_string, 0);
    from = lua_gettop(L);
    lua_newtable(L);
    to = lua_gettop(L);
    keep(L, from, to, kept_string);
    for (int i = 0; charged_string[i]; i++)
        wrap(L, from, to, charged_string[i], charged, 0);
    wrap(L, from, to, "format", str_format, 0);
    lua_pushcfunction(L, str_rep);
    lua_setfield(L, to, "rep");
    sandbox_install_match(L);
    lua_pushvalue(L, to);
    lua_setfield(L, safe, "string");
    /* ("x"):rep(2) finds methods in a table that no chunk can reach */
    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, to);) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_settable(L, -4);
    }
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_settop(L, from - 1);
}

static void make_table(lua_State *L, int safe)
{
    int from, to;

    luaL_requiref(L, "table", luaopen_table, 0);
    from = lua_gettop(L);
    lua_newtable(L);
    to = lua_gettop(L);
    keep(L, from, to, (const char *const[]){"pack", NULL});
    wrap(L, from, to, "insert", list_function, 0);
    wrap(L, from, to, "remove", list_function, 0);
    wrap(L, from, to, "sort", list_function, 0);
    wrap(L, from, to, "concat", range_function, 3);
    wrap(L, from, to, "unpack", range_function, 2);
    wrap(L, from, to, "move", table_move, 0);
    lua_setfield(L, safe, "table");
    lua_settop(L, from - 1);
}

static void make_base(lua_State *L, int safe)
{
    static const luaL_Reg own[] = {
        {"tostring", base_tostring}, {"pairs", base_pairs}, {"next", base_next},
        {"xpcall", base_xpcall},     {NULL, NULL},
    };
    int from;

    luaL_requiref(L, "_G", luaopen_base, 0);
    from = lua_gettop(L);
    keep(L, from, safe, kept_base);
    wrap(L, from, safe, "setmetatable", base_setmetatable, 0);
    lua_pushvalue(L, safe);
    luaL_setfuncs(L, own, 0);
    lua_settop(L, from - 1);
}

/* A table of the safe names, libraries copied, so that what one chunk breaks is its
 * own. */
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

int sandbox_env(Gen *g)
{
    push_copy(g->L);
    return luaL_ref(g->L, LUA_REGISTRYINDEX);
}

void sandbox_install(lua_State *L)
{
    int safe, from, to;

    lua_newtable(L);
    safe = lua_gettop(L);
    lua_pushvalue(L, safe);
    lua_setfield(L, LUA_REGISTRYINDEX, safe_key);
    make_base(L, safe);
    make_string(L, safe);
    make_table(L, safe);
    luaL_requiref(L, "math", luaopen_math, 0);
    from = lua_gettop(L);
    lua_newtable(L);
    to = lua_gettop(L);
    keep(L, from, to, kept_math);
    lua_setfield(L, safe, "math");
    luaL_requiref(L, "utf8", luaopen_utf8, 0);
    from = lua_gettop(L);
    lua_newtable(L);
    to = lua_gettop(L);
    keep(L, from, to, (const char *const[]){"charpattern", NULL});
    for (int i = 0; charged_utf8[i]; i++)
        wrap(L, from, to, charged_utf8[i], charged, 0);
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
