/* SPDX-License-Identifier: MIT-0 */
/* rt_meet.c: how machines find each other. In: where they meet, from --meet or the
 * launcher's MASTER_ADDR and MASTER_PORT; the ranks of this machine; the job's secret.
 * Out: connections on which both ends have proved that they know it (rt_door.h).
 *
 * 1. The machine of rank 0 listens there, only on its own addresses among those named,
 *    until the ranks of all machines have arrived. Each machine says which ranks are its
 *    own. Strangers learn nothing and cannot delay others.
 * 2. A machine that leaves before the start may return. One that names ranks which are
 *    present already is refused, and the job continues.
 * 3. Machines start at different times, and names, networks and ports become available
 *    late. So a visitor tries all addresses again, less and less often, until its time is
 *    up, and then reports the problem. Only a refusal by rank 0's machine itself is
 *    final.
 * 4. Rank 0's machine waits as long as its time limit; a visitor that has reached it
 *    waits that long, and a little longer, for the answer. */
#define _GNU_SOURCE
#include "job/rt_door.h"
#include "cuda/ranks/rt_machines.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x6673647067656e33)
#define DOOR "machines"
enum {
    CONNECT_MS = 5000,   /* a network that drops packets gives no answer */
    GREETING_MS = 10000, /* for a busy host; its own limit for a visitor is shorter */
    SEND_MS = 5000,
    FIRST_REST_MS = 50,
    MOST_REST_MS = 1000,
    TELL_AFTER_MS = 10000
};

typedef struct Hello {
    uint64_t magic, view_bytes; /* equal builds have equal messages */
    uint64_t numerics_hash, job;
    uint64_t process; /* a random number, unique to this process */
    int32_t rank, world_size;
    uint8_t here[RT_MAX_RANKS];
} Hello;
_Static_assert(sizeof(Hello) <= RT_HELLO_BYTES, "it is a visitor's first message");

enum { REFUSED, COME_IN, ANOTHER_JOB };
typedef struct Answer {
    uint64_t magic;
    int32_t what;
    char text[RT_ERROR_BYTES];
} Answer;

typedef struct Meeting {
    const RtTrainer *trainer;
    const RtJoin *join;
    RtSecret secret;
    RtPlaces places; /* rank 0's machine, one or more addresses */
    Hello mine;
    int64_t patience_ns, until_ns;
    RtLink *link;
    int links;
    char note[300]; /* about a refused one, for the end */
    char *error;
} Meeting;

__attribute__((format(printf, 2, 3))) static bool trouble(Meeting *m, const char *fmt,
                                                          ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(m->error, RT_ERROR_BYTES, fmt, ap);
    va_end(ap);
    return false;
}

static int64_t in_ms(int64_t ms)
{
    return rt_clock_ns() + ms * 1000000;
}

/* Pauses before the next try, longer each time and differently on each machine; false: no
 * time for another try. */
static bool rest(const Meeting *m, int64_t *ms)
{
    const uint64_t seed[2] = {(uint64_t)m->join->rank, (uint64_t)rt_clock_ns()};
    const int64_t part = (int64_t)(rt_hash64(seed, sizeof seed, 0) % (uint64_t)*ms);
    const int64_t left = m->until_ns - rt_clock_ns(), pause = (*ms + part) * 1000000;
    const int64_t ns = pause < left ? pause : left;
    if (ns > 0) {
        const struct timespec nap = {ns / 1000000000, ns % 1000000000};
        nanosleep(&nap, NULL);
    }
    *ms = *ms * 3 / 2 < MOST_REST_MS ? *ms * 3 / 2 : MOST_REST_MS;
    return rt_clock_ns() < m->until_ns;
}

static bool add_link(Meeting *m, int s, uint64_t process, const uint8_t *behind,
                     const RtGreeting *g)
{
    const int ranks = m->trainer->world_size;
    RtLink *list = realloc(m->link, (size_t)(m->links + 1) * sizeof *list);
    if (list == NULL)
        return trouble(m, "out of memory");
    m->link = list;
    RtLink *l = &list[m->links++];
    *l = (RtLink){.socket = s,
                  .first_rank = -1,
                  .process = process,
                  .ours = g->ours,
                  .theirs = g->theirs};
    for (int r = 0; r < ranks; r++) {
        l->behind[r] = behind[r] != 0;
        l->first_rank = l->behind[r] && l->first_rank < 0 ? r : l->first_rank;
    }
    const int yes = 1;
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return true;
}

