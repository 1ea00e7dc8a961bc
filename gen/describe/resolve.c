/* SPDX-License-Identifier: Apache-2.0 */
/* resolve.c: writes the checked description out again. In: the resolved table. Out: a Lua
 * description with every field, which loads to the same model (emitted as
 * description.lua), and the canonical text of the fields inside the numerics hash. Both
 * are sorted by name, and print numbers so that they read back to the same bits: as short
 * as that allows, or for the hash, whose text must never change, with 17 digits. */
#include "describe/check.h"
#include "base/sandbox.h"
#include "base/show.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

static void write_string(Text *t, const char *s, size_t n)
{
    text_add(t, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        unsigned char ch = (unsigned char)s[i];

        if (ch == '"' || ch == '\\')
            text_printf(t, "\\%c", ch);
        else if (ch < 32 || ch > 126)
            text_printf(t, "\\%03d", ch); /* Lua's escapes are decimal */
        else
            text_add(t, s + i, 1);
    }
    text_add(t, "\"", 1);
}

/* A float keeps a sign of being one: 1e-05, 1.0. */
static void write_number(lua_State *L, Text *t, int index, bool canonical)
{
    const char *s;

    if (lua_isinteger(L, index)) {
        text_printf(t, "%lld", (long long)lua_tointeger(L, index));
        return;
    }
    s = canonical ? gen_printf(t->g, "%.17g", lua_tonumber(L, index))
                  : show_number(t->g, lua_tonumber(L, index));
    text_printf(t, "%s%s", s, strpbrk(s, ".eEn") ? "" : ".0");
}

typedef struct Keys {
    const char **items;
    int count, cap;
} Keys;

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Without functions: the wrap may be one; it is written after it has been called. */
static Keys sorted_keys(Gen *g, int table)
{
    Keys keys = {0};

    for (lua_pushnil(g->L); lua_next(g->L, table); lua_pop(g->L, 1))
        if (lua_type(g->L, -2) == LUA_TSTRING && !lua_isfunction(g->L, -1))
            *gen_push(g, &keys) = gen_strdup(g, lua_tostring(g->L, -2));
    if (keys.count)
        qsort(keys.items, (size_t)keys.count, sizeof *keys.items, by_text);
    return keys;
}

/* Does the record on top of the stack have only its positional field, apart from
 * defaults? */
static bool only_positional(lua_State *L, const Kind *kind)
{
    if (!kind || !kind->positional || kind_takes_list(kind))
        return false;
    for (int i = 0; i < kind->fields->count; i++) {
        const Field *f = &kind->fields->items[i];
        bool same = !strcmp(f->name, kind->positional);

        if (!same && f->default_ref != LUA_NOREF) {
            lua_rawgeti(L, LUA_REGISTRYINDEX, f->default_ref);
            lua_getfield(L, -2, f->name);
            same = lua_rawequal(L, -1, -2);
            lua_pop(L, 2);
        }
        if (!same)
            return false;
    }
    return true;
}

static void write_table(Gen *g, Text *t, int depth, bool canonical);

/* Writes the items of the list on top of the stack, and its opening bracket unless fields
 * stand before them; lists and numbers on one line, lists of lists one per line. */
static void write_items(Gen *g, Text *t, int depth, bool fields, bool canonical)
{
    lua_State *L = g->L;
    int table = lua_gettop(L);
    lua_Integer n = sandbox_length(L, table);
    bool lines = n > 0 && lua_rawgeti(L, table, 1) == LUA_TTABLE;

    lua_settop(L, table);
    if (n && !fields)
        text_printf(t, lines ? "\n" : " ");
    for (lua_Integer i = 1; i <= n; i++) {
        if (lines || (fields && i == 1))
            text_printf(t, "%*s", 4 * depth + 4, "");
        lua_rawgeti(L, table, i);
        if (lua_type(L, -1) == LUA_TNUMBER)
            write_number(L, t, -1, canonical);
        else if (lua_type(L, -1) == LUA_TSTRING)
            write_string(t, lua_tostring(L, -1), lua_rawlen(L, -1));
        else if (lua_istable(L, -1))
            write_table(g, t, depth + 1, canonical);
        else
            text_printf(t, lua_toboolean(L, -1) ? "true" : "false");
        text_printf(t, lines || (fields && i == n) ? ",\n" : i < n ? ", " : " }");
        lua_pop(L, 1);
    }
    if (lines && !fields)
        text_printf(t, "%*s}", 4 * depth, "");
}

/* `cosine { ... }`, `per_block(2)`, `{ a = 1 }`, `{ 0.9, 0.95 }`; over several indented
 * lines if needed. */
static void write_table(Gen *g, Text *t, int depth, bool canonical)
{
    lua_State *L = g->L;
    int table = lua_gettop(L);
    Tag *tag = record_tag(g, table);
    Keys keys = sorted_keys(g, table);
    lua_Integer n = sandbox_length(L, table);
    bool positional = tag && only_positional(L, tag->kind);

    luaL_checkstack(L, 5, "resolve");
    if (tag && tag->kind && tag->kind->constant) { /* root_only */
        text_printf(t, "%s", tag->name);
        return;
    }
    if (tag)
        text_printf(t, "%s%s", tag->name, positional ? "(" : " ");
    if (!positional)
        text_printf(t, "{%s", keys.count ? "\n" : n ? "" : " }");
    for (int i = 0; i < keys.count; i++) {
        if (positional && strcmp(keys.items[i], tag->kind->positional) != 0)
            continue;
        if (!positional)
            text_printf(t, "%*s%s = ", 4 * depth + 4, "", keys.items[i]);
        lua_pushstring(L, keys.items[i]);
        lua_rawget(L, table);
        switch (lua_type(L, -1)) {
        case LUA_TTABLE:
            write_table(g, t, depth + 1, canonical);
            break;
        case LUA_TNUMBER:
            write_number(L, t, -1, canonical);
            break;
        case LUA_TBOOLEAN:
            text_printf(t, lua_toboolean(L, -1) ? "true" : "false");
            break;
        default:
            write_string(t, lua_tostring(L, -1), lua_rawlen(L, -1));
            break;
        }
        text_printf(t, positional ? ")" : ",\n");
        lua_pop(L, 1);
    }
    write_items(g, t, depth, keys.count > 0, canonical);
    if (keys.count && !positional)
        text_printf(t, "%*s}", 4 * depth, "");
}

