/* SPDX-License-Identifier: Apache-2.0 */
/* json_place.c: lines and columns in a JSON text, which its parser does not keep. In: a
 * text that a parser has accepted, and the path of a member. Out: the place of its value.
 * It only skips over values; the parser has validated them. */
#include "base/json_place.h"

#include <string.h>

typedef struct Scan {
    const char *text;
    size_t bytes, at;
} Scan;

static char peek(const Scan *s)
{
    return s->at < s->bytes ? s->text[s->at] : '\0';
}

static void skip_space(Scan *s)
{
    while (s->at < s->bytes && strchr(" \t\r\n", s->text[s->at]) != NULL)
        s->at++;
}

/* At a quote; leaves the scan after the closing one. Returns the inner bytes. */
static const char *skip_string(Scan *s, size_t *len)
{
    const size_t from = ++s->at;

    while (s->at < s->bytes && s->text[s->at] != '"')
        s->at += s->text[s->at] == '\\' ? 2 : 1;
    s->at = s->at < s->bytes ? s->at : s->bytes;
    *len = s->at - from;
    if (s->at < s->bytes)
        s->at++;
    return s->text + from;
}

static void skip_value(Scan *s)
{
    int depth = 0;
    size_t len;

    skip_space(s);
    do {
        const char c = peek(s);

        if (c == '"') {
            skip_string(s, &len);
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        s->at++;
        if (depth == 0 && strchr("}],: \t\r\n", peek(s)) != NULL)
            break;
    } while (s->at < s->bytes && (depth > 0 || strchr(",}]", peek(s)) == NULL));
}

/* From before a value to the next member or item, or to the closing bracket. */
static void skip_item(Scan *s)
{
    skip_value(s);
    skip_space(s);
    if (peek(s) == ',')
        s->at++;
}

/* At an object; moves the scan to the member's value, or returns false if there is
 * none. */
static bool enter_member(Scan *s, const char *key, size_t key_len)
{
    if (peek(s) != '{')
        return false;
    s->at++;
    for (skip_space(s); peek(s) == '"'; skip_space(s)) {
        size_t len;
        const char *name = skip_string(s, &len);

        skip_space(s);
        if (peek(s) == ':')
            s->at++;
        skip_space(s);
        if (len == key_len && !memcmp(name, key, len))
            return true;
        skip_item(s);
    }
    return false;
}

/* At an array; moves the scan to the item of that number, or returns false if there is
 * none. */
static bool enter_item(Scan *s, const char *key, size_t key_len)
{
    size_t left = 0;

    if (peek(s) != '[' || key_len > 9)
        return false;
    for (size_t i = 0; i < key_len; i++) {
        if (key[i] < '0' || key[i] > '9')
            return false;
        left = left * 10 + (size_t)(key[i] - '0');
    }
    s->at++;
    for (skip_space(s); peek(s) != ']' && s->at < s->bytes; skip_space(s)) {
        if (left-- == 0)
            return true;
        skip_item(s);
    }
    return false;
}

Pos json_offset(const char *file, const char *text, size_t bytes, size_t offset,
                size_t len)
{
    Pos p = {.file = file, .line = 1, .col = 1, .len = len < 1000 ? (int)len : 1000};

    for (size_t i = 0; i < offset && i < bytes; i++) {
        p.col = text[i] == '\n' ? 1 : p.col + 1;
        p.line += text[i] == '\n';
    }
    return p;
}

Pos json_place(const char *file, const char *text, size_t bytes, const char *path)
{
    Scan s = {.text = text, .bytes = bytes};
    size_t from, len;

    skip_space(&s);
    from = s.at;
    for (const char *key = path; *key;) {
        const size_t key_len = strcspn(key, ".");

        if (!enter_member(&s, key, key_len) && !enter_item(&s, key, key_len))
            break;
        from = s.at;
        key += key_len;
        key += *key == '.';
    }
    s.at = from;
    if (peek(&s) == '"')
        skip_string(&s, &len);
    else if (peek(&s) == '{' || peek(&s) == '[')
        s.at++;
    else
        skip_value(&s);
    return json_offset(file, text, bytes, from, s.at - from);
}

const char *json_problem(Gen *g, const json_error_t *error)
{
    const char *near = strstr(error->text, " near ");

    switch (json_error_code(error)) {
    case json_error_premature_end_of_input:
        return "the file ends before its JSON does";
    case json_error_numeric_overflow:
        return gen_printf(g, "the number is too large%s", near ? near : "");
    case json_error_duplicate_key:
        return gen_strdup(g, error->text);
    case json_error_invalid_utf8:
        return "the text is not UTF-8";
    default:
        return near ? gen_printf(g, "this is not JSON%s", near) : "this is not JSON";
    }
}
