/* SPDX-License-Identifier: MIT-0 */
/* rt_join.c: how ranks started by torchrun, mpirun or srun find each other. In: the
 * launcher's environment (rt_launcher.c). Out: the exit code of this process, which
 * watches one rank, its child; in that rank, its seat.
 *
 * 1. On each machine the first rank creates the shared memory and listens on an abstract
 *    Unix socket (no file, disappears with the process), named by a hash of the job's
 *    identity. The others connect, identify themselves, and receive the descriptor.
 * 2. The kernel reports the user of the other process: both ends talk only to the same
 *    user's. If the job has a secret (rt_door.h), they prove that they know it, too.
 * 3. The first message contains the numerics hash, so that different builds are detected.
 * 4. The sockets stay open: a closed one means that a process has ended, for whatever
 *    reason.
 * 5. Machines meet through their first ranks (cuda/rt_machines.c); the CPU target has all
 *    ranks on one machine. */
#define _GNU_SOURCE
#include "job/rt_door.h"
#include "rt_target.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- messages -------------------------------------------------------------------- */

#define HELLO_MAGIC UINT64_C(0x66736470676e3032)
#define DOOR "ranks"
enum { GREETING_MS = 10000, SEND_MS = 5000 }; /* for a busy machine */

typedef struct Hello {
    uint64_t magic, numerics_hash;
    int32_t rank, world_size;
    cpu_set_t cpus;
} Hello;
_Static_assert(sizeof(Hello) <= RT_HELLO_BYTES, "it is a visitor's first message");

typedef struct Answer {
    uint64_t magic;
    int32_t good, rank;  /* the answering rank */
    int32_t shared_cpus; /* do all ranks have the same cores, to be divided? */
    char text[RT_ERROR_BYTES];
} Answer;
_Static_assert(sizeof(Answer) <= RT_HELLO_BYTES, "it is sealed as one message");

typedef struct Meeting {
    const RtTrainer *trainer;
    const RtFlags *flags;
    const RtJoin *join;
    RtSecret secret;
    int ranks; /* on this machine */
    int64_t patience_ns, until_ns;
    int peer[RT_MAX_RANKS];
    RtSeal seal[RT_MAX_RANKS]; /* for messages to them */
    cpu_set_t cpus;            /* of this process */
    bool shared_cpus;
    int fd;
    RtShared *shared;
    char note[200]; /* about a refused rank, for the end */
    char error[RT_ERROR_BYTES];
} Meeting;

/* Are some of the job's ranks on other machines? */
static bool is_apart(const RtJoin *j)
{
    return j->local_size > 0 && j->local_size < j->world_size;
}

/* Is it the first of its machine, to which the others connect? */
static bool is_first(const RtJoin *j)
{
    return is_apart(j) ? j->local_rank == 0 : j->rank == 0;
}

static bool trouble(Meeting *m, const char *what, const char *why)
{
    snprintf(m->error, sizeof m->error, "%.300s: %.400s", what, why);
    return false;
}

static int64_t in_ms(int64_t ms)
{
    return rt_clock_ns() + ms * 1000000;
}

/* The first rank's socket name, from the job's identity and the machine. */
static void name_of(const RtJoin *j, char *name)
{
    const uint64_t hash = rt_hash64(j->identity, strlen(j->identity), 2);
    snprintf(name, RT_NAME_LETTERS, "trainer-%016llx-%d", (unsigned long long)hash,
             is_apart(j) ? j->machine : 0);
}

/* ---- the first rank -------------------------------------------------------------- */

/* Sealed; good: with the shared memory's descriptor. */
static bool answer(Meeting *m, int s, RtSeal *seal, bool good, const char *text)
{
    unsigned char record[RT_SEAL_HEAD + sizeof(Answer) + RT_DIGEST_BYTES];
    Answer a = {.magic = HELLO_MAGIC,
                .good = good,
                .rank = m->join->rank,
                .shared_cpus = m->shared_cpus};
    snprintf(a.text, sizeof a.text, "%s", text);
    memcpy(record + RT_SEAL_HEAD, &a, sizeof a);
    rt_seal(seal, record, sizeof a);
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec data = {record, sizeof record};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (good) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &m->fd, sizeof m->fd);
    }
    return sendmsg(s, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof record;
}

/* False for a rank that is invalid or here already: the job continues without it. */
static bool is_expected(Meeting *m, const Hello *h)
{
    const RtJoin *j = m->join;
    const bool sane = h->magic == HELLO_MAGIC && h->rank >= 0 &&
                      h->rank < j->world_size && h->world_size == j->world_size;
    if (sane && h->rank != j->rank && m->peer[h->rank] < 0)
        return true;
    snprintf(m->note, sizeof m->note, "rank %d of %d came to rank %d of %d%s", h->rank,
             h->world_size, j->rank, j->world_size, sane ? " twice" : "");
    return false;
}

