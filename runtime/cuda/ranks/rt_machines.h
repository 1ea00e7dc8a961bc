/* SPDX-License-Identifier: MIT-0 */
/* rt_machines.h: what rt_place.c, which knows where machines meet, rt_meet.c, by which
 * they do, and rt_machines.c, which keeps their shared pages alike, have in common. A
 * star: the first ranks of all machines are linked with that of rank 0's. */
#ifndef RT_MACHINES_H
#define RT_MACHINES_H

#include "job/rt_door.h"

/* A rank's entry of the shared page, as it travels. */
typedef struct RtView {
    uint64_t published[RT_STREAMS], finished, mail_read, waiting_count;
    int64_t step;
    uint64_t numerics_hash, platform_hash;
    int32_t place, waiting, waiting_subject, done;
    RtGroup waiting_group;
    uint32_t control_bytes, mail_bytes;
    /* last: what changes all the time, and alone is no reason to send it at once. Clocks
     * differ between machines: on the way they are how long ago it was. */
    int64_t moved_ns, looked_ns;
} RtView;

/* A way to other machines. */
typedef struct RtLink {
    int socket;
    bool closed;      /* by the other side, or for its silence */
    int first_rank;   /* behind it, for messages */
    uint64_t process; /* that came this way */
    bool behind[RT_MAX_RANKS];
    int64_t heard_ns;    /* when something came */
    RtSeal ours, theirs; /* of what is sent, and of what comes */
    unsigned char *in;   /* a record that is not whole yet */
    size_t in_bytes;
    unsigned char *out; /* a record that is to be sent: messages behind a head's room */
    size_t out_bytes;   /* of messages */
} RtLink;

/* ---- rt_place.c ------------------------------------------------------------------ */

typedef struct RtPlace {
    char host[256], port[16];
} RtPlace;
enum { RT_MOST_PLACES = 8 };
typedef struct RtPlaces {
    RtPlace place[RT_MOST_PLACES];
    int n;
    char name[300]; /* the first of them, for messages */
} RtPlaces;
struct addrinfo;
bool rt_places_find(RtPlaces *p, const char *flag, char *error);
/* To be freed; or NULL, and why. */
struct addrinfo *rt_place_addresses(const RtPlace *p, int flags, const char **why);
/* Opens what listens there, or says why not and whether to try again; false: machines
 * cannot meet there. */
bool rt_place_listen(const RtPlace *p, RtDoor *d, const char **why, bool *again,
                     char *error);

/* ---- rt_meet.c ------------------------------------------------------------------- */

/* The links of this machine, once all have met; false, and why. */
bool rt_meet(const RtTrainer *t, const RtFlags *f, const RtJoin *j,
             const RtSecret *secret, const RtShared *shared, int64_t patience_ns,
             RtLink **links, int *n_links, char *error);

#endif
