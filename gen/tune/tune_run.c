/* SPDX-License-Identifier: Apache-2.0 */
/* tune_run.c: the programs that a measurement runs. In: argv, a folder, a log. Out: an
 * exit code. A program and what it starts are a process group, which ends with us, after
 * its time, or when we get SIGINT or SIGTERM. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw */
#endif
#include "tune/tune.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { LOOK_NS = 20000000, TICK_LOOKS = 50 /* a second */, GRACE_LOOKS = 150 };

static volatile sig_atomic_t signalled; /* its number */

static void on_signal(int signal)
{
    signalled = signal;
}

void tune_signals(void)
{
    struct sigaction a = {.sa_handler = on_signal};

    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

int tune_signalled(void)
{
    return signalled;
}

static _Noreturn void become(const char *const argv[], const char *folder,
                             const char *log, pid_t parent)
{
    const int in = open("/dev/null", O_RDONLY);
    const int out = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666);

#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (getppid() != parent || in < 0 || out < 0 || dup2(in, STDIN_FILENO) < 0 ||
        dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0 ||
        chdir(folder) != 0)
        _exit(126);
    execvp(argv[0], (char *const *)argv);
    dprintf(STDERR_FILENO, "%s: cannot be started\n", argv[0]);
    _exit(127);
}

static bool has_ended(pid_t pid, int *status)
{
    const pid_t got = waitpid(pid, status, WNOHANG);

    return got == pid || (got < 0 && errno != EINTR);
}

int tune_run(Tune *t, const char *const argv[], const char *folder, const char *log,
             int64_t seconds)
{
    const struct timespec look = {0, LOOK_NS};
    const int64_t looks = seconds * (1000000000 / LOOK_NS);
    const pid_t parent = getpid(), pid = fork();
    int64_t n = 0, asked = -1;
    int status = 0;

    if (pid < 0)
        return 126;
    if (pid == 0) {
        setpgid(0, 0);
        become(argv, folder, log, parent);
    }
    setpgid(pid, pid); /* the child does so, too: either may be first */
    for (; !has_ended(pid, &status); n++) {
        if (asked < 0 && (signalled || n >= looks)) {
            kill(-pid, SIGTERM);
            asked = n;
        }
        if (asked >= 0 && n == asked + GRACE_LOOKS)
            kill(-pid, SIGKILL);
        if (n % TICK_LOOKS == TICK_LOOKS - 1)
            tune_live_tick(t);
        nanosleep(&look, NULL);
    }
    kill(-pid, SIGKILL); /* what it started */
    if (asked >= 0)
        return -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

void tune_remove(const char *folder)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
