/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_write.c: a token file of llm.c's, and its mask beside it, by the process that
 * reads nothing of strangers'. In: their bytes. Out: the files. They have no name until
 * they are whole (O_TMPFILE), so nothing is left behind by whatever ends this program;
 * where the filesystem cannot do that, they have one that signals and errors remove. */
#define _GNU_SOURCE
#include "tokenize.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, HEADER_BYTES = 1024 };

typedef struct Out {
    int fd;
    char *path;          /* what it is to become */
    char part[PATH_MAX]; /* what it is now; "": nothing has a name */
    unsigned char *buffer;
    size_t n;
} Out;

struct TokWriter {
    Out data, mask; /* mask.fd -1: none */
    char *stale;    /* where a mask would lie: of another file with this name */
    int width;      /* bytes of a token */
    bool force;
};

/* What a signal must remove. */
static const char *volatile parts[2];

static void on_signal(int number)
{
    for (int i = 0; i < 2; i++)
        if (parts[i])
            unlink(parts[i]);
    signal(number, SIG_DFL);
    raise(number);
}

static bool failed(char *error, const char *path, const char *what)
{
    snprintf(error, TOK_ERROR_BYTES, "%.200s: %s%s", path, what, strerror(errno));
    return false;
}

/* The folder of a path, to be freed. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) + (slash == path) : 1;

    return memcpy(gen_calloc(n + 1, 1), slash ? path : ".", n);
}

static bool out_open(Out *o, const char *path, const char *suffix, int number,
                     char *error)
{
    const size_t bytes = strlen(path) + strlen(suffix) + 1;
    char *folder = folder_of(path);

    o->path = gen_calloc(bytes, 1);
    o->buffer = gen_calloc(BUFFER_BYTES, 1);
    snprintf(o->path, bytes, "%s%s", path, suffix);
    o->fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (o->fd < 0 &&
        (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT)) {
        const int n =
            snprintf(o->part, sizeof o->part, "%s.%ld.part", o->path, (long)getpid());

        if (n < (int)sizeof o->part) {
            o->fd = open(o->part, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
            parts[number] = o->fd >= 0 ? o->part : NULL;
        } else {
            errno = ENAMETOOLONG;
        }
    }
    free(folder);
    return o->fd >= 0 || failed(error, o->path, "");
}

static bool out_flush(Out *o, char *error)
{
    for (size_t at = 0; at < o->n;) {
        const ssize_t n = write(o->fd, o->buffer + at, o->n - at);

        if (n < 0 && errno != EINTR)
            return failed(error, o->path, "cannot be written: ");
        at += n > 0 ? (size_t)n : 0;
    }
    o->n = 0;
    return true;
}

static void out_close(Out *o)
{
    if (o->fd >= 0)
        close(o->fd);
    if (o->part[0])
        unlink(o->part);
    free(o->path);
    free(o->buffer);
    *o = (Out){.fd = -1};
}

TokWriter *tok_writer_open(const char *path, int width, bool mask, bool force,
                           char *error)
{
    TokWriter *w = gen_calloc(1, sizeof *w);
    const int ends[] = {SIGINT, SIGTERM, SIGHUP};

    w->data.fd = w->mask.fd = -1;
    w->width = width;
    w->force = force;
    w->stale = gen_calloc(strlen(path) + sizeof ".mask", 1);
    strcat(strcpy(w->stale, path), ".mask");
    if (!force && (access(path, F_OK) == 0 || access(w->stale, F_OK) == 0)) {
        snprintf(error, TOK_ERROR_BYTES, "%.200s: exists; --force replaces it",
                 access(path, F_OK) == 0 ? path : w->stale);
        tok_writer_abandon(w);
        return NULL;
    }
    for (int i = 0; i < 3; i++)
        if (signal(ends[i], on_signal) == SIG_IGN)
            signal(ends[i], SIG_IGN);
    if (!out_open(&w->data, path, "", 0, error) ||
        (mask && !out_open(&w->mask, path, ".mask", 1, error))) {
        tok_writer_abandon(w);
        return NULL;
    }
    memset(w->data.buffer, 0, HEADER_BYTES); /* the header is known at the end */
    w->data.n = HEADER_BYTES;
    return w;
}

