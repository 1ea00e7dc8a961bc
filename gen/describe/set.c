/* SPDX-License-Identifier: Apache-2.0 */
/* set.c: overrides from the command line. In: `--set a.b=VALUE`, `--target NAME`, and the
 * raw record. Out: the changed record, copied along the path so that a table used twice
 * changes once; and the places "<--set>:N:col" of the new values (N: the Nth --set). */
#include "describe/load.h"
#include "base/sandbox.h"

#include <ctype.h>
#include <lauxlib.h>
#include <string.h>

static const char set_file[] = "<--set>", target_file[] = "<--target>";

typedef struct Override {
    const char *path, *value; /* texts */
    Pos key_pos, pos;
} Override;

static bool path_is_legal(const char *s)
{
    if (!*s)
        return false;
    for (const char *p = s; *p; p++) {
        bool start = p == s || p[-1] == '.';

        if (!(islower((unsigned char)*p) || *p == '_' ||
              (!start && isdigit((unsigned char)*p)) || (!start && *p == '.' && p[1])))
            return false;
    }
    return true;
}

/* An unknown word means itself: --set strategy=no_shard. */
static bool is_bare_word(Gen *g, const char *s)
{
    static const char *const constants[] = {"true", "false", "nil"};
    size_t head = 0, n = strlen(s);
    bool known;

    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("_.-", s[i]))
            return false;
    while (isalnum((unsigned char)s[head]) || s[head] == '_')
        head++;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (strlen(constants[i]) == head && !strncmp(s, constants[i], head))
            return false;
    lua_rawgeti(g->L, LUA_REGISTRYINDEX, g->loader->env_ref);
    lua_pushlstring(g->L, s, head);
    known = lua_rawget(g->L, -2) != LUA_TNIL;
    lua_pop(g->L, 2);
    return !known;
}

/* The first comma outside brackets and quotes; or NULL. */
static const char *outer_comma(const char *s)
{
    char quote = '\0';
    int depth = 0;

    for (; *s; s++) {
        if (quote) {
            if (*s == '\\' && s[1])
                s++;
            else if (*s == quote)
                quote = '\0';
            continue;
        } else if (*s == '"' || *s == '\'') {
            quote = *s;
        } else if (*s == ',' && depth == 0) {
            return s;
        }
        depth += strchr("{([", *s) ? 1 : strchr("})]", *s) ? -1 : 0;
    }
    return NULL;
}

/* A function may have commas outside brackets. */
static bool is_one_expression(Gen *g, const char *value)
{
    const char *chunk = gen_printf(g, "return (%s\n)", value);
    const bool one = luaL_loadbufferx(g->L, chunk, strlen(chunk), "=", "t") == LUA_OK;

    lua_pop(g->L, 1);
    return one;
}

/* Leaves the value on the stack; false after a message. */
static bool evaluate(Gen *g, const Override *o)
{
    Text chunk = {.g = g};
    const char *comma = outer_comma(o->value);

    /* A size stands for itself, too: --set target.memory=8GiB. Of 8G, the check of the
     * field refuses the unit. */
    if (is_bare_word(g, o->value) || size_is_written(o->value)) {
        lua_pushstring(g->L, o->value);
        return true;
    }
    if (comma && !is_one_expression(g, o->value)) {
        diag_add(g, DIAG_ERROR, o->pos,
                 strchr(comma, '=')
                     ? gen_printf(g, "write --set %s=%.*s --set %s", o->path,
                                  (int)(comma - o->value), o->value, comma + 1)
                     : "a list stands in braces: { 0.9, 0.95 }",
                 "%s: one --set takes one value", o->path);
        return false;
    }
    for (int i = 1; i < o->pos.line; i++) /* so that Lua's messages have the right line */
        text_add(&chunk, "\n", 1);
    text_printf(&chunk, "return %s", o->value);
    if (sandbox_run(g->L, chunk.s, chunk.len, gen_printf(g, "=%s", set_file),
                    g->loader->env_ref, 1) == LUA_OK)
        return true;
    loader_lua_error(g, o->path, o->pos);
    return false;
}

/* Pushes the table to start from, if the description omits the table whose field is
 * set. */
static void push_missing(Gen *g, const char *path, Pos pos)
{
    const Field *f = fields_find(g->loader->trainer, path);
    const Kind *kind = NULL;

    lua_newtable(g->L);
    if (f && f->type == FIELD_RECORD && f->default_ref != LUA_NOREF) {
        lua_rawgeti(g->L, LUA_REGISTRYINDEX, f->default_ref);
        kind = kinds_find(&g->loader->kinds, lua_tostring(g->L, -1));
        lua_pop(g->L, 1);
    }
    if (kind) {
        Tag *tag = gen_alloc(g, sizeof *tag);

        *tag = (Tag){.tag = TAG_RECORD, .kind = kind, .name = kind->name, .pos = pos};
        record_set_tag(g, -1, tag);
    }
}

