/* SPDX-License-Identifier: Apache-2.0 */
/* strangers_test.c: a door, at a Unix socket's name and at a TCP port, while strangers
 * come to it: noise, and what somebody of the job would send with bits changed, cut off,
 * said twice, or too long; and storms of connections that close at once. None is let in,
 * no descriptor is lost, and who belongs to the job gets in meanwhile. */
#define _GNU_SOURCE
#include "../../runtime/job/rt_door.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { STRANGERS = 240, HELLO = 100, MESSAGE = 4096 };
static char name[RT_NAME_LETTERS];
static struct sockaddr_in port; /* 0: the name */
static RtSecret secret = {.given = true, .key = "what the job knows"};
static _Atomic bool over, gave_up; /* the strangers; the one of the job */
static uint64_t noise = 11;

static uint64_t next(void)
{
    return rt_mix(noise++);
}

static int come(void)
{
    RtNameOwner owner;
    int s;

    if (port.sin_port == 0)
        return rt_name_connect(name, false, &owner);
    s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s >= 0 && connect(s, (struct sockaddr *)&port, sizeof port) != 0) {
        close(s);
        return -1;
    }
    return s;
}

static int64_t soon(void)
{
    return rt_clock_ns() + INT64_C(2000000000);
}

/* A message of n bytes, as a stranger says it: at least one bit, or its length, is other.
 */
static void say(int s, const unsigned char *message, size_t n)
{
    unsigned char said[MESSAGE];
    size_t bytes = n;

    memcpy(said, message, n);
    switch (next() % 4) {
    case 0:
        said[next() % n] ^= (unsigned char)(1 << next() % 8);
        break;
    case 1:
        bytes = next() % n;
        break;
    case 2:
        said[next() % n] ^= 1;
        memcpy(said + n, said, n);
        bytes = 2 * n;
        break;
    default:
        for (size_t i = 0; i < MESSAGE; i++)
            said[i] = (unsigned char)next();
        bytes = 1 + next() % (MESSAGE - 1);
    }
    if (send(s, said, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        /* it was turned away before */
    }
}

/* Greets as one of the job does, and goes wrong at message `until`; 2: at its hello. */
static void greet_until(int s, int until)
{
    unsigned char hello[RT_SEAL_HEAD + HELLO + RT_DIGEST_BYTES] = {0}, heard[256];
    RtGreeting g;
    size_t n;

    if (!rt_greet_begin(&g, &secret, "ranks", false))
        return;
    for (int k = 0; k < 2; k++) {
        if (k == until) {
            say(s, g.out, g.out_bytes);
            return;
        }
        if (!rt_send(s, g.out, g.out_bytes, soon()))
            return;
        do {
            n = rt_greet_wants(&g);
            if (!rt_receive(s, heard, n, soon()))
                return;
        } while (rt_greet_hear(&g, heard, n) == RT_GREET_MORE && g.out_bytes == 0);
    }
    rt_seal(&g.ours, hello, HELLO);
    say(s, hello, sizeof hello);
}

static void *strangers(void *unused)
{
    (void)unused;
    for (int i = 0; i < STRANGERS; i++) {
        const int s = come(), kind = i % 4;

        if (s < 0)
            continue;
        if (kind < 3)
            greet_until(s, kind);
        close(s); /* 3: at once */
    }
    over = true;
    return NULL;
}

static void *friend(void *unused)
{
    unsigned char word = 0, hello[HELLO];
    RtGreeting g;

    (void)unused;
    memset(hello, 'h', sizeof hello);
    for (int tries = 0; tries < 200 && word != 'w'; tries++) {
        const int s = come();

        if (s >= 0 && rt_greet_begin(&g, &secret, "ranks", false) &&
            rt_greet_visit(&g, s, soon()) == RT_GREET_DONE &&
            rt_send_sealed(s, &g.ours, hello, sizeof hello, soon()))
            rt_receive_sealed(s, &g.theirs, &word, 1, soon());
        if (s >= 0)
            close(s);
    }
    gave_up = word != 'w';
    return word == 'w' ? &port : NULL;
}

static int descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static void at_the_door(int listener)
{
    static RtDoor d;
    static RtVisitor guest;
    const int before = descriptors();
    pthread_t them, one;
    void *how = NULL;
    int came = 0;

    over = gave_up = false;
    rt_door_begin(&d, &secret, "ranks", HELLO);
    d.listener[0] = listener;
    d.listeners = 1;
    pthread_create(&them, NULL, strangers, NULL);
    pthread_create(&one, NULL, friend, NULL);
    while (!over || (came == 0 && !gave_up)) {
        unsigned char word = 'w';

        if (!rt_door_wait(&d, 20, &guest))
            continue;
        assert_int_equal(guest.record[RT_SEAL_HEAD], 'h'); /* no stranger's zeros */
        rt_send_sealed(guest.socket, &guest.greeting.ours, &word, 1, soon());
        close(guest.socket);
        came++;
    }
    pthread_join(them, NULL);
    pthread_join(one, &how);
    assert_int_equal(came, 1);
    assert_non_null(how);
    while (d.visitors > 0) /* they have left */
        rt_door_wait(&d, 20, &guest);
    assert_int_equal(descriptors(), before);
    assert_true(d.turned_away > 0 && d.unproved > 0);
    rt_door_close(&d);
}

static void by_name(void **state)
{
    int s;

    (void)state;
    port.sin_port = 0;
    snprintf(name, sizeof name, "strangers-test-%d", (int)getpid());
    s = rt_name_listen(name, soon());
    assert_true(s >= 0);
    at_the_door(s);
}

static void by_port(void **state)
{
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t bytes = sizeof port;

    (void)state;
    port = (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(s >= 0 && bind(s, (struct sockaddr *)&port, sizeof port) == 0 &&
                listen(s, 64) == 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&port, &bytes), 0);
    at_the_door(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_name),
                                       cmocka_unit_test(by_port)};

    return freopen("/dev/null", "w", stderr) == NULL /* warnings */
               ? 1
               : cmocka_run_group_tests(tests, NULL, NULL);
}