bool tok_writer_add(TokWriter *w, bool mask, const char *s, size_t n, char *error)
{
    Out *o = mask ? &w->mask : &w->data;

    while (n > 0) {
        const size_t room = BUFFER_BYTES - o->n, part = n < room ? n : room;

        memcpy(o->buffer + o->n, s, part);
        o->n += part;
        s += part;
        n -= part;
        if (o->n == BUFFER_BYTES && !out_flush(o, error))
            return false;
    }
    return true;
}

/* ---- the end --------------------------------------------------------------------------
 */

static bool name_it(Out *o, bool force, char *error)
{
    char from[64], spare[PATH_MAX];

    if (o->part[0]) {
        if (!force && access(o->path, F_OK) == 0) {
            errno = EEXIST;
            return failed(error, o->path, "");
        }
        if (rename(o->part, o->path) != 0)
            return failed(error, o->path, "");
        o->part[0] = '\0';
        return true;
    }
    snprintf(from, sizeof from, "/proc/self/fd/%d", o->fd);
    if (linkat(AT_FDCWD, from, AT_FDCWD, o->path, AT_SYMLINK_FOLLOW) == 0)
        return true;
    if (errno != EEXIST || !force)
        return failed(error, o->path, "");
    if (snprintf(spare, sizeof spare, "%s.%ld.part", o->path, (long)getpid()) >=
        (int)sizeof spare) {
        errno = ENAMETOOLONG;
        return failed(error, o->path, "");
    }
    unlink(spare);
    if (linkat(AT_FDCWD, from, AT_FDCWD, spare, AT_SYMLINK_FOLLOW) != 0)
        return failed(error, o->path, "");
    if (rename(spare, o->path) != 0) {
        failed(error, o->path, "");
        unlink(spare);
        return false;
    }
    return true;
}

static bool write_header(TokWriter *w, int64_t tokens, char *error)
{
    const uint32_t words[3] = {w->width == 2 ? 20240520 : 20240801, w->width == 2 ? 1 : 7,
                               (uint32_t)tokens};
    unsigned char header[12];

    for (int i = 0; i < 12; i++)
        header[i] = (unsigned char)(words[i / 4] >> 8 * (i % 4));
    return pwrite(w->data.fd, header, sizeof header, 0) == (ssize_t)sizeof header ||
           failed(error, w->data.path, "cannot be written: ");
}

static bool sync_folder(const char *path, char *error)
{
    char *folder = folder_of(path);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool good = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);

    if (!good)
        failed(error, folder, "");
    if (fd >= 0)
        close(fd);
    free(folder);
    return good;
}

/* The mask first: a mask without its file harms nobody, and a file with another's mask
 * does. So an old mask goes before its file does: where that fails, the file has none. */
bool tok_writer_commit(TokWriter *w, int64_t tokens, char *error)
{
    const bool mask = w->mask.fd >= 0;

    if (!out_flush(&w->data, error) || !write_header(w, tokens, error) ||
        (mask && !out_flush(&w->mask, error)))
        return false;
    if (fsync(w->data.fd) != 0 || (mask && fsync(w->mask.fd) != 0))
        return failed(error, w->data.path, "cannot be written: ");
    if (mask && !name_it(&w->mask, w->force, error))
        return false;
    if (!mask && unlink(w->stale) != 0 && errno != ENOENT)
        return failed(error, w->stale, "cannot be removed: ");
    if (!name_it(&w->data, w->force, error)) {
        if (mask)
            unlink(w->mask.path); /* of no file */
        return false;
    }
    if (!sync_folder(w->data.path, error))
        return false;
    tok_writer_abandon(w); /* what has its name stays */
    return true;
}

void tok_writer_abandon(TokWriter *w)
{
    out_close(&w->data);
    out_close(&w->mask);
    parts[0] = parts[1] = NULL;
    free(w->stale);
    free(w);
}