/* ---- the machine of rank 0 ------------------------------------------------------- */

static bool open_door(Meeting *m, RtDoor *d)
{
    int64_t ms = FIRST_REST_MS;
    const char *why = "";
    bool again;
    do {
        again = false;
        for (int i = 0; i < m->places.n; i++)
            if (!rt_place_listen(&m->places.place[i], d, &why, &again, m->error))
                return false;
    } while (d->listeners == 0 && again && rest(m, &ms));
    return d->listeners > 0 ||
           trouble(m,
                   "cannot listen at %s, where the machines meet: %s; --meet HOST:PORT "
                   "names another address of this machine",
                   m->places.name, why);
}

static void answer(RtSeal *ours, int s, int what, const char *text)
{
    Answer a = {.magic = MAGIC, .what = what};
    snprintf(a.text, sizeof a.text, "%.*s", (int)sizeof a.text - 1, text);
    rt_send_sealed(s, ours, &a, sizeof a, in_ms(SEND_MS));
}

static void turn_away(RtVisitor *v, int what, const char *text)
{
    answer(&v->greeting.ours, v->socket, what, text);
    close(v->socket);
}

/* Its ranks, of which it is one; 0: they are invalid, or present already. */
static int ranks_of(Meeting *m, const Hello *h, char *why, size_t bytes)
{
    int ranks = 0;
    for (int r = 0; r < m->mine.world_size; r++) {
        if (h->here[r] && m->mine.here[r]) {
            snprintf(why, bytes, "two machines say that they have rank %d", r);
            return 0;
        }
        ranks += h->here[r] != 0;
    }
    if (h->rank < 0 || h->rank >= m->mine.world_size || !h->here[h->rank]) {
        snprintf(why, bytes, "rank %d is not among the ranks that its machine names",
                 h->rank);
        return 0;
    }
    return ranks;
}

/* Machines that left before the start: they may return. If a process comes again, it has
 * left before, even if its old connection seems open. */
static void see_who_left(Meeting *m, uint64_t process, int *missing)
{
    int kept = 0;
    for (int i = 0; i < m->links; i++) {
        RtLink *l = &m->link[i];
        if (l->process != process && !rt_has_left(l->socket)) {
            m->link[kept++] = *l;
            continue;
        }
        close(l->socket);
        for (int r = 0; r < m->mine.world_size; r++) {
            m->mine.here[r] = m->mine.here[r] && !l->behind[r];
            *missing += l->behind[r];
        }
    }
    m->links = kept;
}

/* Admits one that knows the secret; false if the job cannot continue. */
static bool let_in(Meeting *m, RtVisitor *v, int *missing)
{
    Hello h;
    memcpy(&h, v->record + RT_SEAL_HEAD, sizeof h);
    if (h.magic != MAGIC || h.job != m->mine.job || h.world_size != m->mine.world_size) {
        turn_away(v, ANOTHER_JOB, "another job meets there; --meet names another place");
        return true;
    }
    if (h.numerics_hash != m->mine.numerics_hash || h.view_bytes != m->mine.view_bytes) {
        trouble(m,
                "the machine of rank %d runs another trainer: numerics %016llx, rank 0 "
                "has %016llx",
                h.rank, (unsigned long long)h.numerics_hash,
                (unsigned long long)m->mine.numerics_hash);
        turn_away(v, REFUSED, m->error);
        return false;
    }
    see_who_left(m, h.process, missing);
    const int ranks = ranks_of(m, &h, m->note, sizeof m->note);
    if (ranks == 0) {
        turn_away(v, REFUSED, m->note);
        return true;
    }
    if (!add_link(m, v->socket, h.process, h.here, &v->greeting)) {
        turn_away(v, REFUSED, m->error);
        return false;
    }
    for (int r = 0; r < m->mine.world_size; r++)
        m->mine.here[r] |= h.here[r];
    *missing -= ranks;
    return true;
}

static bool say_missing(Meeting *m, const RtDoor *d, int missing)
{
    char strangers[160];
    int first = 0;
    while (m->mine.here[first])
        first++;
    rt_door_strangers(d, strangers, sizeof strangers);
    return trouble(m, "%d of %d ranks came to %s; the machine of rank %d did not%s%s%s",
                   m->mine.world_size - missing, m->mine.world_size, m->places.name,
                   first, m->note[0] != '\0' ? "; one was refused: " : "", m->note,
                   strangers);
}

