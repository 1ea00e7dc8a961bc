/* SPDX-License-Identifier: Apache-2.0 */
/* rule.h: an op as its folder describes it: read by ops.c, used by every later pass. The rules are
 * in templates/ops/NAME/op.lua. */
#ifndef RULE_H
#define RULE_H

#include "base/base.h"

typedef struct Operand {
    const char *name;
    const char *dims;        /* "t d", "t 2*f", "1"; "" = shape given by the rule's function */
    const char *dtype;       /* inputs: a legal class "float", "fp8", "i32", "acc", "any"; outputs:
                              * name of an operand or of a text attribute that names it, "param",
                              * "acc", "grad", "f64", "i32" */
    bool may_add;            /* output may add into its buffer (beta = 1) */
    const char *alias;       /* the input whose bytes the output may take; NULL: none */
    bool optional;           /* a call may omit this input; optional inputs come last */
    const char *form;        /* NAME_form of the op lacks this output; NULL: no form does */
} Operand;

typedef struct OpRule {
    const char *name;
    const char *folder;      /* source of op.lua and cpu.c, for messages */
    int lua_ref;             /* the table op.lua returned */
    int n_in, n_out;
    Operand *in, *out;
    bool fused;              /* declares `expands` */
    bool optimizer;          /* role = "optimizer": not part of the graph */
    bool collective;         /* role = "collective": parts exchange values; split.c inserts it */
    struct OpInfo *info;     /* ops.h: attributes, axes, text */
} OpRule;

/* Sizes of the sections of a dim, one after the other. Each is cut into equal parts; a part holds
 * its piece of each. */
typedef struct Sections {
    int n;
    int64_t *elems;
    int64_t pad; /* so many of the last elements of one section are not the value's; 0 */
} Sections;

/* What each part of a value that is computed in parts has. */
typedef enum {
    PART_WHOLE,   /* all of it, every part the same */
    PART_CUT,     /* its piece along dim */
    PART_PARTIAL, /* numbers of its shape; the value is the sum of all parts' */
    PART_LARGEST, /* numbers of its shape; the value is the largest of all parts' */
} PartKind;

typedef struct PartState {
    PartKind kind;
    int dim;           /* from 0 */
    Sections sections; /* of the whole dim */
} PartState;

/* Has no part anything of the value yet: is it made of all parts' numbers? */
static inline bool part_is_made(const PartState *p)
{
    return p->kind == PART_PARTIAL || p->kind == PART_LARGEST;
}

typedef struct OpList { OpRule *items; int count, cap; } OpList;

#endif
