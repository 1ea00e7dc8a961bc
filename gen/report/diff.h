/* SPDX-License-Identifier: Apache-2.0 */
/* diff.h: what the files of `fsdpgen diff A B` share: diff.c (the comparison and its verdict),
 * diff_side.c (one of the two trainers), diff_code.c (C and CUDA as tokens), diff_description.c,
 * diff_layout.c, diff_step.c (a section each), diff_text.c (all of it for people).
 *
 * The comparison is one JSON object. The text is printed from it, so both say the same. Folders may
 * come from others, so every text is made printable when it enters the object. */
#ifndef DIFF_H
#define DIFF_H

#include "gen.h"

#include <jansson.h>

/* Runs the passes on a description: fills the other Gen's files, or prints its messages. Returns an
 * exit code. It is in drive.c, above this room. */
typedef int MakeTrainer(Gen *g);

/* One of the two trainers: a generated folder, or a description that is generated in memory. */
typedef struct DiffSide {
    Gen *g;
    const char *path;
    Gen *made;                /* of a description; NULL: path is a folder */
    json_t *manifest, *plan;  /* NULL after a message */
    json_t *owned[2];         /* freed by side_close */
    const char *numerics, *generator;
    struct { const char **items; int count, cap; } maths;  /* math.*, kernels.*, sorted */
    struct { const char **items; int count, cap; } edited; /* they differ from the manifest */
} DiffSide;

/* diff.c: the whole command, which returns an exit code; and only the comparison of g->opt.input
 * and g->opt.other: NULL with g's diagnostics, or with the code of a make that failed. */
int diff_run(Gen *g, MakeTrainer *make);
json_t *diff_trainers(Gen *g, MakeTrainer *make, int *code);

/* diff_side.c: messages go to g's diagnostics. side_open returns the code of make. */
int side_open(Gen *g, DiffSide *s, const char *path, MakeTrainer *make);
void side_close(DiffSide *s);
/* The text of one of its files; NULL after a message, or if it may be absent. */
const char *side_text(DiffSide *s, const char *name, bool must, size_t *bytes);
const char *side_hash(const DiffSide *s, const char *name); /* of the manifest, or NULL */
void side_complain(DiffSide *s, const char *name, const char *help, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A member that is an integer in 0 .. 2^62; else reports it and returns 0. */
int64_t side_integer(DiffSide *s, const json_t *o, const char *what, const char *key);

/* Members of the result; these end the program when out of memory. */
void diff_set(json_t *o, const char *key, json_t *value);
void diff_push(json_t *list, json_t *value);
json_t *diff_word(Gen *g, const char *s); /* printable */
/* {key: name, "old", "new", "difference"} of integers in 0 .. 2^62. */
json_t *diff_row(Gen *g, const char *key, const char *name, int64_t old, int64_t now);

/* ---- diff_code.c: C as tokens, without comments ---------------------------------- */

typedef enum { TOKEN_WORD, TOKEN_NUMBER, TOKEN_STRING, TOKEN_MARK, TOKEN_DIRECTIVE } TokenKind;
typedef struct Token { const char *s; int n; TokenKind kind; } Token;
typedef struct Tokens { Token *items; int count, cap; } Tokens;

Tokens code_tokens(Gen *g, const char *text, size_t bytes);
bool token_is(const Token *t, const char *word);
bool token_ends(const Token *t, const char *tail);
/* The token that closes the bracket at i; the count if there is none. */
int tokens_close(const Tokens *t, int i);
/* The value of a decimal or INT64_C number; -1: not a number, or too large. */
int64_t token_value(const Token *t);
const char *token_text(Gen *g, const Token *t); /* of a string without its quotes */
/* Compares the names at the top level of two files: {"same", "appeared", "vanished", "changed"};
 * same is "bytes", "code" (all but comments and identities), or "no". NULL: that side has no such
 * file. */
json_t *code_compare(Gen *g, const char *old, size_t old_bytes, const char *now, size_t now_bytes);

/* ---- one section each; old and now are open -------------------------------------- */

json_t *diff_description(Gen *g, DiffSide *old, DiffSide *now);
json_t *diff_layout(Gen *g, DiffSide *old, DiffSide *now);
/* An object that both plans have: rows {"name", "old", "new", "difference"}. */
json_t *diff_bytes(Gen *g, DiffSide *old, DiffSide *now, const char *what);
json_t *diff_schedule(Gen *g, DiffSide *old, DiffSide *now);

/* diff_text.c */
void diff_print(Text *t, const json_t *result);

#endif
