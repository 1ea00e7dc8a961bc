/* SPDX-License-Identifier: MIT-0 */
/* rt_place.c: where machines meet. In: --meet, or a launcher's MASTER_ADDR and
 * MASTER_PORT. Out: places, their addresses, and on rank 0's machine sockets that listen
 * on those addresses among them that are its own, and no others. */
#define _GNU_SOURCE
#include "cuda/ranks/rt_machines.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

__attribute__((format(printf, 2, 3))) static bool trouble(char *error, const char *fmt,
                                                          ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(error, RT_ERROR_BYTES, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- names ----------------------------------------------------------------------- */

/* HOST:PORT or [ADDRESS]:PORT; with a port already, HOST or ADDRESS. */
static bool read_place(const char *text, size_t bytes, long port, RtPlace *p)
{
    char word[300], *host = word, *end = NULL;
    if (bytes >= sizeof word)
        return false;
    snprintf(word, sizeof word, "%.*s", (int)bytes, text);
    const bool brackets = word[0] == '[' && strchr(word, ']') != NULL;
    if (port == 0) {
        char *colon = strrchr(word, ':');
        /* Brackets mark the end of an address with several colons. */
        if (colon == NULL || (brackets ? colon[-1] != ']' : strchr(word, ':') != colon))
            return false;
        port = strtol(colon + 1, &end, 10);
        if (end == colon + 1 || *end != '\0')
            return false;
        *colon = '\0';
    }
    if (brackets) {
        host = word + 1;
        end = strchr(host, ']');
        if (end[1] != '\0')
            return false;
        *end = '\0';
    }
    if (host[0] == '\0' || strlen(host) >= sizeof p->host || port < 1 || port > 65535)
        return false;
    snprintf(p->host, sizeof p->host, "%.*s", (int)sizeof p->host - 1, host);
    snprintf(p->port, sizeof p->port, "%ld", port);
    return true;
}

/* A place, or several separated by commas. */
static bool read_places(RtPlaces *p, const char *text, long port)
{
    p->n = 0;
    for (;;) {
        const size_t bytes = strcspn(text, ",");
        if (p->n == RT_MOST_PLACES || !read_place(text, bytes, port, &p->place[p->n]))
            return false;
        p->n++;
        if (text[bytes] == '\0')
            break;
        text += bytes + 1;
    }
    const RtPlace *first = &p->place[0];
    const bool colons = strchr(first->host, ':') != NULL;
    snprintf(p->name, sizeof p->name, "%s%s%s:%s", colons ? "[" : "", first->host,
             colons ? "]" : "", first->port);
    return true;
}

/* torchrun keeps a store of its own at MASTER_PORT, so ours is the next port. */
static bool of_environment(RtPlaces *p, char *error)
{
    const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT"),
               *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    const bool taken = store != NULL && strcmp(store, "True") == 0;
    char *end = NULL;
    const long n = port != NULL ? strtol(port, &end, 10) + taken : 0;
    if (host == NULL || host[0] == '\0' || n < 1 || n > 65535 || *end != '\0') {
        return trouble(error,
                       "the ranks are on several machines, and nothing says where these "
                       "meet: pass --meet HOST:PORT, an address of rank 0's machine, or "
                       "set MASTER_ADDR and MASTER_PORT");
    }
    return read_places(p, host, n) ||
           trouble(error, "MASTER_ADDR: `%.100s` is neither a host nor an address", host);
}

bool rt_places_find(RtPlaces *p, const char *flag, char *error)
{
    if (flag == NULL)
        return of_environment(p, error);
    return read_places(p, flag, 0) ||
           trouble(error,
                   "--meet: `%.100s` is not HOST:PORT; an IPv6 address is written "
                   "[ADDRESS]:PORT, and several have commas between",
                   flag);
}

struct addrinfo *rt_place_addresses(const RtPlace *p, int flags, const char **why)
{
    const struct addrinfo want = {
        .ai_flags = flags, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    const int e = getaddrinfo(p->host, p->port, &want, &list);
    *why = e == EAI_SYSTEM ? strerror(errno) : e != 0 ? gai_strerror(e) : "";
    return e == 0 ? list : NULL;
}

/* ---- sockets --------------------------------------------------------------------- */

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET6) {
        return IN6_IS_ADDR_LOOPBACK(
            &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
    }
    return a->sa_family == AF_INET &&
           ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 ==
               127;
}

/* This machine's addresses that others may reach: "10.0.0.5, 192.168.1.5" */
static void own_addresses(char *text, size_t bytes)
{
    struct ifaddrs *list = NULL;
    char one[64];
    text[0] = '\0';
    if (getifaddrs(&list) != 0)
        return;
    for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
        const size_t n = strlen(text);
        if (i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_INET &&
            !is_loopback(i->ifa_addr) &&
            getnameinfo(i->ifa_addr, sizeof(struct sockaddr_in), one, sizeof one, NULL, 0,
                        NI_NUMERICHOST) == 0 &&
            n + strlen(one) + 3 < bytes)
            snprintf(text + n, bytes - n, "%s%s", n > 0 ? ", " : "", one);
    }
    freeifaddrs(list);
}

/* A machine's own name often resolves to loopback there, where others could not reach it.
 * If the user writes the loopback address, or localhost, it is intended. */
static bool can_be_reached(const RtPlace *p, const struct addrinfo *list, char *error)
{
    struct addrinfo *numbers;
    char own[200];
    const char *why;
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next)
        if (!is_loopback(a->ai_addr))
            return true;
    numbers = rt_place_addresses(p, AI_NUMERICHOST, &why);
    if (numbers != NULL || strcmp(p->host, "localhost") == 0) {
        if (numbers != NULL)
            freeaddrinfo(numbers);
        return true;
    }
    own_addresses(own, sizeof own);
    return trouble(error,
                   "on this machine, of rank 0, %.100s is an address that no other one "
                   "reaches (its loopback's); pass --meet ADDRESS:%s with one that they "
                   "reach%s%s",
                   p->host, p->port, own[0] != '\0' ? ": it has " : "", own);
}

static int open_listener(const struct addrinfo *a, int *reason)
{
    const int yes = 1;
    const int s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                         a->ai_protocol);
    if (s >= 0 && a->ai_family == AF_INET6)
        setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (s >= 0 && setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(s, a->ai_addr, a->ai_addrlen) == 0 && listen(s, SOMAXCONN) == 0)
        return s;
    *reason = errno;
    if (s >= 0)
        close(s);
    return -1;
}

bool rt_place_listen(const RtPlace *p, RtDoor *d, const char **why, bool *again,
                     char *error)
{
    int reason = 0;
    struct addrinfo *list = rt_place_addresses(p, 0, why);
    if (list == NULL) { /* names may become available late */
        *again = true;
        return true;
    }
    if (!can_be_reached(p, list, error)) {
        freeaddrinfo(list);
        return false;
    }
    for (const struct addrinfo *a = list; a != NULL && d->listeners < RT_DOOR_SOCKETS;
         a = a->ai_next) {
        const int s = open_listener(a, &reason);
        if (s >= 0) {
            d->listener[d->listeners++] = s;
        } else { /* a job that is just ending may still use the port */
            *why = strerror(reason);
            *again = *again || reason == EADDRINUSE;
        }
    }
    freeaddrinfo(list);
    return true;
}
