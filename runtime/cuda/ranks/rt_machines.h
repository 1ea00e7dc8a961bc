/* SPDX-License-Identifier: MIT-0 */
/* rt_machines.h: what these files share: rt_place.c (where machines meet), rt_meet.c (how they
 * meet) and rt_machines.c (which keeps their shared pages equal). The topology is a star: the first
 * ranks of all machines are linked with that of rank 0's. */
#ifndef RT_MACHINES_H
#define RT_MACHINES_H

#include "job/rt_door.h"

/* A rank's entry of the shared page, as it is sent. */
typedef struct RtView {
    uint64_t published[RT_STREAMS], finished, mail_read, waiting_count;
    int64_t step;
    uint64_t numerics_hash, platform_hash;
    int32_t place, waiting, waiting_subject, done;
    RtGroup waiting_group;
    uint32_t control_bytes, mail_bytes;
    /* Last: fields that change all the time, and alone do not cause a message. Clocks differ between
     * machines, so these are sent as ages. */
    int64_t moved_ns, looked_ns;
} RtView;

/* A link to other machines. */
typedef struct RtLink {
    int socket;
    bool closed;      /* by the other side, or because it was silent */
    int first_rank;   /* behind it, for messages */
    uint64_t process; /* received through it */
    bool behind[RT_MAX_RANKS];
    int64_t heard_ns;    /* when something last arrived */
    RtSeal ours, theirs; /* for sent and for received records */
    unsigned char *in;   /* an incomplete record */
    size_t in_bytes;
    unsigned char *out; /* a record to send: messages after room for the head */
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
    char name[300]; /* the first one, for messages */
} RtPlaces;
struct addrinfo;
bool rt_places_find(RtPlaces *p, const char *flag, char *error);
/* To be freed; or NULL with the reason. */
struct addrinfo *rt_place_addresses(const RtPlace *p, int flags, const char **why);
/* Opens sockets that listen there; otherwise says why not and whether to try again. false: machines
 * cannot meet there. */
bool rt_place_listen(const RtPlace *p, RtDoor *d, const char **why, bool *again,
                     char *error);

/* ---- rt_meet.c ------------------------------------------------------------------- */

/* The links of this machine, once all have met; or false with the reason. */
bool rt_meet_links(const RtTrainer *t, const RtFlags *f, const RtJoin *j,
                   const RtSecret *secret, const RtShared *shared, int64_t patience_ns,
                   RtLink **links, int *n_links, char *error);

#endif
