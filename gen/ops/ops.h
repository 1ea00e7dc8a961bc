/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h: what an op folder says, and how the passes, the emitter and the tests query it. Op rules
 * stay in Lua; OpRule and OpInfo hold what C often needs. Nothing here knows an op by name. */
#ifndef OPS_H
#define OPS_H

#include "gen.h"

#include <lauxlib.h>

/* A declared attribute. */
typedef struct AttrSpec {
    const char *key;
    int type; /* Attr.type */
    bool has_default;
    Attr dflt;
    const char *from; /* the model's field that is its default value, or NULL */
    bool quiet;       /* texts and names leave it out where it has its default */
} AttrSpec;

typedef struct Axis {
    const char *dim;
    bool reduction;
} Axis;

/* How an operand takes part when a call is computed in parts along an axis (`cuts` of the rule). An
 * operand that the cut does not name is an input that every part reads whole. */
typedef struct CutOperand {
    const char *name;
    PartKind kind;       /* PART_CUT; of an output also how parts' numbers make the whole one */
    int dim;             /* that is cut, from 0 */
    int64_t times;       /* sections of equal size along it, of dims "2*f" */
    int n_weights;
    const char **weight; /* the sections' sizes are in this proportion: names in n */
} CutOperand;

typedef struct Cut {
    const char *axis;
    bool free; /* the axis is a dim, which may itself consist of sections; else an attribute */
    bool pads;    /* zeros at the axis' end change nothing before them, and give zeros there */
    bool ordered; /* a part has neighbours: the axis has no sections */
    bool context; /* only for parts of tokens */
    bool when; /* the rule says of each call whether it may be cut so */
    int n_attrs, n_operands;
    const char **attrs; /* a part has its share of these */
    const char *repeats; /* one of them: parts of tokens may share copies of so many; or NULL */
    CutOperand *operands;
} Cut;

/* An op that is a formula: ops_map.c. */
typedef struct OpMap {
    const char *cpu, *cuda; /* the templates that its folder would have */
    const char *formula;    /* as the numerics hash has it */
    const char *gradient;   /* the op of its gradient, or NULL */
    int gradient_ref;       /* what op_map.lua says of it */
    int program_ref;        /* as formula_rule.lua returns it */
    int operations;         /* of its formula */
    bool reduces;           /* it has sums over a row, or the largest of it */
    int interpret_ref;      /* interpret(n, arithmetic): `reference` in any arithmetic */
} OpMap;

typedef struct OpInfo {
    int n_attrs, n_axes, n_cuts;
    AttrSpec *attrs;       /* sorted by key */
    Axis *axes;            /* sorted by dim */
    Cut *cuts;             /* sorted by axis */
    const char *parts_by;  /* the operand of the rule's `in_parts`, or NULL: the op has none */
    int parts_dim;         /* along which it is cut then, from 0 */
    const char *role;      /* "sum": adds two values of one shape; "optimizer"; or NULL */
    const char *evaluates; /* the op whose loss this one makes; or NULL */
    const char *form_of;   /* the op without whose optional outputs this form exists; or NULL */
    const char *form;      /* the word of those outputs */
    const char *path;      /* of op.lua, for messages */
    const char *text;      /* op.lua */
    size_t text_bytes;
    bool from_disk;
    const OpMap *map;      /* NULL: the folder has its kernels */
    int arithmetic;        /* version of its bits; 0: the rule states none */
    const char *canonical; /* its name in the hash: its own unless the rule states another */
    bool states_canonical;
    CostClass cost;    /* what limits its kernel */
    bool has_products; /* the rule lists them; then cost is COST_PRODUCT */
    bool scaled; /* takes the loss scale, if there is one */
    bool has_backward, has_fp8, has_encoded, has_check, has_flops, has_bytes, has_bytes_cuda,
        has_products_cuda;
    bool has_workspace;
    bool with_scale; /* NAME_scale, by `scale_of` of NAME: for devices only, and fused after all others */
    bool same_bits; /* as its expansion: fused after the hash. Never of an op from --ops */
    bool has_library_kernel; /* its folder has a file for the library asked for */
} OpInfo;

const OpRule *ops_find(const Gen *g, const char *name); /* NULL when unknown */
const OpRule *ops_role(const Gen *g,
                       const char *role);          /* the op with that role, or NULL */
const char *ops_nearest(Gen *g, const char *name); /* for "did you mean" */
/* The form of the op without as many of the dead outputs (dead: per output) as possible; NULL:
 * none. It has the op's other outputs, in their order. */
