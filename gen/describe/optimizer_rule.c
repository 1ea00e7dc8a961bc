/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer_rule.c: turns the result of gen/lua/optimizer.lua into C. In: its result and
 * its problems, on the Lua stack; the op.lua. Out: an Optimizer with its Kind, or
 * messages that point into the file. */
#include "describe/load.h"
#include "base/sandbox.h"

#include <lauxlib.h>
#include <string.h>

/* ---- places ---------------------------------------------------------------------- */

/* The table of `op { ... }`; NULL if it is written in another form. */
static const LexTable *op_table(const LexFile *f)
{
    for (int i = 0; i < f->tables.count; i++)
        if (f->tables.items[i]->callee && !strcmp(f->tables.items[i]->callee, "op"))
            return f->tables.items[i];
    return NULL;
}

/* Follows the list at stack index `at`, of names and item numbers, into nested lists, as
 * far as they are written in the file. */
static void follow(lua_State *L, int at, const LexTable **t, Pos *pos)
{
    bool key;

    at = lua_absindex(L, at);
    luaL_checkstack(L, 5, "place");
    key = lua_getfield(L, at, "key") == LUA_TBOOLEAN;
    lua_pop(L, 1);
    for (int i = 1; lua_rawgeti(L, at, i) != LUA_TNIL; i++, lua_pop(L, 1)) {
        const LexField *f = NULL;

        if (lua_istable(L, -1)) {
            follow(L, -1, t, pos);
            continue;
        }
        if (*t && lua_type(L, -1) == LUA_TSTRING)
            f = lex_field(*t, lua_tostring(L, -1));
        else if (*t && lua_isinteger(L, -1))
            f = lex_item(*t, (int)lua_tointeger(L, -1));
        if (f)
            *pos = key && f->key ? f->key_pos : f->value;
        *t = f ? f->table : NULL;
    }
    lua_pop(L, 1);
}

Pos optimizer_place(const Optimizer *o, const char *key)
{
    const LexTable *t = op_table(o->file);
    const LexField *f = t ? lex_field(t, key) : NULL;

    return f ? f->key_pos : t ? t->callee_pos : lex_word(o->file, 1, NULL);
}

/* The place of the word after the rule's `fields`; or else its first occurrence. */
Pos optimizer_word(const LexFile *f, const char *word)
{
    const char *from = strstr(f->text, "fields"), *at;
    int line = 1;

    at = from ? strstr(from, word) : NULL;
    at = at ? at : strstr(f->text, word);
    for (const char *p = f->text; at && p < at; p++)
        line += *p == '\n';
    return lex_word(f, line, at ? word : NULL);
}

/* ---- the result ------------------------------------------------------------------ */

static const char *text_at(Gen *g, const char *key)
{
    const char *s = NULL;

    if (lua_getfield(g->L, -1, key) == LUA_TSTRING)
        s = gen_strdup(g, lua_tostring(g->L, -1));
    lua_pop(g->L, 1);
    return s;
}

static int ref_at(lua_State *L, const char *key)
{
    int type = lua_getfield(L, -1, key);

    if (type == LUA_TFUNCTION)
        return luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pop(L, 1);
    return LUA_NOREF;
}

static Words words_at(Gen *g, const char *key)
{
    Words w = {0};

    lua_getfield(g->L, -1, key);
    for (lua_Integer i = 1; lua_rawgeti(g->L, -1, i) == LUA_TSTRING; i++) {
        *gen_push(g, &w) = gen_strdup(g, lua_tostring(g->L, -1));
        lua_pop(g->L, 1);
    }
    lua_pop(g->L, 2);
    return w;
}

/* Reports the problem on top of the stack. */
void optimizer_report(Gen *g, const char *name, const LexFile *f)
{
    const LexTable *t = op_table(f);
    Pos pos = t ? t->callee_pos : lex_word(f, 1, NULL);
    const char *message = text_at(g, "message"), *help = text_at(g, "help");

    lua_getfield(g->L, -1, "at");
    follow(g->L, -1, &t, &pos);
    lua_pop(g->L, 1);
    diag_add(g, DIAG_ERROR, pos, help, "op %s: %s", name, message);
}

