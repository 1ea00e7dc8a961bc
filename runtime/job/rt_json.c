/* SPDX-License-Identifier: MIT-0 */
/* rt_json.c: reads JSON as a stream, and writes strings. In: a text. Out: its values, in
 * order, as the reader asks for them. Anything unexpected is an error that sticks, so
 * only the end needs a check. Strings must be UTF-8 without zero bytes and, if kept,
 * without control characters, because messages show them. Nesting is bounded; nothing is
 * allocated. */
#include "job/rt_file.h"

#include <stdlib.h>
#include <string.h>

static bool fail(RtJson *j)
{
    j->failed = true;
    return false;
}

/* The next byte that is not blank; 0 at the end. */
static char peek(RtJson *j)
{
    while (!j->failed && j->at < j->end && *j->at != '\0' &&
           strchr(" \t\r\n", *j->at) != NULL)
        j->at++;
    return j->failed || j->at == j->end ? '\0' : *j->at;
}

static bool take(RtJson *j, char c)
{
    if (c == '\0' || peek(j) != c)
        return fail(j);
    j->at++;
    return true;
}

bool rt_json_open(RtJson *j, char bracket)
{
    return take(j, bracket);
}

bool rt_json_item(RtJson *j, char close, bool *first)
{
    if (!j->failed && peek(j) == close) {
        j->at++;
        return false;
    }
    if (*first) {
        *first = false;
        return !j->failed;
    }
    return take(j, ',');
}

bool rt_json_key(RtJson *j, char *out, size_t bytes)
{
    return rt_json_text(j, out, bytes) && take(j, ':');
}

/* Four hexadecimal digits, or -1. */
static int32_t hex4(RtJson *j)
{
    int32_t x = 0;
    for (int i = 0; i < 4; i++, j->at++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *d = j->at < j->end && *j->at != '\0' ? strchr(digits, *j->at) : NULL;
        if (d == NULL)
            return -1;
        x = x * 16 + (int32_t)((d - digits) % 16);
    }
    return x;
}

/* After `\u`: a code point as UTF-8; the number of bytes, 0: invalid. */
static int escape_unicode(RtJson *j, char *out)
{
    int32_t x = hex4(j);
    if (x >= 0xD800 && x < 0xDC00) { /* the first half of a pair */
        if (j->end - j->at < 6 || j->at[0] != '\\' || j->at[1] != 'u')
            return 0;
        j->at += 2;
        const int32_t low = hex4(j);
        if (low < 0xDC00 || low > 0xDFFF)
            return 0;
        x = 0x10000 + (x - 0xD800) * 0x400 + (low - 0xDC00);
    }
    if (x <= 0 || (x >= 0xDC00 && x <= 0xDFFF))
        return 0;
    if (x < 0x80) {
        out[0] = (char)x;
        return 1;
    }
    const int n = x < 0x800 ? 2 : x < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, x >>= 6)
        out[i] = (char)(0x80 | (x & 0x3F));
    out[0] = (char)((n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0) | x);
    return n;
}

/* After a backslash. */
static int escape(RtJson *j, char *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (j->at == j->end || *j->at == '\0')
        return 0;
    const char c = *j->at++;
    const char *p = strchr(from, c);
    if (c == 'u')
        return escape_unicode(j, out);
    if (p == NULL)
        return 0;
    out[0] = to[p - from];
    return 1;
}

/* Bytes of the UTF-8 character at the reader; 0: invalid. */
static int utf8(const RtJson *j)
{
    const unsigned char *p = (const unsigned char *)j->at;
    const int64_t left = j->end - j->at;
    const int n = p[0] < 0x80 ? 1 : p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
    if (p[0] < 0x20 || (p[0] >= 0x80 && p[0] < 0xC2) || p[0] > 0xF4 || n > left)
        return 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) ||
        (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))
        return 0;
    return n;
}

/* Characters that a terminal may obey: U+0001 to U+001F, U+007F to U+009F. */
static bool is_control(const char *c, int n)
{
    const unsigned char *p = (const unsigned char *)c;
    return (n == 1 && (p[0] < 0x20 || p[0] == 0x7F)) ||
           (n == 2 && p[0] == 0xC2 && p[1] < 0xA0);
}

