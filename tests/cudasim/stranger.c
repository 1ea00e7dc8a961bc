/* SPDX-License-Identifier: Apache-2.0 */
/* stranger WHAT ARGS...: what else may happen at the port where a job's machines meet.
 *
 *   idle PORT N          N connections that say nothing; one that is closed comes again
 *   slow PORT N          the same, and each says a greeting's bytes, one in 100 ms
 *   garbage PORT N       the same, and each says random bytes at once
 *   echo PORT            listens there, and says what it hears
 *   relay PORT TO FILE   listens there and carries one connection to TO; FILE has what
 * its visitor said, in pieces: a length in four bytes, bytes replay PORT FILE     says
 * that again, a piece for each answer, and prints how many bytes came back
 *
 * All are of 127.0.0.1 and go on until they are killed, but for replay. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 2000, SLOW_MS = 100 };
static const char greeting[] = "fsdpmet2 and then a nonce of thirty-two letters";

static _Noreturn void fail(const char *what)
{
    perror(what);
    exit(1);
}

static struct sockaddr_in at(const char *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)atoi(port))};

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

static int come(const char *port)
{
    const struct sockaddr_in a = at(port);
    const int s = socket(AF_INET, SOCK_STREAM, 0);

    if (s >= 0 && connect(s, (const struct sockaddr *)&a, sizeof a) == 0)
        return s;
    if (s >= 0)
        close(s);
    return -1;
}

static int listen_at(const char *port)
{
    const struct sockaddr_in a = at(port);
    const int yes = 1, s = socket(AF_INET, SOCK_STREAM, 0);

    if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) ||
        bind(s, (const struct sockaddr *)&a, sizeof a) || listen(s, 64))
        fail("listen");
    printf("ready\n");
    fflush(stdout);
    return s;
}

/* ---- many that only take room ---------------------------------------------------- */

static void say(int s, const char *what, int *said)
{
    char bytes[200];

    if (!strcmp(what, "slow") && *said < (int)sizeof greeting) {
        send(s, greeting + (*said)++, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    } else if (!strcmp(what, "garbage") && *said == 0) {
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)random();
        send(s, bytes, 1 + (size_t)random() % sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        *said = 1;
    }
}

static _Noreturn void crowd(const char *what, const char *port, int n)
{
    static struct pollfd p[MOST];
    static int said[MOST];
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
        l.rlim_cur = l.rlim_max;
        setrlimit(RLIMIT_NOFILE, &l);
    }
    for (int i = 0; i < n; i++)
        p[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    for (bool ready = false;;) {
        for (int i = 0; i < n; i++) {
            if (p[i].fd < 0) {
                p[i].fd = come(port);
                said[i] = 0;
            }
            say(p[i].fd, what, &said[i]);
        }
        if (!ready)
            printf("ready\n");
        fflush(stdout);
        ready = true;
        poll(p, (nfds_t)n, SLOW_MS);
        for (int i = 0; i < n; i++) {
            char byte[256];

            if (p[i].fd >= 0 && p[i].revents &&
                recv(p[i].fd, byte, sizeof byte, 0) <= 0) {
                close(p[i].fd);
                p[i].fd = -1;
            }
        }
    }
}

/* ---- those in the middle --------------------------------------------------------- */

static _Noreturn void echo(const char *port)
{
    const int door = listen_at(port);

    for (;;) {
        char bytes[4096];
        ssize_t n;
        const int s = accept(door, NULL, NULL);

        while (s >= 0 && (n = recv(s, bytes, sizeof bytes, 0)) > 0)
            send(s, bytes, (size_t)n, MSG_NOSIGNAL);
        close(s);
    }
}

static bool carry(int from, int to, FILE *log)
{
    char bytes[65536];
    const ssize_t n = recv(from, bytes, sizeof bytes, 0);
    const uint32_t length = (uint32_t)(n > 0 ? n : 0);

    if (n <= 0)
        return false;
    if (log) {
        fwrite(&length, sizeof length, 1, log);
        fwrite(bytes, 1, length, log);
        fflush(log);
    }
    return send(to, bytes, length, MSG_NOSIGNAL) == n;
}

static void relay(const char *port, const char *target, const char *path)
{
    const int door = listen_at(port), visitor = accept(door, NULL, NULL);
    FILE *log = fopen(path, "wb");
    int host;
    bool open = true;

    close(door);
    while ((host = come(target)) < 0)
        usleep(50000);
    while (open) {
        struct pollfd p[2] = {{.fd = visitor, .events = POLLIN},
                              {.fd = host, .events = POLLIN}};

        if (poll(p, 2, -1) < 0 && errno != EINTR)
            fail("poll");
        if (p[0].revents)
            open = carry(visitor, host, log);
        if (open && p[1].revents)
            open = carry(host, visitor, NULL);
    }
    fclose(log);
}

/* The first pieces are a greeting's: each is answered. */
static void replay(const char *port, const char *path)
{
    FILE *log = fopen(path, "rb");
    const int s = come(port);
    uint32_t length;
    char bytes[65536];
    long came = 0;

    if (!log || s < 0)
        fail(path);
    for (int i = 0; i < 8 && fread(&length, sizeof length, 1, log) == 1; i++) {
        struct pollfd p = {.fd = s, .events = POLLIN};
        ssize_t n;

        if (length > sizeof bytes || fread(bytes, 1, length, log) != length)
            fail(path);
        if (send(s, bytes, length, MSG_NOSIGNAL) < 0 || poll(&p, 1, 1000) < 0)
            break;
        if (p.revents && (n = recv(s, bytes, sizeof bytes, 0)) <= 0)
            break;
        else if (p.revents)
            came += n;
    }
    printf("%ld bytes came back\n", came);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";

    srandom(7);
    if (argc == 4 &&
        (!strcmp(what, "idle") || !strcmp(what, "slow") || !strcmp(what, "garbage")) &&
        atoi(argv[3]) <= MOST)
        crowd(what, argv[2], atoi(argv[3]));
    else if (argc == 3 && !strcmp(what, "echo"))
        echo(argv[2]);
    else if (argc == 5 && !strcmp(what, "relay"))
        relay(argv[2], argv[3], argv[4]);
    else if (argc == 4 && !strcmp(what, "replay"))
        replay(argv[2], argv[3]);
    else
        return fprintf(stderr, "usage: see the head of stranger.c\n"), 2;
    return 0;
}
