/* SPDX-License-Identifier: MIT-0 */
/* rt_meet.c: machines find each other. In: where they meet, by --meet or the launcher's
 * MASTER_ADDR and MASTER_PORT; the ranks of this one. Out: connections.
 *
 * The machine of rank 0 listens on that one address until the ranks of all machines are
 * there; each says which are its own. Who speaks of another job or sends what is no
 * greeting is turned away; another build is told apart by its numerics hash. What is sent
 * is not secret and nobody is asked for a password, as with NCCL: the network is trusted.
 */
#define _GNU_SOURCE
#include "rt_machines.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x6673647067656e32)
enum { GREETING_MS = 2000 };

typedef struct Hello {
    uint64_t magic, view_bytes; /* builds alike have messages alike */
    uint64_t numerics_hash, job;
    int32_t rank, world_size;
    uint8_t here[RT_MAX_RANKS];
} Hello;

typedef struct Answer {
    uint64_t magic;
    int32_t good;
    char text[256];
} Answer;

typedef struct Place {
    char host[256], port[16];
} Place;

typedef struct Meeting {
    const RtTrainer *trainer;
    const RtJoin *join;
    Place place;
    Hello mine;
    int64_t until_ns;
    RtLink *link;
    int links;
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

/* ---- where ------------------------------------------------------------------------- */

/* HOST:PORT, [ADDRESS]:PORT */
static bool split(const char *text, Place *p)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || colon[1] == '\0') {
        return false;
    }
    const bool brackets = text[0] == '[' && colon[-1] == ']';
    const char *from = text + brackets;
    const size_t bytes = (size_t)(colon - text) - 2 * brackets;
    char *end;
    const long port = strtol(colon + 1, &end, 10);
    if (bytes >= sizeof p->host || *end != '\0' || port < 1 || port > 65535) {
        return false;
    }
    snprintf(p->host, sizeof p->host, "%.*s", (int)bytes, from);
    snprintf(p->port, sizeof p->port, "%ld", port);
    return true;
}

/* Where torchrun keeps a store of its own at MASTER_PORT, the next one is ours. */
static bool of_environment(Place *p)
{
    const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT"),
               *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    const bool taken = store != NULL && strcmp(store, "True") == 0;
    const long n = port != NULL ? strtol(port, NULL, 10) + taken : 0;
    if (host == NULL || host[0] == '\0' || strlen(host) >= sizeof p->host || n < 1 ||
        n > 65535) {
        return false;
    }
    snprintf(p->host, sizeof p->host, "%s", host);
    snprintf(p->port, sizeof p->port, "%ld", n);
    return true;
}

static bool find_place(Meeting *m, const char *flag)
{
    if (flag != NULL && !split(flag, &m->place)) {
        return trouble(m, "--meet: `%.100s` is no HOST:PORT", flag);
    }
    if (flag == NULL && !of_environment(&m->place)) {
        return trouble(m,
                       "the ranks are on several machines, and nothing says where these "
                       "meet: pass --meet HOST:PORT, an address of rank 0's machine, or "
                       "set MASTER_ADDR and MASTER_PORT");
    }
    return true;
}

static struct addrinfo *addresses(Meeting *m)
{
    const struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    const int e = getaddrinfo(m->place.host, m->place.port, &want, &list);
    if (e != 0) {
        trouble(m, "the machines meet at %s:%s: %s", m->place.host, m->place.port,
                gai_strerror(e));
        return NULL;
    }
    return list;
}

/* ---- bytes ------------------------------------------------------------------------- */

static int left_ms(int64_t until_ns)
{
    const int64_t left = (until_ns - rt_clock_ns()) / 1000000;
    return left <= 0 ? 0 : left < 1000000 ? (int)left : 1000000;
}

static bool readable(int s, int64_t until_ns)
{
    struct pollfd p = {.fd = s, .events = POLLIN};
    int n;
    do {
        n = poll(&p, 1, left_ms(until_ns));
    } while (n < 0 && errno == EINTR);
    return n > 0;
}

