/* SPDX-License-Identifier: Apache-2.0 */
/* child.c: the generator works in a child process, since what it reads comes from
 * strangers. In: a function. Out: its exit code, its prints, its output files, and for
 * a child that was killed, crashed or ran out of something, a message that says which.
 * The child cannot write a file (its limit is 0 bytes), outlive the parent, or take
 * more than its limits.
 *
 * Three pipes: stdout, stderr, and results as records of two little-endian lengths, a
 * path and a content, closed by a record of a length no path has; a child that dies
 * early cannot look like one that finished. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pipe2, strsignal */
#endif
#include "child.h"

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

/* ---- in the child ------------------------------------------------------------------ */

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

    setrlimit(RLIMIT_CPU, &cpu); /* SIGXCPU first, so that we can say what happened */
    if (!SANITIZED)
        limit(RLIMIT_AS, l->memory_bytes);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_NOFILE, MAX_OPEN_FILES);
    limit(RLIMIT_CORE, 0);
#ifdef __linux__
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#endif
}

static void put(int fd, const void *data, size_t n)
{
    const char *p = data;

    while (n) {
        ssize_t sent = write(fd, p, n);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            _exit(EXIT_BUG); /* the parent is gone */
        p += sent;
        n -= (size_t)sent;
    }
}

static void put_u64(int fd, uint64_t v)
{
    unsigned char b[8];

    for (int i = 0; i < 8; i++)
        b[i] = (unsigned char)(v >> (8 * i));
    put(fd, b, sizeof b);
}

static _Noreturn void run_child(Gen *g, const Limits *limits, int (*work)(Gen *),
                                int fds[], pid_t parent)
{
    int code;

#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) /* it died before we asked */
        _exit(EXIT_BUG);
    if (dup2(fds[OUT], STDOUT_FILENO) < 0 || dup2(fds[ERR], STDERR_FILENO) < 0)
        _exit(EXIT_BUG);
    close(fds[OUT]);
    close(fds[ERR]);
    apply_limits(limits);
    code = work(g);
    fflush(NULL);
    for (int i = 0; i < g->files.count; i++) {
        const OutFile *f = &g->files.items[i];

        put_u64(fds[RESULT], strlen(f->path));
        put_u64(fds[RESULT], f->bytes);
        put(fds[RESULT], f->path, strlen(f->path));
        put(fds[RESULT], f->data, f->bytes);
    }
    put_u64(fds[RESULT], end_mark);
    exit(code);
}

/* ---- in the parent ----------------------------------------------------------------- */

typedef struct Stream {
    int fd;    /* -1: at its end */
    Text text; /* of RESULT */
    int64_t bytes;
} Stream;

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads what one pipe has; false when the child printed more than it may. */
static bool drain(Stream *s, int which, int64_t most)
{
    static char buffer[65536];
    ssize_t n = read(s->fd, buffer, sizeof buffer);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n <= 0) {
        close(s->fd);
        s->fd = -1;
        return true;
    }
    s->bytes += n;
    if (s->bytes > most)
        return false;
    if (which == RESULT)
        text_add(&s->text, buffer, (size_t)n);
    else
        fwrite(buffer, 1, (size_t)n, which == OUT ? stdout : stderr);
    return true;
}

typedef enum { FINISHED, TOO_LONG, TOO_MUCH } Outcome;

static Outcome relay(Stream *streams, const Limits *l)
{
    int64_t deadline = now_ms() + l->wall_seconds * 1000;

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
            if (streams[i].fd >= 0 && (p[i].revents & (POLLIN | POLLHUP | POLLERR)) &&
                !drain(&streams[i], i, l->output_bytes))
                return TOO_MUCH;
    }
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

/* Takes the records apart; false if they are not whole. */
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
        f = gen_push(g, &g->files);
        f->path = gen_strndup(g, t->s + at, path);
        f->data = t->s + at + path;
        f->bytes = data;
        at += path + data;
    }
}

static int told(int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fprintf(stderr, "fsdpgen: %s: ", code == EXIT_BUG ? "bug" : "error");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    return code;
}

static int judge(Gen *g, int status, const struct rusage *used, Outcome outcome,
                 const Text *result, const Limits *l)
{
    int code, signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

    if (outcome == TOO_LONG)
        return told(EXIT_DIAG,
                    "the generator was stopped after %lld seconds; is there a loop in "
                    "the description?",
                    (long long)l->wall_seconds);
    if (outcome == TOO_MUCH)
        return told(EXIT_DIAG,
                    "the generator was stopped: its output is larger than %lld MiB",
                    (long long)(l->output_bytes >> 20));
    if (signal == SIGXCPU ||
        (signal == SIGKILL &&
         used->ru_utime.tv_sec + used->ru_stime.tv_sec >= l->cpu_seconds))
        return told(EXIT_DIAG,
                    "the generator was stopped after %lld seconds of processor time; "
                    "is there a loop in the description?",
                    (long long)l->cpu_seconds);
    if (signal == SIGKILL)
        return told(EXIT_BUG, "the generator was killed from outside (out of memory?)");
    if (signal)
        return told(EXIT_BUG,
                    "the generator died of signal %d (%s); please report it with the "
                    "description",
                    signal, strsignal(signal));
    code = WEXITSTATUS(status);
    if (code == EXIT_DONE && !unpack(g, result))
        return told(EXIT_BUG, "the generator ended without its results");
    if (code != EXIT_DONE)
        g->files.count = 0;
    return code;
}

int child_run(Gen *g, const Limits *limits, int (*work)(Gen *g))
{
    Stream streams[N_PIPES] = {0};
    int fds[N_PIPES][2], child_fds[N_PIPES], status = 0;
    pid_t parent = getpid(), pid;
    struct rusage used;
    Outcome outcome;

    fflush(NULL); /* or the child would print it again */
    for (int i = 0; i < N_PIPES; i++) {
        if (pipe2(fds[i], O_CLOEXEC) != 0)
            return told(EXIT_BUG, "cannot make a pipe: %s", strerror(errno));
        child_fds[i] = fds[i][1];
    }
    pid = fork();
    if (pid < 0)
        return told(EXIT_BUG, "cannot start a process: %s", strerror(errno));
    if (pid == 0) {
        for (int i = 0; i < N_PIPES; i++)
            close(fds[i][0]);
        run_child(g, limits, work, child_fds, parent);
    }
    for (int i = 0; i < N_PIPES; i++) {
        close(fds[i][1]);
        streams[i].fd = fds[i][0];
        streams[i].text.g = g;
    }
    outcome = relay(streams, limits);
    if (outcome != FINISHED)
        kill(pid, SIGKILL);
    for (int i = 0; i < N_PIPES; i++)
        if (streams[i].fd >= 0)
            close(streams[i].fd);
    while (wait4(pid, &status, 0, &used) < 0)
        if (errno != EINTR)
            return told(EXIT_BUG, "wait4: %s", strerror(errno));
    fflush(NULL);
    return judge(g, status, &used, outcome, &streams[RESULT].text, limits);
}
