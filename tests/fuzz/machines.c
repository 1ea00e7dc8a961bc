/* SPDX-License-Identifier: Apache-2.0 */
/* machines SEED FIRST COUNT FOLDER: what a machine hears from others that lie. Each case
 * is one of three.
 *
 * Messages: as the runtime sends them, of ranks that live there, sealed; in half of the
 * cases with some lies: other bytes, kinds, sizes, ranks, a cut end. An intact stream
 * must leave in the shared page what was sent; a wrong one may only touch the ranks
 * behind its link, with values that later code accepts.
 *
 * Records: the same, but the lies come from someone between the two, who does not know
 * the keys: nothing may be believed from the first changed byte on.
 *
 * Greetings of two machines, with someone between who changes, repeats, sends back and
 * invents what they say, or one that does not know the secret: neither end may take the
 * other for something else.
 *
 * Bytes come in pieces of any size. Built with AddressSanitizer and
 * UndefinedBehaviorSanitizer. */
#define RT_CUDA
#define RT_NCCL
#include "../../runtime/job/rt_say.c"
#include "../../runtime/job/rt_sha256.c"
#include "../../runtime/job/rt_greet.c"
#include "../../runtime/cuda/ranks/rt_machines.c"

#include "mutate.h"

#include <stdarg.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes)
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes)
#endif

enum {
    RANKS = 6,
    BEHIND = 3,
    CONTROL_BYTES = 4096,
    MOST_BYTES = 64000,
    MORE_BYTES = 6000
};

static RtShared shared_page;
static char control[RANKS * CONTROL_BYTES];
static const RtTrainer trainer = {.world_size = RANKS, .n_places = 7};

/* ---- what the file calls of the runtime ------------------------------------------ */

bool rt_meet_links(const RtTrainer *t, const RtFlags *f, const RtJoin *j,
                   const RtSecret *secret, const RtShared *shared, int64_t until_ns,
                   RtLink **links, int *n_links, char *error)
{
    (void)t, (void)f, (void)j, (void)secret, (void)shared, (void)until_ns, (void)links;
    (void)n_links, (void)error;
    return false;
}

bool rt_job_fails(RtJob *job, int code)
{
    (void)job, (void)code;
    return false;
}

void rt_job_tell(const char *fmt, ...)
{
    (void)fmt;
}

void rt_ring(RtShared *shared)
{
    (void)shared;
}

const char *rt_limits_map_error(const char *root, int reason)
{
    (void)root;
    return strerror(reason);
}

int64_t rt_clock_ns(void)
{
    return 1000;
}

int64_t rt_control_bytes(const RtTrainer *t)
{
    (void)t;
    return CONTROL_BYTES;
}

int64_t rt_control_offset(const RtTrainer *t, int rank)
{
    (void)t;
    return rank * CONTROL_BYTES;
}

/* ---- messages -------------------------------------------------------------------- */

typedef struct Stream {
    char bytes[MOST_BYTES + MORE_BYTES];
    size_t n;
} Stream;

static void add(Stream *s, int kind, int rank, const void *what, size_t bytes)
{
    const Head head = {.kind = (uint32_t)kind, .bytes = (uint32_t)bytes, .rank = rank};

    memcpy(s->bytes + s->n, &head, sizeof head);
    memcpy(s->bytes + s->n + sizeof head, what, bytes);
    s->n += sizeof head + bytes;
}

static RtView random_view(Random *r)
{
    RtView v = {.finished = random_below(r, 1000),
                .mail_read = random_below(r, 1000),
                .waiting_count = random_below(r, 1000),
                .step = random_below(r, 1000),
                .numerics_hash = random_below(r, UINT32_MAX),
                .place = (int)random_below(r, 16) - 9,
                .waiting = (int)random_below(r, RT_STREAMS + 1) - 1,
                .waiting_subject = (int)random_below(r, 9) - 1,
                .waiting_group = (RtGroup)random_below(r, RANKS),
                .done = (int)random_below(r, 2)};

    for (int s = 0; s < RT_STREAMS; s++)
        v.published[s] = random_below(r, 1000);
    return v;
}

