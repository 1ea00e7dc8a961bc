/* SPDX-License-Identifier: MIT-0 */
/* rt_watch.c: the process that watches ranks. In: ranks it started, the page they share,
 * sockets of the processes that watch the others. Out: the job's exit code, and one
 * message that says which rank failed, and where.
 *
 * 1. Ranks record their place, their clock and what they wait for in the shared page. No
 *    rank is asked anything, so a dead or stopped one can be described as well as any
 *    other.
 * 2. The first failure sets `abort`, and the process that found it reports it. Ranks that
 *    wait leave at once, ranks that compute leave at their next place, and the rest are
 *    killed after a short grace period, which a rank about to print a message can use.
 * 3. Ranks die with the process that watches them (PR_SET_PDEATHSIG).
 * 4. So every rank ends: by itself, with the first failure, at its deadline, or, where it
 *    is done and only its process stays, a deadline later. */
#define _GNU_SOURCE
#include "job/rt_job.h"
#include "rt_target.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 50, GRACE_MS = 300, TELLING_MS = 10000, SUSPENDED_MS = 1000 };
/* How much longer disks may take; and three years, so that the product fits in 63 bits.
 */
enum { SLOWER = 20, MOST_SECONDS = 100000000 };

/* ---- words ----------------------------------------------------------------------- */

static const char *place_name(const RtTrainer *t, int place)
{
    switch (place) {
    case RT_AT_START:
        return "its start";
    case RT_AT_DATA:
        return "opening the data";
    case RT_AT_INIT:
        return "initialising weights";
    case RT_AT_SETUP:
        return "computing constants";
    case RT_AT_LOG:
        return "logging";
    case RT_AT_HASH:
        return "hashing weights";
    case RT_AT_END:
        return "its end";
    case RT_AT_SAVE:
        return "writing a checkpoint";
    case RT_AT_LOAD:
        return "reading a checkpoint";
    case RT_AT_OPEN:
        return "connecting the GPUs";
    default:
        return place >= 0 && place < t->n_places ? t->places[place] : "?";
    }
}

/* A batch of matrices has the name of its first segment. */
const char *rt_subject_name(const RtTrainer *t, int subject)
{
    const int batch = subject - rt_subject_batch(t, 0),
              value = subject - rt_subject_value(t, 0);
    if (subject < 0 || subject >= rt_subjects(t))
        return NULL;
    if (value >= 0)
        return t->values[value];
    if (batch >= 0) {
        const RtMatrix *first = &t->matrices[t->batches[batch].first_matrix];
        return t->segments[t->params[first->param].segment].name;
    }
    return t->segments[subject].name;
}

/* "at layers.1 forward of step 3, waiting for segment layers.2" */
static const char *where(const RtJob *job, int rank, char *text, size_t bytes)
{
    const RtTrainer *t = job->trainer;
    const RtRankShared *r = &job->shared->rank[rank];
    const int waiting = atomic_load(&r->waiting),
              subject = atomic_load(&r->waiting_subject);
    const long long step = atomic_load(&r->step);
    char of[48] = "", wait[256] = "";
    if (step > 0)
        snprintf(of, sizeof of, " of step %lld", step);
    if (waiting == RT_CONTROL || waiting == RT_MAIL) {
        snprintf(wait, sizeof wait, ", waiting for all ranks");
    } else if (waiting == RT_JOIN) {
        snprintf(wait, sizeof wait, ", waiting for the ranks that share its parts");
    } else if (waiting >= 0 && rt_subject_name(t, subject) != NULL) {
        snprintf(wait, sizeof wait, ", waiting for the %s of %s",
                 waiting == RT_GATHER ? "gather" : "reduction",
                 rt_subject_name(t, subject));
    }
    snprintf(text, bytes, "at %s%s%s", place_name(t, atomic_load(&r->place)), of, wait);
    return text;
}

bool rt_job_fails(RtJob *job, int code)
{
    int none = 0;
    const bool first = atomic_compare_exchange_strong(&job->shared->abort, &none, code);
    rt_ring(job->shared);
    return first;
}

void rt_job_tell(const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    rt_say("trainer: error: %s", text);
    rt_report_error(text);
}

/* ---- deaths ---------------------------------------------------------------------- */

