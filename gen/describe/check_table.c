/* SPDX-License-Identifier: Apache-2.0 */
/* check_table.c: validates a table of fields. In: the raw table and what fields it may
 * have. Out: the resolved table, fields in the order of their declaration so that a
 * default may use those above it; messages for fields that are missing or unknown. */
#include "describe/check.h"
#include "base/sandbox.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_UNKNOWN = 16 }; /* unknown keys reported per table */

void check_copy(lua_State *L)
{
    luaL_checkstack(L, 6, "copy");
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, -3);) {
        if (lua_istable(L, -1))
            check_copy(L);
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -4);
    }
    lua_remove(L, -2);
}

/* Pushes copies of the table so far and of the trainer's, which a default may use. */
static void push_so_far(Check *c, int resolved)
{
    lua_pushvalue(c->L, resolved);
    check_copy(c->L);
    lua_pushvalue(c->L, c->root);
    check_copy(c->L);
}

static const char *join(Gen *g, const char *path, const char *name)
{
    return *path ? gen_printf(g, "%s.%s", path, name) : name;
}

/* inside: also finds overrides of fields inside this one. */
static const Set *find_set(const Loader *ld, const char *path, bool inside)
{
    size_t n = strlen(path);

    for (int i = 0; i < ld->sets.count; i++) {
        const char *p = ld->sets.items[i].path;

        if (!strcmp(p, path) || (inside && !strncmp(p, path, n) && p[n] == '.'))
            return &ld->sets.items[i];
    }
    return NULL;
}

/* Where the field's value was written: on the command line, in this table's source, or
 * elsewhere; then the table's own place stands for it. */
static Site site_of(Check *c, const char *path, const char *name, int raw, Site table)
{
    const Set *set = find_set(c->ld, path, false);
    const LexField *f = lex_field(table.lex, name);
    bool changed = false;

    if (set)
        return (Site){.pos = set->pos, .lex = set->lex, .written = true};
    if (!f && table.lex && table.tag && table.tag->kind && table.tag->kind->positional &&
        !strcmp(table.tag->kind->positional, name)) { /* per_block { 2, ... } */
        const LexField *item = lex_item(table.lex, 1);

        if (item)
            return (Site){.pos = item->value,
                          .lex =
                              kind_takes_list(table.tag->kind) ? table.lex : item->table,
                          .written = true};
    }
    if (table.tag && table.tag->given_ref) { /* t.seq = 7, after the constructor */
        lua_rawgeti(c->L, LUA_REGISTRYINDEX, table.tag->given_ref);
        lua_pushstring(c->L, name);
        lua_rawget(c->L, -2);
        lua_pushstring(c->L, name);
        lua_rawget(c->L, raw);
        changed = !lua_rawequal(c->L, -1, -2) && !lua_istable(c->L, -1);
        lua_pop(c->L, 3);
    }
    if (f && !changed)
        return (Site){.pos = f->value, .lex = f->table, .written = true};
    return (Site){.pos = table.pos, .written = table.written};
}

/* Pushes the default of a field. resolved: the table so far, which functions get as an
 * argument, and after it the trainer's. */
static void push_default(Check *c, const Field *f, const char *path, Site site,
                         int resolved, bool valid)
{
    lua_State *L = c->L;

    site.written = false;
    lua_rawgeti(L, LUA_REGISTRYINDEX, f->default_ref);
    if (lua_isfunction(L, -1)) {
        /* The function may read a field that has an error, or have no time left. */
        if (!valid || sandbox_of(L)->expired) {
            lua_pop(L, 1);
            lua_pushnil(L);
            return;
        }
        push_so_far(c, resolved);
        if (sandbox_status(L, lua_pcall(L, 2, 1, 0)) != LUA_OK) {
            loader_lua_error(c->g, path, site.pos);
            c->errors++;
            lua_pushnil(L);
            return;
        }
        if (lua_type(L, -1) == LUA_TSTRING &&
            words_have(&f->later_values, lua_tostring(L, -1)))
            return; /* check.c reports where that comes from */
    } else if (f->type == FIELD_RECORD) {
        const char *name = lua_tostring(L, -1);
        Tag *tag = gen_alloc(c->g, sizeof *tag);

        *tag = (Tag){
            .tag = TAG_RECORD, .kind = kinds_find(&c->ld->kinds, name), .name = name};
        gen_require(tag->kind, "the default of %s", path);
        lua_newtable(L);
        record_set_tag(c->g, -1, tag);
        lua_remove(L, -2);
    }
    check_value(c, f, path, site);
}

