/* SPDX-License-Identifier: Apache-2.0 */
/* man.c: the manual page of a program. In: a command line. Out: roff with the macros of
 * man(7), without warnings from groff and mandoc. */
#include "shell/shell.h"

#include <ctype.h>
#include <string.h>

/* Escapes text for roff: a hyphen in code becomes a minus, no line starts with a control
 * character. */
static void add_text(Text *t, const char *s)
{
    for (const char *at = s; *at; at++)
        switch (*at) {
        case '\\':
            text_printf(t, "\\e");
            break;
        case '-':
            text_printf(t, "\\-");
            break;
        case '`':
            text_printf(t, "\\(ga");
            break;
        case '\'':
            text_printf(t, "\\(aq");
            break;
        case '.':
            text_printf(t, "%s.", at == s || at[-1] == '\n' ? "\\&" : "");
            break;
        default:
            text_printf(t, "%c", *at);
        }
}

/* Words of usage; those in capitals are placeholders, in italics. */
static void add_words(Text *t, const char *s)
{
    while (*s) {
        const size_t capitals = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
        const size_t n = capitals > 0 ? capitals : 1;

        if (capitals > 1 || (capitals == 1 && !islower((unsigned char)s[1])))
            text_printf(t, "\\fI%.*s\\fR", (int)n, s);
        else
            add_text(t, gen_printf(t->g, "%.*s", (int)n, s));
        s += n;
    }
}

static void add_synopsis(Text *t, const CommandLine *p)
{
    text_printf(t, ".SH SYNOPSIS\n.nf\n");
    for (const Command *c = p->commands; c->name; c++)
        for (int i = 0; c->usage[i]; i++) {
            text_printf(t, "\\fB%s%s%s\\fR ", p->name, c->implied ? "" : " ",
                        c->implied ? "" : c->name);
            add_words(t, c->usage[i]);
            text_printf(t, "\n");
        }
    text_printf(t, ".fi\n");
}

static void add_commands(Text *t, const CommandLine *p)
{
    text_printf(t, ".SH COMMANDS\n");
    for (const Command *c = p->commands; c->name; c++) {
        text_printf(t, ".TP\n.B ");
        add_text(t, c->implied ? "(none)" : c->name);
        text_printf(t, "\n");
        add_text(t, c->what);
        text_printf(t, ".\n");
        if (c->more)
            add_text(t, c->more);
        if (c->more)
            text_printf(t, "\n");
    }
}

static void add_option(Gen *g, Text *t, const CommandLine *p, const Option *o)
{
    const char *of = shell_option_commands(g, p, o, "", ", ");
    const char *choices = shell_choices(g, o->choice, ", ");

    if (!o->what || !*of)
        return;
    text_printf(t, ".TP\n");
    if (o->letter)
        text_printf(t, "\\fB\\-%c\\fR, ", o->letter);
    text_printf(t, "\\fB\\-\\-");
    add_text(t, o->name);
    text_printf(t, "\\fR");
    if (o->value) {
        text_printf(t, "%s", o->kind == VALUE_WORD ? "" : " ");
        add_words(t, o->value);
    }
    text_printf(t, "\n");
    add_text(t, o->what);
    text_printf(t, ".\n");
    if (o->kind == VALUE_CHOICE) {
        text_printf(t, "One of: ");
        add_text(t, choices);
        text_printf(t, ".\n");
    }
    text_printf(t, "(");
    add_text(t, of);
    text_printf(t, ")\n");
}

static void add_exits(Text *t, const CommandLine *p)
{
    text_printf(t, ".SH EXIT STATUS\n");
    for (const Command *c = p->commands; c->name; c++) {
        if (!c->exits)
            continue;
        text_printf(t, ".TP\n.B ");
        add_text(t, c->implied ? "(none)" : c->name);
        text_printf(t, "\n");
        for (const char *s = c->exits; *s; s += strspn(s, "\n ")) {
            const size_t n = strcspn(s, "\n");

            add_text(t, gen_printf(t->g, "%.*s", (int)n, s));
            text_printf(t, "\n");
            s += n;
        }
    }
}

void shell_man(Gen *g, Text *t, const CommandLine *p)
{
    const char *heading = NULL;
    int row = 0;

    t->g = g;
    text_printf(
        t, ".\\\" Written by `fsdpgen docs` from the table of options: DO NOT EDIT.\n"
           ".TH ");
    for (const char *s = p->page; *s; s++)
        text_printf(t, "%s%c", *s == '-' ? "\\" : "", toupper((unsigned char)*s));
    text_printf(t, " 1 \"\" \"fsdpgen " FSDPGEN_VERSION "\" \"User Commands\"\n"
                   ".SH NAME\n");
    add_text(t, p->page);
    text_printf(t, " \\- ");
    add_text(t, p->what);
    text_printf(t, "\n");
    add_synopsis(t, p);
    add_commands(t, p);
    if (!p->headings)
        text_printf(t, ".SH OPTIONS\n");
    for (const Option *o = shell_next_option(p, NULL); o; o = shell_next_option(p, o)) {
        if (p->headings && p->headings[row] != heading) {
            heading = p->headings[row];
            text_printf(t, ".SH ");
            for (const char *s = heading; *s; s++)
                text_printf(t, "%c", toupper((unsigned char)*s));
            text_printf(t, "\n");
        }
        add_option(g, t, p, o);
        row++;
    }
    add_exits(t, p);
    text_printf(t, ".SH SEE ALSO\n.BR %s (1)\n",
                p->headings ? "fsdpgen" : "fsdpgen\\-trainer");
}
