/* SPDX-License-Identifier: MIT-0 */
/* rt_stdout.c: lines for people. In: what was printed to stdout. Out: the lines there;
 * or, if stdout is a closed pipe, on a full disk or a stalled terminal, one warning on
 * stderr, because no line is worth a run that has computed for days.
 *
 * stdout is fully buffered and sent only by rt_stdout_flush, which first checks whether
 * it would block. While nothing reads, lines are dropped, not kept. */
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

/* Ten seconds are enough for a slow reader; one that returns later sees the lines from
 * then on. */
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
        rt_save_moves(rt); /* tells the page that this rank is not stuck */
    }
    stuck = false;
    return true;
}

/* In place of the redrawn line, which is drawn again below them. */
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

bool rt_stdout_send(Rt *rt)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    int n;
    while ((n = poll(&p, 1, LOOK_MS)) == 0 || (n < 0 && errno == EINTR))
        rt_save_moves(rt); /* tells the page that this rank is not stuck */
    return !ferror(stdout) && fflush(stdout) == 0;
}

int rt_stdout_close(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    rt_say("trainer: error: stdout cannot be written: %s", strerror(errno));
    return RT_EXIT_ERROR;
}
