/* SPDX-License-Identifier: Apache-2.0 */
/* ir.h: the op graph of a block class (graph.c, grad.c, fuse.c), its spans (span.c), and the
 * blocks and parameters of a model. Offsets are in bytes of their slab; ids are creation
 * order. */
#ifndef IR_H
#define IR_H

#include "describe/model.h"
#include "ops/rule.h"

enum { MAX_DIMS = 4,
       MAX_BLOCKS = 1024 /* of a model: planning is quadratic in instructions, and takes seconds here */ };

/* The data of a micro-batch. starts: the index, in its sequence, of the first token of each token's
 * document; only with packed documents. The target of a masked token is -1. row, [1]: the token
 * whose logits evaluation returns; no architecture reads it. part, [1]: the number of the part
 * that is computed; only ops that split_ops.c and evaluate.c build read it. */
enum { DATA_TOKENS, DATA_TARGETS, DATA_STARTS, DATA_ROW, DATA_PART, N_DATA };
extern const char *const data_names[N_DATA];

typedef enum {
    VAL_NODE,    /* an output of a node */
    VAL_PARAM,   /* a parameter, as gathered */
    VAL_INPUT,   /* block input (the previous block's output) */
    VAL_DATA,    /* i32 [micro_batch * seq]; row, part [1]: one of data_names */
    VAL_DOUT,    /* gradient of a block output, from the next block's backward */
    VAL_SCALE,   /* [1]: what the codes of a parameter are multiplied by (encode.c) */
} ValueKind;

/* Where the emitted mathematics finds a value (decided by span.c). */
typedef enum {
    LOC_NONE, LOC_PARAM, LOC_SCALE, LOC_GRAD, LOC_IN, LOC_OUT, LOC_DIN, LOC_DOUT, LOC_DATA, LOC_CONST,
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
    PartState part[N_PARTS_AXES]; /* split.c: what each part has of it, along each axis; the dims
                              * above are of a part then */
    bool of_weights;         /* split_choose.c: a parameter, or made of parameters alone */
    int index;               /* which param (also of a scale), input, output gradient or data; for a parameter's
                              * gradient: its position in the order of writes to that buffer */
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
    PHASE_RECOMPUTE, /* for instructions: the forward span called again, before its backward */
    PHASE_EVALUATE,  /* of the block that ends the model: its loss and logits, without gradients */
} Phase;

/* What the prediction of a node's time needs (ops/node_cost.c). */
typedef struct NodeCost {
    CostClass cls;
    int64_t traffic_bytes;   /* operands read and written once, or as the rule says */
    int64_t moved_bytes;     /* by which it is priced: on a device the products' operands, each
                              * time, or the rule's bytes_cuda */
    int64_t pass_bytes;      /* on a device: moved beside the products, before or after them */
    int n_products;          /* matrix products that the kernel consists of */
    Product *products;
} NodeCost;

struct Node {
    int id;
    const OpRule *op;
    const char *name;        /* given by the architecture, or derived from the first output */
    Phase phase;             /* SETUP: depends on no param, input or data; runs once */
    int piece;               /* of its class: Class.pieces */
    PartsAxis along;         /* of a meet */
    int leg;                 /* legs.c: nodes of one leg run part after part; all of them for one
                              * part, then for the next */
    int n_in, n_out, n_attrs;
    Value **in, **out;       /* in: those that the call gives */
    uint32_t omitted;        /* operands of the rule, a bit each, that the call omits before a
                              * later one: node_operand */
    Attr *attrs;             /* sorted by key */
    bool *add;               /* per output: adds into a buffer that this step already wrote (a later
                              * use of the parameter) */
    double flops;            /* from the rule, for this shape */
    NodeCost cost;           /* of nodes in spans */
    const KernelLibrary *library; /* whose kernel runs it; NULL: the target's own (infer_library.c) */
    const char *site;        /* what the choice depends on, if there is one; or NULL */
    int64_t workspace_bytes;
    int64_t other_workspace_bytes; /* of the kernel not chosen, where both are measured */
    int64_t workspace_offset_bytes; /* in the scratch slab (span.c) */
    const char *kernel;      /* C name of the emitted kernel; equal for equal (op, shape, attrs) */
    /* fuse.c: the nodes that a fused node replaced, for checks and dumps */
    int n_replaced;
    Node **replaced;
    const OpRule *part_of;   /* the fused op that it is a part of (fuse_split.c), or the op that it
                              * stands for in parts (split_ops.c); else NULL */
    Pos pos;                 /* the architecture's call; forward nodes only */
};

