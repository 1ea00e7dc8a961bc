/* SPDX-License-Identifier: MIT-0 */
/* rt_job.h: what starts, watches and ends ranks, and what they agree on. The lowest room, so every
 * file may include it. */
#ifndef RT_JOB_H
#define RT_JOB_H

#include "rt_private.h"

/* ---- rt_say.c: lines for people -------------------------------------------------- */

/* Prints a line on stderr, with bytes that a terminal might obey as \xNN; drops it if a terminal
 * accepts nothing for a second. "trainer: warning: ..." and notes are printed once. */
void rt_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* For the processes of a job, before ranks are started; shared: their shared memory, or NULL.
 * color: color words on stderr. */
void rt_say_begin(RtLive *shared, bool color);
/* Bytes of the first character of the text if a terminal displays it, else 0. */
size_t rt_say_shown(const char *text);
/* What to write to the terminal fd before anything else, to remove the redrawn line; "":
 * nothing. */
const char *rt_say_erases(int fd);

/* ---- rt_live.c: the terminal's last line ----------------------------------------- */

typedef enum { RT_COLOR_AUTO, RT_COLOR_ALWAYS, RT_COLOR_NEVER } RtColor;
bool rt_colors(RtColor color, int fd);
int rt_live_columns(void); /* of stdout: the terminal's, or 80 */
/* The line of a run in at most `columns` columns. bar: progress, in the remaining space. */
enum { RT_LINE_BYTES = 1024 };
void rt_live_text(const RtLine *line, int columns, bool bar, bool color,
                  char text[RT_LINE_BYTES]);
const char *rt_duration(char *out, size_t n, double seconds); /* 3h05m */
/* A measured number with this many significant digits; bytes as 61.2 MiB; 12.3k tok/s. */
const char *rt_digits(char *out, size_t n, double x, int digits);
const char *rt_bytes(char *out, size_t n, int64_t bytes);
const char *rt_rate(char *out, size_t n, double tokens_per_second);
/* For rank 0: starts and ends the line; sets its contents. Between hold and release nothing is
 * drawn; false: the drawing process is stuck, and nothing is held. */
void rt_live_on(RtLive *live);
void rt_live_off(RtLive *live);
bool rt_live_hold(RtLive *live);
void rt_live_release(RtLive *live);
void rt_live_set(RtLive *live, const RtLine *line);
/* For the process that watches rank 0, called now and then. */
void rt_live_draw(RtLive *live, bool color);

/* ---- rt_wait.c: time, waiting for peers, failures -------------------------------- */

double rt_clock(void); /* seconds, monotonic */
int64_t rt_clock_ns(void);
/* Something that peers wait for has changed: wakes those that sleep. */
void rt_ring(RtShared *shared);
/* One turn of a loop that waits for ready(ctx): spins, then sleeps until the bell rings. Leaves the
 * process if the job is aborted. tries counts turns without progress. */
void rt_pause(const Rt *rt, int tries, bool (*ready)(const void *ctx), const void *ctx);
/* Will the run end soon: after a signal, by --stop-after, or without its log? Slow work asks this,
 * from any thread and on each rank separately, and skips the rest. */