/* Admits a process that knows the secret; false if the job cannot continue. */
static bool let_in(Meeting *m, RtVisitor *v, int *came)
{
    Hello h;
    memcpy(&h, v->record + RT_SEAL_HEAD, sizeof h);
    if (!is_expected(m, &h)) {
        answer(m, v->socket, &v->greeting.ours, false, m->note);
        close(v->socket);
        return true;
    }
    m->peer[h.rank] = v->socket;
    m->seal[h.rank] = v->greeting.ours;
    ++*came;
    if (h.numerics_hash != m->trainer->numerics_hash) {
        snprintf(m->error, sizeof m->error,
                 "rank %d runs another trainer: numerics %016llx, "
                 "rank %d has %016llx",
                 h.rank, (unsigned long long)h.numerics_hash, m->join->rank,
                 (unsigned long long)m->trainer->numerics_hash);
        return false;
    }
    m->shared_cpus = m->shared_cpus && CPU_EQUAL(&h.cpus, &m->cpus);
    return true;
}

/* Ranks that left before the start: they may return. */
static void see_who_left(Meeting *m, int *came)
{
    for (int r = 0; r < m->join->world_size; r++) {
        if (m->peer[r] >= 0 && rt_has_left(m->peer[r])) {
            close(m->peer[r]);
            m->peer[r] = -1;
            --*came;
        }
    }
}

/* The missing ranks are known if all were expected on one machine. */
static bool say_missing(Meeting *m, const RtDoor *d, int came)
{
    char who[64] = "", strangers[160];
    int missing = 0;
    if (!is_apart(m->join)) {
        while (missing < m->ranks && (m->peer[missing] >= 0 || missing == m->join->rank))
            missing++;
        snprintf(who, sizeof who, "; rank %d did not", missing);
    }
    rt_door_strangers(d, strangers, sizeof strangers);
    snprintf(m->error, sizeof m->error,
             is_apart(m->join) ? "%d of this machine's %d ranks came%s%s%s%s"
                               : "%d of %d ranks came%s%s%s%s",
             came, m->ranks, who, m->note[0] != '\0' ? "; one was refused: " : "",
             m->note, strangers);
    return false;
}

static bool meet_others(Meeting *m)
{
#ifdef RT_NCCL
    for (int r = 0; r < m->join->world_size; r++)
        m->shared->elsewhere[r] = m->peer[r] < 0 && r != m->join->rank;
    return !is_apart(m->join) ||
           rt_machines_meet(m->trainer, m->flags, m->join, &m->secret, m->shared, m->fd,
                            m->patience_ns, m->error);
#else
    (void)m;
    return true;
#endif
}

static bool wait_for_ranks(Meeting *m)
{
    static RtDoor d;
    static RtVisitor guest;
    char name[RT_NAME_LETTERS];
    int came = 1;
    name_of(m->join, name);
    rt_door_begin(&d, &m->secret, DOOR, sizeof(Hello));
    d.admits = rt_same_user;
    d.listener[0] = rt_name_listen(name, m->until_ns);
    d.listeners = d.listener[0] >= 0;
    bool good =
        d.listeners > 0 || trouble(m, "cannot open the job's socket", strerror(errno));
    while (good && came < m->ranks && rt_clock_ns() < m->until_ns) {
        if (rt_door_wait(&d, 100, &guest))
            good = let_in(m, &guest, &came);
        see_who_left(m, &came);
    }
    good = good && (came == m->ranks || say_missing(m, &d, came));
    rt_door_close(&d);
    return good;
}

static bool host(Meeting *m)
{
    rt_start_warn(m->trainer);
    m->shared = rt_shared_create(m->trainer, &m->fd);
    if (m->shared == NULL) {
        return trouble(m, "no shared memory",
                       rt_shared_error(rt_shared_most_bytes(m->trainer)));
    }
    bool good = wait_for_ranks(m) && meet_others(m);
    for (int r = 0; r < m->join->world_size; r++) {
        if (m->peer[r] >= 0 && !answer(m, m->peer[r], &m->seal[r], good, m->error) &&
            good) {
            snprintf(m->error, sizeof m->error, "rank %d left before the start", r);
            good = false;
        }
    }
    return good;
}

/* ---- the others ------------------------------------------------------------------ */

