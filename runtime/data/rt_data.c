/* SPDX-License-Identifier: MIT-0 */
/* rt_data.c: the order of samples. In: the --data flags. Out: token and target ids of any
 * global sample, checked against the vocabulary.
 *
 * 1. Each --data is [FORMAT:]GLOB[=WEIGHT]: a source of one or more files (see
 *    rt_tokens.c), the matches of a pattern in byte order. The text after the last `=` is
 *    a weight if it is a number. A pattern skips masks of other files, and takes
 *    Megatron's X.idx for X.bin, once.
 * 2. A trainer with loss.mask reads X.mask beside each file X. A masked token is still an
 *    input for later tokens, but as a target its id is -1: no loss, no gradient, not
 *    counted.
 * 3. In packed documents, a token document_end is the last of its document, and so is the
 *    last one of each document in Megatron's index. The target beside it, the first token
 *    of the next document, is masked, because one document does not predict another. A
 *    sample that cuts a document starts with the rest of it as a document.
 * 4. Samples are windows of seq + 1 tokens, seq apart, within one file; files are in the
 *    given order. Sample k of a source of S samples belongs to its epoch k / S and is at
 *    place bijection(epoch, k mod S): a four-round Feistel network on the smallest even
 *    number of bits that holds S, applied until the result is below S. So every epoch has
 *    every sample once, whatever the number of ranks. Round function: the low bits of
 *    word 0 of Philox(seed, site DATA, right half + 2^32 round + 2^40 source, stream
 *    epoch).
 * 5. Without weights all files are one source, number 0, and k is the global sample.
 * 6. With weights, source s (1, 2, ...) has n_s of each 65536 global samples, its share
 *    by largest remainders. A smooth round robin chooses the source: at each sample every
 *    source gains n_s credits, the richest (the first among equals) is drawn and pays
 *    65536. So in any stretch of samples each source is within one or two of its share. k
 *    is the number of earlier samples of the source, a function of the global sample
 *    alone. */
#define _GNU_SOURCE
#include "rt_philox.h"
#include "data/rt_tokens.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 65536 }; /* the resolution of weights, and the period of their pattern */

typedef struct Source {
    const char *flag, *word; /* as given to --data, or to another flag */
    char *pattern;
    RtFileFormat format;
    double weight; /* 0: none */
    int64_t first_sample, samples, slots;
} Source;

struct RtTokens {
    RtTokenFile *file;
    int files, sources;
    Source source[RT_MAX_DATA];
    unsigned char *slot_source; /* [SLOTS]; NULL: without weights */
    uint16_t *slot_rank;        /* [SLOTS]: number of earlier slots of the same source */
    int64_t samples, seq, vocab;
    const char *flag;     /* that named the files */
    bool masked;          /* each file has a mask */
    bool unused_mask;     /* some file has one, but it is not read */
    const char *bytes_of; /* a file read as bytes without being asked for; or NULL */
};

/* ---- what --data says ------------------------------------------------------------ */

/* Is it all digits, points, signs and exponents, with a digit? */
static bool looks_like_number(const char *s)
{
    return s[strspn(s, "0123456789.eE+-")] == '\0' && strpbrk(s, "0123456789") != NULL;
}

static bool read_source(Source *s, const char *flag, const char *word, char *error)
{
    const char *colon = strchr(word, ':'), *equals = strrchr(word, '=');
    const char *from = word;
    *s = (Source){.flag = flag, .word = word};
    for (int k = 1; colon != NULL && k < RT_FILE_FORMATS; k++) {
        const size_t n = strlen(rt_file_formats[k]);
        if ((size_t)(colon - word) == n && strncmp(word, rt_file_formats[k], n) == 0) {
            s->format = (RtFileFormat)k;
            from = colon + 1;
        }
    }
    size_t bytes = strlen(from);
    if (equals != NULL && equals >= from && looks_like_number(equals + 1)) {
        char *end;
        s->weight = strtod(equals + 1, &end);
        bytes = (size_t)(equals - from);
        if (*end != '\0' || !(s->weight > 0 && s->weight <= 1e9)) {
            return rt_tokens_wrong(error,
                                   "--%s %s: `%s` is not a weight; one is above 0 and at "
                                   "most 1e9 (a name that ends like this takes =1 behind "
                                   "it)",
                                   s->flag, word, equals + 1);
        }
    }
    s->pattern = strndup(from, bytes);
    return s->pattern != NULL || rt_tokens_wrong(error, "out of memory");
}

