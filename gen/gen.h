/* SPDX-License-Identifier: Apache-2.0 */
/* gen.h: every type of the intermediate representation (of a description: model.h), then
 * the passes in the order in which main.c calls them. One Gen holds everything; all memory
 * is one arena, never freed; strings are interned or arena-owned and immutable. Whatever a
 * file prints is deterministic: ids are creation order, nothing iterates a hash table,
 * nothing reads the clock.
 *
 * A name ending in _elems, _bytes or _tokens says its unit. Offsets into flat segments are in
 * elements; offsets into arenas are in bytes. */
#ifndef GEN_H
#define GEN_H

#include "model.h"

#include <lua.h>

#define FSDPGEN_VERSION "0.1.0"

enum { MAX_DIMS = 4, MAX_RANKS = 1024, GRAIN_ELEMS = 1024, ARENA_ALIGN_BYTES = 256,
       OWNED_ALIGN_ELEMS = 64,
       OTHERS_ALIGN_ELEMS = 8 /* what a thread of a GPU reads at once: as in rt_update.c */ };

/* ---- ops (ops.c; the rules live in templates/ops/NAME/op.lua) -------------------------- */

typedef struct Operand {
    const char *name;
    const char *dims;        /* "t d", "t 2*f", "1"; "" = shape given by the rule's function */
    const char *dtype;       /* inputs: legal class "float", "i32", "acc", "any"; outputs: name
                                of an operand, "param", "acc", "grad", "f64", "i32" */
    bool may_add;            /* output may add into its buffer (beta = 1) */
    const char *alias;       /* output may lie on this input's bytes, NULL if not */
    bool optional;           /* input that a call may leave out; after those it must give */
    const char *form;        /* output that NAME_form of the op lacks; NULL: none does */
} Operand;

typedef struct OpRule {
    const char *name;
    const char *folder;      /* where op.lua and cpu.c came from, for messages */
    int lua_ref;             /* the table op.lua returned */
    int n_in, n_out;
    Operand *in, *out;
    bool has_cpu, has_cuda;
    bool fused;              /* declares `expands` */
    bool optimizer;          /* role = "optimizer": not part of the graph */
    struct OpInfo *info;     /* ops.h: attributes, axes, text */
} OpRule;

typedef struct OpList { OpRule *items; int count, cap; } OpList;

/* ---- the op graph of a block class (graph.c, grad.c, fuse.c) --------------------------- */

/* What a micro-batch brings. starts: index in its sequence of the first token of each token's
 * document; only where documents are packed. A masked target is -1. row, [1]: the token whose
 * logits evaluation hands out; no architecture reads it. */
enum { DATA_TOKENS, DATA_TARGETS, DATA_STARTS, DATA_ROW, N_DATA };
extern const char *const data_names[N_DATA];

typedef enum {
    VAL_NODE,    /* an output of a node */
    VAL_PARAM,   /* a parameter, as gathered, in param dtype */
    VAL_INPUT,   /* block input (the previous block's output) */
    VAL_DATA,    /* i32 [micro_batch * seq], row [1]: one of data_names */
    VAL_DOUT,    /* gradient of a block output, handed in by the next block's backward */
} ValueKind;

/* Where the emitted mathematics finds a value (span.c decides). */
typedef enum {
    LOC_NONE, LOC_PARAM, LOC_GRAD, LOC_IN, LOC_OUT, LOC_DIN, LOC_DOUT, LOC_DATA, LOC_CONST,
    LOC_SAVED, LOC_SCRATCH, LOC_LOSS, LOC_LOGITS
} Loc;

typedef struct Node Node;

typedef struct Value {
    int id;                  /* index in its graph */
    ValueKind kind;
    const char *name;        /* unique in its graph, a C identifier: "qkv", "d_qkv" */
    Dtype dtype;
    int n_dims;
    int64_t dim[MAX_DIMS];
    int64_t elems, bytes;
    Node *def;               /* VAL_NODE */
    int def_out;
    int index;               /* which param, input, output gradient or data; of a parameter's
                                gradient: its place in the order of writes to that buffer */
    /* span.c */
    Loc loc;
    int64_t offset_bytes;    /* in the slab, for LOC_SAVED and LOC_SCRATCH */
    int loc_index;           /* which param, grad, input, output, const */
} Value;

