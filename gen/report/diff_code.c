/* SPDX-License-Identifier: Apache-2.0 */
/* diff_code.c: C and CUDA as tokens, and the definitions in two such files. In: any text.
 * Out: tokens without comments; the top-level names that appeared, vanished, changed.
 *
 * A name is its definition: its tokens, and the #define lines before it. Text that
 * differs between any two generations does not count as a change: comments, and the
 * identities that keep files of two generations from being compiled together. */
#include "report/diff.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens ---------------------------------------------------------------------- */

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The end of the comment at s; s if there is none. */
static const char *skip_comment(const char *s, const char *end)
{
    if (end - s < 2 || s[0] != '/' || (s[1] != '*' && s[1] != '/'))
        return s;
    if (s[1] == '/') {
        const char *line = memchr(s, '\n', (size_t)(end - s));

        return line ? line : end;
    }
    for (const char *p = s + 2; p + 1 < end; p++)
        if (p[0] == '*' && p[1] == '/')
            return p + 2;
    return end;
}

static const char *skip_quoted(const char *s, const char *end)
{
    const char quote = *s++;

    for (; s < end && *s != quote && *s != '\n'; s++)
        if (*s == '\\' && s + 1 < end)
            s++;
    return s < end && *s == quote ? s + 1 : s;
}

/* A directive ends at its line's end, or where a comment starts. */
static const char *skip_directive(const char *s, const char *end)
{
    while (s < end && *s != '\n' && skip_comment(s, end) == s)
        s += *s == '\\' && s + 1 < end ? 2 : 1;
    return s;
}

static Token next_token(const char *s, const char *end, bool line_start)
{
    Token t = {.s = s, .kind = TOKEN_MARK};
    const char *p = s + 1;

    if (*s == '#' && line_start) {
        t.kind = TOKEN_DIRECTIVE;
        p = skip_directive(s, end);
        while (p > s + 1 && isspace((unsigned char)p[-1]))
            p--;
    } else if (*s == '"' || *s == '\'') {
        t.kind = TOKEN_STRING;
        p = skip_quoted(s, end);
    } else if (is_word(*s)) {
        t.kind = isdigit((unsigned char)*s) ? TOKEN_NUMBER : TOKEN_WORD;
        while (p < end && (is_word(*p) || (t.kind == TOKEN_NUMBER && *p == '.')))
            p++;
    }
    t.n = (int)(p - s);
    return t;
}

Tokens code_tokens(Gen *g, const char *text, size_t bytes)
{
    Tokens tokens = {0};
    const char *end = text + bytes;
    bool line_start = true;

    for (const char *s = text; s < end;) {
        const char *after = skip_comment(s, end);

        if (after > s) {
            s = after;
        } else if (isspace((unsigned char)*s) || *s == '\0') {
            line_start = line_start || *s == '\n';
            s++;
        } else {
            Token *t = gen_push(g, &tokens);

            *t = next_token(s, end, line_start);
            line_start = false;
            s += t->n;
        }
    }
    return tokens;
}

bool token_is(const Token *t, const char *word)
{
    return t->n == (int)strlen(word) && !memcmp(t->s, word, (size_t)t->n);
}

bool token_ends(const Token *t, const char *tail)
{
    const int n = (int)strlen(tail);

    return t->n >= n && !memcmp(t->s + t->n - n, tail, (size_t)n);
}

static int depth_step(const Token *t)
{
    if (t->kind != TOKEN_MARK)
        return 0;
    return strchr("({[", *t->s) ? 1 : strchr(")}]", *t->s) ? -1 : 0;
}

int tokens_close(const Tokens *t, int i)
{
    int depth = 0;

    for (; i < t->count; i++) {
        depth += depth_step(&t->items[i]);
        if (depth <= 0)
            return i;
    }
    return t->count;
}

int64_t token_value(const Token *t)
{
    int64_t v = 0;

    for (int i = 0; i < t->n; i++) {
        if (!isdigit((unsigned char)t->s[i]) || v > (INT64_C(1) << 62) / 10)
            return -1;
        v = 10 * v + (t->s[i] - '0');
    }
    return t->n ? v : -1;
}

const char *token_text(Gen *g, const Token *t)
{
    const bool quoted = t->kind == TOKEN_STRING && t->n >= 2;

    return gen_strndup(g, t->s + quoted, (size_t)t->n - 2 * quoted);
}

/* ---- what a file defines --------------------------------------------------------- */

typedef struct Item {
    const char *name;
    Text text; /* its tokens, one per line */
    int order;
} Item;

typedef struct Items {
    Item *items;
    int count, cap;
} Items;

static bool is_hex(const char *s, int n)
{
    for (int i = 0; i < n; i++)
        if (!isxdigit((unsigned char)s[i]))
            return false;
    return true;
}

/* Adds a token in normal form: a run of blanks becomes one, and an identity at its end is
 * omitted. */
static void add_token(Text *to, const Token *t)
{
    const bool named = t->kind == TOKEN_WORD && t->n > 17 && t->s[t->n - 17] == '_' &&
                       is_hex(t->s + t->n - 16, 16);
    const int n = named ? t->n - 16 : t->n;

    if (t->kind != TOKEN_DIRECTIVE) {
        text_add(to, t->s, (size_t)n);
    } else {
        for (int i = 0; i < n; i++)
            if (!isspace((unsigned char)t->s[i]))
                text_add(to, t->s + i, 1);
            else if (i + 1 < n && !isspace((unsigned char)t->s[i + 1]))
                text_add(to, " ", 1);
    }
    text_add(to, "\n", 1);
}

