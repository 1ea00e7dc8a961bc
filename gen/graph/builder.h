/* SPDX-License-Identifier: Apache-2.0 */
/* builder.h: what builder.c, builder_block.c and fuse.c share beside graph.h. */
#ifndef BUILDER_H
#define BUILDER_H

#include "graph/graph.h"

enum {
    MAX_OPERANDS = 24, /* inputs, outputs or attributes of one op (gen/lua/op.lua) */
    MAX_VALUES = 4096, /* in one block's graph */
};

int builder_param(lua_State *L); /* g:param{...}; upvalue 1: the Builder */
int builder_block(lua_State *L); /* b:block(...); upvalue 1: the Builder */
int builder_cut(lua_State *L);   /* g:cut "name"; upvalue 1: the Builder */
/* Records an op called in an expansion; its table is at stack index 1. */
int pattern_call(Builder *b, const OpRule *op);

/* Reads the value at index as the attribute's spec requires, or raises a Lua error. */
void builder_attr(Builder *b, const OpRule *op, const AttrSpec *spec, int index, Attr *a);
/* The first key, in order, that the op has no attribute for; NULL if it has one for each. */
const char *builder_unknown_key(Builder *b, const OpRule *op, int index);
void builder_check_keys(Builder *b, const OpRule *op, int index);
/* Fields of the table at index are list items up to n_items, and these keys. */
void builder_check_fields(Builder *b, int index, const char *what, int n_items,
                          const char *const *keys, int n_keys);
/* builder_mark.c: reads `cut` of the table at index. */
void builder_mark(Builder *b, ClassParam *p, int index);
/* Fills in[op->n_in]: NULL for an omitted optional input. */
void builder_inputs(Builder *b, const OpRule *op, int index, Class *owner, Value **in);
Pos builder_place(Builder *b); /* the architecture's line that makes the current call */
bool param_equal(const ClassParam *a, const ClassParam *b);
void value_shape(Value *v, Dtype dtype, const int64_t *dim, int n_dims);

/* graph.c: takes the block of the class just built: finds an equal class, registers
 * parameters. */
void graph_add_block(Builder *b, const char *name, const char *prefix);

#endif
