/* SPDX-License-Identifier: MIT-0 */
/* rt_join.c: ranks that somebody else started: torchrun, mpirun, srun. In: their environment.
 * Out: this process's rank, and the job's shared memory.
 *
 * All ranks must be on this machine. Rank 0 creates the shared memory and hands its descriptor
 * to the others over a socket with an abstract name made of the job's identity; who connects
 * must be the same user, and says which trainer, world size and rank it is. */
#define _GNU_SOURCE
#include "rt_private.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* The variables of each launcher. A Slurm batch script without srun has SLURM_PROCID but no
 * step: only a step's variables count. */
static const struct Launcher {
    const char *name, *rank, *world, *local_world, *job;
} launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE",
     "SLURM_JOB_ID"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_JOBID"},
};

typedef struct Hello { uint64_t magic, numerics; int32_t world_size, rank; } Hello;
#define HELLO_MAGIC UINT64_C(0x6673647067656e31)

static double join_seconds = 60;

static long number(const char *name)
{
    const char *s = getenv(name);
    char *end;
    if (!s || !*s)
        return -1;
    const long n = strtol(s, &end, 10);
    return n >= 0 ? n : -1; /* "4(x2)" of Slurm counts as 4 */
}

static const struct Launcher *find_launcher(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (number(launchers[i].rank) >= 0 && number(launchers[i].world) > 0)
            return &launchers[i];
    return NULL;
}

static socklen_t address(struct sockaddr_un *a, const struct Launcher *l, const RtTrainer *t)
{
    const char *job = getenv(l->job);
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    const int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "fsdpgen-%u-%.40s-%016llx",
                           (unsigned)getuid(), job ? job : "job",
                           (unsigned long long)t->numerics_hash);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool same_user(int socket)
{
    struct ucred c;
    socklen_t n = sizeof c;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &c, &n) == 0 && c.uid == getuid();
}

static void set_timeout(int socket)
{
    const struct timeval limit = {10, 0};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

static bool send_descriptor(int socket, int fd)
{
    char byte = 1, space[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space,
                       .msg_controllen = sizeof space};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return sendmsg(socket, &m, MSG_NOSIGNAL) == 1;
}

static int receive_descriptor(int socket)
{
    char byte, space[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space,
                       .msg_controllen = sizeof space};
    if (recvmsg(socket, &m, MSG_CMSG_CLOEXEC) != 1)
        return -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    int fd = -1;
    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

/* Rank 0: hands the descriptor to every other rank once. */
static int serve(const RtTrainer *t, int listener)
{
    const int fd = rt_shared_create(t);
    bool joined[RT_MAX_RANKS] = {true};
    const double end = rt_clock() + join_seconds;
    for (int count = 1; fd >= 0 && count < t->world_size;) {
        const int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (rt_clock() > end) {
            fprintf(stderr, "[rank 0] error: only %d of %d ranks joined within %.0f s\n", count,
                    t->world_size, join_seconds);
            return -1;
        }
        if (s < 0)
            continue;
        set_timeout(s);
        Hello h = {0};
        const bool good = same_user(s) && recv(s, &h, sizeof h, MSG_WAITALL) == sizeof h &&
                          h.magic == HELLO_MAGIC && h.numerics == t->numerics_hash &&
                          h.world_size == t->world_size && h.rank > 0 &&
                          h.rank < t->world_size && !joined[h.rank];
        if (good && send_descriptor(s, fd)) {
            joined[h.rank] = true;
            count++;
        }
        close(s);
    }
    return fd;
}

static int ask(const RtTrainer *t, const struct sockaddr_un *a, socklen_t n, int rank)
{
    const double end = rt_clock() + join_seconds;
    while (rt_clock() < end) {
        const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (s >= 0 && connect(s, (const struct sockaddr *)a, n) == 0 && same_user(s)) {
            set_timeout(s);
            const Hello h = {HELLO_MAGIC, t->numerics_hash, t->world_size, rank};
            int fd = -1;
            if (send(s, &h, sizeof h, MSG_NOSIGNAL) == sizeof h)
                fd = receive_descriptor(s);
            close(s);
            if (fd >= 0)
                return fd;
        } else if (s >= 0) {
            close(s);
        }
        const struct timespec nap = {0, 20000000};
        nanosleep(&nap, NULL);
    }
    fprintf(stderr, "[rank %d] error: rank 0 did not answer within %.0f s; is it on this "
            "machine, and the same trainer?\n", rank, join_seconds);
    return -1;
}

/* The cores this process may use, shared by the ranks here if the launcher did not pin. */
static int thread_share(int ranks)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    sched_getaffinity(0, sizeof cores, &cores);
    const int all = (int)sysconf(_SC_NPROCESSORS_ONLN), mine = CPU_COUNT(&cores);
    const int share = mine < all ? mine : mine / ranks;
    return share > 0 ? share : 1;
}

int rt_join(const RtTrainer *t, const RtFlags *f)
{
    const struct Launcher *l = find_launcher();
    if (!l)
        return -1;
    const long rank = number(l->rank), world = number(l->world), here = number(l->local_world);
    if (world != t->world_size || rank >= world) {
        fprintf(stderr, "trainer: error: %s started %ld ranks, but this trainer was generated "
                "for %d; start %d, or generate with --set mesh.shard=%ld\n", l->name, world,
                t->world_size, t->world_size, world);
        return RT_EXIT_USAGE;
    }
    if (here > 0 && here < world) {
        fprintf(stderr, "trainer: error: %s put %ld of %ld ranks on this machine; the CPU "
                "target needs all of them on one\n", l->name, here, world);
        return RT_EXIT_USAGE;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct sockaddr_un a;
    const socklen_t n = address(&a, l, t);
    int fd;
    if (rank == 0) {
        const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        set_timeout(s);
        if (s < 0 || bind(s, (struct sockaddr *)&a, n) != 0 || listen(s, RT_MAX_RANKS) != 0) {
            fprintf(stderr, "[rank 0] error: cannot meet the other ranks: %s%s\n",
                    strerror(errno), errno == EADDRINUSE ? " (is the job already running?)" : "");
            return RT_EXIT_ERROR;
        }
        fd = serve(t, s);
        close(s);
    } else {
        fd = ask(t, &a, n, (int)rank);
    }
    if (fd < 0)
        return RT_EXIT_ERROR;
    return rt_rank_main(t, f, fd, (int)rank, f->threads ? f->threads : thread_share((int)world));
}
