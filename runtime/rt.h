/* SPDX-License-Identifier: MIT-0 */
/* rt.h: everything an emitted trainer asks of its runtime.
 *
 * An emitted folder fills one RtTrainer (trainer.c, tables.c) and hands it to rt_main, which
 * parses flags, starts the local ranks, maps each rank's arena, reads data, calls the emitted
 * step, and logs. All sizes and offsets are constants of the plan. Shared memory is anonymous
 * and inherited by the ranks; peers' symmetric spaces are mapped at start. Nothing here
 * allocates during a step. */
#ifndef RT_H
#define RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of the copy in an emitted folder: the hash of all its files, which fsdpgen writes here and
 * trainer.c compares. */
#define RT_IDENTITY 0

enum { RT_MAX_RANKS = 1024, RT_GRAIN_ELEMS = 1024, RT_MAX_DIMS = 4 };

typedef uint16_t rt_bf16, rt_f16;
/* RT_SPLIT: of masters: 16 bits that make a bf16 weight a float (rt_math.h). */
typedef enum { RT_F32, RT_F64, RT_BF16, RT_F16, RT_SPLIT } RtDtype;

typedef struct Rt Rt;

/* A group of ranks: a mask of the rank's bits. It joins the ranks that differ in these bits
 * alone, which number its ranks 0, 1, ..., low bits first; 0: a group of one. World sizes are
 * powers of two, and no code divides a rank. */
typedef uint32_t RtGroup;
static inline int rt_group_ranks(RtGroup g)
{
    return 1 << __builtin_popcount(g);
}
/* The number of a rank in its group, and the rank of a number there. */
static inline int rt_group_index(RtGroup g, int rank)
{
    int index = 0, place = 0;
    for (; g != 0; g &= g - 1)
        index |= (rank >> __builtin_ctz(g) & 1) << place++;
    return index;
}
static inline int rt_group_rank(RtGroup g, int rank, int index)
{
    int other = (int)((uint32_t)rank & ~g), place = 0;
    for (; g != 0; g &= g - 1)
        other |= (index >> place++ & 1) << __builtin_ctz(g);
    return other;
}

/* ---- what tables.c describes ----------------------------------------------------- */

/* A Hugging Face tensor inside a fused storage tensor: consecutive rows along dim 0. */
typedef struct RtPart {
    const char *name;
    int64_t rows;
} RtPart;

/* One storage tensor. Its place in the flat segment is the whole truth about its sharding. */
typedef struct RtParam {
    const char *name;
    int segment;
    int64_t offset_elems;    /* in the segment, a multiple of RT_GRAIN_ELEMS */
    int64_t elems;           /* of all parts */
    int n_dims;
    int64_t dim[RT_MAX_DIMS];
    int cut_dim;             /* its segment's axes cut it along this one, in equal parts */
    int init;                /* RT_INIT_* */
    double init_std;
    double weight_decay;     /* of this parameter */
    double lr_ratio;         /* of the step's learning rate; 0, as left out, stands for 1 */
    int file;                /* of a checkpoint: 0, 1, ... */
    int64_t file_elems;      /* weights before it in that file */
    int n_parts;
    const RtPart *parts;
    int first_matrix, n_matrices; /* in RtTrainer.matrices: those that an optimizer treats
                                     whole; 0: element by element */
} RtParam;
enum { RT_INIT_ZEROS, RT_INIT_ONES, RT_INIT_NORMAL };

/* One flat buffer, one collective. Offsets are bytes in the symmetric (S) or local (L) space.
 *
 * The ranks of a group `within` hold a copy of the segment, a part each, in the order of their
 * numbers there: weights are gathered and gradients reduced among them. Ranks that hold the same
 * part are a group `across`, over which sums go then. */
