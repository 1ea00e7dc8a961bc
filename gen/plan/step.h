/* SPDX-License-Identifier: Apache-2.0 */
/* step.h: the mesh, units and flat segments (shard.c), the batches of matrices (matrices.c), and
 * the program of a step with its buffers (unroll.c, schedule.c, place.c). Offsets into segments
 * are in elements; offsets into arenas are in bytes. */
#ifndef STEP_H
#define STEP_H

#include "graph/ir.h"

enum { MAX_RANKS = 1024, MAX_GROUPS = 32, GRAIN_ELEMS = 1024, ARENA_ALIGN_BYTES = 256,
       OWNED_ALIGN_ELEMS = 64,
       OTHERS_ALIGN_ELEMS = 8 /* what a thread of a GPU reads at once: as in rt_update.c */ };

/* ---- the mesh, units, segments (shard.c) ----------------------------------------- */

typedef struct Segment {
    int id;
    const char *name, *ident;
    const char *macro;       /* names.c: "SEG_LAYERS_7" */
    int unit;
    int n_params;
    int *params;             /* global ids, in layout order */
    /* The key: parameters of a unit that agree in it are one segment. */
    bool trainable;          /* else no gradient, no state */
    Dtype dtype;             /* of the weights in storage */
    RankBits axes;           /* ranks along them hold parts of the parameters: the segment is
                                of such parts */
    int64_t used_elems;      /* sum of parameters, as held */
    int64_t elems;           /* padded: shard_elems * shards */
    int64_t shard_elems;     /* multiple of GRAIN_ELEMS */
    RankBits cut[N_HELD];    /* placement over the mesh; ranks that differ in other bits alone
                                hold equal parts */
    int shards;              /* parts of the state: ranks that together hold one copy of it */
    int64_t param_elems;     /* weights of a rank at rest: a shard, or all */
    RankBits within;         /* one copy's ranks: gather weights, reduce gradients */
    RankBits across;         /* ranks with the same part: sum it after that */
    RankBits between;        /* ranks that share the weights between forward and backward;
                                0: none, they are kept whole, or freed */
} Segment;

/* A shape that the optimizer treats as a whole: its op on such a matrix, and what multiplies the
 * rate of one. */
typedef struct MatrixShape {
    const struct Node *node;
    double lr_adjust;
} MatrixShape;

/* Rows of a parameter that are a matrix of their own: the parameter, or one of its parts. */
typedef struct Matrix {
    int id, param;
    const char *name;        /* "model.layers.7.self_attn.q_proj.weight" */
    int64_t element;         /* its first in the parameter */
    int64_t rows, cols;
    const struct Node *node; /* the optimizer's op on it: flops, workspace, kernel; one for each
                                shape */
    double lr_adjust;        /* multiplies the learning rate */
    int batch, owner;        /* matrices_deal: the rank that computes it */
    int64_t owned_elems;     /* where it lies there, in its batch's buffer */
} Matrix;

/* Matrices of neighbouring segments, which travel together. */
typedef struct Batch {
    int id;
    const char *name, *ident; /* "layers.0..layers.1" */
    const char *macro;       /* names.c */
    int first_segment, last_segment; /* with all between that have matrices */
    int first_matrix, n_matrices;
    int64_t owned_elems;     /* the most that one rank owns of it */
    int64_t workspace_bytes; /* the most that one of its matrices needs */
} Batch;

typedef struct PieceRef { int block, piece; } PieceRef;

typedef struct Unit {
    int id;
    const char *name, *ident;
    int n_pieces;
    PieceRef *pieces;        /* whose own parameters lie here; in forward order, not always
                                neighbours */
    int n_segments;
    int *segments;
    bool keep_gathered;          /* policy.c: weights stay whole from the forward to the
                                    backward of a micro-step */
} Unit;

/* ---- the step program (unroll.c, schedule.c) ------------------------------------- */

typedef enum { STREAM_COMPUTE, STREAM_GATHER, STREAM_REDUCE, N_STREAMS } StreamId;

