/* SPDX-License-Identifier: Apache-2.0 */
/* load.c: runs a description. In: a Lua file, --path. Out: g->L and g->loader: the
 * trainer's raw record in the registry, with the place of every value (LexTable) for
 * check.c. The file runs in the sandbox and can only build a value. Every failure becomes
 * a message with file, line and column. */
#include "describe/load.h"
#include "base/sandbox.h"

#include <errno.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Loader *loader_of(Gen *g)
{
    gen_require(g->loader, "no description is loaded");
    return g->loader;
}

/* ---- files ----------------------------------------------------------------------- */

/* Lua shortens long names to "...tail". */
static bool same_file(const char *shown, size_t n, const char *file)
{
    size_t len = strlen(file);

    if (n > 3 && !strncmp(shown, "...", 3)) {
        shown += 3;
        n -= 3;
        return len > n && !strncmp(file + len - n, shown, n);
    }
    return len == n && !strncmp(file, shown, n);
}

LexFile *loader_file(Loader *ld, const char *file)
{
    for (int i = 0; i < ld->files.count; i++)
        if (!strcmp(ld->files.items[i]->file, file))
            return ld->files.items[i];
    return NULL;
}

LexFile *loader_add_file(Gen *g, const char *file, const char *text, size_t bytes)
{
    LexFile *f = loader_file(g->loader, file);

    if (f)
        return f;
    diag_source(g, file, text, bytes);
    f = lex_file(g, gen_strdup(g, file), text, bytes);
    *gen_push(g, &g->loader->files) = f;
    return f;
}

/* ---- Lua's messages -------------------------------------------------------------- */

/* Names that exist in other Luas but not here: what to write instead. else_help: for a
 * name that resembles none; or NULL. */
const char *loader_global_help(Gen *g, const char *name, const char *else_help)
{
    static const char *const absent[] = {
        "os",        "io",    "print",   "load",           "dofile",     "loadfile",
        "coroutine", "debug", "package", "collectgarbage", "loadstring", "warn"};
    Words known = {0};
    lua_State *L = g->L;
    const char *near = lua_word_of_others(name);

    if (near)
        return near;
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (!strcmp(name, absent[i]))
            return "a description only builds a value: it has no input or output, no "
                   "code from "
                   "text and no coroutines";
    lua_rawgeti(L, LUA_REGISTRYINDEX, g->loader->env_ref);
    sandbox_push_keys(L, -1);
    for (lua_Integer k = 1; lua_rawgeti(L, -1, k) != LUA_TNIL; k++, lua_pop(L, 1))
        if (lua_type(L, -1) == LUA_TSTRING)
            *gen_push(g, &known) = gen_strdup(g, lua_tostring(L, -1));
    lua_pop(L, 3);
    if (embed_find(gen_printf(g, "models/arch/%s.lua", name)))
        return gen_printf(g, "write local %s = require \"arch.%s\"", name, name);
    near = diag_nearest(name, known.items, known.count);
    if (near)
        return gen_printf(g, "did you mean `%s`?", near);
    if (else_help)
        return else_help;
    return gen_printf(
        g,
        "define it, `require` the file that does, or write \"%s\" if it is a "
        "text",
        name);
}

/* The quoted word after a mark: near 'x', global 'x'. */
static const char *quoted_after(Gen *g, const char *text, const char *mark)
{
    const char *p = strstr(text, mark), *end;

    if (!p)
        return NULL;
    p += strlen(mark);
    end = strchr(p, '\'');
    return end && end > p ? gen_strndup(g, p, (size_t)(end - p)) : NULL;
}

/* The word that a message is about: near 'x', field 'x', or the function that complains:
 * "trainer needs a table". */
static const char *subject(Gen *g, const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
    const char *word = quoted_after(g, text, "near '");
    bool known;

    if (word || !n)
        return word;
    if (!strncmp(text, "field '", 7))
        return quoted_after(g, text, "field '");
    lua_rawgeti(g->L, LUA_REGISTRYINDEX, g->loader->env_ref);
    lua_pushlstring(g->L, text, n);
    known = lua_rawget(g->L, -2) != LUA_TNIL;
    lua_pop(g->L, 2);
    return known ? gen_strndup(g, text, n) : NULL;
}

/* Lua's own messages say what is wrong; this adds what to do. */
static const char *help_for_lua(const char **text)
{
    static const struct {
        const char *part, *help;
    } known[] = {
        {" is nil, but is ", "nothing has that name: it is missing, or misspelt"},
        {"nil is ", "what it is made of is missing, or misspelt"},
        {"stack overflow", "look for a function that calls itself without end"},
        {"ran for more than", "look for a loop that does not end"},
        {"MiB of memory", "look for a loop that does not end"},
        {"not a text", "give error() a text"},
    };

    if (strstr(*text, "binary chunk")) {
        *text = "this is compiled Lua, not text";
        return "give the source file";
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(*text, known[i].part))
            return known[i].help;
    return NULL;
}

