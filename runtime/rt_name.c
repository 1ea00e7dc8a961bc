/* SPDX-License-Identifier: MIT-0 */
/* rt_name.c: Unix sockets by a name that processes of one user share. In: the name. Out:
 * a socket that listens, or a connection with one of ours that does.
 *
 * The name is public, and anyone of the machine can take it first. Then whoever listens
 * adds random letters to it, which nobody can have taken, and whoever comes finds these
 * in the kernel's list of names. The kernel says whose a process is, so strangers are
 * told from ours before anything is said. */
#define _GNU_SOURCE
#include "rt_door.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { NAMELESS_MS = 2000 }; /* a process of ours that has a name soon listens */

static socklen_t address_of(const char *name, struct sockaddr_un *a)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(a->sun_path + 1, name, strlen(name));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

/* Of a connection: who listened, or who connected. */
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
    *owner = RT_NAME_NOBODYS;
    if (s >= 0 && connect(s, (struct sockaddr *)&address, bytes) == 0) {
        *owner = rt_same_user(s) ? RT_NAME_OURS : RT_NAME_ANOTHERS;
    }
    if (s >= 0 && *owner != RT_NAME_OURS) {
        close(s);
        return -1;
    }
    return s;
}

/* One of ours whose name begins with this one. */
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
            strlen(at + 1) < RT_NAME_LETTERS) {
            s = connect_to(at + 1, &owner);
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return s;
}

int rt_name_connect(const char *name, bool anywhere, RtNameOwner *owner)
{
    const int s = connect_to(name, owner);
    return s < 0 && (anywhere || *owner == RT_NAME_ANOTHERS) ? connect_to_longer(name)
                                                             : s;
}

/* False: somebody else has the name. */
static bool take(int s, const char *name)
{
    struct sockaddr_un address;
    const socklen_t bytes = address_of(name, &address);
    return bind(s, (struct sockaddr *)&address, bytes) == 0;
}

/* A job of the same name may just be ending; a stranger is not waited for. */
static bool is_worth_waiting(const char *name, int64_t since_ns, int64_t until_ns)
{
    RtNameOwner owner;
    const int s = connect_to(name, &owner);
    const int64_t now = rt_clock_ns();
    if (s >= 0) {
        close(s);
    }
    return now < until_ns &&
           (owner == RT_NAME_OURS || (owner == RT_NAME_NOBODYS &&
                                      now - since_ns < NAMELESS_MS * INT64_C(1000000)));
}

static bool take_longer(int s, const char *name)
{
    unsigned char random[16];
    char letters[2 * sizeof random + 1], longer[RT_NAME_LETTERS];
    if (!rt_random_bytes(random, sizeof random)) {
        return false;
    }
    rt_hex(random, sizeof random, letters);
    snprintf(longer, sizeof longer, "%.60s-%s", name, letters);
    return take(s, longer);
}

int rt_name_listen(const char *name, int64_t until_ns)
{
    const int64_t since_ns = rt_clock_ns();
    const int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool taken = s >= 0 && take(s, name);
    while (s >= 0 && !taken && errno == EADDRINUSE &&
           is_worth_waiting(name, since_ns, until_ns)) {
        rt_nap(20);
        taken = take(s, name);
    }
    if (s >= 0 && !taken && errno == EADDRINUSE && rt_clock_ns() < until_ns) {
        taken = take_longer(s, name);
    }
    if (taken && listen(s, RT_MAX_RANKS) == 0) {
        return s;
    }
    const int error = errno;
    if (s >= 0) {
        close(s);
    }
    errno = error;
    return -1;
}