/* Replaces the table on top by a copy with the same tag. */
static void copy_table(Gen *g)
{
    lua_State *L = g->L;
    Tag *tag = record_tag(g, -1);

    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, -3);) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -4);
    }
    if (tag)
        record_set_tag(g, -1, tag);
    lua_remove(L, -2);
}

/* Replaces a number on top by the table or record that it stands for, if it does. */
static bool expand_number(Gen *g, const char *path, Pos pos)
{
    lua_State *L = g->L;
    const Field *f = fields_find(g->loader->trainer, path);
    const Kind *kind;
    Tag *tag;

    if (!f || lua_type(L, -1) != LUA_TNUMBER ||
        !(f->number_makes || f->number_sets.count))
        return false;
    lua_newtable(L);
    for (int i = 0; i < f->number_sets.count; i++) {
        lua_pushvalue(L, -2);
        lua_setfield(L, -2, f->number_sets.items[i]);
    }
    if (f->number_makes) {
        kind = kinds_find(&g->loader->kinds, f->number_makes);
        gen_require(kind && kind->positional, "number_makes of %s", path);
        lua_pushvalue(L, -2);
        lua_setfield(L, -2, kind->positional);
        tag = gen_alloc(g, sizeof *tag);
        *tag = (Tag){.tag = TAG_RECORD, .kind = kind, .name = kind->name, .pos = pos};
        record_set_tag(g, -1, tag);
    }
    lua_remove(L, -2);
    return true;
}

/* The value is on top; pops it. */
static bool store(Gen *g, const Override *o)
{
    lua_State *L = g->L;
    int value = lua_gettop(L);
    const char *p = o->path;

    lua_rawgeti(L, LUA_REGISTRYINDEX, g->loader->raw_ref);
    for (;;) {
        size_t n = strcspn(p, ".");
        const char *prefix = gen_strndup(g, o->path, (size_t)(p - o->path) + n);
        int type;

        lua_pushlstring(L, p, n);
        if (!p[n])
            break;
        lua_pushvalue(L, -1);
        type = lua_rawget(L, -3);
        if (type == LUA_TNIL) {
            lua_pop(L, 1);
            push_missing(g, prefix, o->pos);
        } else if (type == LUA_TTABLE) {
            copy_table(g);
        } else if (!expand_number(g, prefix, o->pos)) {
            diag_add(g, DIAG_ERROR, o->key_pos,
                     gen_printf(g, "set the whole of it: --set '%s={ ... }'", prefix),
                     "%s: %s is %s, which has no fields", o->path, prefix,
                     check_show(g, -1));
            lua_settop(L, value - 1);
            return false;
        }
        lua_pushvalue(L, -2); /* name */
        lua_pushvalue(L, -2); /* table */
        lua_rawset(L, -5);
        lua_replace(L, -3);
        lua_pop(L, 1);
        p += n + 1;
    }
    lua_pushvalue(L, value);
    lua_rawset(L, -3);
    lua_settop(L, value - 1);
    return true;
}

static void remember(Gen *g, const Override *o, const LexTable *lex)
{
    Loader *ld = g->loader;
    size_t n = strlen(o->path);

    for (int i = 0; i < ld->sets.count;
         i++) { /* the places of what it replaces become invalid */
        Set *s = &ld->sets.items[i];

        if (!strcmp(s->path, o->path) ||
            (!strncmp(s->path, o->path, n) && s->path[n] == '.'))
            s->path = "";
    }
    *gen_push(g, &ld->sets) =
        (Set){.path = o->path, .pos = o->pos, .key_pos = o->key_pos, .lex = lex};
}

static void apply_set(Gen *g, const char *text, int line, const LexFile *f)
{
    const char *equals = strchr(text, '=');
    const LexTable *lex = NULL;
    Override o = {.key_pos = {set_file, line, 1, (int)strlen(text)}};

    if (!equals) {
        diag_add(g, DIAG_ERROR, o.key_pos, "write --set field=VALUE",
                 "--set: there is no `=`");
        return;
    }
    o.path = gen_strndup(g, text, (size_t)(equals - text));
    o.value = equals + 1 + strspn(equals + 1, " \t");
    o.key_pos.len = equals > text ? (int)(equals - text) : 1;
    o.pos = (Pos){set_file, line, (int)(o.value - text) + 1, (int)strlen(o.value)};
    if (!path_is_legal(o.path)) {
        diag_add(g, DIAG_ERROR, o.key_pos,
                 "a path is names of fields with dots between: optimizer.lr",
                 "--set: \"%s\" is not the path of a field", o.path);
        return;
    }
    if (!*o.value) {
        diag_add(g, DIAG_ERROR, o.key_pos,
                 gen_printf(g,
                            "write --set %s=VALUE; nil restores the "
                            "default",
                            o.path),
                 "%s: no value is given", o.path);
        return;
    }
    for (int i = 0; *o.value == '{' && i < f->tables.count && !lex; i++)
        if (f->tables.items[i]->line == line)
            lex = f->tables.items[i];
    if (evaluate(g, &o) && store(g, &o))
        remember(g, &o, lex);
}