/* An intact stream, and what it says of each rank last. */
static void make(Random *r, Stream *s, RtView *last, char said[RANKS][CONTROL_BYTES])
{
    const int messages = (int)random_below(r, 12);

    s->n = 0;
    for (int i = 0; i < messages; i++) {
        const int rank = BEHIND + (int)random_below(r, RANKS - BEHIND);
        const size_t bytes = random_below(r, RT_SUM_WORDS * 8 + 1);
        char words[RT_SUM_WORDS * 8];

        for (size_t b = 0; b < sizeof words; b++)
            words[b] = (char)random_below(r, 256);
        if (random_below(r, 3) == 0) {
            add(s, CONTROL, rank, words, bytes);
            memcpy(said[rank], words, bytes);
        } else if (random_below(r, 3) == 0) {
            add(s, MAIL, rank, words, bytes);
        } else if (random_below(r, 4) == 0) {
            const JobWord job = {0, (int)random_below(r, 16), 0};
            add(s, JOB, -1, &job, sizeof job);
        } else {
            last[rank] = random_view(r);
            add(s, RANK, rank, &last[rank], sizeof last[rank]);
        }
    }
}

/* Of one message: who, how much or what it is. */
static void lie_in_head(Random *r, Stream *s)
{
    static const uint32_t sizes[] = {0,    1,    12,   16,    127,        2048,
                                     2049, 4096, 5000, 70000, 0x7fffffff, 0xffffffff};
    size_t at = 0;
    Head h;

    for (int k = (int)random_below(r, 6); at + sizeof h <= s->n; k--) {
        memcpy(&h, s->bytes + at, sizeof h);
        if (k <= 0)
            break;
        at += sizeof h + h.bytes;
    }
    if (at + sizeof h > s->n)
        return;
    switch (random_below(r, 3)) {
    case 0:
        h.rank = random_below(r, 8) ? (int)random_below(r, RANKS + 3) - 1 : INT32_MIN;
        break;
    case 1:
        h.bytes = sizes[random_below(r, sizeof sizes / sizeof *sizes)];
        break;
    default:
        h.kind = random_below(r, 6);
    }
    memcpy(s->bytes + at, &h, sizeof h);
}

static bool lie(Random *r, Stream *s)
{
    const int lies = random_below(r, 2) ? 0 : 1 + (int)random_below(r, 4);

    for (int i = 0; i < lies && s->n > 0; i++) {
        const size_t at = random_below(r, (uint32_t)s->n);

        switch (random_below(r, 4)) {
        case 0:
            s->bytes[at] = (char)random_below(r, 256);
            break;
        case 1:
            lie_in_head(r, s);
            break;
        case 2: /* the end is missing */
            s->n = at;
            break;
        default: /* a piece of it again, over another */
            memmove(s->bytes, s->bytes + at, s->n - at);
        }
    }
    return lies > 0;
}

/* It comes in pieces; false: the link is given up. */
static bool feed(Random *r, RtLink *l, const Stream *s)
{
    size_t at = 0;
    bool good = true;

    while (good && at < s->n) {
        size_t room = BUFFER_BYTES - l->in_bytes, n = 1 + random_below(r, 3000);

        if (room == 0) { /* no message is as long as the buffer */
            printf("FAIL: a message that never ends\n");
            exit(1);
        }
        n = n < room ? n : room;
        n = n < s->n - at ? n : s->n - at;
        memcpy(l->in + l->in_bytes, s->bytes + at, n);
        l->in_bytes += n;
        at += n;
        /* what has not come is not read */
        ASAN_POISON_MEMORY_REGION(l->in + l->in_bytes, BUFFER_BYTES - l->in_bytes);
        good = hear_all(l);
        ASAN_UNPOISON_MEMORY_REGION(l->in, BUFFER_BYTES);
    }
    return good;
}

