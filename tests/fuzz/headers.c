/* SPDX-License-Identifier: Apache-2.0 */
/* headers SEED FIRST COUNT FOLDER: the runtime's reader of data files against files that
 * lie. Each case writes one to three files (llm.c's .bin with a changed header, wrong
 * sizes, text, nothing), with or without masks that have all their bits, and opens them
 * with some sequence length and vocabulary. What must come out is computed here a second
 * time, from the bytes: refused or not, how many samples, every token and target that is
 * read, refused when it is not in the vocabulary. Built with
 * AddressSanitizer and UndefinedBehaviorSanitizer. */
#include "reader.h"

enum { MAX_FILES = 3, NAME_BYTES = 64, MAX_SEQ = 4096 };

typedef struct File {
    char name[NAME_BYTES], mask_name[NAME_BYTES + 8];
    Str bytes; /* the file is these, then zeros up to total */
    int64_t total;
    Str mask;           /* the same of its mask */
    int64_t mask_total; /* -1: there is none */
    bool good, mask_good;
    int width;
    int64_t tokens, samples;
} File;

static void put_word(Str *s, uint32_t v)
{
    char b[4] = {(char)v, (char)(v >> 8), (char)(v >> 16), (char)(v >> 24)};

    str_add(s, b, 4);
}

static uint32_t strange_word(Random *r)
{
    static const uint32_t words[] = {
        0,          1,          2,          3,          4,         7,          8,
        255,        256,        1024,       20240520,   20240801,  0x7fffffff, 0x80000000,
        0xffffffff, 0xfffffffe, 0x40000000, 0x3fffff00, 0x20000000};

    return random_below(r, 3) ? words[random_below(r, sizeof words / sizeof *words)]
                              : random_below(r, UINT32_MAX);
}

/* A header that is true, then, in half of the cases, one or more lies. */
static void make_bin(Random *r, File *f, int64_t vocab)
{
    bool wide = random_below(r, 2);
    int64_t tokens = random_below(r, random_below(r, 4) ? 200 : 20000);

    put_word(&f->bytes, wide ? 20240801 : 20240520);
    put_word(&f->bytes, wide ? 7 : 1);
    put_word(&f->bytes, (uint32_t)tokens);
    for (int i = 3; i < 256; i++)
        put_word(&f->bytes, random_below(r, 50) ? 0 : strange_word(r));
    for (int64_t i = 0; i < tokens; i++) {
        uint32_t id = random_below(r, vocab < 65536 ? (uint32_t)vocab : 65536);

        if (random_below(r, 20000) == 0)
            id = strange_word(r);
        str_add(&f->bytes,
                (char[4]){(char)id, (char)(id >> 8), (char)(id >> 16), (char)(id >> 24)},
                wide ? 4 : 2);
    }
    f->total = (int64_t)f->bytes.n;
    for (uint32_t n = random_below(r, 2) ? random_below(r, 4) : 0; n; n--) {
        size_t word = random_below(r, 3) * 4;
        uint32_t v = strange_word(r);

        switch (random_below(r, 7)) {
        case 0: /* a header's word */
            if (f->bytes.n >= word + 4)
                memcpy(f->bytes.s + word, &v, 4);
            break;
        case 1: /* one bit of it */
            if (f->bytes.n > word + 3)
                f->bytes.s[word + random_below(r, 4)] ^= (char)(1 << random_below(r, 8));
            break;
        case 2: /* cut off */
            f->total = random_below(r, (uint32_t)f->total + 1);
            break;
        case 3:
            f->total += 1 + random_below(r, 5);
            break;
        case 4:
            f->total = 1020 + random_below(r, 10);
            break;
        case 5: /* a hole as large as a header can claim */
            f->total = 1024 + (int64_t)strange_word(r) * (1 + random_below(r, 4));
            break;
        default:
            if (f->bytes.n > 1024)
                f->bytes.s[random_below(r, (uint32_t)f->bytes.n)] =
                    (char)random_below(r, 256);
        }
    }
}

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void make_file(Random *r, File *f, int i, int64_t vocab)
{
    static const char *const ends[] = {".bin", ".bin", ".bin",    ".bin",
                                       ".txt", "",     ".bin.txt"};

    const char *end = ends[random_below(r, sizeof ends / sizeof *ends)];

    *f = (File){0};
    str_add(&f->bytes, "", 0);
    snprintf(f->name, sizeof f->name, "%c%s", 'a' + i, end);
    snprintf(f->mask_name, sizeof f->mask_name, "%c%s.mask", 'a' + i, end);
    str_add(&f->mask, "", 0);
    if (random_below(r, 8)) {
        make_bin(r, f, vocab);
    } else {
        for (uint32_t n = random_below(r, 3000); n; n--)
            str_add(&f->bytes,
                    (char[1]){(char)random_below(r, vocab < 256 ? (uint32_t)vocab : 256)},
                    1);
        f->total = (int64_t)f->bytes.n;
    }
    if (f->total < (int64_t)f->bytes.n)
        f->bytes.n = (size_t)f->total;
}

