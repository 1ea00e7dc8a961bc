/* SPDX-License-Identifier: MIT-0 */
/* rt.h: everything an emitted trainer needs from its runtime.
 *
 * An emitted folder fills one RtTrainer (trainer.c, tables.c) and passes it to rt_main, which
 * parses flags, starts the local ranks, maps each rank's arena, reads data, calls the emitted step,
 * and logs. All sizes and offsets are constants of the plan. Shared memory is anonymous and
 * inherited by the ranks; peers' symmetric spaces are mapped at start. Nothing here allocates
 * during a step. */
#ifndef RT_H
#define RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the copy of an emitted folder: the hash of all its files, which fsdpgen writes here and
 * trainer.c compares. */
#define RT_IDENTITY 0

enum { RT_MAX_RANKS = 1024, RT_GRAIN_ELEMS = 1024, RT_MAX_DIMS = 4 };

typedef uint16_t rt_bf16, rt_f16;
/* RT_SPLIT: for masters: the 16 bits that extend a bf16 weight to a float (rt_math.h). */
typedef enum { RT_F32, RT_F64, RT_BF16, RT_F16, RT_SPLIT, RT_E4M3, RT_E5M2 } RtDtype;

typedef struct Rt Rt;

/* A group of ranks: a mask of bits of the rank. It joins the ranks that differ only in these bits,
 * and numbers them 0, 1, ... by these bits, low bits first; 0: a group of one. World sizes are
 * powers of two, and no code divides a rank. */
typedef uint32_t RtGroup;
static inline int rt_group_ranks(RtGroup g)
{
    return 1 << __builtin_popcount(g);
}
/* The number of a rank in its group, and the rank with a given number. */
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

/* ---- the contents of tables.c ---------------------------------------------------- */

/* A Hugging Face tensor inside a fused storage tensor: consecutive rows along dim 0. */
typedef struct RtPart {
    const char *name;
    int64_t rows;
} RtPart;

/* One storage tensor. Its place in the flat segment determines its sharding completely. */
typedef struct RtParam {
    const char *name;
    int segment;
    int64_t offset_elems;    /* in the segment, a multiple of RT_GRAIN_ELEMS */
    int64_t elems;           /* of all parts */
    int n_dims;
    int64_t dim[RT_MAX_DIMS];
    int boxes;               /* it is stored as: pieces along cut_dim, of each section of that dim;
                              * 0 or 1: one for each rank along the axes of its segment */
    int inner_boxes;         /* so many of them, one after the other, are of parts along context */
    int cut_dim;
    int n_sections;          /* 0: one */
    const int64_t *sections; /* elements of cut_dim */
    int init;                /* RT_INIT_* */
    double init_std;
    double weight_decay;     /* of this parameter */
    double lr_ratio;         /* relative to the step's learning rate; 0 (omitted) means 1 */
    int file;                /* number of its file in a checkpoint: 0, 1, ... */
    int64_t file_elems;      /* elements before it in that file */
    int n_parts;
    const RtPart *parts;
    int scale;               /* its number among the scales, if its segment is encoded */
    int first_matrix, n_matrices; /* in RtTrainer.matrices: those that an optimizer treats as a
                                   * whole; 0: updated element by element */
} RtParam;
enum { RT_INIT_ZEROS, RT_INIT_ONES, RT_INIT_NORMAL };

/* One flat buffer, one collective. Offsets are bytes in the symmetric (S) or local (L) space.
 *
 * The ranks of a group `within` hold one copy of the segment, a part each, in the order of their
 * numbers: weights are gathered and gradients reduced among them. Ranks that hold the same part
 * form a group `across`, which sums the result over copies. */
