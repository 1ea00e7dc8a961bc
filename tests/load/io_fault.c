/* SPDX-License-Identifier: Apache-2.0 */
/* io_fault.c, preloaded: the FAULT_AT'th I/O call on files fails with EIO (write:
 * ENOSPC), and says so on stderr. Pipes and terminals are left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int calls;

static int fails(int error)
{
    static const char note[] = "fault injected\n";
    const char *at = getenv("FAULT_AT");

    if (!at || ++calls != atoi(at))
        return 0;
    if (syscall(SYS_write, 2, note, sizeof note - 1) < 0)
        return 0;
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
    return is_file(fd) && fails(ENOSPC) ? -1 : REAL(write)(fd, data, n);
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

int fstat(int fd, struct stat *st)
{
    return fails(EIO) ? -1 : REAL(fstat)(fd, st);
}

int renameat(int from, const char *a, int to, const char *b)
{
    return fails(EIO) ? -1 : REAL(renameat)(from, a, to, b);
}

int unlinkat(int dir, const char *path, int flags)
{
    return fails(EIO) ? -1 : REAL(unlinkat)(dir, path, flags);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
    return fails(EIO) ? -1 : REAL(mkdirat)(dir, path, mode);
}

int mkdir(const char *path, mode_t mode)
{
    return fails(EIO) ? -1 : REAL(mkdir)(path, mode);
}
