/* SPDX-License-Identifier: Apache-2.0 */
/* record.c: the constructors of the description language, `trainer { ... }`, `cosine {
 * ... }`, `arch { ... }`. In: plain tables. Out: plain tables again. For each of them we
 * remember, separately and out of reach of foreign code, which constructor made it and
 * where in which file. */
#include "describe/load.h"
#include "base/sandbox.h"

#include <lauxlib.h>
#include <string.h>

Tag *record_tag(Gen *g, int index)
{
    lua_State *L = g->L;
    Tag *tag = NULL;

    index = lua_absindex(L, index);
    if (lua_istable(L, index) || lua_isfunction(L, index)) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, g->loader->tags_ref);
        lua_pushvalue(L, index);
        lua_rawget(L, -2);
        tag = lua_touserdata(L, -1);
        lua_pop(L, 2);
    }
    return tag;
}

void record_set_tag(Gen *g, int index, Tag *tag)
{
    lua_State *L = g->L;

    index = lua_absindex(L, index);
    lua_rawgeti(L, LUA_REGISTRYINDEX, g->loader->tags_ref);
    lua_pushvalue(L, index);
    lua_pushlightuserdata(L, tag);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

static Gen *gen_of(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

/* How well a `{...}` of the source matches the table that a constructor got. */
static int fit(lua_State *L, int table, const LexTable *t, const char *callee)
{
    int score = callee && !strcmp(callee, t->callee) ? 8 : 0;

    for (int i = 0; i < t->fields.count; i++) {
        if (!t->fields.items[i].key)
            continue;
        score += lua_getfield(L, table, t->fields.items[i].key) == LUA_TNIL ? -4 : 1;
        lua_pop(L, 1);
    }
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING && !lex_field(t, lua_tostring(L, -2)))
            score -= 4;
    return score;
}

/* Where the running constructor was called, and its table in the source. table: stack
 * index of the argument; callee: the constructor's name, NULL for an architecture, which
 * may have any name. */
static void locate(lua_State *L, int table, const char *callee, Tag *tag)
{
    lua_Debug ar;
    LexFile *f;
    int best = INT32_MIN;

    if (!lua_getstack(L, 1, &ar) || !lua_getinfo(L, "Sl", &ar) || ar.currentline < 1)
        return;
    f = loader_file(gen_of(L)->loader, ar.source + 1);
    if (!f)
        return;
    for (int i = 0; lua_istable(L, table) && i < f->tables.count; i++) {
        const LexTable *t = f->tables.items[i];
        int score;

        if (!t->callee ||
            (t->line != ar.currentline && t->callee_pos.line != ar.currentline))
            continue;
        score = fit(L, table, t, callee);
        if (score > best) {
            best = score;
            tag->lex = t;
            tag->pos = t->callee_pos;
        }
    }
    if (tag->lex)
        return;
    tag->pos = lex_word(f, ar.currentline, tag->name);
    for (int i = 0; lua_istable(L, table) && i < f->tables.count; i++) { /* llama(dims) */
        const LexTable *t = f->tables.items[i];

        if (!t->callee && t->fields.count > 1 &&
            fit(L, table, t, NULL) == t->fields.count)
            tag->lex = t;
    }
}

/* Keeps a copy of the argument, to detect values that a later line changed: they have
 * another place. */
static void keep_given(lua_State *L, int table, Tag *tag)
{
    record_push_copy(L, table);
    tag->given_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

/* Makes a copy, so that one table passed to two constructors gives two records. */
void record_push_copy(lua_State *L, int table)
{
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, table);) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -4);
    }
}

/* Moves the unnamed values of the table on top into its positional field: the first of
 * per_block { 2, embed = "join" }, all of by_name { "a", "b" }. */
static void name_items(lua_State *L, const Kind *kind)
{
    int table = lua_gettop(L);
    lua_Integer n = sandbox_length(L, table);
    bool list = kind_takes_list(kind);

    if (lua_getfield(L, table, kind->positional) != LUA_TNIL || n == 0) {
        lua_settop(L, table); /* the field is named, or absent */
        return;
    }
    if (list)
        lua_newtable(L);
    for (lua_Integer i = 1; i <= (list ? n : 1); i++) {
        lua_rawgeti(L, table, i);
        if (list)
            lua_rawseti(L, table + 2, i);
        lua_pushnil(L);
        lua_rawseti(L, table, i);
    }
    lua_setfield(L, table, kind->positional);
    lua_settop(L, table);
}

/* Upvalues: Gen, Kind. */
/* Fields that a metatable adds would be lost: only a table's own are copied. */
static void refuse_metatable(lua_State *L, int table, const char *name)
{
    if (lua_getmetatable(L, table))
        luaL_error(L,
                   "%s: a table with a metatable is given" HELP
                   "write the fields in the table itself",
                   name);
}

