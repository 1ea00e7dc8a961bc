/* SPDX-License-Identifier: Apache-2.0 */
/* lex.c: a small lexer of Lua, so that every value of a description keeps its line and
 * column, which Lua itself forgets. In: the text of a file that Lua has accepted. (Lua
 * reports what it refuses; on such text this lexer only has to terminate.) Out: every
 * table constructor with the places of its fields. Values computed elsewhere get the
 * place of the expression that mentions them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem, memrchr */
#endif
#include "base/lex.h"

#include <ctype.h>
#include <string.h>

typedef enum { TOK_END, TOK_NAME, TOK_STRING, TOK_NUMBER, TOK_OTHER } TokKind;

typedef struct Tok {
    TokKind kind;
    const char *s; /* in the text */
    size_t n;
    int line, col, last_line;
} Tok;

typedef struct Lexer {
    Gen *g;
    LexFile *f;
    const char *p, *end, *line_start;
    int line;
    struct {
        Tok *items;
        int count, cap;
    } toks;
    int at; /* parser's position in toks */
    int depth;
} Lexer;

enum { MAX_DEPTH = 200 };

/* At a '[': the level of a long bracket; -1 if it is not one. */
static int long_bracket(const Lexer *x, const char *p)
{
    int level = 0;

    for (p++; p < x->end && *p == '='; p++)
        level++;
    return p < x->end && *p == '[' ? level : -1;
}

static void next_line(Lexer *x)
{
    x->line++;
    x->line_start = x->p + 1;
}

static void skip_long(Lexer *x, int level)
{
    x->p += level + 2;
    for (; x->p < x->end; x->p++) {
        if (*x->p == '\n')
            next_line(x);
        if (*x->p == ']' && x->end - x->p >= level + 2 && x->p[level + 1] == ']') {
            int k = 1;

            while (k <= level && x->p[k] == '=')
                k++;
            if (k > level) {
                x->p += level + 2;
                return;
            }
        }
    }
}

static void skip_string(Lexer *x)
{
    char quote = *x->p++;

    while (x->p < x->end && *x->p != quote) {
        if (*x->p == '\\' && x->p + 1 < x->end)
            x->p++;
        if (*x->p == '\n')
            next_line(x);
        x->p++;
    }
    if (x->p < x->end)
        x->p++;
}

static void skip_blank(Lexer *x)
{
    while (x->p < x->end) {
        if (*x->p == '\n') {
            next_line(x);
            x->p++;
        } else if (isspace((unsigned char)*x->p)) {
            x->p++;
        } else if (x->end - x->p >= 2 && x->p[0] == '-' && x->p[1] == '-') {
            x->p += 2;
            if (x->p < x->end && *x->p == '[' && long_bracket(x, x->p) >= 0)
                skip_long(x, long_bracket(x, x->p));
            else
                while (x->p < x->end && *x->p != '\n')
                    x->p++;
        } else {
            return;
        }
    }
}

static void skip_number(Lexer *x)
{
    const bool hex = x->end - x->p >= 2 && x->p[0] == '0' && (x->p[1] | ' ') == 'x';

    for (; x->p < x->end; x->p++)
        if ((*x->p | ' ') == (hex ? 'p' : 'e') && x->p + 1 < x->end &&
            (x->p[1] == '+' || x->p[1] == '-'))
            x->p++;
        else if (!isalnum((unsigned char)*x->p) && *x->p != '.')
            return;
}

/* The token at x->p; moves x->p behind it. */
static Tok next_token(Lexer *x)
{
    /* operators of several characters that must stay whole: `==` is not `=` */
    static const char *const operators[] = {
        "...", "..", "==", "~=", "<=", ">=", "//", "::", "<<", ">>"};

    Tok t = {.kind = TOK_OTHER};

    skip_blank(x);
    t.s = x->p;
    t.line = x->line;
    t.col = (int)(x->p - x->line_start) + 1;
    if (x->p >= x->end) {
        t.kind = TOK_END;
    } else if (isalpha((unsigned char)*x->p) || *x->p == '_') {
        t.kind = TOK_NAME;
        while (x->p < x->end && (isalnum((unsigned char)*x->p) || *x->p == '_'))
            x->p++;
    } else if (*x->p == '"' || *x->p == '\'') {
        t.kind = TOK_STRING;
        skip_string(x);
    } else if (*x->p == '[' && long_bracket(x, x->p) >= 0) {
        t.kind = TOK_STRING;
        skip_long(x, long_bracket(x, x->p));
    } else if (isdigit((unsigned char)*x->p) ||
               (*x->p == '.' && x->p + 1 < x->end && isdigit((unsigned char)x->p[1]))) {
        t.kind = TOK_NUMBER;
        skip_number(x);
    } else {
        size_t n = 1;

        for (size_t i = 0; n == 1 && i < sizeof operators / sizeof *operators; i++) {
            size_t len = strlen(operators[i]);

            if (*x->p == *operators[i] && (size_t)(x->end - x->p) >= len &&
                !memcmp(x->p, operators[i], len))
                n = len;
        }
        x->p += n;
    }
    t.n = (size_t)(x->p - t.s);
    t.last_line = x->line;
    return t;
}

