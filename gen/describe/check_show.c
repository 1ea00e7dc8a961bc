/* SPDX-License-Identifier: Apache-2.0 */
/* check_show.c: values, types and examples for messages. In: a Lua value, a field. Out:
 * one line of text, as it would be written in a description. */
#include "describe/check.h"

#include <lauxlib.h>
#include <math.h>
#include <string.h>

/* ---- values in words ------------------------------------------------------------- */

/* A string as Lua writes it, on one line, shortened if long. */
static const char *show_text(Gen *g, const char *s, size_t n)
{
    Text t = {.g = g};

    text_add(&t, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        if (i >= 45 && n > 48 && ((unsigned char)s[i] & 0xC0) != 0x80) {
            text_printf(&t, "...");
            break;
        }
        if (s[i] == '\n')
            text_add(&t, "\\n", 2);
        else if (s[i] == '\0')
            text_add(&t, "\\0", 2);
        else if (s[i] == '"' || s[i] == '\\')
            text_printf(&t, "\\%c", s[i]);
        else
            text_add(&t, s + i, 1);
    }
    text_add(&t, "\"", 1);
    return t.s;
}

const char *check_show(Gen *g, int index)
{
    lua_State *L = g->L;
    Tag *tag = record_tag(g, index);
    size_t n;
    const char *s;

    if (tag && tag->tag == TAG_CONSTRUCTOR)
        return gen_printf(g, "the constructor %s", tag->name);
    if (tag && tag->tag == TAG_ARCH)
        return gen_printf(g, "the architecture %s", tag->name);
    if (tag && tag->kind && tag->kind->constant)
        return tag->name;
    if (tag)
        return gen_printf(g, "%s { ... }", tag->name);
    switch (lua_type(L, index)) {
    case LUA_TNIL:
        return "nil";
    case LUA_TBOOLEAN:
        return lua_toboolean(L, index) ? "true" : "false";
    case LUA_TNUMBER:
        if (isnan(lua_tonumber(L, index)))
            return "nan"; /* its sign differs between machines */
        return lua_isinteger(L, index)
                   ? gen_printf(g, "%lld", (long long)lua_tointeger(L, index))
                   : gen_printf(g, "%.14g", lua_tonumber(L, index));
    case LUA_TSTRING:
        s = lua_tolstring(L, index, &n);
        return show_text(g, s, n);
    case LUA_TTABLE:
        return "a table";
    default:
        return gen_printf(g, "a %s", luaL_typename(L, index));
    }
}

const char *check_last_name(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot ? dot + 1 : path;
}

const char *check_show_ref(Check *c, int ref)
{
    const char *s;

    lua_rawgeti(c->L, LUA_REGISTRYINDEX, ref);
    s = check_show(c->g, -1);
    if (lua_istable(c->L, -1) && lua_rawlen(c->L, -1) > 0) { /* a list's default */
        s = "{ ";
        for (int i = 1; i <= (int)lua_rawlen(c->L, -1); i++) {
            lua_rawgeti(c->L, -1, i);
            s = gen_printf(c->g, "%s%s%s", s, i > 1 ? ", " : "", check_show(c->g, -1));
            lua_pop(c->L, 1);
        }
        s = gen_printf(c->g, "%s }", s);
    }
    lua_pop(c->L, 1);
    return s;
}

/* An example for a field that has none of its own and no default. */
static const char *example_of_type(Check *c, const Field *f)
{
    Gen *g = c->g;
    const Kind *k;

    switch (f->type) {
    case FIELD_INT:
        return f->has_min ? gen_printf(g, "N, at least %.0f", f->min) : "N";
    case FIELD_NUMBER:
        return "X, a number";
    case FIELD_BOOL:
        return "true";
    case FIELD_STRING:
        return f->values.count ? gen_printf(g, "\"%s\"", f->values.items[0]) : "\"...\"";
    case FIELD_RECORD:
        k = kinds_find(&c->ld->kinds, f->kinds.items[0]);
        return gen_printf(g, k->positional ? "%s(1)" : "%s { ... }", k->name);
    case FIELD_TABLE:
        return f->fields->count > 1
                   ? gen_printf(g, "{ %s = ..., %s = ... }", f->fields->items[0].name,
                                f->fields->items[1].name)
                   : "{ ... }";
    default:
        return "{ ... }";
    }
}

/* "a = 1": how to write the field. */
const char *check_example(Check *c, const Field *f, const char *path)
{
    bool plain = f->default_ref != LUA_NOREF && f->type != FIELD_RECORD &&
                 f->type != FIELD_TABLE && !f->default_text;
    const char *value = f->example ? f->example
                        : plain    ? check_show_ref(c, f->default_ref)
                                   : NULL;

    if (!value || !strncmp(value, "a function", 10)) /* the default is computed */
        value = example_of_type(c, f);
    if (strchr(check_last_name(path), '[')) /* in a list */
        return value;
    return gen_printf(c->g, "%s = %s", check_last_name(path), value);
}

const char *check_type(Check *c, const Field *f)
{
    switch (f->type) {
    case FIELD_INT:
        return "an integer";
    case FIELD_NUMBER:
        return "a number";
    case FIELD_BOOL:
        return f->number ? gen_printf(c->g, "true, false or %s", f->number)
                         : "true or false";
    case FIELD_STRING:
        return f->kinds.count
                   ? gen_printf(c->g, "a string or %s", words_join(c->g, &f->kinds, ""))
                   : "a string";
    case FIELD_TABLE:
        return "a table";
    case FIELD_LIST:
        return f->count ? gen_printf(c->g, "a list of %d", (int)f->count) : "a list";
    case FIELD_RECORD:
        return words_join(c->g, &f->kinds, "");
    case FIELD_MODEL:
        return "an architecture with its dimensions";
    default:
        return "a value";
    }
}
