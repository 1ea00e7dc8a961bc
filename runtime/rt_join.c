/* SPDX-License-Identifier: MIT-0 */
/* rt_join.c: ranks that torchrun, mpirun or srun started find each other. In: the
 * launcher's environment. Out: the exit code of this process, which watches one rank, its
 * child.
 *
 * All on one machine: rank 0 makes the shared memory and listens on an abstract Unix
 * socket (no file, gone with the process) named by a hash of the job's identity; the
 * others come, say who they are, and get the descriptor. Both ends check that the other
 * has the same user; the first message carries the numerics hash, so that different
 * builds are told apart. The sockets stay open: one that closes tells that a process is
 * gone, however it went. */
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
    const char *name, *rank, *world_size, *local_size; /* variables */
    const char *identity[4];                           /* variables that name the job */
} Launcher;

/* In order: torchrun may run under srun and then carries both. Slurm is known by its
 * step: in a batch script without srun there is a SLURM_PROCID but nobody else. */
static const Launcher launchers[] = {
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_WORLD_SIZE",
     {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
    {"mpirun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_ess_base_jobid"}},
    {"srun",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_STEP_TASKS_PER_NODE",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", {"PMI_ID", "PMI_KVS"}},
};

/* The number a variable begins with (Slurm's "4(x2)" is 4 on each of 2 machines), or
 * -1. */
static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    if (text == NULL || *text < '0' || *text > '9') {
        return -1;
    }
    const long n = strtol(text, NULL, 10);
    return n < 1 << 20 ? (int)n : -1;
}

bool rt_join_find(RtJoin *j)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const Launcher *l = &launchers[i];
        *j = (RtJoin){.launcher = l->name,
                      .rank = number_of(l->rank),
                      .world_size = number_of(l->world_size),
                      .local_size = number_of(l->local_size)};
        if (j->rank < 0 || j->world_size < 1) {
            continue;
        }
        bool named = false;
        size_t at = (size_t)snprintf(j->identity, sizeof j->identity, "%s %u", l->name,
                                     (unsigned)geteuid());
        for (int k = 0; k < 4 && l->identity[k] != NULL; k++) {
            const char *value = getenv(l->identity[k]);
            if (value != NULL && at < sizeof j->identity) {
                named = true;
                at += (size_t)snprintf(j->identity + at, sizeof j->identity - at, " %s",
                                       value);
            }
        }
        if (!named) { /* children of one process on this machine are one job */
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
    int32_t good, shared_cpus; /* do all ranks have the same cores, to be divided? */
    char text[256];
} Answer;

typedef struct Meeting {
    const RtTrainer *trainer;
    const RtJoin *join;
    int64_t until_ns;
    int peer[RT_MAX_RANKS];
    cpu_set_t cpus; /* of this process */
    bool shared_cpus;
    int fd;
    char error[384];
} Meeting;

static bool trouble(Meeting *m, const char *what, const char *why)
{
    snprintf(m->error, sizeof m->error, "%s: %s", what, why);
    return false;
}

static void address_of(const RtJoin *j, struct sockaddr_un *a, socklen_t *bytes)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    const uint64_t hash = rt_hash64(j->identity, strlen(j->identity), 2);
    const int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "trainer-%016llx",
                           (unsigned long long)hash);
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

/* ---- rank 0 ------------------------------------------------------------------------ */

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
    if (hello.rank <= 0 || hello.rank >= m->join->world_size ||
        m->peer[hello.rank] >= 0 || hello.world_size != m->join->world_size) {
        close(s);
        snprintf(m->error, sizeof m->error, "rank %d of %d came to rank 0 of %d%s",
                 hello.rank, hello.world_size, m->join->world_size,
                 hello.world_size == m->join->world_size ? " twice" : "");
        return false;
    }
    m->peer[hello.rank] = s;
    ++*came;
    if (hello.numerics_hash != m->trainer->numerics_hash) {
        snprintf(m->error, sizeof m->error,
                 "rank %d runs another trainer: numerics %016llx, "
                 "rank 0 has %016llx",
                 hello.rank, (unsigned long long)hello.numerics_hash,
                 (unsigned long long)m->trainer->numerics_hash);
        return false;
    }
    m->shared_cpus = m->shared_cpus && CPU_EQUAL(&hello.cpus, &m->cpus);
    return true;
}

