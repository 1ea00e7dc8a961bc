/* SPDX-License-Identifier: Apache-2.0 */
/* cache_io.c, preloaded into a trainer: its calls that write files below CACHE_DIR are
 * counted from 0; at CACHE_AT the process is killed (CACHE_ACT=kill), or the call fails
 * as on a full disk. CACHE_COUNT=FILE: their number goes there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int below(int fd)
{
    char link[64], path[1024];
    const char *dir = getenv("CACHE_DIR");
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    return n > 0 && dir && !strncmp(path, dir, strlen(dir));
}

/* Does this call fail? */
static int fails(int fd)
{
    static long calls;
    const char *at = getenv("CACHE_AT"), *act = getenv("CACHE_ACT");
    const char *count = getenv("CACHE_COUNT");
    const long call = below(fd) ? calls++ : -1;
    FILE *f = call >= 0 && count ? fopen(count, "w") : NULL;

    if (f) {
        fprintf(f, "%ld\n", calls);
        fclose(f);
    }
    if (call < 0 || !at || atol(at) != call)
        return 0;
    if (act && !strcmp(act, "kill"))
        kill(getpid(), SIGKILL);
    errno = ENOSPC;
    return 1;
}

int openat(int folder, const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list ap;

    if (flags & O_CREAT) {
        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
        if (fails(folder))
            return -1;
    }
    return REAL(openat)(folder, path, flags, mode);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    return fails(fd) ? -1 : REAL(pwrite)(fd, data, bytes, at);
}

int fsync(int fd)
{
    return fails(fd) ? -1 : REAL(fsync)(fd);
}

int renameat(int folder, const char *from, int to, const char *name)
{
    return fails(folder) ? -1 : REAL(renameat)(folder, from, to, name);
}
