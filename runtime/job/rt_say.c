/* SPDX-License-Identifier: MIT-0 */
/* rt_say.c: one line to the person at the terminal.
 *
 * In: a format, which may name files and arguments that strangers chose. Out: the line on
 * stderr, with the bytes that a terminal might obey as \xNN. */
#include "job/rt_job.h"

#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Bytes of the character that s begins with if a terminal shows it, else 0: the rules of
 * gen/base/printable.c. What it might obey, reorder or hide does not count as shown. */
static size_t shown_bytes(const unsigned char *s)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    if (s[0] < 0x80)
        return s[0] >= 32 && s[0] < 127;
    if (s[0] < 0xC2 || s[0] >= 0xF5)
        return 0;
    const size_t more = s[0] >= 0xF0 ? 3 : s[0] >= 0xE0 ? 2 : 1;
    uint32_t c = s[0] & (0x3Fu >> more);
    for (size_t k = 1; k <= more; k++) {
        if ((s[k] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (s[k] & 0x3F);
    }
    const bool hidden = c < 0xA0 || c == 0xAD || c == 0x61C ||
                        (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202F) ||
                        (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
                        (c >= 0xFFF9 && c <= 0xFFFB) || (c >= 0xE0000 && c <= 0xE0FFF);
    const bool legal = c >= least[more] && c <= 0x10FFFF && (c < 0xD800 || c >= 0xE000);
    return legal && !hidden ? more + 1 : 0;
}

/* Names of files and arguments are strangers' text: no byte of them moves a cursor or
 * forges a second line. Returns the length of `to`. */
static size_t make_printable(char *to, size_t room, const char *from)
{
    size_t n = 0;
    while (*from != '\0' && n + 5 < room) {
        const size_t shown = shown_bytes((const unsigned char *)from);
        if (shown > 0) {
            memcpy(to + n, from, shown);
            n += shown;
            from += shown;
        } else {
            n += (size_t)snprintf(to + n, room - n, "\\x%02x", (unsigned char)*from++);
        }
    }
    return n;
}

void rt_say(const char *fmt, ...)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    char text[2048], line[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t bytes = make_printable(line, sizeof line, text);
    line[bytes++] = '\n';
    if (poll(&p, 1, 1000) != 0) {
        fflush(stderr);
        ssize_t done = write(STDERR_FILENO, line, bytes);
        (void)done; /* there is no other place to say so */
    }
}
