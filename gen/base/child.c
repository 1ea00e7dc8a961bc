/* SPDX-License-Identifier: Apache-2.0 */
/* child.c: runs the generator, or the tokenizer, in a child process, because it reads
 * foreign files. In: a function. Out: its exit code, its output, its results, and a
 * message if the child was killed, crashed or exceeded a limit. The child cannot write a
 * file (its limit is 0 bytes), outlive the parent, or exceed its limits.
 *
 * There are three pipes: stdout, stderr and results. The generator's results are records
 * of two little-endian lengths, a path and its content; a record with a length that no
 * path has ends them. So a child that dies early cannot look like one that finished. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pipe2, strsignal */
#endif
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 }; /* their shadow memory needs terabytes of address space */
#else
enum { SANITIZED = 0 };
#endif

const Limits default_limits = {
    .cpu_seconds = 120,
    .wall_seconds = 300,
    .memory_bytes = INT64_C(4) << 30,
    .output_bytes = INT64_C(256) << 20,
};

enum { OUT, ERR, RESULT, N_PIPES, MAX_OPEN_FILES = 64, MAX_PATH_BYTES = 4096 };
static const uint64_t end_mark = UINT64_C(0x646E652E6E656766); /* "fgen.end" */

/* ---- in the child ---------------------------------------------------------------- */

static int result_fd = -1; /* where child_put() writes */

static void limit(int what, int64_t n)
{
    struct rlimit r = {(rlim_t)n, (rlim_t)n};
    struct rlimit old;

    if (getrlimit(what, &old) == 0 && old.rlim_max != RLIM_INFINITY &&
        old.rlim_max < r.rlim_max)
        r.rlim_cur = r.rlim_max = old.rlim_max;
    setrlimit(what, &r);
}

static void apply_limits(const Limits *l)
{
    struct rlimit cpu = {(rlim_t)l->cpu_seconds, (rlim_t)l->cpu_seconds + 1};

    if (l->cpu_seconds) /* SIGXCPU first: the parent then knows the cause */
        setrlimit(RLIMIT_CPU, &cpu);
    if (!SANITIZED && l->memory_bytes)
        limit(RLIMIT_AS, l->memory_bytes);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_NOFILE, MAX_OPEN_FILES);
    limit(RLIMIT_CORE, 0);
    child_jail();
}

void child_put(const void *data, size_t n)
{
    const char *p = data;

    while (n) {
        ssize_t sent = write(result_fd, p, n);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            _exit(EXIT_BUG); /* the parent is gone */
        p += sent;
        n -= (size_t)sent;
    }
}

/* This process does not outlive its parent. */
static void end_with(pid_t parent)
{
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) /* it died before prctl */
        _exit(EXIT_BUG);
}

static _Noreturn void run_child(Gen *g, const Limits *limits, const ChildWork *work,
                                int fds[], pid_t parent)
{
    int code;

    end_with(parent);
    if (dup2(fds[OUT], STDOUT_FILENO) < 0 || dup2(fds[ERR], STDERR_FILENO) < 0)
        _exit(EXIT_BUG);
    close(fds[OUT]);
    close(fds[ERR]);
    apply_limits(limits);
    inputs_in_child();
    result_fd = fds[RESULT];
    code = work->work(g, work->with);
    fflush(NULL);
    exit(code);
}

/* ---- in the parent --------------------------------------------------------------- */

typedef struct Stream {
    int fd; /* -1: at its end */
    int64_t bytes;
} Stream;

typedef enum { FINISHED, TOO_LONG, TOO_MUCH, REFUSED } Outcome;

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads what one pipe holds. Printed output is passed on at once, because somebody may be
 * watching. */
static Outcome drain(Stream *s, int which, const ChildWork *work, int64_t most)
{
    FILE *to = which == OUT ? stdout : stderr;
    static char buffer[65536];
    ssize_t n = read(s->fd, buffer, sizeof buffer);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return FINISHED;
    if (n <= 0) {
        close(s->fd);
        s->fd = -1;
        return FINISHED;
    }
    s->bytes += n;
    if (which == RESULT)
        return work->take(work->with, buffer, (size_t)n) ? FINISHED : REFUSED;
    if (most && s->bytes > most)
        return TOO_MUCH;
    fwrite(buffer, 1, (size_t)n, to);
    fflush(to);
    return ferror(stdout) ? REFUSED : FINISHED; /* the caller reports it */
}

