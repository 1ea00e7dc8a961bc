/* SPDX-License-Identifier: Apache-2.0 */
/* options_help.c: the help of the command line. In: the table of commands and options
 * (options.h). Out: text for a terminal, of one command or of all. */
#include "base/options.h"

#include <string.h>

enum { WIDTH = 88 };

char *option_left(Gen *g, const Option *o, const char *no_letter)
{
    const char *letter = o->letter ? gen_printf(g, "-%c, ", o->letter) : no_letter;

    return gen_printf(g, "%s--%s%s%s", letter, o->name, o->value ? " " : "",
                      o->value ? o->value : "");
}

/* Words after a label, wrapped for a terminal. */
static void add_wrapped(Text *t, const char *label, const char *words)
{
    size_t column = strlen(label);

    text_printf(t, "\n%s", label);
    while (*words) {
        const size_t n = strcspn(words, " "),
                     indent = strlen(label) < 16 ? strlen(label) : 4;

        if (column + 1 + n > WIDTH) {
            text_printf(t, "\n%*s", (int)indent, "");
            column = indent;
        }
        text_printf(t, " %.*s", (int)n, words);
        column += 1 + n;
        words += n + strspn(words + n, " ");
    }
    text_printf(t, "\n");
}

static void add_options(Text *t, const Command *c)
{
    for (const Option *o = c->options; o->name; o++)
        if (o->what && option_is_of(o, c))
            text_printf(t, "  %-26s %s\n", option_left(t->g, o, "    "), o->what);
    text_printf(t, "  %-26s this text\n", "-h, --help");
}

/* The names to choose from, for options whose line does not list them. */
static void add_choices(Text *t, const Command *c)
{
    for (const Option *o = c->options; o->name; o++) {
        const char *names = "";
        int count = 0;

        if (o->kind != VALUE_CHOICE || !o->what || !option_is_of(o, c))
            continue;
        for (; o->choice(count); count++)
            names = gen_printf(t->g, "%s%s%s", names, count ? " " : "", o->choice(count));
        if (count > 3)
            add_wrapped(t, gen_printf(t->g, "Of --%s:", o->name), names);
    }
}

static void add_usage(Text *t, const Command *c)
{
    for (int i = 0; c->usage[i]; i++)
        text_printf(t, "%s fsdpgen %s %s\n", i ? "      " : "usage:", c->name,
                    c->usage[i]);
}

static void help_of_all(Text *t, const Command *commands)
{
    text_printf(t, "fsdpgen " FSDPGEN_VERSION
                   ": writes the source of one sharded trainer from a "
                   "description of one model.\n\n");
    add_usage(t, commands);
    text_printf(t, "       fsdpgen COMMAND --help\n\n");
    for (const Command *c = commands; c->name; c++)
        text_printf(t, "  %-12s %s\n", c->name, c->what);
    text_printf(t, "\nWithout a command a description is generated. Options of `%s`:\n\n",
                commands->name);
    add_options(t, commands);
    text_printf(t, "  %-26s the version\n", "    --version");
    add_choices(t, commands);
    add_wrapped(t, "Exit codes:", commands->exits);
}

void options_help(Gen *g, Text *t, const Command *commands, const Command *c)
{
    t->g = g;
    if (!c) {
        help_of_all(t, commands);
        return;
    }
    text_printf(t, "fsdpgen %s: %s\n\n", c->name, c->what);
    add_usage(t, c);
    if (c->more)
        text_printf(t, "\n%s\n", c->more);
    text_printf(t, "\n");
    add_options(t, c);
    add_choices(t, c);
    add_wrapped(t, "Exit codes:", c->exits ? c->exits : commands->exits);
}
