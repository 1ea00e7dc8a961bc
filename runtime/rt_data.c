/* SPDX-License-Identifier: MIT-0 */
/* rt_data.c: tokens from files. In: --data files or patterns. Out: token and target ids of any
 * global sample, checked against the vocabulary.
 *
 * Formats, by content: llm.c .bin (magic 20240520 version 1: u16; 20240801 version 7: u32; the
 * header says how many and the file's size must agree); a file named otherwise than .bin is
 * text, a byte is a token. Files are mapped, offsets are 64-bit.
 *
 * Samples are windows of seq + 1 tokens, seq apart, within one file; files in the order given,
 * matches of a pattern sorted. Global sample g of the run lies in epoch g / samples, at place
 * bijection(epoch, g % samples): a four-round Feistel network on the smallest even number of
 * bits that holds `samples`, walked until it lands inside. It knows nothing of ranks. */
#define _GNU_SOURCE
#include "rt_philox.h"
#include "rt_private.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct TokenFile {
    char *name;
    const unsigned char *at;     /* first token */
    int width;                   /* bytes of a token: 1, 2, 4 */
    int64_t tokens, first_sample, samples;
} TokenFile;

struct RtTokens {
    TokenFile *file;
    int files;
    int64_t samples, seq, vocab;
    char message[512];           /* of the last rt_tokens_read that failed */
};

enum { HEADER_BYTES = 1024 };

static int32_t header_word(const unsigned char *p, int i)
{
    p += 4 * i;
    return (int32_t)(p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
}

static bool has_suffix(const char *s, const char *suffix)
{
    const size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

/* Reads the header of a mapped file; false with a message. */
static bool recognise(TokenFile *f, const unsigned char *map, int64_t bytes, char *error,
                      size_t error_bytes)
{
    f->at = map;
    f->width = 1;
    f->tokens = bytes;
    if (!has_suffix(f->name, ".bin"))
        return true;
    if (bytes < HEADER_BYTES) {
        snprintf(error, error_bytes, "%s: %lld bytes are too short for the 1024-byte header",
                 f->name, (long long)bytes);
        return false;
    }
    const int32_t magic = header_word(map, 0), version = header_word(map, 1);
    const int64_t count = header_word(map, 2);
    if (magic == 20240520 && version == 1)
        f->width = 2;
    else if (magic == 20240801 && version == 7)
        f->width = 4;
    else {
        snprintf(error, error_bytes,
                 "%s: magic %d version %d; expected 20240520 version 1 (16-bit ids) or "
                 "20240801 version 7 (32-bit ids)", f->name, magic, version);
        return false;
    }
    if (count < 0 || HEADER_BYTES + count * f->width != bytes) {
        snprintf(error, error_bytes,
                 "%s: the header counts %lld tokens, which makes %lld bytes, but the file has "
                 "%lld", f->name, (long long)count,
                 (long long)(HEADER_BYTES + count * f->width), (long long)bytes);
        return false;
    }
    f->at = map + HEADER_BYTES;
    f->tokens = count;
    return true;
}

static bool open_file(RtTokens *d, const char *name, char *error, size_t error_bytes)
{
    d->file = realloc(d->file, (size_t)(d->files + 1) * sizeof *d->file);
    TokenFile *f = &d->file[d->files];
    memset(f, 0, sizeof *f);
    f->name = strdup(name);
    const int fd = open(name, O_RDONLY | O_CLOEXEC);
    struct stat s;
    if (fd < 0 || fstat(fd, &s) != 0) {
        snprintf(error, error_bytes, "%s: %s", name, strerror(errno));
        return false;
    }
    if (!S_ISREG(s.st_mode) || s.st_size == 0) {
        snprintf(error, error_bytes, "%s: %s", name,
                 S_ISREG(s.st_mode) ? "the file is empty" : "not a regular file");
        close(fd);
        return false;
    }
    void *map = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED) {
        snprintf(error, error_bytes, "%s: cannot map it: %s", name, strerror(errno));
        return false;
    }
    if (!recognise(f, map, s.st_size, error, error_bytes))
        return false;
    f->first_sample = d->samples;
    f->samples = (f->tokens - 1) / d->seq;
    d->samples += f->samples;
    d->files++;
    return true;
}

RtTokens *rt_tokens_open(const RtTrainer *t, const RtFlags *f, char *error, size_t error_bytes)
{
    RtTokens *d = calloc(1, sizeof *d);
    d->seq = t->seq_tokens;
    d->vocab = t->vocab;
    if (f->n_data == 0) {
        snprintf(error, error_bytes, "no data: give --data FILE (text, or llm.c .bin)");
        return NULL;
    }
    for (int i = 0; i < f->n_data; i++) {
        glob_t g;
        const int rc = glob(f->data[i], 0, NULL, &g);
        if (rc != 0) {
            snprintf(error, error_bytes, "--data %s: %s", f->data[i],
                     rc == GLOB_NOMATCH ? "no such file" : "cannot be searched");
            return NULL;
        }
        for (size_t j = 0; j < g.gl_pathc; j++)
            if (!open_file(d, g.gl_pathv[j], error, error_bytes))
                return NULL;
        globfree(&g);
    }
    if (d->samples == 0) {
        snprintf(error, error_bytes,
                 "the data is too short: no file has the %lld tokens of one sequence and the "
                 "token after it (%s has %lld)", (long long)(d->seq + 1), d->file[0].name,
                 (long long)d->file[0].tokens);
        return NULL;
    }
    return d;
}

int64_t rt_tokens_samples(const RtTokens *d)
{
    return d->samples;
}

/* ---- the order --------------------------------------------------------------------------------- */

static int64_t bijection(int64_t samples, uint64_t seed, uint32_t epoch, int64_t place)
{
    int half = 1;
    while (half < 31 && (INT64_C(1) << 2 * half) < samples)
        half++;
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t x = (uint64_t)place;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 4; round++) {
            const RtWords r = rt_philox(seed, RT_SITE_DATA, right | round << 32, epoch);
            const uint64_t next = left ^ (r.w[0] & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)samples);
    return (int64_t)x;
}