/* If this line, or the one before it, starts like no line of Lua, that is the mistake,
 * whatever Lua reported. */
static const char *help_for_line(Gen *g, Pos pos)
{
    const LexFile *f = pos.line ? loader_file(g->loader, pos.file) : NULL;
    const char *help = NULL;

    for (int line = pos.line - 1; f && !help && line <= pos.line; line++) {
        const char *p = f->text, *end = f->text + f->bytes;
        size_t n = 0;

        for (int i = 1; p < end && i < line; p++)
            i += *p == '\n';
        while (p < end && (*p == ' ' || *p == '\t'))
            p++;
        while (p + n < end && p[n] >= 'a' && p[n] <= 'z')
            n++;
        if (p < end && line > 0 && (n || *p == '#'))
            help = lua_line_of_others(gen_strndup(g, p, n ? n : 1));
    }
    return help;
}

/* Looks for `require arch.llama` above the place where Lua failed: Lua takes it for the
 * end of one statement and the start of another. */
static bool requires_without_quotes(const LexFile *f, Pos *pos)
{
    const char *end = f->text + f->bytes;
    bool comment = false;
    int line = 1;

    for (const char *p = f->text; p < end && line <= pos->line; p++) {
        const char *q = p + 7;

        line += *p == '\n';
        comment = *p != '\n' && (comment || (end - p > 2 && !memcmp(p, "--", 2)));
        if (comment || end - p < 9 || memcmp(p, "require ", 8) != 0)
            continue;
        while (q < end && *q == ' ')
            q++;
        if (q < end && ((*q >= 'a' && *q <= 'z') || (*q >= 'A' && *q <= 'Z'))) {
            *pos = lex_word(f, line, "require");
            return true;
        }
    }
    return false;
}

void loader_lua_error(Gen *g, const char *what, Pos other)
{
    char *mark;
    const char *text = gen_strdup(g, lua_tostring(g->L, -1)), *help = NULL, *word;
    const Sandbox *sandbox = sandbox_of(g->L);
    Pos pos = {0};
    const LexFile *at;

    lua_pop(g->L, 1);
    mark = strchr(text, *HELP);
    if (mark) {
        *mark = '\0';
        help = mark + 1;
    }
    for (int i = 0; i < g->loader->files.count && !pos.line; i++) {
        const LexFile *f = g->loader->files.items[i];
        const char *colon = text;
        char *end;
        long line;

        while ((colon = strchr(colon, ':')) &&
               !same_file(text, (size_t)(colon - text), f->file))
            colon++;
        if (!colon)
            continue;
        line = strtol(colon + 1, &end, 10);
        if (line < 1 || *end != ':')
            continue;
        text = end + 1 + (end[1] == ' ');
        word = quoted_after(g, text, "global '");
        if (word)
            help = loader_global_help(g, word, load_optimizers_help(g, f, (int)line));
        else
            word = subject(g, text);
        pos = lex_word(f, (int)line, word);
    }
    help = help ? help : help_for_line(g, pos);
    at = pos.line ? loader_file(g->loader, pos.file) : NULL;
    if (at && !help && strstr(text, " near ") && requires_without_quotes(at, &pos)) {
        help = "write require \"arch.llama\"";
        text = "require needs the module's name in quotes";
    }
    text = lua_plain(g, text, &help);
    help = help ? help : help_for_lua(&text);
    at = sandbox->where_line ? loader_file(g->loader, sandbox->where_source) : NULL;
    if (!pos.line)
        pos = at ? lex_word(at, sandbox->where_line, NULL) : other;
    diag_add(g, DIAG_ERROR, pos, help, "%s: %s", what, text);
}

/* ---- the description ------------------------------------------------------------- */

static int lua_strategy_of_mesh(lua_State *L)
{
    Strategy s = strategy_of_mesh(lua_tointeger(L, 1), lua_tointeger(L, 2));

    lua_pushstring(L, strategy_name(s));
    return 1;
}

/* Pushes the table of strategies for describe.lua: the defaults that each implies for
 * other fields. */
