/* SPDX-License-Identifier: Apache-2.0 */
/* emit_parts.h: which part of a rank has what, for math.c, bind.c and trainer.c. */
#ifndef EMIT_PARTS_H
#define EMIT_PARTS_H

#include "emit/emit.h"

/* The axes (a bit each) along which p of a call is any part of the rank; along the others it is the
 * first. Meets take all parts. */
unsigned parts_loop_axes(const Gen *g, const Node *n);
/* Which of the rank's parts has the value for part p of such a call: "0", "p", or an expression. */
const char *parts_index(const Value *v, unsigned loop);
/* The pointer to the part's number, of data DATA_PART. */
const char *parts_number(Gen *g, const Value *v, unsigned loop);
/* What stands in the `for` of a leg with this node; NULL: it runs once. */
const char *parts_loop(const Gen *g, const Node *n);
void parts_push_meet(Emit *e, const Node *n); /* fields axis, meet of a call */
void parts_push_axes(Emit *e);                /* fields of the trainer */
/* The shape of what a part has of a parameter, and which of the rank's boxes that is: "p", "p / 2";
 * NULL: it is not cut. */
const char *parts_shape(Gen *g, const ClassParam *decl);
const char *parts_box(Gen *g, const ClassParam *decl);

#endif