static void scan(Lexer *x)
{
    Tok t;

    do {
        t = next_token(x);
        *gen_push(x->g, &x->toks) = t;
    } while (t.kind != TOK_END);
}

/* ---- table constructors ---------------------------------------------------------- */

static const Tok *tok(const Lexer *x, int i)
{
    return &x->toks.items[i < x->toks.count ? i : x->toks.count - 1];
}

static bool is(const Tok *t, const char *s)
{
    return t->kind != TOK_STRING && t->n > 0 && *t->s == *s && t->n == strlen(s) &&
           !memcmp(t->s, s, t->n);
}

static Pos pos_of(const Lexer *x, const Tok *first, const Tok *last)
{
    Pos p = {x->f->file, first->line, first->col, (int)first->n};

    if (first->line != first->last_line) /* a string over several lines */
        p.len = (int)(strcspn(first->s, "\n"));
    else if (last && last->last_line == first->line && last->s >= first->s)
        p.len = (int)(last->s + last->n - first->s);
    return p;
}

static LexTable *parse_table(Lexer *x);

/* Passes one expression, up to a `,` `;` or `}` of its own level; tables inside are
 * kept. */
static void skip_value(Lexer *x, LexTable **first)
{
    int brackets = 0, blocks = 0, start = x->at;

    for (;; x->at++) {
        const Tok *t = tok(x, x->at);

        if (t->kind == TOK_END)
            return;
        if (is(t, "{")) {
            LexTable *inner = parse_table(x);

            if (first && x->at >= start && !*first && tok(x, start) == t)
                *first = inner;
            x->at--; /* the loop steps over its `}` */
            continue;
        }
        if (brackets == 0 && blocks == 0 && (is(t, ",") || is(t, ";") || is(t, "}")))
            return;
        if (is(t, "(") || is(t, "["))
            brackets++;
        else if (is(t, ")") || is(t, "]"))
            brackets--;
        else if (is(t, "function") || is(t, "if") || is(t, "do") || is(t, "repeat"))
            blocks++;
        else if (is(t, "end") || is(t, "until"))
            blocks--;
    }
}

static bool is_keyword_before_table(const Tok *t)
{
    static const char *const words[] = {"return", "and",   "or", "not", "in",
                                        "then",   "else",  "do", "if",  "while",
                                        "until",  "local", "end"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is(t, words[i]))
            return true;
    return false;
}

/* `name {`, `name({`, `a.b {`, `require "x" {`: the token that names the call. */
static const Tok *callee_of(const Lexer *x, int brace)
{
    int i = brace - 1;

    if (i >= 0 && is(tok(x, i), "("))
        i--;
    if (i >= 1 && tok(x, i)->kind == TOK_STRING)
        i--;
    if (i >= 0 && is(tok(x, i), ")")) { /* f(...) { : the token f */
        int depth = 0;

        for (; i >= 0; i--) {
            depth += is(tok(x, i), ")") - is(tok(x, i), "(");
            if (depth == 0)
                break;
        }
        i--;
    }
    if (i < 0 || tok(x, i)->kind != TOK_NAME || is_keyword_before_table(tok(x, i)))
        return NULL;
    return tok(x, i);
}

static void parse_field(Lexer *x, LexTable *t, int *items)
{
    const Tok *first = tok(x, x->at), *second = tok(x, x->at + 1);
    LexField f = {0};
    int start;

    if (first->kind == TOK_NAME && is(second, "=")) {
        f.key = gen_strndup(x->g, first->s, first->n);
        x->at += 2;
    } else if (is(first,
                  "[")) { /* ["key"] = or [1] =; other computed keys have no name */
        const Tok *key = second;
        const bool alone = is(tok(x, x->at + 2), "]") && key->kind != TOK_NAME;

        while (tok(x, x->at)->kind != TOK_END && !is(tok(x, x->at), "]"))
            x->at++;
        x->at += 2;
        if (alone && key->kind == TOK_STRING && key->n >= 2)
            f.key = gen_strndup(x->g, key->s + 1, key->n - 2);
        else if (alone)
            f.key = gen_strndup(x->g, key->s, key->n);
    } else {
        f.index = ++*items;
    }
    f.key_pos = pos_of(x, first, NULL);
    start = x->at;
    skip_value(x, &f.table);
    f.value = pos_of(x, tok(x, start), x->at > start ? tok(x, x->at - 1) : NULL);
    *gen_push(x->g, &t->fields) = f;
}