static void ended(RtJob *job, int rank, int status)
{
    char at[512];
    job->pid[rank] = 0;
    job->running--;
    if (job->late[rank] || (WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
                            atomic_load(&job->shared->rank[rank].done)))
        return;
    if (WIFSIGNALED(status)) {
        const int n = WTERMSIG(status);
        if (rt_job_fails(job, 128 + n)) {
            rt_job_tell("rank %d was killed by signal %d (%s) %s%s", rank, n,
                        strsignal(n), where(job, rank, at, sizeof at),
                        n == SIGKILL  ? "; out of memory, unless it was sent on purpose"
                        : n == SIGBUS ? "; did a data file shrink, or memory run out?"
                        : n == SIGSEGV || n == SIGABRT ? rt_limits_crash()
                                                       : "");
        }
    } else {
        const int code = WEXITSTATUS(status);
        if (rt_job_fails(job, code != 0 ? code : RT_EXIT_ERROR)) {
            rt_job_tell("rank %d ended with code %d %s", rank, code,
                        where(job, rank, at, sizeof at));
        }
    }
}

static void reap(RtJob *job)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (int r = 0; r < job->trainer->world_size; r++)
            if (job->pid[r] == pid)
                ended(job, r, status);
    }
}

/* A socket to another rank's watcher closes when that process ends, for whatever
 * reason. */
static void check_peers(RtJob *job)
{
    for (int r = 0; r < job->trainer->world_size; r++) {
        struct pollfd p = {.fd = job->peer[r], .events = POLLIN};
        if (p.fd < 0 || poll(&p, 1, 0) <= 0)
            continue;
        close(job->peer[r]);
        job->peer[r] = -1;
        char at[512];
        if (!atomic_load(&job->shared->rank[r].done) &&
            rt_job_fails(job, RT_EXIT_ERROR)) {
            rt_job_tell("rank %d is gone with the process that watched it %s", r,
                        where(job, r, at, sizeof at));
        }
    }
}

/* ---- stalled ranks --------------------------------------------------------------- */

/* Which rank does this rank wait for? Itself, if what it waits for is there. */
static int waits_for(const RtJob *job, int rank)
{
    const RtRankShared *me = &job->shared->rank[rank];
    const int stream = atomic_load(&me->waiting);
    const uint64_t count = atomic_load(&me->waiting_count);
    if (stream < 0)
        return rank;
    const RtGroup g = atomic_load(&me->waiting_group);
    for (int k = 0; k < rt_group_ranks(g); k++) {
        const int r = rt_group_rank(g, rank, k);
        if (atomic_load(&job->shared->rank[r].published[stream]) < count)
            return r;
    }
    return rank;
}

/* Follows the waits to the rank that delays the others. */
static int who_is_behind(const RtJob *job, int rank)
{
    for (int hops = 0; hops < job->trainer->world_size; hops++) {
        const int next = waits_for(job, rank);
        if (next == rank)
            break;
        rank = next;
    }
    return rank;
}

/* Disks may be slow, and a rank that waits for one cannot report progress. */
static int64_t deadline_of(const RtJob *job, int rank)
{
    const int place = atomic_load(&job->shared->rank[rank].place);
    bool slow = place == RT_AT_SAVE || place == RT_AT_LOAD || place == RT_AT_DATA;
#ifdef RT_CUDA /* a driver, libraries and kernels may have to be loaded first */
    slow = slow || place == RT_AT_START || place == RT_AT_SETUP || place == RT_AT_OPEN;
#endif
    return job->deadline_ns * (slow ? SLOWER : 1);
}

/* There is a stall if a rank has made no progress for the deadline and waits for no other
 * rank, or if no rank has made progress. */
static void check_stalls(RtJob *job, int64_t since_ns)
{
    const int64_t now = rt_clock_ns();
    int still = -1, alive = 0, stale = 0;
    bool waits = true;
    for (int r = 0; r < job->trainer->world_size; r++) {
        const RtRankShared *p = &job->shared->rank[r];
        if (atomic_load(&p->done))
            continue;
        alive++;
        int64_t moved = atomic_load(&p->moved_ns);
        moved = moved > since_ns ? moved : since_ns;
        if (now - moved <= deadline_of(job, r))
            continue;
        stale++;
        if (waits) { /* a host that polls its device may have a peer that does not */
            still = r;
            waits = atomic_load(&p->waiting) >= 0 ||
                    now - atomic_load(&p->looked_ns) < SUSPENDED_MS * INT64_C(1000000);
        }
    }
    if (still < 0 || (waits && stale < alive))
        return;
    still = who_is_behind(job, still);
    char at[512];
    if (rt_job_fails(job, RT_EXIT_ERROR)) {
        rt_job_tell(
            "rank %d has stood still for %.1f s %s; --deadline SECONDS changes the limit",
            still, 1e-9 * (double)deadline_of(job, still),
            where(job, still, at, sizeof at));
    }
}

