/* SPDX-License-Identifier: MIT-0 */
/* rt_wait.c: clocks, waiting for other ranks, leaving when one of them failed.
 *
 * In: conditions over the shared page. Out: control, once a condition may have changed.
 *
 * 1. A rank that waits spins for a while and then sleeps on the bell, a futex that every
 *    publication rings.
 * 2. No wake-up is lost: the sleeper announces itself, reads the bell, checks once more,
 *    and sleeps only if the bell still has that value. The publisher publishes, rings,
 *    and only then looks for sleepers. All of this is in one total order.
 * 3. A rank killed between publishing and waking does no harm, because sleeps are
 *    bounded.
 * 4. No rank owns anything here, so no death leaves a lock behind. */
#define _GNU_SOURCE
#include "job/rt_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* The failing rank may be another thread of this process, which would end with it. */
static void hear_out(const RtShared *shared)
{
    for (int i = 0; i < 1000 && atomic_load(&shared->telling) > 0; i++)
        nap();
}

/* The failing rank may still write a line that its reader takes late. If it has died or
 * hangs, a watcher sets `abort`. */
void rt_leave(const Rt *rt)
{
    const RtShared *shared = rt->state->shared;
    while (atomic_load(&shared->abort) == 0)
        nap();
    hear_out(shared);
    _exit(atomic_load(&shared->abort));
}

/* Opens the file that torchrun names for this, in a folder that it makes for each start
 * of a rank, so that it does not exist or is empty. Anything else is not for this: it is
 * not overwritten, nor is a pipe or a device opened. */
static FILE *open_error_file(void)
{
    const char *path = rt_join_is_torchrun() ? getenv("TORCHELASTIC_ERROR_FILE") : NULL;
    struct stat s;
    if (path == NULL ||
        (lstat(path, &s) == 0 ? !S_ISREG(s.st_mode) || s.st_size > 0 : errno != ENOENT))
        return NULL;
    const int fd = open(
        path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    FILE *f = fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size == 0
                  ? fdopen(fd, "a")
                  : NULL;
    if (f == NULL && fd >= 0)
        close(fd);
    return f;
}

void rt_report_error(const char *text)
{
    FILE *f = open_error_file();
    if (f == NULL)
        return;
    fprintf(f, "{\"message\": ");
    rt_json_put(f, text);
    fprintf(f, ", \"timestamp\": %lld}\n", (long long)time(NULL));
    fclose(f);
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
    if (shared == NULL) { /* --dry-run, before there are ranks */
        rt_say("%s", text);
        _exit(code);
    }
    int none = 0;
    atomic_fetch_add(&shared->telling, 1); /* so that it is not killed before that */
    if (atomic_compare_exchange_strong(&shared->abort, &none, code)) {
        rt_say("%s", text); /* all others end silently */
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
