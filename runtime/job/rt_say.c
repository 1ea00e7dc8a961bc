/* SPDX-License-Identifier: MIT-0 */
/* rt_say.c: one line to the person at the terminal.
 *
 * In: a format, which may name files and arguments that strangers chose. Out: the line on
 * stderr, with bytes that a terminal might obey as \xNN; warnings once, whichever rank
 * they are from. A line that is redrawn on the terminal (rt_live.c) is erased first. */
#include "job/rt_job.h"
#include "rt_hash.h"

#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Before ranks are started each process has its own; later all of a machine share one. */
static RtLive own, *live = &own;
static bool colored;

void rt_say_begin(RtLive *shared, bool color)
{
    colored = color;
    if (shared == NULL)
        return;
    for (int i = 0; i < RT_MAX_SAID; i++)
        if (atomic_load(&live->said[i]) != 0)
            atomic_store(&shared->said[i], atomic_load(&live->said[i]));
    live = shared;
}

const char *rt_say_erases(int fd)
{
    if (!atomic_load(&live->on) || !isatty(fd) || tcgetpgrp(fd) != getpgrp())
        return "";
    atomic_store(&live->erased, 1);
    return "\r\033[J";
}

/* Words before which a rank's number may be inserted. */
static const struct Kind {
    const char *word, *color;
    bool once;
} kinds[] = {{"error:", "\033[1;31m", false},
             {"warning:", "\033[1;35m", true},
             {"note:", "\033[1;36m", true}};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* The text after the word; NULL: it is of no kind. */
static const char *find_kind(const char *line, const struct Kind **kind)
{
    const char *at = line;
    if (strncmp(at, "trainer: ", 9) == 0)
        at += 9;
    else if (at[0] == '[')
        at += strcspn(at, "]") + 2;
    if (at > line + strlen(line))
        return NULL;
    for (int i = 0; i < N_KINDS; i++) {
        *kind = &kinds[i];
        if (strncmp(at, kinds[i].word, strlen(kinds[i].word)) == 0)
            return at;
    }
    return NULL;
}

/* The number of a rank does not make a different warning. */
static bool was_said(const char *text)
{
    const char *rank = strstr(text, " [rank "), *rest = NULL;
    const uint64_t head = rt_hash64(text, rank != NULL ? (size_t)(rank - text) : 0, 1);
    if (rank != NULL)
        rest = strchr(rank, ']');
    rest = rest != NULL ? rest : text;
    const uint64_t hash = rt_hash64(rest, strlen(rest), head) | 1;
    for (int i = 0; i < RT_MAX_SAID; i++) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&live->said[i], &none, hash))
            return false;
        if (none == hash)
            return live != &own;
    }
    return false;
}

/* Bytes of the first character of s if a terminal displays it, else 0: the rules of
 * gen/base/printable.c. Characters that it might obey, reorder or hide do not count. */
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

size_t rt_say_shown(const char *text)
{
    return shown_bytes((const unsigned char *)text);
}

/* Names of files and arguments are foreign text: no byte of them may move a cursor or
 * forge a second line. Returns the length of `to`. */
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

/* The line with its word colored; returns its length. */
static size_t compose(char *to, size_t room, const char *line)
{
    const struct Kind *kind;
    const char *at = colored ? find_kind(line, &kind) : NULL;
    const int n = at == NULL
                      ? snprintf(to, room, "%s%s\n", rt_say_erases(STDERR_FILENO), line)
                      : snprintf(to, room, "%s%.*s%s%s\033[0m%s\n",
                                 rt_say_erases(STDERR_FILENO), (int)(at - line), line,
                                 kind->color, kind->word, at + strlen(kind->word));
    return (size_t)n < room ? (size_t)n : room;
}

void rt_say(const char *fmt, ...)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    char text[2048], shown[4096], line[sizeof shown + 64];
    const struct Kind *kind;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    shown[make_printable(shown, sizeof shown, text)] = '\0';
    if (find_kind(shown, &kind) != NULL && kind->once && was_said(shown))
        return;
    const size_t bytes = compose(line, sizeof line, shown);
    if (poll(&p, 1, 1000) != 0) {
        fflush(stderr);
        ssize_t done = write(STDERR_FILENO, line, bytes);
        (void)done; /* there is nowhere else to report it */
    }
}