/* The GPU that the last --set asks for; or NULL. */
static const char *set_gpu(Gen *g)
{
    static const char gpu[] = "target.gpu=";

    for (int i = g->opt.sets.count - 1; i >= 0; i--) {
        const char *value = g->opt.sets.items[i] + sizeof gpu - 1;

        if (strncmp(g->opt.sets.items[i], gpu, sizeof gpu - 1) != 0)
            continue;
        value += *value == '"';
        return gen_strndup(g, value, strcspn(value, "\""));
    }
    return NULL;
}

/* Is the table on top, of a target, for that GPU? */
static bool is_for_gpu(Gen *g, const Kind *kind, const char *gpu)
{
    const Field *f = fields_find(kind->fields, "gpu");
    bool same;

    lua_pushliteral(g->L, "gpu");
    if (lua_rawget(g->L, -2) == LUA_TNIL && f && f->default_ref != LUA_NOREF) {
        lua_pop(g->L, 1);
        lua_rawgeti(g->L, LUA_REGISTRYINDEX, f->default_ref);
    }
    same = lua_type(g->L, -1) == LUA_TSTRING && !strcmp(lua_tostring(g->L, -1), gpu);
    lua_pop(g->L, 1);
    return same;
}

/* Leaves the description's own target if it is of that kind. What it says of its GPU's
 * machines is dropped for another GPU. */
static bool keep_target(Gen *g, const char *name)
{
    const int top = lua_gettop(g->L);
    const char *gpu = set_gpu(g);
    const Override o = {.path = "target"};
    const Tag *tag;

    lua_rawgeti(g->L, LUA_REGISTRYINDEX, g->loader->raw_ref);
    lua_pushliteral(g->L, "target");
    tag = lua_rawget(g->L, -2) == LUA_TTABLE ? record_tag(g, -1) : NULL;
    if (!tag || tag->tag != TAG_RECORD || strcmp(tag->kind->name, name) != 0) {
        lua_settop(g->L, top);
        return false;
    }
    if (gpu && !is_for_gpu(g, tag->kind, gpu)) {
        copy_table(g);
        for (int i = 0; i < tag->kind->fields->count; i++) {
            const Field *f = &tag->kind->fields->items[i];

            if (!f->of_gpu)
                continue;
            lua_pushstring(g->L, f->name);
            lua_pushnil(g->L);
            lua_rawset(g->L, -3);
        }
        store(g, &o); /* pops it */
    }
    lua_settop(g->L, top);
    return true;
}

static void apply_target(Gen *g, const char *name)
{
    const Field *f = fields_find(g->loader->trainer, "target");
    Override o = {.path = "target", .value = name};
    const Kind *kind;
    Tag *tag;

    o.pos = o.key_pos = (Pos){target_file, 1, 1, (int)strlen(name)};
    diag_source(g, target_file, name, strlen(name));
    if (!words_have(&f->kinds, name)) {
        diag_add(g, DIAG_ERROR, o.pos,
                 gen_printf(g,
                            "use %s; a GPU is a field of cuda: --target cuda --set "
                            "target.gpu=h100",
                            words_join(g, &f->kinds, "")),
                 "target: there is no target \"%s\"", name);
        return;
    }
    kind = kinds_find(&g->loader->kinds, name);
    tag = gen_alloc(g, sizeof *tag);
    *tag = (Tag){.tag = TAG_RECORD, .kind = kind, .name = name, .pos = o.pos};
    lua_newtable(g->L);
    record_set_tag(g, -1, tag);
    if (store(g, &o))
        remember(g, &o, NULL);
}

void set_again(Gen *g)
{
    Loader *ld = g->loader;
    int kept = 0;

    for (int i = 0; i < ld->files.count; i++)
        if (strcmp(ld->files.items[i]->file, set_file) != 0)
            ld->files.items[kept++] = ld->files.items[i];
    ld->files.count = kept;
}

void set_apply(Gen *g)
{
    Text all = {.g = g};
    LexFile *f;

    if (g->opt.target && !(g->opt.keeps_target && keep_target(g, g->opt.target)))
        apply_target(g, g->opt.target);
    if (!g->opt.sets.count)
        return;
    for (int i = 0; i < g->opt.sets.count; i++) {
        char *s = gen_strdup(g, g->opt.sets.items[i]);

        for (char *p = s; *p; p++)
            if (*p == '\n' || *p == '\r')
                *p = ' '; /* each --set is one line of "<--set>" */
        g->opt.sets.items[i] = s;
        text_printf(&all, "%s\n", s);
    }
    f = loader_add_file(g, set_file, all.s, all.len);
    for (int i = 0; i < g->opt.sets.count; i++)
        apply_set(g, g->opt.sets.items[i], i + 1, f);
}