static bool equal(const RtView *v, const RtRankShared *r)
{
    bool same = v->finished == r->finished && v->mail_read == r->mail_read &&
                v->waiting_count == r->waiting_count && v->step == r->step &&
                v->place == r->place && v->waiting == r->waiting && v->done == r->done &&
                v->numerics_hash == r->numerics_hash &&
                v->waiting_group == r->waiting_group;

    for (int s = 0; s < RT_STREAMS; s++)
        same = same && v->published[s] == r->published[s];
    return same;
}

static const char *look(bool lied, bool heard, const RtView *last,
                        char said[RANKS][CONTROL_BYTES])
{
    static const RtRankShared untouched;

    for (int k = 0; k < BEHIND; k++)
        for (int b = 0; b < CONTROL_BYTES; b++)
            if (memcmp(&shared_page.rank[k], &untouched, sizeof untouched) != 0 ||
                control[k * CONTROL_BYTES + b] != 0)
                return "a rank of this machine is written";
    for (int k = BEHIND; k < RANKS; k++) {
        const RtRankShared *p = &shared_page.rank[k];

        for (int b = RT_SUM_WORDS * 8; b < CONTROL_BYTES; b++)
            if (control[k * CONTROL_BYTES + b] != 0)
                return "more is written than a rank may say";

        if (p->waiting >= RT_STREAMS || p->waiting_group >= RANKS ||
            p->place >= trainer.n_places)
            return "a rank waits for none that there is";
        if (!lied && (!heard || !equal(&last[k], p) ||
                      memcmp(control + k * CONTROL_BYTES, said[k], CONTROL_BYTES) != 0))
            return "an intact stream is not what is heard";
    }
    return NULL;
}

static RtSeal random_seal(Random *r)
{
    RtSeal seal = {.count = random_below(r, 3)};

    for (size_t i = 0; i < sizeof seal.key; i++)
        seal.key[i] = (unsigned char)random_below(r, 256);
    return seal;
}

/* In records of any number of messages: as cut as `cuts` says, whatever the bytes are. */
static void seal_all(Random *r, RtSeal seal, const Stream *plain, Stream *sealed)
{
    size_t at = 0;

    sealed->n = 0;
    while (at < plain->n) {
        const size_t left = plain->n - at;
        size_t n = 0;
        Head h;

        /* whole messages, as long as they are what they say */
        do {
            memset(&h, 0, sizeof h);
            memcpy(&h, plain->bytes + at + n, left - n < sizeof h ? left - n : sizeof h);
            n += sizeof h + (size_t)h.bytes;
        } while (n < left && random_below(r, 2));
        n = n < left ? n : left;
        if (sealed->n + rt_sealed_bytes(n) > MOST_BYTES)
            return;
        memcpy(sealed->bytes + sealed->n + RT_SEAL_HEAD, plain->bytes + at, n);
        rt_seal(&seal, (unsigned char *)sealed->bytes + sealed->n, n);
        sealed->n += rt_sealed_bytes(n);
        at += n;
    }
}

static void start(RtLink *link)
{
    memset(&shared_page.rank, 0, RANKS * sizeof *shared_page.rank);
    memset(control, 0, sizeof control);
    for (int k = BEHIND; k < RANKS; k++)
        link->behind[k] = true;
}

static const char *run_messages(Random *r, int *refused)
{
    static Stream s, sealed;
    static char said[RANKS][CONTROL_BYTES];
    static unsigned char in[BUFFER_BYTES];
    RtView last[RANKS] = {0};
    RtLink link = {.in = in, .theirs = random_seal(r)};
    bool lied, heard;

    start(&link);
    memset(said, 0, sizeof said);
    make(r, &s, last, said);
    lied = lie(r, &s);
    seal_all(r, link.theirs, &s, &sealed);
    heard = feed(r, &link, &sealed);
    *refused += !heard;
    return look(lied, heard, last, said);
}

/* ---- records --------------------------------------------------------------------- */

