/* SPDX-License-Identifier: MIT-0 */
/* rt_known.c: the cache of digests. In: the identities of files: device, inode, size,
 * times of modification and of change. Out: their digests, if an earlier run computed
 * them.
 *
 * 1. The cache is $XDG_CACHE_HOME/fsdpgen/digests, or ~/.cache/fsdpgen/digests: one line
 *    per digest, which ends with a hash of the line. Lines are appended; the last one for
 *    a file counts. Damaged lines are reported and removed.
 * 2. A cache that belongs to another user, that others may write, or that has a second
 *    name, is neither read nor written; the same holds if its folder is another user's,
 *    or a link. The folder is opened once, and its files by that descriptor, so that
 *    it cannot be exchanged meanwhile.
 * 3. The time of change (ctime) is part of the key: programs cannot set it, so an edit
 *    that restores the time of modification finds no match. A file that changed a moment
 *    ago, or that has unwritten pages, is not cached, because its next change may get the
 *    same time. */
#define _GNU_SOURCE
#include "job/rt_door.h"
#include "job/rt_file.h"
#include "data/rt_digest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WORDS = 7, /* on a line: device, inode, bytes, modified, changed, hashed, digest */
    LINE_BYTES = 8 + WORDS * 17 + 17, /* "digest1 ", the words, the hash, a newline */
    MOST_BYTES = 16 << 20             /* of the cache: then it starts over */
};
static const char head[] = "digest1 ";

static bool is_alone(const struct stat *s)
{
    return s->st_uid == geteuid() && (s->st_mode & 022) == 0;
}

/* The folder of the cache, opened, and its path for messages. */
typedef struct Cache {
    int folder; /* -1: there is no place for one, or not this user's alone */
    char path[RT_PATH_BYTES];
} Cache;
static const char file_name[] = "digests";

