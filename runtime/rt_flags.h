/* SPDX-License-Identifier: MIT-0 */
/* rt_flags.h: the options of a trainer's command line (rt_flags.c). */
#ifndef RT_FLAGS_H
#define RT_FLAGS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { RT_TRAIN, RT_SAMPLE, RT_EVAL, RT_VERIFY, RT_LS, RT_COMMANDS } RtCommand;
enum { RT_MAX_DATA = 64, RT_ERROR_BYTES = 768 };
typedef struct RtFlags {
    RtCommand command;
    const char *folder; /* for `trainer verify` and `trainer ls` */
    const char *data[RT_MAX_DATA];
    int n_data;
    const char *eval[RT_MAX_DATA]; /* held-out data */
    int n_eval;
    int64_t eval_every;     /* steps; 0: only after the last */
    int64_t eval_sequences; /* only its first sequences; 0: all */
    const char *prompt;
    int64_t sample_tokens, top_k; /* top_k 0: all */
    double temperature, top_p;
    const char *stop; /* ids that end a sample, or "none"; NULL: the model's */
    int64_t steps; /* last step */
    double epochs; /* or when the data have been read so often; 0: not given */
    int64_t seed;
    bool seed_given;
    int argc; /* as given */
    char **argv;
    int color;         /* RtColor */
    bool verbose;      /* shows hashes, memory, digests, products */
    int64_t log_every; /* steps; 0: depends on what stdout is */
    const char *log;   /* JSON lines */
    const char *tensorboard; /* folder of event files */
    const char *stats; /* counters of every rank, one JSON object */
    const char *debug_gradients;
    bool weights_hash, numerics_hash, guard, quiet, local, force, json;
    bool loopback;          /* CUDA: several ranks per GPU */
    const char *meet;       /* CUDA: HOST:PORT where machines meet; NULL: the launcher's */
    const char *secret;     /* file with the job's secret; NULL: from the environment */
    bool tune_kernels;      /* CUDA: find algorithms for matrix products, without training */
    const char *calibrate;  /* file for measured rates, without training */
    const char *profile;    /* CUDA: file for the times of kernels */
    const char *kernels;    /* file of chosen algorithms; NULL: the one beside the trainer */
    bool no_graphs;         /* CUDA: enqueue steps call by call */
    bool new_rows; /* --init may have fewer rows of a vocabulary */
    const char *init;       /* a model's or a run's folder; NULL: random */
    const char *checkpoint; /* the folder; NULL: no checkpoints */
    int64_t checkpoint_every; /* steps; 0: only at the end */
    double checkpoint_seconds;
    double stop_seconds;      /* time after the start by which the run saves; 0: no limit */
    int64_t started_ns;       /* clock of the start */
    int64_t keep, keep_every; /* keep the newest N, 0: all; and one every so many steps */
    bool keep_best;   /* and the one with the lowest loss on held-out data */
    int64_t patience; /* evaluations without improvement before the run ends; 0: never ends */
    bool best;        /* read the weights of a run's best step, not its newest */
    bool dry_run;
    bool resume, must_resume; /* must: there has to be a checkpoint */
    bool accept_data, accept_numerics;
    bool check_data; /* hash all data at start, ignoring the cache */
    bool keep_going, wait_for_saves, one_writer;
    int64_t threads;         /* per rank; 0: its share of the cores */
    double deadline_seconds; /* 0: derived from the plan */
    double peak_tflops;      /* per rank, for MFU; 0: unknown */
} RtFlags;

#endif
