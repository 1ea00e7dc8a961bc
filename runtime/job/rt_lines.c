/* SPDX-License-Identifier: MIT-0 */
/* rt_lines.c: what goes into a pipe, a terminal or another device. In: the lines of
 * --log, each sent by one fflush; files written in one go. Out: the same there, each line
 * whole or left out.
 *
 * A run that has computed for days does not wait for a reader that has stopped reading: a
 * line waits for ten seconds, and from then on lines are left out until one is accepted
 * again. A line of which a part was sent is completed before the next one. */
#define _GNU_SOURCE
#include "job/rt_out.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS = 10, LOOKS = 1000 };

typedef struct Held {
    char *text;
    size_t bytes, room;
} Held;

struct RtLines {
    Rt *rt;
    const char *path;
    int fd;
    bool stuck; /* its reader has stopped reading */
    int64_t left_out;
    Held line; /* stdio sends a long one in parts */
    Held rest; /* of the line that was begun */
};

ssize_t rt_stream_send(Rt *rt, int fd, const char *text, size_t bytes, bool waits)
{
    size_t sent = 0;
    for (int looks = 0; sent < bytes;) {
        const ssize_t n = write(fd, text + sent, bytes - sent);
        if (n > 0) {
            sent += (size_t)n;
            looks = 0;
        } else if (n == 0 || errno == EAGAIN) {
            if (!waits || looks++ == LOOKS)
                break;
            poll(NULL, 0, LOOK_MS);
            rt_save_moves(rt); /* tells the page that this rank is not stuck */
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return (ssize_t)sent;
}

/* ---- one line -------------------------------------------------------------------- */

static void say_stuck(RtLines *l)
{
    if (!l->stuck) {
        rt_say("trainer: warning: --log %.500s: its reader has stopped reading: training "
               "goes on, lines are left out",
               l->path);
    }
    l->stuck = true;
}

/* Leaves what was not sent; false with errno. */
static bool send_held(RtLines *l, Held *h)
{
    const ssize_t sent = rt_stream_send(l->rt, l->fd, h->text, h->bytes, !l->stuck);
    if (sent < 0)
        return false;
    h->bytes -= (size_t)sent;
    memmove(h->text, h->text + sent, h->bytes);
    if (h->bytes > 0)
        say_stuck(l);
    return true;
}

/* The line is whole: sends it, keeps its rest, or leaves it out; false with errno. */
static bool send_line(RtLines *l)
{
    const size_t bytes = l->line.bytes;
    if (l->rest.bytes > 0 && !send_held(l, &l->rest))
        return false;
    if (l->rest.bytes == 0 && !send_held(l, &l->line))
        return false;
    if (l->rest.bytes > 0 || l->line.bytes == bytes) { /* it was not begun */
        l->left_out++;
    } else if (l->line.bytes > 0) {
        const Held rest = l->line;
        l->line = l->rest;
        l->rest = rest;
    } else {
        l->stuck = false;
    }
    l->line.bytes = 0;
    return true;
}

static bool hold(Held *h, const char *text, size_t bytes)
{
    if (h->room - h->bytes < bytes) {
        const size_t room = 2 * (h->bytes + bytes);
        char *more = realloc(h->text, room);
        if (more == NULL)
            return false;
        h->text = more;
        h->room = room;
    }
    memcpy(h->text + h->bytes, text, bytes);
    h->bytes += bytes;
    return true;
}

/* ---- the stream ------------------------------------------------------------------ */

/* For stdio: takes all, or returns 0 with errno. */
static ssize_t put(void *lines, const char *text, size_t bytes)
{
    RtLines *l = lines;
    if (bytes == 0)
        return 0;
    if (hold(&l->line, text, bytes) && (text[bytes - 1] != '\n' || send_line(l)))
        return (ssize_t)bytes;
    l->line.bytes = 0; /* stdio may send it again */
    return 0;
}

static int close_lines(void *lines)
{
    RtLines *l = lines;
    const bool sent = l->rest.bytes == 0 || send_held(l, &l->rest);
    const int reason = errno;
    const bool closed = close(l->fd) == 0;
    if (!sent)
        errno = reason;
    return sent && closed ? 0 : -1;
}

FILE *rt_lines_open(Rt *rt, const char *path, RtLines **lines)
{
    const cookie_io_functions_t calls = {.write = put, .close = close_lines};
    RtLines *l = calloc(1, sizeof *l);
    const int fd = l != NULL ? rt_output_open(path) : -1;
    FILE *f = fd >= 0 ? fopencookie(l, "w", calls) : NULL;
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
    *lines = l;
    return f;
}

int64_t rt_lines_end(RtLines *l)
{
    const int64_t left_out = l->left_out + (l->rest.bytes > 0);
    free(l->line.text);
    free(l->rest.text);
    free(l);
    return left_out;
}
