/* SPDX-License-Identifier: MIT-0 */
/* rt_private.h: the types that all rooms of the runtime share and emitted code does not see.
 * Functions are declared in the header of their room:
 *
 *    job/rt_job.h                what starts, watches and ends ranks; job/rt_file.h,
 *                                job/rt_out.h, job/rt_door.h
 *    data/rt_data.h              what a run reads
 *    state/rt_state.h            weights, the optimizer around its kernel, the log
 *    checkpoint/rt_checkpoint.h  saves, and resuming from them
 *    rt_target.h                 what cpu/ and cuda/, on top, provide for the rest
 *
 * A file calls functions of its own room and of those before it only, and of the target only what
 * rt_target.h names. rt_main.c calls all of them. */
#ifndef RT_PRIVATE_H
#define RT_PRIVATE_H

#include "rt.h"
#include "rt_collective.h"
#include "rt_flags.h"
#include "rt_hash.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { RT_MACHINE_RANKS = 64 }; /* the most ranks that the CPU target starts */

/* Exit codes of a trainer; 128 + n: ended by signal n. */
enum {
    RT_EXIT_OK = 0,
    RT_EXIT_ERROR = 1,
    RT_EXIT_USAGE = 2,
    RT_EXIT_GATE = 5,
    RT_EXIT_AGAIN = 75 /* after a signal: saved, to be resumed */
};

/* ---- the page that all ranks and launchers share --------------------------------- */

/* Streams of collectives; rt.h has RT_GATHER and RT_REDUCE. RT_CONTROL: small exchanges of the
 * step; RT_MAIL: exchanges of saves; RT_JOIN: begins and ends of meets. */
enum { RT_CONTROL = 2, RT_MAIL = 3, RT_JOIN = 4, RT_STREAMS = 5, RT_SUM_WORDS = 256 };
enum { RT_MAX_SAID = 128 };

/* Places of a rank outside the step. */
enum {
    RT_AT_START = -1,
    RT_AT_DATA = -2,
    RT_AT_INIT = -3,
    RT_AT_SETUP = -4,
    RT_AT_LOG = -5,
    RT_AT_HASH = -6,
    RT_AT_END = -7,
    RT_AT_SAVE = -8,
    RT_AT_LOAD = -9,
    RT_AT_OPEN = -10
};

typedef struct RtRankShared {
    /* collectives begun, by stream */
    _Alignas(128) _Atomic uint64_t published[RT_STREAMS];
    _Atomic uint64_t finished;       /* exchanges of the control area that it has read */
    _Atomic uint64_t mail_read;      /* mails of all ranks that it has read */
    _Alignas(128) _Atomic int place; /* index into RtTrainer.places, or RT_AT_* */
    _Atomic int64_t step;            /* 1-based; 0: before the first */
    _Atomic int64_t moved_ns;        /* clock at its last progress */
    _Atomic int64_t looked_ns;       /* CUDA: when its host last looked at its device */
    _Atomic int waiting;             /* stream it waits on, or -1 */
    _Atomic uint64_t waiting_count;  /* it waits until all ranks have published this many */
    _Atomic int waiting_subject;     /* subject of that collective, or -1 */
    _Atomic RtGroup waiting_group;   /* and its members */
    _Atomic int done;                /* it ended successfully */
    _Atomic uint32_t
        control_bytes;           /* CUDA: size of its control area's part for others */
    _Atomic uint32_t mail_bytes; /* likewise of its mail */
    uint64_t numerics_hash, platform_hash;
} RtRankShared;

/* The contents of the run's line, after a step or before the first. */
typedef struct RtLine {
    int64_t step, steps; /* of this many */
    double loss, eval_loss, grad_norm, lr;
    bool has_loss, evaluated, has_eval; /* without a target there is no loss */
    double tokens_per_second, mfu;      /* 0: unknown */
    double left_seconds;                /* 0: unknown */
    int64_t memory_bytes;               /* high-water mark of rank 0 */
    int64_t told_ns;                    /* clock when this was true */
} RtLine;

/* The last line of a terminal: rank 0 sets its contents, the process that watches rank 0 draws it
 * (rt_live.c), and every writer of another line erases it first. */
typedef struct RtLive {
    _Atomic int on;     /* stdout is a terminal that can have such a line */
    _Atomic int busy;   /* some process holds `line`, or writes to the terminal */
    _Atomic int erased; /* since it was drawn */
    RtLine line;
    /* hashes of warnings that a rank has printed, so that others do not */
    _Atomic uint64_t said[RT_MAX_SAID];
} RtLive;

