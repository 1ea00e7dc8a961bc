/* SPDX-License-Identifier: Apache-2.0 */
/* load_optimizers.c: optimizers as constructors of the description language.
 *
 * In: the op folders of fsdpgen and of --ops DIR whose op.lua has role = "optimizer" and
 * fields. Out: an Optimizer and a Kind for each, sorted by name; their names for
 * describe.lua. Descriptions run before ops.c checks the rules, so only the parts of a
 * constructor are read here: gen/lua/optimizer.lua checks them, and optimizer_rule.c
 * takes its result. */
#include "describe/load.h"
#include "base/sandbox.h"

#include <dirent.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

static const char ops_prefix[] = "templates/ops/";

/* A folder's op.lua. */
typedef struct Source {
    const char *name, *path, *text;
    size_t bytes;
    bool outside;  /* from --ops */
    bool replaces; /* it is outside and has the name of a built-in optimizer with
                    * fields */
    LexFile *file;
    int rule_ref; /* what the file returned; 0: not run yet */
    bool failed;  /* its problems have been reported */
} Source;

typedef struct Reader {
    Gen *g;
    struct {
        Source *items;
        int count, cap;
    } sources;    /* sorted by name */
    bool stopped; /* by mistakes in an op that others use */
    int ops_ref;  /* list of all names */
    int make_ref; /* gen/lua/optimizer.lua's function */
} Reader;

/* ---- rules ----------------------------------------------------------------------- */

/* Runs the file, once; false after a message. */
static bool run_rule(Reader *r, Source *s)
{
    Gen *g = r->g;
    lua_State *L = g->L;
    int env;

    if (s->rule_ref)
        return s->rule_ref != LUA_NOREF && s->rule_ref != LUA_REFNIL;
    s->rule_ref = LUA_NOREF;
    s->file = loader_add_file(g, s->path, s->text, s->bytes);
    env = sandbox_env(g->L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, env);
    rule_word_push(L);
    lua_setfield(L, -2, "op");
    lua_pop(L, 1);
    if (sandbox_run(g->L, s->text, s->bytes, gen_printf(g, "@%s", s->path), env, 1)) {
        g->loader->env_ref = env; /* names that a message may suggest */
        loader_lua_error(g, gen_printf(g, "op %s", s->name), lex_word(s->file, 1, NULL));
        return false;
    }
    s->rule_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    luaL_unref(L, LUA_REGISTRYINDEX, env);
    return s->rule_ref != LUA_REFNIL;
}

static Source *find_source(Reader *r, const char *name)
{
    for (int i = 0; i < r->sources.count; i++)
        if (!strcmp(r->sources.items[i].name, name))
            return &r->sources.items[i];
    return NULL;
}

/* May it be the rule of an optimizer with fields? Most files need not run to know. */
static bool may_be_one(const char *text)
{
    return strstr(text, "optimizer") && strstr(text, "fields");
}

/* Has the rule on top of the stack role = "optimizer" and fields? */
static bool is_one(lua_State *L)
{
    bool is = lua_istable(L, -1);

    if (!is)
        return false;
    lua_pushstring(L, "role");
    is = lua_rawget(L, -2) == LUA_TSTRING && !strcmp(lua_tostring(L, -1), "optimizer");
    lua_pushstring(L, "fields");
    is = lua_rawget(L, -3) != LUA_TNIL && is;
    lua_pop(L, 2);
    return is;
}

static void add_source(Reader *r, Source s)
{
    Source *old;

    if (memchr(s.text, '\0', s.bytes))
        return; /* ops.c reports it */
    old = find_source(r, s.name);
    s.replaces = old && s.outside && may_be_one(old->text);
    if (!old)
        old = gen_push(r->g, &r->sources);
    *old = s;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const Source *)a)->name, ((const Source *)b)->name);
}

static void find_sources(Reader *r)
{
    Gen *g = r->g;
    size_t prefix = sizeof ops_prefix - 1;
    DIR *d = g->opt.ops_dir ? opendir(g->opt.ops_dir) : NULL;
    struct dirent *entry;

    for (int i = 0; i < embedded_count; i++) {
        const char *path = embedded_files[i].path;
        const char *slash =
            !strncmp(path, ops_prefix, prefix) ? strchr(path + prefix, '/') : NULL;
        const Embedded *e;

        if (!slash || strcmp(slash, "/op.lua") != 0)
            continue;
        e = embed_find(path); /* with --share: from disk */
        gen_require(e, "%s is gone", path);
        add_source(r, (Source){.name = gen_strndup(g, path + prefix,
                                                   (size_t)(slash - path) - prefix),
                               .path = path,
                               .text = gen_strndup(g, (const char *)e->data, e->bytes),
                               .bytes = e->bytes});
    }
    while (d && (entry = readdir(d))) {
        Source s = {.outside = !g->opt.ops_shared};

        s.path = gen_printf(g, "%s/%s/op.lua", g->opt.ops_dir, entry->d_name);
        if (*entry->d_name == '.' || read_whole_file(s.path, &s.text, &s.bytes))
            continue; /* ops.c reports why */
        s.name = gen_strdup(g, entry->d_name);
        add_source(r, s);
    }
    if (d)
        closedir(d);
    qsort(r->sources.items, (size_t)r->sources.count, sizeof *r->sources.items, by_name);
}

