/* SPDX-License-Identifier: Apache-2.0 */
/* step.h: the mesh, units and flat segments (shard.c), the batches of matrices (matrices.c), and
 * the program of a step with its buffers (unroll.c, schedule.c, place.c). Offsets into segments are
 * in elements, offsets into arenas in bytes. */
#ifndef STEP_H
#define STEP_H

#include "graph/ir.h"

/* MAX_RANKS can be planned; STARTED_RANKS is how many a trainer starts, RT_MAX_RANKS. */
enum { MAX_RANKS = 4096, STARTED_RANKS = 1024, MAX_GROUPS = 32, GRAIN_ELEMS = 1024, ARENA_ALIGN_BYTES = 256,
       OWNED_ALIGN_ELEMS = 64,
       OTHERS_ALIGN_ELEMS = 8 /* what a GPU thread reads at once: as in rt_update.c */ };

/* ---- the mesh, units, segments (shard.c) ----------------------------------------- */

typedef struct Segment {
    int id;
    const char *name, *ident;
    const char *macro;       /* names.c: "SEG_LAYERS_7" */
    int unit;
    int n_params;
    int *params;             /* global ids, in layout order */
    /* The key: parameters of a unit with an equal key form one segment. */
    bool trainable;          /* else no gradient, no state */
    Dtype dtype;             /* of the stored weights */
    Dtype gathered;          /* the same, or that of their codes, which are gathered instead */
    RankBits axes;           /* ranks along these hold parts of the parameters, and the segment
                              * consists of such parts */
    int64_t used_elems;      /* sum of the held parameters */
    int64_t elems;           /* padded: shard_elems * shards */
    int64_t shard_elems;     /* multiple of GRAIN_ELEMS */
    RankBits cut[N_HELD];    /* placement over the mesh; ranks that differ only in other bits hold
                              * equal parts */
    int shards;              /* parts of the state: the ranks that together hold one copy */
    int64_t param_elems;     /* weights of a rank at rest: a shard, or all of them */
    RankBits within;         /* one copy's ranks: they gather weights and reduce gradients */
    RankBits across;         /* ranks with the same part: they sum it afterwards */
    RankBits between;        /* ranks that share the weights between forward and backward; 0: none,
                              * weights are kept whole, or freed */
} Segment;

/* A shape that the optimizer treats as a whole: its op on such a matrix, and the factor of its
 * learning rate. */
typedef struct MatrixShape {
    const struct Node *node;
    double lr_adjust;
    int64_t at_bytes; /* matrices begin at multiples of this in their parameters; 0: at the start */
} MatrixShape;

/* Rows of a parameter that form a matrix: the whole parameter, or one of its parts. */
typedef struct Matrix {
    int id, param;
    const char *name;        /* "model.layers.7.self_attn.q_proj.weight" */
    int64_t element;         /* its first element in the parameter */
    int64_t rows, cols;
    const struct Node *node; /* the optimizer's op on it: flops, workspace, kernel; one per shape */
    double lr_adjust;        /* factor of the learning rate */
    int batch, owner;        /* matrices_deal: the rank that computes it */
    int64_t owned_elems;     /* its place there, in the batch's buffer */
} Matrix;

/* Matrices of adjacent segments, which travel together. */
typedef struct Batch {
    int id;
    const char *name, *ident; /* "layers.0..layers.1" */
    const char *macro;       /* names.c */
    int first_segment, last_segment; /* and all segments between them that have matrices */
    int first_matrix, n_matrices;
    RankBits group;          /* ranks that together hold its matrices; 0: each rank has all of them */
    int64_t owned_elems;     /* the largest amount that one rank owns */
    int64_t workspace_bytes; /* the largest need of one of its matrices */
    int64_t whole_bytes;     /* behind that: the largest matrix that is stored as boxes; 0: none */
} Batch;

typedef struct PieceRef { int block, piece; } PieceRef;

typedef struct Unit {
    int id;
    const char *name, *ident;
    int n_pieces;
    PieceRef *pieces;        /* the pieces whose own parameters lie here; in forward order, not
                              * always consecutive */
    int n_segments;
    int *segments;
    bool keep_gathered;          /* policy.c: weights stay gathered from the forward to the backward
                                  * of a micro-step */
} Unit;

/* ---- the step program (unroll.c, schedule.c) ------------------------------------- */

typedef enum { STREAM_COMPUTE, STREAM_GATHER, STREAM_REDUCE, N_STREAMS } StreamId;

