/* SPDX-License-Identifier: Apache-2.0 */
/* page_write.c: writes a page to a file. In: the whole page; a path. Out: the file, or
 * why not. An existing file stays until the page is on disk; and it is replaced only if
 * it is one of the same command's, or with --force; but never if it is an input. */
#define _GNU_SOURCE /* O_CLOEXEC with C11 */
#include "base/take_name.h"
#include "report/html.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(const char *path, const char *what, int e)
{
    print_line(stderr, "fsdpgen: error: ", "%s: %s: %s", path, what, strerror(e));
    return EXIT_DIAG;
}

static bool is_page(const char *path, const char *begins)
{
    char head[128];
    const size_t wanted = strlen(begins);
    FILE *f = fopen(path, "re");
    const size_t n = f ? fread(head, 1, wanted, f) : 0;

    const bool empty = f && n == 0 && feof(f); /* not one that cannot be read */

    if (f)
        fclose(f);
    return empty || (n == wanted && !memcmp(head, begins, n));
}

/* A device or a pipe is written directly. */
static int write_stream(const char *path, const char *page, size_t bytes)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    const bool good = fd >= 0 && file_write_all(fd, page, bytes);
    const int e = errno;

    if (fd >= 0 && close(fd) != 0 && good)
        return failed(path, "cannot be written", errno);
    return good ? EXIT_DONE : failed(path, "cannot be written", e);
}

/* Writes the page to disk beside its name; 0 or an errno. */
static int write_part(const char *part, mode_t mode, const char *page, size_t bytes)
{
    const int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    int e = fd < 0 ? errno : 0;

    if (fd < 0)
        return e;
    if (!file_write_all(fd, page, bytes) || (fsync(fd) != 0 && errno != EINVAL))
        e = errno;
    if (close(fd) != 0 && !e)
        e = errno;
    if (e)
        unlink(part);
    return e;
}

/* The target of a link, even if it does not exist yet; else the name itself. */
static const char *followed(Gen *g, const char *path)
{
    char *real = realpath(path, NULL), to[PATH_MAX];
    const char *slash = strrchr(path, '/'), *s = real ? gen_strdup(g, real) : path;
    const ssize_t n = real ? -1 : readlink(path, to, sizeof to);
    const int folder = n > 0 && slash && to[0] != '/' ? (int)(slash - path + 1) : 0;

    free(real);
    return n < 0 ? s : gen_printf(g, "%.*s%.*s", folder, path, (int)n, to);
}

int page_check(Gen *g, const char *path, const PageOf *of, bool force)
{
    const char *to = followed(g, path);
    struct stat s;

    if (stat(to, &s) != 0 || !(S_ISREG(s.st_mode) || S_ISDIR(s.st_mode)))
        return EXIT_DONE;
    if (S_ISDIR(s.st_mode))
        return failed(path, "cannot be written", EISDIR);
    if (input_is(&s)) {
        print_line(stderr, "fsdpgen: error: ", "%s: " INPUT_TEXT, path);
        print_line(stderr, "  help: ", "name another file");
        return EXIT_DIAG;
    }
    if (force || is_page(to, of->begins))
        return EXIT_DONE;
    print_line(stderr, "fsdpgen: error: ", "%s: the file is there and is not %s", path,
               of->what);
    print_line(stderr, "  help: ", "name another one, or replace it with --force");
    return EXIT_DIAG;
}

int page_write(Gen *g, const char *path, const PageOf *of, const Text *text, bool force)
{
    const char *to = followed(g, path),
               *part = gen_printf(g, "%s.%ld.part", to, (long)getpid());
    struct stat s;
    const bool there = stat(to, &s) == 0;
    int e = page_check(g, path, of, force);

    if (e != EXIT_DONE)
        return e;
    if (there && !S_ISREG(s.st_mode))
        return write_stream(path, text->s, text->len);
    e = write_part(part, there ? s.st_mode & 0777 : 0666, text->s, text->len);
    if (e)
        return failed(path, "cannot be written", e);
    if (there ? rename(part, to) != 0 : !take_name(AT_FDCWD, part, AT_FDCWD, to)) {
        e = errno;
        unlink(part);
        return failed(path, "cannot get its name", e);
    }
    return EXIT_DONE;
}
