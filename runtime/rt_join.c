/* SPDX-License-Identifier: MIT-0 */
/* rt_join.c: ranks that torchrun, mpirun or srun started find each other. In: the
 * launcher's environment. Out: the exit code of this process, which watches one rank, its
 * child.
 *
 * On each machine its first rank makes the shared memory and listens on an abstract Unix
 * socket (no file, gone with the process) named by a hash of the job's identity; the
 * others come, say who they are, and get the descriptor. Both ends check that the other
 * has the same user; the first message carries the numerics hash, so that different
 * builds are told apart. The sockets stay open: one that closes tells that a process is
 * gone, however it went. Machines meet by their first ranks (cuda/rt_machines.c); the CPU
 * target has all ranks on one. */
#define _GNU_SOURCE
#include "rt_private.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* ---- the environment --------------------------------------------------------------- */

typedef struct Launcher {
    /* variables */
    const char *name, *rank, *world_size, *local_rank, *local_size;
    const char *machine;     /* its number, or NULL */
    const char *identity[4]; /* that name the job */
} Launcher;

/* In order: torchrun may run under srun and then carries both. Slurm is known by its
 * step: in a batch script without srun there is a SLURM_PROCID but nobody else. */
static const Launcher launchers[] = {
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     "GROUP_RANK",
     {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
    {"mpirun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     NULL,
     {"PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_ess_base_jobid"}},
    {"srun",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE",
     "SLURM_NODEID",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {"mpiexec",
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     NULL,
     {"PMI_ID", "PMI_KVS"}},
};

/* The number a text begins with, or -1; the rest of it, unless rest is NULL. */
static int number_in(const char *text, const char **rest)
{
    char *end = NULL;
    if (text == NULL || *text < '0' || *text > '9') {
        return -1;
    }
    const long n = strtol(text, &end, 10);
    if (rest != NULL) {
        *rest = end;
    }
    return n < 1 << 20 ? (int)n : -1;
}

static int number_of(const char *variable)
{
    return variable != NULL ? number_in(getenv(variable), NULL) : -1;
}

/* Slurm's "4(x2),3" is 4 on each of two machines, 3 on the next; others write a number.
 */
static int number_on(const char *variable, int machine)
{
    const char *text = getenv(variable), *rest = NULL;
    int n = number_in(text, &rest), left = machine > 0 ? machine : 0;
    while (n >= 0) {
        int times = 1;
        if (rest[0] == '(' && rest[1] == 'x') {
            times = number_in(rest + 2, &rest);
            rest += *rest == ')';
        }
        if (times > left || *rest != ',') {
            break;
        }
        left -= times;
        n = number_in(rest + 1, &rest);
    }
    return n;
}

bool rt_join_find(RtJoin *j)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const Launcher *l = &launchers[i];
        *j = (RtJoin){.launcher = l->name,
                      .rank = number_of(l->rank),
                      .world_size = number_of(l->world_size),
                      .local_rank = number_of(l->local_rank),
                      .machine = number_of(l->machine)};
        if (j->rank < 0 || j->world_size < 1) {
            continue;
        }
        j->local_size = number_on(l->local_size, j->machine);
        size_t at = (size_t)snprintf(j->identity, sizeof j->identity, "%s %u", l->name,
                                     (unsigned)geteuid());
        for (int k = 0; k < 4 && l->identity[k] != NULL; k++) {
            const char *value = getenv(l->identity[k]);
            if (value != NULL && at < sizeof j->identity) {
                j->named = true;
                at += (size_t)snprintf(j->identity + at, sizeof j->identity - at, " %s",
                                       value);
            }
        }
        if (!j->named) { /* children of one process on this machine are one job */
            snprintf(j->identity + at, sizeof j->identity - at, " %d", (int)getppid());
        }
        return true;
    }
    j->launcher = NULL;
    return false;
}

/* ---- messages ---------------------------------------------------------------------- */

#define HELLO_MAGIC UINT64_C(0x66736470676e3031)