typedef struct Attr {
    const char *key;
    enum { ATTR_INT, ATTR_NUM, ATTR_STR, ATTR_BOOL } type;
    int64_t i;
    double num;
    const char *s;
} Attr;

typedef enum {
    PHASE_SETUP, PHASE_FORWARD, PHASE_BACKWARD,
    PHASE_RECOMPUTE, /* of instructions: the forward span called again, before its backward */
    PHASE_EVALUATE,  /* of the block that ends the model: its loss and logits, no gradient */
} Phase;

struct Node {
    int id;
    const OpRule *op;
    const char *name;        /* as the arch named it, or derived from the first output */
    Phase phase;             /* SETUP: depends on no param, input or data; runs once */
    int piece;               /* of its class: Class.pieces */
    int n_in, n_out, n_attrs;
    Value **in, **out;
    Attr *attrs;             /* sorted by key */
    bool *add;               /* per output: adds into a buffer that this step already wrote
                                (a later use of a parameter used twice) */
    double flops;            /* of the rule, for this shape */
    int64_t workspace_bytes;
    int64_t workspace_offset_bytes; /* in the scratch slab (span.c) */
    const char *kernel;      /* C name of the emitted kernel; equal for equal (op, shape, attrs) */
    /* fuse.c: a fused node remembers what it replaced, for checks and dumps */
    int n_replaced;
    Node **replaced;
    Pos pos;                 /* where the architecture called it; of forward nodes only */
};

typedef struct ClassParam {
    const char *name;        /* local: "self_attn.qkv_proj.weight" */
    const char *ident;       /* C identifier: "self_attn_qkv_proj_weight" */
    int n_dims;
    int64_t dim[MAX_DIMS];
    int64_t elems;
    const char *init;        /* "normal", "zeros", "ones" */
    double init_std;
    bool decay;              /* weight decay applies */
    int n_parts;             /* Hugging Face tensors along dim 0 of a fused storage tensor */
    const char **part_name;  /* local names */
    int64_t *part_rows;
    bool tied_global;        /* name is global, not local: shared between blocks */
    int piece;               /* the first that reads it, in forward order (span.c) */
    bool frozen;             /* no gradient: of all blocks of the class */
    const ParamGroup *group; /* of the block it was built for (Param.group stays) */
} ClassParam;

/* A constant computed once at start by a SETUP node, shared by every class that asks for it. */
typedef struct Const { const char *name; Node *node; int out; Value *value; int64_t bytes; } Const;

/* A span: the kernels between two schedule points; emitted once in math.c. */
typedef enum {
    ARG_PARAMS, ARG_GRADS, ARG_CONST, ARG_DATA, ARG_IN, ARG_OUT, ARG_DOUT, ARG_DIN, ARG_LOSS,
    ARG_LOSS_SCALE, ARG_LOGITS,
    ARG_SAVED, ARG_SCRATCH
} ArgKind;

typedef struct SpanArg { ArgKind kind; int index; Value *value; } SpanArg;

typedef struct Span {
    const char *name;        /* "layer_forward" */
    Phase phase;
    int n_nodes;
    Node **nodes;            /* in execution order */
    int n_args;
    SpanArg *args;           /* the C signature, in order (span.c) */
    int64_t scratch_bytes;   /* slab of temporaries, offsets constant in the class; all
                                pieces of a block and phase share one */
    int64_t live_scratch_bytes; /* max live: lower bound of scratch_bytes */
    double flops;
    int64_t traffic_bytes;   /* operands read and written once */
} Span;

/* Where the architecture says g:cut "name", a new piece of the block begins: the smallest
 * part that can be a unit of its own. Every class has at least one. Its backward runs the
 * backward nodes of its forward nodes, so pieces run in order, then in reverse. */
typedef struct Piece {
    const char *name;        /* "mlp_up"; NULL when the class has no cuts */
    Pos pos;                 /* of the cut */
    Span forward, backward;  /* one function of math.c each; n_nodes 0: none */
    Span again;              /* recompute.c: of Class.again, what runs before this backward
                                where the wrap cuts the block */
} Piece;