typedef struct RtShared {
    _Alignas(128) _Atomic uint32_t bell; /* rung at every publication: a futex */
    _Atomic uint32_t sleepers;           /* ranks that listen */
    _Alignas(128) _Atomic int abort;     /* exit code of the job once a rank failed */
    _Atomic int telling;                 /* ranks that are about to print why they fail */
    _Atomic int signal;                  /* a signal asked the job to end */
    _Atomic int again;                   /* it ended with a checkpoint to resume from */
    RtRankShared rank[RT_MAX_RANKS];
    RtLive live;
    uint64_t mail[RT_MAX_RANKS][RT_SUM_WORDS];
    bool elsewhere[RT_MAX_RANKS]; /* CUDA: ranks of other machines (rt_machines.c) */
} RtShared;

/* Number of this machine's ranks below `rank`: its index among them, or for world_size their
 * total. */
static inline int rt_ranks_here(const RtShared *shared, int rank)
{
    int n = 0;
    for (int r = 0; r < rank; r++)
        n += !shared->elsewhere[r];
    return n;
}

/* ---- one rank -------------------------------------------------------------------- */

/* Does it count targets and losses? Of ranks that have the same ones, as they share the parts, one
 * does. */
static inline bool rt_counts(const Rt *rt)
{
    return ((RtGroup)rt->rank & ~rt->trainer->data) == 0;
}

enum { RT_QUEUE = 64 };
typedef struct RtQueue {
    RtOp op[RT_QUEUE];
    /* Over the whole run. The step's thread starts, the thread that drives the queue completes. */
    _Atomic uint64_t started, completed;
    uint64_t *last; /* by subject: the value of `started` after its last start */
    _Atomic uint64_t
        rounds;     /* complete publications: some operations have several */
    int round;      /* of the operation at the head */
    bool published; /* peers can see that round */
} RtQueue;

typedef struct RtTokens RtTokens; /* rt_data.c */

/* The step with the lowest loss on held-out data so far (rt_best.c). */
typedef struct RtBest {
    int64_t step; /* 0: none */
    double loss;
    int64_t tokens; /* number of targets in that mean */
    int64_t waited; /* later evaluations without improvement */
} RtBest;

enum { RT_MAX_STOPS = 64 };

typedef struct RtState {
    RtFlags flags;
    RtShared *shared;
    int spins; /* tries before a waiting rank sleeps */
    RtQueue queue[2];
    _Atomic int comm_stop; /* tells the communication thread to end */
    pthread_t comm;
    uint64_t exchanges;
    /* data */
    RtTokens *tokens;
    struct RtDigests *digests; /* of all data */
    int64_t step;              /* of the run, 0-based */
    int64_t first_step;        /* the first step of this process: earlier ones were resumed */
    int64_t order_step;        /* where the order of data starts; before it, this much was seen: */
    int64_t order_samples, order_tokens;
    int64_t micro_batch;       /* loaded last */
    int64_t round;             /* of merges */
    double *losses;            /* [micro_batches], filled for this rank's */
    int64_t targets;           /* unmasked, in this rank's micro-batches of the step */
    /* the step's results, equal on all ranks */
    double loss, grad_norm, clip_factor;
    /* on held-out data; equal on all ranks */
    RtTokens *held_out;
    int64_t eval_micro_batches, eval_left_over, eval_tokens;
    double eval_loss;
    bool evaluated;       /* after this step */
    RtBest best;
    int64_t valid_tokens; /* targets of all ranks: the divisor of loss and gradient */
    RtParts parts;
    uint64_t superacc[RT_SUPERACC_WORDS];
    double beta1_power, beta2_power; /* beta^t after t updates */
    bool skip; /* no update in this step: loss or norm is not finite, or there is no target */
    int64_t skipped, skipped_in_a_row; /* skipped updates; and those in a row that no smaller loss
                                        * scale could save */
    double loss_scale;                 /* current; 0: none */
    int64_t scaled_updates;            /* updates since it changed */
    bool overflowed;                   /* skip: a smaller loss scale may help */
    /* counters (--stats) */
    int64_t tokens_done, gathered_bytes, reduced_bytes, replicate_bytes, node_bytes,
        matrix_bytes, met_bytes;
    double wait_seconds;
    int64_t peak_bytes; /* the largest memory of a rank, known at the end */
    FILE *log;
    bool replaces_log; /* it is of another run, and --force is given */
    struct RtLines *log_lines; /* of a log in a pipe or on a device; or NULL */
    struct RtEvents *events;   /* rank 0; NULL: without --tensorboard */
    char lost[RT_ERROR_BYTES]; /* the error with which the run fails at its end; empty: none */
    double started_seconds;
    _Atomic int64_t gives_way_ns; /* clock after which slow work gives way to the end of the run,
                                   * rt_due_soon; 0: never */
    struct RtCheckpoint *checkpoint; /* NULL: without --checkpoint */
    int shared_fd;                   /* of the memory that all ranks share */
    const char *weights_from;        /* the folder read by --init or a command; or NULL */
    bool weights_listed;             /* it was found among a run's checkpoints */
    /* `trainer sample` ends at one of these ids */
    int64_t stop[RT_MAX_STOPS];
    int n_stops;
} RtState;

#endif
