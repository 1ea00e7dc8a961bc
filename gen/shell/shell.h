/* SPDX-License-Identifier: Apache-2.0 */
/* shell.h: the command line for people: the table of commands and options, and what is made from it
 * and from the trainer's table (runtime/job/rt_flags_table.c): completions, manual pages, the
 * reference. main.c runs the commands. */
#ifndef SHELL_H
#define SHELL_H

#include "gen.h"

/* commands.c: all commands; the first is the default. */
extern const Command shell_commands[];

/* A program with a command line. */
typedef struct CommandLine {
    const char *name;         /* the command as typed: "fsdpgen" */
    const char *page;         /* title of its manual page */
    const char *what;         /* what it is, for that page */
    const Command *commands;  /* the first is the default */
    const char **headings;    /* of options, by row; NULL: none */
} CommandLine;

CommandLine shell_generator(void);      /* commands.c */
CommandLine shell_trainer(Gen *g);      /* trainer_flags.c */

/* Names of a program's commands, with `between` between them. */
const char *shell_command_names(Gen *g, const CommandLine *p, const char *between);
/* The next row, across all tables; NULL: start with the first. */
const Option *shell_next_option(const CommandLine *p, const Option *o);
/* Names of the commands that take the option, each after `before`. */
const char *shell_option_commands(Gen *g, const CommandLine *p, const Option *o, const char *before,
                                  const char *between);
/* The names to choose from, with `between` between them; "": none. */
const char *shell_choices(Gen *g, ChoiceFn *choice, const char *between);
/* The text with a backslash before each of those bytes; ' is written as shells need it in
 * quotes. */
const char *shell_quoted(Gen *g, const char *s, const char *bytes);

/* fields.c: paths of a description's fields, as --set takes them. */
void shell_fields(Gen *g, OptionList *paths);

/* complete_bash.c, complete_zsh.c, complete_fish.c; fields: for values of VALUE_FIELD */
void complete_bash(Gen *g, Text *t, const CommandLine *p, const OptionList *fields);
void complete_zsh(Gen *g, Text *t, const CommandLine *p, const OptionList *fields);
void complete_fish(Gen *g, Text *t, const CommandLine *p, const OptionList *fields);

/* init.c: fsdpgen init; returns an exit code */
int init_run(Gen *g);
const char *init_arch_name(int i); /* that it can start with; NULL after the last */

/* annotations.c: annotations of the description language for editors; after ops_load */
void docs_lua(Gen *g, Text *t);

/* docs_ops.c: all ops; after ops_load */
void docs_ops(Gen *g, Text *t);

/* man.c, docs_options.c */
void shell_man(Gen *g, Text *t, const CommandLine *p);
void shell_markdown(Gen *g, Text *t, const CommandLine *p);

#endif
