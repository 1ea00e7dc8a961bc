/* SPDX-License-Identifier: Apache-2.0 */
/* ops_place.c: where a message about an op points in its op.lua. In: a field's name, or
 * Lua's message. Out: a place with file, line and column; the file's text, for messages
 * to show. */
#include "base/lex.h"
#include "base/sandbox.h"
#include "describe/load.h"
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

static bool word_char(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
}

/* The first separate occurrence of the word from the line of pos on; else pos. */
static Pos word_pos(const OpInfo *info, Pos pos, const char *word)
{
    size_t n = strlen(word);
    int line = 1, col = 0;

    for (size_t i = 0; i + n <= info->text_bytes; i++) {
        const char *p = info->text + i;

        col++;
        if (line >= pos.line && !memcmp(p, word, n) && (i == 0 || !word_char(p[-1])) &&
            (i + n == info->text_bytes || !word_char(p[n])))
            return (Pos){pos.file, line, col, (int)n};
        if (*p == '\n') {
            line++;
            col = 0;
        }
    }
    return pos;
}

/* The place of a field of `op { ... }`, or of an item named in it. */
Pos ops_place(Gen *g, const OpRule *op, const char *key, const char *item)
{
    const OpInfo *info = op->info;
    LexFile *f = lex_file(g, info->path, info->text, info->text_bytes);
    Pos pos = {.file = info->path};

    diag_source(g, info->path, info->text, info->text_bytes);
    for (int i = 0; f && i < f->tables.count; i++) {
        const LexTable *t = f->tables.items[i];
        const LexField *field;

        if (!t->callee || (strcmp(t->callee, "op") != 0 && strcmp(t->callee, "map") != 0))
            continue;
        pos = t->callee_pos;
        field = key ? lex_field(t, key) : NULL;
        if (!field)
            break;
        pos = field->key_pos;
        if (item)
            pos = word_pos(info, pos, item);
        break;
    }
    return pos;
}

/* Inside the text that is the field's value, `at` bytes from its beginning; the field's
 * key where the text is not written there in one piece. */
static Pos text_place(Gen *g, const OpRule *op, const char *key, int at, int length)
{
    const OpInfo *info = op->info;
    const LexFile *f = lex_file(g, info->path, info->text, info->text_bytes);
    const LexField *field = NULL;
    const char *p = info->text;
    Pos pos = ops_place(g, op, key, NULL);

    for (int i = 0; f && i < f->tables.count && !field; i++)
        if (f->tables.items[i]->callee && !strcmp(f->tables.items[i]->callee, "map"))
            field = lex_field(f->tables.items[i], key);
    if (!field)
        return pos;
    for (int line = 1; line < field->value.line && (p = strchr(p, '\n')); line++)
        p++;
    if (!p || (p[field->value.col - 1] != '"' && p[field->value.col - 1] != '\''))
        return pos;
    p += field->value.col;
    for (int i = 0; i < at; i++)
        if (p[i] == '\\' || p[i] == '\n' || !p[i])
            return pos;
    return (Pos){info->path, field->value.line, field->value.col + 1 + at, length};
}

const char *ops_text(Gen *g, const char *key)
{
    const char *s;

    lua_getfield(g->L, -1, key);
    s = lua_isstring(g->L, -1) ? gen_strdup(g, lua_tostring(g->L, -1)) : NULL;
    lua_pop(g->L, 1);
    return s;
}

static int number_of(lua_State *L, const char *key)
{
    int v;

    lua_getfield(L, -1, key);
    v = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    return v;
}

void ops_report_problems(Gen *g, const OpRule *op)
{
    lua_State *L = g->L;
    int n = (int)sandbox_length(L, -1);

    for (int i = 0; i < n; i++) {
        const char *key, *message, *help;
        Pos pos;

        lua_rawgeti(L, -1, i + 1);
        key = ops_text(g, "key");
        message = ops_text(g, "message");
        help = ops_text(g, "help");
        pos = ops_text(g, "at")
                  ? text_place(g, op, key, number_of(L, "at"), number_of(L, "length"))
                  : ops_place(g, op, key, ops_text(g, "item"));
        lua_pop(L, 1);
        diag_add(g, DIAG_ERROR, pos, help, "op %s: %s", op->name, message);
    }
}

/* The place of Lua's message about a line: the word it quotes, or the line's first. */
static Pos line_pos(Gen *g, const OpInfo *info, int line, const char *message)
{
    const char *quote = strstr(message, "near '"),
               *end = quote ? strrchr(quote, '\'') : NULL;
    Pos pos = {.file = info->path, .line = 1, .col = 1}, found;
    size_t at = 0;

    while (pos.line < line && at < info->text_bytes)
        pos.line += info->text[at++] == '\n';
    for (; at < info->text_bytes && (info->text[at] == ' ' || info->text[at] == '\t');
         at++)
        pos.col++;
    if (!end || end <= quote + 6)
        return pos;
    found = word_pos(info, pos, gen_strndup(g, quote + 6, (size_t)(end - quote - 6)));
    return found.line == pos.line ? found : pos;
}

void ops_report_lua(Gen *g, const OpRule *op)
{
    const OpInfo *info = op->info;
    const char *text = lua_tostring(g->L, -1);
    const char *shown = text ? text : "unknown error", *after = strstr(shown, "op.lua:");
    const char *help = NULL;
    Pos pos = {.file = info->path, .line = 1, .col = 1};

    if (after) {
        char *end;
        long line = strtol(after + 7, &end, 10);

        if (*end == ':' && line > 0) {
            shown = end + 1 + (end[1] == ' ');
            pos = line_pos(g, info, (int)min_i64(line, INT32_MAX), shown);
        }
    }
    shown = lua_plain(g, shown, &help);
    diag_source(g, info->path, info->text, info->text_bytes);
    diag_add(g, DIAG_ERROR, pos, help, "op %s: %s", op->name, shown);
    lua_pop(g->L, 1);
}
