/* SPDX-License-Identifier: Apache-2.0 */
/* check.h: what these files share: check_show.c (values as text), check_value.c (types and ranges),
 * check_table.c (tables, defaults, unknown fields), check_read.c (values by path), check_wrap.c
 * (units), check.c (fields against each other), target.c and check_optimizer.c (fields of targets
 * and optimizers), check_fill.c (the C Model). */
#ifndef CHECK_H
#define CHECK_H

#include "describe/load.h"

typedef struct Check {
    Gen *g;
    lua_State *L;
    Loader *ld;
    int errors;
    int root; /* stack index of the trainer's resolved table; 0: not started */
    int optimizer_ref; /* a copy of the optimizer's values; 0: they have errors */
    int moments;       /* number of moments per element */
} Check;

/* Where a value stands: its place, its `{...}` in the source if it is a table written there, and
 * whether it was written at all or is a default. */
typedef struct Site {
    Pos pos;
    const LexTable *lex;
    bool written;
    const Tag *tag; /* if the value is a record; else NULL */
} Site;

void check_mark_usual(Gen *g, const char *path); /* the value of the field is its default */
void check_error(Check *c, Pos pos, const char *help, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
#define COMPLAIN(c, path, help, ...)                                                     \
    check_error(c, place_of((c)->g, path), help, __VA_ARGS__)
/* Replaces the value on top of the stack by the resolved one; by nil if it is wrong. */
void check_value(Check *c, const Field *f, const char *path, Site site);
/* Pushes the resolved table of the one at stack index raw. */
void check_table(Check *c, const Fields *fields, const char *path, int raw, Site site);
/* Replaces the resolved table on top of the stack by a deep copy, for a function of an architecture
 * or op: what has been checked stays as it is. */
void check_copy(lua_State *L);

/* check_read.c: the value at a path of the resolved table. value_push leaves it on the stack and
 * returns its Lua type; value_int returns whether there is one. */
int value_push(Check *c, const char *path);
bool value_int(Check *c, const char *path, int64_t *out);
double value_num(Check *c, const char *path);
bool value_bool(Check *c, const char *path);
const char *value_str(Check *c, const char *path);  /* "" if absent */
const char *value_kind(Check *c, const char *path); /* the constructor of a record */

/* check.c: the number of ranks that share gathered weights between forward and backward. */
int64_t check_reshard_ranks(Check *c, int64_t shard);

/* check_optimizer.c: checks the description against its optimizer's rule; then fills the Model. */
void check_half(Check *c, const char *path); /* of a group */
void check_optimizer(Check *c);
void fill_optimizer(Check *c, Model *m);

/* dims.c: pushes the table that the architecture's functions get: the given fields, and those of
 * the trainer that dims_adds names. False if part of it is wrong. */
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

/* synonyms.c: what to write for a field that other trainers call by another name; NULL: unknown. names:
 * of the fields there. */
const char *synonym_help(Gen *g, const char *path, const char *name, const Words *names);
/* The value that other trainers call by this name; NULL: unknown. */
const char *synonym_value(Gen *g, const char *path, const char *value);
/* The quoted values that a longer name means: "A100-SXM4-80GB"; or NULL. */
const char *synonym_alike(Gen *g, const char *value, const Words *values);
/* "true" or "false" for 1, "True", "yes"; NULL: neither. */
const char *synonym_bool(lua_State *L, int index);
/* What to write for a number where a record is expected; or NULL. */
const char *synonym_number(Gen *g, const char *path);

#endif