static void push_strategies(lua_State *L)
{
    lua_newtable(L);
    lua_newtable(L);
    for (int s = 0; s < N_STRATEGIES; s++) {
        const StrategyRule *rule = strategy_rule((Strategy)s);

        lua_pushstring(L, rule->name);
        lua_rawseti(L, -2, s + 1);
        lua_newtable(L);
        lua_pushboolean(L, rule->cut[HELD_BETWEEN] || !rule->cut[HELD_PARAMS]);
        lua_setfield(L, -2, "reshards");
        lua_pushboolean(L, rule->cut[HELD_GRADS] || !rule->cut[HELD_OPTIMIZER]);
        lua_setfield(L, -2, "accumulates_sharded");
        lua_setfield(L, -3, rule->name);
    }
    lua_setfield(L, -2, "names");
    lua_pushcfunction(L, lua_strategy_of_mesh);
    lua_setfield(L, -2, "of_mesh");
}

/* Pushes which axes have their degree inside the numerics hash. */
static void push_axes(lua_State *L)
{
    lua_newtable(L);
    for (int a = 0; a < N_AXES; a++) {
        lua_pushstring(L, axis_in_hash((AxisId)a) ? "in" : "out");
        lua_setfield(L, -2, axis_name((AxisId)a));
    }
}

/* Appends to the optimizers, which are there already. */
static void add_kinds(Gen *g, Kinds kinds)
{
    static const char *const reserved[] = {"trainer", "arch", "require"};
    Loader *ld = g->loader;

    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (kinds_find(&ld->kinds, reserved[i]))
            load_optimizers_clash(g, reserved[i]);
    for (int i = 0; i < kinds.count; i++) {
        if (kinds_find(&ld->kinds, kinds.items[i].name))
            load_optimizers_clash(g, kinds.items[i].name);
        *gen_push(g, &ld->kinds) = kinds.items[i];
    }
}

/* Strategies, axes, machines and optimizers, visible to describe.lua only. */
static void load_rules(Gen *g)
{
    static const char *const globals[] = {"strategies", "axes", "machines", "optimizers"};
    Loader *ld = g->loader;
    lua_State *L = g->L;
    const Embedded *e = embed_find("gen/lua/describe.lua");

    gen_require(e, "gen/lua/describe.lua is not in the binary");
    push_strategies(L);
    lua_setglobal(L, "strategies");
    push_axes(L);
    lua_setglobal(L, "axes");
    if (!machines_load(g))
        return;
    lua_setglobal(L, "machines");
    load_optimizers(g);
    if (diag_errors(g)) /* in rules of --ops */
        return;
    lua_setglobal(L, "optimizers");
    if (sandbox_run(g->L, (const char *)e->data, e->bytes, "@gen/lua/describe.lua",
                    LUA_NOREF, 1))
        sandbox_fault(L, "gen/lua/describe.lua");
    lua_getfield(L, -1, "constructors");
    add_kinds(g, kinds_read(g, L, -1));
    lua_getfield(L, -2, "trainer");
    ld->trainer = fields_read(g, L, -1, "in", false);
    ld->trainer_kind = (Kind){.name = "trainer", .fields = ld->trainer};
    lua_pop(L, 3);
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
        lua_pushnil(L);
        lua_setglobal(L, globals[i]);
    }
}

Loader *loader_open(Gen *g)
{
    Loader *ld = gen_alloc(g, sizeof *ld);

    g->loader = ld;
    g->L = sandbox_open(g);
    lua_newtable(g->L);
    ld->tags_ref = luaL_ref(g->L, LUA_REGISTRYINDEX);
    lua_newtable(g->L);
    ld->modules_ref = luaL_ref(g->L, LUA_REGISTRYINDEX);
    load_rules(g);
    return ld;
}

const char *loader_default_kind(Gen *g, const char *field)
{
    lua_State *L = g->L;
    const Field *f = fields_find(loader_of(g)->trainer, field);
    const char *name;

    gen_require(f && f->default_ref != LUA_NOREF, "%s has no default", field);
    lua_rawgeti(L, LUA_REGISTRYINDEX, f->default_ref);
    name = gen_strdup(g, lua_tostring(L, -1));
    lua_pop(L, 1);
    return name;
}

static const char *folder_of(Gen *g, const char *file)
{
    const char *slash = strrchr(file, '/');

    if (!slash)
        return "";
    return slash == file ? "/" : gen_strndup(g, file, (size_t)(slash - file));
}

Pos loader_place_of_return(Gen *g, const char *file)
{
    const LexFile *f = loader_file(g->loader, file);
    int line = 1, found = INT32_MAX;

    for (size_t i = 0; i + 6 <= f->bytes; i++) {
        if ((i == 0 || f->text[i - 1] == '\n') && !memcmp(f->text + i, "return", 6))
            found = line;
        line += f->text[i] == '\n';
    }
    return lex_word(f, found, NULL);
}

