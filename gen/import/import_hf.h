/* SPDX-License-Identifier: Apache-2.0 */
/* import_hf.h: what the parts of the import of a Hugging Face config.json share.
 * import_hf.c has what becomes of each key, import_hf_read.c reads values,
 * import_hf_rope.c has rotary positions and sliding windows. */
#ifndef IMPORT_HF_H
#define IMPORT_HF_H

#include "gen.h"

#include <jansson.h>

enum {
    LLAMA = 1,
    MISTRAL = 2,
    QWEN2 = 4,
    QWEN3 = 8,
    GPT2 = 16,
    QWEN = QWEN2 | QWEN3,
    ROTARY = LLAMA | MISTRAL | QWEN,
    ALL = ROTARY | GPT2
};

/* A model_type, and what transformers (5.23) takes where a file lacks the key. */
typedef struct Family {
    const char *model_type, *arch;
    int bit;
    int kv_heads; /* 0: as many as heads */
    int head_dim; /* 0: dim / heads */
    int window;
} Family;

typedef struct Config {
    Gen *g;
    const char *file, *text;
    size_t bytes;
    json_t *root;
    const Family *family;
} Config;

/* ---- import_hf_read.c ------------------------------------------------------------ */

/* Fills file, text and root; false with a message. */
bool hf_read(Config *c, const char *path);
/* The place of a value: path is `key` or `key.key`. */
Pos hf_place(const Config *c, const char *path);
void hf_refuse(const Config *c, const char *path, const char *help, const char *problem);
/* The value as it is written, for messages. */
const char *hf_shown(const Config *c, const json_t *v);
/* The shortest text that reads back as x: 5e5, 0.02, 1e-5. */
const char *hf_digits(Gen *g, double x);
/* NULL: the file lacks it, or it is null. */
json_t *hf_member(const Config *c, const char *path);
/* null says that there is none; a key that the file lacks has the family's default. */
bool hf_lacks(const Config *c, const char *key);
/* An integer from 0 on; missing without a default (-1): an error. */
int64_t hf_int(const Config *c, const char *path, int64_t missing);
double hf_number(const Config *c, const char *path, double missing);
bool hf_bool(const Config *c, const char *path, bool missing);
/* Warns. */
void hf_unknown(const Config *c, const char *path);
/* As numbers, 8 is 8.0. */
bool hf_equal(const json_t *a, const json_t *b);

/* ---- import_hf_rope.c ------------------------------------------------------------ */

/* The fields of `rope`, or NULL: all have their defaults. */
const char *hf_rope(const Config *c);
/* 0: every token sees all before it. */
int64_t hf_window(const Config *c);

#endif
