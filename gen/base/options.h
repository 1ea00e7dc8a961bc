/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: the form of the table of commands and options, and its reader. The tables stand with
 * their users: commands.c, tokenize/tokenize_options.c. They drive the parser and its messages
 * (options.c), --help (options_help.c), and what gen/shell/ makes: completions, manual pages, the
 * reference. A new option is one field and one row. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "base/base.h"

typedef struct OptionList { const char **items; int count, cap; } OptionList;

typedef struct Dollars { bool given; double usd; } Dollars;

/* How a value is stored in the struct that a command's options fill. */
typedef enum {
    STORE_SWITCH, /* bool, without a value */
    STORE_TEXT,   /* const char * */
    STORE_LIST,   /* OptionList; the option may be repeated */
    STORE_COUNT,  /* int64_t, from 1 to `most` */
    STORE_AMOUNT, /* the same, also as 15T or 1.5B */
    STORE_DOLLARS /* Dollars */
} OptionStore;

/* What a value or an argument is; shells complete it accordingly. */
typedef enum {
    VALUE_NONE,   /* no value */
    VALUE_TEXT,
    VALUE_NUMBER,
    VALUE_FILE,
    VALUE_DIR,
    VALUE_LUA,    /* a description, or a folder that contains some */
    VALUE_FIELD,  /* a description's field, with =VALUE */
    VALUE_CHOICE, /* one of `choice`; anything else is an error */
    VALUE_WORD    /* the same, only after a =: --resume=must */
} OptionValue;

typedef const char *ChoiceFn(int i); /* NULL after the last */

typedef struct Option {
    char letter;
    const char *name;     /* NULL: end of the table */
    const char *value;    /* as help shows it; NULL: no value */
    const char *what;     /* NULL: hidden from help */
    OptionStore store;
    OptionValue kind;
    size_t at;
    unsigned commands;    /* bits of the commands that take it */
    ChoiceFn *choice;     /* NULL: no names to choose from */
    int64_t most;         /* upper limit of a count */
} Option;

typedef struct Command {
    const char *name;     /* NULL: end of the table */
    const char *what;     /* one line */
    const char *usage[4]; /* what follows the name, one line each; NULL after the last */
    const char *more;     /* more lines for its help; or NULL */
    const char *exits;    /* its exit codes; NULL: those of the first row */
    bool implied;         /* the command line does not name it */
    OptionValue words;    /* what its arguments are */
    ChoiceFn *choice;     /* VALUE_CHOICE: for the first argument */
    int least, most;      /* arguments that it needs and accepts; most -1: any number */
    const char *lack;     /* the message if there are fewer */
    unsigned bit;         /* its bit in Option.commands */
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
    bool named;              /* the command line names the command */
    const char *error;       /* prefix of usage errors */
} OptionReader;

typedef enum { OPTIONS_GO, OPTIONS_HELP, OPTIONS_VERSION, OPTIONS_WRONG } OptionsFound;
/* Finds the command; if its name is unknown, reports that and returns OPTIONS_WRONG. */
OptionsFound options_open(OptionReader *r);
/* Reads the whole line: options into the command's struct, arguments separately. */
OptionsFound options_read(OptionReader *r, void *into, OptionList *words);
/* Records an error for options_complain. */
OptionsFound options_wrong(OptionReader *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* "15T", "1.5B", "250000": a number from 1 to most. False: anything else. */
bool options_amount(const char *s, int64_t most, int64_t *n);
/* "2.50": from 0 to a million. */
bool options_dollars(const char *s, double *usd);
/* Prints the error and where to find help; returns the exit code. */
int options_complain(const OptionReader *r);

/* ---- options_help.c -------------------------------------------------------------- */

/* "-o, --output DIR" */
char *option_left(Gen *g, const Option *o, const char *no_letter);
/* Help for a command; NULL: for all. */
void options_help(Gen *g, Text *t, const Command *commands, const Command *command);

#endif
