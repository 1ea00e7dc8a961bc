/* SPDX-License-Identifier: Apache-2.0 */
/* emit.h: what these files share: emit.c (driver and files), emit_runtime.c, emit_tables.c (model,
 * units, parameters, buffers), emit_kernels.c, emit_math.c (spans) and emit_step.c (the schedule).
 * Each turns a part of the IR into plain Lua tables; templates/trainer/ turns those into text. */
#ifndef EMIT_H
#define EMIT_H

#include "gen.h"

#include <lauxlib.h>

typedef struct Emit {
    Gen *g;
    lua_State *L;
    int template_ref; /* the table gen/lua/template.lua returned */
    int context_ref;  /* the environment of the trainer's templates */
} Emit;

/* Is the mathematics launched on a device? Then its functions take the rank as their first
 * argument. */
static inline bool emit_on_device(const Emit *e)
{
    return e->g->model.target->device;
}

/* ---- Lua tables: each sets a field of the table on top of the stack -------------- */

void emit_int(lua_State *L, const char *key, int64_t v);
void emit_num(lua_State *L, const char *key, double v);
void emit_bool(lua_State *L, const char *key, bool v);
void emit_str(lua_State *L, const char *key, const char *v); /* NULL: sets no field */


/* ---- files (emit.c) -------------------------------------------------------------- */

void emit_add_file(Gen *g, const char *path, const char *data, size_t bytes);
const Embedded *emit_embedded(const char *path); /* dies if it is missing */

/* ---- rendering (emit.c) ---------------------------------------------------------- */

/* Loads the template engine, for e->L. */
void emit_open_engine(Emit *e);
/* Renders a template with the environment on top of the stack (popped). A mistake in it becomes a
 * message with the template's file and line; then it returns NULL. With keep_prepared, the table of
 * `//@ prepare:` statements stays on the stack. */
const char *emit_render(Emit *e, const char *text, size_t bytes, const char *file,
                        bool keep_prepared, size_t *out_bytes);

/* ---- the parts: each adds fields to the context on top of the stack -------------- */

/* Sets a field per target and library of kernels: does this trainer use it? (emit_tables.c) */
void emit_target(Emit *e);
void emit_model_context(Emit *e);  /* emit_tables.c */
void emit_layout_context(Emit *e); /* emit_tables.c */
void emit_math_context(Emit *e);   /* emit_math.c; an error leaves the stack unbalanced */
void emit_check_math(const Gen *g); /* that the kernels support the segments */
void emit_runtime_context(Emit *e); /* emit_runtime.c */
void emit_runtime(Emit *e);         /* the files; none with --link-runtime */

/* The first node of each distinct kernel. */
typedef struct KernelList {
    const Node **items;
    int count, cap;
} KernelList;

void emit_kernels(Emit *e, KernelList *kernels); /* emit_kernels.c: fills the list, too */
void emit_class(Emit *e, const Class *c);             /* emit_class.c: pushes it */
/* The field of a parameter's scale; NULL: it has none. */
const char *class_scale(Gen *g, const Class *c, int param);
void emit_step_context(Emit *e);                      /* emit_step.c */
void emit_macros(Gen *g); /* emit_macros.c: fills the macros of what the plan names */

/* emit_kernels.c: renders the kernel whose environment is on top of the stack (popped). node: a
 * call of it by spans; NULL for an optimizer's. Appends its text to the table at `list` and
 * its prepared statements to the one at `prepared`. Then: describes the operands in the kernel's
 * table on top of the stack. */
void emit_kernel(Emit *e, const OpRule *rule, const Node *node, int list, int prepared);
void emit_operands(Emit *e, const Node *n);
void emit_timed(Emit *e, const KernelList *kernels); /* emit_calibrate.c: for calibrate.c */
/* others: the kernels that were not chosen, in the order of those that were. */
void emit_sites(Emit *e, const KernelList *kernels, const KernelList *others);
/* emit_optimizer.c */
void emit_optimizer_kernels(Emit *e, int list, int prepared);
void emit_optimizer_names(Emit *e); /* for kernels.c and kernels.h */
void emit_matrices(Emit *e);        /* for tables.c: matrices, batches */

#endif
