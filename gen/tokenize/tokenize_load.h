/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_load.h: what the readers of a tokenizer.json's parts share. */
#ifndef TOKENIZE_LOAD_H
#define TOKENIZE_LOAD_H

#include "tokenize/tokenize.h"

enum { TOK_MAX_ID = INT32_MAX - 1 };

typedef struct Load {
    Gen *g;
    Tokenizer *t;
    const char *file, *text;
    size_t bytes;
    json_t *root, *vocab;
    bool characters, metaspace; /* byte_fallback; the spaces are a pre-tokenizer's */
    json_t *added;     /* contents of added tokens to their ids */
    json_int_t newest; /* the largest of these; -1: none */
    int before;        /* number of errors before */
    bool has_template; /* of a post-processor */
} Load;

/* Reports an error at a part, with its path from the root: `model.merges.0`; "": the file. */
__attribute__((format(printf, 3, 4))) void tok_refuse(Load *l, const char *path,
                                                      const char *fmt, ...);
bool tok_flag(Load *l, const json_t *part, const char *path, const char *key,
              bool otherwise);
/* Reports the member unless it is missing, null, false, or empty. */
void tok_must_lack(Load *l, const json_t *part, const char *path, const char *key);
/* Reports unknown members, which might matter. known: those that do not, separated by single
 * spaces. */
void tok_check_keys(Load *l, json_t *part, const char *path, const char *known);

const char *tok_type_of(const json_t *part);
/* A pattern of ours that cuts the pieces of the steps before. */
void tok_add_step(Load *l, const char *path, const char *pattern);

/* ---- tokenize_load_spaces.c ------------------------------------------------------ */

void tok_read_normalizer(Load *l, json_t *part, const char *path);
void tok_read_metaspace(Load *l, json_t *part, const char *path);
void tok_read_decoder(Load *l, json_t *part);
/* The byte that a word like <0x0A> stands for; -1: it is another word. */
int tok_byte_word(const char *s, size_t n);
/* A vocabulary with byte fallback, whose ids are numbers. */
void tok_read_characters(Load *l, size_t slots);
void tok_cut_words(Load *l);

/* ---- tokenize_added.c ------------------------------------------------------------ */

void tok_read_added(Load *l, const json_t *list);
/* The text of each id, after the vocabulary and the added tokens were read without errors. */
void tok_read_pieces(Load *l, TokUse use);
/* Refuses what would make the positions in a chat's mask ambiguous. */
void tok_check_chats(Load *l);

#endif
