/* SPDX-License-Identifier: MIT-0 */
/* rt_machines.h: what rt_meet.c, by which machines meet, and rt_machines.c, which keeps
 * their shared pages alike, have in common. A star: the first ranks of all machines are
 * linked with that of rank 0's. */
#ifndef RT_MACHINES_H
#define RT_MACHINES_H

#include "rt_private.h"

/* A rank's entry of the shared page, as it travels. */
typedef struct RtView {
    uint64_t published[RT_STREAMS], finished, mail_read, waiting_count;
    int64_t step;
    uint64_t numerics_hash, platform_hash;
    int32_t place, waiting, waiting_segment, waiting_ranks, waiting_stride, done;
    uint32_t control_bytes, mail_bytes;
    /* last: what changes all the time, and alone is no reason to send it at once. Clocks
     * differ between machines: on the way they are how long ago it was. */
    int64_t moved_ns, looked_ns;
} RtView;

/* A way to other machines. */
typedef struct RtLink {
    int socket;
    bool closed;    /* by the other side, or for its silence */
    int first_rank; /* behind it, for messages */
    bool behind[RT_MAX_RANKS];
    int64_t heard_ns; /* when something came */
    char *in;         /* what came and is no whole message yet */
    size_t in_bytes;
    char *out; /* what is to be sent */
    size_t out_bytes;
} RtLink;

/* The links of this machine, once all have met; false, and why. */
bool rt_meet(const RtTrainer *t, const RtFlags *f, const RtJoin *j,
             const RtShared *shared, int64_t patience_ns, RtLink **links, int *n_links,
             char *error);

#endif
