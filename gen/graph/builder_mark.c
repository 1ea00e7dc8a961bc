/* SPDX-License-Identifier: Apache-2.0 */
/* builder_mark.c: how an architecture marks that parts.tensor divides a parameter. In:
 * `cut` of g:param{...}. Out: ClassParam.mark and what belongs to it. */
#include "graph/builder.h"
#include "base/names.h"
#include "base/sandbox.h"

#include <string.h>

static const char *dim_word(const ClassParam *p)
{
    return p->mark[PARTS_TENSOR].dim ? "columns" : "rows";
}

/* The sections of the dim that is cut: field `sections` of the table on top of the stack,
 * else the parts' rows, else one. */
static Sections mark_sections(Builder *b, const ClassParam *p)
{
    lua_State *L = b->g->L;
    const int64_t all = p->dim[p->mark[PARTS_TENSOR].dim];
    const int type = lua_getfield(L, -1, "sections");
    int64_t sum = 0;
    Sections s = {.n = 1};

    if (type != LUA_TNIL) {
        s.n = type == LUA_TTABLE && sandbox_length(L, -1) <= 64
                  ? (int)sandbox_length(L, -1)
                  : 0;
        if (s.n < 1)
            luaL_error(L, "param: sections of %s are %s, not a list of 1 to 64 numbers",
                       p->name, builder_show(b->g, L, -1));
    } else if (p->mark[PARTS_TENSOR].dim == 0 && p->n_parts) {
        lua_pop(L, 1);
        return (Sections){.n = p->n_parts, .elems = p->part_rows};
    }
    s.elems = gen_alloc(b->g, sizeof *s.elems * (size_t)s.n);
    s.elems[0] = all;
    for (int i = 0; type != LUA_TNIL && i < s.n; i++) {
        lua_rawgeti(L, -1, i + 1);
        s.elems[i] = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
        if (s.elems[i] < 1 || s.elems[i] > all)
            luaL_error(L, "param: section %d of %s is %s, not 1 to %s %s", i + 1, p->name,
                       builder_show(b->g, L, -1),
                       gen_printf(b->g, "%lld", (long long)all), dim_word(p));
        lua_pop(L, 1);
        sum += s.elems[i];
    }
    lua_pop(L, 1);
    if (type != LUA_TNIL && sum != all)
        luaL_error(L, "param: the sections of %s have %s", p->name,
                   gen_printf(b->g, "%lld %s, but it has %lld", (long long)sum,
                              dim_word(p), (long long)all));
    return s;
}

/* Field `unit` of the table on top of the stack, which divides each section. */
static int64_t mark_unit(Builder *b, const ClassParam *p)
{
    lua_State *L = b->g->L;
    const Sections *s = &p->mark[PARTS_TENSOR].sections;
    int64_t unit = 1;

    if (lua_getfield(L, -1, "unit") != LUA_TNIL)
        unit = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
    if (unit < 1)
        luaL_error(L, "param: unit of %s is %s, not a number of its %s", p->name,
                   builder_show(b->g, L, -1), dim_word(p));
    lua_pop(L, 1);
    for (int i = 0; i < s->n; i++)
        if (s->elems[i] % unit)
            luaL_error(L, "param: units of %s",
                       gen_printf(b->g,
                                  "%lld %s do not divide a section of %s, which has %lld",
                                  (long long)unit, dim_word(p), p->name,
                                  (long long)s->elems[i]));
    return unit;
}

/* Field `pad` of the table on top of the stack. */
static bool mark_pads(Builder *b, const ClassParam *p)
{
    lua_State *L = b->g->L;
    const int type = lua_getfield(L, -1, "pad");
    const bool pads = lua_toboolean(L, -1);

    if (type != LUA_TNIL && type != LUA_TBOOLEAN)
        luaL_error(L, "param: pad of %s is %s, not true or false", p->name,
                   builder_show(b->g, L, -1));
    if (pads && (p->mark[PARTS_TENSOR].dim != 0 || p->n_dims != 2 ||
                 p->mark[PARTS_TENSOR].sections.n > 1 || p->mark_unit > 1))
        luaL_error(L,
                   "param: %s is padded, but it is not a matrix cut into rows, of one"
                   " section and units of one row",
                   p->name);
    lua_pop(L, 1);
    return pads;
}

/* Field `of` of the table on top of the stack: a name, or one for each section. */
static const char **mark_of(Builder *b, const ClassParam *p)
{
    lua_State *L = b->g->L;
    const int n = p->mark[PARTS_TENSOR].sections.n, type = lua_getfield(L, -1, "of");
    const bool list = type == LUA_TTABLE;
    const char **of = gen_alloc(b->g, sizeof *of * (size_t)n);

    if (list && sandbox_length(L, -1) != n)
        luaL_error(L, "param: of of %s has %I names, but it has %d section%s", p->name,
                   (LUAI_UACINT)sandbox_length(L, -1), n, n == 1 ? "" : "s");
    for (int i = 0; i < n && type != LUA_TNIL; i++) {
        if (list)
            lua_rawgeti(L, -1, i + 1);
        else
            lua_pushvalue(L, -1);
        if (lua_type(L, -1) != LUA_TSTRING || !ident_ok(lua_tostring(L, -1)))
            luaL_error(L, "param: of of %s is %s, not a field of the model", p->name,
                       builder_show(b->g, L, -1));
        of[i] = gen_strdup(b->g, lua_tostring(L, -1));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return of;
}

/* cut = "rows", "columns" or { "rows", unit = 64, sections = { 256, 128, 128 },
 * of = { "heads", "kv_heads", "kv_heads" } }, or { "rows", pad = true } */
void builder_mark(Builder *b, ClassParam *p, int index)
{
    static const char *const keys[] = {"unit", "sections", "pad", "of"};
    lua_State *L = b->g->L;
    const char *how = "";

    p->mark_unit = 1;
    if (lua_getfield(L, index, "cut") == LUA_TNIL) {
        lua_pop(L, 1);
        return;
    }
    if (!lua_istable(L, -1)) { /* the word alone */
        lua_createtable(L, 1, 0);
        lua_insert(L, -2);
        lua_rawseti(L, -2, 1);
    }
    builder_check_fields(b, lua_gettop(L), gen_printf(b->g, "param: cut of %s", p->name),
                         1, keys, 4);
    if (lua_rawgeti(L, -1, 1) == LUA_TSTRING)
        how = lua_tostring(L, -1);
    if (strcmp(how, "rows") != 0 && (strcmp(how, "columns") != 0 || p->n_dims < 2))
        luaL_error(L, "param: cut of %s is %s, not \"rows\"%s", p->name,
                   builder_show(b->g, L, -1), p->n_dims < 2 ? "" : " or \"columns\"");
    p->mark[PARTS_TENSOR] = (PartState){.kind = PART_CUT, .dim = !strcmp(how, "columns")};
    lua_pop(L, 1);
    p->mark[PARTS_TENSOR].sections = mark_sections(b, p);
    p->mark_unit = mark_unit(b, p);
    p->mark_pads = mark_pads(b, p);
    p->mark_of = mark_of(b, p);
    lua_pop(L, 1);
}
