/* SPDX-License-Identifier: MIT-0 */
/* rt_data.c: tokens from files. In: --data files or patterns, and their masks. Out: token
 * and target ids of any global sample, checked against the vocabulary.
 *
 * A file named *.bin is llm.c's: 256 little-endian 32-bit words of header (magic 20240520
 * version 1: 16-bit ids; magic 20240801 version 7: 32-bit ids; then how many), then the
 * ids; its size must be what the header says. Any other file is text, a byte is a token.
 * Files are mapped, positions are 64-bit.
 *
 * A trainer with loss.mask reads X.mask beside each file X: a bit for each token, low bit
 * first, 1 where the token is to be predicted. Where it is 0 the token still is input for
 * those after it, but as a target its id is -1: no loss, no gradient, not counted. Bits
 * after the last token's are 0. A pattern does not match the masks of other files.
 *
 * Where samples are packed documents, a token document_end is the last of its document.
 * The target beside it, the first token of the next document, is masked: nothing of the
 * one tells of the other. A sample begins a document: what is left of the one it cuts.
 *
 * Samples are windows of seq + 1 tokens, seq apart, within one file; files in the order
 * given, the matches of a pattern in byte order. Global sample g of the run belongs to
 * epoch g / samples and lies at place bijection(epoch, g mod samples): a four-round
 * Feistel network on the smallest even number of bits that holds `samples`, applied until
 * it lands inside. So every epoch has every sample once, whatever the number of ranks.
 * Round function: the low bits of word 0 of Philox(seed, site DATA, right half + 2^32
 * round, stream epoch). */
#define _GNU_SOURCE
#include "rt_philox.h"
#include "rt_private.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Mapped {
    const unsigned char *at; /* NULL: not mapped */
    int64_t bytes;
} Mapped;

typedef struct TokenFile {
    char *name;
    Mapped map, mask;
    const unsigned char *at; /* first token */
    int width;               /* bytes of a token: 1, 2, 4 */
    int64_t tokens, first_sample, samples;
} TokenFile;

struct RtTokens {
    TokenFile *file;
    int files;
    int64_t samples, seq, vocab;
    bool masked;      /* each file has a mask */
    bool unused_mask; /* some file has one, but nobody reads it */
};

enum { HEADER_BYTES = 1024 };
static const char mask_suffix[] = ".mask";

static int32_t word_at(const unsigned char *p)
{
    return (int32_t)(p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                     (uint32_t)p[3] << 24);
}

static bool has_suffix(const char *s, const char *suffix)
{
    const size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

__attribute__((format(printf, 2, 3))) static bool wrong(char *error, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(error, RT_ERROR_BYTES, fmt, ap);
    va_end(ap);
    return false;
}

/* What the mapped bytes hold. */
static bool recognise(TokenFile *f, char *error)
{
    const unsigned char *p = f->map.at;
    f->at = p;
    f->width = 1;
    f->tokens = f->map.bytes;
    if (!has_suffix(f->name, ".bin")) {
        return true;
    }
    if (f->map.bytes < HEADER_BYTES) {
        return wrong(error, "%s: %lld bytes are too short for the header of 1024",
                     f->name, (long long)f->map.bytes);
    }
    const int32_t magic = word_at(p), version = word_at(p + 4);
    const int64_t count = word_at(p + 8);
    if (magic == 20240520 && version == 1) {
        f->width = 2;
    } else if (magic == 20240801 && version == 7) {
        f->width = 4;
    } else {
        return wrong(
            error,
            "%s: magic %d version %d; llm.c writes magic 20240520 version 1 "
            "(16-bit ids) or 20240801 version 7 (32-bit ids). Text must not be named "
            "*.bin",
            f->name, magic, version);
    }
    if (count < 0 || HEADER_BYTES + count * f->width != f->map.bytes) {
        return wrong(error,
                     "%s: the header counts %lld tokens, so %lld bytes, but the file "
                     "has %lld%s",
                     f->name, (long long)count,
                     (long long)(HEADER_BYTES + count * f->width),
                     (long long)f->map.bytes,
                     count > 0 && HEADER_BYTES + count * f->width > f->map.bytes
                         ? ": was it cut off?"
                         : "");
    }
    f->at = p + HEADER_BYTES;
    f->tokens = count;
    return true;
}

static bool map_file(Mapped *m, const char *name, char *error)
{
    const int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat s;
    if (fd < 0) {
        return wrong(error, "%s: %s", name, strerror(errno));
    }
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_size == 0) {
        close(fd);
        return wrong(error, "%s: %s", name,
                     S_ISREG(s.st_mode) ? "the file is empty" : "not a regular file");
    }
    void *map = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED) {
        return wrong(error, "%s: cannot be mapped: %s", name, strerror(errno));
    }
    *m = (Mapped){map, s.st_size};
    return true;
}

static void unmap(const Mapped *m)
{
    if (m->at != NULL) {
        munmap((void *)(uintptr_t)m->at, (size_t)m->bytes);
    }
}

