/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h: what graph.c, builder.c, grad.c, fuse.c, span.c, dump.c and verify_graph.c
 * share. */
#ifndef GRAPH_H
#define GRAPH_H

#include "describe/fields.h"
#include "ops/ops.h"

/* The pattern of a fused op's `expands` (fuse.c): while one is recorded, ops called on
 * `g` go to the hook instead of the class. */
typedef struct Pattern Pattern;

/* The state behind `g` and `b` in Lua; one for the whole run. */
typedef struct Builder {
    Gen *g;
    Class *cls;        /* the class being built; NULL between blocks */
    const char *block; /* name of its block, for messages */
    Phase phase;       /* phase of new nodes */
    int piece;         /* piece of new nodes: index in cls->pieces */
    const char *prefix;
    Pattern *pattern; /* while an expansion is recorded */
    Value *flow;      /* output of the previous block, which the next one must take */
    Class *flow_class;
    bool trains;           /* an earlier block has a parameter that is not frozen */
    bool ended;            /* a block returned the loss */
    int64_t elems;         /* of all parameters so far */
    int g_ref, b_ref;      /* registry */
    const char *hint;      /* the requested class name */
    const char *help;      /* help of the next error, or NULL */
    struct NameSet *names; /* of the current class (builder.c) */
    Pos blame;          /* the place of errors outside any line of Lua; no file: the fallback */
    const char *source; /* file of the previous call, interned */
} Builder;

Builder *builder_get(Gen *g); /* made at the first call */
/* Calls fn(L) protected, with arg as light userdata. An error becomes a diagnostic at the
 * innermost Lua line of the stack (fallback when there is none); returns false. */
bool builder_protect(Gen *g, lua_CFunction fn, void *arg, Pos fallback);
void builder_push_g(Builder *b);
void builder_push_value(Builder *b, Value *v, Class *owner);
/* Pushes what a rule's function gets: g, and the node's table with its operands by name. */
void builder_push_call(Builder *b, const Node *n, Class *c);
/* The value at a stack index; NULL if it is not a value. owner may be NULL. */
Value *builder_to_value(lua_State *L, int index, Class **owner);
/* Text of any Lua value for messages: "a table", "[4, 8] f32". */
const char *builder_show(Gen *g, lua_State *L, int index);

/* Appends a node of the class; name may be NULL; attributes are complete, sorted. */
Node *builder_node(Builder *b, const OpRule *op, Value **in, Attr *attrs, int n_attrs,
                   const char *name);
/* Puts those of in[op->n_in] that are not NULL side by side into given, which may be in. Returns
 * how many; omitted: as of a node. */
int builder_given(const OpRule *op, Value *const *in, Value **given, uint32_t *omitted);
/* Reads the attributes of an op call from the table at index into out (sorted, complete).
 * Unknown keys, wrong types and missing values are Lua errors. */
void builder_attrs(Builder *b, const OpRule *op, int index, Attr *out);
Value *value_new(Gen *g, Class *c, ValueKind kind, const char *name);
const char *value_unique_name(Gen *g, const Class *c, const char *base);

/* split_choose.c: how each node of a class is computed in parts. */
typedef struct Choice {
    const Cut *cut; /* NULL: every part computes all of it */
    PartState *part;     /* of inputs, as they must be; then of outputs, as they will be */
} Choice;
/* Per node, in order; fills Value.part of nodes' outputs. Values have whole shapes. Nodes are replaced
 * by split_ops. Needs a protected call. */
Choice *split_choose(Gen *g, Class *c, PartsAxis axis);
/* split_ops.c: the node at this place becomes those that its rule builds for parts, if it is due;
 * how many nodes are there now. Needs a protected call. */
int split_ops(Gen *g, Class *c, int at);
/* The node as one part computes it: dims and attributes of the part; inferred. Needs a protected
 * call. */
Node *split_part_node(Gen *g, const Node *n, const Choice *choice, PartsAxis axis);
/* split_divide.c: do parts along the axis divide what they must? Else there is a message. */
bool split_divides(Gen *g, PartsAxis axis);
/* Rows of a part of a parameter that is padded. */
int64_t split_padded_rows(const ClassParam *p, int64_t parts);
/* What a part must have of the gradient: a piece as it has of the parameter, or all of it. */
PartState split_gradient(const Class *c, const Value *gradient, PartsAxis axis);
/* The whole dims along the axis → those of a part; pieces along other axes likewise. False: those
 * are none any more. split_others does the latter only. */