/* Bytes that live from the forward to the backward: of one value, or of several in turn. */
typedef struct Saved {
    Value *value;            /* that the backward reads; the others are in place of it */
    int64_t offset_bytes;    /* in the slab of all */
    bool dropped;            /* recompute.c: by KEEP_SOME */
    int64_t some_offset_bytes; /* then in the slab of those kept, or of those dropped */
} Saved;

typedef struct Class {
    int id;
    const char *name;        /* "layer" */
    const char *hint;        /* the architecture's name for it: "layer" of layer_frozen too */
    struct { Value **items; int count, cap; } values;
    struct { Node **items; int count, cap; } nodes;  /* forward then backward, SSA order */
    struct { ClassParam *items; int count, cap; } params;
    bool trains_before;      /* something does in the blocks before: its input has a gradient */
    int n_inputs, n_outputs;
    Value **inputs, **outputs;       /* boundary values; equal count and shapes chain */
    Value **d_outputs, **d_inputs;   /* after grad; NULL entries where no gradient flows */
    Value **grads;                   /* per param, after grad: the (last) value in its buffer;
                                        NULL: frozen */
    Value *loss;                     /* non-NULL in the block that ends the model */
    struct { Piece *items; int count, cap; } pieces; /* in forward order */
    /* span.c */
    Span forward, backward;          /* all pieces, one after the other; n_nodes 0: nothing
                                        to run */
    int64_t saved_bytes;             /* slab of activations from forward to backward */
    struct { Saved *items; int count, cap; } saved; /* what lies in it; Value.loc_index */
    /* recompute.c */
    Span again;                      /* of KEEP_SOME: the nodes that run again, in order */
    int64_t kept_bytes, dropped_bytes; /* then the saved slab, and what is not kept */
    /* evaluate.c */
    Span evaluate;                   /* after the forward: the loss, where the forward does not
                                        make it, and one token's logits; n_nodes 0: nobody
                                        knows how */
    uint64_t structure_hash;
} Class;

/* What a call of the schedule runs: one piece, or with -1 the whole block. Recomputing runs
 * the forward again. */
static inline const Span *class_span(const Class *c, int piece, Phase phase)
{
    const Piece *p = piece < 0 ? NULL : &c->pieces.items[piece];

    if (phase == PHASE_EVALUATE)
        return &c->evaluate; /* of the whole block */
    if (phase == PHASE_BACKWARD)
        return p ? &p->backward : &c->backward;
    return p ? &p->forward : &c->forward;
}

/* The k-th piece that a phase runs. */
static inline int class_piece(const Class *c, int k, Phase phase)
{
    return phase == PHASE_BACKWARD ? c->pieces.count - 1 - k : k;
}

/* Of what the forward of a block makes for its backward (policy.c). */
typedef enum {
    KEEP_ALL,
    KEEP_SOME,  /* not what Class.again makes: its kernels run again before the backward */
    KEEP_INPUT, /* only its input: the forward runs again before the backward */
} Keep;

typedef struct Block {
    int id;
    const char *name;        /* "layers.7"; [a-z][a-z0-9_.]* */
    const char *ident;       /* "layers_7" */
    const char *prefix;      /* of its parameters' global names: "model.layers.7." */
    const char **at;         /* names.c: the block's place in the schedule, then its pieces' */
    Class *cls;
    int *param;              /* global param id for each class param */
    Keep keep;               /* policy.c */
    int *unit;               /* of each piece (shard.c); -1: its unit has no parameters */
    bool cut;                /* its pieces lie in several units: each is a call of its own */
} Block;

typedef struct Param {       /* one storage tensor; a tied one appears once */
    int id;
    const char *name;        /* global: "model.layers.7.self_attn.qkv_proj.weight" */
    ClassParam *decl;        /* of its first use */
    Block *block;            /* first block that uses it */
    int64_t elems;
    int n_uses;              /* blocks that use it */
    const ParamGroup *group; /* NULL: in none */
    bool matrix;             /* the optimizer treats it, or each of its parts, as a whole */
    /* checkpoint.c */
    int file;                /* of a checkpoint: 0, 1, ... */
    int64_t file_elems;      /* weights before it in that file */
    /* shard.c */
    int segment;
    int64_t offset_elems;    /* in the segment; a multiple of GRAIN_ELEMS */
} Param;

/* ---- the mesh, units, segments (shard.c) ------------------------------------------------ */