typedef struct RtSegment {
    const char *name;
    RtDtype dtype;           /* of the weights in storage */
    RtGroup axes;            /* ranks along them hold a part of each parameter: the segment is
                                of this rank's parts; 0: each rank has all */
    int64_t elems;           /* padded: shard_elems * shards */
    int64_t shard_elems;
    int shards;              /* ranks of a copy; 1: each rank holds all of it (NO_SHARD) */
    bool params_whole;       /* each rank holds all weights, and updates its part of them */
    RtGroup within, across;
    RtGroup between;         /* ranks that share the weights from forward to backward; 0: none */
    RtGroup same;            /* ranks that hold the same part, whatever they compute */
    int first_param, n_params; /* in layout order: indices into RtTrainer.segment_params */
    int64_t param_shard;     /* S: dtype [shard_elems], what all_gather reads; [elems]
                                where each rank holds all weights */
    int64_t master;          /* L: master dtype [shard_elems]; -1: param_shard is the master */
    int64_t moment1, moment2;/* L: moments dtype [shard_elems]; -1: none */
    int64_t grad_shard;      /* reduce dtype [shard_elems]; the step's summed gradient. L, but S
                                where there are several copies, which sum it in place; -1:
                                frozen, without a master too */
    int64_t grad_accum;      /* S: reduce dtype [elems]: what unsharded accumulation merges; -1:
                                it merges grad_shard */
    int64_t partials;        /* L: reduce dtype [levels][partial_elems]; -1: none */
    int64_t partial_elems;   /* shard_elems (sharded accumulation) or elems (unsharded) */
    int64_t direction;       /* S: dtype of sums [shard_elems], for a batch of matrices: what an
                                optimizer makes a step of; only where the segment has some */
} RtSegment;

/* What an optimizer does to a whole matrix: its elements row after row, in the dtype of sums;
 * `to` may be `from`. On CUDA it enqueues. */
#ifdef RT_CUDA
typedef void (*RtMatrixKernel)(Rt *rt, const void *from, void *to, char *workspace);
#else
typedef void (*RtMatrixKernel)(const void *from, void *to, char *workspace);
#endif

/* Consecutive rows of a parameter that are a matrix of their own: one rank computes it whole, so
 * that its bits know no mesh. The parameter's other ranks send it their parts, and fetch theirs
 * of the result. */
typedef struct RtMatrix {
    int param;
    int64_t element;         /* its first in the parameter */
    int64_t rows, cols;
    int owner;               /* this rank */
    int64_t owned_elems;     /* where it lies there, in its batch's buffer */
    double lr_adjust;        /* multiplies the learning rate: of its shape */
    RtMatrixKernel kernel;
} RtMatrix;

/* Matrices that travel together. */
typedef struct RtBatch {
    int first_matrix, n_matrices;
    int64_t owned;           /* S: dtype of sums: those of this rank; -1: one rank, in place */
    int64_t workspace;       /* L: of the kernels */
} RtBatch;

/* A group whose sums take two hops, so that a part crosses once for each node and not for each
 * rank: first the ranks `near`, of a node, sum the parts among themselves, in place, each those
 * of its counterparts in all nodes; then counterparts, `far`, add the nodes' sums. Groups are
 * numbered low bits first, and the lowest are a node's, so this is the same tree. */
typedef struct RtHops {
    RtGroup group, near, far;
} RtHops;

typedef struct RtOptimizer {
    double lr, beta1, beta2, clip; /* clip 0: no clipping */
} RtOptimizer;

/* Of step 0, 1, ... the ratio of its learning rate to the optimizer's (rt_schedule.c). */
typedef struct RtSchedule {
    double (*ratio)(const struct RtSchedule *s, int64_t step);
    int64_t warmup_steps, steps, decay_steps;
    double min_ratio;
} RtSchedule;
double rt_lr_constant(const RtSchedule *s, int64_t step);
double rt_lr_linear(const RtSchedule *s, int64_t step);
double rt_lr_cosine(const RtSchedule *s, int64_t step);
double rt_lr_wsd(const RtSchedule *s, int64_t step);
double rt_lr_inverse_sqrt(const RtSchedule *s, int64_t step);

/* Dynamic loss scaling of f16 (rt_scale.c): powers of two; init 0: none. */
typedef struct RtLossScale {
    double init, min, factor;
    int64_t interval;        /* updates in a row after which it grows */
} RtLossScale;

/* One line of the plan's memory table, shown at start and in the log. */
typedef struct RtMemory {
    const char *what;
    int64_t bytes;
} RtMemory;

