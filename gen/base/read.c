/* SPDX-License-Identifier: Apache-2.0 */
/* read.c: foreign files. In: a path. Out: the bytes, read once into our own memory before
 * anything looks at them: what is checked is what is used, even if another program
 * changes the file meanwhile. Its size and times of change are compared at the end. If
 * they differ, the text may be half old and half new, and is not used. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ONE_READ_BYTES = 1 << 20 };

static FileMark mark_of(const struct stat *st)
{
    return (FileMark){.bytes = st->st_size,
                      .changed = {st->st_mtim.tv_sec, st->st_mtim.tv_nsec},
                      .status = {st->st_ctim.tv_sec, st->st_ctim.tv_nsec}};
}

/* The kernel's clock of file times ticks every few milliseconds; a later change within
 * the same tick would not show. Is the tick of this file's last change over? */
static bool is_settled(const struct stat *st)
{
    struct timespec now;

#ifdef CLOCK_REALTIME_COARSE
    if (clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0)
        return true;
#else
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return true;
    now.tv_nsec -= now.tv_nsec % 20000000;
#endif
    return st->st_ctim.tv_sec != now.tv_sec
               ? st->st_ctim.tv_sec < now.tv_sec || st->st_ctim.tv_sec > now.tv_sec + 1
               : st->st_ctim.tv_nsec < now.tv_nsec;
}

int file_open(const char *path, FileMark *mark)
{
    const struct timespec moment = {0, 1000000};
    const int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* so no FIFO hangs */
    struct stat st;
    int e = 0;

    if (fd < 0)
        return -1;
    for (int i = 0; !e; i++)
        if (fstat(fd, &st) != 0)
            e = errno;
        else if (!S_ISREG(st.st_mode))
            e = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        else if (st.st_size <= ONE_READ_BYTES || i == 50 || is_settled(&st))
            break;
        else
            nanosleep(&moment, NULL);
    if (e) {
        close(fd);
        errno = e;
        return -1;
    }
    input_opened(&st);
    *mark = mark_of(&st);
    return fd;
}

bool file_changed(int fd, const FileMark *mark)
{
    struct stat st;
    FileMark now;

    if (fstat(fd, &st) != 0)
        return true;
    now = mark_of(&st);
    return memcmp(&now, mark, sizeof now) != 0;
}

/* Reads exactly `bytes`, and checks that the file ends there. */
static int read_all(int fd, char *to, size_t bytes)
{
    size_t n = 0;

    while (n <= bytes) { /* the byte for the NUL shows a file that grew */
        const ssize_t got = read(fd, to + n, bytes + 1 - n);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    to[bytes] = '\0';
    return n == bytes ? 0 : ESTALE;
}

int file_read(const char *path, size_t most, const char **text, size_t *bytes)
{
    FileMark mark;
    const int fd = file_open(path, &mark);
    char *p = NULL;
    int e = 0;

    if (fd < 0)
        return errno;
    if ((uint64_t)mark.bytes > most) {
        e = EFBIG;
    } else {
        p = malloc((size_t)mark.bytes + 1);
        if (!p)
            gen_out_of_memory((size_t)mark.bytes + 1);
        e = read_all(fd, p, (size_t)mark.bytes);
        if (!e && file_changed(fd, &mark))
            e = ESTALE;
    }
    close(fd);
    if (e) {
        free(p);
        return e;
    }
    *text = p;
    *bytes = (size_t)mark.bytes;
    return 0;
}

const char *file_problem(int e)
{
    return e == EFBIG    ? "too large"
           : e == EINVAL ? "not a regular file"
           : e == EISDIR ? "it is a folder"
           : e == ENOENT ? "there is no such file"
           : e == EACCES ? "you may not read it"
           : e == ESTALE ? "it changed while it was read"
                         : strerror(e);
}

int read_whole_file(const char *path, const char **text, size_t *bytes)
{
    return file_read(path, MAX_SOURCE_BYTES, text, bytes);
}
