/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_utf8.c: the Unicode that the tokenizer needs beside its patterns. In: bytes.
 * Out: whether they are UTF-8, which are white space, normal form C (by utf8proc). */
#include "tokenize/tokenize.h"

#include <stdlib.h>
#include <string.h>
#ifdef FSDPGEN_UTF8PROC
#include <utf8proc.h>
#endif

/* Bytes of the character at the start of s; 0: it is not legal. */
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

/* Bytes of the white space character at the start of s, in a legal text; 0: it is not
 * white space. */
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

/* Python's white space is Unicode's and four separators. */
static bool is_separator(char c)
{
    return c >= 0x1c && c <= 0x1f;
}

const char *tok_strip(const char *s, size_t *bytes)
{
    size_t n = *bytes, step;

    while ((step = tok_space_begin(s, n)) > 0 || (n > 0 && is_separator(*s))) {
        step = step > 0 ? step : 1;
        s += step;
        n -= step;
    }
    while ((step = tok_space_end(s, n)) > 0 || (n > 0 && is_separator(s[n - 1])))
        n -= step > 0 ? step : 1;
    *bytes = n;
    return s;
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

enum { STRETCH_BYTES = 4096 };
static const utf8proc_option_t form_c = UTF8PROC_STABLE | UTF8PROC_COMPOSE;

static int class_of(utf8proc_int32_t c)
{
    return c < 0x300 ? 0 : utf8proc_get_property(c)->combining_class;
}

/* The text before a character that always starts a unit, and the text from it on,
 * normalise separately. Such a character is not a mark, and does not extend what is
 * before it visually either: Unicode's grapheme clusters never separate characters that
 * compose. */
static bool begins_unit(const char *s, size_t n)
{
    utf8proc_int32_t c;

    if ((unsigned char)s[0] < 0x80)
        return true;
    if (((unsigned char)s[0] & 0xC0) == 0x80 ||
        utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &c) < 0)
        return false;
    switch (utf8proc_get_property(c)->boundclass) {
    case UTF8PROC_BOUNDCLASS_OTHER:
    case UTF8PROC_BOUNDCLASS_CONTROL:
    case UTF8PROC_BOUNDCLASS_L:
    case UTF8PROC_BOUNDCLASS_LV:
    case UTF8PROC_BOUNDCLASS_LVT:
    case UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC:
        return true;
    default:
        return false;
    }
}

size_t tok_nfc_cut(const char *s, size_t n)
{
    size_t at = n;

    while (at > 0 && (at == n || !begins_unit(s + at, n - at)))
        at--;
    return at;
}

/* Limits the memory for a text of any length. */
static size_t stretch(const char *s, size_t n)
{
    size_t at = STRETCH_BYTES;

    while (at < n && !begins_unit(s + at, n - at))
        at++;
    return at < n ? at : n;
}

/* ---- one stretch: decompose, order the marks, compose ---------------------------- */

typedef struct Points {
    utf8proc_int32_t *c;
    size_t n, cap;
} Points;

/* Sorts marks by class, stable. utf8proc's own way is quadratic in their number, and a
 * text may consist of marks. */
static void order_marks(utf8proc_int32_t *c, size_t n, Points *spare)
{
    size_t from[256] = {0}, sum = 0;

    spare->c = tok_grow(spare->c, &spare->cap, n, sizeof *spare->c);
    memcpy(spare->c, c, n * sizeof *c);
    for (size_t i = 0; i < n; i++)
        from[class_of(c[i])]++;
    for (int k = 0; k < 256; k++) {
        const size_t count = from[k];

        from[k] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        c[from[class_of(spare->c[i])]++] = spare->c[i];
}

static void order_all(Points *p, Points *spare)
{
    for (size_t at = 0, end; at < p->n; at = end + 1) {
        bool ordered = true;
        int before = 0, class;

        for (end = at; end < p->n && (class = class_of(p->c[end])) != 0; end++) {
            ordered = ordered && before <= class;
            before = class;
        }
        if (!ordered)
            order_marks(p->c + at, end - at, spare);
    }
}

/* p: the characters of s, each decomposed. */
static utf8proc_ssize_t take_apart(Points *p, const char *s, size_t n)
{
    int boundary = UTF8PROC_BOUNDCLASS_START;

    p->n = 0;
    for (size_t at = 0; at < n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t got = utf8proc_iterate((const utf8proc_uint8_t *)s + at,
                                                (utf8proc_ssize_t)(n - at), &c);

        if (got < 0)
            return got;
        at += (size_t)got;
        for (;;) {
            p->c = tok_grow(p->c, &p->cap, p->n + 4, sizeof *p->c);
            got = utf8proc_decompose_char(
                c, p->c + p->n, (utf8proc_ssize_t)(p->cap - p->n), form_c, &boundary);
            if (got <= (utf8proc_ssize_t)(p->cap - p->n))
                break;
            p->c = tok_grow(p->c, &p->cap, p->n + (size_t)got, sizeof *p->c);
        }
        if (got < 0)
            return got;
        p->n += (size_t)got;
    }
    return 0;
}

bool tok_nfc(TokText *out, const char *s, size_t n, char *error)
{
    Points p = {0}, spare = {0};
    utf8proc_ssize_t got = 0;

    for (size_t at = 0, len; got >= 0 && at < n; at += len) {
        len = stretch(s + at, n - at);
        if (tok_is_nfc(s + at, len)) {
            tok_append(out, s + at, len);
            continue;
        }
        got = take_apart(&p, s + at, len);
        if (got < 0)
            break;
        order_all(&p, &spare);
        p.c = tok_grow(p.c, &p.cap, p.n + 1, sizeof *p.c); /* it ends with a NUL */
        got = utf8proc_reencode(p.c, (utf8proc_ssize_t)p.n, form_c);
        if (got >= 0)
            tok_append(out, (const char *)p.c, (size_t)got);
    }
    free(p.c);
    free(spare.c);
    if (got < 0)
        snprintf(error, TOK_ERROR_BYTES, "NFC: %s", utf8proc_errmsg(got));
    return got >= 0;
}

bool tok_nfc_place(TokPlace *p, size_t at, size_t *place, char *error)
{
    size_t unit = at;

    while (unit > p->at && (unit == p->n || !begins_unit(p->s + unit, p->n - unit)))
        unit--;
    p->scratch.n = 0;
    if (!tok_nfc(&p->scratch, p->s + p->at, unit - p->at, error))
        return false;
    p->at = unit;
    p->normal += p->scratch.n;
    p->scratch.n = 0;
    if (!tok_nfc(&p->scratch, p->s + unit, at - unit, error))
        return false;
    *place = p->normal + p->scratch.n;
    return true;
}

#else

size_t tok_nfc_cut(const char *s, size_t n)
{
    (void)s;
    return n;
}

bool tok_nfc(TokText *out, const char *s, size_t n, char *error)
{
    (void)out, (void)s, (void)n;
    snprintf(error, TOK_ERROR_BYTES, "this fsdpgen was built without utf8proc");
    return false;
}

bool tok_nfc_place(TokPlace *p, size_t at, size_t *place, char *error)
{
    (void)place;
    return tok_nfc(&p->scratch, p->s, at, error);
}

#endif
