/* SPDX-License-Identifier: Apache-2.0 */
/* sim_nccl.h: NCCL between processes of this machine. Each communicator is a file, mapped
 * by all its ranks and removed when they have come. For its n-th call a rank lays what it
 * sends into its half n % 2 of the file, then waits until all have, then takes what it
 * wants. Calls of a communicator run in order, as NCCL's do; a rank that never comes
 * leaves the others waiting, as on NVLink. Sums are taken around the ring from the rank
 * after the owner's, each rounded to its type: not the trainer's tree.
 *
 * A communicator that gathers by copy engines (NCCL_CTA_POLICY_ZERO) gathers from its
 * window to its window, or not at all, so that a trainer whose memory is not registered is
 * told; the library would take a kernel. A window is of memory of ncclMemAlloc.
 *
 * The file that CUDASIM_CTAS names gets a line for each rank of each communicator that is
 * used, with its first call and the blocks that it may take: "send of 4 ranks: 8"; 0: as
 * many as the library likes. That of CUDASIM_ORDER gets a line for each call that is
 * enqueued or captured, with the process: "4711 send".
 *
 * Not shown: transports, how much slower kernels are beside a collective, deadlocks of
 * communicators that share channels, errors that NCCL finds by itself. */
#ifndef SIM_NCCL_H
#define SIM_NCCL_H

#include "sim_cudart.h"

#include <nccl.h>
#include <stdatomic.h>

enum { MAX_RANKS = 64, MAX_PARTS = 512, PATH_BYTES = 120 };
#define SIM_HALF_BYTES ((size_t)256 << 20) /* of a rank; the file is sparse */

typedef enum { GATHER, SCATTER_SUM, SUM, BROADCAST, ALL_TO_ALL, SEND, RECEIVE } Kind;

typedef struct Part { /* of a group of calls */
    Kind kind;
    ncclDataType_t type;
    ncclRedOp_t op;
    int64_t count, offset; /* elements; where in the half its bytes lie */
    int peer;              /* or root */
    const void *from;
    void *to;
} Part;

typedef struct Post { /* what a rank says in a half */
    int n_parts;
    Part part[MAX_PARTS];
    bool registered[MAX_PARTS]; /* the buffer of a send or receive is, with NCCL */
} Post;

typedef struct Seat {
    _Atomic int64_t posted, taken; /* calls */
    _Atomic int64_t splits;
    int color, key;
    Post post[2];
} Seat;

typedef struct Board {
    _Atomic int joined;
    Seat seat[MAX_RANKS];
} Board;

struct ncclComm {
    int rank, ranks;
    char path[PATH_BYTES];
    Board *board;
    char *data;
    bool aborted;
    int64_t enqueued, run; /* calls */
    int64_t splits;
    bool by_copy_engines;
    int most_ctas; /* 0: as many as the library likes */
    bool told;     /* in the file of CUDASIM_CTAS */
    const char *window;
    int64_t window_bytes;
};

typedef struct Call {
    ncclComm_t comm;
    int n_parts;
    Part part[MAX_PARTS];
} Call;

/* Lays the calls, made together, behind what the stream has: they are one operation. */
void sim_nccl_enqueue(Call *call, SimStream *s);
int64_t sim_nccl_bytes(ncclDataType_t type); /* 0: a type that is not simulated */
/* True when a captured graph calls the communicator. */
bool sim_nccl_captured(ncclComm_t comm);

#endif
