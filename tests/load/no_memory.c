/* SPDX-License-Identifier: Apache-2.0 */
/* no_memory.so: the machine's memory ends after FAIL_AFTER allocations of a process and
 * what it had before its fork. COUNT_TO: a file that gets the number of them, by the
 * process that has made most. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static atomic_long made;
static long most = -1;

__attribute__((constructor)) static void begin(void)
{
    const char *s = getenv("FAIL_AFTER");

    most = s ? atol(s) : 0;
}

__attribute__((destructor)) static void end(void)
{
    const char *name = getenv("COUNT_TO");
    char text[32];
    int n = snprintf(text, sizeof text, "%ld\n", atomic_load(&made));
    int fd = name ? open(name, O_WRONLY | O_APPEND) : -1; /* the child cannot */

    if (fd >= 0) {
        if (write(fd, text, (size_t)n) != n)
            _exit(99);
        close(fd);
    }
}

static int ended(void)
{
    const long n = atomic_fetch_add(&made, 1);

    return most > 0 && n >= most;
}

void *malloc(size_t n)
{
    return ended() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t bytes)
{
    return ended() ? NULL : __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t n)
{
    return ended() ? NULL : __libc_realloc(p, n);
}
