/* SPDX-License-Identifier: Apache-2.0 */
/* names.c: lists of names for text about a command line. In: a command line. Out: text,
 * in the order of its tables. */
#include "shell/shell.h"

#include <string.h>

const char *shell_command_names(Gen *g, const CommandLine *p, const char *between)
{
    const char *all = "";

    for (const Command *c = p->commands; c->name; c++)
        if (!c->implied)
            all = gen_printf(g, "%s%s%s", all, *all ? between : "", c->name);
    return all;
}

/* Does the command take this row's option? */
static bool has_row(const Command *c, const Option *o)
{
    const Option *own = c->options;

    while (own->name && own != o)
        own++;
    return own->name;
}

const Option *shell_next_option(const CommandLine *p, const Option *o)
{
    const Command *c = p->commands, *earlier;

    if (!o)
        return c->options;
    if (o[1].name)
        return o + 1;
    while (!has_row(c, o))
        c++;
    for (; c->name; c++) { /* of a table that no earlier command has */
        for (earlier = p->commands; earlier != c && earlier->options != c->options;)
            earlier++;
        if (earlier == c && !has_row(c, o))
            return c->options;
    }
    return NULL;
}

const char *shell_option_commands(Gen *g, const CommandLine *p, const Option *o,
                                  const char *before, const char *between)
{
    const char *all = "";

    for (const Command *c = p->commands; c->name; c++)
        if (option_is_of(o, c) && has_row(c, o))
            all = gen_printf(g, "%s%s%s%s", all, *all ? between : "", before, c->name);
    return all;
}

const char *shell_choices(Gen *g, ChoiceFn *choice, const char *between)
{
    const char *all = "";

    for (int i = 0; choice && choice(i); i++)
        all = gen_printf(g, "%s%s%s", all, i ? between : "", choice(i));
    return all;
}

const char *shell_quoted(Gen *g, const char *s, const char *bytes)
{
    Text t = {.g = g};

    text_add(&t, "", 0);
    for (; *s; s++)
        if (*s == '\'')
            text_add(&t, "'\\''", 4);
        else
            text_printf(&t, "%s%c", strchr(bytes, *s) ? "\\" : "", *s);
    return t.s ? t.s : "";
}
