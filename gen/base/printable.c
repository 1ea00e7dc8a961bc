/* SPDX-License-Identifier: Apache-2.0 */
/* printable.c: foreign text for a terminal. In: any bytes: names of files and tokens,
 * source lines, messages of a template. Out: the same bytes if they are printable, and
 * `\xHH` if a terminal might obey, reorder or hide them. So no text can move a cursor,
 * forge a second message or end a log line. Everything that fsdpgen prints of its input
 * goes through here. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

/* Characters that are invisible and change how others look: zero-width characters and
 * joiners, directions and their overrides, line and paragraph separators, the plane of
 * tags. */
static bool is_hidden(uint32_t c)
{
    return c < 0xA0 || c == 0xAD || c == 0x61C || (c >= 0x200B && c <= 0x200F) ||
           (c >= 0x2028 && c <= 0x202F) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
           (c >= 0xFFF9 && c <= 0xFFFB) || (c >= 0xE0000 && c <= 0xE0FFF);
}

/* Bytes of the legal non-ASCII UTF-8 character at the start of s if it is printable; else
 * 0. */
static size_t shown_character(const unsigned char *s, size_t n)
{
    const size_t more = s[0] >= 0xF0 ? 3 : s[0] >= 0xE0 ? 2 : 1;
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    uint32_t c = s[0] & (0x3Fu >> more);

    if (s[0] < 0xC2 || s[0] >= 0xF5 || more >= n)
        return 0;
    for (size_t k = 1; k <= more; k++) {
        if ((s[k] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (s[k] & 0x3F);
    }
    if (c < least[more] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000) || is_hidden(c))
        return 0;
    return more + 1;
}

size_t printable_step(const char *s, size_t n, char to[PRINTABLE_BYTES], size_t *bytes)
{
    const unsigned char c = (unsigned char)*s;
    const size_t shown =
        c < 0x80 ? (c >= 32 && c < 127) : shown_character((const unsigned char *)s, n);

    *bytes = shown;
    if (shown > 0) {
        memcpy(to, s, shown);
        return shown;
    }
    if (c == '\t') {
        *to = ' ';
        *bytes = 1;
    } else {
        snprintf(to, PRINTABLE_BYTES, "\\x%02x", c);
        *bytes = 4;
    }
    return 1;
}

void text_printable(Text *t, const char *s, size_t n, bool lines)
{
    char c[PRINTABLE_BYTES];
    size_t bytes;

    for (size_t at = 0; at < n;) {
        if (lines && s[at] == '\n') {
            text_add(t, "\n        ", 9);
            at++;
            continue;
        }
        at += printable_step(s + at, n - at, c, &bytes);
        text_add(t, c, bytes);
    }
}

const char *printable_text(Gen *g, const char *s, size_t n)
{
    Text t = {.g = g};

    text_add(&t, "", 0);
    text_printable(&t, s, n, false);
    return t.s;
}

size_t printable_fit(const char *s, size_t most, size_t *columns)
{
    size_t n = 0;

    for (*columns = 0; s[n]; n++) {
        const bool begins = ((unsigned char)s[n] & 0xC0) != 0x80; /* a character */

        if (begins && *columns == most)
            break;
        *columns += begins;
    }
    return n;
}

void print_printable(FILE *f, const char *s, size_t n)
{
    char c[PRINTABLE_BYTES];
    size_t bytes;

    for (size_t at = 0; at < n;) {
        at += printable_step(s + at, n - at, c, &bytes);
        fwrite(c, 1, bytes, f);
    }
}

void vprint_line(FILE *f, const char *prefix, const char *fmt, va_list ap)
{
    enum { MOST = 4000 };
    char text[MOST];
    int n = vsnprintf(text, sizeof text, fmt, ap);

    fputs(prefix, f);
    print_printable(f, text, n < 0 ? 0 : n < MOST ? (size_t)n : MOST - 1);
    fputs(n < MOST ? "\n" : "...\n", f);
}

void print_line(FILE *f, const char *prefix, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vprint_line(f, prefix, fmt, ap);
    va_end(ap);
}