static bool answer_all(Meeting *m, bool good)
{
    Answer a = {.magic = MAGIC, .what = good ? COME_IN : REFUSED};
    snprintf(a.text, sizeof a.text, "%.*s", (int)sizeof a.text - 1, good ? "" : m->error);
    for (int i = 0; i < m->links; i++) {
        RtLink *l = &m->link[i];
        if (!rt_send_sealed(l->socket, &l->ours, &a, sizeof a, in_ms(SEND_MS)) && good) {
            good =
                trouble(m, "the machine of rank %d left before the start", l->first_rank);
        }
    }
    return good;
}

/* One connection per machine may exceed the process's initial limit. */
static void allow_descriptors(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max;
        setrlimit(RLIMIT_NOFILE, &l);
    }
}

static bool host(Meeting *m)
{
    static RtDoor d;
    static RtVisitor guest;
    int missing = 0;
    rt_door_begin(&d, &m->secret, DOOR, sizeof(Hello));
    for (int r = 0; r < m->mine.world_size; r++)
        missing += !m->mine.here[r];
    allow_descriptors();
    bool good = open_door(m, &d);
    while (good && missing > 0 && rt_clock_ns() < m->until_ns) {
        if (rt_door_wait(&d, 100, &guest))
            good = let_in(m, &guest, &missing);
        see_who_left(m, m->mine.process, &missing); /* no visitor */
    }
    good = good && (missing == 0 || say_missing(m, &d, missing));
    rt_door_close(&d);
    return answer_all(m, good);
}

/* ---- the others ------------------------------------------------------------------ */

typedef enum { IN, AGAIN, NEVER } Outcome;

/* What went wrong, least informative first: the last one over all addresses is
 * reported. */
typedef enum { NOWHERE, NO_CONNECTION, CUT_OFF, NO_TRAINER, NO_SECRET, BUSY } Trouble;
typedef struct Round {
    Trouble worst;
    char why[200];
} Round;

static Outcome again(Round *r, Trouble kind, const char *why)
{
    if (kind >= r->worst) {
        r->worst = kind;
        snprintf(r->why, sizeof r->why, "%.*s", (int)sizeof r->why - 1, why);
    }
    return AGAIN;
}

/* -1 with the reason: not within this time. */
static int connect_to(const struct addrinfo *a, int64_t ms, const char **why)
{
    const struct timeval most = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 + 1000};
    const int s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (s >= 0 && setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most) == 0 &&
        connect(s, a->ai_addr, a->ai_addrlen) == 0)
        return s;
    *why = strerror(errno == EINPROGRESS ? ETIMEDOUT : errno);
    if (s >= 0)
        close(s);
    return -1;
}

static Outcome greet(const Meeting *m, int s, RtGreeting *g, Round *r)
{
    if (!rt_greet_begin(g, &m->secret, DOOR, false))
        return again(r, CUT_OFF, "this machine has no random bytes");
    switch (rt_greet_visit(g, s, in_ms(GREETING_MS))) {
    case RT_GREET_DONE:
        return IN;
    case RT_GREET_NO_WORDS:
        return again(r, NO_TRAINER, "another program is there");
    case RT_GREET_NO_SECRET:
        return again(r, NO_SECRET, "what is there does not know the job's secret");
    case RT_GREET_MORE:
        break;
    }
    return g->heard == 0 ? again(r, CUT_OFF, "it closes the connection, or is silent")
                         : again(r, NO_SECRET,
                                 "it turns this machine away: is the secret of the job "
                                 "another one there?");
}

/* Says which ranks are here; the answer comes when all are present. */
static Outcome ask(Meeting *m, int s, RtGreeting *g, Round *r)
{
    const int64_t until_ns = rt_clock_ns() + m->patience_ns + INT64_C(3000000000);
    uint8_t behind[RT_MAX_RANKS];
    Answer a;
    if (!rt_send_sealed(s, &g->ours, &m->mine, sizeof m->mine, in_ms(SEND_MS)) ||
        !rt_receive_sealed(s, &g->theirs, &a, sizeof a, until_ns))
        return again(r, CUT_OFF, "it ended, or the connection did, before the start");
    a.text[sizeof a.text - 1] = '\0';
    if (a.what == ANOTHER_JOB)
        return again(r, BUSY, a.text);
    for (int i = 0; i < RT_MAX_RANKS; i++)
        behind[i] = i < m->mine.world_size && !m->mine.here[i];
    if (a.what != COME_IN) {
        trouble(m, "rank 0's machine says: %.600s", a.text);
        return NEVER;
    }
    return add_link(m, s, 0, behind, g) ? IN : NEVER;
}