typedef struct RtSegment {
    const char *name;
    RtDtype dtype;           /* of the stored weights */
    RtGroup axes;            /* ranks along these hold a part of each parameter, and the segment
                              * consists of this rank's parts; 0: each rank has all of it */
    int64_t elems;           /* padded: shard_elems * shards */
    int64_t shard_elems;
    int shards;              /* ranks of a copy; 1: each rank holds all of it (NO_SHARD) */
    bool params_whole;       /* each rank holds all weights, and updates its part of them */
    RtGroup within, across;
    int within_ctas;         /* CUDA: multiprocessors that the sum within may take from the */
    int across_ctas;         /* computation beside it, and the one across; 0: no limit */
    RtGroup between;         /* ranks that share the weights from forward to backward; 0: none */
    RtGroup same;            /* ranks that hold the same part, whatever they compute */
    int first_param, n_params; /* in layout order: indices into RtTrainer.segment_params */
    int64_t param_shard;     /* S: dtype [shard_elems], read by all_gather; [elems] if each rank
                              * holds all weights */
    bool encoded;            /* gathered instead of the weights: their codes, which each rank makes of */
    int64_t codes;           /* the weights that it holds. S: e4m3, laid out as param_shard */
    int64_t master;          /* L: master dtype [shard_elems]; -1: param_shard is the master */
    int64_t moment1, moment2;/* L: moments dtype [shard_elems]; -1: none */
    int64_t grad_shard;      /* reduce dtype [shard_elems]: the step's summed gradient. L; S if
                              * several copies sum it in place; -1: frozen (then there is no master
                              * either) */
    int64_t grad_accum;      /* S: reduce dtype [elems]: merged by unsharded accumulation; -1: it
                              * merges grad_shard */
    int64_t partials;        /* L: reduce dtype [levels][partial_elems]; -1: none */
    int64_t partial_elems;   /* shard_elems (sharded accumulation) or elems (unsharded) */
    int64_t direction;       /* S: dtype of sums [shard_elems], for a batch of matrices: what an
                              * optimizer makes their step from; only if the segment has matrices */
} RtSegment;

/* What an optimizer does to a whole matrix: its elements row after row, in the dtype of sums; `to`
 * may equal `from`. On CUDA it enqueues. */
#ifdef RT_CUDA
typedef void (*RtMatrixKernel)(Rt *rt, const void *from, void *to, char *workspace);
#else
typedef void (*RtMatrixKernel)(const void *from, void *to, char *workspace);
#endif

/* Consecutive rows of a parameter that form a matrix. One rank computes it whole, so its bits do
 * not depend on the mesh. The parameter's other ranks send it their parts, and fetch their parts of
 * the result. */
typedef struct RtMatrix {
    int param;
    int64_t element;         /* its first element in the parameter */
    int64_t rows, cols;
    int owner;               /* this rank */
    int64_t owned_elems;     /* its place there, in the batch's buffer */
    double lr_adjust;        /* factor of the learning rate, from its shape */
    RtMatrixKernel kernel;
} RtMatrix;

/* Matrices that travel together. */
typedef struct RtBatch {
    int first_matrix, n_matrices;
    RtGroup group;           /* ranks that together hold them; 0: each rank has all of them */
    int64_t owned;           /* S: dtype of sums: this rank's matrices; -1: one rank, in place */
    int64_t workspace;       /* L: for the kernels */
    int64_t whole;           /* L: dtype of sums: the matrix being computed, if it is stored as boxes */
} RtBatch;

/* A group whose sums take two hops, so that a part crosses once per node and not once per rank.
 * First the ranks `near`, on one node, sum the parts among themselves, in place: each sums the
 * parts of its counterparts on all nodes. Then the counterparts, `far`, add the sums of the nodes.
 * Groups are numbered low bits first, and the lowest bits are a node's, so the tree of the sum is
 * the same. */
typedef struct RtHops {
    RtGroup group, near, far;
} RtHops;

typedef struct RtOptimizer {
    double lr, beta1, beta2, clip; /* clip 0: no clipping */
} RtOptimizer;

/* The ratio of the learning rate of step 0, 1, ... to the optimizer's (rt_schedule.c). */
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

/* Dynamic loss scaling for f16 (rt_scale.c): powers of two; init 0: off. */
typedef struct RtLossScale {
    double init, min, factor;
    int64_t interval;        /* it grows after this many updates in a row */
} RtLossScale;

/* One line of the plan's memory table, shown at start and in the log. */
typedef struct RtMemory {
    const char *what;
    int64_t bytes;
} RtMemory;

/* A kernel or product of the step alone, for --calibrate: what it computes, on operands that lie one
 * after the other. */
typedef enum {
    RT_TIMED_NT, RT_TIMED_NN, RT_TIMED_TN, /* products [m, k] x [k, n], in the forms of rt_gemm.h */
    RT_TIMED_ATTENTION, RT_TIMED_ATTENTION_BWD, RT_TIMED_NORM, RT_TIMED_ELEMENTWISE
} RtTimedKind;
typedef struct RtTimed {
    RtTimedKind kind;
    const char *name;        /* NULL: after the last */
    int64_t m, n, k;         /* of a product; dtype: of its inputs */
    RtDtype dtype;
    void *product;           /* RtGemm, on CUDA RtMatmul; NULL: a kernel */
    int64_t second;          /* where B begins */
    double flops;
    int64_t traffic_bytes;   /* operands read and written once */
    int64_t bytes, out;      /* space that a call takes, and where its results begin */
    void (*run)(Rt *rt, char *at); /* of a kernel: operands begin at `at` */
} RtTimed;

