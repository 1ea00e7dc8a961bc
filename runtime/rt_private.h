/* SPDX-License-Identifier: MIT-0 */
/* rt_private.h: the types that all rooms of the runtime share and emitted code does not
 * see. Functions stand in the header of the room that has them:
 *
 *   job/rt_job.h                what starts, watches and ends ranks; job/rt_file.h,
 *                               job/rt_out.h, job/rt_door.h
 *   data/rt_data.h              what a run reads
 *   state/rt_state.h            weights, the optimizer around its kernel, the log
 *   checkpoint/rt_checkpoint.h  saves, and runs that go on from them
 *   rt_target.h                 what cpu/ and cuda/, on top, each have for the rest
 *
 * A file calls functions of its own room and of those before it alone, and of the target
 * what rt_target.h names. rt_main.c calls all of them. */
#ifndef RT_PRIVATE_H
#define RT_PRIVATE_H

#include "rt.h"
#include "rt_collective.h"
#include "rt_flags.h"
#include "rt_hash.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { RT_MACHINE_RANKS = 64 }; /* the most that the CPU target starts */

/* Exit codes of a trainer; 128 + n: ended by signal n. */
enum {
    RT_EXIT_OK = 0,
    RT_EXIT_ERROR = 1,
    RT_EXIT_USAGE = 2,
    RT_EXIT_GATE = 5,
    RT_EXIT_AGAIN = 75 /* a signal: saved, to be resumed */
};

/* ---- the page that all ranks and launchers share --------------------------------- */

/* Streams of collectives; RT_GATHER and RT_REDUCE are rt.h's. RT_CONTROL: small
 * exchanges of the step; RT_MAIL: of saves. */
enum { RT_CONTROL = 2, RT_MAIL = 3, RT_STREAMS = 4, RT_SUM_WORDS = 256 };
enum { RT_MAX_SAID = 128 };

/* Where a rank is outside the step's own places. */
enum {
    RT_AT_START = -1,
    RT_AT_DATA = -2,
    RT_AT_INIT = -3,
    RT_AT_SETUP = -4,
    RT_AT_LOG = -5,
    RT_AT_HASH = -6,
    RT_AT_END = -7,
    RT_AT_SAVE = -8,
    RT_AT_LOAD = -9
};

typedef struct RtRankShared {
    /* collectives begun, by stream */
    _Alignas(128) _Atomic uint64_t published[RT_STREAMS];
    _Atomic uint64_t finished;       /* exchanges of the control area read to the end */
    _Atomic uint64_t mail_read;      /* mails of all ranks read */
    _Alignas(128) _Atomic int place; /* index into RtTrainer.places, or RT_AT_* */
    _Atomic int64_t step;            /* 1-based; 0: before the first */
    _Atomic int64_t moved_ns;        /* clock when it last went on */
    _Atomic int64_t looked_ns;       /* CUDA: when its host last looked at its device */
    _Atomic int waiting;             /* stream it waits on, or -1 */
    _Atomic uint64_t waiting_count;  /* for all ranks to have published so many */
    _Atomic int waiting_subject;     /* of that collective, or -1 */
    _Atomic RtGroup waiting_group;   /* whom it joins */
    _Atomic int done;                /* it left with success */
    _Atomic uint32_t
        control_bytes;           /* CUDA: of its control area, that others are to read */
    _Atomic uint32_t mail_bytes; /* of its mail */
    uint64_t numerics_hash, platform_hash;
} RtRankShared;

/* What the line about the run says, after a step or before the first. */
typedef struct RtLine {
    int64_t step, steps; /* of so many */
    double loss, eval_loss, grad_norm, lr;
    bool has_loss, evaluated, has_eval; /* without a target there is no loss */
    double tokens_per_second, mfu;      /* 0: unknown */
    double left_seconds;                /* 0: unknown */
    int64_t memory_bytes;               /* high-water mark of rank 0 */
    int64_t told_ns;                    /* clock when it was so */
} RtLine;

/* The last line of a terminal: rank 0 says what is to be there, the process that watches
 * it draws it (rt_live.c), and whoever writes a line of his own erases it before. */
typedef struct RtLive {
    _Atomic int on;     /* stdout is a terminal that has such a line */
    _Atomic int busy;   /* somebody holds `line`, or writes to the terminal */
    _Atomic int erased; /* since it was drawn */
    RtLine line;
    /* hashes of warnings that a rank has said: others need not */
    _Atomic uint64_t said[RT_MAX_SAID];
} RtLive;