/* X.mask, which has a bit for each token of X, or why it cannot be. */
static bool map_mask(TokenFile *f, const char *name, char *error)
{
    const int64_t bytes = (f->tokens + 7) / 8;
    if (access(name, F_OK) != 0) {
        return wrong(error,
                     "%s: %s; the trainer's loss.mask wants it beside %s: a bit for each "
                     "token, low bit first, 1 where the token is to be predicted",
                     name, strerror(errno), f->name);
    }
    if (!map_file(&f->mask, name, error)) {
        return false;
    }
    if (f->mask.bytes != bytes) {
        return wrong(error,
                     "%s: %s has %lld tokens, so %lld bytes of mask, a bit for each "
                     "token, but the mask has %lld",
                     name, f->name, (long long)f->tokens, (long long)bytes,
                     (long long)f->mask.bytes);
    }
    if (f->tokens % 8 != 0 && f->mask.at[bytes - 1] >> f->tokens % 8 != 0) {
        return wrong(error,
                     "%s: a bit after that of the last token, %lld, is not 0: is the "
                     "low bit of a byte its first token's?",
                     name, (long long)(f->tokens - 1));
    }
    return true;
}

static bool find_mask(RtTokens *d, TokenFile *f, char *error)
{
    if (f->tokens == 0) {
        return true; /* no bits */
    }
    const size_t bytes = strlen(f->name) + sizeof mask_suffix;
    char *name = malloc(bytes);
    bool good = true;
    if (name == NULL) {
        return wrong(error, "out of memory");
    }
    snprintf(name, bytes, "%s%s", f->name, mask_suffix);
    if (d->masked) {
        good = map_mask(f, name, error);
    } else {
        d->unused_mask = d->unused_mask || access(name, F_OK) == 0;
    }
    free(name);
    return good;
}

static bool add_file(RtTokens *d, const char *name, char *error)
{
    TokenFile *more = realloc(d->file, (size_t)(d->files + 1) * sizeof *more);
    if (more == NULL) {
        return wrong(error, "out of memory");
    }
    d->file = more;
    TokenFile *f = &d->file[d->files++];
    *f = (TokenFile){.name = strdup(name)};
    if (f->name == NULL) {
        return wrong(error, "out of memory");
    }
    if (!map_file(&f->map, name, error) || !recognise(f, error) ||
        !find_mask(d, f, error)) {
        return false;
    }
    f->first_sample = d->samples;
    f->samples = f->tokens > 0 ? (f->tokens - 1) / d->seq : 0;
    d->samples += f->samples;
    return true;
}

/* X.mask where there is an X. */
static bool is_mask(const char *name)
{
    if (!has_suffix(name, mask_suffix)) {
        return false;
    }
    char *data = strndup(name, strlen(name) - strlen(mask_suffix));
    const bool found = data != NULL && access(data, F_OK) == 0;
    free(data);
    return found;
}

/* glob sorts by locale. */
static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool add_pattern(RtTokens *d, const char *pattern, char *error)
{
    glob_t g;
    const int rc = glob(pattern, GLOB_NOSORT, NULL, &g);
    if (rc != 0) {
        return wrong(error, "--data %s: %s", pattern,
                     rc == GLOB_NOMATCH ? "no such file" : "cannot be searched");
    }
    qsort(g.gl_pathv, g.gl_pathc, sizeof *g.gl_pathv, by_bytes);
    const int before = d->files;
    bool good = true;
    for (size_t i = 0; i < g.gl_pathc && good; i++) {
        good = is_mask(g.gl_pathv[i]) || add_file(d, g.gl_pathv[i], error);
    }
    globfree(&g);
    if (good && d->files == before) {
        return wrong(error, "--data %s: these are masks; name the files beside them",
                     pattern);
    }
    return good;
}

RtTokens *rt_tokens_open(const RtTrainer *t, const char *const *patterns, int n_patterns,
                         char *error)
{
    if (n_patterns == 0) {
        wrong(error, "no data: give --data FILE (text, or llm.c's .bin)");
        return NULL;
    }
    RtTokens *d = calloc(1, sizeof *d);
    if (d == NULL) {
        wrong(error, "out of memory");
        return NULL;
    }
    d->seq = t->seq_tokens;
    d->vocab = t->vocab;
    d->masked = t->masked;
    bool good = true;
    for (int i = 0; i < n_patterns && good; i++) {
        good = add_pattern(d, patterns[i], error);
    }
    if (good && d->samples == 0) {
        good = wrong(error,
                     "%s has %lld tokens%s; a sample is a sequence of %lld and the "
                     "token after it, from one file",
                     d->file[0].name, (long long)d->file[0].tokens,
                     d->files > 1 ? ", and no file more" : "", (long long)d->seq);
    }
    if (!good) {
        rt_tokens_close(d);
        return NULL;
    }
    return d;
}

