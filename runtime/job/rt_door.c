/* SPDX-License-Identifier: MIT-0 */
/* rt_door.c: a process that listens for others of its job. In: listening sockets, the
 * job's secret. Out: one after the other, visitors that know the secret, each with its
 * first message.
 *
 * Anyone can connect, so strangers must not block a job: no call waits for a single
 * visitor, each has a short time for its whole greeting, and when all rooms are taken,
 * the oldest visitor that has not proved anything is turned away. A trainer that is
 * turned away tries again. */
#define _GNU_SOURCE
#include "job/rt_door.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ACCEPTS per turn: few enough that each visitor is heard several times before newer ones
 * can fill all rooms. */
enum { GREETING_MS = 5000, ACCEPTS = 16 };

void rt_door_begin(RtDoor *d, const RtSecret *secret, const char *name,
                   size_t hello_bytes)
{
    memset(d, 0, offsetof(RtDoor, room)); /* rooms are large: not touched before use */
    d->secret = secret;
    d->name = name;
    d->hello_bytes = hello_bytes;
    for (int i = 0; i < RT_VISITORS; i++)
        d->order[i] = i;
}

static RtVisitor *visitor(RtDoor *d, int i)
{
    return &d->room[d->order[i]];
}

static void turn_away(RtVisitor *v, int64_t *count)
{
    close(v->socket);
    v->socket = -1;
    ++*count;
}

/* Keeps the others' order. */
static void forget_gone(RtDoor *d)
{
    int gone[RT_VISITORS], n = 0, kept = 0;
    for (int i = 0; i < d->visitors; i++) {
        const int room = d->order[i];
        if (d->room[room].socket < 0)
            gone[n++] = room;
        else
            d->order[kept++] = room;
    }
    memcpy(d->order + kept, gone, (size_t)n * sizeof *gone);
    d->visitors = kept;
}

/* Frees the room of the oldest unproved visitor, or else of the oldest. False: all rooms
 * are free. */
static bool make_room(RtDoor *d)
{
    int first = 0;
    while (first < d->visitors && visitor(d, first)->proved)
        first++;
    if (d->visitors > 0) {
        turn_away(visitor(d, first < d->visitors ? first : 0), &d->turned_away);
        forget_gone(d);
        return true;
    }
    return false;
}

static void begin(RtDoor *d, int s)
{
    if (d->visitors == RT_VISITORS)
        make_room(d);
    RtVisitor *v = visitor(d, d->visitors);
    v->socket = s;
    v->until_ns = rt_clock_ns() + GREETING_MS * INT64_C(1000000);
    v->proved = false;
    v->bytes = 0;
    if (rt_greet_begin(&v->greeting, d->secret, d->name, true))
        d->visitors++;
    else
        close(s);
}

/* Admits waiting connections. When descriptors run out, a visitor is turned away for the
 * next one; without a visitor, the next turn tries again. Other errors belong to
 * connections that have ended. */
static void let_in(RtDoor *d, int listener)
{
    for (int i = 0; i < ACCEPTS; i++) {
        const int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (s < 0) {
            const bool full =
                errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
            if (full && !make_room(d))
                rt_nap(10);
            return;
        }
        if (d->admits != NULL && !d->admits(s)) {
            close(s);
            d->turned_away++;
        } else {
            begin(d, s);
        }
    }
}

/* Reads more of a greeting. Sending does not block, because the connection's buffer is
 * empty. */
static void hear_greeting(RtDoor *d, RtVisitor *v, const void *bytes, size_t n)
{
    const RtGreet how = rt_greet_hear(&v->greeting, bytes, n);
    const size_t out = v->greeting.out_bytes;
    if (how == RT_GREET_NO_SECRET) {
        if (d->unproved == 0) {
            rt_say("trainer: warning: a connection to where the %s meet does not know "
                   "the job's secret; it is turned away",
                   d->name);
        }
        turn_away(v, &d->unproved);
    } else if (how == RT_GREET_NO_WORDS ||
               (out > 0 && send(v->socket, v->greeting.out, out,
                                MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)out)) {
        turn_away(v, &d->turned_away);
    } else {
        v->proved = how == RT_GREET_DONE;
    }
}

/* True: its hello is complete. */
static bool hear(RtDoor *d, RtVisitor *v)
{
    const size_t wants = v->proved ? rt_sealed_bytes(d->hello_bytes) - v->bytes
                                   : rt_greet_wants(&v->greeting);
    const ssize_t n = recv(v->socket, v->record + v->bytes, wants, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return false;
    if (n <= 0) {
        turn_away(v, &d->turned_away);
        return false;
    }
    if (!v->proved) {
        hear_greeting(d, v, v->record, (size_t)n);
        return false;
    }
    v->bytes += (size_t)n;
    if ((size_t)n < wants)
        return false;
    if (!rt_unseal(&v->greeting.theirs, v->record, d->hello_bytes)) {
        turn_away(v, &d->unproved);
        return false;
    }
    return true;
}

/* Stops at the first visitor that has said hello, which then belongs to the caller. */
static bool hear_all(RtDoor *d, const struct pollfd *p, int visitors, RtVisitor *guest)
{
    bool found = false;
    for (int i = 0; i < visitors && !found; i++) {
        RtVisitor *v = visitor(d, i);
        if (p[i].revents != 0 && hear(d, v)) {
            *guest = *v;
            v->socket = -1;
            found = true;
        } else if (v->socket >= 0 && rt_clock_ns() > v->until_ns) {
            turn_away(v, &d->turned_away);
        }
    }
    forget_gone(d);
    return found;
}

bool rt_door_wait(RtDoor *d, int ms, RtVisitor *guest)
{
    struct pollfd p[RT_DOOR_SOCKETS + RT_VISITORS];
    const int visitors = d->visitors;
    struct pollfd *listeners = p + visitors;
    for (int i = 0; i < visitors; i++)
        p[i] = (struct pollfd){.fd = visitor(d, i)->socket, .events = POLLIN};
    for (int i = 0; i < d->listeners; i++)
        listeners[i] = (struct pollfd){.fd = d->listener[i], .events = POLLIN};
    if (poll(p, (nfds_t)(visitors + d->listeners), ms) < 0) {
        rt_nap(10); /* a signal, or temporarily out of memory */
        return false;
    }
    const bool found = hear_all(d, p, visitors, guest);
    for (int i = 0; i < d->listeners; i++)
        if (listeners[i].revents != 0)
            let_in(d, d->listener[i]);
    return found;
}

void rt_door_strangers(const RtDoor *d, char *text, size_t bytes)
{
    text[0] = '\0';
    if (d->unproved > 0) {
        snprintf(text, bytes, "; %lld connection%s did not know the job's secret",
                 (long long)d->unproved, d->unproved == 1 ? "" : "s");
    }
    if (d->turned_away > 0) {
        const size_t n = strlen(text);
        snprintf(text + n, bytes - n, "; %lld sent no greeting in time",
                 (long long)d->turned_away);
    }
}

void rt_door_close(RtDoor *d)
{
    for (int i = 0; i < d->listeners; i++)
        close(d->listener[i]);
    for (int i = 0; i < d->visitors; i++)
        close(visitor(d, i)->socket);
    d->listeners = d->visitors = 0;
}

bool rt_has_left(int socket)
{
    char byte;
    const ssize_t n = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n >= 0 || (errno != EAGAIN && errno != EINTR);
}
