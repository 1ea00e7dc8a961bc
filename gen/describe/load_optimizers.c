/* SPDX-License-Identifier: Apache-2.0 */
/* load_optimizers.c: optimizers of --ops DIR as constructors of the description language.
 *
 * In: the op folders of DIR whose op.lua has role = "optimizer" and fields. Out: a Kind
 * for each, and its name among those of the trainer's field optimizer. Descriptions run
 * before ops.c checks the rules, so only what makes a constructor is read here. */
#include "describe/load.h"
#include "base/sandbox.h"

#include <dirent.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

static int c_op(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    return 1;
}

/* Upvalue: the Gen. In: the constructor's row. Out: its Kind. */
static int c_kind(lua_State *L)
{
    Gen *g = lua_touserdata(L, lua_upvalueindex(1));
    Kinds kinds;

    lua_newtable(L);
    lua_insert(L, 1);
    lua_rawseti(L, 1, 1);
    kinds = kinds_read(g, L, 1);
    lua_pushlightuserdata(L, &kinds.items[0]);
    return 1;
}

/* The line of the word after the rule's `fields`, else its first. */
static Pos word_place(const LexFile *f, const char *word)
{
    const char *from = strstr(f->text, "fields"), *at;
    int line = 1;

    at = from ? strstr(from, word) : NULL;
    at = at ? at : strstr(f->text, word);
    for (const char *p = f->text; at && p < at; p++)
        line += *p == '\n';
    return lex_word(f, line, at ? word : NULL);
}

static void complain(Gen *g, const LexFile *f, const char *name, const char *word,
                     const char *message, const char *help)
{
    diag_add(g, DIAG_ERROR, word_place(f, word), help, "op %s: %s", name, message);
}

/* The row on top of the stack, which it takes, becomes a Kind. */
static void add_kind(Gen *g, const LexFile *f, const char *name, int moments)
{
    lua_State *L = g->L;
    Loader *ld = g->loader;
    Kind kind;

    lua_pushlightuserdata(L, g);
    lua_pushcclosure(L, c_kind, 1);
    lua_insert(L, -2);
    if (sandbox_status(L, lua_pcall(L, 1, 1, 0))) {
        char *text = gen_strdup(g, lua_tostring(L, -1)), *mark = strchr(text, *HELP);
        char *open = strchr(text, '\''), *end = open ? strchr(open + 1, '\'') : NULL;

        if (mark)
            *mark = '\0';
        complain(g, f, name,
                 end ? gen_strndup(g, open + 1, (size_t)(end - open - 1)) : "fields",
                 text, mark ? mark + 1 : NULL);
        lua_pop(L, 1);
        return;
    }
    kind = *(const Kind *)lua_touserdata(L, -1);
    lua_pop(L, 1);
    kind.own = true;
    kind.moments = moments;
    *gen_push(g, &ld->kinds) = kind;
    for (int i = 0; i < ld->trainer->count; i++)
        if (!strcmp(ld->trainer->items[i].name, "optimizer"))
            *gen_push(g, &ld->trainer->items[i].kinds) = kind.name;
}

/* The rule is on top of the stack. */
static void read_rule(Gen *g, int make, const LexFile *f, const char *name)
{
    static const char *const reserved[] = {"trainer", "arch", "require"};
    lua_State *L = g->L;
    bool own = lua_istable(L, -1), taken = kinds_find(&g->loader->kinds, name) != NULL;

    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        taken = taken || !strcmp(name, reserved[i]);
    if (own) {
        lua_pushstring(L, "role");
        own =
            lua_rawget(L, -2) == LUA_TSTRING && !strcmp(lua_tostring(L, -1), "optimizer");
        lua_pushstring(L, "fields");
        own = lua_rawget(L, -3) != LUA_TNIL && own;
        lua_pop(L, 2);
    }
    if (!own)
        return;
    lua_pushvalue(L, make);
    lua_pushstring(L, name);
    lua_pushvalue(L, -3);
    lua_pushboolean(L, taken);
    if (sandbox_status(L, lua_pcall(L, 3, 4, 0))) {
        complain(g, f, name, "fields", lua_tostring(L, -1), NULL);
        lua_pop(L, 1);
    } else if (lua_istable(L, -4)) {
        int moments = (int)lua_tointeger(L, -3);

        lua_pop(L, 3);
        add_kind(g, f, name, moments);
    } else {
        complain(g, f, name, gen_strdup(g, lua_tostring(L, -3)),
                 gen_strdup(g, lua_tostring(L, -2)), gen_strdup(g, lua_tostring(L, -1)));
        lua_pop(L, 4);
    }
}

static void read_folder(Gen *g, int make, const char *dir, const char *name)
{
    const char *path = gen_printf(g, "%s/%s/op.lua", dir, name), *text;
    lua_State *L = g->L;
    const LexFile *f;
    size_t bytes;
    int env;

    if (!is_identifier(name, strlen(name)) || read_whole_file(path, &text, &bytes) ||
        memchr(text, '\0', bytes) || !strstr(text, "\"optimizer\"") ||
        !strstr(text, "fields"))
        return; /* ops.c says what is wrong with others */
    f = loader_add_file(g, path, text, bytes);
    env = sandbox_env(g);
    lua_rawgeti(L, LUA_REGISTRYINDEX, env);
    lua_pushcfunction(L, c_op);
    lua_setfield(L, -2, "op");
    lua_pop(L, 1);
    if (sandbox_run(g, text, bytes, gen_printf(g, "@%s", path), env, 1)) {
        g->loader->env_ref = env; /* names that its message may suggest */
        loader_lua_error(g, gen_printf(g, "op %s", name), lex_word(f, 1, NULL));
        return;
    }
    read_rule(g, make, f, name);
    lua_pop(L, 1);
    luaL_unref(L, LUA_REGISTRYINDEX, env);
}

static int name_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void load_optimizers(Gen *g, int make)
{
    DIR *d = g->opt.ops_dir ? opendir(g->opt.ops_dir) : NULL;
    Words names = {0};
    struct dirent *entry;

    make = lua_absindex(g->L, make);
    while (d && (entry = readdir(d)))
        *gen_push(g, &names) = gen_strdup(g, entry->d_name);
    if (d)
        closedir(d);
    if (names.count)
        qsort(names.items, (size_t)names.count, sizeof *names.items, name_order);
    for (int i = 0; i < names.count; i++)
        read_folder(g, make, g->opt.ops_dir, names.items[i]);
}

const char *load_optimizers_help(Gen *g, const LexFile *f, int line)
{
    const Field *field = fields_find(g->loader->trainer, "optimizer");
    const char *at = f->text;

    for (int i = 1; at && i < line; i++)
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    at = at ? at + strspn(at, " \t") : "";
    if (strncmp(at, "optimizer", 9) != 0 || at[9 + strspn(at + 9, " ")] != '=')
        return NULL;
    return gen_printf(g, "optimizers are %s; `--ops DIR` adds others",
                      words_all(g, &field->kinds));
}