void rt_tokens_close(RtTokens *d)
{
    for (int i = 0; i < d->files; i++) {
        unmap(&d->file[i].map);
        unmap(&d->file[i].mask);
        free(d->file[i].name);
    }
    free(d->file);
    free(d);
}

int64_t rt_tokens_samples(const RtTokens *d)
{
    return d->samples;
}

bool rt_tokens_unused_mask(const RtTokens *d)
{
    return d->unused_mask;
}

static bool lies_in(const Mapped *m, uintptr_t address)
{
    const uintptr_t at = (uintptr_t)m->at;
    return address >= at && address < at + (uintptr_t)m->bytes;
}

bool rt_tokens_hold(const RtTokens *d, uintptr_t address)
{
    for (int i = 0; i < d->files; i++) {
        if (lies_in(&d->file[i].map, address) || lies_in(&d->file[i].mask, address)) {
            return true;
        }
    }
    return false;
}

/* ---- the order --------------------------------------------------------------------- */

int64_t rt_tokens_place(int64_t samples, uint64_t seed, int64_t index)
{
    const uint32_t epoch = (uint32_t)(index / samples);
    int half = 1;
    while (half < 31 && (INT64_C(1) << 2 * half) < samples) {
        half++;
    }
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t x = (uint64_t)(index % samples);
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

/* ---- reading ----------------------------------------------------------------------- */

static int64_t token_at(const TokenFile *f, int64_t i)
{
    const unsigned char *p = f->at + i * f->width;
    if (f->width == 1) {
        return p[0];
    }
    if (f->width == 2) {
        return p[0] | p[1] << 8;
    }
    return (int64_t)((uint32_t)word_at(p));
}

/* Is token i to be predicted? */
static bool is_target(const TokenFile *f, int64_t i)
{
    return f->mask.at == NULL || (f->mask.at[i / 8] >> i % 8 & 1) != 0;
}

/* The last file that begins at or before the sample; those without samples come before
 * it. */
static const TokenFile *file_of(const RtTokens *d, int64_t sample)
{
    int lo = 0, hi = d->files - 1;
    while (lo < hi) {
        const int mid = (lo + hi + 1) / 2;
        if (d->file[mid].first_sample <= sample) {
            lo = mid;
        } else {
            hi = mid - 1;
        }
    }
    return &d->file[lo];
}

bool rt_tokens_read(const RtTokens *d, int64_t sample, int32_t *tokens, int32_t *targets,
                    char *error)
{
    const TokenFile *f = file_of(d, sample);
    const int64_t from = (sample - f->first_sample) * d->seq;
    for (int64_t i = 0; i <= d->seq; i++) {
        const int64_t id = token_at(f, from + i);
        if (id >= d->vocab) {
            return wrong(error,
                         "%s: token %lld is %lld, but the model's vocabulary has %lld "
                         "ids, 0 to %lld",
                         f->name, (long long)(from + i), (long long)id,
                         (long long)d->vocab, (long long)(d->vocab - 1));
        }
        if (i < d->seq) {
            tokens[i] = (int32_t)id;
        }
        if (i > 0) {
            targets[i - 1] = is_target(f, from + i) ? (int32_t)id : -1;
        }
    }
    return true;
}

/* starts: where in the sequence the document of each token begins. */
static void cut_documents(const RtTrainer *t, const int32_t *tokens, int32_t *targets,
                          int32_t *starts)
{
    int32_t start = 0;
    for (int64_t i = 0; i < t->seq_tokens; i++) {
        starts[i] = start;
        if (tokens[i] == t->document_end) {
            targets[i] = -1;
            start = (int32_t)i + 1;
        }
    }
}

void rt_load_micro_batch(Rt *rt, int64_t index)
{
    const RtTrainer *t = rt->trainer;
    RtState *st = rt->state;
    const RtStage to = rt_stage(rt);
    const int64_t samples = rt_tokens_samples(st->tokens);
    st->micro_batch = index;
    for (int64_t b = 0; b < t->micro_batch; b++) {
        const int64_t global = (st->step * t->micro_batches + index) * t->micro_batch + b;
        const int64_t at = rt_tokens_place(samples, (uint64_t)st->flags.seed, global);
        char error[RT_ERROR_BYTES];
        if (!rt_tokens_read(st->tokens, at, to.tokens + b * t->seq_tokens,
                            to.targets + b * t->seq_tokens, error)) {
            rt_fail(rt, RT_EXIT_ERROR, "%s", error);
        }
        if (t->packed) {
            cut_documents(t, to.tokens + b * t->seq_tokens,
                          to.targets + b * t->seq_tokens, to.starts + b * t->seq_tokens);
        }
    }
    for (int64_t i = 0; i < t->micro_batch * t->seq_tokens; i++) {
        st->targets += to.targets[i] >= 0;
    }
    st->tokens_done += t->micro_batch * t->seq_tokens;
    rt_stage_close(rt);
}
