/* SPDX-License-Identifier: Apache-2.0 */
/* require.c: modules of a description. In: a name like "arch.llama". Out: what its file
 * returns; each file runs once, in an environment of its own. It is looked for in the
 * description's folder, then in each --path, then among the models embedded in fsdpgen:
 * in each as arch/llama.lua, then as arch.llama.lua, since names of models have dots
 * (qwen2.5_0.5b). A name consists of letters, digits, `_`, `-` and single dots, so that
 * it cannot leave those folders. */
#include "describe/load.h"
#include "base/sandbox.h"

#include <errno.h>
#include <lauxlib.h>
#include <string.h>

enum { MAX_MODULE_NAME = 128 };

bool require_is_name(const char *s, size_t n)
{
    if (n == 0 || n > MAX_MODULE_NAME || s[0] == '.' || s[n - 1] == '.')
        return false;
    for (size_t i = 0; i < n; i++) {
        bool word = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= '0' && s[i] <= '9') ||
                    s[i] == '_' || s[i] == '-';

        if (!word && !(s[i] == '.' && s[i - 1] != '.'))
            return false;
    }
    return true;
}

/* The files that a name may mean: dots separate folders, or are dots. */
typedef struct Paths {
    const char *of[2];
    int count;
} Paths;

static Paths paths_of(Gen *g, const char *name)
{
    char *path = gen_printf(g, "%s.lua", name);
    Paths paths = {{path, gen_printf(g, "%s.lua", name)}, strchr(name, '.') ? 2 : 1};

    for (char *p = path; p < path + strlen(name); p++)
        if (*p == '.')
            *p = '/';
    return paths;
}

typedef struct Found {
    const char *name, *path, *file, *text; /* path: below its folder */
    size_t bytes;
} Found;

static bool try_folder(lua_State *L, Gen *g, const char *folder, const Paths *paths,
                       Found *f)
{
    int e = ENOENT;

    for (int i = 0; i < paths->count && e; i++) {
        f->path = paths->of[i];
        f->file = *folder ? gen_printf(g, "%s/%s", folder, f->path) : f->path;
        e = read_whole_file(f->file, &f->text, &f->bytes);
        if (e && e != ENOENT && e != ENOTDIR)
            luaL_error(L, "require: %s: %s", f->file, file_problem(e));
    }
    return e == 0;
}

static bool find(lua_State *L, Gen *g, const Paths *paths, Found *f)
{
    const Embedded *e = NULL;

    if (g->loader->folder && try_folder(L, g, g->loader->folder, paths, f))
        return true;
    for (int i = 0; i < g->opt.paths.count; i++)
        if (try_folder(L, g, g->opt.paths.items[i], paths, f))
            return true;
    for (int i = 0; i < paths->count && !e; i++) {
        f->path = paths->of[i];
        f->file = gen_printf(g, "models/%s", f->path);
        e = embed_find(f->file);
    }
    if (!e)
        return false;
    f->text = (const char *)e->data;
    f->bytes = e->bytes;
    return true;
}

static void not_found(lua_State *L, Gen *g, const char *name)
{
    Words known = {0};
    const char *near;

    for (int i = 0; i < embedded_count; i++) {
        const char *p = embedded_files[i].path;
        size_t n = strlen(p);
        char *module;

        if (n < 12 || strncmp(p, "models/", 7) != 0 || strcmp(p + n - 4, ".lua") != 0)
            continue;
        module = gen_strndup(g, p + 7, n - 11);
        for (char *c = module; *c; c++)
            if (*c == '/')
                *c = '.';
        *gen_push(g, &known) = module;
    }
    near = diag_nearest(gen_printf(g, "arch.%s", name), known.items, known.count);
    if (!near)
        near = diag_nearest(name, known.items, known.count);
    luaL_error(L,
               "require: no module '%s' in the description's folder, in any --path or in "
               "fsdpgen's models" HELP "%s%s%s",
               name, near ? "did you mean `" : "name its folder with --path",
               near ? near : "", near ? "`?" : "");
}

/* Is the value on top of the stack texts, numbers and plain tables of these? */
static bool is_data(Gen *g, int depth)
{
    lua_State *L = g->L;

    if (lua_type(L, -1) != LUA_TTABLE)
        return lua_isstring(L, -1) || lua_isboolean(L, -1);
    if (record_tag(g, -1) || depth == 8)
        return false;
    luaL_checkstack(L, 3, "a module's value");
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        const bool data = is_data(g, depth + 1);

        lua_pop(L, data ? 1 : 2);
        if (!data)
            return false;
    }
    return true;
}

/* Does the emitted description need this file's folder? Not for one that fsdpgen has with
 * the same bytes, and not for a trainer or mere data, which are all written out: a module
 * that reads data is a file of its own. */
static bool is_outside(Gen *g, const Found *f, const Tag *value)
{
    const Embedded *own = embed_find(gen_printf(g, "models/%s", f->path));

    if (value && value->tag == TAG_RECORD && value->kind == &g->loader->trainer_kind)
        return false;
    if (is_data(g, 0))
        return false;
    return !own || own->bytes != f->bytes || memcmp(own->data, f->text, f->bytes) != 0;
}

/* Leaves the module's value on the stack. */
static void run_module(lua_State *L, Gen *g, const Found *f)
{
    const char *name = f->name;
    Tag *tag;
    int env;

    loader_add_file(g, f->file, f->text, f->bytes);
    env = record_push_env(g);
    if (sandbox_load(L, f->text, f->bytes, gen_printf(g, "@%s", f->file)) != LUA_OK)
        lua_error(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, env);
    if (!lua_setupvalue(L, -2, 1))
        lua_pop(L, 1);
    luaL_unref(L, LUA_REGISTRYINDEX, env);
    lua_call(L, 0, 1);
    if (lua_isnil(L, -1))
        luaL_error(L,
                   "require: the module '%s' returns nothing" HELP "end it with `return`",
                   name);
    tag = record_tag(g, -1);
    if (is_outside(g, f, tag))
        g->loader->outside = f->path;
    if (tag && tag->tag == TAG_ARCH && !tag->arch->module)
        tag->arch->module = name;
}

int require_module(lua_State *L)
{
    Gen *g = lua_touserdata(L, lua_upvalueindex(1));
    size_t n;
    const char *name;
    Paths paths;
    Found f;

    if (lua_type(L, 1) != LUA_TSTRING)
        return luaL_error(
            L,
            "require needs a module's name in quotes, but a %s is given" HELP
            "write require \"arch.llama\"",
            luaL_typename(L, 1));
    name = lua_tolstring(L, 1, &n);
    if (!require_is_name(name, n))
        return luaL_error(
            L,
            "require: '%s' is not a module's name" HELP
            "use lower-case letters, digits, _ and -, with single dots between folders",
            name);
    lua_settop(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, g->loader->modules_ref);
    lua_pushvalue(L, 1);
    if (lua_rawget(L, 2) == LUA_TLIGHTUSERDATA)
        return luaL_error(L,
                          "require: the module '%s' requires itself" HELP
                          "break the circle: move what both need into a third",
                          name);
    if (!lua_isnil(L, -1))
        return 1;
    lua_pop(L, 1);
    f.name = name = gen_strdup(g, name);
    paths = paths_of(g, name);
    if (!find(L, g, &paths, &f))
        not_found(L, g, name);
    lua_pushlightuserdata(L, g); /* marks it while it runs */
    lua_setfield(L, 2, name);
    run_module(L, g, &f);
    lua_pushvalue(L, -1);
    lua_setfield(L, 2, name);
    return 1;
}