static Cache open_cache(void)
{
    struct stat s;
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool own = base != NULL && base[0] == '/';
    Cache c = {.folder = -1};
    if ((!own && (home == NULL || home[0] != '/')) ||
        snprintf(c.path, sizeof c.path, "%s%s", own ? base : home,
                 own ? "" : "/.cache") >= (int)sizeof c.path - 32)
        return c;
    mkdir(c.path, 0700);
    const int above = open(c.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    strcat(c.path, "/fsdpgen/digests");
    if (above < 0)
        return c;
    mkdirat(above, "fsdpgen", 0700);
    c.folder = openat(above, "fsdpgen", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    close(above);
    if (c.folder >= 0 && (fstat(c.folder, &s) != 0 || !is_alone(&s))) {
        close(c.folder);
        c.folder = -1;
    }
    return c;
}

static void close_cache(const Cache *c)
{
    if (c->folder >= 0)
        close(c->folder);
}

/* Does the open file belong to this user alone? */
static bool is_own(int fd, struct stat *s)
{
    return fstat(fd, s) == 0 && S_ISREG(s->st_mode) && s->st_nlink == 1 && is_alone(s);
}

/* ---- lines ----------------------------------------------------------------------- */

static void words_of(const RtMapped *m, uint64_t *w)
{
    w[0] = m->is.device;
    w[1] = m->is.inode;
    w[2] = (uint64_t)m->is.bytes;
    w[3] = (uint64_t)m->is.modified_ns;
    w[4] = (uint64_t)m->is.changed_ns;
    w[5] = (uint64_t)m->bytes; /* of a mask, only the bits */
}

static void write_line(char *line, const uint64_t *w)
{
    int n = snprintf(line, LINE_BYTES + 1, "%s", head);
    for (int i = 0; i < WORDS; i++) {
        n += snprintf(line + n, (size_t)(LINE_BYTES + 1 - n), "%016llx ",
                      (unsigned long long)w[i]);
    }
    snprintf(line + n, (size_t)(LINE_BYTES + 1 - n), "%016llx\n",
             (unsigned long long)rt_hash64(line, (size_t)n, 5));
}

/* Reads LINE_BYTES bytes; false: write_line did not make them. */
static bool read_line(const char *line, uint64_t *w)
{
    char again[LINE_BYTES + 1];
    for (int i = 0; i < WORDS; i++)
        w[i] = strtoull(line + sizeof head - 1 + 17 * i, NULL, 16);
    write_line(again, w);
    return memcmp(line, again, LINE_BYTES) == 0;
}

/* ---- looking up ------------------------------------------------------------------ */

/* The whole cache, to be freed; NULL: there is none, or it must not be read. */
static char *load(const Cache *c, int64_t *bytes)
{
    char error[RT_ERROR_BYTES], *text = NULL;
    struct stat s;
    const int fd =
        openat(c->folder, file_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    if (!is_own(fd, &s)) {
        rt_say(
            "trainer: warning: %s belongs to another user, or others may write it, or it "
            "has a second name, so it is not read: the data are hashed again",
            c->path);
    } else if (s.st_size > 0 && s.st_size <= MOST_BYTES) {
        text = calloc((size_t)s.st_size + 1, 1);
        if (text != NULL && !rt_file_read(fd, c->path, text, s.st_size, 0, error)) {
            free(text);
            text = NULL;
        }
        *bytes = s.st_size;
    }
    close(fd);
    return text;
}

static int by_words(const void *a, const void *b)
{
    uint64_t x[WORDS], y[WORDS];
    words_of((*(RtKnown *const *)a)->of, x);
    words_of((*(RtKnown *const *)b)->of, y);
    return memcmp(x, y, (WORDS - 1) * sizeof *x);
}

/* Several entries may be one file, named twice. */
static void take(RtKnown **sorted, int n, const uint64_t *w)
{
    const RtMapped m = {.is = {w[0], w[1], (int64_t)w[2], (int64_t)w[3], (int64_t)w[4]},
                        .bytes = (int64_t)w[5]};
    RtKnown is = {.of = &m};
    RtKnown *key = &is;
    RtKnown **at = bsearch(&key, sorted, (size_t)n, sizeof *sorted, by_words);
    while (at != NULL && at > sorted && by_words(at - 1, &key) == 0)
        at--;
    for (; at != NULL && at < sorted + n && by_words(at, &key) == 0; at++) {
        (*at)->digest = w[WORDS - 1];
        (*at)->found = true;
    }
}

/* Moves complete lines to the front; returns the number of others. */
static int sift(char *text, int64_t *bytes, RtKnown **sorted, int n)
{
    char *end = text + *bytes, *to = text;
    int bad = 0;
    for (char *p = text; p < end;) {
        uint64_t w[WORDS];
        char *newline = memchr(p, '\n', (size_t)(end - p));
        const int64_t length = (newline != NULL ? newline + 1 : end) - p;
        if (length == LINE_BYTES && read_line(p, w)) {
            take(sorted, n, w);
            memmove(to, p, LINE_BYTES);
            to += LINE_BYTES;
        } else {
            bad += length > 1; /* a newline precedes each line */
        }
        p += length;
    }
    *bytes = to - text;
    return bad;
}

static void write_anew(const Cache *c, const char *text, int64_t bytes)
{
    char part[64], error[RT_ERROR_BYTES];
    unsigned char random[8] = {0};
    char letters[2 * sizeof random + 1];
    rt_random_bytes(random, sizeof random); /* numbers of processes are not unique */
    rt_hex(random, sizeof random, letters);
    snprintf(part, sizeof part, "%s.%s", file_name, letters);
    const int fd = openat(c->folder, part,
                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    const bool good = rt_file_write(fd, part, text, bytes, 0, error);
    if (close(fd) != 0 || !good || renameat(c->folder, part, c->folder, file_name) != 0)
        unlinkat(c->folder, part, 0);
}

void rt_known_find(RtKnown *files, int n)
{
    int64_t bytes = 0;
    const Cache c = open_cache();
    char *text = c.folder >= 0 ? load(&c, &bytes) : NULL;
    RtKnown **sorted = malloc((size_t)n * sizeof *sorted);
    if (text != NULL && sorted != NULL) {
        for (int i = 0; i < n; i++)
            sorted[i] = &files[i];
        qsort(sorted, (size_t)n, sizeof *sorted, by_words);
        const int bad = sift(text, &bytes, sorted, n);
        if (bad > 0) {
            rt_say(
                "trainer: warning: %s: %d damaged line%s removed; the files are hashed "
                "again",
                c.path, bad, bad == 1 ? "" : "s");
            write_anew(&c, text, bytes);
        }
    }
    free(sorted);
    free(text);
    close_cache(&c);
}

/* ---- keeping --------------------------------------------------------------------- */

/* A second change within one tick of the filesystem's clock would have the same time. */
static bool is_settled(const RtMapped *m)
{
    const int64_t tick_ns = 2000000000;
    return m->clean && m->is.changed_ns < m->opened_ns - tick_ns &&
           m->is.modified_ns < m->opened_ns - tick_ns;
}

/* Opens it for appending; -1: there is none, or it is not this user's alone. Does not
 * wait for a pipe. */
static int open_own(const Cache *c, struct stat *s)
{
    const int fd =
        openat(c->folder, file_name,
               O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd >= 0 && !is_own(fd, s)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void append(const Cache *c, const char *line, size_t bytes)
{
    struct stat s;
    int fd = open_own(c, &s);
    if (fd >= 0 && s.st_size + LINE_BYTES >= MOST_BYTES) {
        close(fd);
        write_anew(c, "", 0);
        fd = open_own(c, &s);
    }
    if (fd >= 0) {
        if (write(fd, line, bytes) != (ssize_t)bytes) {
            /* A truncated line is damaged: see above. */
        }
        close(fd);
    }
}

void rt_known_add(const RtMapped *m, uint64_t digest)
{
    char line[LINE_BYTES + 2] = "\n"; /* after a torn line */
    uint64_t w[WORDS];
    if (!is_settled(m))
        return;
    words_of(m, w);
    w[WORDS - 1] = digest;
    write_line(line + 1, w);
    const Cache c = open_cache();
    if (c.folder >= 0)
        append(&c, line, LINE_BYTES + 1);
    close_cache(&c);
}
