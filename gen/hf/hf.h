/* SPDX-License-Identifier: Apache-2.0 */
/* hf.h: what we know of Hugging Face's config.json. hf_model.c handles each of its keys, hf_read.c
 * reads values, hf_rope.c handles rotary positions, hf_layers.c what differs among layers. hf_config.c makes the
 * config.json of checkpoints, and hf_check.c compares the graph with the one of the class named
 * there (hf_graph.c). `fsdpgen import` reads config.json with the same code. */
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
    GRANITE = 32,
    SMOLLM3 = 64,
    PHI3 = 128,
    OLMO2 = 256,
    GEMMA2 = 512,
    GEMMA3 = 1024,
    GEMMA = GEMMA2 | GEMMA3,
    QWEN = QWEN2 | QWEN3,
    ROTARY = LLAMA | MISTRAL | QWEN | GRANITE | SMOLLM3 | PHI3 | OLMO2 | GEMMA,
    ALL = ROTARY | GPT2
};

/* A model_type, and the defaults of transformers (5.23) for missing keys. */
typedef struct Family {
    const char *model_type, *class_name, *arch;
    int bit;
    int kv_heads; /* 0: as many as heads */
    int head_dim; /* 0: dim / heads */
    int window;
    int positions; /* 0: 2048 */
    double theta, eps; /* 0: 1e4, 1e-6 */
    bool tied;
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
bool hf_take(Config *c, const char *text); /* the same for a text without a file */
/* The place of a value: path is `key` or `key.key`. */
Pos hf_place(const Config *c, const char *path);
void hf_refuse(const Config *c, const char *path, const char *help, const char *problem);
/* The value as written, for messages. */
const char *hf_shown(const Config *c, const json_t *v);
/* The shortest text that reads back as x: 5e5, 0.02, 1e-5. */
const char *hf_digits(Gen *g, double x);
/* NULL if it is missing or null. */
json_t *hf_member(const Config *c, const char *path);
/* Is the key's value null, that is, absent? A missing key has the family's default. */
bool hf_lacks(const Config *c, const char *key);
/* An integer that is at least 0; if it is missing, `missing`, where -1 means an error. */
int64_t hf_int(const Config *c, const char *path, int64_t missing);
int64_t hf_count(const Config *c, const char *path, int64_t missing, int64_t least);
double hf_number(const Config *c, const char *path, double missing);
double hf_positive(const Config *c, const char *path, double missing); /* above 0 */
bool hf_bool(const Config *c, const char *path, bool missing);
/* Warns about an unknown key. */
void hf_unknown(const Config *c, const char *path);
/* Compares as numbers: 8 equals 8.0. */
bool hf_equal(const json_t *a, const json_t *b);

/* ---- hf_rope.c ------------------------------------------------------------ */

/* The fields of `rope`; NULL if all have their defaults. */
const char *hf_rope(const Config *c);
/* max_position_embeddings, or its default. */
int64_t hf_positions(const Config *c);

/* ---- hf_layers.c ---------------------------------------------------------- */

/* 0: every token sees all earlier ones, in all layers. */
int64_t hf_window(const Config *c);
/* Of Gemma: every that many layers one has no window; 0: none, or all. */
int64_t hf_global_every(const Config *c);
/* Of SmolLM3: every that many layers one has no rotary positions; 0: all have. */
int64_t hf_nope_every(const Config *c);

/* ---- hf_model.c ------------------------------------------------------------------ */

/* NULL: no architecture here has that model_type. */
const Family *hf_family(const char *model_type);
/* `llama { ... }`; fills family. NULL with messages. */
const char *hf_model(Config *c);
/* Tokens per sequence: as many as the model was made for, at most 4096. */
int64_t hf_sequence(const Config *c);

/* ---- hf_graph.c ------------------------------------------------------------------ */

/* A value of the forward as the expression it computes: equal numbers mean equal expressions,
 * whatever the order of nodes, the names of values and the cut into blocks. */
typedef struct Expr {
    uint64_t hash;
    const Block *block;
    const Node *node;
} Expr;

/* A parameter as it is in a Hugging Face file. */
typedef struct Tensor {
    const char *name;
    int n_dims;
    int64_t dim[MAX_DIMS];
    const Block *block;
    const Node *reader; /* the first node that reads it */
} Tensor;

typedef struct Graph {
    struct { Expr *items; int count, cap; } exprs;     /* in the order of execution */
    struct { Tensor *items; int count, cap; } tensors; /* in the order of the model */
    uint64_t loss;
} Graph;

Graph hf_graph(Gen *g); /* of the forward, after graph_build */
/* Does the attribute come from the architecture rather than the trainer? */
bool hf_own_attr(const OpRule *op, const Attr *a);
/* The graph that transformers computes for a config.json, with g's sequences and documents: the
 * embedded architecture with that model_type. NULL: *problem says why it cannot be made. */
Gen *hf_reference(Gen *g, const char *config, const char **problem);

/* ---- hf_check.c ------------------------------------------------------------------ */

/* Reports every difference between g's graph and the reference's. */
void hf_compare(Gen *g, Gen *reference, const char *class_name);

#endif