/* ---- functions for gen/lua/optimizer.lua ----------------------------------------- */

static int c_rule_of(lua_State *L)
{
    Reader *r = lua_touserdata(L, lua_upvalueindex(1));
    Source *s = find_source(r, luaL_checkstring(L, 1));

    r->stopped = s && (s->failed || !run_rule(r, s));
    if (r->stopped)
        return luaL_error(L, "op %s has mistakes", s->name); /* reported already */
    if (!s)
        return 0;
    lua_rawgeti(L, LUA_REGISTRYINDEX, s->rule_ref);
    return 1;
}

static int c_identifier(lua_State *L)
{
    size_t n;
    const char *name = luaL_checklstring(L, 1, &n);

    lua_pushboolean(L, n <= 64 && is_identifier(name, n));
    return 1;
}

/* nearest(word, list): an item of the list, or nil. */
static int c_nearest(lua_State *L)
{
    Reader *r = lua_touserdata(L, lua_upvalueindex(1));
    const char *word = luaL_checkstring(L, 1);
    Words list = {0};

    luaL_checktype(L, 2, LUA_TTABLE);
    for (lua_Integer i = 1; lua_rawgeti(L, 2, i) != LUA_TNIL; i++, lua_pop(L, 1))
        if (lua_type(L, -1) == LUA_TSTRING)
            *gen_push(r->g, &list) = gen_strdup(r->g, lua_tostring(L, -1));
    lua_pushstring(L, diag_nearest(word, list.items, list.count));
    return 1;
}

static void push_env(Reader *r)
{
    static const luaL_Reg asked[] = {{"rule_of", c_rule_of},
                                     {"nearest", c_nearest},
                                     {"identifier", c_identifier},
                                     {NULL, NULL}};
    static const char *const uses[N_USES] = {"self", "matrix", "momentum", "others"};
    lua_State *L = r->g->L;

    lua_newtable(L);
    lua_pushlightuserdata(L, r);
    luaL_setfuncs(L, asked, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, r->ops_ref);
    lua_setfield(L, -2, "names");
    lua_newtable(L);
    for (int i = 0; i < N_USES; i++) {
        lua_pushinteger(L, i);
        lua_setfield(L, -2, uses[i]);
    }
    lua_setfield(L, -2, "use_of");
}

/* ---- constructors ---------------------------------------------------------------- */

/* The rule and its name are on top of the stack, above gen/lua/optimizer.lua's
 * function. */