static bool add_file(RtTokens *d, const Source *s, const char *name, char *error)
{
    RtTokenFile *more = realloc(d->file, (size_t)(d->files + 1) * sizeof *more);
    if (more == NULL)
        return rt_tokens_wrong(error, "out of memory");
    d->file = more;
    RtTokenFile *f = &d->file[d->files++];
    if (!rt_token_file_open(f, name, s->format, d->masked, error))
        return false;
    d->bytes_of = f->taken_for_text && d->bytes_of == NULL ? f->name : d->bytes_of;
    d->unused_mask = d->unused_mask || (!d->masked && rt_token_file_has_mask(name));
    f->first_sample = d->samples;
    f->samples = f->tokens > 0 ? (f->tokens - 1) / d->seq : 0;
    d->samples += f->samples;
    return true;
}

/* glob sorts by locale. */
static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A match of a pattern; an index stands for its file, which the pattern may match too. */
static bool add_match(RtTokens *d, const Source *s, const glob_t *g, const char *name,
                      char *error)
{
    if (rt_token_file_is_mask(name))
        return true;
    char *of = rt_token_file_of_index(name, s->format);
    const bool twice = of != NULL && bsearch(&of, g->gl_pathv, g->gl_pathc,
                                             sizeof *g->gl_pathv, by_bytes) != NULL;
    const bool good = twice || add_file(d, s, of != NULL ? of : name, error);
    free(of);
    return good;
}

static bool no_match(const Source *s, int rc, char *error)
{
    const char *colon = strchr(s->pattern, ':');
    if (rc != GLOB_NOMATCH)
        return rt_tokens_wrong(error, "--%s %s: cannot be searched", s->flag, s->word);
    if (s->format == RT_FILE_BY_NAME && colon != NULL &&
        memchr(s->pattern, '/', (size_t)(colon - s->pattern)) == NULL) {
        return rt_tokens_wrong(
            error,
            "--%s %s: no such file; `%.*s:` is not a format: those are "
            "text, llmc, nanogpt and megatron",
            s->flag, s->word, (int)(colon - s->pattern), s->pattern);
    }
    return rt_tokens_wrong(error, "--%s %s: no such file%s", s->flag, s->word,
                           strchr(s->word, '=') != NULL
                               ? "; what follows `=` is a weight, a number: FILE=0.5"
                               : "; give a path, or a pattern in quotes: 'data/*.bin'");
}

static bool add_named(RtTokens *d, Source *s, char *error)
{
    const glob_t one = {.gl_pathc = 1, .gl_pathv = &s->pattern};
    s->first_sample = d->samples;
    const bool good = add_match(d, s, &one, s->pattern, error);
    s->samples = d->samples - s->first_sample;
    return good;
}

static bool add_source(RtTokens *d, const char *word, char *error)
{
    Source *s = &d->source[d->sources++];
    glob_t g;
    if (!read_source(s, d->flag, word, error))
        return false;
    const int rc = glob(s->pattern, GLOB_NOSORT, NULL, &g);
    if (rc == GLOB_NOMATCH && access(s->pattern, F_OK) == 0)
        return add_named(d, s, error); /* a file name with characters of a pattern */
    if (rc != 0)
        return no_match(s, rc, error);
    qsort(g.gl_pathv, g.gl_pathc, sizeof *g.gl_pathv, by_bytes);
    const int before = d->files;
    bool good = true;
    s->first_sample = d->samples;
    for (size_t i = 0; i < g.gl_pathc && good; i++)
        good = add_match(d, s, &g, g.gl_pathv[i], error);
    globfree(&g);
    s->samples = d->samples - s->first_sample;
    if (good && d->files == before) {
        return rt_tokens_wrong(
            error, "--%s %s: these are masks; name the files beside them", d->flag, word);
    }
    return good;
}

/* ---- weights --------------------------------------------------------------------- */

/* Each source's part of SLOTS: rounded down; the remainder goes to the largest
 * remainders, the first among equals first. */