static bool answer(Meeting *m, int s, bool good)
{
    Answer a = {.magic = HELLO_MAGIC, .good = good, .shared_cpus = m->shared_cpus};
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

static bool host(Meeting *m)
{
    const int ranks = m->join->world_size;
    rt_memory_warn(m->trainer);
    m->fd = rt_shared_create(m->trainer);
    if (m->fd < 0) {
        return trouble(m, "no shared memory", strerror(errno));
    }
    const int s = listen_here(m);
    int came = 1;
    bool good = s >= 0;
    while (good && came < ranks) {
        if (!readable(s, m->until_ns)) {
            int missing = 1;
            while (missing < ranks && m->peer[missing] >= 0) {
                missing++;
            }
            snprintf(m->error, sizeof m->error, "%d of %d ranks came; rank %d did not",
                     came, ranks, missing);
            good = false;
            break;
        }
        const int visitor = accept4(s, NULL, NULL, SOCK_CLOEXEC);
        good = visitor < 0 || receive(m, visitor, &came);
    }
    if (s >= 0) {
        close(s);
    }
    for (int r = 1; r < ranks; r++) {
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
            trouble(m, "rank 0 did not come to this machine", strerror(errno));
            return -1;
        }
        nap();
    }
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
        !readable(s, m->until_ns + INT64_C(5000000000)) ||
        recvmsg(s, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof a ||
        a.magic != HELLO_MAGIC) {
        return trouble(m, "rank 0 does not answer",
                       "it ended, or another program has its name");
    }
    if (!a.good) {
        a.text[sizeof a.text - 1] = '\0';
        return trouble(m, "rank 0 says", a.text);
    }
    const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c == NULL || c->cmsg_type != SCM_RIGHTS) {
        return trouble(m, "rank 0 does not answer", "no shared memory came");
    }
    memcpy(&m->fd, CMSG_DATA(c), sizeof m->fd);
    m->peer[0] = s;
    m->shared_cpus = a.shared_cpus;
    return true;
}

/* ---- both -------------------------------------------------------------------------- */

static int refuse(const RtJoin *j, const char *text)
{
    char line[768];
    snprintf(line, sizeof line, "[rank %d] error: %s", j->rank, text);
    fprintf(stderr, "%s\n", line);
    rt_report_error(line);
    return RT_EXIT_ERROR;
}

static int check_size(const RtTrainer *t, const RtJoin *j)
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
    if (j->local_size >= 0 && j->local_size != j->world_size) {
        snprintf(text, sizeof text,
                 "%s put %d of %d ranks on this machine; the CPU target "
                 "needs all of them on one",
                 j->launcher, j->local_size, j->world_size);
        refuse(j, text);
        return RT_EXIT_USAGE;
    }
    return -1;
}

int rt_join(const RtTrainer *t, const RtFlags *f, const RtJoin *j)
{
    const int rc = check_size(t, j);
    if (rc >= 0) {
        return rc;
    }
    const double patience = f->deadline_seconds > 0 ? f->deadline_seconds : 60.0;
    static Meeting m;
    m = (Meeting){.trainer = t,
                  .join = j,
                  .shared_cpus = true,
                  .fd = -1,
                  .until_ns = rt_clock_ns() + (int64_t)(patience * 1e9)};
    for (int r = 0; r < RT_MAX_RANKS; r++) {
        m.peer[r] = -1;
    }
    CPU_ZERO(&m.cpus);
    sched_getaffinity(0, sizeof m.cpus, &m.cpus);
    if (!(j->rank == 0 ? host(&m) : visit(&m))) {
        return refuse(j, m.error);
    }
    RtShared *shared = rt_shared_map(m.fd);
    if (shared == NULL) {
        return refuse(j, "no shared memory");
    }
    static RtJob job;
    RtCores cores;
    rt_cores_find(&cores);
    rt_job_init(&job, t, f, shared, m.fd);
    memcpy(job.peer, m.peer, sizeof job.peer);
    job.judges = j->rank == 0;
    if (job.judges) {
        for (int r = 0; r < t->world_size; r++) {
            atomic_store(&shared->rank[r].moved_ns, rt_clock_ns());
        }
    }
    if (m.shared_cpus) {
        rt_job_start(&job, j->rank, &cores, j->rank, t->world_size);
    } else {
        rt_job_start(&job, j->rank, &cores, 0, 1); /* the launcher has dealt the cores */
    }
    return rt_watch(&job);
}
