/* SPDX-License-Identifier: Apache-2.0 */
/* indexed SEED FIRST COUNT FOLDER: the runtime's reader against Megatron's pairs that lie
 * and files without a header. Each case writes X.bin and X.idx (every dtype, sequences,
 * bounds of documents), then in half of the cases changes the index or cuts a file, and
 * opens it with some sequence length and vocabulary. What must come out is computed here
 * a second time, from the bytes: refused or not, every token, where documents begin.
 * Built with AddressSanitizer and UndefinedBehaviorSanitizer. */
#include "reader.h"

enum { MAX_SEQUENCES = 60, MAX_TOKENS = 12000, MAX_SEQ = 64 };

typedef struct Pair {
    Str ids, index;
    bool good;
    int64_t tokens, id[MAX_TOKENS];
    bool begins[MAX_TOKENS + 1]; /* a document */
} Pair;

static void put(Str *s, uint64_t v, int bytes)
{
    for (int k = 0; k < bytes; k++)
        str_add(s, (char[1]){(char)(v >> 8 * k)}, 1);
}

static uint64_t get(const Str *s, size_t at, int bytes)
{
    uint64_t v = 0;

    for (int k = bytes; k-- > 0;)
        v = v << 8 | (unsigned char)s->s[at + (size_t)k];
    return v;
}

/* ---- what is written ------------------------------------------------------------- */

static const int widths[] = {0, 1, 1, 2, 4, 8, 8, 4, 2};

static void make_pair(Random *r, Pair *p)
{
    static const int codes[] = {1, 2, 3, 4, 4, 5, 8, 8, 8, 8};
    int code = codes[random_below(r, 10)], n = (int)random_below(r, MAX_SEQUENCES);
    int64_t length[MAX_SEQUENCES], at = 0;
    int bounds = 0, bound[MAX_SEQUENCES + 8];

    for (int k = 0; k < n; k++)
        length[k] = random_below(r, random_below(r, 5) ? 40 : 3);
    put(&p->index, UINT64_C(0x58444944494D4D), 8), put(&p->index, 0, 1);
    put(&p->index, 1, 8), put(&p->index, (uint64_t)code, 1);
    bound[bounds++] = 0;
    for (int k = 0; k <= n; k++)
        while (bounds < MAX_SEQUENCES + 6 && random_below(r, 3) == 0)
            bound[bounds++] = k;
    bound[bounds++] = n;
    put(&p->index, (uint64_t)n, 8), put(&p->index, (uint64_t)bounds, 8);
    for (int k = 0; k < n; k++)
        put(&p->index, (uint64_t)length[k], 4);
    for (int k = 0; k < n; at += length[k++] * widths[code])
        put(&p->index, (uint64_t)at, 8);
    for (int k = 0; k < bounds; k++)
        put(&p->index, (uint64_t)bound[k], 8);
    for (int64_t k = 0; k < at / widths[code]; k++)
        put(&p->ids, random_below(r, 2000) ? random_below(r, 100) : (uint64_t)-1,
            widths[code]);
}

/* One lie: a word of the index, a bit, an end that is cut or grown. */
static void lie(Random *r, Pair *p)
{
    static const uint64_t words[] = {0,
                                     1,
                                     2,
                                     8,
                                     0x7fffffff,
                                     0xffffffff,
                                     0x80000000,
                                     INT64_MAX,
                                     UINT64_MAX,
                                     (uint64_t)INT64_MIN,
                                     UINT64_MAX / 8,
                                     UINT64_MAX / 12 + 1};
    Str *s = random_below(r, 3) ? &p->index : &p->ids;
    uint64_t word = words[random_below(r, sizeof words / sizeof *words)];
    size_t at = random_below(r, 2) ? random_below(r, 5) * 4 + 9 - 1
                                   : random_below(r, (uint32_t)s->n + 1);

    switch (random_below(r, 6)) {
    case 0:
        s->n = random_below(r, (uint32_t)s->n + 1);
        break;
    case 1:
        put(s, word, 1 + (int)random_below(r, 8));
        break;
    case 2:
        if (p->index.n > 34)
            p->index.s[9 + random_below(r, 25)] ^= (char)(1 << random_below(r, 8));
        break;
    case 3:
        if (p->index.n > 34)
            p->index.s[random_below(r, (uint32_t)p->index.n)] ^=
                (char)(1 << random_below(r, 8));
        break;
    case 4: /* as many bytes as there are sequences: modes */
        for (uint64_t n = p->index.n >= 34 ? get(&p->index, 18, 8) : 0; n && n < 99; n--)
            put(&p->index, 0, 1);
        break;
    default:
        for (int k = 0; k < 8 && at + (size_t)k < s->n; k++)
            s->s[at + (size_t)k] = (char)(word >> 8 * k);
    }
}

/* ---- what must come out ---------------------------------------------------------- */