/* What says whose bits these are: true in half of the cases, else with a bit changed. */
static void make_trailer(Random *r, File *f)
{
    RtMaskTrailer t = rt_mask_trailer(f->tokens, f->total, 1, 2);

    f->mask_good = random_below(r, 2);
    if (!f->mask_good)
        ((char *)&t)[random_below(r, sizeof t)] ^= (char)(1 << random_below(r, 8));
    str_add(&f->mask, (const char *)&t, sizeof t);
    f->mask_total += (int64_t)sizeof t;
}

/* A true mask, or in some cases none, one of another size, or with a bit too many. */
static void make_mask(Random *r, File *f)
{
    int64_t need = (f->tokens + 7) / 8, written = min(need, 3000);
    bool odd = f->tokens % 8 != 0;

    for (int64_t i = 0; i < written; i++) {
        uint32_t byte = random_below(r, 256);

        if (i == need - 1 && odd)
            byte &= (1u << f->tokens % 8) - 1;
        str_add(&f->mask, (char[1]){(char)byte}, 1);
    }
    f->mask_total = need;
    f->mask_good = true;
    if (written == need && need > 0 && random_below(r, 4) == 0) {
        make_trailer(r, f);
        return;
    }
    if (random_below(r, 8) || need == 0)
        return;
    switch (random_below(r, 5)) {
    case 0:
        f->mask_total = -1;
        break;
    case 1:
        f->mask_total = random_below(r, (uint32_t)min(need, INT32_MAX));
        break;
    case 2:
        f->mask_total += 1 + random_below(r, 9);
        break;
    case 3:
        f->mask_total = 0;
        break;
    default:
        if (!odd || written < need)
            return;
        f->mask.s[need - 1] ^=
            (char)(1u << (f->tokens % 8 + random_below(r, 8 - f->tokens % 8)));
    }
    f->mask_good = false;
    f->mask.n = (size_t)min((int64_t)f->mask.n, f->mask_total < 0 ? 0 : f->mask_total);
}

static bool write_file(const char *name, const Str *s, int64_t total)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool good =
        fd >= 0 && write(fd, s->s, s->n) == (ssize_t)s->n && ftruncate(fd, total) == 0;

    if (fd >= 0)
        close(fd);
    return good;
}

/* ---- what must come out ---------------------------------------------------------- */

static int64_t byte_of(const Str *s, int64_t i)
{
    return i < (int64_t)s->n ? (unsigned char)s->s[i] : 0;
}

static int64_t token_of(const File *f, int64_t i)
{
    int64_t at = (f->width > 1 ? 1024 : 0) + i * f->width, v = 0;

    for (int k = f->width; k-- > 0;)
        v = v << 8 | byte_of(&f->bytes, at + k);
    return v;
}

static int64_t target_of(const File *f, int64_t i, bool masked)
{
    return masked && !(byte_of(&f->mask, i / 8) >> i % 8 & 1) ? -1 : token_of(f, i);
}