/* Does it join the ranks that compute other parts? A meet does, but for one of what every part has. */
static inline bool node_joins(const Node *n)
{
    return n->op->collective && n->in[0]->part[n->along].kind != PART_WHOLE;
}

/* The axes along which parts differ, a bit each: of a value, of a node's results. A rank computes
 * what parts along an axis share once for all of them. */
static inline unsigned value_differs(const Value *v)
{
    unsigned axes = 0;

    for (int a = 0; a < N_PARTS_AXES; a++)
        axes |= (unsigned)(v->part[a].kind != PART_WHOLE) << a;
    return axes;
}
static inline unsigned node_differs(const Node *n)
{
    unsigned axes = 0;

    for (int i = 0; i < n->n_out; i++)
        axes |= value_differs(n->out[i]);
    return axes;
}

/* Which operand of its rule input i is. */
static inline int operand_index(const Node *n, int i)
{
    for (int at = 0;; at++)
        if (!(n->omitted >> at & 1) && i-- == 0)
            return at;
}

static inline const Operand *node_operand(const Node *n, int i)
{
    return &n->op->in[operand_index(n, i)];
}

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
    PartState mark[N_PARTS_AXES]; /* how parts cut it; PART_WHOLE: they do not. tensor: as the
                              * architecture says; context: each such piece, to be stored */
    bool mark_pads;          /* rows of zeros may follow, so that parts are equal: sections of mark[PARTS_TENSOR] */
    int64_t mark_unit;       /* its sections are cut between units of so many rows or columns */
    const char **mark_of;    /* of each of its sections, the model's field that is its number of units;
                              * NULL: the architecture does not say */
    bool tied_global;        /* name is global, not local: shared between blocks */
    int piece;               /* the first piece that reads it, in forward order (span.c) */
    bool frozen;             /* no gradient, in all blocks of the class */
    Dtype dtype;             /* of its stored weights */
    Dtype gathered;          /* of what spans read: the same, or codes (encode.c) */
    const ParamGroup *group; /* of the block it was built for (Param.group stays) */
} ClassParam;

/* A constant that a SETUP node computes once at start; all classes that need it share it. */
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
    int64_t scratch_bytes;   /* slab of temporaries, offsets constant in the class; all pieces of a
                              * block and phase share one */
    int64_t live_scratch_bytes; /* max live: lower bound of scratch_bytes */
    double flops;
    int64_t traffic_bytes;   /* operands read and written once */
} Span;

/* At g:cut "name" in the architecture a new piece of the block begins: the smallest part that can
 * be a unit. Every class has at least one. The backward of a piece runs the backward nodes of its
 * forward nodes; so pieces run in order, then in reverse. */
typedef struct Piece {
    const char *name;        /* "mlp_up"; NULL when the class has no cuts */
    Pos pos;                 /* of the cut */
    Span forward, backward;  /* one function of math.c each; n_nodes 0: none */
    Span again;              /* recompute.c: the part of Class.again that runs before this piece's
                              * backward, if the wrap cuts the block */
} Piece;

/* Bytes that live from the forward to the backward: of one value, or of several in turn. */
typedef struct Saved {
    Value *value;            /* the one that the backward reads; the others share its bytes */
    int64_t offset_bytes;    /* in the slab of all saved values */
    bool dropped;            /* recompute.c: by KEEP_SOME */
    int64_t some_offset_bytes; /* then in the slab of kept or of dropped values */
} Saved;

