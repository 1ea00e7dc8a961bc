/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_write.c: a token file of llm.c's, and its mask beside it, by the process that
 * reads nothing of strangers'. In: their bytes. Out: the files. They have no name until
 * they are whole (O_TMPFILE), so nothing is left behind by whatever ends this program;
 * where the filesystem cannot do that, they have one that signals and errors remove.
 *
 * Two files cannot get their names at once. So the mask says which tokens it was made for
 * (runtime/rt_mask.h): a pair of which one half is of another run is refused by trainers,
 * whenever this program was ended. The digest of the tokens is that of the chunks that
 * are written, one at a time. */
#define _GNU_SOURCE
#include "tokenize.h"
#include "../runtime/rt_mask.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = RT_DIGEST_CHUNK_BYTES, HEADER_BYTES = 1024 };

typedef struct Out {
    int fd;
    char *path;                    /* what it is to become */
    char part[PATH_MAX];           /* what it is now; "": nothing has a name */
    const char *volatile *removed; /* so a signal knows */
    unsigned char *buffer;
    size_t n;
    uint64_t digest; /* of the chunks that are written, but for one that is kept */
    int64_t chunks;
    unsigned char *first; /* that one */
    size_t first_bytes;
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

/* The file has this name from now on, which signals and errors remove; or errno. */
static bool part_name(Out *o)
{
    if (snprintf(o->part, sizeof o->part, "%s.%ld.part", o->path, (long)getpid()) >=
        (int)sizeof o->part) {
        o->part[0] = '\0';
        errno = ENAMETOOLONG;
        return false;
    }
    *o->removed = o->part;
    return true;
}

static bool out_open(Out *o, const char *path, const char *suffix, int number,
                     char *error)
{
    const size_t bytes = strlen(path) + strlen(suffix) + 1;
    char *folder = folder_of(path);

    o->removed = &parts[number];
    o->path = gen_calloc(bytes, 1);
    o->buffer = gen_calloc(BUFFER_BYTES, 1);
    snprintf(o->path, bytes, "%s%s", path, suffix);
    o->fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (o->fd < 0 &&
        (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT) &&
        part_name(o)) {
        o->fd = open(o->part, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
        if (o->fd < 0) {
            *o->removed = NULL; /* somebody else's */
            o->part[0] = '\0';
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

/* The buffer is full, or this is its file's last chunk. begins: the file has a header,
 * which is known at the end, so its first chunk is kept. */
static bool chunk_flush(Out *o, bool begins, char *error)
{
    if (o->n == 0)
        return true;
    if (begins && o->chunks == 0) {
        o->first = memcpy(gen_calloc(o->n, 1), o->buffer, o->n);
        o->first_bytes = o->n;
    } else {
        o->digest += rt_digest_chunk(o->buffer, o->n, o->chunks);
    }
    o->chunks++;
    return out_flush(o, error);
}

static void out_close(Out *o)
{
    if (o->fd >= 0)
        close(o->fd);
    if (o->part[0])
        unlink(o->part);
    free(o->path);
    free(o->buffer);
    free(o->first);
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
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error of write() */
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
        if (o->n == BUFFER_BYTES && !chunk_flush(o, !mask, error))
            return false;
    }
    return true;
}

/* ---- the end --------------------------------------------------------------------------
 */

/* Where a file is to be replaced, it has a name of its own for a moment. */
static bool name_it(Out *o, bool force, char *error)
{
    char from[64];

    if (!o->part[0]) {
        snprintf(from, sizeof from, "/proc/self/fd/%d", o->fd);
        if (linkat(AT_FDCWD, from, AT_FDCWD, o->path, AT_SYMLINK_FOLLOW) == 0)
            return true;
        if (errno != EEXIST || !force || !part_name(o))
            return failed(error, o->path, "");
        unlink(o->part);
        if (linkat(AT_FDCWD, from, AT_FDCWD, o->part, AT_SYMLINK_FOLLOW) != 0)
            return failed(error, o->path, "");
    } else if (!force && access(o->path, F_OK) == 0) {
        errno = EEXIST;
        return failed(error, o->path, "");
    }
    if (rename(o->part, o->path) != 0)
        return failed(error, o->path, "");
    *o->removed = NULL;
    o->part[0] = '\0';
    return true;
}

static bool write_header(TokWriter *w, int64_t tokens, char *error)
{
    const uint32_t words[3] = {w->width == 2 ? 20240520 : 20240801, w->width == 2 ? 1 : 7,
                               (uint32_t)tokens};
    unsigned char *header = w->data.first;

    for (int i = 0; i < 12; i++)
        header[i] = (unsigned char)(words[i / 4] >> 8 * (i % 4));
    w->data.digest += rt_digest_chunk(header, w->data.first_bytes, 0);
    return pwrite(w->data.fd, header, 12, 0) == 12 ||
           failed(error, w->data.path, "cannot be written: ");
}

/* Behind the bits: whose they are. */
static bool end_mask(TokWriter *w, int64_t tokens, char *error)
{
    RtMaskTrailer t;

    if (!chunk_flush(&w->mask, false, error))
        return false;
    t = rt_mask_trailer(tokens, HEADER_BYTES + tokens * w->width, w->data.digest,
                        w->mask.digest);
    memcpy(w->mask.buffer, &t, sizeof t);
    w->mask.n = sizeof t;
    return out_flush(&w->mask, error);
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
 * may, where that is bits alone. So an old mask goes, for good, before its file does:
 * where that fails, the file has none. */
static bool name_mask(TokWriter *w, char *error)
{
    if (w->mask.fd >= 0) {
        if (!name_it(&w->mask, w->force, error))
            return false;
    } else if (unlink(w->stale) != 0) {
        return errno == ENOENT || failed(error, w->stale, "cannot be removed: ");
    }
    return sync_folder(w->data.path, error);
}

bool tok_writer_commit(TokWriter *w, int64_t tokens, char *error)
{
    const bool mask = w->mask.fd >= 0;

    if (!chunk_flush(&w->data, true, error) || !write_header(w, tokens, error) ||
        (mask && !end_mask(w, tokens, error)))
        return false;
    if (fsync(w->data.fd) != 0 || (mask && fsync(w->mask.fd) != 0))
        return failed(error, w->data.path, "cannot be written: ");
    if (!name_mask(w, error) || !name_it(&w->data, w->force, error)) {
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