static void expect(File *f, int64_t seq)
{
    size_t n = strlen(f->name);
    int64_t word[3] = {0};

    f->width = 1;
    f->tokens = f->total;
    f->good = f->total > 0;
    if (n > 4 && !strcmp(f->name + n - 4, ".bin")) {
        for (int k = 0; k < 12; k++)
            word[k / 4] |= byte_of(&f->bytes, k) << 8 * (k % 4);
        f->width = word[0] == 20240520 ? 2 : 4;
        f->tokens = word[2];
        f->good = f->total >= 1024 &&
                  f->tokens <= INT32_MAX && /* the header's are int32 */
                  ((word[0] == 20240520 && word[1] == 1) ||
                   (word[0] == 20240801 && word[1] == 7)) &&
                  f->total - 1024 == f->tokens * f->width;
    }
    f->samples = f->good && f->tokens > 0 ? (f->tokens - 1) / seq : 0;
}

static const char *check_sample(const RtTokens *d, const File *files, int n,
                                int64_t sample, const RtTrainer *t)
{
    static int32_t tokens[MAX_SEQ], targets[MAX_SEQ];
    char error[RT_ERROR_BYTES] = "";
    int64_t at = sample, seq = t->seq_tokens;
    bool legal = true, got = rt_tokens_read(d, sample, tokens, targets, error);

    while (n > 1 && at >= files->samples)
        at -= files->samples, files++, n--;
    at *= seq;
    for (int64_t i = 0; i <= seq; i++)
        legal = legal && token_of(files, at + i) < t->vocab;
    if (legal != got)
        return got ? "it took a token outside the vocabulary" : "it refused good tokens";
    if (!got)
        return strstr(error, "vocabulary")
                   ? NULL
                   : "a refusal that does not name the vocabulary";
    for (int64_t i = 0; i < seq; i++)
        if (tokens[i] != token_of(files, at + i) ||
            targets[i] != target_of(files, at + i + 1, t->masked))
            return "other tokens than the file's";
    return NULL;
}

/* A document begins with its sequence, or after an end, whose own target is masked. */
static const char *check_documents(const int32_t *ids, int64_t tokens, const RtTrainer *t)
{
    const int32_t *targets = ids + tokens, *starts = targets + tokens;

    for (int64_t i = 0; i < tokens; i++) {
        int64_t at = i % t->seq_tokens, start = at;

        while (start > 0 && ids[i - at + start - 1] != t->document_end)
            start--;
        if (starts[i] != start)
            return "a document begins elsewhere";
        if (ids[i] == t->document_end && targets[i] >= 0)
            return "what follows a document's end is a target";
    }
    return NULL;
}

/* As a rank's step does it: the order, the sequences of a micro-batch side by side. */
static const char *check_micro_batch(Random *r, RtTokens *d, RtTrainer t)
{
    RtState state = {.tokens = d};
    Rt rt = {.trainer = &t, .state = &state};
    const char *volatile problem = NULL; /* longjmp keeps it */
    int64_t valid = 0, tokens;

    t.micro_batches = 1 + random_below(r, 9);
    t.micro_batch = 1 + random_below(r, 3);
    tokens = t.micro_batch * t.seq_tokens;
    t.targets_offset = tokens * 4;
    t.starts_offset = tokens * 8;
    t.packed = random_below(r, 2);
    t.document_end = random_below(r, t.vocab < 200 ? (uint32_t)t.vocab : 200);
    state.step = random_below(r, 2) ? random_below(r, 10)
                                    : (int64_t)random_below(r, UINT32_MAX) << 8;
    state.flags.seed = random_below(r, UINT32_MAX);
    rt.local = /* exactly: a byte more is an error */
        malloc((size_t)tokens * (t.packed ? 12 : 8));
    if (!rt.local)
        abort();
    if (setjmp(failed) == 0) {
        rt_load_micro_batch(&rt, random_below(r, (uint32_t)t.micro_batches));
        for (int64_t i = 0; i < tokens; i++)
            valid += ((int32_t *)(void *)rt.local)[tokens + i] >= 0;
        if (state.targets != valid)
            problem = "another number of targets";
        else if (t.packed)
            problem = check_documents((int32_t *)(void *)rt.local, tokens, &t);
    } else if (!strstr(failure, "vocabulary")) {
        problem = "it failed in a step, not about the vocabulary";
    }
    free(rt.local);
    return problem;
}