typedef struct RtTrainer {
    const char *name;
    const char *generator;           /* "fsdpgen 0.1.0" */
    uint64_t numerics_hash;
    uint64_t identity;               /* of the description and the files of its plan */
    const char *mesh;                /* the degree of each axis, a JSON object */
    int world_size;
    RtGroup all;                     /* the ranks */
    RtGroup replicate;               /* ranks of different copies in the mesh: for counters */
    RtGroup nodes;                   /* ranks of different nodes; 0: there is one node */
    RtGroup data;                    /* ranks that compute leaves of their own; together all */
    RtDtype param_dtype, reduce_dtype, master_dtype, moments_dtype;
    int64_t seq_tokens, vocab;
    int64_t micro_batch;             /* sequences */
    int64_t micro_batches;           /* M of a step */
    int64_t leaves;                  /* V */
    bool masked;                     /* beside each data file X, X.mask */
    int n_hops;                      /* groups whose sums go within nodes first */
    const RtHops *hops;
    bool library_order;              /* reduction = "library": sums over ranks in their order */
    bool comm_thread;                /* collectives run on a thread of their own */
    bool packed;                     /* samples hold documents that end with document_end */
    int64_t document_end;
    int64_t rounds;                  /* leaves of a rank: see rt_leaf */
    RtGroup summed_first;            /* ranks whose leaves of one round are summed at its end; */
    RtGroup summed_last;             /* the other data ranks: summed after all rounds */
    int64_t seed;
    int64_t max_skipped;             /* updates in a row; one more ends the run */
    RtOptimizer optimizer;
    RtSchedule schedule;
    RtLossScale loss_scale;
    double flops_per_token;          /* 6 P_matmul + 6 layers dim_attention seq */
    double peak_tflops;              /* that a rank's device can do; 0: unknown */
    double planned_step_seconds;     /* 0: unknown; deadlines derive from it */
    int64_t params_elems;
    int64_t symmetric_bytes, local_bytes;   /* the planned arena, exactly */
    int64_t snapshot_bytes;          /* host memory for saves beside training: what the rank
                                        that writes most of a checkpoint writes */
    int n_params;
    const RtParam *params;
    int n_segments;
    const RtSegment *segments;
    const int *segment_params;       /* param ids, segment after segment */
    int n_batches;                   /* 0: the optimizer treats no matrix as a whole */
    const RtMatrix *matrices;        /* parameter after parameter */
    const RtBatch *batches;
    int n_values;                    /* what else collectives carry, by name */
    const char *const *values;
    int n_memory;
    const RtMemory *memory;
    int64_t tokens_offset, targets_offset;  /* L: i32 [micro_batch * seq] each */
    int64_t starts_offset;                  /* the same, where packed */
    int64_t row_offset;              /* L: i32 [1]: the token whose logits evaluate leaves */
    int64_t logits_offset;           /* at this place; L: param dtype [vocab] */
    int64_t control_offset;          /* S: RT_CONTROL_BYTES(micro_batches) */
    int64_t staging_offset;          /* CUDA, L: parts of other ranks on their way into a sum; */
    int64_t staging_bytes;           /* 0: no sums over ranks */
    int64_t library_offset;          /* CUDA, L: workspace of matrix products */
    int64_t library_bytes;
    const char *const *places;       /* names of schedule points: "layers.7 layer_forward" */
    int n_places;
    int n_files;                     /* of a checkpoint's weights; 0: it cannot write any */
    const char *config;              /* config.json of the model; NULL: Hugging Face has none */
    const char *numerics;            /* what the numerics hash is made of, a field a line */
    const char *build_flags;         /* CFLAGS, for the platform hash */
    const char *arithmetic;          /* a checksum of the code that computes, for the same */
    void (*setup)(Rt *rt);           /* constants; once, after initialisation of the arena */
    void (*step)(Rt *rt);            /* one optimizer step */
    void (*evaluate)(Rt *rt);        /* between steps: the loss of a micro-batch, logits of
                                        one token; NULL: no op tells how */
} RtTrainer;

/* The superaccumulator, the number of targets, losses f64 [micro_batches]: in the symmetric
 * space. */
#define RT_SUPERACC_WORDS 72
#define RT_CONTROL_BYTES(micro_batches) \
    ((int64_t)(((micro_batches) * 8 + RT_SUPERACC_WORDS * 8 + 4096 + 255) / 256 * 256))