static const char *run_records(Random *r, int *refused)
{
    static Stream s, sealed, changed;
    static char said[RANKS][CONTROL_BYTES];
    static unsigned char in[BUFFER_BYTES];
    RtView last[RANKS] = {0};
    RtLink link = {.in = in, .theirs = random_seal(r)};
    const uint64_t first = link.theirs.count;
    uint64_t believed;
    uint32_t bytes;
    size_t at = 0;
    bool heard;

    start(&link);
    make(r, &s, last, said);
    seal_all(r, link.theirs, &s, &sealed);
    memcpy(changed.bytes, sealed.bytes, sealed.n);
    changed.n = sealed.n;
    while (!lie(r, &changed)) {
    }
    if (random_below(r, 8) == 0) { /* more than a record can have */
        memset(changed.bytes + changed.n, 'x', sizeof changed.bytes - changed.n);
        changed.n = sizeof changed.bytes;
    }
    heard = feed(r, &link, &changed);
    *refused += !heard;
    /* the one that was refused may be counted */
    believed = link.theirs.count - first - (!heard && link.theirs.count > first);
    for (uint64_t i = 0; i < believed; i++) {
        if (at + RT_SEAL_HEAD > sealed.n)
            return "more is believed than was sent";
        memcpy(&bytes, sealed.bytes + at, sizeof bytes);
        at += rt_sealed_bytes(bytes);
        if (at > sealed.n || at > changed.n)
            return "more is believed than came";
    }
    return memcmp(sealed.bytes, changed.bytes, at) ? "what was changed is believed"
                                                   : NULL;
}

/* ---- greetings ------------------------------------------------------------------- */

enum { WORDS = 4 }; /* of both ends, in turn: the visitor begins */
typedef struct Said {
    unsigned char bytes[RT_GREETING_BYTES];
    size_t n;
} Said;

/* Whom the one between speaks for: each word is changed, or is another one. */
static bool interfere(Random *r, Said *said, int word)
{
    const Said before = said[word];
    Said *s = &said[word];
    const size_t at = random_below(r, (uint32_t)s->n);

    switch (random_below(r, 4)) {
    case 0: /* a bit */
        s->bytes[at] ^= (unsigned char)(1 << random_below(r, 8));
        break;
    case 1: /* bytes of its own */
        for (size_t i = at; i < s->n; i++)
            s->bytes[i] = (unsigned char)random_below(r, 256);
        break;
    case 2: /* what somebody has said before */
        memmove(s->bytes, said[random_below(r, (uint32_t)word + 1)].bytes, s->n);
        break;
    default: /* a nonce as a proof, a proof as a nonce */
        memmove(s->bytes + s->n - RT_NONCE_BYTES,
                said[random_below(r, (uint32_t)word + 1)].bytes + random_below(r, 9),
                RT_NONCE_BYTES);
    }
    return memcmp(before.bytes, s->bytes, s->n) != 0;
}

static RtGreet hear_pieces(Random *r, RtGreeting *g, const Said *s)
{
    RtGreet how = RT_GREET_MORE;

    for (size_t at = 0; at < s->n && how == RT_GREET_MORE;) {
        const size_t wants = rt_greet_wants(g), left = s->n - at;
        size_t n = 1 + random_below(r, RT_GREETING_BYTES);

        n = n < wants ? n : wants;
        n = n < left ? n : left;
        how = rt_greet_hear(g, s->bytes + at, n);
        at += n;
    }
    return how;
}

/* The same nonces for the same case. */
static void begin(Random *r, RtGreeting *g, const RtSecret *secret, const char *door,
                  bool hosts)
{
    if (!rt_greet_begin(g, secret, door, hosts))
        exit(1);
    for (size_t i = 0; i < RT_NONCE_BYTES; i++)
        g->nonce[hosts][i] = (unsigned char)random_below(r, 256);
    if (!hosts)
        say_nonce(g);
}

/* One that knows nothing says what a trainer would: of what it has heard, or of its own.
 */
