/* SPDX-License-Identifier: Apache-2.0 */
/* load_optimizers.c: optimizers as constructors of the description language.
 *
 * In: the op folders of fsdpgen and of --ops DIR whose op.lua has role = "optimizer" and
 * fields, all read in one way. Out: an Optimizer and a Kind for each, sorted by name; for
 * describe.lua their names. Descriptions run before ops.c checks the rules, so only what
 * makes a constructor is read here; gen/lua/optimizer.lua checks it. */
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
    bool outside;  /* of --ops */
    bool replaces; /* outside, and fsdpgen's own of that name is an optimizer with fields
                    */
    LexFile *file;
    int rule_ref; /* what it returns; 0: it has not run yet */
} Source;

typedef struct Reader {
    Gen *g;
    struct {
        Source *items;
        int count, cap;
    } sources;    /* sorted by name */
    int ops_ref;  /* a list of their names */
    int make_ref; /* gen/lua/optimizer.lua's function */
} Reader;

/* ---- places ------------------------------------------------------------------------ */

/* The table of `op { ... }`; NULL if it is written in some other way. */
static const LexTable *op_table(const LexFile *f)
{
    for (int i = 0; i < f->tables.count; i++)
        if (f->tables.items[i]->callee && !strcmp(f->tables.items[i]->callee, "op"))
            return f->tables.items[i];
    return NULL;
}

/* Follows the list at stack index `at`, names of fields and numbers of items, into lists
 * inside it too, as far as they are written in the file. */
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

/* ---- rules ------------------------------------------------------------------------- */

static int c_op(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    return 1;
}

/* Runs the file, once; false after a message. */
static bool run_rule(Reader *r, Source *s)
{
    Gen *g = r->g;
    lua_State *L = g->L;
    int env;

    if (s->rule_ref)
        return s->rule_ref != LUA_NOREF;
    s->rule_ref = LUA_NOREF;
    s->file = loader_add_file(g, s->path, s->text, s->bytes);
    env = sandbox_env(g);
    lua_rawgeti(L, LUA_REGISTRYINDEX, env);
    lua_pushcfunction(L, c_op);
    lua_setfield(L, -2, "op");
    lua_pop(L, 1);
    if (sandbox_run(g, s->text, s->bytes, gen_printf(g, "@%s", s->path), env, 1)) {
        g->loader->env_ref = env; /* names that its message may suggest */
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

/* May it be the rule of an optimizer with fields? Most need not run to know. */
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
        return; /* ops.c says so */
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
        e = embed_find(path); /* --share: from disk */
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
            continue; /* ops.c says why */
        s.name = gen_strdup(g, entry->d_name);
        add_source(r, s);
    }
    if (d)
        closedir(d);
    qsort(r->sources.items, (size_t)r->sources.count, sizeof *r->sources.items, by_name);
}

/* ---- what gen/lua/optimizer.lua asks ------------------------------------------------
 */

static int c_rule_of(lua_State *L)
{
    Reader *r = lua_touserdata(L, lua_upvalueindex(1));
    Source *s = find_source(r, luaL_checkstring(L, 1));

    if (s && !run_rule(r, s))
        return luaL_error(L, "op %s has mistakes", s->name); /* they are told */
    if (!s)
        return 0;
    lua_rawgeti(L, LUA_REGISTRYINDEX, s->rule_ref);
    return 1;
}

/* nearest(word, list): one of the list, or nil. */
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
    static const luaL_Reg asked[] = {
        {"rule_of", c_rule_of}, {"nearest", c_nearest}, {NULL, NULL}};
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

/* ---- what it answers ----------------------------------------------------------------
 */

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

/* The problem on top of the stack. */
static void report(Gen *g, const Source *s)
{
    const LexTable *t = op_table(s->file);
    Pos pos = t ? t->callee_pos : lex_word(s->file, 1, NULL);
    const char *message = text_at(g, "message"), *help = text_at(g, "help");

    lua_getfield(g->L, -1, "at");
    follow(g->L, -1, &t, &pos);
    lua_pop(g->L, 1);
    diag_add(g, DIAG_ERROR, pos, help, "op %s: %s", s->name, message);
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

/* From the answer on top of the stack. */
static Optimizer *read_optimizer(Gen *g, const Source *s)
{
    lua_State *L = g->L;
    Optimizer *o = gen_alloc(g, sizeof *o);

    *o = (Optimizer){.name = s->name, .file = s->file};
    o->uses[USE_SELF] = s->name;
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
                   .fields = fields_read(g, L, 1, "in")};
    lua_pushlightuserdata(L, kind);
    return 1;
}