/* rank = (p * outer + o) * inner + i: p of mesh.replicate; mesh.shard = outer * inner, where
 * inner is the group of reshard_after_forward, if it is one, else all of mesh.shard. */
enum { AXIS_INNER = 1, AXIS_OUTER = 2, AXIS_REPLICATE = 4, AXIS_SETS = 8 };

/* The ranks that one collective joins: those that differ along some axes. Rank r's are
 * r - r / stride % size * stride + k * stride for k in 0 .. size - 1; it is the one with
 * k = r / stride % size. axes has no bit for an axis of one rank. */
typedef struct Group { unsigned axes; int size, stride; } Group;

/* Into how many parts something is cut over the ranks of mesh.replicate and of mesh.shard;
 * 1: each rank of the axis holds all of it. A strategy is a name for a row of these. */
typedef enum {
    HELD_PARAMS,    /* weights at rest: from the update to the forward */
    HELD_BETWEEN,   /* weights between the forward and the backward of a micro-step */
    HELD_GRADS,     /* the step's summed gradient */
    HELD_OPTIMIZER, /* masters, moments */
    N_HELD
} Held;
typedef struct Cut { int replicate, shard; } Cut;

typedef struct Segment {
    int id;
    const char *name, *ident;
    const char *macro;       /* names.c: "SEG_LAYERS_7" */
    int unit;
    int n_params;
    int *params;             /* global ids, in layout order */
    bool trainable;          /* all of its parameters, or none: no gradient, no state */
    int64_t used_elems;      /* sum of parameters */
    int64_t elems;           /* padded: shard_elems * shards */
    int64_t shard_elems;     /* multiple of GRAIN_ELEMS */
    Cut cut[N_HELD];         /* placement over the mesh */
    int shards;              /* parts at rest: ranks that together hold one copy */
    Group within;            /* one copy's ranks: gather weights, reduce gradients */
    Group across;            /* ranks with the same part: sum it after that */
    Group between;           /* ranks that share the weights between forward and backward;
                                size 1: none, they are kept whole, or freed */
} Segment;

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

/* ---- the step program (unroll.c, schedule.c) -------------------------------------------- */

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
    INS_MOMENTUM,        /* segment: of matrices, what the optimizer makes a step of */
    INS_TO_OWNERS,       /* batch: each of its matrices, whole, to the rank that owns it */
    INS_MATRICES,        /* batch: the optimizer's op on those that this rank owns */
    INS_FROM_OWNERS,     /* batch: this rank's parts of the results */
    INS_STEP,            /* segment: of matrices, the update of this rank's shard */
} InsKind;

/* EVAL is no part of a step: it runs between two of them, as often as the runtime likes. */
typedef enum { VARIANT_EVAL, VARIANT_LOCAL, VARIANT_LAST, VARIANT_END, N_VARIANTS } Variant;

typedef enum { SPACE_SYMMETRIC, SPACE_LOCAL, N_SPACES } Space; /* peers touch symmetric ones */

typedef enum {
    BUF_PARAM_SHARD, BUF_MASTER, BUF_MOMENT1, BUF_MOMENT2, BUF_GRAD_SHARD, BUF_PARTIAL,
    BUF_GRAD_ACCUM,  /* unsharded accumulator of a unit's segment */
    BUF_CONST, BUF_DATA, BUF_CONTROL, /* losses, superaccumulator: the runtime's exchange area */
    BUF_STAGING,     /* of the cuda target: parts of other ranks on their way into a sum */
    BUF_LIBRARY,     /* of the cuda target: workspace of matrix products */
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
    Group group;             /* collectives: who takes part; else axes 0, size 0 */
    Phase phase;
    int n_access;
    Access *access;
    int n_waits;
    int *waits;              /* ids on other streams that must be complete first (schedule.c) */
    const char **wait_why;   /* reason beside each wait, for the reader */
    int gathered;            /* INS_ALL_GATHER, INS_SPAN...: main buffers by role, -1 if none */
    int in, out, d_in, d_out, saved, scratch; /* INS_SPAN */
    int dropped;             /* of KEEP_SOME: what is computed again, beside saved */
    int grad;                /* buffer the reduction reads */
    int result;              /* buffer the reduction writes; INS_SPAN: logits */
    double flops;
    int64_t moved_bytes;     /* collectives: received by this rank from others */
} Instr;

