/* SPDX-License-Identifier: MIT-0 */
/* rt_greet.c: two processes prove to each other that they know the job's secret. In: the
 * secret, received bytes. Out: bytes to send, and a seal for each direction.
 *
 *      visitor                         host
 *      magic, nonce v           →
 *                               ←      magic, nonce h
 *      proof of a visitor       →
 *                               ←      proof of a host
 *
 * 1. A nonce is 32 random bytes of this connection. A proof is the HMAC, under the
 *    secret, of the door's name, the role and both nonces. So a recorded proof is invalid
 *    on any other connection, and a reflected one has the wrong role.
 * 2. Before the visitor has proved itself the host sends only its nonce; before the host
 *    has, the visitor does not name the job.
 * 3. Each later message carries the HMAC of its number and its bytes, under a key for the
 *    connection's direction made from the secret and both nonces. So what they say about
 *    the job (identity, ranks, numerics) is authenticated.
 * 4. Nothing is encrypted: messages can be read, but not changed. */
#define _GNU_SOURCE
#include "job/rt_door.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static const unsigned char magic[8] = {'f', 's', 'd', 'p', 'm', 'e', 't', '2'};
enum { VISITOR, HOST };

/* A key from the secret, for this connection, purpose and role only. */
static void derive(const RtGreeting *g, const char *purpose, int role,
                   unsigned char *digest)
{
    char label[48] = {0};
    RtHmac m;
    snprintf(label, sizeof label, "fsdpgen %s %s %s", g->door, purpose,
             role == HOST ? "host" : "visitor");
    rt_hmac_begin(&m, g->secret->key, sizeof g->secret->key);
    rt_hmac_more(&m, label, sizeof label);
    rt_hmac_more(&m, g->nonce, sizeof g->nonce);
    rt_hmac_end(&m, digest);
}

static void say_nonce(RtGreeting *g)
{
    memcpy(g->out, magic, sizeof magic);
    memcpy(g->out + sizeof magic, g->nonce[g->hosts ? HOST : VISITOR], RT_NONCE_BYTES);
    g->out_bytes = RT_GREETING_BYTES;
}

static void say_proof(RtGreeting *g)
{
    derive(g, "proof", g->hosts ? HOST : VISITOR, g->out);
    g->out_bytes = RT_DIGEST_BYTES;
}

bool rt_greet_begin(RtGreeting *g, const RtSecret *secret, const char *door, bool hosts)
{
    *g = (RtGreeting){.secret = secret, .door = door, .hosts = hosts};
    if (!rt_random_bytes(g->nonce[hosts ? HOST : VISITOR], RT_NONCE_BYTES))
        return false;
    if (!hosts)
        say_nonce(g);
    return true;
}

size_t rt_greet_wants(const RtGreeting *g)
{
    return (g->heard == 0 ? RT_GREETING_BYTES : RT_DIGEST_BYTES) - g->in_bytes;
}

static RtGreet hear_nonce(RtGreeting *g)
{
    memcpy(g->nonce[g->hosts ? VISITOR : HOST], g->in + sizeof magic, RT_NONCE_BYTES);
    if (g->hosts)
        say_nonce(g);
    else
        say_proof(g);
    return RT_GREET_MORE;
}

static RtGreet hear_proof(RtGreeting *g)
{
    unsigned char expected[RT_DIGEST_BYTES];
    derive(g, "proof", g->hosts ? VISITOR : HOST, expected);
    if (!rt_same_bytes(expected, g->in, sizeof expected))
        return RT_GREET_NO_SECRET;
    if (g->hosts)
        say_proof(g);
    derive(g, "seal", g->hosts ? HOST : VISITOR, g->ours.key);
    derive(g, "seal", g->hosts ? VISITOR : HOST, g->theirs.key);
    return RT_GREET_DONE;
}

/* Other protocols are recognised by their first bytes. */
RtGreet rt_greet_hear(RtGreeting *g, const void *bytes, size_t n)
{
    memcpy(g->in + g->in_bytes, bytes, n);
    g->in_bytes += n;
    g->out_bytes = 0;
    const size_t known = g->in_bytes < sizeof magic ? g->in_bytes : sizeof magic;
    if (g->heard == 0 && memcmp(g->in, magic, known) != 0)
        return RT_GREET_NO_WORDS;
    if (rt_greet_wants(g) > 0)
        return RT_GREET_MORE;
    g->in_bytes = 0;
    return g->heard++ == 0 ? hear_nonce(g) : hear_proof(g);
}