/* out NULL: skips the text. */
bool rt_json_text(RtJson *j, char *out, size_t bytes)
{
    size_t used = 0;
    if (!take(j, '"'))
        return false;
    while (j->at < j->end && *j->at != '"') {
        char c[4];
        int n;
        if (*j->at == '\\') {
            j->at++;
            n = escape(j, c);
        } else {
            n = utf8(j);
            memcpy(c, j->at, (size_t)n);
            j->at += n;
        }
        if (n == 0 || (out != NULL && (is_control(c, n) || used + (size_t)n >= bytes)))
            return fail(j);
        if (out != NULL)
            memcpy(out + used, c, (size_t)n);
        used += (size_t)n;
    }
    if (out != NULL)
        out[used] = '\0';
    return take(j, '"');
}

static bool is_digit(const RtJson *j)
{
    return j->at < j->end && *j->at >= '0' && *j->at <= '9';
}

bool rt_json_int(RtJson *j, int64_t *out)
{
    const bool negative = peek(j) == '-';
    int64_t x = 0;
    j->at += negative;
    if (j->failed || !is_digit(j))
        return fail(j);
    const bool zero = *j->at == '0';
    int digits = 0;
    for (; is_digit(j); j->at++, digits++)
        if (__builtin_mul_overflow(x, 10, &x) ||
            __builtin_add_overflow(x, *j->at - '0', &x))
            return fail(j);
    if ((zero && digits > 1) ||
        (j->at < j->end && *j->at != '\0' && strchr(".eE", *j->at) != NULL))
        return fail(j);
    *out = negative ? -x : x;
    return true;
}

static bool skip_digits(RtJson *j)
{
    if (!is_digit(j))
        return fail(j);
    while (is_digit(j))
        j->at++;
    return true;
}

static bool skip_number(RtJson *j)
{
    j->at += *j->at == '-';
    if (j->at < j->end && *j->at == '0')
        j->at++;
    else if (!skip_digits(j))
        return false;
    if (j->at < j->end && *j->at == '.') {
        j->at++;
        if (!skip_digits(j))
            return false;
    }
    if (j->at < j->end && (*j->at == 'e' || *j->at == 'E')) {
        j->at++;
        j->at += j->at < j->end && (*j->at == '+' || *j->at == '-');
        return skip_digits(j);
    }
    return true;
}

static bool skip_value(RtJson *j, int depth)
{
    static const char *const words[] = {"true", "false", "null"};
    const char c = peek(j);
    bool first = true;
    if (depth > 64)
        return fail(j);
    if (c == '{' || c == '[') {
        j->at++;
        while (rt_json_item(j, c == '{' ? '}' : ']', &first))
            if ((c == '{' && !rt_json_key(j, NULL, 0)) || !skip_value(j, depth + 1))
                return false;
        return !j->failed;
    }
    if (c == '"')
        return rt_json_text(j, NULL, 0);
    for (int i = 0; i < 3; i++) {
        const size_t n = strlen(words[i]);
        if (j->end - j->at >= (int64_t)n && memcmp(j->at, words[i], n) == 0) {
            j->at += n;
            return true;
        }
    }
    return c == '-' || (c >= '0' && c <= '9') ? skip_number(j) : fail(j);
}

bool rt_json_skip(RtJson *j)
{
    return skip_value(j, 0);
}

bool rt_json_done(RtJson *j)
{
    return peek(j) == '\0' && j->at == j->end && !j->failed;
}

/* Invalid bytes become U+FFFD, because names of files may contain any. */
void rt_json_put(FILE *f, const char *text)
{
    RtJson j = {.at = text, .end = text + strlen(text)};
    putc('"', f);
    while (j.at < j.end) {
        const unsigned char c = (unsigned char)*j.at;
        const int n = utf8(&j);
        if (c < ' ' || c == 0x7F)
            fprintf(f, "\\u%04x", c);
        else if (n == 0)
            fprintf(f, "\\ufffd");
        else
            fprintf(f, "%s%.*s", c == '"' || c == '\\' ? "\\" : "", n, j.at);
        j.at += n > 0 ? n : 1;
    }
    putc('"', f);
}

void rt_json_number(FILE *f, double x)
{
    char s[32];
    if (!(x - x == 0)) {
        fprintf(f, "null");
        return;
    }
    for (int digits = 15; digits <= 17;
         digits++) { /* 15: what is shorter ends in zeros */
        snprintf(s, sizeof s, "%.*g", digits, x);
        if (strtod(s, NULL) == x)
            break;
    }
    fprintf(f, "%s", s);
}

bool rt_json_hash(RtJson *j, uint64_t *hash)
{
    char text[32], *end;
    if (!rt_json_text(j, text, sizeof text))
        return false;
    *hash = strtoull(text, &end, 16);
    return strlen(text) == 16 && *end == '\0';
}