typedef struct Program {
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
    /* happens-before, filled by schedule.c: bit b of row a of hb[axes]: a, on every rank that
     * differs from this one along the axes, is complete before b starts on this one. NULL for
     * sets with an axis of one rank. */
    uint64_t *hb[AXIS_SETS];
    int hb_words;
    double step_seconds;     /* simulate.c; 0 when no cost table */
} Program;

/* ---- everything ------------------------------------------------------------------------- */

typedef struct Options {
    const char *command;     /* "generate", "plan", "check" */
    const char *input, *output;
    const char *dump;        /* pass name or NULL */
    const char *ops_dir;     /* --ops, NULL: built in */
    const char *link_runtime;
    struct { const char **items; int count, cap; } sets, paths;
    const char *target;
    const char *accelerate;  /* import: the file */
    bool check_drift, force, json, color;
} Options;

/* An output file; emit.c fills them, files.c in the parent process writes them. */
typedef struct OutFile { const char *path; const char *data; size_t bytes; } OutFile;

struct Gen {
    struct Arena *arena;
    lua_State *L;
    Options opt;
    struct Diags *diags;
    struct Loader *loader;   /* load.c: places and values of the description */
    Model model;
    OpList ops;
    struct { Class **items; int count, cap; } classes;
    struct { Block *items; int count, cap; } blocks;
    struct { Param *items; int count, cap; } params;
    struct { Const *items; int count, cap; } consts;
    Span setup;              /* SETUP nodes, in order */
    struct { Node **items; int count, cap; } shapes; /* of matrices: each once */
    struct { Segment *items; int count, cap; } segments;
    struct { Matrix *items; int count, cap; } matrices; /* in order of segments, then of offsets */
    struct { Batch *items; int count, cap; } batches;
    struct { Unit *items; int count, cap; } units;
    Program prog;
    struct Search *search;   /* policy_auto.c: what "auto" found; NULL without it */
    bool candidate;          /* this program is only being tried */
    uint64_t numerics_hash;
    struct { OutFile *items; int count, cap; } files;
};

/* ---- the passes, in order ---------------------------------------------------------------- */

void load_description(Gen *g);  /* load.c: Lua file + overrides → g->model (raw) with places */
void check_model(Gen *g);       /* check.c: all diagnostics at once; resolves defaults */
void ops_load(Gen *g);          /* ops.c: op folders → g->ops */
void graph_build(Gen *g);       /* graph.c: arch's build → blocks, classes, params, forward nodes */
void grad_build(Gen *g);        /* grad.c: backward nodes in every class */
void fuse_graph(Gen *g);        /* fuse.c: expansions → fused nodes; then g->numerics_hash */
void span_build(Gen *g);        /* span.c: nodes → spans, slabs, value locations, kernel names */
void checkpoint_layout(Gen *g); /* checkpoint.c: params → files of a checkpoint, config.json */
void checkpoint_dump(Gen *g, Text *t);
void shard_params(Gen *g);      /* shard.c: params → segments, units */
void policy_choose(Gen *g);     /* policy.c: choices outside the hash */
void unroll_step(Gen *g);       /* unroll.c: → instructions and buffers */
void schedule_step(Gen *g);     /* schedule.c: → waits, happens-before */
void place_buffers(Gen *g);     /* place.c: → offsets */
void simulate_step(Gen *g);     /* simulate.c: → predicted seconds */
void emit_files(Gen *g);        /* emit.c: → g->files */
void emit_dump(Gen *g, Text *t); /* emit.c: the files with sizes and hashes (--dump=emit) */

/* verify.c: dies (exit 70) when an invariant of DESIGN's table is broken after the pass. */
void verify_after(Gen *g, const char *pass);
/* dump.c: deterministic text of the IR after the pass, to t. Known pass names only. */
void dump_pass(Gen *g, const char *pass, Text *t);
/* plan.c: the memory and flops report (text or JSON). */
void plan_print(Gen *g, Text *t);
void plan_print_json(Gen *g, Text *t);

/* Happens-before queries (schedule.c). */
bool hb_same(const Program *p, int a, int b); /* a on this rank before b on this rank */
/* a on all ranks along the axes before b on this rank */
bool hb_group(const Program *p, unsigned axes, int a, int b);

#endif