/* Why it could not be reached; the most informative reason is last, and is kept. */
typedef enum { ABSENT, SILENT, NOT_OURS, NO_TRAINER, NO_SECRET } Silence;
static const char *const why_not[] = {[ABSENT] = "there is no such process",
                                      [SILENT] = "it closes the connection, or is silent",
                                      [NOT_OURS] = "another user has its name",
                                      [NO_TRAINER] = "another program has its name",
                                      [NO_SECRET] =
                                          "it has another secret of the job, or none"};

/* One attempt: the connection, or -1 with the reason. */
static int greet_host(Meeting *m, const char *name, bool anywhere, RtGreeting *g,
                      Silence *why)
{
    RtNameOwner owner;
    const int s = rt_name_connect(name, anywhere, &owner);
    if (s < 0) {
        *why = owner == RT_NAME_ANOTHERS ? NOT_OURS
               : owner == RT_NAME_FULL   ? SILENT
                                         : ABSENT;
        return -1;
    }
    *why = SILENT;
    switch (rt_greet_begin(g, &m->secret, DOOR, false)
                ? rt_greet_visit(g, s, in_ms(GREETING_MS))
                : RT_GREET_MORE) {
    case RT_GREET_DONE:
        return s;
    case RT_GREET_NO_WORDS:
        *why = NO_TRAINER;
        break;
    case RT_GREET_NO_SECRET:
        *why = NO_SECRET;
        break;
    case RT_GREET_MORE: /* after our proof */
        *why = g->heard > 0 ? NO_SECRET : SILENT;
        break;
    }
    close(s);
    return -1;
}

/* Finds and greets the first rank; -1: not in time. */
static int find_host(Meeting *m, RtGreeting *g)
{
    char name[RT_NAME_LETTERS];
    Silence worst = ABSENT;
    name_of(m->join, name);
    for (int tries = 1;; tries++) {
        Silence why;
        const int s = greet_host(m, name, tries % 16 == 0, g, &why);
        if (s >= 0)
            return s;
        worst = why > worst ? why : worst;
        if (rt_clock_ns() > m->until_ns) {
            trouble(m,
                    is_apart(m->join) ? "the first rank of this machine did not come"
                                      : "rank 0 did not come to this machine",
                    why_not[worst]);
            return -1;
        }
        rt_nap(20);
    }
}

/* The first rank may have to wait for other machines, twice as long: see rt_meet.c. */
static int64_t until_answered(const Meeting *m)
{
    const int64_t second = 1000000000;
    return m->until_ns +
           (is_apart(m->join) ? 2 * m->patience_ns + 10 * second : 5 * second);
}

/* The first rank's answer, and the descriptor that comes with it, or -1. */
static bool hear_answer(Meeting *m, int s, RtGreeting *g, Answer *a)
{
    unsigned char record[RT_SEAL_HEAD + sizeof *a + RT_DIGEST_BYTES];
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {record, sizeof record};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    if (!rt_readable(s, until_answered(m)) ||
        recvmsg(s, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof record ||
        !rt_unseal(&g->theirs, record, sizeof *a)) {
        return trouble(m, "this machine's first rank does not answer",
                       "it ended, or another program has its name");
    }
    memcpy(a, record + RT_SEAL_HEAD, sizeof *a);
    const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c != NULL && c->cmsg_type == SCM_RIGHTS)
        memcpy(&m->fd, CMSG_DATA(c), sizeof m->fd);
    return true;
}

static bool visit(Meeting *m)
{
    RtGreeting g;
    Answer a;
    const int s = find_host(m, &g);
    if (s < 0)
        return false;
    const Hello hello = {HELLO_MAGIC, m->trainer->numerics_hash, m->join->rank,
                         m->join->world_size, m->cpus};
    if (!rt_send_sealed(s, &g.ours, &hello, sizeof hello, in_ms(SEND_MS)))
        return trouble(m, "this machine's first rank does not listen", strerror(errno));
    if (!hear_answer(m, s, &g, &a))
        return false;
    if (!a.good || a.rank < 0 || a.rank >= m->join->world_size) {
        char who[32];
        a.text[sizeof a.text - 1] = '\0';
        snprintf(who, sizeof who, "rank %d says", a.rank);
        return trouble(m, who, a.text);
    }
    if (m->fd < 0)
        return trouble(m, "this machine's first rank", "no shared memory came");
    m->peer[a.rank] = s;
    m->shared_cpus = a.shared_cpus;
    m->shared = rt_shared_map(m->fd);
    return m->shared != NULL ||
           trouble(m, "no shared memory", rt_limits_map_error("", errno));
}

/* ---- both ------------------------------------------------------------------------ */

