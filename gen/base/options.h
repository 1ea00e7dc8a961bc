/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: the form of the table of commands and options, and what reads a command line by it.
 * The tables stand with those who use them: commands.c, tokenize/tokenize_options.c. They drive the
 * parser and its messages (options.c), --help (options_help.c), and what gen/shell/ makes:
 * completions, manual pages, the reference. A new option is a field and one row. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "base/base.h"

typedef struct OptionList { const char **items; int count, cap; } OptionList;

/* How a value is kept, in the struct that a command's options fill. */
typedef enum {
    STORE_SWITCH, /* bool: there is no value */
    STORE_TEXT,   /* const char * */
    STORE_LIST,   /* OptionList: it may be repeated */
    STORE_COUNT   /* int64_t, from 1 to `most` */
} OptionStore;

/* What a value or a word is; a shell completes it so. */
typedef enum {
    VALUE_NONE,   /* there is none */
    VALUE_TEXT,
    VALUE_NUMBER,
    VALUE_FILE,
    VALUE_DIR,
    VALUE_LUA,    /* a description, or a folder on the way to one */
    VALUE_FIELD,  /* a description's field, with its value behind = */
    VALUE_CHOICE, /* one of `choice`, or the command line is wrong */
    VALUE_WORD    /* the same, behind a = alone: --resume=must */
} OptionValue;

typedef const char *ChoiceFn(int i); /* NULL after the last */

typedef struct Option {
    char letter;
    const char *name;     /* NULL: behind the last row */
    const char *value;    /* as help writes it; NULL: it takes none */
    const char *what;     /* NULL: hidden */
    OptionStore store;
    OptionValue kind;
    size_t at;
    unsigned commands;    /* that take it: their bits */
    ChoiceFn *choice;     /* NULL: there are no names to propose */
    int64_t most;         /* of a count */
} Option;

typedef struct Command {
    const char *name;     /* NULL: behind the last row */
    const char *what;     /* one line */
    const char *usage[4]; /* what follows the name, a line each; NULL behind the last */
    const char *more;     /* lines for its help; or NULL */
    const char *exits;    /* its exit codes; NULL: those of the first row */
    bool hidden;          /* the general help leaves it out */
    bool implied;         /* its name is not written */
    OptionValue words;    /* what its words are */
    ChoiceFn *choice;     /* VALUE_CHOICE: of the first word */
    int least, most;      /* words that it needs, and takes; most -1: any number */
    const char *lack;     /* the message where it has less */
    unsigned bit;         /* in Option.commands */
    const Option *options;
} Command;

/* Does the command take the option? */
static inline bool option_is_of(const Option *o, const Command *c) { return o->commands & c->bit; }

/* ---- options.c: reading a command line ------------------------------------------- */

typedef struct OptionReader {
    Gen *g;
    const Command *commands; /* the first is the default */
    int argc;
    char **argv;
    const Command *command;
    bool named;              /* the command line names it */
    const char *error;       /* of usage */
} OptionReader;

typedef enum { OPTIONS_GO, OPTIONS_HELP, OPTIONS_VERSION, OPTIONS_WRONG } OptionsFound;
/* Finds the command, or reports that there is none of its name: OPTIONS_WRONG. */
OptionsFound options_open(OptionReader *r);
/* Reads all of it: options into the struct that the command's table is of, words apart. */
OptionsFound options_read(OptionReader *r, void *into, OptionList *words);
/* Records what is wrong, for options_complain. */
OptionsFound options_wrong(OptionReader *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints what is wrong, and where help is; returns the exit code. */
int options_complain(const OptionReader *r);

/* ---- options_help.c -------------------------------------------------------------- */

/* "-o, --output DIR" */
char *option_left(Gen *g, const Option *o, const char *no_letter);
/* Of a command; NULL: of all. */
void options_help(Gen *g, Text *t, const Command *commands, const Command *command);

#endif
