/* SPDX-License-Identifier: Apache-2.0 */
/* hf.h: what we know of Hugging Face's config.json. hf_model.c has what becomes of each
 * key of it, hf_read.c reads values, hf_rope.c has rotary positions and sliding windows;
 * hf_config.c makes the one that a checkpoint carries, hf_check.c compares the graph at
 * hand with the one that the class it names computes (hf_graph.c). `fsdpgen import` reads
 * them too. */
#ifndef HF_H
#define HF_H

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
    const char *model_type, *class_name, *arch;
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

/* ---- hf_read.c ------------------------------------------------------------ */

/* Fills file, text and root; false with a message. */
bool hf_read(Config *c, const char *path);
bool hf_take(Config *c, const char *text); /* the same of a text that has no file */
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

/* ---- hf_rope.c ------------------------------------------------------------ */

/* The fields of `rope`, or NULL: all have their defaults. */
const char *hf_rope(const Config *c);
/* 0: every token sees all before it. */
int64_t hf_window(const Config *c);

/* ---- hf_model.c ------------------------------------------------------------------ */

/* NULL: no architecture here has that model_type. */
const Family *hf_family(const char *model_type);
/* `llama { ... }`; fills family. NULL with messages. */
const char *hf_model(Config *c);
/* Tokens of a sequence, as many as the model was made for, but at most 4096. */
int64_t hf_sequence(const Config *c);

/* ---- hf_graph.c ------------------------------------------------------------------ */

/* Every value of the forward as what it computes: equal numbers, equal expressions, whatever
 * the order of nodes, the names of values and the cut into blocks. */
typedef struct Expr {
    uint64_t hash;
    const Block *block;
    const Node *node;
} Expr;

/* A parameter as a file of Hugging Face's has it. */
typedef struct Tensor {
    const char *name;
    int n_dims;
    int64_t dim[MAX_DIMS];
    const Block *block;
    const Node *reader; /* the first node that reads it */
} Tensor;

typedef struct Graph {
    struct { Expr *items; int count, cap; } exprs;     /* in order of execution */
    struct { Tensor *items; int count, cap; } tensors; /* in order of the model */
    uint64_t loss;
} Graph;

Graph hf_graph(Gen *g); /* of the forward, after graph_build */
/* Is the attribute the architecture's, and not the trainer's? */
bool hf_own_attr(const OpRule *op, const Attr *a);
/* The graph that transformers computes for a config.json, with the sequences and documents of
 * g: the architecture here that has that model_type, as fsdpgen carries it. NULL: why it
 * cannot be made is in *problem. */
Gen *hf_reference(Gen *g, const char *config, const char **problem);

/* ---- hf_check.c ------------------------------------------------------------------ */

/* Messages for all in which the graph of g is not the reference's. */
void hf_compare(Gen *g, Gen *reference, const char *class_name);

#endif