static Outcome try_address(Meeting *m, const struct addrinfo *a, int64_t ms, Round *r)
{
    RtGreeting g;
    const char *why;
    const int s = connect_to(a, ms, &why);
    if (s < 0)
        return again(r, NO_CONNECTION, why);
    Outcome o = greet(m, s, &g, r);
    o = o == IN ? ask(m, s, &g, r) : o;
    if (o != IN)
        close(s);
    return o;
}

/* Each address gets its share of the remaining time, because the first may lead
 * nowhere. */
static Outcome try_place(Meeting *m, const RtPlace *p, Round *r)
{
    const char *why;
    Outcome o = AGAIN;
    struct addrinfo *list = rt_place_addresses(p, 0, &why);
    int n = 0;
    if (list == NULL)
        return again(r, NOWHERE, why);
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next)
        n++;
    for (const struct addrinfo *a = list; a != NULL && o == AGAIN; a = a->ai_next, n--) {
        const int64_t left = (m->until_ns - rt_clock_ns()) / 1000000 / n;
        o = try_address(m, a, left < 1 ? 1 : left < CONNECT_MS ? left : CONNECT_MS, r);
    }
    freeaddrinfo(list);
    return o;
}

static Outcome try_all(Meeting *m, Round *r)
{
    Outcome o = AGAIN;
    *r = (Round){NOWHERE, ""};
    for (int i = 0; i < m->places.n && o == AGAIN; i++)
        o = try_place(m, &m->places.place[i], r);
    return o;
}

/* Reports the last round's problem, or an earlier one that is more informative. */
static bool give_up(Meeting *m, const Round *last, const Round *worst)
{
    const bool earlier = worst->worst > last->worst;
    const char *before = earlier ? "; earlier: " : "", *why = earlier ? worst->why : "";
    return last->worst == BUSY
               ? trouble(m, "rank 0's machine says: %s", last->why)
               : trouble(m, "rank 0's machine does not answer at %s: %s%s%s",
                         m->places.name, last->why, before, why);
}

static bool visit(Meeting *m)
{
    const int64_t tell_ns = in_ms(TELL_AFTER_MS);
    bool told = false;
    int64_t ms = FIRST_REST_MS;
    Round r, worst = {NOWHERE, ""};
    do {
        const Outcome o = try_all(m, &r);
        if (o != AGAIN)
            return o == IN;
        worst = r.worst >= worst.worst ? r : worst;
        if (!told && rt_clock_ns() > tell_ns) {
            told = true;
            rt_say("trainer: rank %d tries to reach rank 0's machine at %s: %s",
                   m->join->rank, m->places.name, r.why);
        }
    } while (rest(m, &ms));
    return give_up(m, &r, &worst);
}

/* ---- both ------------------------------------------------------------------------ */

bool rt_meet_links(const RtTrainer *t, const RtFlags *f, const RtJoin *j,
                   const RtSecret *secret, const RtShared *shared, int64_t patience_ns,
                   RtLink **links, int *n_links, char *error)
{
    static Meeting m;
    m = (Meeting){.trainer = t,
                  .join = j,
                  .secret = *secret,
                  .patience_ns = patience_ns,
                  .until_ns = rt_clock_ns() + patience_ns,
                  .error = error};
    m.mine = (Hello){.magic = MAGIC,
                     .view_bytes = sizeof(RtView),
                     .numerics_hash = t->numerics_hash,
                     .job = j->named ? rt_hash64(j->identity, strlen(j->identity), 3) : 0,
                     .rank = j->rank,
                     .world_size = t->world_size};
    for (int r = 0; r < t->world_size; r++)
        m.mine.here[r] = !shared->elsewhere[r];
    const bool good = (rt_random_bytes(&m.mine.process, sizeof m.mine.process) ||
                       trouble(&m, "this machine has no random bytes")) &&
                      rt_places_find(&m.places, f->meet, error) &&
                      (j->rank == 0 ? host(&m) : visit(&m));
    explicit_bzero(&m.secret, sizeof m.secret);
    *links = m.link;
    *n_links = m.links;
    return good;
}
