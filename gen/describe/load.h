/* SPDX-License-Identifier: Apache-2.0 */
/* load.h: what load.c (running the description), require.c (modules), record.c
 * (constructors), set.c (overrides), check*.c (validation) and resolve.c (the
 * description written out again) share. */
#ifndef LOAD_H
#define LOAD_H

#include "describe/fields.h"
#include "base/lex.h"

/* An architecture: what `arch { ... }` declared. */
typedef struct Arch {
    const char *name, *module; /* module: the name it was required by, NULL if by none */
    Fields *fields;
    int build_ref, check_ref, config_ref;
    Pos pos;
} Arch;

typedef enum { TAG_RECORD, TAG_MODEL, TAG_ARCH, TAG_CONSTRUCTOR } TagKind;

/* What we remember of a table or function that strangers hold. */
typedef struct Tag {
    TagKind tag;
    const Kind *kind; /* of a record, a constructor */
    const char *name; /* "cosine", "llama" */
    Arch *arch;
    Pos pos;             /* of the call */
    const LexTable *lex; /* its `{...}` in the source, NULL if not found */
    int given_ref;       /* the table as the constructor got it; 0: none */
} Tag;

typedef struct Place {
    const char *path;
    Pos pos;
} Place;

typedef struct Set {
    const char *path; /* "optimizer.lr" */
    Pos pos;          /* of the value */
    Pos key_pos;
    const LexTable *lex; /* when the value is written as a table */
} Set;

typedef struct Loader {
    Kinds kinds; /* optimizers first, sorted by name */
    Fields *trainer;
    Kind trainer_kind;
    const char *folder; /* of the description; NULL: modules are fsdpgen's own alone */
    int env_ref;        /* of the description and of overrides */
    int tags_ref;       /* registry: table or function → Tag */
    int modules_ref;    /* registry: name → value, true while loading */
    int raw_ref;        /* the trainer's record, as written and overridden */
    int resolved_ref;   /* the same with every field, as checked */
    int read_ref;       /* what build read of its model */
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
    const char *target_text; /* what --target gave */
} Loader;

/* load.c */
/* A state that knows the fields, without a description; nothing to be used if a rule of --ops is an
 * error. */
Loader *loader_open(Gen *g);
Loader *loader_of(Gen *g);
/* The constructor that a field of the trainer has by default, which all descriptions may name. */
const char *loader_default_kind(Gen *g, const char *field);
/* load_description of a text of ours, whose modules are those that fsdpgen carries. */
void load_own_text(Gen *g, const char *text);
LexFile *loader_file(Loader *ld, const char *file);
LexFile *loader_add_file(Gen *g, const char *file, const char *text, size_t bytes);
/* Turns the Lua error text on top of the stack (popped) into a message; other: its place
 * when the text names none. */
void loader_lua_error(Gen *g, const char *what, Pos other);
/* What to say of a global that nothing defines; else_help: where it is near no other name. */
const char *loader_global_help(Gen *g, const char *name, const char *else_help);

/* load_optimizers.c: the constructors of optimizers, from the rules of fsdpgen and of --ops, into
 * the loader's kinds; pushes what describe.lua says of them. */
void load_optimizers(Gen *g);
/* Another constructor of describe.lua has the name of one of them: a message. */
void load_optimizers_clash(Gen *g, const char *name);
/* What an undefined name may have meant on a line that sets the optimizer; NULL: nothing. */
const char *load_optimizers_help(Gen *g, const LexFile *f, int line);

/* optimizer_rule.c: from the top of the stack, a problem of a rule and what is made of one; where
 * op.lua writes a key of its rule, or a word from `fields` on. */
void optimizer_report(Gen *g, const char *name, const LexFile *f);
void optimizer_add_kind(Gen *g, const char *name, const LexFile *f);
Pos optimizer_place(const Optimizer *o, const char *key);
Pos optimizer_word(const LexFile *f, const char *word);

/* lua_words.c: a message of Lua's, without its place, in plain words; help: what to write, unless
 * it is known already. */
const char *lua_plain(Gen *g, const char *text, const char **help);
const char *lua_word_of_others(const char *word); /* of Python or JSON: Lua's form, or NULL */
const char *lua_line_of_others(const char *word); /* the same of what a line begins with */

/* record.c */
void record_install(Gen *g, int env); /* constructors and arch, into the table at env */
Tag *record_tag(Gen *g, int index);   /* NULL when it has none */
void record_set_tag(Gen *g, int index, Tag *tag);
void record_push_copy(lua_State *L, int table); /* of the table at that index */
int record_push_env(Gen *g); /* a stranger's environment; its registry ref */

/* require.c */
int require_module(lua_State *L); /* upvalue 1: the Gen */

/* set.c */
void set_apply(Gen *g); /* --target and --set, on the raw record */

bool dims_adds(const char *name); /* dims.c: comes from the trainer */

/* check_value.c, check.c */
Pos place_of(Gen *g, const char *path); /* nearest known place: its own or its parents' */
const char *check_show(Gen *g, int index); /* a value as messages show it */

/* resolve.c */
const char *resolve_lua(Gen *g);
const char *resolve_hash_fields(Gen *g, bool canonical);

/* check_wrap.c: the wrap in the emitted description becomes the list on top of the stack. */
void resolve_wrap(Gen *g);
bool wrap_name_ok(const char *s, size_t n); /* of a unit */

#endif
