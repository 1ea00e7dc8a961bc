/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h: what an op folder says, and how the passes, the emitter and the tests ask it. Op
 * rules stay Lua; OpRule and OpInfo hold what C needs at hand. Nothing here knows an op
 * by name. */
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
    const char *from; /* model field it takes its value from unless given, or NULL */
} AttrSpec;

typedef struct Axis {
    const char *dim;
    bool reduction;
} Axis;

typedef struct OpInfo {
    int n_attrs, n_axes;
    AttrSpec *attrs;       /* sorted by key */
    Axis *axes;            /* sorted by dim */
    const char *role;      /* "sum": adds two values of one shape; "optimizer"; or NULL */
    const char *evaluates; /* the op whose loss this one makes alone; or NULL */
    const char *form_of;   /* the op whose optional outputs it lacks; or NULL */
    const char *form;      /* the word that those outputs have */
    const char *path;      /* of op.lua, as messages show it */
    const char *text;      /* op.lua */
    size_t text_bytes;
    bool from_disk;
    int arithmetic;        /* version of its bits; 0: the rule says none */
    const char *canonical; /* the name that the hash has it by: its own unless stated */
    bool states_canonical;
    bool scaled; /* takes the loss scale, where there is one */
    bool has_backward, has_check, has_flops, has_bytes;
    bool has_workspace;
    bool has_library_kernel; /* the file of the library that the description asks for */
} OpInfo;

const OpRule *ops_find(const Gen *g, const char *name); /* NULL when unknown */
const OpRule *ops_role(const Gen *g,
                       const char *role);          /* the op with that role, or NULL */
const char *ops_nearest(Gen *g, const char *name); /* for "did you mean" */
/* The form of the op that lacks outputs which are all dead (per output), the one that
 * lacks the most; NULL: none. It has the op's other outputs, in their order. */
const OpRule *ops_form(const Gen *g, const OpRule *op, const bool *dead);
/* A file of the op's folder ("cpu.c"), or NULL. */
const char *ops_template(Gen *g, const OpRule *op, const char *file, size_t *bytes);
/* The library whose kernel runs the op in the place of the target's own; or NULL. */
const KernelLibrary *ops_kernel_library(const Gen *g, const OpRule *op);
/* The file of the folder that has the kernel: that library's, or the target's. */
const char *ops_kernel_file(const Gen *g, const OpRule *op);
/* The path of that file, for messages. */
const char *ops_template_path(Gen *g, const OpRule *op, const char *file);

/* ops_canonical.c */
/* The names of a folder's files, in the order of its hash; NULL after the last. */
const char *ops_file(int i);
/* From --ops, and no copy of the built-in op of that name (--share reads the built-in ones
 * from disk). Such an op is hashed by the text of its folder. */
bool ops_foreign(Gen *g, const OpRule *op);
void ops_check_canonical(Gen *g);

/* attr.c */
bool attr_equal(const Attr *a, const Attr *b);
const char *attr_text(Gen *g, const Attr *a);   /* "eps=1e-05" */
const char *shape_text(Gen *g, const Value *v); /* "[1024, 288]" */
bool same_shape(const Value *a, const Value *b);
/* The model's field that an attribute may take its value from; false: no
 * such field. */
bool attr_from_model(const Gen *g, const char *name, Attr *a);
const char *attr_type_name(int type); /* as op.lua writes it */

/* Where op.lua writes a field of the rule (or, with item, a word of it); shows that
 * file's lines in messages from then on. */
Pos ops_place(Gen *g, const OpRule *op, const char *key, const char *item);

/* Lua's message about op.lua, on top of the stack, which it takes: "path:12: text". */
void ops_report_lua(Gen *g, const OpRule *op);

/* Pushes the function that op.lua has under this key, or nil. */
void ops_push_function(lua_State *L, const OpRule *op, const char *key);
#define ops_push_reference(L, op) ops_push_function(L, op, "reference")

/* ---- infer.c: symbolic dims, attributes, dtypes ---------------------------------- */

/* Dims and integer attributes by name, while a node is inferred. */
enum { MAX_SYMS = 32 };
typedef struct Syms {
    int n;
    const char *name[MAX_SYMS];
    int64_t value[MAX_SYMS];
    const char *from[MAX_SYMS]; /* operand that bound it, for messages */
} Syms;

/* Checks a dims text as a rule gives it; NULL, or what is wrong. */
const char *dims_problem(Gen *g, const char *dims);
/* Copies every symbol of a dims text into names[]; returns how many there are now. */
int dims_symbols(Gen *g, const char *dims, const char **names, int n, int max);
/* Evaluates one dim of a text ("2*f") with all symbols known; false when one is not. */
bool dims_eval(const char *token, size_t bytes, const Syms *s, int64_t *value);

/* From node->op, in and attrs: shapes and dtypes of node->out (allocated when NULL),
 * flops, workspace_bytes. Raises a Lua error that starts with the op's name. Needs a
 * protected call. */
void infer_node(Gen *g, Node *node);
/* Pushes n: dims and attributes by name, as the rule's functions get it. */
void infer_push_n(Gen *g, const Node *node);
/* The rule's `bytes`, or every operand once. */
int64_t infer_traffic(Gen *g, const Node *node);

/* ---- ops_env.c: for EMIT and the tests ------------------------------------------- */

/* Pushes the environment of node's kernel template: dims and attributes by name, each
 * operand as a table {name, type, dtype, elems, bytes, shape}, `fn` (the kernel's name),
 * `acc` ("float" or "double"), `workspace` (bytes), `adds` (true when the kernel takes
 * `beta`), and the lists `inputs` and `outputs` of operand tables in order of the C
 * signature; an operand's `alias` names the input whose bytes it may lie on. */
void ops_push_env(Gen *g, const Node *node);
Dtype ops_acc_dtype(const Gen *g);
/* Does this op's kernel take `loss_scale`? */
bool ops_scaled(const Gen *g, const OpRule *op);

#endif
