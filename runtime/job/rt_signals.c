/* SPDX-License-Identifier: MIT-0 */
/* rt_signals.c: which signals ask a job to end. In: what the caller has them do. Out:
 * their numbers; until ranks are watched (rt_watch.c), an end.
 *
 * With --checkpoint the job saves then, without it ends; either is better than to die of
 * a signal that a scheduler, a timer or a person sent. So all whose default is to end a
 * process ask, but for these: SIGKILL cannot be caught; SIGQUIT (Ctrl-\) is the way to
 * end at once; ILL, TRAP, ABRT, BUS, FPE, SEGV, SYS and STKFLT mean a fault of the
 * program; PIPE and XFSZ are errors of a write. Timers outlive exec: ALRM, VTALRM and
 * PROF are somebody's limit, as XCPU is.
 *
 * A signal that the caller ignores stays ignored: nohup does so with SIGHUP, a shell with
 * SIGINT where it starts something in the background. One that has a handler already is a
 * tool's, such as a profiler's. */
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
    static int asking[RT_MAX_SIGNALS], n = -1; /* as they were when the process began */
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

/* Nothing is computed yet: what is on the disk is all there is. */
static void end_early(int n)
{
    static const char text[] =
        "trainer: a signal came before the first step: run it again with --resume\n";
    (void)n;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) {
        /* it has nowhere to say so */
    }
    _exit(RT_EXIT_AGAIN);
}

void rt_signals_early(void)
{
    const struct sigaction end = {.sa_handler = end_early};
    int numbers[RT_MAX_SIGNALS];
    const int n = rt_signals_asking(numbers);
    for (int i = 0; i < n; i++)
        sigaction(numbers[i], &end, NULL);
}
