/* SPDX-License-Identifier: MIT-0 */
/* rt_tokens.c: one file of tokens in a format of other programs. In: its name. Out: the
 * tokens, mapped, after everything that the file says of itself was checked; its mask;
 * its documents.
 *
 *   llmc      256 little-endian 32-bit words of header (magic 20240520 version 1: 16-bit
 *             ids; magic 20240801 version 7: 32-bit ids; then how many), then the ids.
 * Its size must be what the header says. nanogpt   16-bit ids only. It has no magic, so
 * it must be asked for. megatron  X.bin with ids only, X.idx beside it: "MMIDIDX\0\0",
 * u64 version 1, u8 code of a dtype, u64 sequences, u64 bounds of documents, i32 tokens
 * of each sequence, i64 bytes before each, i64 sequences before each document and at the
 * end all. Sequences must follow one another and fill X.bin. text      a byte is a token.
 *
 * By default, *.bin is megatron's if its index lies beside it and llmc's otherwise;
 * anything else is text.
 *
 * X.mask beside a file X: see rt_mask.c. */
#define _GNU_SOURCE
#include "data/rt_tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

const char *const rt_file_formats[RT_FILE_FORMATS] = {"", "text", "llmc", "nanogpt",
                                                      "megatron"};

enum { LLMC_HEADER_BYTES = 1024, INDEX_HEADER_BYTES = 34 };
static const char mask_suffix[] = ".mask", bin_suffix[] = ".bin", index_suffix[] = ".idx";
static const char index_magic[9] = "MMIDIDX\0"; /* and the terminating 0 of the literal */