static void pretend(Random *r, Said *said, int word, size_t n)
{
    Said *s = &said[word];

    s->n = n;
    for (size_t i = 0; i < n; i++)
        s->bytes[i] = (unsigned char)random_below(r, 256);
    if (word > 0 && random_below(r, 4))
        memcpy(s->bytes, said[random_below(r, (uint32_t)word)].bytes, n);
    if (n == RT_GREETING_BYTES)
        memcpy(s->bytes, magic, sizeof magic);
}

typedef enum { HONEST, ANOTHER_SECRET, ANOTHER_DOOR, BETWEEN, ALONE } Odd;

/* An end takes the other for one of the job only if both know the secret, are of the same
 * door, and all that they said until then has arrived. */
static const char *run_greeting(Random *r, int *refused)
{
    const Odd odd = (Odd)random_below(r, ALONE + 1);
    const int from_word = (int)random_below(r, WORDS),
              absent = odd == ALONE ? (int)random_below(r, 2) : -1;
    RtSecret secret[2] = {{.given = true}, {.given = true}};
    RtGreeting end[2]; /* the visitor, the host */
    Said said[WORDS] = {0};
    bool changed = false;

    secret[1].key[random_below(r, RT_DIGEST_BYTES)] ^= odd == ANOTHER_SECRET;
    begin(r, &end[0], &secret[0], "machines", false);
    begin(r, &end[1], &secret[1], odd == ANOTHER_DOOR ? "ranks" : "machines", true);
    for (int word = 0; word < WORDS; word++) {
        RtGreeting *from = &end[word % 2], *to = &end[1 - word % 2];
        RtGreet how;

        said[word].n = from->out_bytes;
        memcpy(said[word].bytes, from->out, from->out_bytes);
        if (absent == word % 2)
            pretend(r, said, word, rt_greet_wants(to));
        else if (odd != HONEST && word >= from_word)
            changed = interfere(r, said, word) || changed;
        if (absent == 1 - word % 2)
            continue;
        how = hear_pieces(r, to, &said[word]);
        if (how == RT_GREET_DONE && (changed || (odd != HONEST && odd != BETWEEN)))
            return "a stranger is taken for one of the job";
        if (how > RT_GREET_DONE) {
            (*refused)++;
            return to->out_bytes > 0 ? "a stranger is answered"
                   : odd == HONEST || (odd == BETWEEN && !changed)
                       ? "an honest greeting is refused"
                       : NULL;
        }
        if ((how == RT_GREET_DONE) != (word >= 2))
            return "a greeting is too short, or too long";
    }
    return memcmp(end[0].ours.key, end[1].theirs.key, RT_DIGEST_BYTES) ||
                   memcmp(end[1].ours.key, end[0].theirs.key, RT_DIGEST_BYTES)
               ? "the two have different keys"
               : NULL;
}

static const char *run_case(Random *r, int *refused)
{
    const uint32_t kind = random_below(r, 4);

    return kind < 2    ? run_messages(r, refused)
           : kind == 2 ? run_records(r, refused)
                       : run_greeting(r, refused);
}

int main(int argc, char **argv)
{
    uint64_t first;
    int count, wrong = 0, refused = 0;

    if (argc != 5) {
        fprintf(stderr, "usage: %s SEED FIRST COUNT FOLDER\n", argv[0]);
        return 2;
    }
    first = strtoull(argv[2], NULL, 10);
    count = atoi(argv[3]);
    net.trainer = &trainer;
    net.shared = &shared_page;
    net.control = control;
    for (int i = 0; i < count; i++) {
        Random r;
        const char *problem;

        random_start(&r, strtoull(argv[1], NULL, 10), first + (uint64_t)i);
        problem = run_case(&r, &refused);
        if (problem) {
            wrong++;
            printf("FAIL case %llu: %s\n", (unsigned long long)first + (unsigned)i,
                   problem);
        }
    }
    printf("%d refused, %d heard\n", refused, count - refused);
    printf("%d passed, %d failed\n", count - wrong, wrong);
    return wrong ||
           (count >= 1000 && (refused < count / 20 || refused > count * 19 / 20));
}