/* An op that a library's kernel or a generated one can run: what --tune-kernels compares. */
typedef struct RtSite {
    const char *site;        /* what the choice depends on; NULL: after the last */
    const char *op;
    void (*library)(Rt *rt, char *at), (*generated)(Rt *rt, char *at);
    int64_t bytes;           /* space that a call takes */
    int64_t out, out_bytes;  /* where its results begin; the last of them, before the workspace */
} RtSite;

typedef struct RtTrainer {
    const char *name;
    const char *generator;           /* "fsdpgen 0.1.0" */
    uint64_t numerics_hash;
    uint64_t identity;               /* hash of the description and the files of its plan */
    const char *mesh;                /* the degree of each axis, a JSON object */
    int world_size;
    RtGroup all;                     /* the ranks */
    RtGroup replicate;               /* the bits of copies in the mesh: for counters */
    RtGroup nodes;                   /* the bits of nodes; 0: one node */
    RtGroup data;                    /* ranks that compute different leaves; together, all leaves */
    int tensor_parts, context_parts; /* of a step, along each axis; 0: it is computed whole */
    RtGroup tensor_ranks, context_ranks; /* that share them */
    RtDtype param_dtype, reduce_dtype, master_dtype, moments_dtype;
    int64_t seq_tokens, vocab;
    int64_t micro_batch;             /* sequences */
    int64_t micro_batches;           /* M per step */
    int64_t leaves;                  /* V */
    bool masked;                     /* each data file X has a mask X.mask */
    int n_hops;                      /* groups whose sums go within nodes first */
    const RtHops *hops;
    bool library_order;              /* reduction = "library": the library's order of sums */
    bool comm_thread;                /* collectives run on a thread of their own */
    bool packed;                     /* samples hold documents that end with document_end */
    int64_t document_end;
    int64_t rounds;                  /* leaves per rank: see rt_leaf */
    RtGroup summed_first;            /* ranks whose leaves of one round are summed at its end; */
    RtGroup summed_last;             /* the other data ranks: summed after all rounds */
    int64_t seed;
    int64_t max_skipped;             /* skipped updates in a row; one more ends the run */
    RtOptimizer optimizer;
    RtSchedule schedule;
    RtLossScale loss_scale;
    double flops_per_token;          /* 6 P_matmul + 6 layers dim_attention seq */
    double peak_tflops;              /* peak of a rank's device; 0: unknown */
    double planned_step_seconds;     /* 0: unknown; the basis of deadlines */
    int64_t params_elems;
    int64_t symmetric_bytes, local_bytes;   /* the planned arena, exactly */
    int64_t snapshot_bytes;          /* host memory for saves during training, on the rank that
                                      * writes most of a checkpoint */
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
    int64_t starts_offset;                  /* likewise, if documents are packed */
    int64_t row_offset;              /* L: i32 [1]: the token whose logits evaluate computes */
    int64_t logits_offset;           /* and their place; L: param dtype [vocab] */
    int64_t control_offset;          /* S: RT_CONTROL_BYTES(micro_batches) */
    int n_scales;                    /* of codes; 0: no segment is encoded */
    int64_t largest_offset;          /* S: i32 [n_scales]: of each weight here, the largest rt_fp8_size */
    int64_t scales_offset;           /* L: dtype of sums [n_scales] */
    int64_t staging_offset;          /* CUDA, S: parts from other ranks, to be added; */
    int64_t staging_bytes;           /* 0: no sums over ranks */
    int64_t meeting_offset;          /* CUDA, S: what parts of other ranks have, in a meet; */
    int64_t meeting_bytes;           /* 0: no ranks share the parts */
    int64_t library_offset;          /* CUDA, L: workspace of matrix products */
    int64_t library_bytes;
    const char *const *places;       /* names of schedule points: "layers.7 layer_forward" */
    int n_places;
    const RtTimed *timed;            /* what --calibrate measures */
    const RtSite *sites;             /* what --tune-kernels compares; NULL: nothing */
    const char *choices;             /* which kernel runs each site, for the platform hash; NULL: no
                                      * site has two */
    int n_files;                     /* files of weights in a checkpoint; 0: it cannot write any */
    const char *config;              /* config.json of the model; NULL: Hugging Face has none */
    const char *numerics;            /* the parts of the numerics hash, a field per line */
    const char *build_flags;         /* CFLAGS, for the platform hash */
    const char *arithmetic;          /* checksum of the code that computes, likewise */
    void (*encode)(Rt *rt);          /* codes of all weights, before the first step; NULL: none */
    void (*setup)(Rt *rt);           /* computes constants; once, after the arena is initialised */
    void (*step)(Rt *rt);            /* one optimizer step */
    void (*evaluate)(Rt *rt);        /* between steps: the loss of a micro-batch, logits of one
                                      * token; NULL: no op can evaluate */
} RtTrainer;