typedef enum {
    INS_ALL_GATHER,      /* segment: every rank's shard → gathered buffer */
    INS_KEEP,            /* segment: this rank's part of the gathered weights → kept buffer */
    INS_SPAN,            /* block or piece, phase: one call of mathematics */
    INS_REDUCE_SCATTER,  /* segment: gradient buffer → this rank's part of the sum over the ranks of
                          * one copy, in tree order */
    INS_ALL_REDUCE,      /* segment: the sum of equal parts over copies, in place */
    INS_MERGE,           /* segment: add this leaf's node to the partial sums, in tree order; in
                          * LOCAL only in the last micro-batch of a leaf */
    INS_NORM,            /* segment: chunk sums of squares into the superaccumulator */
    INS_NORM_REDUCE,     /* the one integer all-reduce of the step, and the losses */
    INS_UPDATE,          /* segment: the optimizer on this rank's shard */
    INS_GATHER_UPDATED,  /* segment: every rank's updated part of the weights → all ranks that hold
                          * them whole, in place */
    INS_LARGEST,         /* segment: the largest of each of its weights' elements here */
    INS_LARGEST_REDUCE,  /* of all ranks; and the scales of codes */
    INS_ENCODE,          /* segment: this rank's weights → their codes, which are gathered */
    INS_CLOSE,           /* the end of a step in which collectives still run: its waits */
    INS_MOMENTUM,        /* segment: of matrices, the momentum that their step is made from */
    INS_TO_OWNERS,       /* batch: each matrix, whole, to the rank that owns it */
    INS_MATRICES,        /* batch: the optimizer's op on the matrices that this rank owns */
    INS_FROM_OWNERS,     /* batch: this rank's parts of the results */
    INS_STEP,            /* segment: the update of this rank's shard of matrices */
    N_INS_KINDS
} InsKind;

/* What an instruction accesses, apart from the arguments of a span. */
typedef enum {
    USES_END,
    USES_FROM, USES_TO, USES_WITH,               /* its operands, each a buffer */
    USES_MASTER, USES_MOMENT1, USES_MOMENT2,     /* of its segment, if it has them */
    USES_DIRECTIONS,                             /* of all segments of its batch */
    USES_SHARED,                                 /* the weights of all segments that END gathers */
    USES_CONTROL, USES_STAGING, USES_LARGEST, USES_SCALES
} UseOf;

typedef struct InsUse {
    UseOf what;
    bool write;
    bool peers;              /* peers of the group access ours: Access.remote */
} InsUse;

struct Instr;

/* The properties of a kind (kinds.c); passes ask here. */
typedef struct InsRule {
    const char *name;        /* "all_gather" */
    StreamId stream;
    bool collective;         /* it joins the ranks of a group */
    bool closed;             /* and its completion here implies that peers have stopped reading this
                              * rank's buffers: the runtime's promise (rt.h) */
    bool sums;               /* and it adds floats of its ranks, in some order */
    InsUse uses[7];             /* in the order of the instruction's accesses */
    /* The cost of an instruction without nodes or communication (cost.c): the bytes that pass
     * through memory, NULL: none; and their class. */
    double (*traffic_bytes)(const Gen *g, const struct Instr *i);
    int64_t (*elems)(const Gen *g, const struct Instr *i); /* of its segment; NULL: a shard */
    CostClass cost;
    /* In the emitted step: the template's word for its line, the function that starts it off the
     * compute stream if its operands are arguments, and the function that waits for it. */
    const char *word, *start, *wait;
    /* For people: @ stands for its segment, batch or span, # for its phase. */
    const char *label;       /* "gather of @ for its #" */
    const char *done;        /* of a collective: what its completion means */
} InsRule;

/* EVAL is not part of a step: the runtime runs it between steps, as often as it likes. */
typedef enum { VARIANT_EVAL, VARIANT_LOCAL, VARIANT_LAST, VARIANT_END, N_VARIANTS } Variant;

typedef enum { SPACE_SYMMETRIC, SPACE_LOCAL, N_SPACES } Space; /* peers access symmetric ones */

typedef enum {
    BUF_PARAM_SHARD, BUF_CODES, BUF_LARGEST, BUF_SCALES, BUF_MASTER, BUF_MOMENT1, BUF_MOMENT2, BUF_GRAD_SHARD, BUF_PARTIAL,
    BUF_GRAD_ACCUM,  /* unsharded accumulator of a unit's segment */
    BUF_CONST, BUF_DATA, BUF_CONTROL, /* losses, superaccumulator: the runtime's exchange area */
    BUF_STAGING,     /* if the target has it: parts from other ranks, to be added */
    BUF_MEETING,     /* likewise: what parts of other ranks have, in a meet */
    BUF_LIBRARY,     /* likewise: workspace of matrix products */
    BUF_GATHERED, BUF_KEPT, BUF_GRAD, BUF_BOUNDARY, BUF_D_BOUNDARY, BUF_SAVED, BUF_SCRATCH,
    BUF_DIRECTION,   /* of matrices: a shard of what their step is made from */
    BUF_OWNED,       /* of a batch: the matrices that a rank owns */
    BUF_WORKSPACE,   /* of a batch: for the matrix being computed */
    BUF_LOGITS,      /* of one token: an evaluation's result for the runtime */
    N_BUF_KINDS
} BufKind;

