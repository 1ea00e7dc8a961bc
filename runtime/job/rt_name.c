/* SPDX-License-Identifier: MIT-0 */
/* rt_name.c: abstract Unix sockets, by which processes of one user find each other. In: a
 * name. Out: a socket that listens on it, or a connection to one.
 *
 * Another user can take the name first. Then the listening process appends random letters
 * to it, and the others find that longer name in the kernel's list of sockets. The kernel
 * reports the user at the other end of a connection, so strangers are recognised before
 * anything is said. */
#define _GNU_SOURCE
#include "job/rt_door.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { NAMELESS_MS = 2000 }; /* longest time from taking a name to listening */

static socklen_t address_of(const char *name, struct sockaddr_un *a)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(a->sun_path + 1, name, strlen(name));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

bool rt_same_user(int s)
{
    struct ucred who;
    socklen_t bytes = sizeof who;
    return getsockopt(s, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
           who.uid == geteuid();
}

static int connect_to(const char *name, RtNameOwner *owner)
{
    struct sockaddr_un address;
    const socklen_t bytes = address_of(name, &address);
    const int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *owner = RT_NAME_FREE;
    if (s >= 0 && connect(s, (struct sockaddr *)&address, bytes) == 0)
        *owner = rt_same_user(s) ? RT_NAME_OURS : RT_NAME_ANOTHERS;
    else if (s >= 0 && errno == EAGAIN)
        *owner = RT_NAME_FULL;
    if (s >= 0 && *owner != RT_NAME_OURS) {
        close(s);
        return -1;
    }
    return s;
}

/* Connects to a socket of ours whose name starts with this one. */
static int connect_to_longer(const char *name)
{
    char line[512];
    int s = -1;
    FILE *f = fopen("/proc/net/unix", "re");
    const size_t bytes = strlen(name);
    while (f != NULL && s < 0 && fgets(line, sizeof line, f) != NULL) {
        const char *at = strchr(line, '@');
        RtNameOwner owner;
        line[strcspn(line, "\n")] = '\0';
        if (at != NULL && strncmp(at + 1, name, bytes) == 0 && at[1 + bytes] == '-' &&
            strlen(at + 1) < RT_NAME_LETTERS)
            s = connect_to(at + 1, &owner);
    }
    if (f != NULL)
        fclose(f);
    return s;
}

int rt_name_connect(const char *name, bool anywhere, RtNameOwner *owner)
{
    const int s = connect_to(name, owner);
    const bool longer = anywhere || *owner == RT_NAME_ANOTHERS || *owner == RT_NAME_FULL;
    return s < 0 && longer ? connect_to_longer(name) : s;
}

/* 0, or an errno: EADDRINUSE if the name is taken. */
static int take(int s, const char *name)
{
    struct sockaddr_un address;
    const socklen_t bytes = address_of(name, &address);
    return bind(s, (struct sockaddr *)&address, bytes) == 0 ? 0 : errno;
}

/* A job with the same user and name may be ending; for another user it is not worth
 * waiting. */
static bool is_worth_waiting(const char *name, int64_t since_ns, int64_t until_ns)
{
    RtNameOwner owner;
    const int s = connect_to(name, &owner);
    const int64_t now = rt_clock_ns();
    if (s >= 0)
        close(s);
    return now < until_ns && owner != RT_NAME_ANOTHERS &&
           (owner == RT_NAME_OURS || now - since_ns < NAMELESS_MS * INT64_C(1000000));
}

static int take_longer(int s, const char *name)
{
    unsigned char random[16];
    char letters[2 * sizeof random + 1], longer[RT_NAME_LETTERS];
    if (!rt_random_bytes(random, sizeof random))
        return errno;
    rt_hex(random, sizeof random, letters);
    snprintf(longer, sizeof longer, "%.60s-%s", name, letters);
    return take(s, longer);
}

int rt_name_listen(const char *name, int64_t until_ns)
{
    const int64_t since_ns = rt_clock_ns();
    const int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = s < 0 ? errno : take(s, name);
    while (error == EADDRINUSE && is_worth_waiting(name, since_ns, until_ns)) {
        rt_nap(20);
        error = take(s, name);
    }
    if (error == EADDRINUSE && rt_clock_ns() < until_ns)
        error = take_longer(s, name);
    if (error == 0 && listen(s, RT_MAX_RANKS) == 0)
        return s;
    if (error == 0)
        error = errno;
    if (s >= 0)
        close(s);
    errno = error;
    return -1;
}