/* ---- ending ---------------------------------------------------------------------- */

/* A rank that is done has written everything. What may still keep it are exit handlers of
 * libraries, and some wait forever for threads that they could not start. */
static void end_late(RtJob *job, int64_t since_ns)
{
    for (int r = 0; r < job->trainer->world_size; r++) {
        const RtRankShared *p = &job->shared->rank[r];
        if (job->pid[r] == 0 || job->late[r] || !atomic_load(&p->done))
            continue;
        const int64_t done = atomic_load(&p->moved_ns);
        if (rt_clock_ns() - (done > since_ns ? done : since_ns) <= job->deadline_ns)
            continue;
        rt_say("trainer: warning: rank %d is done, but its process did not end within "
               "%.1f s: it is killed; an exit handler of a library may hang",
               r, 1e-9 * (double)job->deadline_ns);
        job->late[r] = true;
        kill(job->pid[r], SIGKILL);
    }
}

static void kill_all(const RtJob *job)
{
    for (int r = 0; r < job->trainer->world_size; r++)
        if (job->pid[r] > 0)
            kill(job->pid[r], SIGKILL);
}

/* Ranks save and stop by themselves. */
static bool saves(const RtJob *job)
{
    return job->flags->command == RT_TRAIN && job->flags->checkpoint != NULL;
}

/* A second SIGINT or SIGTERM means that the user does not want to wait. One cause may
 * deliver its signal twice, through the terminal and through a shell, so within two
 * seconds it counts as one. Schedulers send other signals first and SIGTERM after them:
 * that does not count. */
static void asked_again(RtJob *job, int n)
{
    static int64_t first_ns[2];
    const int64_t now = rt_clock_ns();
    if (n != SIGINT && n != SIGTERM)
        return;
    int64_t *first = &first_ns[n == SIGTERM];
    job->insists = job->insists || (*first != 0 && now - *first > 2000000000);
    *first = *first != 0 ? *first : now;
}

/* A signal reached this process, a rank, or another rank's watcher. */
static void check_signal(RtJob *job)
{
    const int n = atomic_load(&job->shared->signal);
    char at[512];
    if (n == 0)
        return;
    if (saves(job) && !job->insists) {
        if (!job->told && job->judges) {
            rt_say("trainer: signal %d (%s): finishing the step and saving it; SIGINT or "
                   "SIGTERM twice ends at once",
                   n, strsignal(n));
        }
        job->told = true;
        return;
    }
    if (rt_job_fails(job, 128 + n)) {
        rt_say("trainer: ended by signal %d (%s) %s", n, strsignal(n),
               where(job, 0, at, sizeof at));
    }
}

/* Have those ended for which this process waits: all of its machine, or only its own? */
static bool all_done(const RtJob *job)
{
    for (int r = 0; r < job->trainer->world_size; r++)
        if (!atomic_load(&job->shared->rank[r].done) &&
            (job->judges || (job->leads && !job->shared->elsewhere[r])))
            return false;
    return true;
}

static void watched_signals(sigset_t *set)
{
    int numbers[RT_MAX_SIGNALS];
    const int n = rt_signals_asking(numbers);
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    for (int i = 0; i < n; i++)
        sigaddset(set, numbers[i]);
}

int rt_watch(RtJob *job)
{
    sigset_t signals;
    watched_signals(&signals);
    int64_t last = rt_clock_ns(), since = 0, aborted = 0;
    for (;;) {
        const int code = atomic_load(&job->shared->abort);
        if (job->running == 0 && (code != 0 || all_done(job))) {
            rt_live_off(&job->shared->live); /* unless rank 0 has */
#ifdef RT_NCCL
            rt_machines_end(job);
#endif
            return code == 0 && atomic_load(&job->shared->again) ? RT_EXIT_AGAIN : code;
        }
        const struct timespec tick = {0, TICK_MS * 1000000};
        const int got = sigtimedwait(&signals, NULL, &tick);
        if (got > 0 && got != SIGCHLD) {
            atomic_store(&job->shared->signal, got);
            asked_again(job, got);
        }
        const int64_t now = rt_clock_ns();
        if (now - last > SUSPENDED_MS * INT64_C(1000000))
            since = now; /* the whole job was stopped: that time does not count */
        last = now;
        reap(job);
        if (job->pid[0] > 0 && atomic_load(&job->shared->abort) == 0)
            rt_live_draw(&job->shared->live, job->color);
        check_signal(job);
        check_peers(job);
        end_late(job, since);
        if (job->judges && atomic_load(&job->shared->abort) == 0)
            check_stalls(job, since);
        if (atomic_load(&job->shared->abort) != 0) {
            aborted = aborted != 0 ? aborted : now;
            const bool telling = atomic_load(&job->shared->telling) > 0;
            if (now - aborted > (telling ? TELLING_MS : GRACE_MS) * INT64_C(1000000))
                kill_all(job);
        }
    }
}