typedef struct Hello {
    uint64_t magic, numerics_hash;
    int32_t rank, world_size;
    cpu_set_t cpus;
} Hello;

typedef struct Answer {
    uint64_t magic;
    int32_t good, rank;  /* who answers */
    int32_t shared_cpus; /* do all ranks have the same cores, to be divided? */
    char text[256];
} Answer;

typedef struct Meeting {
    const RtTrainer *trainer;
    const RtFlags *flags;
    const RtJoin *join;
    int ranks; /* of this machine */
    int64_t patience_ns, until_ns;
    int peer[RT_MAX_RANKS];
    cpu_set_t cpus; /* of this process */
    bool shared_cpus;
    int fd;
    RtShared *shared;
    char error[RT_ERROR_BYTES];
} Meeting;

/* Are some of the job's ranks on other machines? */
static bool is_apart(const RtJoin *j)
{
    return j->local_size > 0 && j->local_size < j->world_size;
}

/* The first of its machine, to whom the others come. */
static bool is_first(const RtJoin *j)
{
    return is_apart(j) ? j->local_rank == 0 : j->rank == 0;
}

static bool trouble(Meeting *m, const char *what, const char *why)
{
    snprintf(m->error, sizeof m->error, "%s: %s", what, why);
    return false;
}

static void address_of(const RtJoin *j, struct sockaddr_un *a, socklen_t *bytes)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    const uint64_t hash = rt_hash64(j->identity, strlen(j->identity), 2);
    const int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "trainer-%016llx-%d",
                           (unsigned long long)hash, is_apart(j) ? j->machine : 0);
    *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool same_user(int s)
{
    struct ucred who;
    socklen_t bytes = sizeof who;
    return getsockopt(s, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
           who.uid == geteuid();
}

static bool readable(int s, int64_t until_ns)
{
    for (;;) {
        const int64_t left = (until_ns - rt_clock_ns()) / 1000000;
        struct pollfd p = {.fd = s, .events = POLLIN};
        const int n = poll(&p, 1, left > 0 ? (int)(left < 1000000 ? left : 1000000) : 0);
        if (n > 0) {
            return true;
        }
        if (left <= 0 || (n < 0 && errno != EINTR)) {
            return false;
        }
    }
}

static void nap(void)
{
    const struct timespec t = {0, 20000000};
    nanosleep(&t, NULL);
}

/* ---- the first rank ---------------------------------------------------------------- */

static int listen_here(Meeting *m)
{
    struct sockaddr_un address;
    socklen_t bytes;
    address_of(m->join, &address, &bytes);
    const int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    while (s >= 0 && bind(s, (struct sockaddr *)&address, bytes) != 0) {
        if (errno != EADDRINUSE || rt_clock_ns() > m->until_ns) {
            trouble(m, "cannot open the job's socket", strerror(errno));
            close(s);
            return -1;
        }
        nap(); /* a job of the same name is just ending */
    }
    if (s < 0 || listen(s, RT_MAX_RANKS) != 0) {
        trouble(m, "cannot listen on the job's socket", strerror(errno));
        return -1;
    }
    return s;
}

/* Takes in one visitor; false when the job cannot go on. */
static bool receive(Meeting *m, int s, int *came)
{
    Hello hello;
    const int64_t patience = rt_clock_ns() + INT64_C(2000000000);
    if (!same_user(s) || !readable(s, patience) ||
        recv(s, &hello, sizeof hello, 0) != (ssize_t)sizeof hello ||
        hello.magic != HELLO_MAGIC) {
        close(s); /* a stranger */
        return true;
    }
    const int me = m->join->rank;
    if (hello.rank < 0 || hello.rank >= m->join->world_size || hello.rank == me ||
        m->peer[hello.rank] >= 0 || hello.world_size != m->join->world_size) {
        close(s);
        snprintf(m->error, sizeof m->error, "rank %d of %d came to rank %d of %d%s",
                 hello.rank, hello.world_size, me, m->join->world_size,
                 hello.world_size == m->join->world_size ? " twice" : "");
        return false;
    }
    m->peer[hello.rank] = s;
    ++*came;
    if (hello.numerics_hash != m->trainer->numerics_hash) {
        snprintf(m->error, sizeof m->error,
                 "rank %d runs another trainer: numerics %016llx, "
                 "rank %d has %016llx",
                 hello.rank, (unsigned long long)hello.numerics_hash, me,
                 (unsigned long long)m->trainer->numerics_hash);
        return false;
    }
    m->shared_cpus = m->shared_cpus && CPU_EQUAL(&hello.cpus, &m->cpus);
    return true;
}

static bool answer(Meeting *m, int s, bool good)
{
    Answer a = {.magic = HELLO_MAGIC,
                .good = good,
                .rank = m->join->rank,
                .shared_cpus = m->shared_cpus};
    snprintf(a.text, sizeof a.text, "%.*s", (int)sizeof a.text - 1, m->error);
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec data = {&a, sizeof a};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (good) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &m->fd, sizeof m->fd);
    }
    return sendmsg(s, &message, MSG_NOSIGNAL) == (ssize_t)sizeof a;
}