typedef struct Buffer {
    int id;
    BufKind kind;
    Space space;
    const char *name;        /* C identifier: "gathered_layers_7_backward" */
    const char *macro;       /* names.c: the macro of its offset, "GATHERED_LAYERS_7_BACKWARD" */
    const char *what;        /* "[1024, 288] f32", for people */
    int64_t bytes;
    bool persistent;         /* lives across steps; shares no bytes */
    int segment, block;      /* -1: of none */
    int64_t offset_bytes;    /* place.c: offset in its space */
} Buffer;

/* How a collective adds the ranks' values. */
typedef enum {
    ORDER_NONE,              /* it adds nothing, or integers, whose order does not matter */
    ORDER_TREE,              /* a balanced tree over the ranks' numbers in the group */
    ORDER_LIBRARY            /* the library's own: reduction = "library" */
} SumOrder;

typedef struct Access {
    int buffer;
    bool write;
    bool remote;             /* peers of the group access this buffer of ours while the instruction
                              * runs */
} Access;

typedef struct Instr {
    int id;                  /* position in the host order of the step */
    InsKind kind;
    Variant variant;
    StreamId stream;
    int block, unit, segment;/* -1: none */
    int batch;               /* of matrices; -1: none */
    int piece;               /* INS_SPAN: of the block; -1: all pieces */
    RankBits group;          /* collectives: the members; else 0 */
    Phase phase;
    int n_access;
    Access *access;
    int n_waits;
    int *waits;              /* ids on other streams that must complete first (schedule.c) */
    const char **wait_why;   /* reason beside each wait, for the reader */
    int from, to;            /* buffers that every kind but spans reads and writes, equal if in
                              * place; -1: none or several. InsRule.uses says which and how */
    int with;                /* INS_MERGE: the partial sums; INS_MATRICES: the workspace */
    int in, out, d_in, d_out, saved, scratch, logits; /* INS_SPAN */
    int dropped;             /* for KEEP_SOME: what is computed again, beside saved */
    double flops;
    Dtype dtype;             /* collectives: of the gathered or summed elements */
    int64_t elems;           /* its size: one part (gather, reduce_scatter), all (all_reduce) */
    SumOrder order;
    int ctas;                /* of a sum: the multiprocessors that it may take; 0: no limit */
    int64_t moved_bytes;     /* received by this rank from others */
} Instr;

/* A call of mathematics in its place: a block or a piece, in a phase, of one of the micro-batches
 * that run at once: slot 0, the only one so far. */
typedef struct Task {
    int block;
    int piece;               /* -1: all pieces of the block */
    Phase phase;
    int slot;
} Task;

/* The step is a tree: loops, and inside them the variants, each a line of tasks. The emitted code,
 * the number of runs of a variant, and its possible successors all derive from it. */
typedef enum { NODE_STEP, NODE_ROUNDS, NODE_MICRO_BATCHES, NODE_LINE } NodeOf;
typedef struct StepNode {
    NodeOf of;
    Variant line;            /* of NODE_LINE */
    int64_t turns;           /* of a loop */
    int n_nodes;
    struct StepNode *nodes;  /* in order */
} StepNode;

/* What of a parameter a span's argument is. */
typedef enum { BIND_WEIGHT, BIND_SCALE, BIND_GRAD, N_BINDS } BindOf;

/* What ranks wait for in a step, beside no kernel, in picoseconds: collectives and meets, by the
 * first axis that their group has. */
typedef struct Exposed {
    int64_t ps[N_AXES];
} Exposed;

typedef struct Program {
    StepNode step;
    Task *tasks[N_VARIANTS]; /* in the order of the compute stream */
    int n_tasks[N_VARIANTS];
    struct { Instr *items; int count, cap; } ins;
    struct { Buffer *items; int count, cap; } bufs;
    int first[N_VARIANTS], count[N_VARIANTS]; /* ranges of ins; count 0: unused */
    int64_t rounds;          /* leaves that a rank computes: V / N */
    int64_t leaf_micro_batches; /* M / V */
    int partial_levels;      /* log2(rounds): partial sums held at once */
    bool behind_meets;       /* on a device: a start in a micro-step goes behind the next meet */
    /* Bindings of span calls: for block b and class param p, the buffer and byte offset of its
     * gathered weight, its scale or its gradient (per instruction, in span.c's order of arguments). */
    struct Binding { int ins, param, buffer; int64_t offset_bytes; BindOf of; bool add; } *bindings;
    int n_bindings, cap_bindings;
    /* place.c */
    int64_t space_bytes[N_SPACES];
    int64_t arena_bytes;     /* sum of spaces */
    int64_t max_live_bytes, ideal_live_bytes; /* the two lower bounds */
    /* Happens-before, filled by schedule.c, for the groups that occur. Bit b of row a of hb[k]: a
     * is complete on every rank of this one's group hb_of[k] before b starts on this one. The first
     * group is this rank alone. */
    int n_hb;
    RankBits hb_of[MAX_GROUPS];
    uint64_t *hb[MAX_GROUPS];
    int hb_words;
    double step_seconds;     /* simulate.c; INFINITY: more than COST_MOST_PS */
    Exposed exposed;         /* in them */
} Program;

#endif
