/* SPDX-License-Identifier: MIT-0 */
/* rt_stdout.c: lines for a person. In: what was printed to stdout. Out: there, or, where
 * that is a closed pipe, a full disk or a terminal that stands still, one warning on
 * stderr: no line is worth a run that has computed for days.
 *
 * stdout is buffered whole and sent off by rt_stdout_flush only, which first looks
 * whether it would have to wait. While nobody reads, lines are dropped, not kept. */
#include "job/rt_out.h"

#include <errno.h>
#include <poll.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 16, LOOK_MS = 100, LOOKS = 100 };

static _Atomic bool told, stuck;

void rt_stdout_begin(void)
{
    static char buffer[BUFFER_BYTES];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
}

/* Ten seconds are enough for a reader that is slow; one that comes back later finds the
 * lines from then on. */
static bool takes_lines(Rt *rt)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    for (int i = 0, n; (n = poll(&p, 1, 0)) == 0 || (n < 0 && errno == EINTR); i++) {
        if (stuck || i == LOOKS) {
            stuck = true;
            errno = ETIMEDOUT;
            return false;
        }
        poll(&p, 1, LOOK_MS);
        rt_save_moves(rt); /* this rank does not stand still, says the page */
    }
    stuck = false;
    return true;
}

/* In the place of the line that is redrawn, which comes again below them. */
static bool send_lines(Rt *rt)
{
    RtLive *live = &rt->state->shared->live;
    const bool held = atomic_load(&live->on) && rt_live_hold(live);
    const char *erases = held ? rt_say_erases(STDOUT_FILENO) : "";
    bool sent = *erases == '\0' ||
                write(STDOUT_FILENO, erases, strlen(erases)) == (ssize_t)strlen(erases);
    sent = sent && !ferror(stdout) && fflush(stdout) == 0;
    if (held)
        rt_live_release(live);
    return sent;
}

bool rt_stdout_flush(Rt *rt)
{
    errno = 0;
    if (takes_lines(rt) && send_lines(rt))
        return true;
    const int reason = errno != 0 ? errno : EIO;
    flockfile(stdout);
    __fpurge(stdout);
    clearerr(stdout);
    funlockfile(stdout);
    if (!atomic_exchange(&told, true)) {
        rt_say("trainer: warning: stdout cannot be written: %s: training goes on, lines "
               "are left out",
               reason == ETIMEDOUT ? "its reader has stopped reading" : strerror(reason));
    }
    errno = reason;
    return false;
}

void rt_stdout_result(Rt *rt, const char *text)
{
    printf("%s\n", text);
    if (!rt_stdout_flush(rt)) {
        rt_fail(rt, RT_EXIT_ERROR, "stdout cannot be written: %s: `%s` is lost there",
                strerror(errno), text);
    }
}

int rt_stdout_close(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    rt_say("trainer: error: stdout cannot be written: %s", strerror(errno));
    return RT_EXIT_ERROR;
}
