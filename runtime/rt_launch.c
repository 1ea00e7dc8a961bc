/* SPDX-License-Identifier: MIT-0 */
/* rt_launch.c: starts this machine's ranks and watches them. In: the trainer, the flags. Out:
 * the exit code of the job.
 *
 * One process a rank, each on its share of the cores. The launcher reads the schedule points
 * and clocks the ranks leave in shared memory, so it can say who died or stands still, where.
 * A rank that dies ends the others at once; ranks die with the launcher (PR_SET_PDEATHSIG). */
#define _GNU_SOURCE
#include "rt_private.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct Job {
    const RtTrainer *trainer;
    RtShared *shared;
    pid_t pid[RT_MAX_RANKS];     /* 0: ended */
    int running, code;
    int64_t deadline_ns;
} Job;

static int64_t now_ns(void)
{
    return (int64_t)(rt_clock() * 1e9);
}

static const char *where(const Job *job, int rank, char *text, size_t bytes)
{
    const RtRankShared *r = &job->shared->rank[rank];
    const int place = atomic_load(&r->place);
    const char *name = place >= 0 && place < job->trainer->n_places && atomic_load(&r->step) > 0
                           ? job->trainer->places[place] : "start";
    const int64_t segment = atomic_load(&r->waiting_segment);
    const bool waits = atomic_load(&r->waiting);
    snprintf(text, bytes, "at %s of step %lld%s%s", name, (long long)atomic_load(&r->step),
             waits ? ", waiting for " : "",
             !waits ? "" : segment >= 0 ? job->trainer->segments[segment].name : "all ranks");
    return text;
}

static void end_all(Job *job, int signal_number)
{
    atomic_store(&job->shared->abort, 1);
    for (int r = 0; r < job->trainer->world_size; r++)
        if (job->pid[r] > 0)
            kill(job->pid[r], signal_number);
}

/* The first bad end decides the job's code; the rest only follow. */
static void ended(Job *job, int rank, int status)
{
    job->pid[rank] = 0;
    job->running--;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    if (job->code != RT_EXIT_OK)
        return;
    char at[256];
    where(job, rank, at, sizeof at);
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "trainer: error: rank %d was killed by signal %d (%s) %s\n", rank,
                WTERMSIG(status), strsignal(WTERMSIG(status)), at);
        job->code = 128 + WTERMSIG(status);
    } else {
        fprintf(stderr, "trainer: error: rank %d ended with code %d %s\n", rank,
                WEXITSTATUS(status), at);
        job->code = WEXITSTATUS(status);
    }
    end_all(job, SIGKILL);
}

static void reap(Job *job)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int r = 0; r < job->trainer->world_size; r++)
            if (job->pid[r] == pid)
                ended(job, r, status);
}

static void stalled(Job *job, int rank)
{
    char at[256];
    fprintf(stderr, "trainer: error: rank %d stands still %s for more than %.1f s; "
            "--deadline SECONDS changes the limit\n", rank,
            where(job, rank, at, sizeof at), 1e-9 * (double)job->deadline_ns);
    job->code = RT_EXIT_ERROR;
    end_all(job, SIGKILL);
}

/* A rank that waits for others polls and stays alive; one that is neither moving nor waiting
 * is at fault. When all wait and none moves, the one that is farthest behind is named. */
static void check_stalls(Job *job)
{
    const int64_t late = now_ns() - job->deadline_ns;
    int behind = -1, still = 0;
    int64_t least = INT64_MAX;
    for (int r = 0; r < job->trainer->world_size; r++) {
        const RtRankShared *p = &job->shared->rank[r];
        if (job->pid[r] == 0)
            continue;
        if (atomic_load(&p->alive_ns) < late) {
            stalled(job, r);
            return;
        }
        const int64_t moved = atomic_load(&p->moved_ns);
        still += moved < late;
        if (moved < least) {
            least = moved;
            behind = r;
        }
    }
    if (still == job->running)
        stalled(job, behind);
}

static void rank_process(const Job *job, const RtFlags *f, int fd, int rank, pid_t launcher,
                         const cpu_set_t *cores, int n_cores, const sigset_t *mask)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher)
        _exit(RT_EXIT_ERROR); /* it died before the line above */
    sigprocmask(SIG_SETMASK, mask, NULL);
    const int ranks = job->trainer->world_size;
    const int share = n_cores / ranks > 0 ? n_cores / ranks : 1;
    if (n_cores >= ranks && f->threads == 0) { /* this rank's cores, in order */
        cpu_set_t mine;
        CPU_ZERO(&mine);
        for (int c = 0, seen = 0; c < CPU_SETSIZE; c++)
            if (CPU_ISSET(c, cores) && seen++ / share == rank)
                CPU_SET(c, &mine);
        sched_setaffinity(0, sizeof mine, &mine);
    }
    exit(rt_rank_main(job->trainer, f, fd, rank, f->threads ? f->threads : share));
}

static int watch(Job *job, const sigset_t *signals)
{
    while (job->running > 0) {
        const struct timespec tick = {0, 50000000};
        const int got = sigtimedwait(signals, NULL, &tick);
        reap(job);
        if (got > 0 && got != SIGCHLD && job->code == RT_EXIT_OK) {
            job->code = 128 + got;
            end_all(job, SIGKILL);
        }
        if (job->running > 0 && job->code == RT_EXIT_OK)
            check_stalls(job);
    }
    return job->code;
}

int rt_launch(const RtTrainer *t, const RtFlags *f)
{
    const int fd = rt_shared_create(t);
    if (fd < 0) {
        fprintf(stderr, "trainer: error: no shared memory: %s\n", strerror(errno));
        return RT_EXIT_ERROR;
    }
    Job job = {.trainer = t, .code = RT_EXIT_OK};
    job.shared = mmap(NULL, sizeof(RtShared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (job.shared == MAP_FAILED) {
        fprintf(stderr, "trainer: error: no shared memory: %s\n", strerror(errno));
        return RT_EXIT_ERROR;
    }
    /* Generous: machines are noisy, and a wrong alarm costs more than a late one. */
    const double seconds = f->deadline_seconds > 0 ? f->deadline_seconds
                           : 60.0 + 20.0 * t->planned_step_seconds;
    job.deadline_ns = (int64_t)(seconds * 1e9);
    for (int r = 0; r < t->world_size; r++) {
        atomic_store(&job.shared->rank[r].moved_ns, now_ns());
        atomic_store(&job.shared->rank[r].alive_ns, now_ns());
    }
    cpu_set_t cores;
    CPU_ZERO(&cores);
    sched_getaffinity(0, sizeof cores, &cores);
    const int n_cores = CPU_COUNT(&cores);
    sigset_t signals, before;
    sigemptyset(&signals);
    const int wanted[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 4; i++)
        sigaddset(&signals, wanted[i]);
    sigprocmask(SIG_BLOCK, &signals, &before);
    const pid_t launcher = getpid();
    fflush(NULL);
    for (int r = 0; r < t->world_size; r++) {
        const pid_t pid = fork();
        if (pid == 0)
            rank_process(&job, f, fd, r, launcher, &cores, n_cores, &before);
        if (pid < 0) {
            fprintf(stderr, "trainer: error: cannot start rank %d: %s\n", r, strerror(errno));
            job.code = RT_EXIT_ERROR;
            end_all(&job, SIGKILL);
            break;
        }
        job.pid[r] = pid;
        job.running++;
    }
    return watch(&job, &signals);
}