static bool share_slots(RtTokens *d, char *error)
{
    double total = 0, rest[RT_MAX_DATA];
    int64_t left = SLOTS;
    for (int i = 0; i < d->sources; i++)
        total += d->source[i].weight;
    for (int i = 0; i < d->sources; i++) {
        const double exact = d->source[i].weight / total * SLOTS;
        d->source[i].slots = (int64_t)exact;
        rest[i] = exact - (double)d->source[i].slots;
        left -= d->source[i].slots;
    }
    for (; left > 0; left--) {
        int most = 0;
        for (int i = 1; i < d->sources; i++)
            most = rest[i] > rest[most] ? i : most;
        d->source[most].slots++;
        rest[most] = -1;
    }
    for (int i = 0; i < d->sources; i++) {
        if (d->source[i].slots == 0) {
            return rt_tokens_wrong(error,
                                   "--%s %s: its weight is less than 1/%d of all "
                                   "weights, which is too little to be drawn",
                                   d->flag, d->source[i].word, SLOTS);
        }
    }
    return true;
}

/* The smooth round robin over one period. */
static bool deal_slots(RtTokens *d, char *error)
{
    int64_t credit[RT_MAX_DATA] = {0}, drawn[RT_MAX_DATA] = {0};
    d->slot_source = malloc(SLOTS * sizeof *d->slot_source);
    d->slot_rank = malloc(SLOTS * sizeof *d->slot_rank);
    if (d->slot_source == NULL || d->slot_rank == NULL)
        return rt_tokens_wrong(error, "out of memory");
    for (int slot = 0; slot < SLOTS; slot++) {
        int richest = 0;
        for (int i = 0; i < d->sources; i++) {
            credit[i] += d->source[i].slots;
            richest = credit[i] > credit[richest] ? i : richest;
        }
        credit[richest] -= SLOTS;
        d->slot_source[slot] = (unsigned char)richest;
        d->slot_rank[slot] = (uint16_t)drawn[richest]++;
    }
    return true;
}

static bool mix(RtTokens *d, char *error)
{
    int weighted = 0, bare = 0;
    for (int i = 0; i < d->sources; i++) {
        weighted += d->source[i].weight > 0;
        bare = d->source[i].weight > 0 ? bare : i;
    }
    if (weighted > 0 && weighted < d->sources) {
        return rt_tokens_wrong(error,
                               "--%s %s: has no weight, but others have: give each one "
                               "(%s=1), or none",
                               d->flag, d->source[bare].word, d->source[bare].word);
    }
    if (weighted < 2) /* a single source gets everything */
        return true;
    for (int i = 0; i < d->sources; i++) {
        if (d->source[i].samples == 0) {
            return rt_tokens_wrong(
                error,
                "--%s %s: none of its files has a sample, which is a sequence of %lld "
                "and the token after it, so its weight cannot be kept",
                d->flag, d->source[i].word, (long long)d->seq);
        }
    }
    return share_slots(d, error) && deal_slots(d, error);
}

/* ---- open ------------------------------------------------------------------------ */

static RtTokens *open_all(const RtTrainer *t, const char *flag, bool weighted,
                          const char *const *patterns, int n_patterns, char *error)
{
    if (n_patterns == 0) {
        rt_tokens_wrong(error, "no data: give --data FILE (text, or token files)");
        return NULL;
    }
    RtTokens *d = calloc(1, sizeof *d);
    if (d == NULL) {
        rt_tokens_wrong(error, "out of memory");
        return NULL;
    }
    d->flag = flag;
    d->seq = t->seq_tokens;
    d->vocab = t->vocab;
    d->masked = t->masked;
    bool good = true;
    for (int i = 0; i < n_patterns && good; i++)
        good = add_source(d, patterns[i], error);
    if (good && d->samples == 0) {
        good = rt_tokens_wrong(
            error,
            "%s has %lld tokens%s; a sample is a sequence of %lld and the "
            "token after it, from one file: give longer files, or a description with a "
            "smaller seq",
            d->file[0].name, (long long)d->file[0].tokens,
            d->files > 1 ? ", and no file more" : "", (long long)d->seq);
    }
    for (int i = 0; i < d->sources && good && !weighted; i++) {
        if (d->source[i].weight > 0) {
            good = rt_tokens_wrong(error,
                                   "--%s %s: every sequence counts once: weights are for "
                                   "the --data of training",
                                   flag, d->source[i].word);
        }
    }
    if (!good || !mix(d, error)) {
        rt_tokens_close(d);
        return NULL;
    }
    return d;
}

RtTokens *rt_tokens_open(const RtTrainer *t, const char *const *patterns, int n_patterns,
                         char *error)
{
    return open_all(t, "data", true, patterns, n_patterns, error);
}

RtTokens *rt_tokens_open_for(const RtTrainer *t, const char *flag,
                             const char *const *patterns, int n_patterns, char *error)
{
    return open_all(t, flag, false, patterns, n_patterns, error);
}

