/* SPDX-License-Identifier: Apache-2.0 */
/* emit_scratch.h: the members of a phase's scratch, for math.h, math.c and bind.c. */
#ifndef EMIT_SCRATCH_H
#define EMIT_SCRATCH_H

#include "emit/emit.h"

typedef struct ScratchMember {
    const Value *value; /* NULL for a workspace: */
    const Node *node;   /* the kernel whose workspace it is */
    const char *name, *type;
    const char *what;   /* "[512, 256]", "4096 bytes" */
    int64_t offset_bytes, bytes;
} ScratchMember;
typedef struct ScratchList {
    ScratchMember *items;
    int count, cap;
} ScratchList;

/* Has the phase any? A forward that runs again uses the forward's. */
bool scratch_any(const Class *c, Phase phase);
const char *scratch_struct(Gen *g, const Class *c, Phase phase); /* "layer_forward_scratch" */
/* The C expression of a member inside a span. */
const char *scratch_value(Gen *g, const Class *c, const Value *v);
const char *scratch_workspace(Gen *g, const Class *c, const Node *n);

/* Pushes the struct of a phase; sets field `scratch` of the class on top of the stack: whether any
 * phase has one. */
void scratch_push(Emit *e, const Class *c, Phase phase);
void scratch_push_all(Emit *e, const Class *c);

#endif
