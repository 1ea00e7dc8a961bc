/* SPDX-License-Identifier: Apache-2.0 */
/* fields.h: which fields a table of a description may have. fields.c builds them from Lua tables
 * (gen/lua/describe.lua explains the attributes); check.c and the reference use them. */
#ifndef FIELDS_H
#define FIELDS_H

#include "gen.h"

/* In the text of a Lua error that we raise: starts the help of the message. */
#define HELP "\1"

typedef enum {
    FIELD_INT,
    FIELD_NUMBER,
    FIELD_BOOL,
    FIELD_STRING,
    FIELD_TABLE,
    FIELD_LIST,
    FIELD_RECORD,
    FIELD_MODEL,
    FIELD_ANY
} FieldType;

typedef struct Words {
    const char **items;
    int count, cap;
} Words;

typedef struct Fields Fields;

typedef struct Field {
    const char *name, *doc, *hash;
    const char *example; /* a value as a user writes it */
    FieldType type;
    bool optional;
    int default_ref;          /* LUA_NOREF: no default */
    int neutral_ref;          /* With this value the field has no effect, whatever its default, so
                               * it is not in the hash. LUA_NOREF: none */
    bool graph;               /* the graph says all that it means, so the field is not hashed */
    const char *default_text; /* for the reference, if the default is computed */
    bool has_min, has_max, has_above, has_below, power_of_two;
    double min, max, above, below;
    const char *pattern, *pattern_doc, *forbid;
    const char *more; /* of a string: how there can be other values; or NULL */
    bool size;         /* of a string: it is a number of bytes, "8GiB" */
    int64_t max_bytes; /* of a string; 0: no limit */
    bool alone; /* of a list: a single value may stand without braces */
    bool fills; /* of a table: what one lacks comes from the default of the whole */
    bool of_gpu; /* of a target: describes its GPU's machines, so `size` drops it for other GPUs */
    Words values, later_values, kinds, later_kinds, number_sets;
    const char *number_makes;
    const char *number; /* of a bool: what an integer means; NULL: not legal */
    const char *func; /* of a record: what a function in its place means; NULL: not legal */
    const char *editor; /* its type in annotations, unless other attributes imply it; or NULL */
    const char *later_number, *later_function; /* what such a value will mean later */
    bool later;
    int only_ref; /* the only value available now; LUA_NOREF: any */
    Fields *fields;
    struct Field *item;
    int64_t count; /* of a list; 0: any */
} Field;

struct Fields {
    Field *items;
    int count, cap;
};

/* The ops of an optimizer: its own, and those in `uses` of its rule, if it treats matrices as a
 * whole. */
typedef enum { USE_SELF, USE_MATRIX, USE_MOMENTUM, USE_OTHERS, N_USES } OptimizerUse;

/* A field of the description whose value becomes an attribute of one of these ops. */
typedef struct Feed {
    const char *field; /* its path inside the optimizer: "eps", "betas[1]", "others.eps" */
    FieldType type;
    OptimizerUse use;
    const char *attr;
} Feed;

/* What the rule of an optimizer says, apart from its kernels (gen/lua/optimizer.lua). */
typedef struct Optimizer {
    const char *name;              /* of its constructor and its op */
    const char *uses[N_USES];      /* names of ops; NULL: none */
    const struct Optimizer *others; /* for other parameters; NULL: it treats all elements alike */
    Words master, moments_dtypes;  /* supported dtypes of its state */
    int kept;                      /* moment inputs: the most that a description can keep */
    int moments, moments_ref;      /* per element; or a function of the fields' values */
    int lr_adjust_ref;             /* for a matrix, a function of values and shape; LUA_NOREF: 1 */
    bool is_default;
    struct { Feed *items; int count, cap; } feeds;
    const struct LexFile *file;    /* op.lua, for messages */
} Optimizer;

/* A constructor of the description language. */
typedef struct Kind {
    const char *name, *positional;
    bool constant, later;
    const Optimizer *optimizer; /* NULL: not an optimizer */
    Fields *fields;
} Kind;

typedef struct Kinds {
    Kind *items;
    int count, cap;
} Kinds;

/* Reads rows from the Lua table at index; a mistake raises a Lua error that names the row. hash:
 * the default of the rows' own attribute. plain: no constructors and models, and nothing unchecked:
 * rows of an architecture or op. */
Fields *fields_read(Gen *g, lua_State *L, int index, const char *hash, bool plain);
Kinds kinds_read(Gen *g, lua_State *L, int index);

/* A name that Lua can write without quotes: letters, digits and _, not a keyword. */
bool is_identifier(const char *s, size_t n);
/* "8GiB", "1.5 GB", "4096" in bytes; -1 if it is not a size. Fractions need a unit. */
int64_t size_parse(const char *s);
/* Is it meant as a size: a number and letters of a unit, which may be a wrong one: 8G? */
bool size_is_written(const char *s);
const Field *fields_find(const Fields *f, const char *name);
bool kind_takes_list(const Kind *k); /* by_name { "a", "b" } */
const Kind *kinds_find(const Kinds *k, const char *name);
bool words_have(const Words *w, const char *word);
/* "a", "b" or "c" with quotes, or a, b or c without. */
const char *words_join(Gen *g, const Words *w, const char *quote);
const char *words_all(Gen *g, const Words *w); /* a, b and c */
Words fields_names(Gen *g, const Fields *f);

/* The reference as Markdown tables. shell/annotations.c makes the annotations for editors. */
void docs_markdown(Gen *g, Text *t, const Fields *trainer, const Kinds *kinds,
                   const Fields *machines);

#endif
