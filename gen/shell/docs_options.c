/* SPDX-License-Identifier: Apache-2.0 */
/* docs_options.c: a program's commands and options for the reference. In: a command line.
 * Out: Markdown (`fsdpgen docs options`). */
#include "shell/shell.h"

#include <string.h>

/* A cell of a table: a bar inside would end it. */
static const char *cell(Gen *g, const char *s)
{
    Text t = {.g = g};

    text_add(&t, "", 0);
    for (; *s; s++)
        text_printf(&t, "%s%c", *s == '|' ? "\\" : "", *s);
    return t.s;
}

static void add_commands(Gen *g, Text *t, const CommandLine *p)
{
    text_printf(t, "| command | what it does |\n|---|---|\n");
    for (const Command *c = p->commands; c->name; c++) {
        for (int i = 0; c->usage[i]; i++)
            text_printf(t, "%s`%s%s%s %s`", i ? "<br>" : "| ", p->name,
                        c->implied ? "" : " ", c->implied ? "" : c->name,
                        cell(g, c->usage[i]));
        text_printf(t, " | %s |\n", cell(g, c->what));
    }
}

/* The commands that take it, without the one that needs no name. */
static const char *commands_of(Gen *g, const CommandLine *p, const Option *o)
{
    return gen_printf(g, "`%s`", shell_option_commands(g, p, o, "", "`, `"));
}

void shell_markdown(Gen *g, Text *t, const CommandLine *p)
{
    const char *heading = NULL;
    int row = 0;

    t->g = g;
    add_commands(g, t, p);
    if (!p->headings)
        text_printf(t, "\n| option | of | what it is |\n|---|---|---|\n");
    for (const Option *o = shell_next_option(p, NULL); o; o = shell_next_option(p, o)) {
        if (p->headings && p->headings[row] != heading) {
            heading = p->headings[row];
            text_printf(t, "\n| %s | of | |\n|---|---|---|\n", heading);
        }
        row++;
        if (o->what && *shell_option_commands(g, p, o, "", ""))
            text_printf(t, "| `%s%s--%s%s%s` | %s | %s |\n",
                        o->letter ? gen_printf(g, "-%c", o->letter) : "",
                        o->letter ? ", " : "", o->name,
                        o->value && o->kind != VALUE_WORD ? " " : "",
                        o->value ? cell(g, o->value) : "", commands_of(g, p, o),
                        cell(g, o->what));
    }
}