static int64_t token_at(const TokenFile *f, int64_t i)
{
    const unsigned char *p = f->at + i * f->width;
    if (f->width == 1)
        return p[0];
    if (f->width == 2)
        return p[0] | p[1] << 8;
    return (int64_t)((uint32_t)header_word(p, 0));
}

const char *rt_tokens_read(const RtTokens *d, int64_t index, int64_t seed, int32_t *tokens,
                           int32_t *targets)
{
    const int64_t sample = bijection(d->samples, (uint64_t)seed,
                                     (uint32_t)(index / d->samples), index % d->samples);
    int lo = 0, hi = d->files - 1;
    while (lo < hi) { /* the last file that begins at or before the sample and has any */
        const int mid = (lo + hi + 1) / 2;
        if (d->file[mid].first_sample <= sample)
            lo = mid;
        else
            hi = mid - 1;
    }
    const TokenFile *f = &d->file[lo];
    const int64_t from = (sample - f->first_sample) * d->seq;
    for (int64_t i = 0; i <= d->seq; i++) {
        const int64_t id = token_at(f, from + i);
        if (id >= d->vocab) {
            char *text = (char *)d->message;
            snprintf(text, sizeof d->message,
                     "%s: token %lld is %lld, but the vocabulary has %lld ids (0 to %lld)",
                     f->name, (long long)(from + i), (long long)id, (long long)d->vocab,
                     (long long)(d->vocab - 1));
            return text;
        }
        if (i < d->seq)
            tokens[i] = (int32_t)id;
        if (i > 0)
            targets[i - 1] = (int32_t)id;
    }
    return NULL;
}

void rt_load_micro_batch(Rt *rt, int64_t index)
{
    const RtTrainer *t = rt->trainer;
    RtState *st = rt->state;
    int32_t *tokens = rt_local(rt, t->tokens_offset);
    int32_t *targets = rt_local(rt, t->targets_offset);
    st->micro_batch = index;
    for (int64_t b = 0; b < t->micro_batch; b++) {
        const int64_t g = (st->step * t->micro_batches + index) * t->micro_batch + b;
        const char *wrong = rt_tokens_read(st->tokens, g, st->flags.seed,
                                           tokens + b * t->seq_tokens,
                                           targets + b * t->seq_tokens);
        if (wrong)
            rt_fail(rt, RT_EXIT_ERROR, "%s", wrong);
    }
    st->tokens_done += t->micro_batch * t->seq_tokens;
}
