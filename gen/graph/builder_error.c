/* SPDX-License-Identifier: Apache-2.0 */
/* builder_error.c: protected calls for the passes that run Lua. In: a C function that may
 * raise a Lua error. Out: a diagnostic at the innermost Lua line: of the architecture
 * that made a call, or of the op whose rule failed. */
#include "graph/builder.h"
#include "describe/load.h"
#include "base/sandbox.h"

#include <string.h>

/* The lexed text of a Lua file that messages may show; NULL if we do not have it. */
static LexFile *source_of(Gen *g, const char *file)
{
    LexFile *f = g->loader ? loader_file(g->loader, file) : NULL;

    for (int i = 0; i < g->ops.count && !f; i++) {
        const OpInfo *info = g->ops.items[i].info;

        if (!strcmp(info->path, file)) {
            diag_source(g, info->path, info->text, info->text_bytes);
            f = lex_file(g, info->path, info->text, info->text_bytes);
        }
    }
    return f;
}

static bool word_char(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
}

/* The place of the message's first word on the line, if it is called there (g.word); else
 * the whole line. */
static Pos word_place(const LexFile *f, int line, const char *word)
{
    const char *p = f->text, *end = f->text + f->bytes, *stop;
    size_t n = strlen(word);

    for (int i = 1; i < line && p < end; i++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));

        p = newline ? newline + 1 : end;
    }
    stop = memchr(p, '\n', (size_t)(end - p));
    stop = stop ? stop : end;
    for (int call = 1; n && call >= 0; call--)
        for (const char *q = p; q + n <= stop; q++) {
            char before = q > p ? q[-1] : ' ', after = q + n < stop ? q[n] : ' ';

            if (memcmp(q, word, n) || word_char(before) || word_char(after) ||
                (call && before != '.' && before != ':'))
                continue;
            return (Pos){f->file, line, (int)(q - p) + 1, (int)n};
        }
    return lex_word(f, line, NULL);
}

typedef struct ErrorPlace {
    Gen *g;
    const char *file;
    int line;
} ErrorPlace;

/* Message handler: finds the innermost line of a Lua file, or the one that the message
 * names, and removes the place from the text. Sources with "=" are scripts of our own: an
 * error that C raises for a call of theirs is about the file behind them. Upvalue: the
 * ErrorPlace to fill. */
static int find_place(lua_State *L)
{
    ErrorPlace *e = lua_touserdata(L, lua_upvalueindex(1));
    const char *text = lua_tostring(L, 1);
    lua_Debug ar;

    if (!text)
        return 1;
    for (int level = 1; level < 50 && lua_getstack(L, level, &ar); level++) {
        const char *prefix;
        bool named;

        lua_getinfo(L, "Sl", &ar);
        if (ar.currentline < 1 || (*ar.source != '@' && *ar.source != '='))
            continue;
        prefix = gen_printf(e->g, "%s:%d: ", ar.short_src, ar.currentline);
        named = !strncmp(text, prefix, strlen(prefix));
        if (*ar.source == '=') {
            if (named && level > 1)
                text += strlen(prefix);
            continue;
        }
        if (!e->file || named) {
            e->file = gen_strdup(e->g, ar.source + 1);
            e->line = ar.currentline;
        }
        if (named) {
            lua_pushstring(L, text + strlen(prefix));
            return 1;
        }
    }
    lua_pushstring(L, text);
    return 1;
}

/* The word on that line with which the message starts. */
static Pos line_place(Gen *g, const char *file, int line, const char *text)
{
    const char *end = strchr(text, ':');
    LexFile *f = source_of(g, file);

    if (!f)
        return (Pos){.file = file, .line = line};
    return word_place(f, line, gen_strndup(g, text, end ? (size_t)(end - text) : 0));
}

/* Lua's own message in plain words. */
static const char *plain_text(Builder *b, const char *text)
{
    static const char undefined[] = "undefined global '";
    const char *name = text + sizeof undefined - 1;

    if (b->g->loader && !b->help && !strncmp(text, undefined, sizeof undefined - 1))
        b->help =
            loader_global_help(b->g, gen_strndup(b->g, name, strcspn(name, "'")), NULL);
    return lua_plain(b->g, text, &b->help);
}

bool builder_protect(Gen *g, lua_CFunction fn, void *arg, Pos fallback)
{
    lua_State *L = g->L;
    Builder *b = builder_get(g);
    ErrorPlace e = {.g = g};
    int top = lua_gettop(L), status;
    const char *text, *help;
    Pos pos = fallback;

    lua_pushlightuserdata(L, &e);
    lua_pushcclosure(L, find_place, 1);
    lua_pushcfunction(L, fn);
    lua_pushlightuserdata(L, arg);
    status = lua_pcall(L, 1, 0, top + 1);
    if (!sandbox_status(L, status)) {
        b->blame = (Pos){0};
        b->help = NULL;
        lua_settop(L, top);
        return true;
    }
    text = gen_strdup(g, lua_tostring(L, -1));
    if ((help = strchr(text, *HELP))) {
        b->help = gen_strdup(g, help + 1);
        text = gen_strndup(g, text, (size_t)(help - text));
    }
    lua_settop(L, top);
    if (e.file)
        pos = line_place(g, e.file, e.line, text);
    else if (b->blame.file)
        pos = b->blame.col ? b->blame : line_place(g, b->blame.file, b->blame.line, text);
    b->blame = (Pos){0};
    text = plain_text(b, text);
    if (b->block)
        diag_add(g, DIAG_ERROR, pos, b->help, "%s: %s", b->block, text);
    else
        diag_add(g, DIAG_ERROR, pos, b->help, "%s", text);
    b->pattern = NULL;
    b->help = NULL;
    return false;
}