/* What a description must return, for one that returned something else. */
static void wrong_result(Gen *g, const char *file)
{
    Tag *tag = record_tag(g, -1);
    Pos pos = loader_place_of_return(g, file);
    const char *help = "end it with: return trainer { name = ..., model = ..., ... }";

    if (lua_isnil(g->L, -1)) {
        diag_add(g, DIAG_ERROR, pos, help, "description: it returns nothing");
    } else if (tag && tag->tag == TAG_ARCH) {
        diag_add(g, DIAG_ERROR, tag->pos,
                 gen_printf(g,
                            "this is a module; use it from a description: "
                            "local %s = require \"arch.%s\"",
                            tag->name, tag->name),
                 "description: it returns the architecture %s, not a trainer", tag->name);
    } else if (tag) {
        if (tag->pos.line)
            pos = tag->pos;
        diag_add(g, DIAG_ERROR, pos, help, "description: it returns %s, not a trainer",
                 check_show(g, -1));
    } else {
        diag_add(g, DIAG_ERROR, pos, help, "description: it returns a %s, not a trainer",
                 luaL_typename(g->L, -1));
    }
}

/* If a table has a name twice, Lua silently takes the last value. */
void loader_check_twice(Gen *g, const LexFile *f)
{
    for (int t = 0; t < f->tables.count; t++) {
        const LexTable *table = f->tables.items[t];

        for (int i = 0; i < table->fields.count; i++) {
            const LexField *at = &table->fields.items[i];
            bool named = at->key && is_identifier(at->key, strlen(at->key));
            const LexField *last = named ? lex_field(table, at->key) : at;

            if (last != at)
                diag_add(g, DIAG_ERROR, last->key_pos, "leave one of them out",
                         "%s: given twice in one table, first on line %d", at->key,
                         at->key_pos.line);
        }
    }
}

static void run_text(Gen *g, const char *file, const char *text, size_t bytes)
{
    Loader *ld = g->loader;
    Tag *tag;

    loader_check_twice(g, loader_add_file(g, file, text, bytes));
    if (sandbox_run(g->L, text, bytes, gen_printf(g, "@%s", file), ld->env_ref, 1)) {
        loader_lua_error(g, "description", lex_word(loader_file(ld, file), 1, NULL));
        return;
    }
    tag = record_tag(g, -1);
    if (!tag || tag->kind != &ld->trainer_kind || tag->tag != TAG_RECORD) {
        wrong_result(g, file);
        lua_pop(g->L, 1);
        return;
    }
    ld->trainer_pos = tag->pos;
    if (!ld->trainer_pos.file)
        ld->trainer_pos.file = file;
    ld->raw_ref = luaL_ref(g->L, LUA_REGISTRYINDEX);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* What a user who names a file that is not a description may have meant. */
static const char *help_for_file(Gen *g, const char *file)
{
    const char *lua = gen_printf(g, "%s.lua", file);
    const char *made = gen_printf(g, "%s/description.lua", file);

    if (exists(lua))
        return gen_printf(g, "did you mean %s?", lua);
    if (exists(gen_printf(g, "models/%s", file)))
        return gen_printf(g, "did you mean models/%s?", file);
    if (embed_find(gen_printf(g, "models/%s", file)))
        return gen_printf(
            g,
            "fsdpgen's own %s is in models/ of its source tree, and, where it is "
            "installed, in PREFIX/share/fsdpgen/models/",
            file);
    if (exists(gen_printf(g, "%s/config.json", file)))
        return gen_printf(
            g, "it is a model of Hugging Face's: fsdpgen import %s > model.lua", file);
    if (exists(made))
        return gen_printf(g, "it is a generated trainer, whose description is %s", made);
    return "name a description: fsdpgen plan model.lua";
}

static void run_file(Gen *g, const char *file)
{
    const char *text;
    size_t bytes;
    int e = read_whole_file(file, &text, &bytes);

    if (e) {
        diag_add(g, DIAG_ERROR, (Pos){.file = file}, help_for_file(g, file),
                 "cannot read the description: %s",
                 e == EFBIG ? "larger than 8 MiB" : file_problem(e));
        return;
    }
    if (bytes >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) { /* editors' byte order mark */
        text += 3;
        bytes -= 3;
    }
    run_text(g, file, text, bytes);
}

/* folder: where its modules are looked for first; NULL: only fsdpgen's own. */
static bool open_description(Gen *g, const char *folder)
{
    Loader *ld = loader_open(g);

    if (diag_errors(g))
        return false;
    ld->folder = folder;
    ld->env_ref = record_push_env(g);
    ld->raw_ref = ld->read_ref = LUA_NOREF;
    g->model.file = g->opt.input;
    return true;
}

void load_description(Gen *g)
{
    if (open_description(g, folder_of(g, g->opt.input)))
        run_file(g, g->opt.input);
}

void load_own_text(Gen *g, const char *text)
{
    if (open_description(g, NULL))
        run_text(g, g->opt.input, text, strlen(text));
}