/* The superaccumulator, the number of targets, losses f64 [micro_batches]: in the symmetric
 * space. */
#define RT_SUPERACC_WORDS 72
#define RT_CONTROL_BYTES(micro_batches) \
    ((int64_t)(((micro_batches) * 8 + RT_SUPERACC_WORDS * 8 + 4096 + 255) / 256 * 256))

/* ---- functions that an emitted step calls ---------------------------------------- */

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

/* ---- parts ----------------------------------------------------------------------- */

/* A step may be computed in parts: of heads and features (tensor), of tokens (context), or both. Each
 * rank along the mesh's axis computes some of them, one after the other. In a meet, each part gets what
 * it needs of a value of which the parts along an axis have pieces or summands: one function of all of
 * them in order, so the result does not depend on which rank computes them. */
enum { RT_MAX_PARTS = 64 }; /* the most that a description may ask for */

/* The parts along one axis. */
typedef struct RtAlong {
    RtGroup ranks;           /* that share them */
    int all, here, first;    /* how many; those of this rank: how many, and their first number */
    int step;                /* from one to the next in the order of this rank's parts */
    int lanes, lane_step;    /* meets that are held side by side: of this rank's parts along the other
                              * axis, if the value differs along that, too */
#ifdef RT_CUDA
    const int32_t *number;   /* of each of this rank's parts, for kernels that must know: in device */
                             /* memory */
#else
    int32_t number[RT_MAX_PARTS];
#endif
} RtAlong;

/* The parts of this rank: those along context of its first part along tensor, then of the next. */
typedef struct RtParts {
    Rt *rt;
    int here;                        /* how many, along both axes */
    RtAlong tensor, context;
    RtAlong tensor_once, context_once; /* of values that are the same along the other axis */
    const void *from[RT_MAX_PARTS];  /* of a meet: what this rank's parts have */
    void *to[RT_MAX_PARTS];
} RtParts;
RtParts *rt_parts(Rt *rt);
/* rt_map.c: all but rt and number, for a rank. */
void rt_parts_lay(const RtTrainer *t, int rank, RtParts *parts);

/* from: what each of all parts along the axis has. Writes what part `part` needs; beta 1 adds it. */
typedef void RtMeetKernel(int part, const void *const *from, void *to, float beta);
/* Joins the ranks that share the parts; if there are several, `from` is in the symmetric space. Writes
 * `to` of the first n parts here along the axis, in each lane; 1: all of them share the result.
 * rt_piece: the same of a value that all parts have; `from` is that value, and no ranks join. */
void rt_meet(RtParts *parts, const RtAlong *along, RtMeetKernel *kernel, float beta, int n);
void rt_piece(RtParts *parts, const RtAlong *along, RtMeetKernel *kernel, float beta, int n);

/* On CUDA such a kernel is emitted with a function that enqueues all of this (rt_cuda.h). */
#ifdef RT_CUDA
#define RT_MEET_BY(how, parts, along, kernel, beta, n) kernel(parts, along, beta, n)
#else
#define RT_MEET_BY(how, parts, along, kernel, beta, n) how(parts, along, kernel, beta, n)
#endif

/* axis: tensor, or tensor_once; likewise context. from, to: expressions of p, a part of this rank.
 * RT_MEET gives each part a result of its own, RT_MEET_WHOLE one to all parts along the axis. RT_PIECE
 * gives each a piece of what all have, and joins no ranks. */
#define RT_MEET_AS(how, parts, axis, kernel, from_p, to_p, beta, n) \
    do { \
        for (int p = 0; p < (parts)->here; p++) { \
            (parts)->from[p] = (from_p); \
            (parts)->to[p] = (to_p); \
        } \
        RT_MEET_BY(how, parts, &(parts)->axis, kernel, beta, n); \
    } while (0)