typedef enum {
    INS_ALL_GATHER,      /* segment: every rank's shard → gathered buffer */
    INS_KEEP,            /* segment: this rank's part of the gathered weights → kept buffer */
    INS_SPAN,            /* block or piece, phase: one call of mathematics */
    INS_REDUCE_SCATTER,  /* segment: gradient buffer → this rank's part of the sum over the
                            ranks of one copy, tree order */
    INS_ALL_REDUCE,      /* segment: the sum of equal parts over copies, in place */
    INS_MERGE,           /* segment: add this leaf's node into the partial sums, tree order; in
                            LOCAL only when the micro-batch is the last of its leaf */
    INS_NORM,            /* segment: chunk sums of squares into the superaccumulator */
    INS_NORM_REDUCE,     /* the one integer all-reduce of the step, and the losses */
    INS_UPDATE,          /* segment: the optimizer on this rank's shard */
    INS_GATHER_UPDATED,  /* segment: every rank's updated part of the weights → all ranks that
                            hold them whole, in place */
    INS_CLOSE,           /* the step's end, where collectives run until then: only its waits */
    INS_MOMENTUM,        /* segment: of matrices, what the optimizer makes a step of */
    INS_TO_OWNERS,       /* batch: each of its matrices, whole, to the rank that owns it */
    INS_MATRICES,        /* batch: the optimizer's op on those that this rank owns */
    INS_FROM_OWNERS,     /* batch: this rank's parts of the results */
    INS_STEP,            /* segment: of matrices, the update of this rank's shard */
    N_INS_KINDS
} InsKind;

/* What an instruction touches, beside the arguments of a span. */
typedef enum {
    USES_END,
    USES_FROM, USES_TO, USES_WITH,               /* its operands, of which each names one */
    USES_MASTER, USES_MOMENT1, USES_MOMENT2,     /* of its segment, where it has them */
    USES_DIRECTIONS,                             /* of all segments of its batch */
    USES_SHARED,                                 /* weights of all segments that END gathers */
    USES_CONTROL, USES_STAGING
} UseOf;

typedef struct InsUse {
    UseOf what;
    bool write;
    bool peers;              /* the group's peers touch ours: Access.remote */
} InsUse;

struct Instr;

/* What there is to know of a kind (kinds.c): passes ask here. */
typedef struct InsRule {
    const char *name;        /* "all_gather" */
    StreamId stream;
    bool collective;         /* joins the ranks of a group */
    bool closed;             /* and its completion here says that peers no longer read this
                                rank's buffers for it: the runtime's promise (rt.h) */
    bool sums;               /* and it adds floats of its ranks, in an order */
    InsUse uses[7];             /* in the order of the instruction's accesses */
    /* What it costs where it moves nothing between ranks: Instr.flops, in f32 or else at the
     * rate of products, beside the bytes that pass through memory; NULL: none. */
    double (*traffic_bytes)(const Gen *g, const struct Instr *i);
    bool f32;
    /* In the emitted step: what the template calls its line, the function that starts it off
     * the compute stream where its operands are arguments, and the function that waits for it. */
    const char *word, *start, *wait;
    /* For people: @ stands for its segment, batch or span, # for its phase. */
    const char *label;       /* "gather of @ for its #" */
    const char *done;        /* of a collective, when it is complete */
} InsRule;

/* EVAL is no part of a step: it runs between two of them, as often as the runtime likes. */
typedef enum { VARIANT_EVAL, VARIANT_LOCAL, VARIANT_LAST, VARIANT_END, N_VARIANTS } Variant;

typedef enum { SPACE_SYMMETRIC, SPACE_LOCAL, N_SPACES } Space; /* peers touch symmetric ones */

typedef enum {
    BUF_PARAM_SHARD, BUF_MASTER, BUF_MOMENT1, BUF_MOMENT2, BUF_GRAD_SHARD, BUF_PARTIAL,
    BUF_GRAD_ACCUM,  /* unsharded accumulator of a unit's segment */
    BUF_CONST, BUF_DATA, BUF_CONTROL, /* losses, superaccumulator: the runtime's exchange area */
    BUF_STAGING,     /* if the target has it: parts of other ranks on their way into a sum */
    BUF_LIBRARY,     /* the same: workspace of matrix products */
    BUF_GATHERED, BUF_KEPT, BUF_GRAD, BUF_BOUNDARY, BUF_D_BOUNDARY, BUF_SAVED, BUF_SCRATCH,
    BUF_DIRECTION,   /* of matrices: a shard of what becomes their step */
    BUF_OWNED,       /* of a batch: those that a rank owns */
    BUF_WORKSPACE,   /* of a batch: while one of them is computed */
    BUF_LOGITS,      /* of one token: what an evaluation leaves to the runtime */
    N_BUF_KINDS
} BufKind;

