/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_flags.c: the command line of emitted trainers, in the generator's form. In: the
 * runtime's table of commands and flags, compiled in. Out: a CommandLine. */
#include "shell/shell.h"

#include "job/rt_flags_table.h"

#include <string.h>

static const char *must_name(int i)
{
    return i == 0 ? "must" : NULL;
}

static const char *when_name(int i)
{
    static const char *const words[] = {"auto", "always", "never"};

    return i < 3 ? words[i] : NULL;
}

static OptionValue kind_of(RtFlagKind kind)
{
    switch (kind) {
    case RT_FLAG_SWITCH:
        return VALUE_NONE;
    case RT_FLAG_COUNT:
    case RT_FLAG_REAL:
        return VALUE_NUMBER;
    case RT_FLAG_FILE:
    case RT_FLAG_DATA:
    case RT_FLAG_EVAL:
        return VALUE_FILE;
    case RT_FLAG_DIR:
        return VALUE_DIR;
    case RT_FLAG_MUST:
        return VALUE_WORD;
    case RT_FLAG_WHEN:
        return VALUE_CHOICE;
    case RT_FLAG_TIME:
    case RT_FLAG_TEXT:
    case RT_FLAG_NAME:
        break;
    }
    return VALUE_TEXT;
}

static Option option_of(const RtFlag *flag)
{
    const bool list = flag->kind == RT_FLAG_DATA || flag->kind == RT_FLAG_EVAL;

    return (Option){.name = flag->name,
                    .value = flag->value,
                    .what = flag->help,
                    .store = flag->kind == RT_FLAG_SWITCH ? STORE_SWITCH
                             : list                       ? STORE_LIST
                                                          : STORE_TEXT,
                    .kind = kind_of(flag->kind),
                    .commands = flag->commands,
                    .choice = flag->kind == RT_FLAG_MUST   ? must_name
                              : flag->kind == RT_FLAG_WHEN ? when_name
                                                           : NULL};
}

CommandLine shell_trainer(Gen *g)
{
    Option *options = gen_alloc(g, (size_t)(rt_flag_count + 1) * sizeof *options);
    Command *commands = gen_alloc(g, (RT_COMMANDS + 1) * sizeof *commands);
    const char **headings = gen_alloc(g, (size_t)rt_flag_count * sizeof *headings);
    int n = 0;

    for (int group = 0; group < RT_GROUPS; group++)
        for (int i = 0; i < rt_flag_count; i++)
            if ((int)rt_flag_table[i].group == group) {
                headings[n] = rt_flag_headings[group].title;
                options[n++] = option_of(&rt_flag_table[i]);
            }
    for (int i = 0; i < RT_COMMANDS; i++) {
        const RtCommandInfo *c = &rt_command_table[i];

        commands[i] = (Command){.name = c->name ? c->name : "train",
                                .implied = !c->name,
                                .what = c->what,
                                .usage = {c->line},
                                .exits = c->exits,
                                .words = c->folder ? VALUE_DIR : VALUE_NONE,
                                .least = c->folder,
                                .most = c->folder,
                                .bit = 1u << i,
                                .options = options};
    }
    return (CommandLine){.name = "trainer",
                         .page = "fsdpgen-trainer",
                         .what = "a sharded trainer that fsdpgen wrote",
                         .commands = commands,
                         .headings = headings};
}