#define RT_MEET(parts, axis, kernel, from_p, to_p, beta) \
    RT_MEET_AS(rt_meet, parts, axis, kernel, from_p, to_p, beta, (parts)->axis.here)
#define RT_MEET_WHOLE(parts, axis, kernel, from_p, to_p, beta) \
    RT_MEET_AS(rt_meet, parts, axis, kernel, from_p, to_p, beta, 1)
#define RT_PIECE(parts, axis, kernel, from_p, to_p, beta) \
    RT_MEET_AS(rt_piece, parts, axis, kernel, from_p, to_p, beta, (parts)->axis.here)

int rt_main(const RtTrainer *trainer, int argc, char **argv);

/* Sets the schedule point of this rank; the launcher shows it when a rank dies or stalls. */
void rt_at(Rt *rt, int place);

/* Copies micro-batch `index` (global, 0..M-1, of this step) into the token buffers. */
void rt_load_micro_batch(Rt *rt, int64_t index);

/* Collectives run in order on two streams, gather and reduce; on CUDA on one. A start enqueues and
 * returns. The matching wait returns when this rank's result is complete; for a reduction also when
 * all ranks have finished reading, so that the gradient may be written again. While a rank waits it
 * makes progress on both streams, so no order of waits can deadlock. */
enum { RT_GATHER, RT_REDUCE };

/* out[shards * shard_elems] = param_shard of every rank of this copy, in rank order. out: a local
 * offset; between GPUs, whose ranks write directly into it, a symmetric one. */
void rt_all_gather_start(Rt *rt, int segment, int64_t out);
/* If each rank holds all weights: copies the part that each rank of this copy has updated to all of
 * them, in place. Wait for it like for an all_gather. */
void rt_gather_updated_start(Rt *rt, int segment);
/* From forward to backward the group `between` may hold the weights, an equal part each. rt_keep
 * keeps this rank's part of `gathered` (offset as above) in `kept` (symmetric offset); then out =
 * kept of every rank of the group, in rank order. */
void rt_keep(Rt *rt, int segment, int64_t gathered, int64_t kept);
void rt_kept_gather_start(Rt *rt, int segment, int64_t kept, int64_t out);
/* result = sum over the ranks of this copy of their `grad` at this rank's shard, by the balanced
 * binary tree over ranks, each node rounded to reduce dtype. grad: symmetric offset, [elems] in
 * reduce dtype; result: the segment's grad_shard. */
void rt_reduce_scatter_start(Rt *rt, int segment, int64_t grad, int64_t result);
/* grad = the same sum over copies, of the ranks' [shard_elems] at `grad` (symmetric offset), in
 * place and equal on all of them. */
void rt_all_reduce_start(Rt *rt, int segment, int64_t grad);
/* Waits for the last started collective of a segment. */
void rt_wait_gather(Rt *rt, int segment);
void rt_wait_reduce(Rt *rt, int segment);

/* The leaf that this rank computes in a round. Low bits first, in the order of the sums: its number
 * among the ranks summed in each round, the round, its number among the others. */
static inline int64_t rt_leaf(const Rt *rt, int64_t round)
{
    const RtTrainer *t = rt->trainer;
    const RtGroup low = t->summed_first, high = t->summed_last;
    return (rt_group_index(high, rt->rank) * t->rounds + round) * rt_group_ranks(low) +
           rt_group_index(low, rt->rank);
}
/* The merges that follow are for this rank's leaf number `round` (0, 1, ...) in this step. */
void rt_round(Rt *rt, int64_t round);
/* Binary-counter merge of tree nodes, in leaf order (DESIGN: one tree). The node is the round's
 * sum of the segment: grad_accum, or, sharded, grad_shard. With t trailing ones in the round's
 * number:
 *   v = node; for l in 0..t-1: v = round_to_dtype(partials[l] + v); then
 *   last round: node = v, else partials[t] = v. */
void rt_merge_segment(Rt *rt, int segment);

/* Exact norm: adds the squares of this rank's shard of the segment's summed gradient. */
void rt_norm_add(Rt *rt, int segment);
/* The one small all-reduce of the step, of superaccumulator words and losses. Computes the loss,
 * the gradient norm, and the update scale = clip / valid_tokens. If loss or norm is not finite, the
 * step's updates do nothing on any rank: weights, moments and bias corrections stay. */
