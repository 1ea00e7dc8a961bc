/* SPDX-License-Identifier: MIT-0 */
/* rt_meet.c: machines find each other. In: where they meet, by --meet or the launcher's
 * MASTER_ADDR and MASTER_PORT; the ranks of this one. Out: connections.
 *
 * The machine of rank 0 listens at that address until the ranks of all machines are
 * there; each says which are its own. Who speaks of another job or sends what is no
 * greeting is turned away; another build is told apart by its numerics hash. What is sent
 * is not secret and nobody is asked for a password, as with NCCL: the network is trusted.
 *
 * Machines start at different times: rank 0's waits as long as it has patience; who has
 * reached it has its own patience anew, and a little more. */
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
enum { GREETING_MS = 2000, CONNECT_MS = 5000, MAX_VISITORS = 64, MAX_DOORS = 8 };

typedef struct Hello {
    uint64_t magic, view_bytes; /* builds alike have messages alike */
    uint64_t numerics_hash, job;
    int32_t rank, world_size;
    uint8_t here[RT_MAX_RANKS];
} Hello;

enum { REFUSED, COME_IN, ANOTHER_JOB };
typedef struct Answer {
    uint64_t magic;
    int32_t what;
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
    int64_t patience_ns, until_ns;
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

/* ---- where ----------------------------------------------------------------------- */

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

/* ---- bytes ----------------------------------------------------------------------- */

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

/* Between two tries; false: there is no time for another. */
static bool rest(const Meeting *m)
{
    const struct timespec nap = {0, 50000000};
    nanosleep(&nap, NULL);
    return rt_clock_ns() < m->until_ns;
}

static bool put(int s, const void *from, size_t bytes)
{
    return send(s, from, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static bool add_link(Meeting *m, int s, const uint8_t *behind)
{
    const int ranks = m->trainer->world_size;
    RtLink *list = realloc(m->link, (size_t)(m->links + 1) * sizeof *list);
    if (list == NULL) {
        return trouble(m, "out of memory");
    }
    m->link = list;
    RtLink *l = &list[m->links++];
    *l = (RtLink){.socket = s, .first_rank = -1};
    for (int r = 0; r < ranks; r++) {
        l->behind[r] = behind[r] != 0;
        l->first_rank = l->behind[r] && l->first_rank < 0 ? r : l->first_rank;
    }
    const int yes = 1;
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return true;
}

/* ---- the machine of rank 0 ------------------------------------------------------- */

typedef struct Visitor {
    int socket;
    size_t bytes; /* of its greeting that have come */
    Hello hello;
    int64_t until_ns;
} Visitor;

/* Where rank 0's machine listens, and who has come there and not yet said who it is. */
typedef struct House {
    int door[MAX_DOORS], doors;
    Visitor visitor[MAX_VISITORS];
    int visitors;
} House;

static bool is_loopback(const struct addrinfo *a)
{
    if (a->ai_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *)a->ai_addr;
        return IN6_IS_ADDR_LOOPBACK(&in->sin6_addr);
    }
    const struct sockaddr_in *in = (const void *)a->ai_addr;
    return ntohl(in->sin_addr.s_addr) >> 24 == 127;
}

/* A machine's own name is often the loopback's there, and its network's elsewhere: then
 * it listens on all its addresses. Who writes loopback means it. */
static void open_up(const Meeting *m, struct addrinfo *list)
{
    const char *host = m->place.host;
    if (strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
        strchr(host, ':') != NULL) {
        return;
    }
    for (struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        if (!is_loopback(a)) {
            return;
        }
    }
    for (struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        if (a->ai_family == AF_INET6) {
            ((struct sockaddr_in6 *)(void *)a->ai_addr)->sin6_addr = in6addr_any;
        } else {
            ((struct sockaddr_in *)(void *)a->ai_addr)->sin_addr.s_addr =
                htonl(INADDR_ANY);
        }
    }
}

static int open_door(const struct addrinfo *a, int *error)
{
    const int yes = 1;
    const int s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (s >= 0 && a->ai_family == AF_INET6) {
        setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    }
    if (s >= 0 && setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(s, a->ai_addr, a->ai_addrlen) == 0 && listen(s, 128) == 0) {
        return s;
    }
    *error = errno;
    if (s >= 0) {
        close(s);
    }
    return -1;
}

/* A job that is just ending may still have the port. */
static bool open_doors(Meeting *m, House *h)
{
    struct addrinfo *list = addresses(m);
    if (list == NULL) {
        return false;
    }
    open_up(m, list);
    int error;
    do {
        error = 0;
        for (struct addrinfo *a = list; a != NULL && h->doors < MAX_DOORS;
             a = a->ai_next) {
            const int s = open_door(a, &error);
            if (s >= 0) {
                h->door[h->doors++] = s;
            }
        }
    } while (h->doors == 0 && error == EADDRINUSE && rest(m));
    freeaddrinfo(list);
    return h->doors > 0 ||
           trouble(
               m,
               "cannot listen at %s:%s, where the machines meet: %s; --meet HOST:PORT "
               "names another address of this machine",
               m->place.host, m->place.port, strerror(error));
}

static void turn_away(Visitor *v, int what, const char *text)
{
    Answer a = {.magic = MAGIC, .what = what};
    snprintf(a.text, sizeof a.text, "%.*s", (int)sizeof a.text - 1, text);
    put(v->socket, &a, sizeof a);
    close(v->socket);
    v->socket = -1;
}

/* One that has said who it is; false when the job cannot go on. */
static bool let_in(Meeting *m, Visitor *v, int *missing)
{
    const Hello *h = &v->hello;
    if (h->job != m->mine.job || h->world_size != m->mine.world_size) {
        turn_away(v, ANOTHER_JOB, "another job meets there; --meet names another place");
        return true;
    }
    bool good = true;
    int ranks = 0;
    if (h->numerics_hash != m->mine.numerics_hash ||
        h->view_bytes != m->mine.view_bytes) {
        good = trouble(m,
                       "the machine of rank %d runs another trainer: numerics %016llx, "
                       "rank 0 has %016llx",
                       h->rank, (unsigned long long)h->numerics_hash,
                       (unsigned long long)m->mine.numerics_hash);
    }
    for (int r = 0; good && r < m->mine.world_size; r++) {
        good = !h->here[r] || !m->mine.here[r] ||
               trouble(m, "two machines say that they have rank %d", r);
        ranks += h->here[r] != 0;
    }
    if (!good || ranks == 0 || !add_link(m, v->socket, h->here)) {
        turn_away(v, REFUSED, m->error);
        return good && ranks == 0;
    }
    v->socket = -1; /* the link's */
    for (int r = 0; r < m->mine.world_size; r++) {
        m->mine.here[r] |= h->here[r];
    }
    *missing -= ranks;
    return true;
}

/* More of a greeting. One that is none is a stranger's. */
static bool hear_visitor(Meeting *m, Visitor *v, int *missing)
{
    const ssize_t n = recv(v->socket, (char *)&v->hello + v->bytes,
                           sizeof v->hello - v->bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
        return true;
    }
    v->bytes += n > 0 ? (size_t)n : 0;
    if (n <= 0 || (v->bytes >= sizeof v->hello.magic && v->hello.magic != MAGIC)) {
        close(v->socket);
        v->socket = -1;
        return true;
    }
    return v->bytes < sizeof v->hello || let_in(m, v, missing);
}

static bool answer_door(Meeting *m, House *h, int door)
{
    const int s = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    if (s < 0) {
        return errno == EINTR || errno == EAGAIN || errno == ECONNABORTED ||
               trouble(m, "cannot take in a machine: %s", strerror(errno));
    }
    if (h->visitors == MAX_VISITORS) {
        close(s); /* a trainer's comes again */
        return true;
    }
    h->visitor[h->visitors++] = (Visitor){
        .socket = s, .until_ns = rt_clock_ns() + GREETING_MS * INT64_C(1000000)};
    return true;
}

/* What has come in a short while; false when the job cannot go on. */
static bool look_around(Meeting *m, House *h, int *missing)
{
    struct pollfd p[MAX_DOORS + MAX_VISITORS];
    const int visitors = h->visitors;
    bool good = true;
    int kept = 0;
    for (int i = 0; i < h->doors; i++) {
        p[i] = (struct pollfd){.fd = h->door[i], .events = POLLIN};
    }
    for (int i = 0; i < visitors; i++) {
        p[h->doors + i] = (struct pollfd){.fd = h->visitor[i].socket, .events = POLLIN};
    }
    if (poll(p, (nfds_t)(h->doors + visitors), 100) < 0) {
        return errno == EINTR || trouble(m, "poll: %s", strerror(errno));
    }
    for (int i = 0; i < h->doors && good; i++) {
        good = p[i].revents == 0 || answer_door(m, h, h->door[i]);
    }
    for (int i = 0; i < visitors && good; i++) {
        if (p[h->doors + i].revents != 0) {
            good = hear_visitor(m, &h->visitor[i], missing);
        }
    }
    for (int i = 0; i < h->visitors; i++) {
        Visitor *v = &h->visitor[i];
        if (v->socket >= 0 && rt_clock_ns() > v->until_ns) {
            close(v->socket);
            v->socket = -1;
        }
        if (v->socket >= 0) {
            h->visitor[kept++] = *v;
        }
    }
    h->visitors = kept;
    return good;
}

static bool answer_all(Meeting *m, bool good)
{
    Answer a = {.magic = MAGIC, .what = good ? COME_IN : REFUSED};
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
    static House h;
    const int ranks = m->mine.world_size;
    int missing = 0, first = 0;
    for (int r = 0; r < ranks; r++) {
        missing += !m->mine.here[r];
    }
    bool good = open_doors(m, &h);
    while (good && missing > 0 && rt_clock_ns() < m->until_ns) {
        good = look_around(m, &h, &missing);
    }
    if (good && missing > 0) {
        while (m->mine.here[first]) {
            first++;
        }
        good = trouble(m, "%d of %d ranks came to %s:%s; the machine of rank %d did not",
                       ranks - missing, ranks, m->place.host, m->place.port, first);
    }
    for (int i = 0; i < h.doors; i++) {
        close(h.door[i]);
    }
    for (int i = 0; i < h.visitors; i++) {
        close(h.visitor[i].socket);
    }
    return answer_all(m, good);
}

/* ---- the others ------------------------------------------------------------------ */

/* A network that drops what it does not like lets connections wait for minutes. */
static int try_once(const Meeting *m, struct addrinfo *list, int *error)
{
    for (struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        const int left = left_ms(m->until_ns), ms = left < CONNECT_MS ? left : CONNECT_MS;
        const struct timeval most = {.tv_sec = ms / 1000,
                                     .tv_usec = ms % 1000 * 1000 + 1000};
        const int s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (s >= 0 && setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most) == 0 &&
            connect(s, a->ai_addr, a->ai_addrlen) == 0) {
            return s;
        }
        *error = errno == EINPROGRESS ? ETIMEDOUT : errno;
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
    if (list == NULL) {
        return -1;
    }
    while ((s = try_once(m, list, &error)) < 0) {
        if (!rest(m)) {
            trouble(m, "rank 0's machine does not answer at %s:%s: %s", m->place.host,
                    m->place.port, strerror(error));
            break;
        }
    }
    freeaddrinfo(list);
    return s;
}

/* What rank 0's machine says; the connection, if all is well. */
static int greet(Meeting *m, Answer *a)
{
    const int64_t second = 1000000000;
    const int s = connect_there(m);
    *a = (Answer){.what = REFUSED};
    if (s < 0) {
        return -1;
    }
    if (!put(s, &m->mine, sizeof m->mine) ||
        !receive(s, a, sizeof *a, rt_clock_ns() + m->patience_ns + 3 * second) ||
        a->magic != MAGIC) {
        close(s);
        a->what = REFUSED;
        trouble(m,
                "rank 0's machine does not answer at %s:%s: it ended, or another program "
                "is there",
                m->place.host, m->place.port);
        return -1;
    }
    a->text[sizeof a->text - 1] = '\0';
    if (a->what != COME_IN) {
        close(s);
        trouble(m, "rank 0's machine says: %s", a->text);
        return -1;
    }
    return s;
}

static bool visit(Meeting *m)
{
    uint8_t behind[RT_MAX_RANKS];
    Answer a;
    int s;
    do { /* the other job may be just ending */
        s = greet(m, &a);
    } while (s < 0 && a.what == ANOTHER_JOB && rest(m));
    if (s < 0) {
        return false;
    }
    for (int r = 0; r < RT_MAX_RANKS; r++) {
        behind[r] = r < m->mine.world_size && !m->mine.here[r];
    }
    return add_link(m, s, behind);
}

/* ---- both ------------------------------------------------------------------------ */

bool rt_meet(const RtTrainer *t, const RtFlags *f, const RtJoin *j,
             const RtShared *shared, int64_t patience_ns, RtLink **links, int *n_links,
             char *error)
{
    static Meeting m;
    m = (Meeting){.trainer = t,
                  .join = j,
                  .patience_ns = patience_ns,
                  .until_ns = rt_clock_ns() + patience_ns,
                  .error = error};
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