static Outcome relay(Stream *streams, const Limits *l, const ChildWork *work)
{
    const int64_t deadline =
        l->wall_seconds ? now_ms() + l->wall_seconds * 1000 : INT64_MAX;

    for (;;) {
        struct pollfd p[N_PIPES];
        int open = 0;
        int64_t left = deadline - now_ms();

        for (int i = 0; i < N_PIPES; i++) {
            p[i] = (struct pollfd){.fd = streams[i].fd, .events = POLLIN};
            open += streams[i].fd >= 0;
        }
        if (!open)
            return FINISHED;
        if (left <= 0)
            return TOO_LONG;
        if (poll(p, N_PIPES, (int)min_i64(left, 60000)) < 0 && errno != EINTR)
            gen_die("poll: %s", strerror(errno));
        for (int i = 0; i < N_PIPES; i++)
            if (streams[i].fd >= 0 && (p[i].revents & (POLLIN | POLLHUP | POLLERR))) {
                const Outcome o = drain(&streams[i], i, work, l->output_bytes);

                if (o != FINISHED)
                    return o;
            }
    }
}

static int told(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int told(int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vprint_line(stderr, code == EXIT_BUG ? "fsdpgen: bug: " : "fsdpgen: error: ", fmt,
                ap);
    va_end(ap);
    return code;
}

static int judge(int status, const struct rusage *used, Outcome outcome,
                 const ChildWork *work, const Limits *l)
{
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const long long cpu = (long long)l->cpu_seconds;
    const long long computed = used->ru_utime.tv_sec + used->ru_stime.tv_sec;

    if (outcome == REFUSED)
        return EXIT_DIAG;
    if (outcome == TOO_LONG && computed < (long long)l->wall_seconds / 4)
        return told(EXIT_DIAG,
                    "%s was stopped after %lld seconds, of which it had a processor for "
                    "%lld; run it again when the machine does less",
                    work->what, (long long)l->wall_seconds, computed);
    if (outcome == TOO_LONG)
        return told(EXIT_DIAG, "%s was stopped after %lld seconds; %s", work->what,
                    (long long)l->wall_seconds, work->cause);
    if (outcome == TOO_MUCH)
        return told(EXIT_DIAG, "%s was stopped: its output is larger than %lld MiB",
                    work->what, (long long)(l->output_bytes >> 20));
    if (signal == SIGXCPU || (signal == SIGKILL && cpu && computed >= cpu))
        return told(EXIT_DIAG, "%s was stopped after %lld seconds of processor time; %s",
                    work->what, cpu, work->cause);
    if (signal == SIGKILL)
        return told(EXIT_DIAG,
                    "%s was killed from outside, as a machine without free "
                    "memory does",
                    work->what);
    if (signal)
        return told(EXIT_BUG,
                    "%s died of signal %d (%s); please report it with what it read",
                    work->what, signal, strsignal(signal));
    return WEXITSTATUS(status);
}

int child_stream(Gen *g, const Limits *limits, const ChildWork *work)
{
    Stream streams[N_PIPES] = {0};
    int fds[N_PIPES][2], child_fds[N_PIPES], status = 0;
    pid_t parent = getpid(), pid;
    struct rusage used;
    Outcome outcome;

    inputs_share();
    signal(SIGCHLD, SIG_DFL); /* if a parent ignored SIGCHLD, wait4 would find no child */
    fflush(NULL);             /* otherwise the child would print it again */
    for (int i = 0; i < N_PIPES; i++) {
        if (pipe2(fds[i], O_CLOEXEC) != 0)
            return told(EXIT_DIAG, "cannot make a pipe: %s", strerror(errno));
        child_fds[i] = fds[i][1];
    }
    pid = fork();
    if (pid < 0)
        return told(EXIT_DIAG, "cannot start a process: %s", strerror(errno));
    if (pid == 0) {
        for (int i = 0; i < N_PIPES; i++)
            close(fds[i][0]);
        run_child(g, limits, work, child_fds, parent);
    }
    for (int i = 0; i < N_PIPES; i++) {
        close(fds[i][1]);
        streams[i].fd = fds[i][0];
    }
    outcome = relay(streams, limits, work);
    if (outcome != FINISHED)
        kill(pid, SIGKILL);
    for (int i = 0; i < N_PIPES; i++)
        if (streams[i].fd >= 0)
            close(streams[i].fd);
    while (wait4(pid, &status, 0, &used) < 0)
        if (errno != EINTR)
            return told(EXIT_BUG, "wait4: %s", strerror(errno));
    fflush(NULL);
    return judge(status, &used, outcome, work, limits);
}

int child_copy(Gen *g, const Limits *limits, const ChildWork *work, int quiet)
{
    const pid_t parent = getpid();
    int status = 0, code;
    struct rusage used;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        return told(EXIT_DIAG, "cannot start a process: %s", strerror(errno));
    if (pid == 0) {
        end_with(parent);
        if (dup2(quiet, STDERR_FILENO) < 0)
            _exit(EXIT_BUG);
        code = work->work(g, work->with);
        fflush(NULL);
        _exit(code);
    }
    while (wait4(pid, &status, 0, &used) < 0)
        if (errno != EINTR)
            return told(EXIT_BUG, "wait4: %s", strerror(errno));
    return judge(status, &used, FINISHED, work, limits);
}

/* ---- output files as results ----------------------------------------------------- */

typedef struct Files {
    int (*work)(Gen *g);
    int64_t most; /* the limit, in bytes */
    Text text;    /* the records, in the parent */
} Files;

static void put_u64(uint64_t v)
{
    unsigned char b[8];

    for (int i = 0; i < 8; i++)
        b[i] = (unsigned char)(v >> (8 * i));
    child_put(b, sizeof b);
}

static int make_files(Gen *g, void *with)
{
    const Files *files = with;
    const int code = files->work(g);

    fflush(NULL);
    for (int i = 0; i < base_of(g)->files.count; i++) {
        const OutFile *f = &base_of(g)->files.items[i];

        put_u64(strlen(f->path));
        put_u64(f->bytes);
        child_put(f->path, strlen(f->path));
        child_put(f->data, f->bytes);
    }
    put_u64(end_mark);
    return code;
}

static bool take_files(void *with, const char *s, size_t n)
{
    Files *files = with;

    if ((int64_t)(files->text.len + n) > files->most) {
        told(EXIT_DIAG, "the generator was stopped: its output is larger than %lld MiB",
             (long long)(files->most >> 20));
        return false;
    }
    text_add(&files->text, s, n);
    return true;
}

static bool get_u64(const Text *t, size_t *at, uint64_t *v)
{
    *v = 0;
    if (t->len - *at < 8)
        return false;
    for (int i = 0; i < 8; i++)
        *v |= (uint64_t)(unsigned char)t->s[*at + (size_t)i] << (8 * i);
    *at += 8;
    return true;
}

/* Splits the stream into records; false if it is incomplete. */
static bool unpack(Gen *g, const Text *t)
{
    size_t at = 0;

    for (;;) {
        uint64_t path, data;
        OutFile *f;

        if (!get_u64(t, &at, &path))
            return false;
        if (path == end_mark)
            return at == t->len;
        if (!get_u64(t, &at, &data) || path > MAX_PATH_BYTES || path > t->len - at ||
            data > t->len - at - path)
            return false;
        f = gen_push(g, &base_of(g)->files);
        f->path = gen_strndup(g, t->s + at, path);
        f->data = t->s + at + path;
        f->bytes = data;
        at += path + data;
    }
}

int child_run(Gen *g, const Limits *limits, int (*work)(Gen *g))
{
    Files files = {.work = work, .most = limits->output_bytes, .text = {.g = g}};
    const ChildWork w = {.what = "the generator",
                         .cause = "is there a loop in the description?",
                         .with = &files,
                         .work = make_files,
                         .take = take_files};
    const int code = child_stream(g, limits, &w);

    if (code == EXIT_DONE && !unpack(g, &files.text))
        return told(EXIT_BUG, "the generator ended without its results");
    if (code != EXIT_DONE && (code != EXIT_FIT || !unpack(g, &files.text)))
        base_of(g)->files.count = 0;
    return code;
}
