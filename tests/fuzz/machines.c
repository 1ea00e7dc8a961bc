/* SPDX-License-Identifier: Apache-2.0 */
/* machines SEED FIRST COUNT FOLDER: what a machine hears from another one that lies. Each
 * case is a stream of messages as the runtime sends them, of ranks that live there, in
 * half of the cases with some lies: other bytes, kinds, sizes, ranks, a cut end; it comes
 * in pieces of any size. A sound stream must leave in the shared page what was sent; a
 * wrong one may only ever touch the ranks behind its link, with what later code can bear.
 * Built with AddressSanitizer and UndefinedBehaviorSanitizer. */
#define RT_CUDA
#define RT_NCCL
#include "../../runtime/cuda/rt_machines.c"

#include "mutate.h"

#include <stdarg.h>

enum { RANKS = 6, BEHIND = 3, CONTROL_BYTES = 4096, MOST_BYTES = 60000 };

static RtShared shared_page;
static char control[RANKS * CONTROL_BYTES];
static const RtTrainer trainer = {.world_size = RANKS, .n_places = 7};

/* ---- what the file calls of the runtime
 * ------------------------------------------------- */

bool rt_meet(const RtTrainer *t, const RtFlags *f, const RtJoin *j,
             const RtShared *shared, int64_t until_ns, RtLink **links, int *n_links,
             char *error)
{
    (void)t, (void)f, (void)j, (void)shared, (void)until_ns, (void)links, (void)n_links;
    (void)error;
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

/* ---- one case
 * -------------------------------------------------------------------------- */

typedef struct Stream {
    char bytes[MOST_BYTES];
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
    const int ranks = (int)random_below(r, 3),
              apart = ranks ? 1 + (int)random_below(r, 2) : 0;
    RtView v = {.finished = random_below(r, 1000),
                .mail_read = random_below(r, 1000),
                .waiting_count = random_below(r, 1000),
                .step = random_below(r, 1000),
                .numerics_hash = random_below(r, UINT32_MAX),
                .place = (int)random_below(r, 16) - 9,
                .waiting = (int)random_below(r, RT_STREAMS + 1) - 1,
                .waiting_segment = (int)random_below(r, 9) - 1,
                .waiting_ranks = ranks,
                .waiting_stride = apart,
                .done = (int)random_below(r, 2)};

    for (int s = 0; s < RT_STREAMS; s++)
        v.published[s] = random_below(r, 1000);
    return v;
}

/* A sound stream, and what it says of each rank last. */
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

    while (at < s->n) {
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
        if (!hear_all(l))
            return false;
    }
    return true;
}

static bool equal(const RtView *v, const RtRankShared *r)
{
    bool same = v->finished == r->finished && v->mail_read == r->mail_read &&
                v->waiting_count == r->waiting_count && v->step == r->step &&
                v->place == r->place && v->waiting == r->waiting && v->done == r->done &&
                v->numerics_hash == r->numerics_hash &&
                v->waiting_ranks == r->waiting_ranks;

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

        if (p->waiting >= RT_STREAMS || p->waiting_ranks < 0 || p->waiting_stride < 0 ||
            p->waiting_ranks * (int64_t)p->waiting_stride > RANKS ||
            (p->waiting_ranks > 0 && p->waiting_stride == 0) ||
            p->place >= trainer.n_places)
            return "a rank waits for none that there is";
        if (!lied && (!heard || !equal(&last[k], p) ||
                      memcmp(control + k * CONTROL_BYTES, said[k], CONTROL_BYTES) != 0))
            return "a sound stream is not what is heard";
    }
    return NULL;
}

static const char *run_case(Random *r, int *refused)
{
    static Stream s;
    static char said[RANKS][CONTROL_BYTES], in[BUFFER_BYTES];
    RtView last[RANKS] = {0};
    RtLink link = {.in = in};
    bool lied, heard;

    memset(&shared_page.rank, 0, RANKS * sizeof *shared_page.rank);
    memset(control, 0, sizeof control);
    memset(said, 0, sizeof said);
    for (int k = BEHIND; k < RANKS; k++)
        link.behind[k] = true;
    make(r, &s, last, said);
    lied = lie(r, &s);
    heard = feed(r, &link, &s);
    *refused += !heard;
    return look(lied, heard, last, said);
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
