/* SPDX-License-Identifier: Apache-2.0 */
/* shell.h: the command line as people meet it: the table of commands and options, and what is made
 * of it and of the trainer's table (runtime/job/rt_flags_table.c): completions, manual pages, the
 * reference. main.c runs the commands. */
#ifndef SHELL_H
#define SHELL_H

#include "gen.h"

/* commands.c: all commands; the first is the default. */
extern const Command shell_commands[];

/* What has a command line. */
typedef struct CommandLine {
    const char *name;         /* as one types it: "fsdpgen" */
    const char *page;         /* of its manual */
    const char *what;         /* it is, for that page */
    const Command *commands;  /* the first is the default */
    const char **headings;    /* of options, by their rows; NULL: there are none */
} CommandLine;

CommandLine shell_generator(void);      /* commands.c */
CommandLine shell_trainer(Gen *g);      /* trainer_flags.c */

/* Names of a program's commands, with that between them; those that are hidden left out. */
const char *shell_command_names(Gen *g, const CommandLine *p, const char *between);
/* The row behind that one, in all tables; NULL: the first. */
const Option *shell_next_option(const CommandLine *p, const Option *o);
/* Names of the commands that take the option, each behind `before`. */
const char *shell_option_commands(Gen *g, const CommandLine *p, const Option *o, const char *before,
                                  const char *between);
/* Names to choose from, with that between them; "": none. */
const char *shell_choices(Gen *g, ChoiceFn *choice, const char *between);
/* The text with each of those bytes behind a backslash, or ' as a shell wants it in quotes. */
const char *shell_quoted(Gen *g, const char *s, const char *bytes);

/* fields.c: paths of a description's fields, as --set takes them. */
void shell_fields(Gen *g, OptionList *paths);

/* complete_bash.c, complete_zsh.c, complete_fish.c; fields: for values of VALUE_FIELD */
void complete_bash(Gen *g, Text *t, const CommandLine *p, const OptionList *fields);
void complete_zsh(Gen *g, Text *t, const CommandLine *p, const OptionList *fields);
void complete_fish(Gen *g, Text *t, const CommandLine *p, const OptionList *fields);

/* init.c: fsdpgen init; returns an exit code */
int init_run(Gen *g);
const char *init_arch_name(int i); /* it can begin with; NULL after the last */

/* annotations.c: of the description language, for editors; after ops_load */
void docs_lua(Gen *g, Text *t);

/* man.c, docs_options.c */
void shell_man(Gen *g, Text *t, const CommandLine *p);
void shell_markdown(Gen *g, Text *t, const CommandLine *p);

#endif