void rt_tokens_close(RtTokens *d)
{
    for (int i = 0; i < d->files; i++)
        rt_token_file_close(&d->file[i]);
    for (int i = 0; i < d->sources; i++)
        free(d->source[i].pattern);
    free(d->slot_source);
    free(d->slot_rank);
    free(d->file);
    free(d);
}

int64_t rt_tokens_samples(const RtTokens *d)
{
    return d->samples;
}

bool rt_tokens_epochs(const RtTokens *d, const RtTrainer *t, int64_t order_step,
                      RtFlags *f, char *error)
{
    const int64_t batch = t->micro_batches * t->micro_batch;
    const double steps = f->epochs * (double)d->samples / (double)batch;
    if (f->epochs == 0)
        return true;
    if (d->slot_source != NULL) {
        snprintf(
            error, RT_ERROR_BYTES,
            "--epochs: sources with weights have epochs of their own: use --steps N");
        return false;
    }
    if (!(steps >= 1 && steps < 9e15)) {
        snprintf(error, RT_ERROR_BYTES,
                 "--epochs %g: of %lld samples, that is less than a step of %lld",
                 f->epochs, (long long)d->samples, (long long)batch);
        return false;
    }
    f->steps = order_step + (int64_t)steps;
    return true;
}

const char *rt_tokens_bytes_of(const RtTokens *d)
{
    enum { MOST_OF_BYTES = 1024 }; /* a vocabulary of bytes and a few more ids */
    return d->vocab > MOST_OF_BYTES ? d->bytes_of : NULL;
}

const char *rt_tokens_bare_mask(const RtTokens *d)
{
    for (int i = 0; i < d->files; i++)
        if (d->file[i].mask.at != NULL && d->file[i].mask_of.version == 0)
            return d->file[i].mask.name;
    return NULL;
}

bool rt_tokens_unused_mask(const RtTokens *d)
{
    return d->unused_mask;
}

const char *rt_tokens_holding(const RtTokens *d, uintptr_t address)
{
    for (int i = 0; i < d->files; i++) {
        const RtMapped *m = rt_token_file_holding(&d->file[i], address);
        if (m != NULL)
            return m->name;
    }
    return NULL;
}

int rt_tokens_files(const RtTokens *d)
{
    return d->files;
}

const RtTokenFile *rt_tokens_file(const RtTokens *d, int i)
{
    return &d->file[i];
}

void rt_tokens_print_mix(const RtTokens *d, FILE *out)
{
    for (int i = 0; d->slot_source != NULL && i < d->sources; i++) {
        const Source *s = &d->source[i];
        fprintf(out, "data %s: %.5g %% of all samples, an epoch of it is %lld\n", s->word,
                100.0 * (double)s->slots / SLOTS, (long long)s->samples);
    }
}

uint64_t rt_tokens_mix(const RtTokens *d)
{
    uint64_t hash = 0;
    for (int i = 0; d->slot_source != NULL && i < d->sources; i++) {
        const int64_t words[2] = {d->source[i].samples, d->source[i].slots};
        hash = rt_hash64(words, sizeof words, hash + 1);
    }
    return hash;
}

static uint64_t hash_ends(const RtMapped *m, uint64_t hash)
{
    enum { END_BYTES = 4096 };
    const size_t n = (size_t)(m->bytes < END_BYTES ? m->bytes : END_BYTES);
    hash = rt_hash64(&m->bytes, sizeof m->bytes, hash);
    if (n == 0)
        return hash;
    hash = rt_hash64(m->at, n, hash);
    return rt_hash64(m->at + m->bytes - n, n, hash);
}

uint64_t rt_tokens_hash(const RtTokens *d)
{
    uint64_t hash = rt_tokens_mix(d);
    for (int i = 0; i < d->files; i++) {
        const RtTokenFile *f = &d->file[i];
        const int64_t read_as[] = {f->tokens, f->width, f->is_signed};
        hash = rt_hash64(read_as, sizeof read_as, hash + 1);
        hash = hash_ends(&f->map, hash);
        hash = hash_ends(&f->mask, hash);
        hash = hash_ends(&f->index, hash);
    }
    return hash;
}

/* ---- the order ------------------------------------------------------------------- */