/* The given table, on top, gets the fields that it lacks from the default of the whole,
 * which may depend on the fields before it. valid: those have no error. */
static void fill_table(Check *c, const Field *f, int resolved, bool valid)
{
    lua_State *L = c->L;
    const int given = lua_gettop(L);

    if (!f->fills || !valid || !lua_istable(L, given))
        return;
    lua_rawgeti(L, LUA_REGISTRYINDEX, f->default_ref);
    push_so_far(c, resolved);
    if (lua_isfunction(L, given + 1) &&
        sandbox_status(L, lua_pcall(L, 2, 1, 0)) == LUA_OK && lua_istable(L, -1)) {
        for (lua_pushnil(L); lua_next(L, given + 1);) {
            lua_pushvalue(L, -2);
            if (lua_rawget(L, given) == LUA_TNIL) {
                lua_pushvalue(L, -3);
                lua_pushvalue(L, -3);
                lua_rawset(L, given);
            }
            lua_pop(L, 2);
        }
    }
    lua_settop(L, given);
}

/* Is the value on top that of the field's default? A table is if its fields are. */
static bool is_usual(Check *c, const Field *f, const char *path, int resolved)
{
    lua_State *L = c->L;
    const int value = lua_gettop(L);
    bool same;

    if (f->type == FIELD_TABLE) {
        same = lua_istable(L, value);
        for (int i = 0; same && i < f->fields->count; i++) {
            const char *full = join(c->g, path, f->fields->items[i].name);

            same = !place_of(c->g, full).line || !model_given(c->g, full);
        }
        return same;
    }
    if (f->default_ref == LUA_NOREF)
        return false;
    lua_rawgeti(L, LUA_REGISTRYINDEX, f->default_ref);
    same = !lua_isfunction(L, -1);
    if (!same) {
        push_so_far(c, resolved);
        same = sandbox_status(L, lua_pcall(L, 2, 1, 0)) == LUA_OK;
    }
    same = same && lua_rawequal(L, value, -1);
    lua_settop(L, value);
    return same;
}