/* Who did not come is known where all were to come to one machine. */
static void say_missing(Meeting *m, int came)
{
    int missing = 0;
    if (is_apart(m->join)) {
        snprintf(m->error, sizeof m->error, "%d of this machine's %d ranks came", came,
                 m->ranks);
        return;
    }
    while (missing < m->ranks && (m->peer[missing] >= 0 || missing == m->join->rank)) {
        missing++;
    }
    snprintf(m->error, sizeof m->error, "%d of %d ranks came; rank %d did not", came,
             m->ranks, missing);
}

static bool meet_others(Meeting *m)
{
#ifdef RT_NCCL
    for (int r = 0; r < m->join->world_size; r++) {
        m->shared->elsewhere[r] = m->peer[r] < 0 && r != m->join->rank;
    }
    return !is_apart(m->join) ||
           rt_machines_meet(m->trainer, m->flags, m->join, m->shared, m->fd,
                            m->patience_ns, m->error);
#else
    (void)m;
    return true;
#endif
}

static bool host(Meeting *m)
{
    rt_memory_warn(m->trainer);
    m->fd = rt_shared_create(m->trainer);
    m->shared = m->fd >= 0 ? rt_shared_map(m->fd) : NULL;
    if (m->shared == NULL) {
        return trouble(m, "no shared memory", rt_shared_error(m->trainer));
    }
    const int s = listen_here(m);
    int came = 1;
    bool good = s >= 0;
    while (good && came < m->ranks) {
        if (!readable(s, m->until_ns)) {
            say_missing(m, came);
            good = false;
            break;
        }
        const int visitor = accept4(s, NULL, NULL, SOCK_CLOEXEC);
        good = visitor < 0 || receive(m, visitor, &came);
    }
    if (s >= 0) {
        close(s);
    }
    good = good && meet_others(m);
    for (int r = 0; r < m->join->world_size; r++) {
        if (m->peer[r] >= 0 && !answer(m, m->peer[r], good) && good) {
            snprintf(m->error, sizeof m->error, "rank %d left before the start", r);
            good = false;
        }
    }
    return good;
}

/* ---- the others -------------------------------------------------------------------- */

static int connect_to_host(Meeting *m)
{
    struct sockaddr_un address;
    socklen_t bytes;
    address_of(m->join, &address, &bytes);
    for (;;) {
        const int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (s < 0) {
            trouble(m, "no socket", strerror(errno));
            return -1;
        }
        if (connect(s, (struct sockaddr *)&address, bytes) == 0) {
            if (same_user(s)) {
                return s;
            }
            trouble(m, "the job's socket", "another user has it");
            close(s);
            return -1;
        }
        close(s);
        if (rt_clock_ns() > m->until_ns) {
            trouble(m,
                    is_apart(m->join) ? "the first rank of this machine did not come"
                                      : "rank 0 did not come to this machine",
                    strerror(errno));
            return -1;
        }
        nap();
    }
}

