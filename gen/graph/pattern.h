/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.h: expansions of fused ops as pattern.c records them and fuse.c matches
 * them; and what fusion does about meets. */
#ifndef PATTERN_H
#define PATTERN_H

#include "graph/builder.h"

enum { MAX_PATTERN = 16, MAX_PATTERN_VALUES = 64, MAX_VARS = 48 };

typedef struct PatternNode {
    const OpRule *op;
    Value **in, **out; /* the pattern's own values */
    int n_in;          /* inputs given by the call */
    uint32_t omitted;  /* as of a node */
    Attr *attrs;
    int *var; /* per attribute: the variable it must equal; -1: the constant */
} PatternNode;

struct Pattern {
    const OpRule *op;
    Class *cls; /* owns the pattern's values */
    PatternNode node[MAX_PATTERN];
    int n_nodes;
    const char *var_name[MAX_VARS]; /* attributes and dims of the fused op */
    int n_vars;
    bool replaced; /* a user's op replaces one of its ops, with other attributes */
    Value *out[MAX_OPERANDS]; /* the pattern's value for each output of the fused op */
    int order[MAX_PATTERN];   /* nodes in order; each but the first touches an earlier one
                               */
};

typedef struct PatternList {
    Pattern **items;
    int count, cap;
} PatternList;

/* Patterns of all fused ops, the largest first, then by name. */
void patterns_record(Gen *g, PatternList *list);

/* fuse_meets.c */
/* Are they one value, or meets of the same value that bring the same? */
bool meets_alike(Gen *g, const Value *a, const Value *b);
/* Can the node run in the backward? It does, or it and what follows it are meets. */
bool meets_follow(const Class *c, const Uses *uses, const Node *n);
/* What the fused node replaced reads the same meets as it does. */
void meets_take(Gen *g, const Node *fused);
/* Moves the meets that follow an output of the fused node to its phase and piece. */
void meets_move(const Uses *uses, const Node *fused, const Value *v);

#endif