/* ---- what an emitted step calls -------------------------------------------------- */

struct Rt {
    char *symmetric;                 /* this rank's spaces */
    char *local;
    char *peer[RT_MAX_RANKS];        /* symmetric spaces of all ranks; peer[rank] == symmetric */
    int rank, world_size, threads;
    const RtTrainer *trainer;
    struct RtState *state;           /* private to the runtime */
};

static inline void *rt_symmetric(const Rt *rt, int64_t offset) { return rt->symmetric + offset; }
static inline void *rt_local(const Rt *rt, int64_t offset) { return rt->local + offset; }

int rt_main(const RtTrainer *trainer, int argc, char **argv);

/* The schedule point this rank is at; the launcher shows it when a rank dies or stalls. */
void rt_at(Rt *rt, int place);

/* Copies micro-batch `index` (global, 0..M-1, of this step) into the token buffers. */
void rt_load_micro_batch(Rt *rt, int64_t index);

/* Collectives run in order on two streams, gather and reduce. A start enqueues and returns;
 * the matching wait returns when this rank's result is complete; a reduction's also waits until
 * all ranks have read, so that the gradient may be written again. While a rank waits it makes
 * progress on both streams, so no order of waits can deadlock. */
enum { RT_GATHER, RT_REDUCE };

/* out[shards * shard_elems] = param_shard of every rank of this copy, in rank order. out: local
 * offset; between GPUs, whose ranks write where it lands, a symmetric one. */
void rt_all_gather_start(Rt *rt, int segment, int64_t out);
/* Where each rank holds all weights: the part that each rank of this copy has updated, to all of
 * them, in place. Waited for like an all_gather. */
void rt_gather_updated_start(Rt *rt, int segment);
/* From forward to backward the group `between` may hold the weights, an equal part each: keeps
 * this rank's part of `gathered` (offset as above) in `kept` (symmetric offset); then out = kept
 * of every rank of the group, in rank order. */
void rt_keep(Rt *rt, int segment, int64_t gathered, int64_t kept);
void rt_kept_gather_start(Rt *rt, int segment, int64_t kept, int64_t out);
/* result = sum over the ranks of this copy of their `grad` at this rank's shard, by the balanced
 * binary tree over ranks, each node rounded to reduce dtype. grad: symmetric offset, [elems] in
 * reduce dtype; result: the segment's grad_shard. */
void rt_reduce_scatter_start(Rt *rt, int segment, int64_t grad, int64_t result);
/* grad = the same sum over copies of the ranks' [shard_elems] at `grad` (symmetric offset), in
 * place, equal on all of them. */
void rt_all_reduce_start(Rt *rt, int segment, int64_t grad);
/* For the collective of a segment that was started last. */
void rt_wait_gather(Rt *rt, int segment);
void rt_wait_reduce(Rt *rt, int segment);

/* The leaf that this rank computes in a round. Low bits first, as the sums pair up: its place
 * among the ranks that are summed in each round, the round, its place among the others. */
static inline int64_t rt_leaf(const Rt *rt, int64_t round)
{
    const RtTrainer *t = rt->trainer;
    const RtGroup low = t->summed_first, high = t->summed_last;
    return (rt_group_index(high, rt->rank) * t->rounds + round) * rt_group_ranks(low) +
           rt_group_index(low, rt->rank);
}
/* Merges that follow are of this rank's leaf number `round` (0, 1, ...) in this step. */
void rt_round(Rt *rt, int64_t round);
/* Binary-counter merge of tree nodes, in leaf order (DESIGN: one tree). The node is the round's
 * sum of the segment: grad_accum, or, sharded, grad_shard. With t trailing ones in the round's
 * number:
 *   v = node; for l in 0..t-1: v = round_to_dtype(partials[l] + v); then
 *   last round: node = v, else partials[t] = v. */
void rt_merge_segment(Rt *rt, int segment);

/* Exact norm: adds the squares of this rank's shard of the segment's summed gradient. */
void rt_norm_add(Rt *rt, int segment);
/* The step's one small all-reduce: superaccumulator words and losses; computes the loss, the
 * gradient norm, and the update scale = clip / valid_tokens. Where one of the two is not finite
 * the step's updates do nothing, on all ranks: weights and moments stay, bias corrections too. */