static bool receive(int s, void *to, size_t bytes, int64_t until_ns)
{
    size_t have = 0;
    while (have < bytes && readable(s, until_ns)) {
        const ssize_t n = recv(s, (char *)to + have, bytes - have, 0);
        if (n <= 0) {
            break;
        }
        have += (size_t)n;
    }
    return have == bytes;
}

static bool put(int s, const void *from, size_t bytes)
{
    return send(s, from, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static bool add_link(Meeting *m, int s, const uint8_t *behind)
{
    const int ranks = m->trainer->world_size;
    RtLink *list = realloc(m->link, (size_t)(m->links + 1) * sizeof *list);
    m->link = list != NULL ? list : m->link;
    RtView *sent = calloc((size_t)ranks, sizeof *sent);
    if (list == NULL || sent == NULL) {
        free(sent);
        return trouble(m, "out of memory");
    }
    RtLink *l = &list[m->links++];
    *l = (RtLink){.socket = s, .first_rank = -1, .sent = sent, .heard_ns = rt_clock_ns()};
    for (int r = 0; r < ranks; r++) {
        l->behind[r] = behind[r] != 0;
        l->first_rank = l->behind[r] && l->first_rank < 0 ? r : l->first_rank;
    }
    const int yes = 1;
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return true;
}

/* ---- the machine of rank 0 -----------------------------------------------------------
 */

static int listen_there(Meeting *m)
{
    struct addrinfo *list = addresses(m);
    int s = -1, error = 0;
    for (struct addrinfo *a = list; a != NULL && s < 0; a = a->ai_next) {
        const int yes = 1;
        s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (s >= 0 && (setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
                       bind(s, a->ai_addr, a->ai_addrlen) != 0 || listen(s, 128) != 0)) {
            error = errno;
            close(s);
            s = -1;
        }
    }
    if (list != NULL && s < 0) {
        trouble(m,
                "cannot listen at %s:%s, where the machines meet: %s; --meet HOST:PORT "
                "names another address of this machine",
                m->place.host, m->place.port, strerror(error));
    }
    freeaddrinfo(list);
    return s;
}

/* Turns away who is not of this job; false when the job cannot go on. */
static bool greet(Meeting *m, int s, int *missing)
{
    Hello h;
    Answer no = {.magic = MAGIC};
    if (!receive(s, &h, sizeof h, rt_clock_ns() + GREETING_MS * INT64_C(1000000)) ||
        h.magic != MAGIC) {
        close(s);
        return true;
    }
    if (h.job != m->mine.job || h.world_size != m->mine.world_size) {
        snprintf(no.text, sizeof no.text, "another job meets there");
        put(s, &no, sizeof no);
        close(s);
        return true;
    }
    if (h.numerics_hash != m->mine.numerics_hash || h.view_bytes != m->mine.view_bytes) {
        return trouble(m,
                       "the machine of rank %d runs another trainer: numerics %016llx, "
                       "rank 0 has %016llx",
                       h.rank, (unsigned long long)h.numerics_hash,
                       (unsigned long long)m->mine.numerics_hash);
    }
    for (int r = 0; r < m->mine.world_size; r++) {
        if (h.here[r] && m->mine.here[r]) {
            return trouble(m, "two machines say that they have rank %d", r);
        }
        m->mine.here[r] |= h.here[r];
        *missing -= h.here[r] != 0;
    }
    return add_link(m, s, h.here);
}

static bool answer_all(Meeting *m, bool good)
{
    Answer a = {.magic = MAGIC, .good = good};
    snprintf(a.text, sizeof a.text, "%.*s", (int)sizeof a.text - 1, good ? "" : m->error);
    for (int i = 0; i < m->links; i++) {
        if (!put(m->link[i].socket, &a, sizeof a) && good) {
            good = trouble(m, "the machine of rank %d left before the start",
                           m->link[i].first_rank);
        }
    }
    return good;
}

static bool host(Meeting *m)
{
    const int ranks = m->mine.world_size;
    int missing = 0;
    for (int r = 0; r < ranks; r++) {
        missing += !m->mine.here[r];
    }
    const int s = listen_there(m);
    bool good = s >= 0;
    while (good && missing > 0) {
        if (!readable(s, m->until_ns)) {
            int r = 0;
            while (m->mine.here[r]) {
                r++;
            }
            good =
                trouble(m, "%d of %d ranks came to %s:%s; the machine of rank %d did not",
                        ranks - missing, ranks, m->place.host, m->place.port, r);
            break;
        }
        const int visitor = accept4(s, NULL, NULL, SOCK_CLOEXEC);
        good = visitor < 0 || greet(m, visitor, &missing);
    }
    if (s >= 0) {
        close(s);
    }
    return answer_all(m, good);
}

/* ---- the others -------------------------------------------------------------------- */

static int try_once(struct addrinfo *list, int *error)
{
    for (struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        const int s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (s >= 0 && connect(s, a->ai_addr, a->ai_addrlen) == 0) {
            return s;
        }
        *error = errno;
        if (s >= 0) {
            close(s);
        }
    }
    return -1;
}

static int connect_there(Meeting *m)
{
    struct addrinfo *list = addresses(m);
    int s = -1, error = 0;
    while (list != NULL && (s = try_once(list, &error)) < 0) {
        const struct timespec nap = {0, 50000000};
        if (rt_clock_ns() > m->until_ns) {
            trouble(m, "rank 0's machine does not answer at %s:%s: %s", m->place.host,
                    m->place.port, strerror(error));
            break;
        }
        nanosleep(&nap, NULL);
    }
    if (list != NULL) {
        freeaddrinfo(list);
    }
    return s;
}

static bool visit(Meeting *m)
{
    const int64_t patience = m->until_ns + INT64_C(3000000000);
    uint8_t behind[RT_MAX_RANKS];
    Answer a;
    const int s = connect_there(m);
    if (s < 0) {
        return false;
    }
    if (!put(s, &m->mine, sizeof m->mine) || !receive(s, &a, sizeof a, patience) ||
        a.magic != MAGIC) {
        close(s);
        return trouble(m,
                       "rank 0's machine does not answer at %s:%s: it ended, or another "
                       "program is there",
                       m->place.host, m->place.port);
    }
    if (!a.good) {
        close(s);
        a.text[sizeof a.text - 1] = '\0';
        return trouble(m, "rank 0's machine says: %s", a.text);
    }
    for (int r = 0; r < RT_MAX_RANKS; r++) {
        behind[r] = r < m->mine.world_size && !m->mine.here[r];
    }
    return add_link(m, s, behind);
}

/* ---- both -------------------------------------------------------------------------- */

bool rt_meet(const RtTrainer *t, const RtFlags *f, const RtJoin *j,
             const RtShared *shared, int64_t until_ns, RtLink **links, int *n_links,
             char *error)
{
    static Meeting m;
    m = (Meeting){.trainer = t, .join = j, .until_ns = until_ns, .error = error};
    m.mine = (Hello){.magic = MAGIC,
                     .view_bytes = sizeof(RtView),
                     .numerics_hash = t->numerics_hash,
                     .job = j->named ? rt_hash64(j->identity, strlen(j->identity), 3) : 0,
                     .rank = j->rank,
                     .world_size = t->world_size};
    for (int r = 0; r < t->world_size; r++) {
        m.mine.here[r] = !shared->elsewhere[r];
    }
    if (!find_place(&m, f->meet)) {
        return false;
    }
    const bool good = j->rank == 0 ? host(&m) : visit(&m);
    *links = m.link;
    *n_links = m.links;
    return good;
}