/* ---- starting -------------------------------------------------------------------- */

void rt_job_init(RtJob *job, const RtTrainer *t, const RtFlags *f, RtShared *shared,
                 int fd)
{
    *job = (RtJob){.trainer = t, .flags = f, .shared = shared, .fd = fd};
    job->color = rt_colors(f->color, STDOUT_FILENO);
    rt_say_begin(&shared->live, rt_colors(f->color, STDERR_FILENO));
    /* Generous, because machines are noisy, and a false alarm costs more than a late
     * one. */
    const double seconds = f->deadline_seconds > 0
                               ? f->deadline_seconds
                               : 60.0 + 20.0 * t->planned_step_seconds;
    job->deadline_ns = (int64_t)((seconds < MOST_SECONDS ? seconds : MOST_SECONDS) * 1e9);
    for (int r = 0; r < RT_MAX_RANKS; r++)
        job->peer[r] = -1;
    sigset_t signals;
    watched_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGCHLD, SIG_DFL); /* ignored, it would hide how a rank ended */
    signal(SIGPIPE, SIG_IGN); /* a closed stdout is an error of its write */
}

/* A rank passes requests on, because the watchers end all ranks together. A thread waits
 * for them; a handler would not do: oneDNN's products use the stack pointer for their own
 * data, and a handler on such a thread writes its frame into that. */
static void *pass_requests(void *shared)
{
    sigset_t signals;
    watched_signals(&signals);
    int n;
    while (sigwait(&signals, &n) == 0)
        if (n != SIGCHLD)
            atomic_store(&((RtShared *)shared)->signal, n);
    return NULL;
}

/* The signals are blocked, and stay so in this thread and those that it starts. */
static void wait_for_requests(RtShared *shared)
{
    enum { STACK_BYTES = 256 << 10 };
    int numbers[RT_MAX_SIGNALS];
    const int n = rt_signals_asking(numbers);
    pthread_attr_t small;
    pthread_t thread;
    for (int i = 0; i < n; i++)
        signal(numbers[i], SIG_DFL);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    const int e = pthread_create(&thread, &small, pass_requests, shared);
    pthread_attr_destroy(&small);
    if (e != 0) {
        rt_say("trainer: error: no thread for a rank's signals: %s", strerror(e));
        _exit(RT_EXIT_ERROR);
    }
    pthread_detach(thread);
}

/* A rank must not keep open what tells others that its watcher is gone. */
static void close_sockets(const RtJob *job)
{
    for (int r = 0; r < job->trainer->world_size; r++)
        if (job->peer[r] >= 0)
            close(job->peer[r]);
#ifdef RT_NCCL
    rt_machines_close();
#endif
}

static void be_rank(const RtJob *job, pid_t watcher, const RtCores *cores, int index,
                    int ranks, RtSeat *seat)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_sockets(job);
    if (getppid() != watcher)
        _exit(RT_EXIT_ERROR); /* the parent died before prctl */
    wait_for_requests(job->shared);
    const int threads = rt_cores_threads(cores, job->flags, ranks);
    rt_cores_bind(cores, index, ranks, threads);
    seat->shared = job->shared;
    seat->fd = job->fd;
    seat->threads = threads;
    seat->crowded = threads * ranks > cores->quota;
}

RtStarted rt_job_start(RtJob *job, int rank, const RtCores *cores, int index, int ranks,
                       RtSeat *seat)
{
    const pid_t watcher = getpid();
    RtRankShared *shared = &job->shared->rank[rank];
    atomic_store(&shared->place, RT_AT_START);
    atomic_store(&shared->waiting, -1);
    atomic_store(&shared->moved_ns, rt_clock_ns());
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        be_rank(job, watcher, cores, index, ranks, seat);
        seat->rank = rank;
        return RT_IN_RANK;
    }
    if (pid < 0) {
        const int error = errno;
        if (rt_job_fails(job, RT_EXIT_ERROR))
            rt_job_tell("cannot start rank %d: %s", rank, strerror(error));
        return RT_NOT_STARTED;
    }
    job->pid[rank] = pid;
    job->running++;
    return RT_STARTED;
}