static int64_t place_in(int64_t samples, uint64_t source, uint64_t seed, int64_t index)
{
    const uint32_t epoch = (uint32_t)(index / samples);
    int half = 1;
    while (half < 31 && (INT64_C(1) << 2 * half) < samples)
        half++;
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t x = (uint64_t)(index % samples);
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 4; round++) {
            const RtWords r =
                rt_philox(seed, RT_SITE_DATA, right | round << 32 | source << 40, epoch);
            const uint64_t next = left ^ (r.w[0] & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)samples);
    return (int64_t)x;
}

int64_t rt_tokens_place(const RtTokens *d, uint64_t seed, int64_t index)
{
    if (d->slot_source == NULL)
        return place_in(d->samples, 0, seed, index);
    const int64_t slot = index % SLOTS;
    const int number = d->slot_source[slot];
    const Source *s = &d->source[number];
    return s->first_sample + place_in(s->samples, (uint64_t)number + 1, seed,
                                      index / SLOTS * s->slots + d->slot_rank[slot]);
}

/* ---- reading --------------------------------------------------------------------- */

/* The last file that starts at or before the sample; files without samples come
 * earlier. */
static const RtTokenFile *file_of(const RtTokens *d, int64_t sample)
{
    int lo = 0, hi = d->files - 1;
    while (lo < hi) {
        const int mid = (lo + hi + 1) / 2;
        if (d->file[mid].first_sample <= sample)
            lo = mid;
        else
            hi = mid - 1;
    }
    return &d->file[lo];
}

bool rt_tokens_read(const RtTokens *d, int64_t sample, int32_t *tokens, int32_t *targets,
                    char *error)
{
    const RtTokenFile *f = file_of(d, sample);
    const int64_t from = (sample - f->first_sample) * d->seq;
    for (int64_t i = 0; i <= d->seq; i++) {
        const int64_t id = rt_token_at(f, from + i);
        if (id < 0 || id >= d->vocab) {
            return rt_tokens_wrong(
                error,
                "%s: token %lld is %lld, but the model's vocabulary has %lld "
                "ids, 0 to %lld: tokenize with the model's own tokenizer, or generate "
                "with "
                "model.vocab of this one",
                f->name, (long long)(from + i), (long long)id, (long long)d->vocab,
                (long long)(d->vocab - 1));
        }
        if (i < d->seq)
            tokens[i] = (int32_t)id;
        if (i > 0)
            targets[i - 1] = rt_token_is_target(f, from + i) ? (int32_t)id : -1;
    }
    return true;
}

/* starts: where in the sequence the document of each token starts. */
static void cut_documents(const RtTrainer *t, const RtTokens *d, int64_t sample,
                          const int32_t *tokens, int32_t *targets, int32_t *starts)
{
    const RtTokenFile *f = file_of(d, sample);
    const int64_t from = (sample - f->first_sample) * d->seq;
    int64_t bound = rt_token_next_bound(f, from);
    int32_t start = 0;
    for (int64_t i = 0; i < t->seq_tokens; i++) {
        starts[i] = start;
        if (tokens[i] == t->document_end || from + i + 1 == bound) {
            targets[i] = -1;
            start = (int32_t)i + 1;
        }
        if (from + i + 1 == bound)
            bound = rt_token_next_bound(f, bound);
    }
}

void rt_tokens_fill(Rt *rt, const RtTokens *d, int64_t sample, RtStage to, int64_t b)
{
    const RtTrainer *t = rt->trainer;
    const int64_t at = b * t->seq_tokens;
    char error[RT_ERROR_BYTES];
    if (!rt_tokens_read(d, sample, to.tokens + at, to.targets + at, error))
        rt_fail(rt, RT_EXIT_ERROR, "%s", error);
    if (t->packed)
        cut_documents(t, d, sample, to.tokens + at, to.targets + at, to.starts + at);
}

void rt_load_micro_batch(Rt *rt, int64_t index)
{
    const RtTrainer *t = rt->trainer;
    RtState *st = rt->state;
    const RtStage to = rt_stage(rt);
    st->micro_batch = index;
    for (int64_t b = 0; b < t->micro_batch; b++) {
        const int64_t step = st->step - st->order_step;
        const int64_t global = (step * t->micro_batches + index) * t->micro_batch + b;
        const int64_t at = rt_tokens_place(st->tokens, (uint64_t)st->flags.seed, global);
        rt_tokens_fill(rt, st->tokens, at, to, b);
    }
    for (int64_t i = 0; i < t->micro_batch * t->seq_tokens; i++)
        st->targets += to.targets[i] >= 0;
    st->tokens_done += t->micro_batch * t->seq_tokens;
    rt_stage_close(rt);
}
