/* SPDX-License-Identifier: Apache-2.0 */
/* dims.c: the argument m of an architecture's check, build and config. In: the resolved
 * model, its declared fields, the fields that the trainer adds. Out: a record that
 * refuses undeclared names and remembers which were read. After build: errors for fields
 * that the description gives and build never reads, whether or not check and config read
 * them.
 *
 * m is an empty table. Its metatable has the values, and tables among them are such
 * records too. It is read-only, so that one function cannot leave changes for another. */
#include "describe/check.h"
#include "base/sandbox.h"

#include <string.h>

/* Upvalues of the metamethods. */
enum { DIMS_VALUES = 1, DIMS_READ, DIMS_FIELDS, DIMS_PATH, N_DIMS = DIMS_PATH };

/* What build needs from the trainer. */
static const char *const added[][2] = {{"seq", "seq"},
                                       {"micro_batch", "micro_batch"},
                                       {"loss_chunk_tokens", "loss.chunk_tokens"}};
enum { N_ADDED = sizeof added / sizeof *added };

bool dims_adds(const char *name)
{
    for (int i = 0; i < N_ADDED; i++)
        if (!strcmp(name, added[i][0]))
            return true;
    return false;
}

static Gen *gen_of(lua_State *L)
{
    return sandbox_of(L)->g;
}

static const char *key_text(lua_State *L)
{
    if (lua_type(L, 2) != LUA_TSTRING)
        sandbox_push_text(L, 2);
    return lua_tostring(L, lua_type(L, 2) == LUA_TSTRING ? 2 : -1);
}

static int dims_index(lua_State *L)
{
    const Fields *fields = lua_touserdata(L, lua_upvalueindex(DIMS_FIELDS));
    const char *path = lua_tostring(L, lua_upvalueindex(DIMS_PATH)), *key = key_text(L);
    const char *near;
    Words names;

    if (fields_find(fields, key) || (!*path && dims_adds(key))) {
        lua_pushvalue(L, 2);
        lua_pushboolean(L, true);
        lua_rawset(L, lua_upvalueindex(DIMS_READ));
        lua_pushvalue(L, 2);
        lua_rawget(L, lua_upvalueindex(DIMS_VALUES));
        return 1;
    }
    names = fields_names(gen_of(L), fields);
    near = diag_nearest(key, names.items, names.count);
    return luaL_error(
        L, "%s: the architecture declares no field model.%s%s" HELP "%s%s%s", key, path,
        key, near ? "did you mean `" : "add it to `fields` of arch { ... }",
        near ? near : "", near ? "`?" : "");
}

static int dims_newindex(lua_State *L)
{
    return luaL_error(
        L,
        "%s: the fields of m are those of the description, and cannot be set" HELP
        "keep it in a local variable",
        key_text(L));
}

/* Iteration counts as reading everything. */
static int dims_pairs(lua_State *L)
{
    int values = lua_upvalueindex(DIMS_VALUES), read = lua_upvalueindex(DIMS_READ);

    lua_getglobal(L, "pairs");
    lua_pushvalue(L, values);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        lua_pushboolean(L, true);
        lua_rawset(L, read);
    }
    lua_call(L, 1, 3);
    return 3;
}

static const struct {
    const char *event;
    lua_CFunction function;
} events[] = {
    {"__index", dims_index}, {"__newindex", dims_newindex}, {"__pairs", dims_pairs}};

/* read[name .. "."]: what was read of the table in this field. */
static void push_read(lua_State *L, int read, const char *name)
{
    const char *key = lua_pushfstring(L, "%s.", name);

    if (lua_getfield(L, read, key) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setfield(L, read, key);
    }
    lua_remove(L, -2);
}

static void push_record(lua_State *L, const Fields *fields, const char *path, int source,
                        int read);

