/* SPDX-License-Identifier: MIT-0 */
/* rt_lines.c: the lines of --log in a pipe, on a terminal or another device. In: lines,
 * each sent by one fflush. Out: the lines there, each one whole or left out.
 *
 * A run that has computed for days does not wait for a reader that has stopped reading: a
 * line waits for ten seconds, and from then on lines are left out until one is accepted
 * again. A line of which a part was sent is completed before the next one. */
#define _GNU_SOURCE
#include "job/rt_out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* BUFFER_BYTES: more than any line, or stdio would send it in parts. */
enum { BUFFER_BYTES = 1 << 18, LOOK_MS = 10, LOOKS = 1000 };

struct RtLines {
    Rt *rt;
    const char *path;
    int fd;
    bool stuck; /* its reader has stopped reading */
    int64_t left_out;
    size_t rest_bytes; /* of the line that was begun */
    char rest[BUFFER_BYTES], buffer[BUFFER_BYTES];
};

static void say_stuck(RtLines *l)
{
    if (!l->stuck) {
        rt_say("trainer: warning: --log %.500s: its reader has stopped reading: training "
               "goes on, lines are left out",
               l->path);
    }
    l->stuck = true;
}

/* How many bytes the reader accepted; -1 with errno. */
static ssize_t send_bytes(RtLines *l, const char *text, size_t bytes)
{
    size_t sent = 0;
    for (int looks = 0; sent < bytes;) {
        const ssize_t n = write(l->fd, text + sent, bytes - sent);
        if (n > 0) {
            sent += (size_t)n;
            looks = 0;
        } else if (n == 0 || errno == EAGAIN) {
            if (l->stuck || looks++ == LOOKS) {
                say_stuck(l);
                break;
            }
            poll(NULL, 0, LOOK_MS);
            rt_save_moves(l->rt); /* tells the page that this rank is not stuck */
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return (ssize_t)sent;
}

/* Keeps what is left of the text; true: nothing is. */
static bool send_or_keep(RtLines *l, const char *text, size_t bytes, ssize_t *sent)
{
    *sent = send_bytes(l, text, bytes);
    if (*sent < 0)
        return false;
    l->rest_bytes = bytes - (size_t)*sent;
    memmove(l->rest, text + *sent, l->rest_bytes);
    return l->rest_bytes == 0;
}

/* For stdio: takes the whole line, or returns 0 with errno. */
static ssize_t put_line(void *lines, const char *line, size_t bytes)
{
    RtLines *l = lines;
    ssize_t sent = 0;
    if (l->rest_bytes > 0 && !send_or_keep(l, l->rest, l->rest_bytes, &sent)) {
        l->left_out += sent >= 0;
        return sent < 0 ? 0 : (ssize_t)bytes;
    }
    if (!send_or_keep(l, line, bytes, &sent)) {
        if (sent < 0)
            return 0;
        if (sent == 0) { /* it was not begun */
            l->rest_bytes = 0;
            l->left_out++;
        }
        return (ssize_t)bytes;
    }
    l->stuck = false;
    return (ssize_t)bytes;
}

static int close_lines(void *lines)
{
    return close(((RtLines *)lines)->fd);
}

/* Unlike stdout's, its flags are not shared with other programs, because it was opened
 * here. */
FILE *rt_lines_open(Rt *rt, const char *path, RtLines **lines)
{
    const cookie_io_functions_t calls = {.write = put_line, .close = close_lines};
    RtLines *l = calloc(1, sizeof *l);
    const int fd = rt_output_open(path);
    const int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;
    FILE *f = NULL;
    if (l != NULL && flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0)
        f = fopencookie(l, "w", calls);
    if (f == NULL) {
        const int reason = errno;
        free(l);
        if (fd >= 0)
            close(fd);
        errno = reason;
        return NULL;
    }
    l->rt = rt;
    l->path = path;
    l->fd = fd;
    setvbuf(f, l->buffer, _IOFBF, sizeof l->buffer);
    *lines = l;
    return f;
}

int64_t rt_lines_end(RtLines *l)
{
    const int64_t left_out = l->left_out + (l->rest_bytes > 0);
    free(l);
    return left_out;
}