static int construct(lua_State *L)
{
    Gen *g = gen_of(L);
    const Kind *kind = lua_touserdata(L, lua_upvalueindex(2));
    Tag *tag = gen_alloc(g, sizeof *tag);

    *tag = (Tag){.tag = TAG_RECORD, .kind = kind, .name = kind->name};
    if (lua_gettop(L) > 1)
        return luaL_error(L, "%s takes one value, but %d are given" HELP "write %s %s",
                          kind->name, lua_gettop(L), kind->name,
                          kind->positional && !kind_takes_list(kind) ? "(1)" : "{ ... }");
    lua_settop(L, 1);
    if (kind->positional && !lua_istable(L, 1)) {
        locate(L, 1, kind->name, tag);
        lua_newtable(L);
        lua_pushvalue(L, 1);
        lua_setfield(L, -2, kind->positional);
    } else if (lua_isnil(L, 1)) {
        if (!kind->fields->count || !strcmp(kind->name, "trainer"))
            return luaL_error(L,
                              "%s is called without its fields" HELP "write %s { ... }",
                              kind->name, kind->name);
        locate(L, 1, kind->name, tag);
        lua_newtable(L);
    } else if (!lua_istable(L, 1)) {
        return luaL_error(L,
                          "%s needs a table, but a %s is given" HELP "write %s { ... }",
                          kind->name, luaL_typename(L, 1), kind->name);
    } else {
        Tag *other = record_tag(g, 1);

        if (other)
            return luaL_error(
                L,
                "%s needs a plain table of its fields, but %s { ... } is given" HELP
                "write %s { name = value, ... }",
                kind->name, other->name, kind->name);
        refuse_metatable(L, 1, kind->name);
        locate(L, 1, kind->name, tag);
        keep_given(L, 1, tag);
        record_push_copy(L, 1);
        if (kind->positional)
            name_items(L, kind);
    }
    record_set_tag(g, -1, tag);
    return 1;
}

/* llama { ... }. Upvalue: the Gen. Arguments: the architecture's value and the table. */
static int construct_model(lua_State *L)
{
    Gen *g = gen_of(L);
    Tag *of = record_tag(g, 1), *tag = gen_alloc(g, sizeof *tag);

    if (!of || of->tag != TAG_ARCH)
        return luaL_error(L, "an architecture is called with a dot or a colon" HELP
                             "write llama { ... }");
    if (lua_gettop(L) != 2 || !lua_istable(L, 2) || record_tag(g, 2))
        return luaL_error(
            L, "%s needs one plain table of its dimensions" HELP "write %s { ... }",
            of->name, of->name);
    refuse_metatable(L, 2, of->name);
    *tag = (Tag){.tag = TAG_MODEL, .name = of->name, .arch = of->arch};
    locate(L, 2, NULL, tag);
    keep_given(L, 2, tag);
    record_push_copy(L, 2);
    record_set_tag(g, -1, tag);
    return 1;
}

static const char *check_arch_name(lua_State *L)
{
    size_t n;
    const char *s;

    if (lua_getfield(L, 1, "name") != LUA_TSTRING)
        luaL_error(L, "arch: name must be a string" HELP "write name = \"llama\"");
    s = lua_tolstring(L, -1, &n);
    if (n > 32 || !is_identifier(s, n))
        luaL_error(L,
                   "arch: '%s' is not a legal name" HELP
                   "use lower-case letters, digits and _, a letter first, at most 32, no "
                   "word of Lua",
                   s);
    lua_rawgeti(L, LUA_REGISTRYINDEX, gen_of(L)->loader->env_ref);
    lua_pushstring(L, s);
    if (lua_rawget(L, -2) != LUA_TNIL)
        luaL_error(L,
                   "arch: the name '%s' already means something in descriptions" HELP
                   "use another one",
                   s);
    lua_pop(L, 2);
    return s;
}

static int arch_function(lua_State *L, const char *key, bool required)
{
    int type = lua_getfield(L, 1, key);

    if (type != LUA_TFUNCTION && (required || type != LUA_TNIL))
        luaL_error(
            L, "arch: %s must be a function" HELP "write %s = function(m, %s) ... end",
            key, key,
            !strcmp(key, "build")   ? "b"
            : !strcmp(key, "check") ? "fail"
                                    : "t");
    if (type == LUA_TNIL) {
        lua_pop(L, 1);
        return LUA_NOREF;
    }
    return luaL_ref(L, LUA_REGISTRYINDEX);
}

/* Names that an architecture's dimensions may not have, because build's m has them
 * already. */
