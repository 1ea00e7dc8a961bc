/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_read.c: reads a file from start to end into our own memory. In: its name. Out:
 * its bytes in stretches; for a text, whole characters of legal UTF-8. Each byte is read
 * once, so concurrent writes cannot confuse us; a file that changed meanwhile is an error
 * at its end, before any output gets its name. */
#include "tokenize/tokenize.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 18 };

static bool fails(const TokFile *f, char *error, const char *why)
{
    snprintf(error, TOK_ERROR_BYTES, "%.300s: %.150s", f->name, why);
    return false;
}

bool tok_file_open(TokFile *f, const char *name, bool text, char *error)
{
    char begin[4];
    ssize_t got;

    *f = (TokFile){.name = name, .text = text, .line = 1};
    f->fd = file_open(name, &f->mark);
    if (f->fd < 0)
        return fails(f, error, file_problem(errno));
    got = pread(f->fd, begin, sizeof begin, 0);
    f->is_zstd = tok_is_zstd(name, begin, got > 0 ? (size_t)got : 0);
    f->zstd = f->is_zstd ? tok_zstd_open() : NULL;
    return true;
}

void tok_file_close(TokFile *f)
{
    if (f->fd >= 0)
        close(f->fd);
    tok_zstd_close(f->zstd);
    f->zstd = NULL;
    f->fd = -1;
}

static int64_t lines_in(const char *s, size_t n)
{
    int64_t lines = 0;

    for (size_t i = 0; i < n; i++)
        lines += s[i] == '\n';
    return lines;
}

/* The legal beginning of s[0, n): the rest is the start of a character whose end comes
 * next, or illegal. */
static bool check_text(TokFile *f, const char *s, size_t n, bool ended, size_t *good,
                       char *error)
{
    *good = tok_utf8_valid(s, n);
    f->line += lines_in(s, *good);
    f->checked += (int64_t)*good;
    if (n - *good > sizeof f->rest || (ended && *good < n)) {
        snprintf(error, TOK_ERROR_BYTES,
                 "%.300s:%lld: byte %lld is not UTF-8; a tokenizer.json is for text",
                 f->name, (long long)f->line, (long long)f->checked);
        return false;
    }
    f->n_rest = n - *good;
    memcpy(f->rest, s + *good, f->n_rest);
    return true;
}

static ssize_t read_plain(TokFile *f, char *to, char *error)
{
    ssize_t got;

    do
        got = read(f->fd, to, READ_BYTES);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        fails(f, error, file_problem(errno));
    f->bytes += got > 0 ? got : 0;
    return got;
}

bool tok_file_read(TokFile *f, TokText *to, char *error)
{
    size_t n = f->n_rest, good;
    ssize_t got;

    to->s = tok_grow(to->s, &to->cap, to->n + sizeof f->rest + READ_BYTES, 1);
    memcpy(to->s + to->n, f->rest, n);
    got = f->is_zstd ? tok_zstd_read(f, to->s + to->n + n, READ_BYTES, error)
                     : read_plain(f, to->s + to->n + n, error);
    if (got < 0)
        return false;
    f->ended = got == 0;
    if (f->bytes > f->mark.bytes ||
        (f->ended && (f->bytes < f->mark.bytes || file_changed(f->fd, &f->mark))))
        return fails(f, error, "another program changed it while it was read");
    good = n += (size_t)got;
    if (f->text && !check_text(f, to->s + to->n, n, f->ended, &good, error))
        return false;
    to->n += good;
    return true;
}