typedef struct Class {
    int id;
    const char *name;        /* "layer" */
    const char *hint;        /* the architecture's name: "layer" for layer_frozen too */
    struct { Value **items; int count, cap; } values;
    struct { Node **items; int count, cap; } nodes;  /* forward then backward, SSA order */
    struct { ClassParam *items; int count, cap; } params;
    bool trains_before;      /* an earlier block trains: the input has a gradient */
    int n_inputs, n_outputs;
    Value **inputs, **outputs;       /* boundary values; equal count and shapes chain */
    Value **d_outputs, **d_inputs;   /* after grad; NULL where no gradient flows */
    Value **grads;                   /* per param, after grad: the (last) value in its buffer; NULL:
                                      * frozen */
    Value *loss;                     /* not NULL in the block that ends the model */
    struct { Piece *items; int count, cap; } pieces; /* in forward order */
    /* span.c */
    Span forward, backward;          /* all pieces, one after the other; n_nodes 0: empty */
    int64_t saved_bytes;             /* slab of activations from forward to backward */
    struct { Saved *items; int count, cap; } saved; /* its contents; Value.loc_index */
    /* recompute.c */
    Span again;                      /* for KEEP_SOME: the nodes that run again, in order */
    int64_t kept_bytes, dropped_bytes; /* sizes of the saved slab then, and of the rest */
    /* evaluate.c */
    Span evaluate;                   /* after the forward: the loss, if the forward does not make
                                      * it, and one token's logits; n_nodes 0: cannot be
                                      * evaluated */
    uint64_t structure_hash;
} Class;

/* What one call of the schedule runs: one piece, or the whole block (-1). Recomputing runs the
 * forward again. */
static inline const Span *class_span(const Class *c, int piece, Phase phase)
{
    const Piece *p = piece < 0 ? NULL : &c->pieces.items[piece];

    if (phase == PHASE_EVALUATE)
        return &c->evaluate; /* always the whole block */
    if (phase == PHASE_BACKWARD)
        return p ? &p->backward : &c->backward;
    return p ? &p->forward : &c->forward;
}

/* The scratch that all pieces of a block share in a phase; what runs again has the forward's. */
static inline int64_t class_scratch_bytes(const Class *c, Phase phase)
{
    return phase == PHASE_EVALUATE   ? c->evaluate.scratch_bytes
           : phase == PHASE_BACKWARD ? c->backward.scratch_bytes
                                     : c->forward.scratch_bytes;
}

/* The k-th piece that a phase runs. */
static inline int class_piece(const Class *c, int k, Phase phase)
{
    return phase == PHASE_BACKWARD ? c->pieces.count - 1 - k : k;
}

/* What a block's forward keeps for its backward (policy.c). */
typedef enum {
    KEEP_ALL,
    KEEP_SOME,  /* all but what Class.again makes: its kernels run again before the backward */
    KEEP_INPUT, /* only the input: the whole forward runs again before the backward */
} Keep;

typedef struct Block {
    int id;
    const char *name;        /* "layers.7"; [a-z][a-z0-9_.]* */
    const char *ident;       /* "layers_7" */
    const char *prefix;      /* prefix of its parameters' global names: "model.layers.7." */
    const char **at;         /* names.c: the block's place in the schedule, then its pieces' */
    Class *cls;
    int *param;              /* global param id for each class param */
    Keep keep;               /* policy.c */
    int *unit;               /* of each piece (shard.c); -1: its unit has no parameters */
    bool cut;                /* its pieces belong to several units, so each is a call of its own */
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
    RankBits axes;           /* ranks along these axes each hold an equal part, cut along cut_dim;
                              * 0: every rank has all of it */
    int cut_dim;
    int boxes;               /* tensors that it is stored as: its pieces along cut_dim, of each
                              * section of that dim; 0 or 1: one for each rank along the axes */
    int inner_boxes;         /* so many of them, one after the other, are of parts that differ along
                              * context only; 1: parts along context share it, or all differ so */
    Sections sections;       /* n 0: one */
    /* checkpoint.c */
    int file;                /* number of its file in a checkpoint: 0, 1, ... */
    int64_t file_elems;      /* elements before it in that file */
    /* shard.c */
    int segment;
    int64_t held_elems;      /* from the first to the last that a rank holds; without axes and
                              * boxes all of them */
    int64_t offset_elems;    /* in the segment; a multiple of GRAIN_ELEMS */
    int scale;               /* its number among those that are gathered as codes; -1: it is not */
} Param;

#endif
