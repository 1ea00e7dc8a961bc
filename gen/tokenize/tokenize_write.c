/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_write.c: writes a token file in llm.c's format and its mask beside it, in the
 * process that reads no foreign input. In: their bytes. Out: the files. They have no name
 * until they are complete (O_TMPFILE). On filesystems without that, and for a moment when
 * an old file is replaced, they are called *.part; signals and errors remove these,
 * SIGKILL leaves them behind.
 *
 * 1. Two files cannot get their names at once. So the mask says which tokens it belongs
 *    to (runtime/data/rt_mask.h), and trainers refuse a pair from two runs, whenever this
 *    program was stopped.
 * 2. The digest of the tokens is computed from the chunks as they are written.
 * 3. Without --force nothing is ever replaced; with it, old files stay until the new ones
 *    have their names. */
#define _GNU_SOURCE
#include "tokenize/tokenize.h"
#include "base/take_name.h"
#include "data/rt_mask.h" /* from the runtime: the header of a mask */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = RT_DIGEST_CHUNK_BYTES, HEADER_BYTES = 1024, PART_TRIES = 100 };

typedef struct Out {
    int fd;
    char *path;                    /* its future name */
    char part[PATH_MAX];           /* its current name; "": it has none */
    bool named;                    /* it has its own name */
    bool old;                      /* part is the replaced file, removed in the end */
    const char *volatile *removed; /* so that a signal handler can remove it */
    unsigned char *buffer;
    size_t n;
    uint64_t digest; /* of the written chunks, without the one that is kept */
    int64_t chunks;
    unsigned char *first; /* the chunk that is kept */
    size_t first_bytes;
} Out;

struct TokWriter {
    Out data, mask; /* mask.fd -1: none; its path is where an old one may be */
    int width;      /* bytes of a token */
    bool force;
};

/* What a signal handler must remove. */
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

static const int ends[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGXCPU,
                           SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE};

/* Signals wait while names change. */
static void hold_signals(bool on)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        sigaddset(&set, ends[i]);
    sigprocmask(on ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static bool make_file(void *with, const char *name)
{
    return (*(int *)with = open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666)) >=
           0;
}