typedef struct Buffer {
    int id;
    BufKind kind;
    Space space;
    const char *name;        /* C identifier: "gathered_layers_7_backward" */
    const char *macro;       /* names.c: of its offset, "GATHERED_LAYERS_7_BACKWARD" */
    const char *what;        /* "[1024, 288] f32" for the reader */
    int64_t bytes;
    bool persistent;         /* lives across steps; never shares bytes */
    int segment, block;      /* -1 when not of one */
    int64_t offset_bytes;    /* place.c: in its space */
} Buffer;

/* How a collective adds what its ranks hold. */
typedef enum {
    ORDER_NONE,              /* it adds nothing, or integers, whose order shows nowhere */
    ORDER_TREE,              /* the balanced tree over numbers in the group */
    ORDER_LIBRARY            /* the library's own: reduction = "library" */
} SumOrder;

typedef struct Access {
    int buffer;
    bool write;
    bool remote;             /* the group's peers touch this buffer of ours while the instruction
                                runs */
} Access;

typedef struct Instr {
    int id;                  /* position in the step's host order */
    InsKind kind;
    Variant variant;
    StreamId stream;
    int block, unit, segment;/* -1 when none */
    int batch;               /* of matrices; -1 when none */
    int piece;               /* INS_SPAN: of the block; -1: all of them */
    RankBits group;          /* collectives: who takes part; else 0 */
    Phase phase;
    int n_access;
    Access *access;
    int n_waits;
    int *waits;              /* ids on other streams that must be complete first (schedule.c) */
    const char **wait_why;   /* reason beside each wait, for the reader */
    int from, to;            /* buffers that all but spans read and write, equal where in place;
                                -1: none, or several. InsRule.uses says which and how */
    int with;                /* INS_MERGE: the partial sums; INS_MATRICES: the workspace */
    int in, out, d_in, d_out, saved, scratch, logits; /* INS_SPAN */
    int dropped;             /* of KEEP_SOME: what is computed again, beside saved */
    double flops;
    Dtype dtype;             /* collectives: of what is gathered or summed, */
    int64_t elems;           /* of it: a gather, a reduce_scatter: one part; an all_reduce: all */
    SumOrder order;
    int64_t moved_bytes;     /* received by this rank from others */
} Instr;

/* A call of mathematics in its place: a block or a piece of it, in a phase, of one of the
 * micro-batches that are under way at once: slot 0, the only one so far. */
typedef struct Task {
    int block;
    int piece;               /* -1: all of the block's */
    Phase phase;
    int slot;
} Task;

/* The step is a tree: loops, and in them the variants, each a line of tasks. What is emitted,
 * how often a variant runs and what may follow it all come from here. */
typedef enum { NODE_STEP, NODE_ROUNDS, NODE_MICRO_BATCHES, NODE_LINE } NodeOf;
typedef struct StepNode {
    NodeOf of;
    Variant line;            /* of NODE_LINE */
    int64_t turns;           /* of a loop; it comes round */
    int n_nodes;
    struct StepNode *nodes;  /* in order */
} StepNode;

typedef struct Program {
    StepNode step;
    Task *tasks[N_VARIANTS]; /* in the order of the compute stream */
    int n_tasks[N_VARIANTS];
    struct { Instr *items; int count, cap; } ins;
    struct { Buffer *items; int count, cap; } bufs;
    int first[N_VARIANTS], count[N_VARIANTS]; /* ranges of ins; count 0 where unused */
    int64_t rounds;          /* leaves a rank computes: V / N */
    int64_t leaf_micro_batches; /* M / V */
    int partial_levels;      /* log2(rounds): partial sums held at once */
    /* Bindings of span calls: for block b and class param p, in which buffer and at what byte
     * offset its gathered weight or its gradient lies (per instruction, span.c's arg order). */
    struct Binding { int ins, param, buffer; int64_t offset_bytes; bool grad, add; } *bindings;
    int n_bindings, cap_bindings;
    /* place.c */
    int64_t space_bytes[N_SPACES];
    int64_t arena_bytes;     /* sum of spaces */
    int64_t max_live_bytes, ideal_live_bytes; /* the two lower bounds */
    /* happens-before, filled by schedule.c, for the groups that matter: bit b of row a of
     * hb[k]: a, on every rank of this one's group hb_of[k], is complete before b starts on
     * this one. The first group is that of one rank. */
    int n_hb;
    RankBits hb_of[MAX_GROUPS];
    uint64_t *hb[MAX_GROUPS];
    int hb_words;
    double step_seconds;     /* simulate.c; 0 when no cost table */
} Program;

#endif