static void check_reserved(lua_State *L, const Fields *fields)
{
    const Field *vocab = fields_find(fields, "vocab");

    for (int i = 0; i < fields->count; i++)
        if (dims_adds(fields->items[i].name))
            luaL_error(L,
                       "arch: the field '%s' comes from the trainer" HELP
                       "use another name; build's m has the trainer's %s",
                       fields->items[i].name, fields->items[i].name);
    if (!vocab || vocab->type != FIELD_INT)
        luaL_error(
            L,
            "arch: an int field 'vocab' is needed: token ids are checked against it" HELP
            "add { \"vocab\", \"int\", min = 1 } to fields");
}

static int construct_arch(lua_State *L)
{
    static const char *const keys[] = {"name",  "doc",   "fields", "values",
                                       "check", "build", "config"};
    Gen *g = gen_of(L);
    Arch *arch = gen_alloc(g, sizeof *arch);
    Tag *tag = gen_alloc(g, sizeof *tag);

    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    sandbox_push_keys(L, 1);
    for (lua_Integer k = 1; lua_rawgeti(L, 2, k) != LUA_TNIL; k++) {
        bool known = false;

        for (size_t i = 0;
             lua_type(L, -1) == LUA_TSTRING && i < sizeof keys / sizeof *keys; i++)
            known = known || !strcmp(lua_tostring(L, -1), keys[i]);
        if (!known)
            return luaL_error(L,
                              "arch: unknown field '%s'" HELP
                              "its fields are name, doc, fields, values, check, build "
                              "and config",
                              lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1)
                                                             : check_show(g, -1));
        lua_settop(L, 2);
    }
    lua_settop(L, 1);
    arch->name = gen_strdup(g, check_arch_name(L));
    *tag = (Tag){.tag = TAG_ARCH, .name = arch->name, .arch = arch};
    locate(L, 1, "arch", tag);
    arch->pos = tag->pos;
    arch->build_ref = arch_function(L, "build", true);
    arch->check_ref = arch_function(L, "check", false);
    arch->config_ref = arch_function(L, "config", false);
    if (lua_getfield(L, 1, "fields") != LUA_TTABLE)
        return luaL_error(L, "arch: fields must be a list of rows" HELP
                             "write fields = { { name, type, ... }, ... }");
    arch->fields = fields_read(g, L, -1, "in", true);
    check_reserved(L, arch->fields);
    lua_settop(L, 1);
    lua_newtable(L); /* the value: extra names, and it can be called */
    if (lua_getfield(L, 1, "values") == LUA_TTABLE) {
        record_push_copy(L, lua_gettop(L));
        lua_replace(L, 2);
    }
    lua_settop(L, 2);
    lua_newtable(L);
    lua_pushlightuserdata(L, g);
    lua_pushcclosure(L, construct_model, 1);
    lua_setfield(L, -2, "__call");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, 2);
    record_set_tag(g, 2, tag);
    lua_settop(L, 2);
    return 1;
}

static void install_kind(Gen *g, int env, const Kind *kind)
{
    lua_State *L = g->L;
    Tag *tag = gen_alloc(g, sizeof *tag);

    *tag = (Tag){.tag = kind->constant ? TAG_RECORD : TAG_CONSTRUCTOR,
                 .kind = kind,
                 .name = kind->name};
    if (kind->constant) {
        lua_newtable(L);
    } else {
        lua_pushlightuserdata(L, g);
        lua_pushlightuserdata(L, (void *)kind);
        lua_pushcclosure(L, construct, 2);
    }
    record_set_tag(g, -1, tag);
    lua_setfield(L, env, kind->name);
}

void record_install(Gen *g, int env)
{
    lua_State *L = g->L;
    Loader *ld = g->loader;

    env = lua_absindex(L, env);
    for (int i = 0; i < ld->kinds.count; i++)
        install_kind(g, env, &ld->kinds.items[i]);
    install_kind(g, env, &ld->trainer_kind);
    lua_pushlightuserdata(L, g);
    lua_pushcclosure(L, construct_arch, 1);
    lua_setfield(L, env, "arch");
    lua_pushlightuserdata(L, g);
    lua_pushcclosure(L, require_module, 1);
    lua_setfield(L, env, "require");
}

/* An undefined name is a mistake, not nil: otherwise `tied = True` would set nothing. */
static int undefined(lua_State *L)
{
    sandbox_push_text(L, 2);
    return luaL_error(L, "undefined global '%s'", lua_tostring(L, -1));
}

int record_strict_env(Gen *g)
{
    lua_State *L = g->L;
    int ref = sandbox_env(L);

    lua_rawgeti(L, LUA_REGISTRYINDEX, ref);
    lua_createtable(L, 0, 2);
    lua_pushcfunction(L, undefined);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
    return ref;
}

int record_push_env(Gen *g)
{
    int ref = record_strict_env(g);

    lua_rawgeti(g->L, LUA_REGISTRYINDEX, ref);
    record_install(g, -1);
    lua_pop(g->L, 1);
    return ref;
}