static void print_case(const RtTrainer *t, const File *files, int n, const char *error)
{
    printf("     | seq %lld vocab %lld%s: %s\n", (long long)t->seq_tokens,
           (long long)t->vocab, t->masked ? " masked" : "", error);
    for (int i = 0; i < n; i++)
        printf("     | %s: %lld bytes, %s, %lld tokens of %d bytes, %lld samples, "
               "mask of %lld bytes, %s\n",
               files[i].name, (long long)files[i].total, files[i].good ? "good" : "bad",
               (long long)files[i].tokens, files[i].width, (long long)files[i].samples,
               (long long)files[i].mask_total, files[i].mask_good ? "good" : "bad");
}

static const char *run_case(Random *r)
{
    static const int64_t vocabs[] = {1, 2, 255, 256, 257, 50257, 65535, 65536, INT32_MAX};
    File files[MAX_FILES];
    const char *names[MAX_FILES], *problem = NULL;
    char error[RT_ERROR_BYTES] = "";
    int n = 1 + (int)(random_below(r, 4) == 0) + (int)(random_below(r, 8) == 0);
    RtTrainer t = {.vocab = vocabs[random_below(r, sizeof vocabs / sizeof *vocabs)]};
    int64_t samples = 0;
    bool good = true, pattern = random_below(r, 8) == 0;
    RtTokens *d;

    t.seq_tokens =
        random_below(r, 5) ? 1 + random_below(r, 100) : 1 + random_below(r, MAX_SEQ);
    t.masked = random_below(r, 3) == 0;

    for (int i = 0; i < n; i++) {
        make_file(r, &files[i], i, t.vocab);
        expect(&files[i], t.seq_tokens);
        files[i].mask_total = -1;
        if (files[i].good && (t.masked || random_below(r, 8) == 0))
            make_mask(r, &files[i]);
        if (!write_file(files[i].name, &files[i].bytes, files[i].total) ||
            (files[i].mask_total >= 0 &&
             !write_file(files[i].mask_name, &files[i].mask, files[i].mask_total)))
            return "the file cannot be written";
        names[i] = files[i].name;
        good = good && files[i].good && (!t.masked || files[i].mask_good);
        samples += files[i].samples;
    }
    good = good && samples > 0;
    d = pattern ? rt_tokens_open(&t, (const char *[]){"[a-c]*"}, 1, error)
                : rt_tokens_open(&t, names, n, error);
    refused += !d;
    if ((d != NULL) != good)
        problem = good ? "good files were refused" : "bad files were taken";
    else if (!d && !error[0])
        problem = "refused without a word";
    else if (d && rt_tokens_samples(d) != samples)
        problem = "the number of samples";
    for (int k = 0; d && !problem && k < 12; k++) {
        int64_t s = k == 0   ? 0
                    : k == 1 ? samples - 1
                             : (int64_t)(random_below(r, UINT32_MAX) % samples);

        problem = check_sample(d, files, n, s, &t);
    }
    if (d && !problem)
        problem = check_micro_batch(r, d, t);
    if (d)
        rt_tokens_close(d);
    for (size_t i = 0; i < strlen(error); i++)
        strange += (unsigned char)error[i] < 32;
    if (problem)
        print_case(&t, files, n, error);
    for (int i = 0; i < n; i++) {
        unlink(files[i].name);
        unlink(files[i].mask_name);
        free(files[i].bytes.s);
        free(files[i].mask.s);
    }
    return problem;
}

int main(int argc, char **argv)
{
    return run_cases(argc, argv, run_case);
}
