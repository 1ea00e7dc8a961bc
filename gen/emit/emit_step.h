/* SPDX-License-Identifier: Apache-2.0 */
/* emit_step.h: what emit_step.c (lines of the schedule) and emit_bind.c (pointers of the calls)
 * share. Private to the emission of step.c and bind.c. */
#ifndef EMIT_STEP_H
#define EMIT_STEP_H

#include "emit/emit.h"
#include "plan/plan.h"

typedef struct Binder {
    const char *key;  /* everything that distinguishes it */
    const char *name; /* "layer_forward_at" */
    const Class *cls;
    const Span *span; /* of the whole block, or of one piece */
    const Block *block; /* the block of its first call: offsets are relative to that call's bases */
    const Instr *ins;
} Binder;

typedef struct Part { /* instructions first .. last - 1, one emitted function */
    Variant variant;
    Phase phase;
    int first, last;
    const char *name; /* "forward", "backward_last" */
    const char *text; /* fingerprint of its lines, to find equal parts */
} Part;

typedef struct Steps {
    Emit *e;
    Gen *g;
    Program *p;
    int *first_binding; /* by instruction; the bindings of one are consecutive */
    int *place; /* by instruction: number of earlier starts on its stream, in its variant */
    int starts[N_VARIANTS][N_STREAMS];
    struct {
        Binder *items;
        int count, cap;
    } binders;
    struct {
        Part *items;
        int count, cap;
    } parts;
} Steps;

/* A base pointer of a call: where the parameters of one segment are; or all scales. */
typedef struct Base {
    int segment, buffer; /* segment -1: scales */
    int64_t offset_bytes; /* in the buffer, of the block's first parameter there */
    BindOf of;
} Base;

typedef struct Bases {
    Base *items;
    int count, cap;
} Bases;

/* emit_bases.c: a parameter of the instruction's block; the dtype of its elements. */
const Param *bases_param(const Gen *g, const Instr *i, int param);
Dtype bases_dtype(const Gen *g, const ClassParam *decl, BindOf of);
/* The bases of an instruction: weights, scales and gradients, in order of the class's parameters. */
Bases bind_bases(const Steps *s, const Instr *i);
/* The base to which parameter p of the class is relative, or -1; *offset: relative to it. */
int bases_find(const Steps *s, const Instr *i, const Bases *bases, int p, BindOf of, int64_t *offset);
/* The binder that fits the call; made for the first call of its kind. */
const Binder *bind_binder(Steps *s, const Instr *i, const Bases *bases);
/* Field `args` of the table on top: the call's arguments in the schedule. */
void bind_push_call(Steps *s, const Instr *i, const Bases *bases);
/* Field `binders` of the context. */
void bind_push_binders(Steps *s);
/* Does some parameter use the step's beta rather than one of its own? */
bool bind_plain_grad(const Class *c);
/* The macro of a constant's buffer. */
const char *bind_const(Steps *s, int index);
const char *bind_space(const Buffer *b); /* "rt_local" or "rt_symmetric" */

#endif
