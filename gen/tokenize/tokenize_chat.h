/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_chat.h: what the files that turn chats into ids share: tokenize_chat.c (which
 * template; templates in Lua), tokenize_jinja.c (Hugging Face's), tokenize_messages.c
 * (the forms that chats come in), tokenize_chat_ids.c (texts and tokens to ids and a
 * mask). */
#ifndef TOKENIZE_CHAT_H
#define TOKENIZE_CHAT_H

#include "tokenize/tokenize.h"

#include "base/sandbox.h"

typedef struct TokRange {
    size_t from, to;
} TokRange;

struct TokChat {
    GenBase base;
    lua_State *L;      /* of one chat; a Jinja template's: of all of a thread's */
    const char *chunk; /* its name */
    char *file;        /* the template's text, marked for the sandbox unless it is Jinja */
    size_t file_bytes;
    bool own;           /* fsdpgen carries it */
    bool jinja;         /* of a Hugging Face model */
    int function, none; /* registry; none: Jinja's */
    json_t *config;     /* tokenizer_config.json: names of special tokens; NULL: none */
    TokWorker *w;
    TokIds *out;
    const json_t *record, *messages;
    TokText text, normal;   /* of consecutive texts; scratch */
    const char *theirs;     /* of each byte of text: not 0 if a message says it */
    TokFind find;           /* which added tokens text may hold, where it is not theirs */
    size_t bytes, begin;    /* of all texts of the chat; its first id's place in out */
    TokRange *spans;        /* of text: targets, in order */
    size_t n_spans, spans_cap;
    const TokPiece *pieces; /* of each id */
};

/* ---- tokenize_chat_ids.c --------------------------------------------------------- */

void tok_chat_push(TokIds *out, uint32_t id, bool target);
/* A text behind those since the last token; false with the worker's error set. */
bool tok_chat_add(TokChat *c, const char *s, size_t n, bool target);
void tok_chat_span(TokChat *c, size_t from, size_t to);
/* The texts since the last token become ids; false with the worker's error set. */
bool tok_chat_flush(TokChat *c);

/* ---- tokenize_messages.c --------------------------------------------------------- */

/* The messages of a chat in one form, a list of {role, content} and what else they have,
 * as a new reference; NULL with error set. own, for fsdpgen's own templates: parts and tool
 * calls become text of contents. */
json_t *tok_messages(const json_t *list, bool own, char *error);
bool tok_has_calls(const json_t *m);

/* ---- tokenize_jinja.c ------------------------------------------------------------ */

/* Is this the name of such a template: FILE.jinja, FILE.json, or `tokenizer`? */
bool tok_is_jinja(const char *name);
/* Reads it and makes Lua functions of it; false with error set. */
bool tok_jinja_open(TokChat *c, const char *name, char *error);
bool tok_jinja_run(TokChat *c, char *error);

#endif