static bool is_identity(Gen *g, const Token *t)
{
    const char *s = gen_strndup(g, t->s, (size_t)t->n);

    return strstr(s, "_IDENTITY") || strstr(s, "different generations") ||
           (t->n > 17 && t->s[t->n - 17] == '_' && is_hex(t->s + t->n - 16, 16));
}

/* The last token of an identity's lines that start at i: a #define, or #if to #endif. */
static int identity_end(const Tokens *t, int i)
{
    const bool block = !strncmp(t->items[i].s, "#if", 3);

    for (; block && i + 1 < t->count && t->items[i + 1].kind == TOKEN_DIRECTIVE; i++)
        if (!strncmp(t->items[i].s, "#endif", 6))
            break;
    return i;
}

/* The end of the definition that starts at i: after the body of a function, or after the
 * semicolon. */
static int item_end(const Tokens *t, int i)
{
    for (int from = i; i < t->count; i++) {
        const Token *k = &t->items[i];
        const bool body = token_is(k, "{") && i > from && token_is(k - 1, ")");

        if (token_is(k, ";"))
            return i + 1;
        if (depth_step(k) > 0)
            i = tokens_close(t, i);
        if (body)
            return i < t->count ? i + 1 : t->count;
    }
    return t->count;
}

/* The name that is defined: the word before the last brackets of a function's heading,
 * before = or [ of a variable, after struct, enum and union. */
static const char *item_name(Gen *g, const Tokens *t, int from, int end)
{
    const Token *name = NULL, *word = NULL;

    for (int i = from; i < end; i++) {
        const Token *k = &t->items[i];

        if (token_is(k, "{") || token_is(k, "="))
            break;
        if (token_is(k, "[") && word)
            break;
        if (token_is(k, "(") && word) {
            name = word;
            i = tokens_close(t, i);
        } else if (k->kind == TOKEN_WORD) {
            word = k;
        }
    }
    name = name ? name : word;
    if (!name)
        return "(nameless)";
    return gen_strndup(g, name->s,
                       (size_t)(name->n > 17 && name->s[name->n - 17] == '_' &&
                                        is_hex(name->s + name->n - 16, 16)
                                    ? name->n - 17
                                    : name->n));
}

static int by_name(const void *a, const void *b)
{
    const Item *x = a, *y = b;
    const int c = strcmp(x->name, y->name);

    return c ? c : (x->order > y->order) - (x->order < y->order);
}

/* Sorted by name; items of one name, such as a declaration and its function, are
 * joined. */
static Items join_items(Gen *g, Items all)
{
    Items joined = {0};

    if (all.count)
        qsort(all.items, (size_t)all.count, sizeof *all.items, by_name);
    for (int i = 0; i < all.count; i++) {
        Item *last = joined.count ? &joined.items[joined.count - 1] : NULL;

        if (last && !strcmp(last->name, all.items[i].name))
            text_add(&last->text, all.items[i].text.s, all.items[i].text.len);
        else
            *gen_push(g, &joined) = all.items[i];
    }
    return joined;
}

static Items items_of(Gen *g, const char *text, size_t bytes)
{
    Tokens t = code_tokens(g, text, bytes);
    Items all = {0};
    Text defines = {.g = g}, others = {.g = g};

    for (int i = 0; i < t.count;) {
        const Token *k = &t.items[i];
        Item *item;
        int end;

        if (k->kind == TOKEN_DIRECTIVE) {
            if (is_identity(g, k))
                i = identity_end(&t, i);
            else
                add_token(!strncmp(k->s, "#define", 7) ? &defines : &others, k);
            i++;
            continue;
        }
        end = item_end(&t, i);
        item = gen_push(g, &all);
        *item = (Item){item_name(g, &t, i, end), defines, all.count};
        defines = (Text){.g = g};
        for (; i < end; i++)
            add_token(&item->text, &t.items[i]);
    }
    if (defines.len)
        text_add(&others, defines.s, defines.len);
    if (others.len)
        *gen_push(g, &all) = (Item){"(preprocessor)", others, 0};
    return join_items(g, all);
}

json_t *code_compare(Gen *g, const char *old, size_t old_bytes, const char *now,
                     size_t now_bytes)
{
    Items a = items_of(g, old ? old : "", old_bytes);
    Items b = items_of(g, now ? now : "", now_bytes);
    json_t *o = json_object(), *lists[3] = {json_array(), json_array(), json_array()};
    const bool bytes = old && now && old_bytes == now_bytes &&
                       (!old_bytes || !memcmp(old, now, old_bytes));
    int changes = !old != !now;

    for (int i = 0, j = 0; !bytes && (i < a.count || j < b.count); changes++) {
        const int c = i == a.count   ? 1
                      : j == b.count ? -1
                                     : strcmp(a.items[i].name, b.items[j].name);
        const Item *x = c <= 0 ? &a.items[i++] : NULL;
        const Item *y = c >= 0 ? &b.items[j++] : NULL;

        if (x && y && x->text.len == y->text.len &&
            !memcmp(x->text.s, y->text.s, x->text.len)) {
            changes--;
            continue;
        }
        diff_push(lists[!x ? 0 : !y ? 1 : 2], diff_word(g, x ? x->name : y->name));
    }
    diff_set(o, "same", json_string(bytes ? "bytes" : changes ? "no" : "code"));
    diff_set(o, "appeared", lists[0]);
    diff_set(o, "vanished", lists[1]);
    diff_set(o, "changed", lists[2]);
    return o;
}