const OpRule *ops_form(const Gen *g, const OpRule *op, const bool *dead);
/* A file of the op's folder ("cpu.c"), or NULL. */
const char *ops_folder_file(Gen *g, const OpRule *op, const char *file, size_t *bytes);
/* The library that has a kernel for this op and may run it; or NULL. */
const KernelLibrary *ops_kernel_library(const Gen *g, const OpRule *op);
/* The file of the folder with the kernel: that library's; NULL: the target's own. */
const char *ops_kernel_file(const Gen *g, const KernelLibrary *library);
/* The path of that file, for messages. */
const char *ops_template_path(Gen *g, const OpRule *op, const char *file);

/* ops_canonical.c */
/* The names of a folder's files, in the order of its hash; NULL after the last. */
const char *ops_file(int i);
/* From --ops, and not a copy of the built-in op of that name (--share reads built-in ones from
 * disk). Such an op is hashed by the text of its folder. */
bool ops_foreign(Gen *g, const OpRule *op);
void ops_check_canonical(Gen *g);

/* attr.c */
bool attr_equal(const Attr *a, const Attr *b);
const char *attr_text(Gen *g, const Attr *a);   /* "eps=1e-05" */
bool attr_silent(const OpRule *op, const Attr *a); /* quiet, and it has its default */
const char *shape_text(Gen *g, const Value *v); /* "[1024, 288]" */
bool same_shape(const Value *a, const Value *b);
/* The model's field that is an attribute's default; false: no such field. */
bool attr_from_model(const Gen *g, const char *name, Attr *a);
const char *attr_type_name(int type); /* as op.lua writes it */

/* ops_map.c */
/* Registry ref of what an embedded file of gen/lua returns. */
int ops_load_function(Gen *g, const char *path);
/* The table of `op.map { ... }` on top of the stack becomes a rule. False after a message. */
bool ops_map_expand(Gen *g, OpRule *op);
/* From what formula_rule.lua returns, on top of the stack; leaves its rule there instead. own: text
 * that belongs to the formula's hash. */
OpMap *ops_map_read(Gen *g, const char *own);
void ops_push_tools(Gen *g); /* the modules that op_map.lua and formula_chain.lua share */
int ops_ident(lua_State *L); /* may the text name something in C? */
int ops_load_checker(Gen *g); /* registry ref of gen/lua/op.lua's function that checks a rule */
/* Checks the rule on top of the stack, which it takes. False after a message. */
bool ops_take_rule(Gen *g, OpRule *op, int checker);
/* The op of its gradient, whose rule is then on top of the stack; false: it has none. */
bool ops_map_gradient(Gen *g, const OpRule *op, OpRule *gradient);
/* After the rule is checked: what tests may ask of it. */
bool ops_map_finish(Gen *g, const OpRule *op);
/* The text of a kernel's template, of a formula or from the folder; or NULL. */
const char *ops_template(Gen *g, const OpRule *op, const char *file, size_t *bytes);
bool ops_has_template(Gen *g, const OpRule *op, const char *file);

/* ops_scale.c: adds the ops of rules that say `scale_of`. */
void ops_add_scales(Gen *g, int checker);

/* ops_chain.c */
/* Nodes, in order, whose ops are formulas, or add the rows that one of these makes; what they read
 * from outside, and what others read. */
typedef struct Chain {
    Node **node;
    Value **in, **out;
    int n_nodes, n_in, n_out;
} Chain;
/* The op that computes all of them in one kernel. Equal chains have one op. Needs a protected
 * call. */
const OpRule *ops_chain(Gen *g, const Chain *c);
void ops_push_chain(Gen *g, const Chain *c); /* as formula_chain.lua takes it */

/* The list of problems on top of the stack, { key, item, message, help } or with { at, length }
 * a place in the text of key, becomes messages. */
void ops_report_problems(Gen *g, const OpRule *op);
/* Where op.lua writes a field of the rule (or, with item, a word in it). From then on messages can
 * show lines of that file. */
Pos ops_place(Gen *g, const OpRule *op, const char *key, const char *item);
/* The string that the table on top of the Lua stack has under key, or NULL. */
const char *ops_text(Gen *g, const char *key);

/* Reports Lua's message about op.lua, popped from the stack: "path:12: text". */
void ops_report_lua(Gen *g, const OpRule *op);

/* Pushes the function that op.lua has under this key, or nil. */
void ops_push_function(lua_State *L, const OpRule *op, const char *key);
#define ops_push_reference(L, op) ops_push_function(L, op, "reference")

/* ---- infer.c: symbolic dims, attributes, dtypes ---------------------------------- */

/* Dims and integer attributes by name, during the inference of a node. */
enum { MAX_SYMS = 32 };
typedef struct Syms {
    int n;
    const char *name[MAX_SYMS];
    int64_t value[MAX_SYMS];
    const char *from[MAX_SYMS]; /* the operand that bound it, for messages */
} Syms;