bool rt_tokens_wrong(char *error, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(error, RT_ERROR_BYTES, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- names ----------------------------------------------------------------------- */

static bool has_suffix(const char *s, const char *suffix)
{
    const size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

/* name without its suffix, if it has that, and with `more`; NULL: out of memory. */
static char *renamed(const char *name, const char *suffix, const char *more)
{
    const size_t kept = strlen(name) - (has_suffix(name, suffix) ? strlen(suffix) : 0);
    const size_t bytes = kept + strlen(more) + 1;
    char *s = malloc(bytes);
    if (s != NULL)
        snprintf(s, bytes, "%.*s%s", (int)kept, name, more);
    return s;
}

static bool exists(const char *name)
{
    return access(name, F_OK) == 0;
}

bool rt_token_file_is_mask(const char *name)
{
    char *data = has_suffix(name, mask_suffix) ? renamed(name, mask_suffix, "") : NULL;
    const bool found = data != NULL && exists(data);
    free(data);
    return found;
}

bool rt_token_file_has_mask(const char *name)
{
    char *mask = renamed(name, "", mask_suffix);
    const bool found = mask != NULL && exists(mask);
    free(mask);
    return found;
}

char *rt_token_file_of_index(const char *name, RtFileFormat format)
{
    if (!has_suffix(name, index_suffix) ||
        (format != RT_FILE_MEGATRON && format != RT_FILE_BY_NAME))
        return NULL;
    char *data = renamed(name, index_suffix, bin_suffix);
    if (data != NULL && format == RT_FILE_BY_NAME && !exists(data)) {
        free(data); /* whatever it is, it is not an index */
        return NULL;
    }
    return data;
}

static RtFileFormat format_by_name(const char *name)
{
    if (!has_suffix(name, bin_suffix))
        return RT_FILE_TEXT;
    char *index = renamed(name, bin_suffix, index_suffix);
    const bool found = index != NULL && exists(index);
    free(index);
    return found ? RT_FILE_MEGATRON : RT_FILE_LLMC;
}

/* ---- bytes ----------------------------------------------------------------------- */

static uint64_t word_at(const unsigned char *p, int bytes)
{
    uint64_t v = 0;
    for (int k = bytes; k-- > 0;)
        v = v << 8 | p[k];
    return v;
}

static int64_t signed_at(const unsigned char *p, int bytes)
{
    const int unused = 64 - 8 * bytes;
    return (int64_t)(word_at(p, bytes) << unused) >> unused;
}

static int64_t nanoseconds(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

static RtIdentity identity(const struct stat *s)
{
    return (RtIdentity){(uint64_t)s->st_dev, (uint64_t)s->st_ino, s->st_size,
                        nanoseconds(&s->st_mtim), nanoseconds(&s->st_ctim)};
}

bool rt_identity_of(int fd, const char *name, RtIdentity *is)
{
    struct stat s;
    if ((fd >= 0 ? fstat(fd, &s) : stat(name, &s)) != 0)
        return false;
    *is = identity(&s);
    return true;
}

bool rt_identity_equal(const RtIdentity *a, const RtIdentity *b)
{
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
           a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns;
}

/* Writes out the changes that other processes made to it in memory. A mapped page that
 * waits to be written may change again without new file times; on tmpfs every page
 * does. */
static bool is_clean(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type != TMPFS_MAGIC &&
           fs.f_type != RAMFS_MAGIC && fsync(fd) == 0;
}

bool rt_mapped_open(RtMapped *m, const char *name, char *error)
{
    const int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct timespec now;
    struct stat s;
    if (fd < 0)
        return rt_tokens_wrong(error, "%s: %s", name, strerror(errno));
    const bool clean = is_clean(fd);
    if (fstat(fd, &s) != 0) {
        const int reason = errno;
        close(fd);
        return rt_tokens_wrong(error, "%s: %s", name, strerror(reason));
    }
    if (!S_ISREG(s.st_mode) || s.st_size == 0) {
        close(fd);
        return rt_tokens_wrong(
            error, "%s: %s", name,
            S_ISREG(s.st_mode)   ? "the file is empty: give one with text "
                                   "or tokens"
            : S_ISDIR(s.st_mode) ? "not a regular file but a folder: name "
                                   "its files, 'FOLDER/*'"
                                 : "not a regular file: give one with "
                                   "text or tokens");
    }
    void *map = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    const int reason = errno;
    close(fd);
    if (map == MAP_FAILED)
        return rt_tokens_wrong(error, "%s: cannot be mapped: %s", name,
                               rt_limits_map_error("", reason));
    clock_gettime(CLOCK_REALTIME, &now);
    *m = (RtMapped){.name = strdup(name),
                    .at = map,
                    .bytes = s.st_size,
                    .is = identity(&s),
                    .opened_ns = nanoseconds(&now),
                    .clean = clean};
    return m->name != NULL || rt_tokens_wrong(error, "out of memory");
}

void rt_mapped_close(RtMapped *m)
{
    if (m->at != NULL)
        munmap((void *)(uintptr_t)m->at, (size_t)m->is.bytes);
    free(m->name);
}

/* ---- formats --------------------------------------------------------------------- */

static bool read_llmc(RtTokenFile *f, char *error)
{
    const unsigned char *p = f->map.at;
    if (f->map.bytes < LLMC_HEADER_BYTES) {
        return rt_tokens_wrong(
            error, "%s: %lld bytes are too short for the header of 1024%s", f->name,
            (long long)f->map.bytes,
            " (for 16-bit ids without one: nanogpt:FILE; for text: text:FILE)");
    }
    const int64_t magic = signed_at(p, 4), version = signed_at(p + 4, 4);
    const int64_t count = signed_at(p + 8, 4);
    if (magic == 20240520 && version == 1) {
        f->width = 2;
    } else if (magic == 20240801 && version == 7) {
        f->width = 4;
    } else {
        return rt_tokens_wrong(
            error,
            "%s: magic %lld version %lld; llm.c writes magic 20240520 version 1 "
            "(16-bit ids) or 20240801 version 7 (32-bit ids). For 16-bit ids without a "
            "header write nanogpt:FILE, for text text:FILE; Megatron's have FILE.idx "
            "beside FILE.bin",
            f->name, (long long)magic, (long long)version);
    }
    if (count < 0 || LLMC_HEADER_BYTES + count * f->width != f->map.bytes) {
        return rt_tokens_wrong(
            error,
            "%s: the header counts %lld tokens, so %lld bytes, but the file "
            "has %lld%s",
            f->name, (long long)count, (long long)(LLMC_HEADER_BYTES + count * f->width),
            (long long)f->map.bytes,
            count > 0 && LLMC_HEADER_BYTES + count * f->width > f->map.bytes
                ? ": was it cut off?"
                : "");
    }
    f->at = p + LLMC_HEADER_BYTES;
    f->tokens = count;
    return true;
}

static bool read_nanogpt(RtTokenFile *f, char *error)
{
    f->width = 2;
    f->tokens = f->map.bytes / 2;
    if (f->map.bytes % 2 != 0) {
        return rt_tokens_wrong(error,
                               "%s: %lld bytes, an odd number: nanoGPT writes 16-bit ids "
                               "and nothing else",
                               f->name, (long long)f->map.bytes);
    }
    if (f->map.bytes >= LLMC_HEADER_BYTES &&
        ((word_at(f->at, 4) == 20240520 && word_at(f->at + 4, 4) == 1) ||
         (word_at(f->at, 4) == 20240801 && word_at(f->at + 4, 4) == 7))) {
        return rt_tokens_wrong(error,
                               "%s: has the header of llm.c, not tokens: leave "
                               "nanogpt: out, or write llmc:",
                               f->name);
    }
    return true;
}

/* Megatron's codes for dtypes. */
static const struct {
    int width;
    bool is_signed;
} index_dtypes[] = {
    [1] = {1, false}, [2] = {1, true}, [3] = {2, true},
    [4] = {4, true},  [5] = {8, true}, [8] = {2, false},
};

static bool read_dtype(RtTokenFile *f, const char *name, int code, char *error)
{
    if (code == 6 || code == 7) {
        return rt_tokens_wrong(
            error, "%s: dtype %d is a floating point one: these are not tokens", name,
            code);
    }
    if (code >= (int)(sizeof index_dtypes / sizeof *index_dtypes) ||
        index_dtypes[code].width == 0) {
        return rt_tokens_wrong(
            error, "%s: dtype %d; Megatron's codes of tokens are 1 to 5 and 8", name,
            code);
    }
    f->width = index_dtypes[code].width;
    f->is_signed = index_dtypes[code].is_signed;
    f->tokens = f->map.bytes / f->width;
    if (f->map.bytes % f->width != 0) {
        return rt_tokens_wrong(
            error,
            "%s: %lld bytes are not a whole number of tokens of %d bytes, "
            "as %s says they have",
            f->name, (long long)f->map.bytes, f->width, name);
    }
    return true;
}

/* Lengths and places of sequences: one after the other, to the end of the file. */
static bool check_sequences(const RtTokenFile *f, const char *name, char *error)
{
    const unsigned char *lengths = f->index.at + INDEX_HEADER_BYTES;
    int64_t tokens = 0;
    for (int64_t k = 0; k < f->sequences; k++) {
        const int64_t length = signed_at(lengths + 4 * k, 4);
        const int64_t at = signed_at(f->pointers + 8 * k, 8);
        if (length < 0 || length > f->tokens - tokens) {
            return rt_tokens_wrong(
                error,
                "%s: sequence %lld has %lld tokens, but %s has %lld, of which "
                "%lld come before it",
                name, (long long)k, (long long)length, f->name, (long long)f->tokens,
                (long long)tokens);
        }
        if (at != tokens * f->width) {
            return rt_tokens_wrong(error,
                                   "%s: sequence %lld begins at byte %lld, where byte "
                                   "%lld is its place: sequences must lie one behind the "
                                   "other",
                                   name, (long long)k, (long long)at,
                                   (long long)(tokens * f->width));
        }
        tokens += length;
    }
    if (tokens != f->tokens) {
        return rt_tokens_wrong(error,
                               "%s: its sequences have %lld tokens, but %s has %lld",
                               name, (long long)tokens, f->name, (long long)f->tokens);
    }
    return true;
}

static bool check_bounds(const RtTokenFile *f, const char *name, char *error)
{
    int64_t before = 0;
    for (int64_t k = 0; k < f->n_bounds; k++) {
        const int64_t bound = signed_at(f->bounds + 8 * k, 8);
        if ((k == 0 && bound != 0) || bound < before || bound > f->sequences) {
            return rt_tokens_wrong(
                error,
                "%s: document %lld begins with sequence %lld, after "
                "%lld and of %lld: documents begin with 0 and in order",
                name, (long long)k, (long long)bound, (long long)before,
                (long long)f->sequences);
        }
        before = bound;
    }
    if (before != f->sequences) {
        return rt_tokens_wrong(error,
                               "%s: the last document ends with sequence %lld of %lld",
                               name, (long long)before, (long long)f->sequences);
    }
    return true;
}

static bool read_index(RtTokenFile *f, const char *name, char *error)
{
    if (!rt_mapped_open(&f->index, name, error))
        return false;
    const unsigned char *p = f->index.at;
    if (f->index.bytes < INDEX_HEADER_BYTES) {
        return rt_tokens_wrong(error, "%s: %lld bytes are too short for the header of 34",
                               name, (long long)f->index.bytes);
    }
    if (memcmp(p, index_magic, sizeof index_magic) != 0) {
        return rt_tokens_wrong(
            error,
            "%s: does not begin with MMIDIDX, so it is not an index of "
            "Megatron's; it lies beside %s (llmc:%s reads that alone)",
            name, f->name, f->name);
    }
    if (word_at(p + 9, 8) != 1) {
        return rt_tokens_wrong(error, "%s: version %llu; 1 is known", name,
                               (unsigned long long)word_at(p + 9, 8));
    }
    if (!read_dtype(f, name, p[17], error))
        return false;
    const uint64_t sequences = word_at(p + 18, 8), bounds = word_at(p + 26, 8);
    const uint64_t left = (uint64_t)f->index.bytes - INDEX_HEADER_BYTES;
    if (sequences > left / 12 || bounds > (left - 12 * sequences) / 8) {
        return rt_tokens_wrong(error,
                               "%s: the header counts %llu sequences and %llu bounds of "
                               "documents, 12 and 8 bytes each, but %llu bytes follow it",
                               name, (unsigned long long)sequences,
                               (unsigned long long)bounds, (unsigned long long)left);
    }
    const uint64_t rest = left - 12 * sequences - 8 * bounds;
    if (rest != 0) {
        return rt_tokens_wrong(
            error, "%s: %llu bytes follow its bounds of documents%s", name,
            (unsigned long long)rest,
            rest == sequences ? ": modes of a multimodal dataset, which is not supported"
                              : "");
    }
    f->sequences = (int64_t)sequences;
    f->n_bounds = (int64_t)bounds;
    f->pointers = p + INDEX_HEADER_BYTES + 4 * sequences;
    f->bounds = f->pointers + 8 * sequences;
    return check_sequences(f, name, error) && check_bounds(f, name, error);
}

static bool read_megatron(RtTokenFile *f, char *error)
{
    char *name = renamed(f->name, bin_suffix, index_suffix);
    if (name == NULL)
        return rt_tokens_wrong(error, "out of memory");
    const bool good = read_index(f, name, error);
    free(name);
    return good;
}

/* Recognises files that users give instead of their tokens. */
static bool is_text(RtTokenFile *f, char *error)
{
    static const char *const ends[] = {
        ".jsonl", ".json", ".idx", ".safetensors", ".gz", ".zst",  ".xz",    ".parquet",
        ".arrow", ".npy",  ".npz", ".zip",         ".pt", ".gguf", ".pickle"};
    f->taken_for_text = true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t n = strlen(f->name), m = strlen(ends[i]);
        if (n >= m && strcasecmp(f->name + n - m, ends[i]) == 0) {
            return rt_tokens_wrong(error,
                                   "%s: is neither tokens nor a text: `fsdpgen tokenize` "
                                   "makes tokens of texts and JSONL; text:FILE reads the "
                                   "bytes of any file",
                                   f->name);
        }
    }
    return true;
}

static bool recognise(RtTokenFile *f, RtFileFormat format, char *error)
{
    const RtFileFormat is = format == RT_FILE_BY_NAME ? format_by_name(f->name) : format;
    f->at = f->map.at;
    f->width = 1;
    f->tokens = f->map.bytes;
    switch (is) {
    case RT_FILE_LLMC:
        return read_llmc(f, error);
    case RT_FILE_NANOGPT:
        return read_nanogpt(f, error);
    case RT_FILE_MEGATRON:
        return read_megatron(f, error);
    default:
        return format == RT_FILE_TEXT || is_text(f, error);
    }
}

/* ---- all of it ------------------------------------------------------------------- */

bool rt_token_file_open(RtTokenFile *f, const char *name, RtFileFormat format,
                        bool masked, char *error)
{
    *f = (RtTokenFile){.name = strdup(name)};
    if (f->name == NULL)
        return rt_tokens_wrong(error, "out of memory");
    if (!rt_mapped_open(&f->map, name, error) || !recognise(f, format, error))
        return false;
    if (!masked || f->tokens == 0) /* no bits */
        return true;
    char *mask = renamed(name, "", mask_suffix);
    const bool good = mask != NULL ? rt_mask_map(f, mask, error)
                                   : rt_tokens_wrong(error, "out of memory");
    free(mask);
    return good;
}

void rt_token_file_close(RtTokenFile *f)
{
    rt_mapped_close(&f->map);
    rt_mapped_close(&f->mask);
    rt_mapped_close(&f->index);
    free(f->name);
}

const RtMapped *rt_token_file_holding(const RtTokenFile *f, uintptr_t address)
{
    const RtMapped *const maps[] = {&f->map, &f->mask, &f->index};
    for (int i = 0; i < 3; i++) {
        const uintptr_t at = (uintptr_t)maps[i]->at;
        if (address >= at && address < at + (uintptr_t)maps[i]->is.bytes)
            return maps[i];
    }
    return NULL;
}

/* ---- reading --------------------------------------------------------------------- */

int64_t rt_token_at(const RtTokenFile *f, int64_t i)
{
    const unsigned char *p = f->at + i * f->width;
    return f->is_signed ? signed_at(p, f->width) : (int64_t)word_at(p, f->width);
}

bool rt_token_is_target(const RtTokenFile *f, int64_t i)
{
    return f->mask.at == NULL || (f->mask.at[i / 8] >> i % 8 & 1) != 0;
}

/* Tokens before document k; for k after the last one, all. */
static int64_t document_start(const RtTokenFile *f, int64_t k)
{
    const int64_t sequence = signed_at(f->bounds + 8 * k, 8);
    /* It was checked, and the file may have been overwritten since: see rt_changed.c. */
    return sequence < 0              ? 0
           : sequence < f->sequences ? signed_at(f->pointers + 8 * sequence, 8) / f->width
                                     : f->tokens;
}

int64_t rt_token_next_bound(const RtTokenFile *f, int64_t i)
{
    int64_t lo = 0, hi = f->n_bounds; /* the first bound after i */
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (document_start(f, mid) > i)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo < f->n_bounds ? document_start(f, lo) : f->tokens;
}
