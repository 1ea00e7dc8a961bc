/* SPDX-License-Identifier: Apache-2.0 */
/* load.h: what these files share: load.c (running the description), require.c (modules), record.c
 * (constructors), set.c (overrides), check*.c (validation) and resolve.c (writing the description
 * out again). */
#ifndef LOAD_H
#define LOAD_H

#include "describe/fields.h"
#include "base/lex.h"

/* An architecture: what `arch { ... }` declared. */
typedef struct Arch {
    const char *name, *module; /* module: the name it was required by; NULL: it was not */
    Fields *fields;
    int build_ref, check_ref, config_ref;
    Pos pos;
} Arch;

typedef enum { TAG_RECORD, TAG_MODEL, TAG_ARCH, TAG_CONSTRUCTOR } TagKind;

/* What we remember of a table or function in foreign hands. */
typedef struct Tag {
    TagKind tag;
    const Kind *kind; /* of a record or a constructor */
    const char *name; /* "cosine", "llama" */
    Arch *arch;
    Pos pos;             /* place of the call */
    const LexTable *lex; /* its `{...}` in the source; NULL: not found */
    int given_ref;       /* the table that the constructor got; 0: none */
} Tag;

typedef struct Place {
    const char *path;
    Pos pos;
    bool usual; /* the value is the default: as if it was not given */
} Place;

typedef struct Set {
    const char *path; /* "optimizer.lr" */
    Pos pos;          /* place of the value */
    Pos key_pos;
    const LexTable *lex; /* if the value is a table in the source */
} Set;

typedef struct Loader {
    Kinds kinds; /* optimizers first, sorted by name */
    Fields *trainer;
    Kind trainer_kind;
    const char *folder; /* of the description; NULL: only fsdpgen's own modules */
    int env_ref;        /* environment of the description and of overrides */
    int tags_ref;       /* registry: table or function → Tag */
    int modules_ref;    /* registry: name → value, true while loading */
    int raw_ref;        /* the trainer's record, as written and overridden */
    int resolved_ref;   /* the same with every field, after the checks */
    int read_ref;       /* what build read of the model */
    const char *outside; /* model.h */
    int machine_ref;    /* machines.lua: the datasheet for a GPU, a node and a fabric */
    Fields *machines;   /* of a file of --machines */
    struct {
        LexFile **items;
        int count, cap;
    } files;
    struct {
        Place *items;
        int count, cap;
    } places;
    struct {
        Set *items;
        int count, cap;
    } sets;
    Pos trainer_pos;
    const char *target_text; /* the text of --target */
} Loader;

/* load.c */
/* A state that knows the fields, without a description. If a rule of --ops is an error, the result
 * must not be used. */
Loader *loader_open(Gen *g);
Loader *loader_of(Gen *g);
/* The default constructor of a trainer's field, which all descriptions may use. */
const char *loader_default_kind(Gen *g, const char *field);
/* load_description for a text of ours; only modules embedded in fsdpgen are available. */
void load_own_text(Gen *g, const char *text);
LexFile *loader_file(Loader *ld, const char *file);
LexFile *loader_add_file(Gen *g, const char *file, const char *text, size_t bytes);
/* Turns the Lua error on top of the stack (popped) into a message; other: its place if the text
 * names none. */
void loader_lua_error(Gen *g, const char *what, Pos other);
/* The help for an undefined global; else_help: if it resembles no other name. */
const char *loader_global_help(Gen *g, const char *name, const char *else_help);

void loader_check_twice(Gen *g, const LexFile *f);
/* The last `return` at the start of a line, or the end of the file. */
Pos loader_place_of_return(Gen *g, const char *file);

/* machines.c: reads the datasheets, those of --machines too; pushes what describe.lua needs of
 * them. False: that file has errors. */
bool machines_load(Gen *g);

/* load_optimizers.c: adds the constructors of optimizers, from the rules of fsdpgen and of --ops,
 * to the loader's kinds; pushes what describe.lua needs of them. */
void load_optimizers(Gen *g);
/* Reports that a constructor of describe.lua has the name of an optimizer. */
void load_optimizers_clash(Gen *g, const char *name);
/* What an undefined name on a line that sets the optimizer may have meant; NULL: unknown. */
const char *load_optimizers_help(Gen *g, const LexFile *f, int line);

/* optimizer_rule.c: takes a rule's problem, or the result of one, from the top of the stack; finds
 * where op.lua writes a key of its rule, or a word after `fields`. */
void optimizer_report(Gen *g, const char *name, const LexFile *f);
void optimizer_add_kind(Gen *g, const char *name, const LexFile *f);
Pos optimizer_place(const Optimizer *o, const char *key);
Pos optimizer_word(const LexFile *f, const char *word);

/* lua_words.c: a message of Lua, without its place, in plain words; help: what to write, unless it
 * is set already. */
const char *lua_plain(Gen *g, const char *text, const char **help);
const char *lua_word_of_others(const char *word); /* Lua's form of a Python or JSON word */
const char *lua_line_of_others(const char *word); /* the same for the start of a line */

/* record.c */
void record_install(Gen *g, int env); /* constructors and arch, into the table at env */
Tag *record_tag(Gen *g, int index);   /* NULL when it has none */
void record_set_tag(Gen *g, int index, Tag *tag);
void record_push_copy(lua_State *L, int table); /* of the table at that index */
int record_push_env(Gen *g); /* a stranger's environment; its registry ref */
int record_strict_env(Gen *g); /* the same without constructors and require */

/* require.c */
int require_module(lua_State *L); /* upvalue 1: the Gen */
bool require_is_name(const char *s, size_t n); /* that it takes */

/* set.c */
/* rule_word.c: pushes what `op` is in an op.lua; was the rule on top of the stack written as
 * `op.map { ... }`? */
void rule_word_push(lua_State *L);
bool rule_take_map(lua_State *L);

void set_apply(Gen *g); /* --target and --set, on the raw record */
void set_again(Gen *g); /* forgets the texts of earlier ones, before others are applied */

bool dims_adds(const char *name); /* dims.c: is it a field of the trainer? */

/* check_value.c, check.c */
Pos place_of(Gen *g, const char *path); /* the nearest known place: its own or its parents' */
const char *check_show(Gen *g, int index); /* a value as messages show it */

/* resolve.c */
const char *resolve_lua(Gen *g);
const char *resolve_hash_fields(Gen *g, bool canonical);

/* check_wrap.c: in the emitted description, the list on top of the stack becomes the wrap. */
void resolve_wrap(Gen *g);
bool wrap_name_ok(const char *s, size_t n); /* may a unit have this name? */

#endif
