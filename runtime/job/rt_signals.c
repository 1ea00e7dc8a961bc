/* SPDX-License-Identifier: MIT-0 */
/* rt_signals.c: which signals ask a job to end. In: the caller's signal dispositions.
 * Out: their numbers; until ranks are watched (rt_watch.c), an end.
 *
 * 1. With --checkpoint the job then saves, without it ends; either is better than to be
 *    killed by a signal that a scheduler, a timer or a person sent.
 * 2. So all signals whose default is to end a process are such requests, except these:
 *    SIGKILL cannot be caught; SIGQUIT (Ctrl-\) is the way to end at once; ILL, TRAP,
 *    ABRT, BUS, FPE, SEGV, SYS and STKFLT mean a fault of the program; PIPE and XFSZ are
 *    errors of a write. Timers survive exec, so ALRM, VTALRM and PROF are limits set by
 *    the caller, like XCPU.
 * 3. A signal that the caller ignores stays ignored: nohup does this with SIGHUP, a shell
 *    with SIGINT for background jobs. One with a handler belongs to a tool, such as a
 *    profiler. */
#define _GNU_SOURCE
#include "job/rt_job.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static bool is_free(int n)
{
    struct sigaction now;
    return sigaction(n, NULL, &now) == 0 && now.sa_handler == SIG_DFL;
}

int rt_signals_asking(int *numbers)
{
    static const int all[] = {SIGINT,  SIGTERM, SIGHUP,    SIGUSR1, SIGUSR2, SIGXCPU,
                              SIGALRM, SIGPROF, SIGVTALRM, SIGPWR,  SIGIO};
    static int asking[RT_MAX_SIGNALS], n = -1; /* dispositions when the process started */
    if (n < 0) {
        n = 0;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            asking[n] = all[i];
            n += is_free(all[i]);
        }
        for (int s = SIGRTMIN; s <= SIGRTMAX && n < RT_MAX_SIGNALS; s++) {
            asking[n] = s;
            n += is_free(s);
        }
    }
    memcpy(numbers, asking, (size_t)n * sizeof *numbers);
    return n;
}

/* Nothing is computed yet: everything there is, is on disk. */
static void end_early(int n)
{
    static const char text[] =
        "trainer: a signal came before the first step: run it again with --resume\n";
    (void)n;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) {
        /* There is nowhere to report it. */
    }
    _exit(RT_EXIT_AGAIN);
}

/* Those that end_early handles. */
static void change_mask(int how)
{
    struct sigaction now;
    int numbers[RT_MAX_SIGNALS];
    sigset_t set;
    const int n = rt_signals_asking(numbers);
    sigemptyset(&set);
    for (int i = 0; i < n; i++)
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler == end_early)
            sigaddset(&set, numbers[i]);
    sigprocmask(how, &set, NULL);
}

void rt_signals_early(void)
{
    const struct sigaction end = {.sa_handler = end_early};
    int numbers[RT_MAX_SIGNALS];
    const int n = rt_signals_asking(numbers);
    for (int i = 0; i < n; i++)
        sigaction(numbers[i], &end, NULL);
    change_mask(SIG_UNBLOCK);
}

void rt_signals_hold(bool hold)
{
    change_mask(hold ? SIG_BLOCK : SIG_UNBLOCK);
}
