/* SPDX-License-Identifier: MIT-0 */
/* rt_flags.h: what a command line asks of a trainer (rt_flags.c). */
#ifndef RT_FLAGS_H
#define RT_FLAGS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { RT_TRAIN, RT_SAMPLE, RT_EVAL, RT_VERIFY, RT_LS, RT_COMMANDS } RtCommand;
enum { RT_MAX_DATA = 64, RT_ERROR_BYTES = 768 };
typedef struct RtFlags {
    RtCommand command;
    const char *folder; /* of `trainer verify` and `trainer ls` */
    const char *data[RT_MAX_DATA];
    int n_data;
    const char *eval[RT_MAX_DATA]; /* held-out data */
    int n_eval;
    int64_t eval_every;     /* steps; 0: only after the last */
    int64_t eval_sequences; /* the first so many of it; 0: all */
    const char *prompt;
    int64_t sample_tokens, top_k; /* top_k 0: all */
    double temperature, top_p;
    const char *stop; /* ids that end a sample, or "none"; NULL: the model's */
    int64_t steps; /* stop here */
    int64_t seed;
    bool seed_given;
    int argc; /* as it was given */
    char **argv;
    int color;         /* RtColor */
    bool verbose;      /* hashes, memory, digests, products */
    int64_t log_every; /* steps; 0: as suits where stdout goes */
    const char *log;   /* JSON lines */
    const char *tensorboard; /* folder of event files */
    const char *stats; /* counters of every rank, one JSON object */
    const char *debug_gradients;
    bool weights_hash, numerics_hash, guard, quiet, local, force, json;
    bool loopback;          /* CUDA: ranks share GPUs */
    const char *meet;       /* CUDA: HOST:PORT where machines meet; NULL: a launcher's */
    const char *secret;     /* file of the job's secret; NULL: the environment's */
    bool tune_kernels;      /* CUDA: find algorithms of matrix products, no training */
    const char *profile;    /* CUDA: where the time of kernels is written */
    const char *kernels;    /* the file of those; NULL: the one beside the trainer */
    bool no_graphs;         /* CUDA: steps are enqueued call by call */
    const char *init;       /* a model's or a run's folder; NULL: random */
    const char *checkpoint; /* the folder; NULL: none are written */
    int64_t checkpoint_every; /* steps; 0: only at the end */
    double checkpoint_seconds;
    double stop_seconds;      /* after the start the run is to have saved; 0: no limit */
    int64_t started_ns;       /* clock of the start */
    int64_t keep, keep_every; /* the newest so many, 0: all; and each so many steps */
    bool keep_best;   /* and the one with the lowest loss over held-out data */
    int64_t patience; /* evaluations that are no better, then the run ends; 0: no end */
    bool best;        /* of a run's folder that one's weights, not the newest's */
    bool dry_run;
    bool resume, must_resume; /* must: there has to be a checkpoint */
    bool accept_data, accept_numerics;
    bool check_data; /* hash all data at start, whatever the cache knows */
    bool keep_going, wait_for_saves, one_writer;
    int64_t threads;         /* of each rank; 0: its share of the cores */
    double deadline_seconds; /* 0: derived from the plan */
    double peak_tflops;      /* of one rank, for MFU; 0: unknown */
} RtFlags;

#endif