static void make_inner_records(lua_State *L, const Fields *fields, const char *path,
                               int values, int read)
{
    for (int i = 0; i < fields->count; i++) {
        const Field *f = &fields->items[i];
        int inner = lua_gettop(L) + 1;

        if (lua_getfield(L, values, f->name) == LUA_TTABLE && f->type != FIELD_TABLE) {
            check_copy(L); /* the checked one stays as it is */
            lua_setfield(L, values, f->name);
        } else if (lua_istable(L, -1)) {
            push_read(L, read, f->name);
            push_record(L, f->fields, lua_pushfstring(L, "%s%s.", path, f->name), inner,
                        inner + 1);
            lua_setfield(L, values, f->name);
        }
        lua_settop(L, inner - 1);
    }
}

/* Pushes a record with the values of the table at source; reading a value sets a key of
 * the table at read. Indices count from the bottom of the stack. */
static void push_record(lua_State *L, const Fields *fields, const char *path, int source,
                        int read)
{
    int values;

    luaL_checkstack(L, 20, "nested fields");
    record_push_copy(L, source);
    values = lua_gettop(L);
    make_inner_records(L, fields, path, values, read);
    lua_newtable(L);
    lua_createtable(L, 0, 4);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        lua_pushvalue(L, values);
        lua_pushvalue(L, read);
        lua_pushlightuserdata(L, (void *)fields);
        lua_pushstring(L, path);
        lua_pushcclosure(L, events[i].function, N_DIMS);
        lua_setfield(L, -2, events[i].event);
    }
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    lua_replace(L, values);
}

bool dims_push(Check *c, const Fields *fields)
{
    lua_State *L = c->L;
    int top = lua_gettop(L);

    if (value_push(c, "model") != LUA_TTABLE) {
        lua_settop(L, top);
        return false;
    }
    record_push_copy(L, top + 1);
    for (int i = 0; i < N_ADDED; i++) {
        if (value_push(c, added[i][1]) != LUA_TNUMBER) {
            lua_settop(L, top);
            return false;
        }
        lua_setfield(L, -2, added[i][0]);
    }
    lua_newtable(L); /* reads in `check` do not count */
    luaL_unref(L, LUA_REGISTRYINDEX, c->ld->read_ref);
    c->ld->read_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_rawgeti(L, LUA_REGISTRYINDEX, c->ld->read_ref);
    push_record(L, fields, "", top + 2, top + 3);
    lua_replace(L, top + 1);
    lua_settop(L, top + 1);
    return true;
}

/* ---- fields given but never read ------------------------------------------------- */

/* Compares what the description and overrides give (the table at given) with what was
 * read of it (the table at read). */
static void report_unread(Gen *g, const Fields *fields, const char *path, int given,
                          int read)
{
    lua_State *L = g->L;

    for (int i = 0; i < fields->count; i++) {
        const Field *f = &fields->items[i];
        const char *full = gen_printf(g, "%s.%s", path, f->name);
        int value = lua_gettop(L) + 1;

        lua_pushstring(L, f->name);
        if (lua_rawget(L, given) != LUA_TNIL && model_given(g, full)) {
            if (lua_getfield(L, read, f->name) == LUA_TNIL)
                diag_add(g, DIAG_ERROR, place_of(g, full),
                         "leave it out, or let its build use it",
                         "%s: the build of %s never reads it: it would change nothing",
                         full, g->model.arch);
            else if (f->type == FIELD_TABLE && lua_istable(L, value)) {
                push_read(L, read, f->name);
                report_unread(g, f->fields, full, value, lua_gettop(L));
            }
        }
        lua_settop(L, value - 1);
    }
}

void dims_check_read(Gen *g)
{
    lua_State *L = g->L;
    const Tag *tag;
    int top = lua_gettop(L);

    lua_rawgeti(L, LUA_REGISTRYINDEX, loader_of(g)->raw_ref);
    lua_pushstring(L, "model");
    lua_rawget(L, top + 1);
    tag = record_tag(g, top + 2);
    lua_rawgeti(L, LUA_REGISTRYINDEX, loader_of(g)->read_ref);
    report_unread(g, tag->arch->fields, "model", top + 2, top + 3);
    lua_settop(L, top);
}