/* At a `{`; leaves x->at behind its `}`. */
static LexTable *parse_table(Lexer *x)
{
    LexTable *t = gen_alloc(x->g, sizeof *t);
    const Tok *callee = callee_of(x, x->at);
    int items = 0;

    t->line = tok(x, x->at)->line;
    if (callee) {
        t->callee = gen_strndup(x->g, callee->s, callee->n);
        t->callee_pos = pos_of(x, callee, NULL);
    }
    *gen_push(x->g, &x->f->tables) = t;
    x->at++;
    if (++x->depth > MAX_DEPTH) { /* Lua refuses such a file itself */
        x->at = x->toks.count - 1;
        return t;
    }
    for (;;) {
        const Tok *now = tok(x, x->at);

        if (now->kind == TOK_END)
            break;
        if (is(now, "}")) {
            x->at++;
            break;
        }
        if (is(now, ",") || is(now, ";"))
            x->at++;
        else
            parse_field(x, t, &items);
    }
    x->depth--;
    return t;
}

LexFile *lex_file(Gen *g, const char *file, const char *text, size_t bytes)
{
    LexFile *f = gen_alloc(g, sizeof *f);
    Lexer x = {
        .g = g, .f = f, .p = text, .end = text + bytes, .line_start = text, .line = 1};

    *f = (LexFile){.file = file, .text = text, .bytes = bytes};
    if (bytes && text[0] == '#') /* Lua skips such a first line */
        while (x.p < x.end && *x.p != '\n')
            x.p++;
    scan(&x);
    while (tok(&x, x.at)->kind != TOK_END)
        if (is(tok(&x, x.at), "{"))
            parse_table(&x);
        else
            x.at++;
    return f;
}

const LexField *lex_field(const LexTable *t, const char *key)
{
    const LexField *found = NULL; /* the last one wins, as in Lua */

    for (int i = 0; t && i < t->fields.count; i++)
        if (t->fields.items[i].key && !strcmp(t->fields.items[i].key, key))
            found = &t->fields.items[i];
    return found;
}

const LexField *lex_item(const LexTable *t, int index)
{
    for (int i = 0; t && i < t->fields.count; i++)
        if (t->fields.items[i].index == index)
            return &t->fields.items[i];
    return NULL;
}

/* May an operand follow this token? Elsewhere a `#` is a mistake, which Lua reports. */
static bool precedes_operand(const Tok *t)
{
    static const char *const words[] = {"and",    "or",    "not",   "return", "if",
                                        "elseif", "while", "until", "in"};

    for (size_t i = 0; t->kind == TOK_NAME && i < sizeof words / sizeof *words; i++)
        if (is(t, words[i]))
            return true;
    return t->kind == TOK_OTHER && !is(t, ")") && !is(t, "]") && !is(t, "}") &&
           !is(t, "...");
}

char *lex_mark_lengths(const char *text, size_t n, const char *mark, size_t *bytes)
{
    const size_t mark_n = strlen(mark);
    const char *last = memrchr(text, '#', n); /* most files have none */
    Lexer x = {.p = text, .end = text + n, .line_start = text, .line = 1};
    size_t most = n, from = 0;
    Tok before = {.kind = TOK_END}, t;
    char *to;

    for (size_t i = 0; i < n; i++)
        most += text[i] == '#' ? mark_n : 0;
    to = gen_calloc(most + 1, 1);
    *bytes = 0;
    while (last && x.p <= last) {
        t = next_token(&x);
        if (is(&t, "#") && precedes_operand(&before)) {
            const size_t at = (size_t)(t.s - text);

            memcpy(to + *bytes, text + from, at - from);
            memcpy(to + *bytes + at - from, mark, mark_n);
            *bytes += at - from + mark_n;
            from = at + 1;
        }
        before = t;
    }
    memcpy(to + *bytes, text + from, n - from);
    *bytes += n - from;
    return to;
}

Pos lex_word(const LexFile *f, int line, const char *word)
{
    const char *p = f->text, *end = f->text + f->bytes, *stop, *hit = NULL;
    Pos pos = {f->file, line, 0, 0};

    for (int n = 1; n < line && p < end; n++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));

        p = nl ? nl + 1 : end;
    }
    if (p >= end) { /* the end of the file: its last character */
        while (end > f->text && isspace((unsigned char)end[-1]))
            end--;
        pos.line = pos.col = pos.len = 1;
        for (p = f->text; p + 1 < end; p++) {
            pos.col = *p == '\n' ? 1 : pos.col + 1;
            pos.line += *p == '\n';
        }
        return pos;
    }
    stop = memchr(p, '\n', (size_t)(end - p));
    if (!stop)
        stop = end;
    if (word && *word)
        hit = memmem(p, (size_t)(stop - p), word, strlen(word));
    pos.len = hit ? (int)strlen(word) : 0;
    if (!hit) { /* the whole line, without its indent */
        for (hit = p; hit < stop && isspace((unsigned char)*hit); hit++)
            ;
        while (stop > hit && isspace((unsigned char)stop[-1]))
            stop--;
        pos.len = (int)(stop - hit);
    }
    pos.col = (int)(hit - p) + 1;
    return pos;
}
