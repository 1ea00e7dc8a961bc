/* SPDX-License-Identifier: Apache-2.0 */
/* check_read.c: places of fields and their resolved values, by path: "mesh.shard",
 * "groups[2].lr". In: places and the resolved table of the loader. Out: a place or a
 * value; a value that was wrong reads as absent: 0, false or "". */
#include "describe/check.h"

#include <stdlib.h>
#include <string.h>

/* ---- places ---------------------------------------------------------------------- */

static Place *find_place(Gen *g, const char *path)
{
    Place *found = NULL;

    for (int i = 0; i < g->loader->places.count; i++)
        if (!strcmp(g->loader->places.items[i].path, path))
            found = &g->loader->places.items[i];
    return found;
}

void check_mark_usual(Gen *g, const char *path)
{
    Place *p = find_place(g, path);

    if (p)
        p->usual = true;
}

bool model_given(Gen *g, const char *path)
{
    const Place *p = g->loader ? find_place(g, path) : NULL;

    return p && p->pos.line && !p->usual;
}

Pos model_pos(Gen *g, const char *path)
{
    const Place *p = g->loader ? find_place(g, path) : NULL;

    return p ? p->pos : (Pos){.file = g->model.file};
}

const char *parts_field(Gen *g, PartsAxis axis)
{
    return gen_printf(g, "parts.%s", axis_name(parts_mesh(axis)));
}

const char *parts_fields(Gen *g, const char *of)
{
    const char *fields = "";

    for (int a = 0; a < N_PARTS_AXES; a++)
        if (g->model.parts[a] > 1)
            fields = gen_printf(g, "%s%s%s.%s", fields, *fields ? ", " : "", of,
                                axis_name(parts_mesh(a)));
    return fields;
}

const char *parts_of(Gen *g)
{
    const long long tensor = g->model.parts[PARTS_TENSOR];
    const long long context = g->model.parts[PARTS_CONTEXT];

    return context == 1 ? "heads and features"
           : tensor == 1
               ? "each sequence"
               : gen_printf(g, "heads and features (%lld) and of each sequence (%lld)",
                            tensor, context);
}

Pos place_of(Gen *g, const char *path)
{
    char *p = gen_strdup(g, path);

    while (*p) {
        const Place *found = find_place(g, p);
        char *dot = strrchr(p, '.');

        if (found)
            return found->pos;
        *(dot ? dot : p) = '\0';
    }
    return g->loader->trainer_pos;
}

/* ---- resolved values, by path: absent when they were wrong ----------------------- */

/* Pushes the value at a path of the resolved table: "mesh.shard", "groups[2].lr". */
int value_push(Check *c, const char *path)
{
    lua_rawgeti(c->L, LUA_REGISTRYINDEX, c->ld->resolved_ref);
    while (*path && lua_istable(c->L, -1)) {
        size_t n = *path == '[' ? strcspn(path, "]") + 1 : strcspn(path, ".[");

        if (*path == '[')
            lua_rawgeti(c->L, -1, atoi(path + 1));
        else {
            lua_pushlstring(c->L, path, n);
            lua_rawget(c->L, -2);
        }
        lua_remove(c->L, -2);
        path += n + (path[n] == '.');
    }
    if (*path) { /* a table on the way is missing */
        lua_pop(c->L, 1);
        lua_pushnil(c->L);
    }
    return lua_type(c->L, -1);
}

bool value_int(Check *c, const char *path, int64_t *out)
{
    bool has = value_push(c, path) == LUA_TNUMBER;

    *out = has ? (int64_t)lua_tointeger(c->L, -1) : 0;
    lua_pop(c->L, 1);
    return has;
}

double value_num(Check *c, const char *path)
{
    double v;

    value_push(c, path);
    v = lua_tonumber(c->L, -1);
    lua_pop(c->L, 1);
    return v;
}

bool value_bool(Check *c, const char *path)
{
    bool v;

    value_push(c, path);
    v = lua_toboolean(c->L, -1);
    lua_pop(c->L, 1);
    return v;
}

const char *value_str(Check *c, const char *path) /* "" if absent */
{
    const char *s = "";

    if (value_push(c, path) == LUA_TSTRING)
        s = gen_strdup(c->g, lua_tostring(c->L, -1));
    lua_pop(c->L, 1);
    return s;
}

const char *value_kind(Check *c, const char *path)
{
    Tag *tag;

    value_push(c, path);
    tag = record_tag(c->g, -1);
    lua_pop(c->L, 1);
    return tag ? tag->name : "";
}
