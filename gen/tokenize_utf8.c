/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_utf8.c: what the tokenizer must know of Unicode beside its patterns: is a text
 * UTF-8, what is white space, normal form C (by utf8proc). */
#include "tokenize.h"

#include <stdlib.h>
#include <string.h>
#ifdef FSDPGEN_UTF8PROC
#include <utf8proc.h>
#endif

/* Bytes of the character that s begins with; 0: none that is legal. */
static size_t character(const unsigned char *s, size_t n)
{
    const unsigned c = s[0];
    size_t more = c < 0xC2 ? 0 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : c < 0xF5 ? 3 : 0;

    if (c < 0x80)
        return 1;
    if (more == 0 || n <= more)
        return 0;
    if ((c == 0xE0 && s[1] < 0xA0) || (c == 0xED && s[1] > 0x9F) ||
        (c == 0xF0 && s[1] < 0x90) || (c == 0xF4 && s[1] > 0x8F))
        return 0; /* overlong, a surrogate, or beyond the last */
    for (size_t k = 1; k <= more; k++)
        if ((s[k] & 0xC0) != 0x80)
            return 0;
    return more + 1;
}

size_t tok_utf8_valid(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t at = 0, step;
    uint64_t word;

    while (at < n) {
        if (at + 8 <= n && (memcpy(&word, s + at, 8), !(word & 0x8080808080808080))) {
            at += 8;
            continue;
        }
        step = character(s + at, n - at);
        if (step == 0)
            break;
        at += step;
    }
    return at;
}

/* Bytes of the white space that s begins with, in a legal text; 0: it is none. */
static size_t space(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;

    if (n == 0)
        return 0;
    if ((s[0] >= 9 && s[0] <= 13) || s[0] == ' ')
        return 1;
    if (s[0] == 0xC2 && n > 1)
        return s[1] == 0x85 || s[1] == 0xA0 ? 2 : 0;
    if (n < 3)
        return 0;
    if (s[0] == 0xE2 && s[1] == 0x80) /* 2000..200A, 2028, 2029, 202F */
        return s[2] <= 0x8A || s[2] == 0xA8 || s[2] == 0xA9 || s[2] == 0xAF ? 3 : 0;
    return (s[0] == 0xE1 && s[1] == 0x9A && s[2] == 0x80) || /* 1680, 205F, 3000 */
                   (s[0] == 0xE2 && s[1] == 0x81 && s[2] == 0x9F) ||
                   (s[0] == 0xE3 && s[1] == 0x80 && s[2] == 0x80)
               ? 3
               : 0;
}

size_t tok_space_begin(const char *s, size_t n)
{
    size_t at = 0, step;

    while ((step = space(s + at, n - at)) > 0)
        at += step;
    return at;
}

size_t tok_space_end(const char *s, size_t n)
{
    size_t at = n;

    while (at > 0) {
        size_t from = at - 1;

        while (from > 0 && ((unsigned char)s[from] & 0xC0) == 0x80)
            from--;
        if (space(s + from, at - from) != at - from)
            break;
        at = from;
    }
    return n - at;
}

/* Nothing below U+0300 combines or decomposes into something else. */
bool tok_is_nfc(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] >= 0xCC)
            return false;
    return true;
}

#ifdef FSDPGEN_UTF8PROC

/* A stretch ends before a character that begins a new unit whatever comes before it, as
 * ASCII and the ideographs from U+4000 to U+9FFF do, so that no text is too long. */
static size_t stretch(const char *s, size_t n)
{
    size_t at = 4096;

    while (at < n && !((unsigned char)s[at] < 0x80 ||
                       ((unsigned char)s[at] >= 0xE4 && (unsigned char)s[at] <= 0xE9)))
        at++;
    return at < n ? at : n;
}

bool tok_nfc(TokText *out, const char *s, size_t n, char *error)
{
    for (size_t at = 0, len; at < n; at += len) {
        utf8proc_uint8_t *to = NULL;
        utf8proc_ssize_t got;

        len = stretch(s + at, n - at);
        if (tok_is_nfc(s + at, len)) {
            tok_append(out, s + at, len);
            continue;
        }
        got = utf8proc_map((const utf8proc_uint8_t *)s + at, (utf8proc_ssize_t)len, &to,
                           UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (got < 0) {
            snprintf(error, TOK_ERROR_BYTES, "NFC: %s", utf8proc_errmsg(got));
            return false;
        }
        tok_append(out, (const char *)to, (size_t)got);
        free(to);
    }
    return true;
}

#else

bool tok_nfc(TokText *out, const char *s, size_t n, char *error)
{
    (void)out, (void)s, (void)n;
    snprintf(error, TOK_ERROR_BYTES, "this fsdpgen was built without utf8proc");
    return false;
}

#endif