bool split_shape(Gen *g, Value *v, PartsAxis axis);
bool split_others(Gen *g, PartState part[N_PARTS_AXES], PartsAxis axis);

/* legs.c */
void legs_number(const Gen *g, Class *c);
/* How long a value stays whose last reader is node `last`; -1: it has none. */
int legs_end(const Gen *g, const Class *c, const Value *v, int last);

/* fuse.c */
/* Forward nodes, then backward nodes, each after its inputs and otherwise in the old order. */
void class_sort(Gen *g, Class *c);
/* Per gradient value: the next node that writes its buffer, or NULL. */
Node **class_next_writes(Gen *g, const Class *c);
void fuse_split(Gen *g); /* fuse_split.c: fused nodes without a kernel → their expansions */
void fuse_maps(Gen *g); /* fuse_maps.c: chains of formulas → one node each */

/* groups.c: the group that takes the parameter of this name; NULL if none. Counts matches of
 * patterns, so call it once per name. */
ParamGroup *group_of(Gen *g, const char *name);
void groups_check(Gen *g); /* reports patterns and groups that take nothing */
/* graph.c: drops nodes whose results have no user, then unused values; renumbers. */
void class_sweep(Gen *g, Class *c);
/* graph.c: replaces nodes with unused outputs by the forms of their ops that make less (ops_form),
 * then sweeps. Needs a protected call. */
void class_trim(Gen *g, Class *c);
/* All users of values inside the class, recomputed: uses[id] lists nodes in order. */
typedef struct Uses {
    int *count;
    Node ***node;
} Uses;
Uses class_uses(Gen *g, const Class *c);
bool class_is_root(const Class *c, const Value *v); /* boundary, gradient or loss */
/* graph.c: are these calls of one op with the same values and attributes? */
bool node_equal(const Node *a, const Node *b);
/* graph.c: moves the class's setup nodes out to g->setup and g->consts. */
void graph_hoist_setup(Gen *g, Class *c);

/* linears.c: products of all classes but the last → their graphs in fp8 */
void grad_fp8(Gen *g);

/* repeat.c: copies of what parts of a sequence are too many to share, in the forward. */
void graph_repeat(Gen *g);
/* grad.c: can one kernel with one beta write these outputs? add: per output. */
bool grads_agree(const Class *c, int n, Value *const *out, const bool *add);

/* pieces.c: nodes in order of execution, piece by piece. */
void class_pieces(Gen *g, Class *c);
/* span.c: the C signature of a span whose nodes and scratch are known. */
void span_make_args(Gen *g, Class *c, Span *s);

const char *phase_name(Phase phase); /* text.c */
void graph_text(Gen *g, Text *t);   /* text.c: for people */
uint64_t numerics_hash(Gen *g);     /* canon.c: the hash of the fused graph */
/* canon.c: its parts as lines "name = value\n": each op's arithmetic, the graph as a hash, the
 * fields. For people, and to say what differs. */
const char *numerics_lines(Gen *g);

/* evaluate.c */
/* Fills Class.evaluate except names and arguments (span.c). Needs a protected call. */
void evaluate_class(Gen *g, Class *c);

/* kernel_library.c */
/* Reports what the library's kernels cannot do: as errors, or notes if others do it. */
void kernel_library_check(Gen *g);
/* The library that runs some node, or is to be measured; NULL: none. */
const KernelLibrary *kernel_library_used(const Gen *g);
/* "SITE: cuDNN; SITE: generated": each site once, in the order of the model; NULL: none. */
const char *kernel_library_choices(Gen *g);

/* ---- optimizer.c ----------------------------------------------------------------- */

/* The description's optimizer's op, or an op that it uses; NULL: none. */
const OpRule *optimizer_rule(const Gen *g, OptimizerUse use);
bool optimizer_uses(const Gen *g, const OpRule *op); /* is it one of those? */
/* The description's value of an attribute that the op's rule declares. */
Attr optimizer_attr(const Gen *g, OptimizerUse use, int index);
/* A numeric attribute of the op for elements, or else of the op before matrices; or else 0. */
double optimizer_number(const Gen *g, const char *attr);
void optimizer_matrices(Gen *g); /* Param.matrix, g->shapes */
const MatrixShape *optimizer_shape(const Gen *g, int64_t rows, int64_t cols); /* or NULL */

#endif