typedef struct RtShared {
    _Alignas(128) _Atomic uint32_t bell; /* rung at every publication: a futex */
    _Atomic uint32_t sleepers;           /* ranks that listen */
    _Alignas(128) _Atomic int abort;     /* exit code of the job once somebody failed */
    _Atomic int telling;                 /* ranks that are about to say why they fail */
    _Atomic int signal;                  /* the job was asked to end */
    _Atomic int again;                   /* it did, with a checkpoint to go on from */
    RtRankShared rank[RT_MAX_RANKS];
    RtLive live;
    uint64_t mail[RT_MAX_RANKS][RT_SUM_WORDS];
    bool elsewhere[RT_MAX_RANKS]; /* CUDA: ranks of other machines (rt_machines.c) */
} RtShared;

/* Ranks of this machine below `rank`: its place among them, or of world_size their
 * number. */
static inline int rt_ranks_here(const RtShared *shared, int rank)
{
    int n = 0;
    for (int r = 0; r < rank; r++)
        n += !shared->elsewhere[r];
    return n;
}

/* ---- one rank -------------------------------------------------------------------- */

enum { RT_QUEUE = 64 };
typedef struct RtQueue {
    RtOp op[RT_QUEUE];
    /* Over the whole run. The step's thread starts, the thread that drives the queue
     * completes. */
    _Atomic uint64_t started, completed;
    uint64_t *last; /* by subject: `started` once its last one was */
    _Atomic uint64_t
        rounds;     /* publications that are complete: some operations have more */
    int round;      /* of the operation at the head */
    bool published; /* that round is visible to the peers */
} RtQueue;

typedef struct RtTokens RtTokens; /* rt_data.c */

/* The step with the lowest loss over held-out data so far (rt_best.c). */
typedef struct RtBest {
    int64_t step; /* 0: there is none */
    double loss;
    int64_t tokens; /* targets that it is the mean of */
    int64_t waited; /* evaluations since that were no better */
} RtBest;

enum { RT_MAX_STOPS = 64 };

typedef struct RtState {
    RtFlags flags;
    RtShared *shared;
    int spins; /* tries before a waiting rank sleeps */
    RtQueue queue[2];
    _Atomic int comm_stop; /* the communication thread ends */
    pthread_t comm;
    uint64_t exchanges;
    /* data */
    RtTokens *tokens;
    struct RtDigests *digests; /* of all data */
    int64_t step;              /* of the run, 0-based */
    int64_t first_step;        /* that this process computes: those before were resumed */
    int64_t order_step;        /* before it the order of data began; then so much was seen: */
    int64_t order_samples, order_tokens;
    int64_t micro_batch;       /* loaded last */
    int64_t round;             /* of merges */
    double *losses;            /* [micro_batches], this rank's filled */
    int64_t targets;           /* of this rank's micro-batches of the step, not masked */
    /* the step's results, equal on all ranks */
    double loss, grad_norm, clip_factor;
    /* of held-out data; equal on all ranks */
    RtTokens *held_out;
    int64_t eval_micro_batches, eval_left_over, eval_tokens;
    double eval_loss;
    bool evaluated;       /* after this step */
    RtBest best;
    int64_t valid_tokens; /* targets of all ranks: what loss and gradient are means of */
    uint64_t superacc[RT_SUPERACC_WORDS];
    double beta1_power, beta2_power; /* beta^t after t updates */
    bool skip; /* this step's update: loss or norm is not finite, or there is no target */
    int64_t skipped, skipped_in_a_row; /* updates, for what was not finite; in a row:
                                          those that no smaller loss scale can save */
    double loss_scale;                 /* now; 0: none */
    int64_t scaled_updates;            /* since it changed */
    bool overflowed;                   /* skip: a smaller loss scale may help */
    /* counters (--stats) */
    int64_t tokens_done, gathered_bytes, reduced_bytes, replicate_bytes, node_bytes,
        matrix_bytes;
    double wait_seconds;
    int64_t peak_bytes; /* the most memory that a rank had, known at the end */
    FILE *log;
    struct RtEvents *events;   /* of rank 0; NULL: without --tensorboard */
    char lost[RT_ERROR_BYTES]; /* what the run fails with in its end; empty: nothing */
    double started_seconds;
    _Atomic int64_t gives_way_ns; /* clock from which on what takes long makes way for the
                                     end of the run, rt_due_soon; 0: never */
    struct RtCheckpoint *checkpoint; /* NULL: without --checkpoint */
    int shared_fd;                   /* of the memory that all ranks share */
    const char *weights_from;        /* the folder that --init or a command reads; or NULL */
    /* `trainer sample` ends with one of these ids */
    int64_t stop[RT_MAX_STOPS];
    int n_stops;
} RtState;

#endif
