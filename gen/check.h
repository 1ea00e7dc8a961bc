/* SPDX-License-Identifier: Apache-2.0 */
/* check.h: what check_show.c (words), check_value.c (types and ranges), check_table.c
 * (tables, defaults, unknown fields) and check.c (what fields mean to each other) share.
 */
#ifndef CHECK_H
#define CHECK_H

#include "load.h"

typedef struct Check {
    Gen *g;
    lua_State *L;
    Loader *ld;
    int errors;
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
/* The value on top of the stack is replaced by the resolved one, nil if it is wrong. */
void check_value(Check *c, const Field *f, const char *path, Site site);
/* Pushes the resolved table of the one at stack index raw. */
void check_table(Check *c, const Fields *fields, const char *path, int raw, Site site);

/* check_wrap.c */
void check_wrap(Check *c, WrapRule *w);

/* check_show.c */
const char *check_last_name(const char *path);    /* "lr" of "optimizer.lr" */
const char *check_show_ref(Check *c, int ref);    /* a value in the registry */
const char *check_type(Check *c, const Field *f); /* "an integer" */
const char *check_example(Check *c, const Field *f, const char *path); /* "lr = 0.1" */

#endif
