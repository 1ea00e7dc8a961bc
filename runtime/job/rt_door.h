/* SPDX-License-Identifier: MIT-0 */
/* rt_door.h: how the processes of a job authenticate each other. A process that listens is a door;
 * a visitor is a stranger until both have proved that they know the job's secret. The files, lowest
 * first:
 *
 *    rt_sha256.c   digests, random bytes
 *    rt_secret.c   the secret: from a file, or from the environment
 *    rt_greet.c    both ends prove that they know it; then their messages are sealed
 *    rt_name.c     a machine's sockets, by names
 *    rt_door.c     a door with many visitors at once
 *
 * The first rank of a machine has a door for its other ranks (rt_join.c), and rank 0 has one for
 * the other machines (cuda/rt_meet.c). If one process starts all ranks (rt_launch.c), they inherit
 * a descriptor and need neither door nor secret. */
#ifndef RT_DOOR_H
#define RT_DOOR_H

#include "job/rt_job.h"

/* ---- rt_sha256.c ----------------------------------------------------------------- */

enum { RT_DIGEST_BYTES = 32 };
typedef struct RtSha256 {
    uint32_t h[8];
    uint64_t bytes;
    unsigned char block[64];
} RtSha256;
void rt_sha256_begin(RtSha256 *s);
void rt_sha256_more(RtSha256 *s, const void *data, size_t bytes);
void rt_sha256_end(RtSha256 *s, unsigned char *digest);
typedef struct RtHmac {
    RtSha256 inner, outer;
} RtHmac;
void rt_hmac_begin(RtHmac *m, const void *key, size_t bytes);
void rt_hmac_more(RtHmac *m, const void *data, size_t bytes);
void rt_hmac_end(RtHmac *m, unsigned char *digest);
bool rt_same_bytes(const void *a, const void *b, size_t bytes); /* in constant time */
bool rt_random_bytes(void *to, size_t bytes);                   /* at most 256 */
void rt_hex(const unsigned char *bytes, size_t n, char *text);  /* text[2 n + 1] */

/* ---- rt_secret.c ----------------------------------------------------------------- */

#define RT_SECRET_VARIABLE "FSDPGEN_SECRET"
typedef struct RtSecret {
    bool given;
    unsigned char key[RT_DIGEST_BYTES]; /* HMAC key; zeros without a secret */
} RtSecret;
/* From --secret, or else the environment. False, with the reason: it is unusable. */
bool rt_secret_find(const RtFlags *f, RtSecret *s, char *error);
/* The error for a job that needs a secret and has none: says what to write. */
void rt_secret_advise(const RtJoin *j, char *error);

/* ---- rt_greet.c ------------------------------------------------------------------ */

enum { RT_NONCE_BYTES = 32, RT_GREETING_BYTES = 8 + RT_NONCE_BYTES };
/* The messages of one direction of a connection. */
typedef struct RtSeal {
    unsigned char key[RT_DIGEST_BYTES];
    uint64_t count; /* number of messages so far */
} RtSeal;
typedef struct RtGreeting {
    const RtSecret *secret;
    const char *door; /* "ranks" or "machines": a proof for one is invalid at the other */
    bool hosts;       /* this end owns the door */
    int heard;        /* messages */
    unsigned char nonce[2][RT_NONCE_BYTES]; /* the visitor's, the host's */
    unsigned char in[RT_GREETING_BYTES];    /* of the incoming message */
    size_t in_bytes;
    unsigned char out[RT_GREETING_BYTES]; /* to be sent now */
    size_t out_bytes;
    RtSeal ours, theirs; /* after the greeting */
} RtGreeting;
typedef enum {
    RT_GREET_MORE,     /* send `out`, if it is not empty, and wait for more */
    RT_GREET_DONE,     /* likewise; both ends know the secret */
    RT_GREET_NO_WORDS, /* something other than a greeting arrived */
    RT_GREET_NO_SECRET /* the other end does not know the secret */
} RtGreet;
/* False: this machine provides no random bytes. */
bool rt_greet_begin(RtGreeting *g, const RtSecret *secret, const char *door, bool hosts);
size_t rt_greet_wants(const RtGreeting *g); /* missing bytes of the incoming message */
RtGreet rt_greet_hear(RtGreeting *g, const void *bytes, size_t n); /* n: at most that many */