/* ---- sealed messages ------------------------------------------------------------- */

static void digest_of(const RtSeal *s, const unsigned char *record, size_t bytes,
                      unsigned char *digest)
{
    RtHmac m;
    rt_hmac_begin(&m, s->key, sizeof s->key);
    rt_hmac_more(&m, &s->count, sizeof s->count);
    rt_hmac_more(&m, record, RT_SEAL_HEAD + bytes);
    rt_hmac_end(&m, digest);
}

void rt_seal(RtSeal *s, unsigned char *record, size_t bytes)
{
    const uint32_t length = (uint32_t)bytes;
    memcpy(record, &length, RT_SEAL_HEAD);
    digest_of(s, record, bytes, record + RT_SEAL_HEAD + bytes);
    s->count++;
}

bool rt_unseal(RtSeal *s, const unsigned char *record, size_t bytes)
{
    unsigned char expected[RT_DIGEST_BYTES];
    uint32_t length;
    memcpy(&length, record, RT_SEAL_HEAD);
    if (length != bytes)
        return false;
    digest_of(s, record, bytes, expected);
    s->count++;
    return rt_same_bytes(expected, record + RT_SEAL_HEAD + bytes, sizeof expected);
}

/* ---- over a socket --------------------------------------------------------------- */

/* Waits until it can be read or written; false: not in time. */
static bool ready(int socket, short events, int64_t until_ns)
{
    for (;;) {
        const int64_t left = (until_ns - rt_clock_ns()) / 1000000;
        struct pollfd p = {.fd = socket, .events = events};
        const int n = poll(&p, 1, left <= 0 ? 0 : left < 1000000 ? (int)left : 1000000);
        if (n != 0 && (n > 0 || errno != EINTR))
            return n > 0;
        if (n == 0 && left <= 0) {
            errno = ETIMEDOUT;
            return false;
        }
    }
}

bool rt_readable(int socket, int64_t until_ns)
{
    return ready(socket, POLLIN, until_ns);
}

bool rt_send(int socket, const void *from, size_t bytes, int64_t until_ns)
{
    size_t sent = 0;
    while (sent < bytes && ready(socket, POLLOUT, until_ns)) {
        const ssize_t n = send(socket, (const char *)from + sent, bytes - sent,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            break;
        sent += n > 0 ? (size_t)n : 0;
    }
    return sent == bytes;
}

bool rt_receive(int socket, void *to, size_t bytes, int64_t until_ns)
{
    size_t have = 0;
    while (have < bytes && ready(socket, POLLIN, until_ns)) {
        const ssize_t n = recv(socket, (char *)to + have, bytes - have, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
            break;
        have += n > 0 ? (size_t)n : 0;
    }
    return have == bytes;
}

void rt_nap(int ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

RtGreet rt_greet_visit(RtGreeting *g, int socket, int64_t until_ns)
{
    RtGreet how = RT_GREET_MORE;
    while (how == RT_GREET_MORE) {
        unsigned char bytes[RT_GREETING_BYTES];
        const size_t n = rt_greet_wants(g);
        if (!rt_send(socket, g->out, g->out_bytes, until_ns) ||
            !rt_receive(socket, bytes, n, until_ns))
            return RT_GREET_MORE;
        how = rt_greet_hear(g, bytes, n);
    }
    return how;
}

bool rt_send_sealed(int socket, RtSeal *s, const void *what, size_t bytes,
                    int64_t until_ns)
{
    unsigned char record[RT_SEAL_HEAD + RT_HELLO_BYTES + RT_DIGEST_BYTES];
    if (bytes > RT_HELLO_BYTES)
        return false;
    memcpy(record + RT_SEAL_HEAD, what, bytes);
    rt_seal(s, record, bytes);
    return rt_send(socket, record, rt_sealed_bytes(bytes), until_ns);
}

bool rt_receive_sealed(int socket, RtSeal *s, void *what, size_t bytes, int64_t until_ns)
{
    unsigned char record[RT_SEAL_HEAD + RT_HELLO_BYTES + RT_DIGEST_BYTES];
    if (bytes > RT_HELLO_BYTES ||
        !rt_receive(socket, record, rt_sealed_bytes(bytes), until_ns) ||
        !rt_unseal(s, record, bytes))
        return false;
    memcpy(what, record + RT_SEAL_HEAD, bytes);
    return true;
}
