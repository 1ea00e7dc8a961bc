/* SPDX-License-Identifier: Apache-2.0 */
/* check.h: what check_show.c (words), check_value.c (types and ranges), check_table.c
 * (tables, defaults, unknown fields), check_read.c (values by path), check_wrap.c
 * (units), check.c (what fields mean to each other), target.c and check_optimizer.c (those
 * of targets and optimizers) and check_fill.c (the C Model) share. */
#ifndef CHECK_H
#define CHECK_H

#include "describe/load.h"

typedef struct Check {
    Gen *g;
    lua_State *L;
    Loader *ld;
    int errors;
    int root; /* stack index of the trainer's resolved table; 0: not begun */
    int optimizer_ref; /* a copy of the optimizer's values; 0: not good */
    int moments;       /* that it keeps with them */
} Check;

/* Where a value stands: its place, its `{...}` in the source if it is a table written
 * there, and whether it was written at all, or is a default. */
typedef struct Site {
    Pos pos;
    const LexTable *lex;
    bool written;
    const Tag *tag; /* of the record that the value is, NULL otherwise */
} Site;

void check_error(Check *c, Pos pos, const char *help, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
#define COMPLAIN(c, path, help, ...)                                                     \
    check_error(c, place_of((c)->g, path), help, __VA_ARGS__)
/* The value on top of the stack is replaced by the resolved one, nil if it is wrong. */
void check_value(Check *c, const Field *f, const char *path, Site site);
/* Pushes the resolved table of the one at stack index raw. */
void check_table(Check *c, const Fields *fields, const char *path, int raw, Site site);

/* check_read.c: the value at a path of the resolved table. value_push leaves it on the
 * stack and returns its Lua type; value_int says whether there is one. */
int value_push(Check *c, const char *path);
bool value_int(Check *c, const char *path, int64_t *out);
double value_num(Check *c, const char *path);
bool value_bool(Check *c, const char *path);
const char *value_str(Check *c, const char *path);  /* "" if absent */
const char *value_kind(Check *c, const char *path); /* of a record: its constructor */

/* check.c: ranks that keep weights gathered between forward and backward, each a part. */
int64_t check_reshard_ranks(Check *c, int64_t shard);

/* check_optimizer.c: what optimizers' rules say of the description; then into the Model. */
void check_half(Check *c, const char *path); /* of a group */
void check_optimizer(Check *c);
void fill_optimizer(Check *c, Model *m);

/* dims.c: pushes what the architecture's functions get, with those fields and the trainer's that
 * dims_adds names; false if a part of it is wrong. */
bool dims_push(Check *c, const Fields *fields);

/* check_fill.c */
void check_fill(Check *c, Model *m);

/* check_wrap.c */
void check_wrap(Check *c, WrapRule *w);

/* check_show.c */
const char *check_last_name(const char *path);    /* "lr" of "optimizer.lr" */
const char *check_show_ref(Check *c, int ref);    /* a value in the registry */
const char *check_type(Check *c, const Field *f); /* "an integer" */
const char *check_example(Check *c, const Field *f, const char *path); /* "lr = 0.1" */

/* synonyms.c: what to write for a field as other trainers call it; NULL: none of them. */
const char *synonym_help(Gen *g, const char *path, const char *name);
/* The value of that field which others call so; NULL: none. */
const char *synonym_value(Gen *g, const char *path, const char *value);
/* The values, in quotes, that a longer name means: "A100-SXM4-80GB"; or NULL. */
const char *synonym_alike(Gen *g, const char *value, const Words *values);
/* "true" or "false", of 1, "True", "yes"; NULL: neither. */
const char *synonym_bool(lua_State *L, int index);
/* What to write for a number where a record is expected; or NULL. */
const char *synonym_number(Gen *g, const char *path);

#endif