void rt_norm_reduce(Rt *rt);
/* What the emitted optimizer kernel needs for this step. */
typedef struct RtUpdate {
    float scale;             /* multiplies the summed gradient */
    float lr;
    float bias1, bias2;      /* 1 - beta1^t, 1 - beta2^t */
    double scale64, lr64, bias1_64, bias2_64;
    uint64_t noise;          /* seed of this step's stochastic rounding */
    int64_t skip;            /* CUDA, where the host does not know it: not 0, do nothing */
} RtUpdate;
RtUpdate rt_update(const Rt *rt);
/* Consecutive elements of one parameter inside this rank's shard, and where they lie. */
typedef struct RtUpdateRun {
    const RtParam *param;
    int64_t element, elems;  /* element: the first one's index in its parameter */
    void *weights;           /* param dtype */
    void *master;            /* master dtype; the weights themselves where they are it;
                                RT_SPLIT: what the weights lack */
    void *moment1, *moment2; /* moments dtype; NULL where the optimizer has none */
    const void *grad;        /* reduce dtype: the step's sum */
    void *direction;         /* of a matrix: dtype of sums */
    double lr_ratio;         /* multiplies the step's learning rate */
    double lr_adjust;        /* of a matrix: besides */
    double weight_decay;
} RtUpdateRun;
/* Calls kernel for every run of the segment but those of matrices; pads are never visited. On
 * CUDA it enqueues, and u lies in device memory: what depends on the step's norm the host does
 * not know yet. */
#ifdef RT_CUDA
typedef void (*RtUpdateKernel)(Rt *rt, const RtUpdate *u, const RtUpdateRun *run);
#else
typedef void (*RtUpdateKernel)(const RtUpdate *u, const RtUpdateRun *run);
#endif
void rt_update_segment(Rt *rt, int segment, RtUpdateKernel kernel);

/* Matrices, in the end of a step (rt_matrix.c): rt_update_matrices calls kernel for the runs of
 * matrices in this rank's shard. Between the one that fills their directions and the one that
 * takes the step, each batch goes to its owners (on the gather stream), is computed there, and
 * comes back (on the reduce stream). Both are complete when all ranks have read. Where the
 * update is skipped the bytes travel all the same, and nothing is computed (on CUDA, where
 * the host does not know it: nobody reads what is). */
void rt_update_matrices(Rt *rt, int segment, RtUpdateKernel kernel);
void rt_to_owners_start(Rt *rt, int batch);
void rt_wait_to_owners(Rt *rt, int batch);
void rt_compute_matrices(Rt *rt, int batch);
void rt_from_owners_start(Rt *rt, int batch);
void rt_wait_from_owners(Rt *rt, int batch);

/* Random bits by which elements [from, from + n) of the run round a number that is kept in
 * bf16: a function of seed, step, parameter and element (rt_philox.h), and of nothing
 * else. */
enum { RT_NOISE_MASTER = 5, RT_NOISE_MOMENT1, RT_NOISE_MOMENT2 };
void rt_noise(const RtUpdate *u, const RtUpdateRun *run, int site, int64_t from,
              int64_t n, uint16_t *noise);

/* The loss sum of the micro-batch loaded last (f64). Where the emitted mathematics puts it. */
double *rt_loss_slot(Rt *rt);
/* What multiplies the gradient of that loss: a power of two. On CUDA it lies in device memory,
 * as everything does that differs from step to step. */
#ifdef RT_CUDA
const float *rt_loss_scale(const Rt *rt);
#else
float rt_loss_scale(const Rt *rt);
#endif

#ifdef RT_CUDA
/* Runs a part of the step: its calls one by one in the first step, then, unless with --no-graphs,
 * as the CUDA graph that was captured of them. */
typedef void RtStepPart(Rt *rt);
void rt_run(Rt *rt, RtStepPart *part);
#endif

#include "rt_math.h" /* dtype conversion, vectors, own exp, tanh, ...: inline, for kernels */
#include "rt_gemm.h" /* matrix products on fixed tiles */

#endif