static bool expect_index(Pair *p)
{
    const Str *x = &p->index;
    uint64_t n, bounds, tokens = 0, code, last = 0;
    int w;

    if (x->n < 34 || memcmp(x->s, "MMIDIDX\0", 9) != 0 || get(x, 9, 8) != 1)
        return false;
    code = get(x, 17, 1), n = get(x, 18, 8), bounds = get(x, 26, 8);
    if (code == 0 || code > 8 || code == 6 || code == 7 || n > 100000 ||
        bounds > 100000 || x->n != 34 + 12 * n + 8 * bounds)
        return false;
    w = widths[code];
    for (uint64_t k = 0; k < n; k++) {
        if (get(x, 34 + 4 * k, 4) > MAX_TOKENS ||
            get(x, 34 + 4 * n + 8 * k, 8) != tokens * (uint64_t)w)
            return false;
        tokens += get(x, 34 + 4 * k, 4);
    }
    for (uint64_t k = 0; k < bounds; k++) {
        uint64_t b = get(x, 34 + 12 * n + 8 * k, 8);

        if (b < last || b > n || (k == 0 && b != 0))
            return false;
        last = b;
        if (tokens <= MAX_TOKENS)
            p->begins[b < n ? get(x, 34 + 4 * n + 8 * b, 8) / (uint64_t)w : tokens] =
                true;
    }
    if (last != n || p->ids.n != tokens * (uint64_t)w || p->ids.n == 0 ||
        tokens > MAX_TOKENS)
        return false;
    p->tokens = (int64_t)tokens;
    for (int64_t k = 0; k < p->tokens; k++) {
        p->id[k] = (int64_t)get(&p->ids, (size_t)(k * w), w);
        if (code > 1 && code < 5 && p->id[k] >> (8 * w - 1))
            p->id[k] -= INT64_C(1) << 8 * w;
    }
    return true;
}

static void expect_bare(Pair *p)
{
    p->tokens = (int64_t)p->ids.n / 2;
    p->good = p->ids.n > 0 && p->ids.n % 2 == 0 && p->tokens <= MAX_TOKENS;
    for (int64_t k = 0; p->good && k < p->tokens; k++)
        p->id[k] = (int64_t)get(&p->ids, (size_t)(2 * k), 2);
}

static bool write_file(const char *name, const Str *s)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool good = fd >= 0 && write(fd, s->s, s->n) == (ssize_t)s->n;

    if (fd >= 0)
        close(fd);
    return good;
}

/* A step's micro-batch: ids, targets and documents of one sample. */
static const char *check_sample(const Pair *p, RtTokens *d, RtTrainer t, int64_t step)
{
    int32_t ids[3 * MAX_SEQ];
    RtState state = {.tokens = d, .step = step};
    Rt rt = {.trainer = &t, .state = &state, .local = (char *)ids};
    int64_t at = rt_tokens_place(d, 0, step) * t.seq_tokens, start = 0;
    bool legal = true;

    for (int64_t i = 0; i <= t.seq_tokens; i++)
        legal = legal && p->id[at + i] >= 0 && p->id[at + i] < t.vocab;
    if (setjmp(failed) != 0)
        return legal                                ? "it refused good tokens"
               : strstr(failure, "the model's voc") ? NULL
                                                    : "a refusal without the vocabulary";
    rt_load_micro_batch(&rt, 0);
    if (!legal)
        return "it took an id outside the vocabulary";
    for (int64_t i = 0; i < t.seq_tokens; i++) {
        bool end = t.packed && (p->id[at + i] == t.document_end || p->begins[at + i + 1]);

        if (ids[i] != p->id[at + i])
            return "another token";
        if (ids[t.seq_tokens + i] != (end ? -1 : p->id[at + i + 1]))
            return "another target";
        if (t.packed && ids[2 * t.seq_tokens + i] != start)
            return "a document begins elsewhere";
        start = end ? i + 1 : start;
    }
    return NULL;
}

static const char *run_case(Random *r)
{
    static Pair p;
    static const char *const words[] = {"x.bin",          "x.idx",          "x.*",
                                        "megatron:x.bin", "megatron:x.idx", "[x]*=2"};
    const char *problem = NULL, *word = words[random_below(r, 6)];
    char error[RT_ERROR_BYTES] = "";
    bool bare = random_below(r, 6) == 0;
    RtTrainer t = {.vocab = random_below(r, 4) ? 100 : 65536,
                   .micro_batch = 1,
                   .micro_batches = 1,
                   .document_end = random_below(r, 100)};
    RtTokens *d;

    p = (Pair){0};
    str_add(&p.ids, "", 0), str_add(&p.index, "", 0);
    make_pair(r, &p);
    for (uint32_t n = random_below(r, 2) ? 1 + random_below(r, 3) : 0; n; n--)
        lie(r, &p);
    if (bare)
        expect_bare(&p), word = "nanogpt:x.bin";
    else
        p.good = expect_index(&p);
    t.seq_tokens = 1 + random_below(r, MAX_SEQ);
    t.packed = random_below(r, 2);
    t.targets_offset = t.seq_tokens * 4, t.starts_offset = t.seq_tokens * 8;
    if (!write_file("x.bin", &p.ids) || !write_file("x.idx", &p.index))
        return "the files cannot be written";
    p.good = p.good && p.tokens > t.seq_tokens;
    d = rt_tokens_open(&t, &word, 1, error);
    refused += d == NULL;
    if ((d != NULL) != p.good)
        problem = p.good ? "good files were refused" : "bad files were taken";
    else if (!d && !error[0])
        problem = "refused without a word";
    else if (d && rt_tokens_samples(d) != (p.tokens - 1) / t.seq_tokens)
        problem = "the number of samples";
    for (int64_t k = 0; d && !problem && k < 20; k++)
        problem = check_sample(&p, d, t, k);
    if (problem)
        printf("     | --data %s, seq %lld: %s%s\n", word, (long long)t.seq_tokens, error,
               failure);
    if (d)
        rt_tokens_close(d);
    free(p.ids.s), free(p.index.s);
    return problem;
}

int main(int argc, char **argv)
{
    return run_cases(argc, argv, run_case);
}