/* The answer is on top of the stack. A row that fields.c does not take is a message, at
 * the word that it quotes. */
static void add_kind(Gen *g, const Source *s)
{
    lua_State *L = g->L;
    Kind kind;

    lua_pushlightuserdata(L, g);
    lua_pushcclosure(L, c_kind, 1);
    lua_getfield(L, -2, "rows");
    lua_pushstring(L, s->name);
    if (sandbox_status(L, lua_pcall(L, 2, 1, 0))) {
        char *text = gen_strdup(g, lua_tostring(L, -1)), *mark = strchr(text, *HELP);
        char *open = strchr(text, '\''), *end = open ? strchr(open + 1, '\'') : NULL;

        if (mark)
            *mark = '\0';
        diag_add(
            g, DIAG_ERROR,
            word_place(s->file, end ? gen_strndup(g, open + 1, (size_t)(end - open - 1))
                                    : "fields"),
            mark ? mark + 1 : NULL, "op %s: %s", s->name, text);
        lua_pop(L, 1);
        return;
    }
    kind = *(const Kind *)lua_touserdata(L, -1);
    lua_pop(L, 1);
    kind.optimizer = read_optimizer(g, s);
    *gen_push(g, &g->loader->kinds) = kind;
}

static void read_source(Reader *r, Source *s)
{
    Gen *g = r->g;
    lua_State *L = g->L;
    int errors = diag_errors(g), top = lua_gettop(L);

    if ((!may_be_one(s->text) && !s->replaces) || !run_rule(r, s))
        return;
    lua_rawgeti(L, LUA_REGISTRYINDEX, r->make_ref);
    lua_pushstring(L, s->name);
    lua_rawgeti(L, LUA_REGISTRYINDEX, s->rule_ref);
    if (!is_one(L)) {
        if (s->replaces)
            diag_add(
                g, DIAG_ERROR, lex_word(s->file, 1, NULL),
                "give it role = \"optimizer\" and fields, or the folder another name",
                "op %s: it has the name of an optimizer of descriptions, but no fields",
                s->name);
        lua_settop(L, top);
        return;
    }
    if (!is_identifier(s->name, strlen(s->name)))
        diag_add(g, DIAG_ERROR, lex_word(s->file, 1, NULL),
                 "use lower-case letters, digits and _, a letter first, no word of Lua",
                 "op %s: an optimizer with fields cannot have this name in descriptions",
                 s->name);
    push_env(r);
    if (sandbox_status(L, lua_pcall(L, 3, 2, 0))) {
        if (diag_errors(g) == errors)
            loader_lua_error(g, gen_printf(g, "op %s", s->name),
                             word_place(s->file, "fields"));
        lua_settop(L, top);
        return;
    }
    for (lua_Integer i = 1; lua_rawgeti(L, -1, i) == LUA_TTABLE; i++) {
        report(g, s);
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
    if (diag_errors(g) == errors)
        add_kind(g, s);
    lua_settop(L, top);
}

/* ---- all of them --------------------------------------------------------------------
 */

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

/* names, default, and of those that treat matrices as a whole: halves, and their names as
 * a text; into the table on top of the stack. */
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
                     "op %s: %s is the default already", o->name, first);
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

/* What others are, once all are known: gen/lua/optimizer.lua has seen that they are. */
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
    if (sandbox_run(g, (const char *)e->data, e->bytes, gen_printf(g, "@%s", path),
                    LUA_NOREF, 1))
        sandbox_fault(L, path);
    lua_getfield(L, -1, "make");
    r.make_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    for (int i = 0; i < r.sources.count && !sandbox_of(L)->expired; i++)
        read_source(&r, &r.sources.items[i]);
    find_others(g);
    luaL_unref(L, LUA_REGISTRYINDEX, r.make_ref);
    lua_newtable(L); /* the table of the same name without what is C's */
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