/* A sealed message: its length in four bytes, the message, a digest over both, its number and the
 * connection. */
enum { RT_SEAL_HEAD = 4 };
static inline size_t rt_sealed_bytes(size_t bytes)
{
    return RT_SEAL_HEAD + bytes + RT_DIGEST_BYTES;
}
/* The message is at record + RT_SEAL_HEAD; the rest is filled in. */
void rt_seal(RtSeal *s, unsigned char *record, size_t bytes);
/* For a message of `bytes` bytes: is it the next one that the other end sealed? */
bool rt_unseal(RtSeal *s, const unsigned char *record, size_t bytes);

/* Over a socket, with a deadline. Returns how a visitor's greeting ended; RT_GREET_MORE: the
 * connection was closed, or slow. */
bool rt_readable(int socket, int64_t until_ns);
bool rt_send(int socket, const void *from, size_t bytes, int64_t until_ns);
bool rt_receive(int socket, void *to, size_t bytes, int64_t until_ns);
RtGreet rt_greet_visit(RtGreeting *g, int socket, int64_t until_ns);
enum { RT_HELLO_BYTES = 2048 }; /* limit for messages of these two */
bool rt_send_sealed(int socket, RtSeal *s, const void *what, size_t bytes,
                    int64_t until_ns);
void rt_nap(int ms);
bool rt_receive_sealed(int socket, RtSeal *s, void *what, size_t bytes, int64_t until_ns);

/* ---- rt_name.c ------------------------------------------------------------------- */

enum { RT_NAME_LETTERS = 100 }; /* of a name with its terminator: the kernel's limit is 107 */
/* FULL: someone listens there, and the kernel keeps no more connections for them. */
typedef enum { RT_NAME_OURS, RT_NAME_ANOTHERS, RT_NAME_FULL, RT_NAME_FREE } RtNameOwner;
bool rt_same_user(int socket); /* does the other end belong to this user? */
/* A socket; or -1 with errno: another process of this user keeps the name. */
int rt_name_listen(const char *name, int64_t until_ns);
/* A connection with a process of this user; or -1, and the owner of the name. anywhere: also tries
 * longer names, as when another user has the name. */
int rt_name_connect(const char *name, bool anywhere, RtNameOwner *owner);

/* ---- rt_door.c ------------------------------------------------------------------- */

enum { RT_DOOR_SOCKETS = 16, RT_VISITORS = 256 };
/* A connection that is not trusted yet. */
typedef struct RtVisitor {
    int socket;
    int64_t until_ns; /* when it is turned away */
    bool proved;      /* it knows the secret; its hello follows */
    RtGreeting greeting;
    size_t bytes; /* received bytes of its hello */
    unsigned char record[RT_SEAL_HEAD + RT_HELLO_BYTES + RT_DIGEST_BYTES];
} RtVisitor;
typedef struct RtDoor {
    const RtSecret *secret;
    const char *name;           /* for the greeting */
    size_t hello_bytes;         /* size of a visitor's first message */
    bool (*admits)(int socket); /* false: the connection is closed at once; NULL: admits all */
    int listener[RT_DOOR_SOCKETS], listeners;
    int order[RT_VISITORS]; /* rooms of the visitors, in order of arrival; then free ones */
    int visitors;
    int64_t turned_away; /* visitors that sent no greeting in time */
    int64_t unproved;    /* visitors that did not know the secret */
    RtVisitor room[RT_VISITORS];
} RtDoor;
void rt_door_begin(RtDoor *d, const RtSecret *secret, const char *name,
                   size_t hello_bytes);
/* Waits at most `ms`. True: a visitor has proved that it knows the secret and said hello, which is
 * at record + RT_SEAL_HEAD; its socket now belongs to the caller. */
bool rt_door_wait(RtDoor *d, int ms, RtVisitor *guest);
/* "", or "; N connections were turned away", for messages. */
void rt_door_strangers(const RtDoor *d, char *text, size_t bytes);
void rt_door_close(RtDoor *d);
/* Has the other end closed the connection, or sent something while it should wait? */
bool rt_has_left(int socket);

#endif