const char *resolve_lua(Gen *g)
{
    Text t = {.g = g};
    Tag *model;

    lua_rawgeti(g->L, LUA_REGISTRYINDEX, g->loader->resolved_ref);
    lua_getfield(g->L, -1, "model");
    model = record_tag(g, -1);
    lua_pop(g->L, 1);
    text_printf(&t, "local %s = require \"%s\"\n\nreturn trainer ", model->name,
                model->arch->module);
    write_table(g, &t, 0, false);
    text_add(&t, "\n", 1);
    lua_pop(g->L, 1);
    return t.s;
}

/* ---- the fields inside the hash -------------------------------------------------- */

/* Lines "path = value"; canonical: as they are hashed, without neutral values. */
typedef struct HashLines {
    Gen *g;
    bool canonical;
    Keys lines;
} HashLines;

static void hash_table(HashLines *h, const Fields *fields, const char *path);

/* Is the hash the same without the line? */
static bool is_neutral(const HashLines *h, const Field *f)
{
    bool same;

    if (!h->canonical)
        return false;
    if (f->graph || f->neutral_ref == LUA_NOREF)
        return f->graph;
    lua_rawgeti(h->g->L, LUA_REGISTRYINDEX, f->neutral_ref);
    same = lua_rawequal(h->g->L, -1, -2);
    lua_pop(h->g->L, 1);
    return same;
}

/* Writes the value on top of the stack as lines "path = value". */
static void hash_value(HashLines *h, const Field *f, const char *path)
{
    Gen *g = h->g;
    lua_State *L = g->L;
    Text t = {.g = g};
    Tag *tag = record_tag(g, -1);

    if (is_neutral(h, f))
        return;
    text_printf(&t, "%s = ", path);
    switch (lua_type(L, -1)) {
    case LUA_TNIL:
        return;
    case LUA_TNUMBER:
        write_number(L, &t, -1, h->canonical);
        break;
    case LUA_TBOOLEAN:
        text_printf(&t, lua_toboolean(L, -1) ? "true" : "false");
        break;
    case LUA_TSTRING:
        write_string(&t, lua_tostring(L, -1), lua_rawlen(L, -1));
        break;
    default:
        if (f->type == FIELD_LIST) {
            write_table(g, &t, 0, h->canonical);
            break;
        }
        if (tag)
            text_add(&t, tag->name, strlen(tag->name));
        hash_table(h,
                   f->type == FIELD_MODEL ? tag->arch->fields
                   : tag                  ? tag->kind->fields
                                          : f->fields,
                   path);
        if (!tag)
            return; /* a plain table is just its fields */
    }
    *gen_push(g, &h->lines) = t.s;
}

/* Writes the table on top of the stack. The graph says what an architecture's fields
 * mean. */
static void hash_table(HashLines *h, const Fields *fields, const char *path)
{
    Gen *g = h->g;

    luaL_checkstack(g->L, 5, "resolve");
    for (int i = 0; i < fields->count; i++) {
        const Field *f = &fields->items[i];

        if (*path == '\0' &&
            (strcmp(f->hash, "in") != 0 || (h->canonical && f->type == FIELD_MODEL)))
            continue;
        lua_getfield(g->L, -1, f->name);
        hash_value(h, f, *path ? gen_printf(g, "%s.%s", path, f->name) : f->name);
        lua_pop(g->L, 1);
    }
}

/* Adds a field that is normally outside the hash; the resolved description is on top of
 * the stack. */
static void add_hash_field(HashLines *h, const char *name)
{
    Gen *g = h->g;
    const Fields *fields = g->loader->trainer;

    for (int i = 0; i < fields->count; i++) {
        const Field *f = &fields->items[i];

        if (strcmp(f->name, name))
            continue;
        lua_getfield(g->L, -1, name);
        hash_value(h, f, name);
        lua_pop(g->L, 1);
    }
}

const char *resolve_hash_fields(Gen *g, bool canonical)
{
    HashLines h = {.g = g, .canonical = canonical};
    Text t = {.g = g};

    lua_rawgeti(g->L, LUA_REGISTRYINDEX, g->loader->resolved_ref);
    hash_table(&h, g->loader->trainer, "");
    if (g->model.library_order) { /* then the order depends on who holds what */
        add_hash_field(&h, "mesh");
        add_hash_field(&h, "strategy");
        add_hash_field(&h, "accumulate");
    }
    lua_pop(g->L, 1);
    if (h.lines.count)
        qsort(h.lines.items, (size_t)h.lines.count, sizeof *h.lines.items, by_text);
    for (int i = 0; i < h.lines.count; i++)
        text_printf(&t, "%s\n", h.lines.items[i]);
    return t.s;
}
