/* SPDX-License-Identifier: Apache-2.0 */
/* io_fault.c, preloaded: something happens at the FAULT_AT'th I/O call on files, and is
 * said on stderr. FAULT_HOW:
 *   error   it fails with EIO (write: ENOSPC); the default
 *   short   half of a write is written, and the call says so; other calls are not counted
 *   kill    half of a write is written, or nothing is done, and SIGKILL comes
 * FAULT_PARENT=1 counts in the first process only, which is the one that writes the
 * folder, and says at its end how many calls there were. Pipes and terminals are left
 * alone. FAULT_WRITES=FILE: somebody else writes to that file, or makes it, at syncfs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int calls;
static pid_t first;
static enum { ERROR, SHORT, KILL } how;

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("FAULT_HOW");

    first = getpid();
    how = text && !strcmp(text, "kill")    ? KILL
          : text && !strcmp(text, "short") ? SHORT
                                           : ERROR;
}

__attribute__((destructor)) static void end(void)
{
    if (getenv("FAULT_PARENT") && getpid() == first)
        fprintf(stderr, "calls %d\n", calls);
}

/* Is this the call? */
static int is_due(void)
{
    static const char note[] = "fault injected\n";
    const char *at = getenv("FAULT_AT"), *parent = getenv("FAULT_PARENT");

    if (!at || (parent && getpid() != first) || ++calls != atoi(at))
        return 0;
    return syscall(SYS_write, 2, note, sizeof note - 1) > 0;
}

static int fails(int error)
{
    if (how == SHORT || !is_due())
        return 0;
    if (how == KILL)
        syscall(SYS_kill, getpid(), SIGKILL);
    errno = error;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_file(int fd)
{
    struct stat st;

    return REAL(fstat)(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

static mode_t mode_of(int flags, va_list ap)
{
    return flags & O_CREAT ? va_arg(ap, mode_t) : 0;
}

int openat(int dir, const char *path, int flags, ...)
{
    va_list ap;
    mode_t mode;

    va_start(ap, flags);
    mode = mode_of(flags, ap);
    va_end(ap);
    return fails(EIO) ? -1 : REAL(openat)(dir, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    mode_t mode;

    va_start(ap, flags);
    mode = mode_of(flags, ap);
    va_end(ap);
    return fails(EIO) ? -1 : REAL(open)(path, flags, mode);
}

ssize_t write(int fd, const void *data, size_t n)
{
    if (!is_file(fd) || !is_due())
        return REAL(write)(fd, data, n);
    if (how == ERROR) {
        errno = ENOSPC;
        return -1;
    }
    n = (size_t)REAL(write)(fd, data, (n + 1) / 2);
    if (how == KILL)
        syscall(SYS_kill, getpid(), SIGKILL);
    return (ssize_t)n;
}

ssize_t read(int fd, void *data, size_t n)
{
    return is_file(fd) && fails(EIO) ? -1 : REAL(read)(fd, data, n);
}

int close(int fd)
{
    int fault = is_file(fd) && fails(EIO), r = REAL(close)(fd);

    if (fault)
        errno = EIO;
    return fault ? -1 : r;
}

/* CALL(name, parameters, arguments): fails, or is made. */
#define CALL(name, parameters, arguments)                                                \
    int name parameters                                                                  \
    {                                                                                    \
        return fails(EIO) ? -1 : REAL(name) arguments;                                   \
    }
CALL(fstat, (int fd, struct stat *st), (fd, st))
CALL(fstatat, (int dir, const char *path, struct stat *st, int flags),
     (dir, path, st, flags))
CALL(renameat, (int from, const char *a, int to, const char *b), (from, a, to, b))
CALL(renameat2, (int from, const char *a, int to, const char *b, unsigned flags),
     (from, a, to, b, flags))
CALL(unlinkat, (int dir, const char *path, int flags), (dir, path, flags))
CALL(mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode))
CALL(mkdir, (const char *path, mode_t mode), (path, mode))
CALL(rmdir, (const char *path), (path))
CALL(flock, (int fd, int operation), (fd, operation))
CALL(ftruncate, (int fd, off_t bytes), (fd, bytes))
CALL(fsync, (int fd), (fd))

int syncfs(int fd)
{
    const char *path = getenv("FAULT_WRITES");
    int other = path ? REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;

    if (other >= 0) {
        REAL(write)(other, "mine\n", 5);
        REAL(close)(other);
    }
    return fails(EIO) ? -1 : REAL(syncfs)(fd);
}
