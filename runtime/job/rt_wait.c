/* SPDX-License-Identifier: MIT-0 */
/* rt_wait.c: clocks, waiting for other ranks, leaving when one of them failed.
 *
 * In: conditions over the shared page. Out: control, once a condition may have changed. A
 * rank that waits spins for a while and then sleeps on the bell, a futex that every
 * publication rings. No wake-up is lost: the sleeper announces itself, reads the bell,
 * looks once more, and sleeps only if the bell still has that value; the publisher
 * publishes, rings, and only then looks for sleepers, all in one total order. A rank
 * killed between publishing and waking does no harm either: sleeps are bounded. Nothing
 * here is owned by a rank, so no death leaves a lock behind. */
#define _GNU_SOURCE
#include "job/rt_file.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int64_t rt_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double rt_clock(void)
{
    return 1e-9 * (double)rt_clock_ns();
}

bool rt_due_soon(const Rt *rt)
{
    const int64_t from = atomic_load(&rt->state->gives_way_ns);
    return atomic_load(&rt->state->shared->signal) != 0 ||
           (from > 0 && rt_clock_ns() >= from);
}

void rt_ring(RtShared *shared)
{
    atomic_fetch_add(&shared->bell, 1);
    if (atomic_load(&shared->sleepers) > 0)
        syscall(SYS_futex, &shared->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void rt_pause(const Rt *rt, int tries, bool (*ready)(const void *ctx), const void *ctx)
{
    RtShared *shared = rt->state->shared;
    if (atomic_load_explicit(&shared->abort, memory_order_relaxed) != 0)
        rt_leave(rt);
    if (tries < rt->state->spins) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
        return;
    }
    atomic_fetch_add(&shared->sleepers, 1);
    const uint32_t bell = atomic_load(&shared->bell);
    if (!ready(ctx)) {
        const struct timespec longest = {0, 50000000};
        syscall(SYS_futex, &shared->bell, FUTEX_WAIT, bell, &longest, NULL, 0);
    }
    atomic_fetch_sub(&shared->sleepers, 1);
}

static void nap(void)
{
    const struct timespec t = {0, 10000000};
    nanosleep(&t, NULL);
}

/* Who tells may be another thread of this process, which would end with it. */
static void hear_out(const RtShared *shared)
{
    for (int i = 0; i < 1000 && atomic_load(&shared->telling) > 0; i++)
        nap();
}

void rt_leave(const Rt *rt)
{
    const RtShared *shared = rt->state->shared;
    for (int i = 0; i < 500 && atomic_load(&shared->abort) == 0; i++)
        nap();
    hear_out(shared);
    const int code = atomic_load(&shared->abort);
    _exit(code != 0 ? code : RT_EXIT_ERROR);
}

/* torchrun names a file for this and prints what it finds there. */
void rt_report_error(const char *text)
{
    const char *path = getenv("TORCHELASTIC_ERROR_FILE");
    FILE *f = path != NULL && path[0] != '\0' ? fopen(path, "we") : NULL;
    if (f == NULL)
        return;
    fprintf(f, "{\"message\": ");
    rt_json_put(f, text);
    fprintf(f, ", \"timestamp\": %lld}\n", (long long)time(NULL));
    fclose(f);
}

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

void rt_fail(const Rt *rt, int code, const char *fmt, ...)
{
    RtShared *shared = rt->state->shared;
    char text[1200];
    const int head = snprintf(text, sizeof text, "[rank %d] error: ", rt->rank);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + head, sizeof text - (size_t)head, fmt, ap);
    va_end(ap);
    int none = 0;
    atomic_fetch_add(&shared->telling, 1); /* nobody kills it before it has */
    if (atomic_compare_exchange_strong(&shared->abort, &none, code)) {
        rt_say("%s", text); /* all others end in silence */
        rt_report_error(text);
        fflush(stdout);
        rt_ring(shared);
    } else {
        code = none;
    }
    atomic_fetch_sub(&shared->telling, 1);
    hear_out(shared);
    _exit(code);
}