void rt_norm_reduce(Rt *rt);
/* What the emitted optimizer kernel needs for this step. */
typedef struct RtUpdate {
    float scale;             /* factor of the summed gradient */
    float lr;
    float bias1, bias2;      /* 1 - beta1^t, 1 - beta2^t */
    double scale64, lr64, bias1_64, bias2_64;
    uint64_t noise;          /* seed of this step's stochastic rounding */
    int64_t skip;            /* CUDA, where the host does not know it: if not 0, do nothing */
} RtUpdate;
RtUpdate rt_update(const Rt *rt);
/* Consecutive elements of one parameter inside this rank's shard, and their places. */
typedef struct RtUpdateRun {
    const RtParam *param;
    int64_t element, elems;  /* element: the first one's number in its parameter, in the order of
                              * storage; of a matrix, modulo 8, what its address is */
    void *weights;           /* param dtype */
    void *master;            /* master dtype; the weights themselves if there is no separate master;
                              * RT_SPLIT: the bits that the weights lack */
    void *moment1, *moment2; /* moments dtype; NULL if the optimizer has none */
    const void *grad;        /* reduce dtype: the step's sum */
    void *direction;         /* of a matrix: dtype of sums */
    double lr_ratio;         /* factor of the step's learning rate */
    double lr_adjust;        /* for a matrix: a second factor */
    double weight_decay;
} RtUpdateRun;
/* Calls kernel for every run of the segment except those of matrices; never for pads. On CUDA it
 * enqueues, and u is in device memory, because the host does not know yet what depends on the
 * step's norm. */
#ifdef RT_CUDA
typedef void (*RtUpdateKernel)(Rt *rt, const RtUpdate *u, const RtUpdateRun *run);
#else
typedef void (*RtUpdateKernel)(const RtUpdate *u, const RtUpdateRun *run);
#endif
void rt_update_segment(Rt *rt, int segment, RtUpdateKernel kernel);

/* Codes of weights, at the end of a step (rt_fp8_codes.c). rt_largest_add finds the largest element of
 * each parameter of the segment among those of this rank's shard; rt_largest_reduce exchanges them and
 * computes all scales; rt_encode_segment rounds the weights that this rank holds. */
void rt_largest_add(Rt *rt, int segment);
void rt_largest_reduce(Rt *rt);
void rt_encode_segment(Rt *rt, int segment);

/* Matrices, at the end of a step (rt_matrix.c). rt_update_matrices calls kernel for the runs of
 * matrices in this rank's shard. Between the call that fills their directions and the one that
 * takes the step, each batch travels to its owners (on the gather stream), is computed there, and
 * travels back (on the reduce stream). Both transfers complete when all ranks have finished
 * reading. If the update is skipped, the transfers still happen, but nothing is computed (on CUDA,
 * where the host does not know it, the result is ignored). */
void rt_update_matrices(Rt *rt, int segment, RtUpdateKernel kernel);
void rt_to_owners_start(Rt *rt, int batch);
void rt_wait_to_owners(Rt *rt, int batch);
void rt_compute_matrices(Rt *rt, int batch);
void rt_from_owners_start(Rt *rt, int batch);
void rt_wait_from_owners(Rt *rt, int batch);

/* Random bits by which elements [from, from + n) of the run are rounded to bf16: a function of
 * seed, step, parameter and element only (rt_philox.h). */
enum { RT_NOISE_MASTER = 5, RT_NOISE_MOMENT1, RT_NOISE_MOMENT2 };
void rt_noise(const RtUpdate *u, const RtUpdateRun *run, int site, int64_t from,
              int64_t n, uint16_t *noise);

/* Where the emitted mathematics puts the loss sum (f64) of the last loaded micro-batch. */
double *rt_loss_slot(Rt *rt);
/* The factor of that loss's gradient: a power of two. On CUDA it is in device memory, like
 * everything that changes from step to step. */
#ifdef RT_CUDA
const float *rt_loss_scale(const Rt *rt);
#else
float rt_loss_scale(const Rt *rt);
#endif

#ifdef RT_CUDA
/* Runs a part of the step: call by call in the first step, then as the CUDA graph captured from
 * those calls, unless --no-graphs is given. */
typedef void RtStepPart(Rt *rt);
void rt_run(Rt *rt, RtStepPart *part);

/* Where ranks share parts: a start between these begins behind the next meet, or when the step waits
 * for it. So a meet does not wait for weights of the next span. */
void rt_hold_starts(Rt *rt);
void rt_release_starts(Rt *rt);
#endif

#include "rt_math.h" /* dtype conversion, vectors, own exp, tanh, ...: inline, for kernels */
#include "rt_gemm.h" /* matrix products on fixed tiles */

#endif