static int refuse(const RtJoin *j, const char *text)
{
    char line[RT_ERROR_BYTES + 64];
    snprintf(line, sizeof line, "[rank %d] error: %s", j->rank, text);
    rt_say("%s", line);
    rt_report_error(line);
    return RT_EXIT_ERROR;
}

/* Why ranks cannot be on several machines; NULL: they can. */
static const char *why_not_apart(const RtFlags *f, const RtJoin *j)
{
#ifdef RT_NCCL
    return f->loopback         ? "--loopback needs all of them on one"
           : j->local_rank < 0 ? "it does not say which of them this one is"
                               : NULL;
#else
    (void)f, (void)j;
    return "the CPU target needs all of them on one";
#endif
}

static int check_size(const RtTrainer *t, const RtFlags *f, const RtJoin *j)
{
    char text[512];
    if (j->rank >= j->world_size) {
        snprintf(text, sizeof text,
                 "%s says that this is rank %d, of %d: they count from 0", j->launcher,
                 j->rank, j->world_size);
        refuse(j, text);
        return RT_EXIT_USAGE;
    }
    if (j->world_size != t->world_size) {
        snprintf(
            text, sizeof text,
            "%s started %d rank%s, but this trainer was generated for "
            "%d; start %d, or generate with --set mesh.shard=%d, or pass --local: then "
            "one process starts all ranks itself",
            j->launcher, j->world_size, j->world_size == 1 ? "" : "s", t->world_size,
            t->world_size, j->world_size);
        refuse(j, text);
        return RT_EXIT_USAGE;
    }
    const char *why = is_apart(j) ? why_not_apart(f, j) : NULL;
    if (why != NULL) {
        snprintf(text, sizeof text, "%s put %d of %d ranks on this machine; %s",
                 j->launcher, j->local_size, j->world_size, why);
        refuse(j, text);
        return RT_EXIT_USAGE;
    }
    return -1;
}

/* The kernel identifies processes of one machine; for other machines only a secret
 * can. */
static int find_secret(const RtFlags *f, const RtJoin *j, RtSecret *s)
{
    char error[RT_ERROR_BYTES];
    bool good = rt_secret_find(f, s, error);
    if (good && is_apart(j) && !s->given) {
        rt_secret_advise(j, error);
        good = false;
    }
    if (!good)
        refuse(j, error);
    return good ? -1 : RT_EXIT_USAGE;
}

int rt_join(const RtTrainer *t, const RtFlags *f, const RtJoin *j, RtSeat *seat)
{
    RtSecret secret;
    if (t->world_size > 1)
        rt_cores_unbind_openmp(f->argv);
    int rc = check_size(t, f, j);
    rc = rc < 0 ? find_secret(f, j, &secret) : rc;
    if (rc >= 0)
        return rc;
    const int64_t patience_ns =
        (int64_t)((f->deadline_seconds > 0 ? f->deadline_seconds : 60.0) * 1e9);
    static Meeting m;
    m = (Meeting){.trainer = t,
                  .flags = f,
                  .join = j,
                  .secret = secret,
                  .ranks = is_apart(j) ? j->local_size : j->world_size,
                  .shared_cpus = true,
                  .fd = -1,
                  .patience_ns = patience_ns,
                  .until_ns = rt_clock_ns() + patience_ns};
    for (int r = 0; r < RT_MAX_RANKS; r++)
        m.peer[r] = -1;
    CPU_ZERO(&m.cpus);
    sched_getaffinity(0, sizeof m.cpus, &m.cpus);
    const bool met = is_first(j) ? host(&m) : visit(&m);
    explicit_bzero(&secret, sizeof secret);
    explicit_bzero(&m.secret, sizeof m.secret);
    if (!met)
        return refuse(j, m.error);
    static RtJob job;
    RtCores cores;
    rt_cores_find(&cores);
    rt_job_init(&job, t, f, m.shared, m.fd);
    memcpy(job.peer, m.peer, sizeof job.peer);
    job.judges = j->rank == 0;
    job.leads = is_first(j) && is_apart(j);
    for (int r = 0; job.judges && r < t->world_size; r++)
        atomic_store(&m.shared->rank[r].moved_ns, rt_clock_ns());
    const bool deals = m.shared_cpus; /* otherwise the launcher has divided the cores */
    if (rt_job_start(&job, j->rank, &cores, deals ? rt_ranks_here(m.shared, j->rank) : 0,
                     deals ? m.ranks : 1, seat) == RT_IN_RANK)
        return RT_IS_RANK;
#ifdef RT_NCCL
    rt_machines_start(&job);
#endif
    return rt_watch(&job);
}