static void check_field(Check *c, const Field *f, const char *path, int raw, int resolved,
                        Site table, bool valid)
{
    lua_State *L = c->L;
    Site site = site_of(c, path, f->name, raw, table);

    lua_pushstring(L, f->name);
    lua_rawget(L, raw);
    if (!lua_isnil(L, -1)) {
        const int errors = c->errors;

        fill_table(c, f, resolved, valid);
        check_value(c, f, path, site);
        if (valid && c->errors == errors && !sandbox_of(L)->expired &&
            is_usual(c, f, path, resolved))
            check_mark_usual(c->g, path);
    } else if (f->default_ref != LUA_NOREF) {
        lua_pop(L, 1);
        push_default(c, f, path, table, resolved, valid);
    } else if (!f->optional) {
        check_error(c, table.pos, gen_printf(c->g, "add %s", check_example(c, f, path)),
                    "%s is missing%s%s", path, f->doc ? ": " : "", f->doc ? f->doc : "");
    }
    lua_setfield(L, resolved, f->name);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Does the description's architecture have this dimension? */
static bool is_of_model(Check *c, const char *key)
{
    const Tag *tag;
    int top = lua_gettop(c->L);

    lua_rawgeti(c->L, LUA_REGISTRYINDEX, c->ld->raw_ref);
    lua_pushstring(c->L, "model");
    lua_rawget(c->L, -2);
    tag = record_tag(c->g, -1);
    lua_settop(c->L, top);
    return tag && tag->tag == TAG_MODEL && fields_find(tag->arch->fields, key);
}

/* The field of the trainer that has this one; NULL: none has it. */
static const char *of_table(Check *c, const char *key)
{
    for (int i = 0; i < c->ld->trainer->count; i++) {
        const Field *f = &c->ld->trainer->items[i];

        if (f->type == FIELD_TABLE && fields_find(f->fields, key))
            return f->name;
        for (int k = 0; f->type == FIELD_RECORD && k < f->kinds.count; k++) {
            const Kind *kind = kinds_find(&c->ld->kinds, f->kinds.items[k]);

            if (kind && fields_find(kind->fields, key))
                return f->name;
        }
    }
    return NULL;
}

static void unknown_field(Check *c, const char *key, const Words *names, const char *path,
                          Site table)
{
    const char *near = diag_nearest(key, names->items, names->count), *help;
    const char *full = join(c->g, path, key);
    /* Not for tables of machines, which are checked before the trainer is known. */
    const char *table_name = *path ? NULL : of_table(c, key);
    const LexField *at = lex_field(table.lex, key);
    const Set *set = find_set(c->ld, full, true);

    help = synonym_help(c->g, path, key, names);
    if (!help && !near && !*path && is_of_model(c, key))
        help = gen_printf(c->g, "it is a field of the model: model.%s", key);
    if (!help && table_name)
        help =
            gen_printf(c->g, "it is a field of %s: %s.%s", table_name, table_name, key);
    help = help           ? help
           : near         ? gen_printf(c->g, "did you mean `%s`?", near)
           : names->count ? gen_printf(c->g, "its fields are %s", words_all(c->g, names))
                          : "it has no fields";
    check_error(c,
                set  ? set->key_pos
                : at ? at->key_pos
                     : table.pos,
                help, "%s: unknown field", full);
}

/* Reports keys that are not fields. They are sorted, because the table's own order is
 * arbitrary. */
static void check_unknown(Check *c, const Fields *fields, const char *path, int raw,
                          Site table)
{
    lua_State *L = c->L;
    Words unknown = {0}, names = fields_names(c->g, fields);
    bool items = false;

    for (lua_pushnil(L); lua_next(L, raw); lua_pop(L, 1)) {
        size_t len;
        const char *key;

        if (lua_type(L, -2) != LUA_TSTRING) {
            items = true;
            continue;
        }
        key = lua_tolstring(L, -2, &len);
        if (strlen(key) != len) /* a key with a NUL is shown with it */
            *gen_push(c->g, &unknown) = check_show(c->g, -2);
        else if (!fields_find(fields, key))
            *gen_push(c->g, &unknown) = gen_strndup(c->g, key, len < 200 ? len : 200);
    }
    if (unknown.count)
        qsort(unknown.items, (size_t)unknown.count, sizeof *unknown.items, by_text);
    for (int i = 0; i < unknown.count && i < MAX_UNKNOWN; i++)
        unknown_field(c, unknown.items[i], &names, path, table);
    if (unknown.count > MAX_UNKNOWN)
        check_error(c, table.pos, NULL, "%s: %d more unknown fields",
                    *path ? path : "trainer", unknown.count - MAX_UNKNOWN);
    if (items) {
        const LexField *at = lex_item(table.lex, 1);

        check_error(c, at ? at->value : table.pos,
                    names.count
                        ? gen_printf(c->g, "write NAME = value; its fields are %s",
                                     words_all(c->g, &names))
                        : "it has no fields",
                    "%s: a value without a name", *path ? path : "trainer");
    }
}

void check_table(Check *c, const Fields *fields, const char *path, int raw, Site site)
{
    lua_State *L = c->L;
    int errors = c->errors, resolved;

    luaL_checkstack(L, 20, "check");
    lua_newtable(L);
    resolved = lua_gettop(L);
    c->root = c->root ? c->root : resolved;
    if (lua_getmetatable(L, raw)) {
        lua_pop(L, 1);
        check_error(c, site.pos, "write the fields in the table itself",
                    "%s: a table with a metatable is given", *path ? path : "trainer");
    }
    for (int i = 0; i < fields->count; i++)
        check_field(c, &fields->items[i], join(c->g, path, fields->items[i].name), raw,
                    resolved, site, c->errors == errors);
    check_unknown(c, fields, path, raw, site);
}
