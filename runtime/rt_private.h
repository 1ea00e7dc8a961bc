/* SPDX-License-Identifier: MIT-0 */
/* rt_private.h: what the files of the runtime share and emitted code does not see. */
#ifndef RT_PRIVATE_H
#define RT_PRIVATE_H

#include "rt.h"

#include <stdatomic.h>
#include <stdio.h>

/* Exit codes of a trainer. */
enum { RT_EXIT_OK = 0, RT_EXIT_ERROR = 1, RT_EXIT_USAGE = 2, RT_EXIT_GATE = 5 };

/* ---- rt_flags.c ---------------------------------------------------------------------------- */

enum { RT_MAX_DATA = 64 };
typedef struct RtFlags {
    const char *data[RT_MAX_DATA];
    int n_data;
    int64_t steps;           /* stop here; -1: the schedule's length */
    int64_t seed;
    const char *log;         /* JSON lines */
    const char *stats;       /* counters of every rank, one JSON object */
    const char *debug_gradients;
    bool weights_hash, numerics_hash, guard, quiet;
    int threads;             /* of each rank; 0: cores / ranks */
    double deadline_seconds; /* 0: derived from the plan */
    double peak_tflops;      /* of one rank, for MFU; 0: unknown */
} RtFlags;
/* Returns -1 to go on, or an exit code. */
int rt_flags_parse(RtFlags *f, const RtTrainer *t, int argc, char **argv);

/* ---- the page that all ranks and the launcher share ------------------------------------------ */

enum { RT_CONTROL = 2, RT_STREAMS = 3 };

typedef struct RtRankShared {
    _Alignas(128) _Atomic uint64_t published[RT_STREAMS]; /* collectives begun, by stream */
    _Atomic uint64_t finished[RT_STREAMS];                /* and completed */
    _Atomic int place;                   /* index into RtTrainer.places */
    _Atomic int waiting;                 /* 1 while waiting for peers */
    _Atomic int64_t waiting_segment;     /* segment of the collective it waits in, or -1 */
    _Atomic int64_t step;
    _Atomic int64_t moved_ns;            /* clock when it last made progress */
    _Atomic int64_t alive_ns;            /* clock when it last did anything, waiting included */
    _Atomic int done;
} RtRankShared;

typedef struct RtShared {
    _Atomic int abort;                   /* somebody failed: leave */
    _Atomic int launcher_pid;
    RtRankShared rank[RT_MAX_RANKS];
} RtShared;

/* ---- one rank ---------------------------------------------------------------------------------- */

enum { RT_QUEUE = 64 };
typedef enum { RT_OP_GATHER, RT_OP_REDUCE_SCATTER, RT_OP_ALL_REDUCE } RtOpKind;
typedef struct RtOp {
    RtOpKind kind;
    int segment;
    int64_t from, to;        /* byte offsets */
} RtOp;

typedef struct RtQueue {
    RtOp op[RT_QUEUE];
    uint64_t started, completed; /* over the whole run; tickets count from step_base */
    uint64_t step_base;
    bool published;          /* the op at the head is visible to peers */
} RtQueue;

typedef struct RtTokens RtTokens; /* rt_data.c */

typedef struct RtState {
    RtFlags flags;
    RtShared *shared;
    RtQueue queue[2];
    uint64_t control_rounds;
    /* data */
    RtTokens *tokens;
    int64_t step;            /* of the run, 0-based */
    int64_t micro_batch;     /* loaded last */
    double *losses;          /* [micro_batches], this rank's filled */
    /* the step's results, equal on all ranks */
    double loss, grad_norm, clip_factor;
    uint64_t superacc[RT_SUPERACC_WORDS];
    double beta1_power, beta2_power; /* beta^t after t updates */
    int64_t updates;
    /* counters (--stats) */
    int64_t tokens_done, gathered_bytes, reduced_bytes;
    double wait_seconds;
    FILE *log;
    double started_seconds;
} RtState;

/* ---- rt_comm.c --------------------------------------------------------------------------------- */

/* Runs body between two barriers of all ranks; see rt_comm.c. */
void rt_exchange_begin(Rt *rt);  /* my control area may be written: everybody has read it */
void rt_exchange_publish(Rt *rt);/* and now read: everybody has written */
void rt_exchange_end(Rt *rt);    /* I have read */
void rt_comm_step_end(Rt *rt);   /* every started collective is complete; tickets restart */
/* A failure of this rank: prints `[rank R] ...`, tells the others, ends the process. */
_Noreturn void rt_fail(const Rt *rt, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- rt_norm.c, rt_update.c ---------------------------------------------------------------------- */

typedef struct RtRun {       /* consecutive elements of one parameter in this rank's shard */
    const RtParam *param;
    int param_id;
    int64_t shard_offset_elems, element, elems;
} RtRun;
/* Calls fn for every run of the segment's shard held by this rank. */
void rt_shard_runs(const Rt *rt, int segment, void (*fn)(void *ctx, const RtRun *run), void *ctx);
int64_t rt_shard_index(const Rt *rt, int segment); /* which shard this rank holds */
double rt_learning_rate(const RtTrainer *t, int64_t step);
size_t rt_dtype_bytes(RtDtype d);

/* ---- rt_init.c, rt_hash.c, rt_philox.h ------------------------------------------------------------ */

void rt_init_weights(Rt *rt);
uint64_t rt_weights_hash(Rt *rt);
uint64_t rt_hash64(const void *data, size_t bytes, uint64_t seed);
uint64_t rt_platform_hash(const RtTrainer *t, char *text, size_t text_bytes);
void rt_debug_gradients(Rt *rt, const char *path);

/* ---- rt_data.c -------------------------------------------------------------------------------------- */

RtTokens *rt_tokens_open(const RtTrainer *t, const RtFlags *f, char *error, size_t error_bytes);
int64_t rt_tokens_samples(const RtTokens *d);
/* Fills tokens and targets of global sample `index`; NULL, or what is wrong. */
const char *rt_tokens_read(const RtTokens *d, int64_t index, int64_t seed, int32_t *tokens,
                           int32_t *targets);

/* ---- rt_shm.c, rt_launch.c, rt_log.c ------------------------------------------------------------------ */

typedef struct RtMemfd { int fd; int64_t bytes; } RtMemfd;
int rt_shared_create(const RtTrainer *t);    /* descriptor, or -1 with errno */
bool rt_arena_map(Rt *rt, int fd, bool guard, char *error, size_t error_bytes);
int rt_launch(const RtTrainer *t, const RtFlags *f);
/* As a rank of a launcher's job; -1 when no launcher started this process. */
int rt_join(const RtTrainer *t, const RtFlags *f);
int rt_rank_main(const RtTrainer *t, const RtFlags *f, int fd, int rank, int threads);
void rt_log_start(Rt *rt);
void rt_log_step(Rt *rt, double seconds);
void rt_log_end(Rt *rt);
double rt_clock(void);       /* seconds, monotonic */
int64_t rt_memory_high_water_bytes(void);

#endif