/* The first rank may have to wait for other machines, twice as long: see rt_meet.c. */
static int64_t until_answered(const Meeting *m)
{
    const int64_t second = 1000000000;
    return m->until_ns +
           (is_apart(m->join) ? 2 * m->patience_ns + 10 * second : 5 * second);
}

static bool visit(Meeting *m)
{
    const int s = connect_to_host(m);
    if (s < 0) {
        return false;
    }
    const Hello hello = {HELLO_MAGIC, m->trainer->numerics_hash, m->join->rank,
                         m->join->world_size, m->cpus};
    Answer a = {0};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {&a, sizeof a};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    if (send(s, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello ||
        !readable(s, until_answered(m)) ||
        recvmsg(s, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof a ||
        a.magic != HELLO_MAGIC) {
        return trouble(m, "this machine's first rank does not answer",
                       "it ended, or another program has its name");
    }
    if (!a.good || a.rank < 0 || a.rank >= m->join->world_size) {
        char who[32];
        a.text[sizeof a.text - 1] = '\0';
        snprintf(who, sizeof who, "rank %d says", a.rank);
        return trouble(m, who, a.text);
    }
    const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c == NULL || c->cmsg_type != SCM_RIGHTS) {
        return trouble(m, "this machine's first rank", "no shared memory came");
    }
    memcpy(&m->fd, CMSG_DATA(c), sizeof m->fd);
    m->peer[a.rank] = s;
    m->shared_cpus = a.shared_cpus;
    m->shared = rt_shared_map(m->fd);
    return m->shared != NULL || trouble(m, "no shared memory", strerror(errno));
}

/* ---- both -------------------------------------------------------------------------- */

static int refuse(const RtJoin *j, const char *text)
{
    char line[RT_ERROR_BYTES + 64];
    snprintf(line, sizeof line, "[rank %d] error: %s", j->rank, text);
    fprintf(stderr, "%s\n", line);
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
    if (j->world_size != t->world_size || j->rank >= j->world_size) {
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

int rt_join(const RtTrainer *t, const RtFlags *f, const RtJoin *j)
{
    const int rc = check_size(t, f, j);
    if (rc >= 0) {
        return rc;
    }
    const int64_t patience_ns =
        (int64_t)((f->deadline_seconds > 0 ? f->deadline_seconds : 60.0) * 1e9);
    static Meeting m;
    m = (Meeting){.trainer = t,
                  .flags = f,
                  .join = j,
                  .ranks = is_apart(j) ? j->local_size : j->world_size,
                  .shared_cpus = true,
                  .fd = -1,
                  .patience_ns = patience_ns,
                  .until_ns = rt_clock_ns() + patience_ns};
    for (int r = 0; r < RT_MAX_RANKS; r++) {
        m.peer[r] = -1;
    }
    CPU_ZERO(&m.cpus);
    sched_getaffinity(0, sizeof m.cpus, &m.cpus);
    if (!(is_first(j) ? host(&m) : visit(&m))) {
        return refuse(j, m.error);
    }
    static RtJob job;
    RtCores cores;
    rt_cores_find(&cores);
    rt_job_init(&job, t, f, m.shared, m.fd);
    memcpy(job.peer, m.peer, sizeof job.peer);
    job.judges = j->rank == 0;
    job.leads = is_first(j) && is_apart(j);
    for (int r = 0; job.judges && r < t->world_size; r++) {
        atomic_store(&m.shared->rank[r].moved_ns, rt_clock_ns());
    }
    if (m.shared_cpus) {
        rt_job_start(&job, j->rank, &cores, rt_ranks_here(m.shared, j->rank), m.ranks);
    } else {
        rt_job_start(&job, j->rank, &cores, 0, 1); /* the launcher has dealt the cores */
    }
#ifdef RT_NCCL
    rt_machines_start(&job);
#endif
    return rt_watch(&job);
}