static bool link_file(void *with, const char *name)
{
    return linkat(AT_FDCWD, with, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
}

static bool move_file(void *with, const char *name)
{
    return take_name(AT_FDCWD, with, AT_FDCWD, name);
}

/* Gives something a name beside the file's, which signals and errors remove. Existing
 * files with such names are kept. */
static bool part_make(Out *o, bool make(void *with, const char *name), void *with)
{
    bool made = false;

    for (int i = 0; i < PART_TRIES && !made; i++) {
        if (snprintf(o->part, sizeof o->part, "%s.%ld-%d.part", o->path, (long)getpid(),
                     i) >= (int)sizeof o->part) {
            errno = ENAMETOOLONG;
            break;
        }
        made = make(with, o->part);
        if (!made && errno != EEXIST)
            break;
    }
    if (made)
        *o->removed = o->part;
    else
        o->part[0] = '\0';
    return made;
}

static void out_path(Out *o, const char *path, const char *suffix, int number)
{
    const size_t bytes = strlen(path) + strlen(suffix) + 1;

    *o = (Out){.fd = -1, .removed = &parts[number], .path = gen_calloc(bytes, 1)};
    snprintf(o->path, bytes, "%s%s", path, suffix);
}

static bool out_open(Out *o, char *error)
{
    char *folder = folder_of(o->path);

    o->buffer = gen_calloc(BUFFER_BYTES, 1);
    hold_signals(true);
    o->fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (o->fd < 0 &&
        (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT))
        part_make(o, make_file, &o->fd);
    hold_signals(false);
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

/* Writes a full buffer, or the last chunk of a file. begins: the file has a header that
 * is known only at the end, so its first chunk is kept. */
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
    if (o->part[0] && unlink(o->part) != 0)
        fprintf(stderr,
                "fsdpgen: warning: a file that ends in .part cannot be removed: "
                "%s\n",
                strerror(errno));
    free(o->path);
    free(o->buffer);
    free(o->first);
    *o = (Out){.fd = -1};
}

static bool is_there(const Out *o, char *error)
{
    struct stat s;

    if (lstat(o->path, &s) != 0)
        return false;
    snprintf(error, TOK_ERROR_BYTES, "%.200s: exists; --force replaces it", o->path);
    return true;
}

TokWriter *tok_writer_open(const char *path, int width, bool mask, bool force,
                           char *error)
{
    TokWriter *w = gen_calloc(1, sizeof *w);

    w->width = width;
    w->force = force;
    out_path(&w->data, path, "", 0);
    out_path(&w->mask, path, ".mask", 1);
    if (!force && (is_there(&w->data, error) || is_there(&w->mask, error))) {
        tok_writer_abandon(w);
        return NULL;
    }
    signal(SIGXFSZ, SIG_IGN); /* makes the limit an error of write() */
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (signal(ends[i], on_signal) == SIG_IGN)
            signal(ends[i], SIG_IGN);
    if (!out_open(&w->data, error) || (mask && !out_open(&w->mask, error))) {
        tok_writer_abandon(w);
        return NULL;
    }
    memset(w->data.buffer, 0, HEADER_BYTES); /* known only at the end */
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

/* ---- the end --------------------------------------------------------------------- */

static bool name_new(Out *o)
{
    char from[64];

    snprintf(from, sizeof from, "/proc/self/fd/%d", o->fd);
    o->named = o->part[0] ? take_name(AT_FDCWD, o->part, AT_FDCWD, o->path)
                          : link_file(from, o->path);
    return o->named;
}

/* keep: the old file gets the part's name; on filesystems that cannot exchange names it
 * is lost. */
static bool name_over(Out *o, bool keep)
{
    char from[64];

    snprintf(from, sizeof from, "/proc/self/fd/%d", o->fd);
    if (!o->part[0] && !part_make(o, link_file, from))
        return false;
    o->old =
        keep && renameat2(AT_FDCWD, o->part, AT_FDCWD, o->path, RENAME_EXCHANGE) == 0;
    o->named = o->old || rename(o->part, o->path) == 0;
    return o->named;
}

static bool name_it(Out *o, bool force, bool keep, char *error)
{
    if (!name_new(o) && (errno != EEXIST || !force || !name_over(o, keep)))
        return !is_there(o, error) && failed(error, o->path, "");
    if (!o->old)
        o->part[0] = '\0';
    return true;
}

/* Takes its name back. A file that cannot be restored stays where it is. */
static void unname(Out *o)
{
    struct stat named, own;

    if (o->old && !o->named) {
        take_name(AT_FDCWD, o->part, AT_FDCWD, o->path);
        o->part[0] = '\0';
    } else if (o->old) {
        if (renameat2(AT_FDCWD, o->part, AT_FDCWD, o->path, RENAME_EXCHANGE) != 0)
            o->part[0] = '\0';
    } else if (o->named && lstat(o->path, &named) == 0 && fstat(o->fd, &own) == 0 &&
               named.st_dev == own.st_dev && named.st_ino == own.st_ino) {
        unlink(o->path);
    }
    o->old = o->named = false;
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

/* After the bits: which tokens they belong to. */
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

/* The mask gets its name first. A mask without its file is harmless, but a file with
 * another's mask is not, if that mask is only bits. So an old mask is moved aside before
 * its file is replaced. */
static bool name_mask(TokWriter *w, char *error)
{
    Out *o = &w->mask;

    if (o->fd >= 0)
        return name_it(o, w->force, true, error) && sync_folder(o->path, error);
    if (!w->force)
        return !is_there(o, error);
    o->old = part_make(o, move_file, o->path);
    return o->old ? sync_folder(o->path, error)
                  : errno == ENOENT || failed(error, o->path, "cannot be removed: ");
}

static bool name_both(TokWriter *w, char *error)
{
    bool good;

    hold_signals(true);
    good = name_mask(w, error) && name_it(&w->data, w->force, false, error);
    if (!good)
        unname(&w->mask);
    hold_signals(false);
    return good && sync_folder(w->data.path, error);
}

bool tok_writer_commit(TokWriter *w, int64_t tokens, char *error)
{
    const bool mask = w->mask.fd >= 0;

    if (!chunk_flush(&w->data, true, error) || !write_header(w, tokens, error) ||
        (mask && !end_mask(w, tokens, error)))
        return false;
    if (fsync(w->data.fd) != 0 || (mask && fsync(w->mask.fd) != 0))
        return failed(error, w->data.path, "cannot be written: ");
    if (!name_both(w, error))
        return false;
    tok_writer_abandon(w); /* named files stay, replaced ones are removed */
    return true;
}

void tok_writer_abandon(TokWriter *w)
{
    out_close(&w->data);
    out_close(&w->mask);
    parts[0] = parts[1] = NULL;
    free(w);
}
