/* SPDX-License-Identifier: Apache-2.0 */
/* check_wrap.c: the wrap of a description. In: its resolved value. Out: the fields of
 * Model that wrap.c reads; messages about the patterns of by_name. wrap.c reports
 * patterns that match nothing, when the blocks are known. */
#include "describe/check.h"
#include "base/sandbox.h"

#include <lauxlib.h>
#include <string.h>

static const char *const help_item =
    "an item is a pattern, or a list of patterns whose matches are one unit";

static bool pattern_ok(const char *s, size_t n)
{
    return n > 0 && n < 128 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_.*?") == n;
}

/* Checks the pattern on top of the stack. */
static void check_pattern(Check *c, const char *path)
{
    size_t n;
    const char *s;

    if (lua_type(c->L, -1) != LUA_TSTRING) {
        check_error(c, place_of(c->g, path), help_item,
                    "%s: %s is given, but a pattern is expected", path,
                    check_show(c->g, -1));
        return;
    }
    s = lua_tolstring(c->L, -1, &n);
    if (!pattern_ok(s, n))
        check_error(c, place_of(c->g, path),
                    "names have lower-case letters, digits, _ and dots; * stands for any "
                    "letters, dots too, ? for one",
                    "%s: %s is not a pattern of a name", path, check_show(c->g, -1));
}

bool wrap_name_ok(const char *s, size_t n)
{
    return n > 0 && n < 64 && *s >= 'a' && *s <= 'z' && s[n - 1] != '.' &&
           !strstr(s, "..") && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_.") == n;
}

/* Checks { "embed", "head", name = "ends" } on top of the stack. */
static void check_group(Check *c, const char *path)
{
    lua_State *L = c->L;
    int at = lua_gettop(L);
    lua_Integer n = sandbox_length(L, at);

    sandbox_push_keys(L, at);
    for (lua_Integer k = 1; lua_rawgeti(L, at + 1, k) != LUA_TNIL;
         k++, lua_settop(L, at + 1)) {
        if (lua_isinteger(L, -1) && lua_tointeger(L, -1) >= 1 &&
            lua_tointeger(L, -1) <= n)
            continue;
        lua_pushvalue(L, -1);
        lua_rawget(L, at); /* key, value */
        if (lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), "name") != 0) {
            check_error(c, place_of(c->g, path), help_item, "%s: unknown field %s", path,
                        check_show(c->g, -2));
        } else {
            size_t bytes = 0;
            const char *s =
                lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &bytes) : "";

            if (!wrap_name_ok(s, bytes))
                check_error(c, place_of(c->g, path),
                            "use a lower-case letter, then lower-case letters, digits, _ "
                            "and dots",
                            "%s: %s is not a name of a unit", path, check_show(c->g, -1));
        }
    }
    lua_settop(L, at);
    if (n == 0)
        check_error(c, place_of(c->g, path), help_item, "%s: an empty list", path);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, at, i);
        check_pattern(c, path);
        lua_settop(L, at);
    }
}

/* The list of names is on top of the stack. */
static void check_names(Check *c)
{
    lua_State *L = c->L;
    int at = lua_gettop(L);
    lua_Integer n = sandbox_length(L, at);
    int errors = c->errors;

    if (n == 0)
        check_error(c, place_of(c->g, "wrap"), "write by_name { \"layers.*\" }",
                    "wrap: by_name without a name");
    for (lua_Integer i = 1; i <= n && c->errors - errors < 10; i++) {
        const char *path = gen_printf(c->g, "wrap.names[%lld]", (long long)i);

        lua_rawgeti(L, at, i);
        if (lua_istable(L, -1) && !record_tag(c->g, -1))
            check_group(c, path);
        else
            check_pattern(c, path);
        lua_settop(L, at);
    }
}

static bool joins(lua_State *L, const char *field)
{
    bool yes =
        lua_getfield(L, -1, field) == LUA_TSTRING && !strcmp(lua_tostring(L, -1), "join");

    lua_pop(L, 1);
    return yes;
}

void check_wrap(Check *c, WrapRule *w)
{
    lua_State *L = c->L;
    Tag *tag;
    int top = lua_gettop(L);

    *w = (WrapRule){.kind = WRAP_PER_BLOCK, .blocks = 1, .ref = LUA_NOREF};
    lua_rawgeti(L, LUA_REGISTRYINDEX, c->ld->resolved_ref);
    if (lua_getfield(L, -1, "wrap") == LUA_TFUNCTION) {
        w->kind = WRAP_FUNCTION;
        w->ref = luaL_ref(L, LUA_REGISTRYINDEX);
        lua_settop(L, top);
        return;
    }
    tag = record_tag(c->g, -1);
    if (!tag || !lua_istable(L, -1)) { /* wrong, and already reported */
        lua_settop(L, top);
        return;
    }
    w->embed_joins = joins(L, "embed");
    w->head_joins = joins(L, "head");
    if (!strcmp(tag->name, "root_only"))
        w->kind = WRAP_ROOT_ONLY;
    if (lua_getfield(L, -1, "blocks") == LUA_TNUMBER)
        w->blocks = lua_tointeger(L, -1);
    if (lua_getfield(L, -2, "params") == LUA_TNUMBER) {
        w->kind = WRAP_BY_SIZE;
        w->params = lua_tointeger(L, -1);
    }
    if (lua_getfield(L, -3, "names") == LUA_TTABLE) {
        w->kind = WRAP_BY_NAME;
        check_names(c);
        w->ref = luaL_ref(L, LUA_REGISTRYINDEX);
    }
    lua_settop(L, top);
}

/* ---- the wrap in the emitted description ----------------------------------------- */

/* A function cannot be written out, but its result can: by_name with the list of units on
 * top of the stack (popped), each { "piece", ..., name = "unit" }. */
void resolve_wrap(Gen *g)
{
    lua_State *L = g->L;
    Tag *tag = gen_alloc(g, sizeof *tag);

    *tag = (Tag){.tag = TAG_RECORD,
                 .kind = kinds_find(&g->loader->kinds, "by_name"),
                 .name = "by_name"};
    lua_newtable(L);
    lua_insert(L, -2);
    lua_setfield(L, -2, "names");
    record_set_tag(g, -1, tag);
    lua_rawgeti(L, LUA_REGISTRYINDEX, g->loader->resolved_ref);
    lua_insert(L, -2);
    lua_setfield(L, -2, "wrap");
    lua_pop(L, 1);
    g->model.resolved_lua = resolve_lua(g);
}