/* Checks a rule's dims text; returns NULL, or what is wrong. */
const char *dims_problem(Gen *g, const char *dims);
/* Adds every symbol of a dims text to names[]; returns the new count. */
int dims_symbols(Gen *g, const char *dims, const char **names, int n, int max);
/* Evaluates one dim of a text ("2*f"); false if a symbol is unknown. */
bool dims_eval(const char *token, size_t bytes, const Syms *s, int64_t *value);

/* From node->op, in and attrs: shapes and dtypes of node->out (allocated if NULL), flops,
 * library, workspace_bytes. Raises a Lua error that starts with the op's name. Needs a protected call. */
void infer_node(Gen *g, Node *node);
/* infer_library.c: node->library and node->site, in infer_node. */
void infer_library(Gen *g, Node *node);
/* What the library's kernel cannot do of the node, by the rule; NULL: nothing. The op has such a
 * kernel. Needs a protected call. */
const char *infer_library_problem(Gen *g, const Node *node);
/* Why the target's own kernel is preferred, though the library's may run the node; NULL: it is not. */
const char *infer_library_slow(Gen *g, const Node *node);
/* The description's measured choice for the node's site; NULL: none. */
const KernelChoice *infer_library_choice(const Gen *g, const Node *node);
/* Pushes n: dims and attributes by name, the argument of the rule's functions. */
void infer_push_n(Gen *g, const Node *node);
/* infer_number.c: what the rule's function `key` counts, of n at that place of the stack. */
double infer_number(lua_State *L, const OpRule *op, int n_index, const char *key);
/* infer_dtype.c */
void infer_input_dtype(const Gen *g, const Node *n, int i); /* a Lua error if the rule takes another */
Dtype infer_output_dtype(const Gen *g, const Node *n, const Operand *o);
/* The rule's `bytes`, or the size of every operand once. */
int64_t infer_traffic(Gen *g, const Node *node);
int64_t infer_bytes(Gen *g, const Node *node, const char *key); /* by that function of the rule */

/* ---- ops_folders.c --------------------------------------------------------------- */

typedef struct OpFolder {
    const char *name, *path; /* "relu2", "ops/relu2" */
    const char *text;        /* of its op.lua */
    size_t bytes;
} OpFolder;

/* The op folders in dir, by name; messages for those that cannot be one. */
const OpFolder *ops_folders(Gen *g, const char *dir, int *count);

/* ---- cuts.c: calls in parts ------------------------------------------------------ */

void cuts_read(Gen *g, OpInfo *info); /* from op_cuts.lua's form on top of the stack */
/* The node's operands cut along the axis: parts of inputs, then of outputs; sections: of a free
 * axis, or NULL for one. Returns NULL if the rule excludes this call. Needs a protected call. */
PartState *cuts_parts(Gen *g, const Node *node, const Cut *cut, const Sections *sections);
/* The sections of the axis that the operand's own sections stand for, or an empty list if they
 * stand for none. */
Sections cuts_base(Gen *g, const CutOperand *operand, const Sections *own);
const CutOperand *cuts_operand(const Cut *cut, const char *name); /* or NULL */
bool part_equal(const PartState *a, const PartState *b); /* padding or not */
/* "whole", "partial", "cut:2:64+32+32"; "cut:1:256-6", of which 6 are padding */
const char *part_text(Gen *g, const PartState *p);

/* ---- node_cost.c ----------------------------------------------------------------- */

/* Fills the rule's OpInfo.cost. */
void node_cost_rule(lua_State *L, const OpRule *op);
/* Fills node->cost. Needs a protected call. */
void node_cost(Gen *g, Node *node);
double node_products_flops(const Node *node);
bool node_is_fp8(const Node *node); /* its first operand */
/* What its products multiply: on processors, fp8 as the dtype of sums. */
Dtype node_product_dtype(const Gen *g, const Node *node);

/* ---- ops_env.c: for the emitter and the tests ------------------------------------ */

/* Pushes the environment of node's kernel template: dims and attributes by name, each operand as a
 * table {name, type, dtype, elems, bytes, shape}, `fn` (the kernel's name), `acc` ("float" or
 * "double"), `workspace` (bytes), `adds` (true if the kernel takes `beta`), and the lists `inputs`
 * and `outputs` of operand tables in order of the C signature. An operand's `alias` names the input
 * whose bytes it may share. */
void ops_push_env(Gen *g, const Node *node);
Dtype ops_acc_dtype(const Gen *g);
/* Does this op's kernel take `loss_scale`? */
bool ops_scaled(const Gen *g, const OpRule *op);

#endif
