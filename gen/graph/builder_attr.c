/* SPDX-License-Identifier: Apache-2.0 */
/* builder_attr.c: attributes of op calls. In: the table of a call. Out: the op's
 * attributes, complete, of their declared types, sorted by key; or a Lua error with the
 * reason. */
#include "graph/builder.h"

#include <math.h>
#include <string.h>

/* Attributes end up in emitted C, so characters that could end a string or a comment are
 * refused. */
static bool attr_string_ok(const char *s)
{
    size_t n = strlen(s);

    for (size_t i = 0; i < n; i++)
        if (s[i] < 32 || s[i] > 126 || strchr("\"\\*/?`$", s[i]))
            return false;
    return n < 64;
}

void builder_attr(Builder *b, const OpRule *op, const AttrSpec *spec, int index, Attr *a)
{
    lua_State *L = b->g->L;
    int ok = 1;

    *a = (Attr){.key = spec->key, .type = spec->type};
    switch (a->type) {
    case ATTR_INT:
        a->i = lua_tointegerx(L, index, &ok);
        ok = ok && lua_type(L, index) == LUA_TNUMBER;
        break;
    case ATTR_NUM:
        a->num = lua_tonumberx(L, index, &ok);
        ok = ok && lua_type(L, index) == LUA_TNUMBER && number_fits_f32(a->num);
        if (a->num == 0)
            a->num = 0; /* +0 and -0 become one zero */
        break;
    case ATTR_STR:
        ok = lua_type(L, index) == LUA_TSTRING && attr_string_ok(lua_tostring(L, index));
        a->s = ok ? gen_strdup(b->g, lua_tostring(L, index)) : NULL;
        break;
    case ATTR_BOOL:
        ok = lua_isboolean(L, index);
        a->i = lua_toboolean(L, index);
        break;
    }
    if (!ok)
        luaL_error(L, "%s: %s must be %s, not %s", op->name, a->key,
                   a->type == ATTR_INT   ? "a whole number"
                   : a->type == ATTR_NUM ? "a number that f32 holds"
                   : a->type == ATTR_STR ? "a short plain string"
                                         : "true or false",
                   builder_show(b->g, L, index));
}

const char *builder_unknown_key(Builder *b, const OpRule *op, int index)
{
    lua_State *L = b->g->L;
    const OpInfo *info = op->info;
    const char *worst = NULL;

    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        const char *key;
        bool known = false;

        if (lua_type(L, -2) == LUA_TNUMBER)
            continue;
        key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        known = !strcmp(key, "name");
        for (int i = 0; i < info->n_attrs && !known; i++)
            known = !strcmp(info->attrs[i].key, key);
        if (!known && (!worst || strcmp(key, worst) < 0))
            worst = gen_strdup(b->g, key);
    }
    return worst;
}

void builder_check_keys(Builder *b, const OpRule *op, int index)
{
    lua_State *L = b->g->L;
    const OpInfo *info = op->info;
    const char *key = builder_unknown_key(b, op, index), *near;
    const char **names;
    Text t = {.g = b->g};

    if (!key)
        return;
    names = gen_alloc(b->g, sizeof *names * (size_t)(info->n_attrs + 1));
    text_add(&t, "", 0);
    for (int i = 0; i < info->n_attrs; i++) {
        names[i] = info->attrs[i].key;
        text_printf(&t, "%s%s", i ? ", " : "", names[i]);
    }
    near = diag_nearest(key, names, info->n_attrs);
    if (near)
        luaL_error(L, "%s: unknown attribute %s; did you mean %s?", op->name, key, near);
    luaL_error(L, "%s: unknown attribute %s; it has %s", op->name, key,
               info->n_attrs ? t.s : "none");
}

void builder_attrs(Builder *b, const OpRule *op, int index, Attr *out)
{
    lua_State *L = b->g->L;

    builder_check_keys(b, op, index);
    for (int i = 0; i < op->info->n_attrs; i++) {
        const AttrSpec *spec = &op->info->attrs[i];

        lua_getfield(L, index, spec->key);
        if (!lua_isnil(L, -1))
            builder_attr(b, op, spec, lua_gettop(L), &out[i]);
        else if (spec->has_default)
            out[i] = spec->dflt;
        else
            luaL_error(
                L, "%s: attribute %s is missing; give it %s = VALUE, which is not nil",
                op->name, spec->key, spec->key);
        lua_pop(L, 1);
    }
}