bool rt_due_soon(const Rt *rt);
/* Fails this rank: the first rank to fail prints `[rank R] error: ...`, and all end. */
_Noreturn void rt_fail(const Rt *rt, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Another rank failed and prints why: waits for that, then leaves with its exit code. */
_Noreturn void rt_leave(const Rt *rt);
/* rt_watch.c: the purpose of a collective, for messages; NULL: unknown subject. */
const char *rt_subject_name(const RtTrainer *t, int subject);
/* For torchrun, which displays it as the root cause: the first one counts. */
void rt_report_error(const char *text);

/* ---- rt_mail.c: sums over all ranks, modulo 2^64 --------------------------------- */

/* Both are collective; n <= RT_SUM_WORDS. Through the control areas, on the threads that compute
 * the step. */
void rt_sum_words(Rt *rt, uint64_t *words, int n);
/* By mail, on the threads that read or write checkpoints, which may be different ones. */
void rt_save_sum(Rt *rt, uint64_t *words, int n);
void rt_save_moves(Rt *rt); /* tells the shared page that this rank makes progress */
/* Called by a thread that writes during training: it is that thread. */
void rt_save_apart(void);
/* Called by the step's thread while it waits for that one: the page shows what that one waits for,
 * and whether it makes progress; start with *seen = 0. */
void rt_save_await(Rt *rt, uint64_t *seen);
void rt_save_awaited(Rt *rt); /* the wait is over */

/* ---- rt_agree.c: a rank that differs from rank 0 fails --------------------------- */

void rt_agree_builds(Rt *rt);
void rt_agree_flags(Rt *rt);
void rt_take_first(Rt *rt, uint64_t *words, int n); /* collective: sets them to rank 0's */

/* ---- rt_limits.c: limits of this process ----------------------------------------- */

/* root: a folder that precedes all paths, or "". Memory and CPUs: of the control groups. */
int64_t rt_limits_memory_bytes(const char *root); /* left now; INT64_MAX: unlimited */
int rt_limits_cpus(const char *root);             /* per period; INT_MAX: unlimited */
/* Text for the errno of a mapping: ENOMEM may mean that there are too many of them. */
const char *rt_limits_map_error(const char *root, int reason);
/* After the report of a crash: which `ulimit` it may come from, or "". */
const char *rt_limits_crash(void);
bool rt_limits_stack(void); /* false: too small, and this was reported */
/* The number after the first `word` that starts a line; -1: there is none. */
int64_t rt_limits_number(const char *path, const char *word);

/* ---- rt_platform.c, rt_shared.c -------------------------------------------------- */

uint64_t rt_platform_hash(const RtTrainer *t, char *text, size_t text_bytes);
/* Memory that this machine, or the control groups of this process, have free now. */
int64_t rt_host_free_bytes(void);
/* The memory shared by ranks, and its descriptor; NULL with errno; the first function also prints
 * the error. */
RtShared *rt_shared_first(const RtTrainer *t, int *fd);
RtShared *rt_shared_create(const RtTrainer *t, int *fd);
/* The same, including what may follow: copies for saves, digests of a few data files. */
int64_t rt_pages(int64_t bytes); /* rounded up to whole pages of this kernel: 4 to 64 KiB */
int64_t rt_shared_most_bytes(const RtTrainer *t);
const char *rt_shared_error(int64_t bytes); /* text for errno, for a request of this size */
RtShared *rt_shared_map(int fd); /* maps a received descriptor; or NULL with errno */

/* ---- rt_flags.c, rt_near.c, rt_signals.c, rt_cores.c ----------------------------- */

/* Returns -1 to continue, or an exit code. */
int rt_flags_parse(RtFlags *f, const RtTrainer *t, int argc, char **argv);
/* The name that the first `bytes` bytes of word probably mean; NULL: no name is near. */
const char *rt_near(const char *word, size_t bytes, const char *const *names, int n);
/* Where text for people goes: stdout, or stderr if stdout carries a command's result. */
static inline FILE *rt_words(const Rt *rt)
{
    return rt->state->flags.command == RT_TRAIN ? stdout : stderr;
}

/* The signals that ask a job to end; returns how many. With checkpoints, they end the process with
 * RT_EXIT_AGAIN until it watches ranks. */
enum { RT_MAX_SIGNALS = 80 };
int rt_signals_asking(int *numbers);
void rt_signals_early(void);
/* Exec drops handlers, not blocked signals: they wait until this program has handlers again. */
void rt_signals_hold(bool hold);

/* The ranks' share of the cores this process may use. */
typedef struct RtCores {
    int cpu[1024], n_cpus; /* in the order of packages and cores: siblings are adjacent */
    bool known;            /* the kernel has told which */
    int quota;             /* CPUs that the control groups grant, at most n_cpus */
} RtCores;
void rt_cores_find(RtCores *c);
int rt_cores_threads(const RtCores *c, const RtFlags *f, int ranks);
int rt_cores_team(int threads, bool tells);
void rt_cores_short_turns(void);
void rt_cores_bind(const RtCores *c, int index, int ranks, int threads);
/* Restarts this program if OpenMP would bind or spin as if it had the machine alone. */
void rt_cores_fit_openmp(const RtCores *c, const RtFlags *f, int ranks, char **argv);
/* The same for one of several ranks that a launcher started: only if OpenMP would bind. */
void rt_cores_unbind_openmp(char **argv);

/* ---- rt_launcher.c, rt_launch.c, rt_join.c --------------------------------------- */

/* Rank and number of ranks from a launcher's environment; -1: not given. */
typedef struct RtJoin {
    const char *launcher; /* "torchrun", ...; NULL: none */
    int rank, world_size;
    int local_rank, local_size; /* on this machine */
    int machine;                /* its number */
    bool named;                 /* the identity is the same on all machines */
    char identity[512];         /* the same for all ranks of this job, and only for them */
} RtJoin;
/* Did torchrun start this process, or the one that started it? */
bool rt_join_is_torchrun(void);
/* Did a launcher start this process? error: what is wrong with its variables, or "". */
bool rt_join_find(RtJoin *j, char *error);
/* What a rank starts with, in the process that became it. */
typedef struct RtSeat {
    RtShared *shared;
    int fd; /* of the shared memory */
    int rank, threads;
    bool crowded; /* there are more threads than cores */
} RtSeat;
/* Start this process's ranks and watch them. They return in each process, like fork: the job's exit
 * code; or, in a rank, RT_IS_RANK and its seat. */
enum { RT_IS_RANK = -1 };
int rt_join(const RtTrainer *t, const RtFlags *f, const RtJoin *j, RtSeat *seat);
int rt_launch_ranks(const RtTrainer *t, const RtFlags *f, RtSeat *seat);

/* ---- rt_watch.c ------------------------------------------------------------------ */

/* What a watching process knows of the job. */
typedef struct RtJob {
    const RtTrainer *trainer;
    const RtFlags *flags;
    RtShared *shared;
    int fd;                 /* of the shared memory */
    int pid[RT_MAX_RANKS];  /* ranks that this process started; 0: ended, or another's */
    int peer[RT_MAX_RANKS]; /* sockets of the processes that watch other ranks; or -1 */
    int running;            /* ranks of this process that have not ended */
    bool late[RT_MAX_RANKS]; /* done, but did not end: killed */
    bool judges;            /* it looks for stalled ranks */
    bool leads;             /* CUDA: this machine's ranks reach others through it */
    bool told;              /* a signal was reported */
    bool color;             /* of the line that is redrawn on stdout */
    bool insists;           /* the user does not want to wait for a save */
    int64_t deadline_ns;
} RtJob;
void rt_job_init(RtJob *job, const RtTrainer *t, const RtFlags *f, RtShared *shared,
                 int fd);
/* Forks a rank. */
typedef enum { RT_NOT_STARTED, RT_STARTED, RT_IN_RANK } RtStarted;
RtStarted rt_job_start(RtJob *job, int rank, const RtCores *cores, int index, int ranks,
                       RtSeat *seat);
/* The first failure decides the job's exit code; returns whether this is the first. */
bool rt_job_fails(RtJob *job, int code);
void rt_job_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int rt_watch(RtJob *job); /* the job's exit code */

#endif
