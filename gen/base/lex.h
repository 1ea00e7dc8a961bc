/* SPDX-License-Identifier: Apache-2.0 */
/* lex.h: where in a Lua file each table's fields were written (lex.c). */
#ifndef LEX_H
#define LEX_H

#include "base/base.h"

typedef struct LexTable LexTable;

typedef struct LexField {
    const char *key; /* "ffn"; NULL for the nth value without a key */
    int index;       /* n, from 1; 0 with a key */
    Pos key_pos, value;
    LexTable *table; /* if the value is a table written right here */
} LexField;

/* One `{...}` of the source, with the call whose argument it is: `cosine {`, `llama({`. */
struct LexTable {
    const char *callee; /* the last name before it; NULL if it is not an argument */
    Pos callee_pos;
    int line; /* place of the `{` */
    struct {
        LexField *items;
        int count, cap;
    } fields;
};

typedef struct LexFile {
    const char *file, *text;
    size_t bytes;
    struct {
        LexTable **items;
        int count, cap;
    } tables;
} LexFile;

LexFile *lex_file(Gen *g, const char *file, const char *text, size_t bytes);
const LexField *lex_field(const LexTable *t, const char *key);
const LexField *lex_item(const LexTable *t, int index);
/* A copy, to be freed, in which mark replaces each operator #. A # that is a mistake stays. */
char *lex_mark_lengths(const char *text, size_t n, const char *mark, size_t *bytes);
/* The place of a word on a line, for messages of Lua that only name the line. */
Pos lex_word(const LexFile *f, int line, const char *word);

#endif