static void make_kind(Reader *r, Source *s)
{
    Gen *g = r->g;
    lua_State *L = g->L;
    int errors = diag_errors(g);

    push_env(r);
    if (sandbox_status(L, lua_pcall(L, 3, 2, 0))) {
        if (r->stopped)
            lua_pop(L, 1);
        else
            loader_lua_error(g, gen_printf(g, "op %s", s->name),
                             optimizer_word(s->file, "fields"));
        r->stopped = false;
        return;
    }
    for (lua_Integer i = 1; lua_rawgeti(L, -1, i) == LUA_TTABLE; i++) {
        optimizer_report(g, s->name, s->file);
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
    if (diag_errors(g) == errors)
        optimizer_add_kind(g, s->name, s->file);
}

static void read_source(Reader *r, Source *s)
{
    Gen *g = r->g;
    lua_State *L = g->L;
    int errors = diag_errors(g), top = lua_gettop(L);
    bool one;

    if ((!may_be_one(s->text) && !s->replaces) || !run_rule(r, s))
        return;
    lua_rawgeti(L, LUA_REGISTRYINDEX, r->make_ref);
    lua_pushstring(L, s->name);
    lua_rawgeti(L, LUA_REGISTRYINDEX, s->rule_ref);
    one = is_one(L);
    if (one && !is_identifier(s->name, strlen(s->name)))
        diag_add(g, DIAG_ERROR, lex_word(s->file, 1, NULL),
                 "use lower-case letters, digits and _, a letter first, no word of Lua",
                 "op %s: an optimizer with fields cannot have this name in descriptions",
                 s->name);
    else if (one)
        make_kind(r, s);
    else if (s->replaces)
        diag_add(g, DIAG_ERROR, lex_word(s->file, 1, NULL),
                 "give it role = \"optimizer\" and fields, or the folder another name",
                 "op %s: it has the name of an optimizer of descriptions, but no fields",
                 s->name);
    s->failed = diag_errors(g) > errors;
    lua_settop(L, top);
}

/* ---- all of them ----------------------------------------------------------------- */

static void push_words(lua_State *L, const Words *w)
{
    lua_newtable(L);
    for (int i = 0; i < w->count; i++) {
        lua_pushstring(L, w->items[i]);
        lua_rawseti(L, -2, i + 1);
    }
}

static void add_word(Gen *g, Words *w, const char *word)
{
    if (!words_have(w, word))
        *gen_push(g, w) = word;
}

/* Sets in the table on top of the stack: names, the default, and for optimizers that
 * treat matrices as a whole: halves, and their names as text. */
static void set_names(Gen *g)
{
    lua_State *L = g->L;
    Words names = {0}, halves = {0}, of_matrices = {0};
    const char *first = NULL;

    for (int i = 0; i < g->loader->kinds.count; i++) {
        const Optimizer *o = g->loader->kinds.items[i].optimizer;

        add_word(g, &names, o->name);
        if (o->others) {
            add_word(g, &of_matrices, o->name);
            add_word(g, &halves, o->name);
            add_word(g, &halves, o->others->name);
        }
        if (o->is_default && first)
            diag_add(g, DIAG_ERROR, optimizer_place(o, "default"), "leave default out",
                     "op %s: %s is the default optimizer already", o->name, first);
        first = o->is_default && !first ? o->name : first;
    }
    push_words(L, &names);
    lua_setfield(L, -2, "names");
    push_words(L, &halves);
    lua_setfield(L, -2, "halves");
    lua_pushstring(L, words_all(g, &of_matrices));
    lua_setfield(L, -2, "of_matrices");
    lua_pushstring(L, first);
    lua_setfield(L, -2, "default");
}

/* Links `others`, once all are known; gen/lua/optimizer.lua has checked that they
 * exist. */
static void find_others(Gen *g)
{
    const Kinds *kinds = &g->loader->kinds;

    for (int i = 0; i < kinds->count; i++) {
        Optimizer *o = (Optimizer *)kinds->items[i].optimizer;
        const Kind *others =
            o->uses[USE_OTHERS] ? kinds_find(kinds, o->uses[USE_OTHERS]) : NULL;

        o->others = others ? others->optimizer : NULL;
    }
}

void load_optimizers(Gen *g)
{
    Reader r = {.g = g};
    lua_State *L = g->L;
    const char *path = "gen/lua/optimizer.lua";
    const Embedded *e = embed_find(path);

    gen_require(e, "%s is not in the binary", path);
    find_sources(&r);
    lua_newtable(L);
    for (int i = 0; i < r.sources.count; i++) {
        lua_pushstring(L, r.sources.items[i].name);
        lua_rawseti(L, -2, i + 1);
    }
    r.ops_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    if (sandbox_run(g->L, (const char *)e->data, e->bytes, gen_printf(g, "@%s", path),
                    LUA_NOREF, 1))
        sandbox_fault(L, path);
    lua_getfield(L, -1, "make");
    r.make_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    g->loader->env_ref = sandbox_env(g->L);
    for (int i = 0; i < r.sources.count && !sandbox_of(L)->expired; i++)
        read_source(&r, &r.sources.items[i]);
    if (diag_errors(g))
        return;
    find_others(g);
    luaL_unref(L, LUA_REGISTRYINDEX, r.make_ref);
    lua_newtable(L); /* the table of that name without the members for C */
    lua_getfield(L, -2, "dtypes");
    lua_setfield(L, -2, "dtypes");
    lua_remove(L, -2);
    set_names(g);
}

void load_optimizers_clash(Gen *g, const char *name)
{
    const Optimizer *o = kinds_find(&g->loader->kinds, name)->optimizer;

    diag_add(g, DIAG_ERROR, optimizer_place(o, "fields"), "give the folder another name",
             "op %s: descriptions have another %s already", name, name);
}

const char *load_optimizers_help(Gen *g, const LexFile *f, int line)
{
    const Fields *trainer = g->loader->trainer; /* NULL: the message is about a rule */
    const char *at = f->text;

    if (!trainer)
        return NULL;
    for (int i = 1; at && i < line; i++)
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    at = at ? at + strspn(at, " \t") : "";
    if (strncmp(at, "optimizer", 9) != 0 || at[9 + strspn(at + 9, " ")] != '=')
        return NULL;
    return gen_printf(g, "optimizers are %s; `--ops DIR` adds others",
                      words_all(g, &fields_find(trainer, "optimizer")->kinds));
}