static void read_feeds(Gen *g, Optimizer *o)
{
    static const struct {
        const char *name;
        FieldType type;
    } types[] = {{"number", FIELD_NUMBER},
                 {"int", FIELD_INT},
                 {"bool", FIELD_BOOL},
                 {"string", FIELD_STRING}};
    lua_State *L = g->L;

    lua_getfield(L, -1, "feeds");
    for (lua_Integer i = 1; lua_rawgeti(L, -1, i) == LUA_TTABLE; i++) {
        Feed *f = gen_push(g, &o->feeds);
        const char *type = text_at(g, "type");

        *f = (Feed){.field = text_at(g, "field"), .attr = text_at(g, "attr")};
        for (size_t k = 0; k < sizeof types / sizeof *types; k++)
            if (!strcmp(types[k].name, type))
                f->type = types[k].type;
        lua_getfield(L, -1, "use");
        f->use = (OptimizerUse)lua_tointeger(L, -1);
        lua_pop(L, 2);
    }
    lua_pop(L, 2);
}

/* Reads the result on top of the stack. */
static Optimizer *read_optimizer(Gen *g, const char *name, const LexFile *f)
{
    lua_State *L = g->L;
    Optimizer *o = gen_alloc(g, sizeof *o);

    *o = (Optimizer){.name = name, .file = f};
    o->uses[USE_SELF] = name;
    lua_getfield(L, -1, "uses");
    o->uses[USE_MATRIX] = text_at(g, "matrix");
    o->uses[USE_MOMENTUM] = text_at(g, "momentum");
    o->uses[USE_OTHERS] = text_at(g, "others");
    lua_pop(L, 1);
    lua_getfield(L, -1, "dtypes");
    o->master = words_at(g, "master");
    o->moments_dtypes = words_at(g, "moments");
    lua_pop(L, 1);
    o->moments_ref = ref_at(L, "moments");
    o->lr_adjust_ref = ref_at(L, "lr_adjust");
    lua_getfield(L, -1, "kept");
    o->kept = o->moments = (int)lua_tointeger(L, -1);
    lua_getfield(L, -2, "default");
    o->is_default = lua_toboolean(L, -1);
    lua_pop(L, 2);
    read_feeds(g, o);
    return o;
}

/* Upvalue: the Gen. In: rows of fields; name. Out: their Kind. */
static int c_kind(lua_State *L)
{
    Gen *g = lua_touserdata(L, lua_upvalueindex(1));
    Kind *kind = gen_alloc(g, sizeof *kind);

    *kind = (Kind){.name = gen_strdup(g, luaL_checkstring(L, 2)),
                   .fields = fields_read(g, L, 1, "in", true)};
    lua_pushlightuserdata(L, kind);
    return 1;
}

/* The result is on top of the stack. If fields.c rejects a row, the message points at the
 * word that it quotes. */
void optimizer_add_kind(Gen *g, const char *name, const LexFile *f)
{
    lua_State *L = g->L;
    Kind kind;

    lua_pushlightuserdata(L, g);
    lua_pushcclosure(L, c_kind, 1);
    lua_getfield(L, -2, "rows");
    lua_pushstring(L, name);
    if (sandbox_status(L, lua_pcall(L, 2, 1, 0))) {
        char *text = gen_strdup(g, lua_tostring(L, -1)), *mark = strchr(text, *HELP);
        char *open = strchr(text, '\''), *end = open ? strchr(open + 1, '\'') : NULL;

        if (mark)
            *mark = '\0';
        diag_add(
            g, DIAG_ERROR,
            optimizer_word(f, end ? gen_strndup(g, open + 1, (size_t)(end - open - 1))
                                  : "fields"),
            mark ? mark + 1 : NULL, "op %s: %s", name, text);
        lua_pop(L, 1);
        return;
    }
    kind = *(const Kind *)lua_touserdata(L, -1);
    lua_pop(L, 1);
    kind.optimizer = read_optimizer(g, name, f);
    *gen_push(g, &g->loader->kinds) = kind;
}
