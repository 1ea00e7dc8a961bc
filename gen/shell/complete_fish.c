/* SPDX-License-Identifier: Apache-2.0 */
/* complete_fish.c: completion of a command line in fish. In: a command line, the fields
 * of descriptions. Out: a file of `complete` lines. */
#include "shell/shell.h"

#include <string.h>

/* The end of a line: the values it proposes. */
static const char *proposes(Gen *g, OptionValue kind, ChoiceFn *choice,
                            const OptionList *fields)
{
    const char *words = shell_choices(g, choice, " ");

    switch (kind) {
    case VALUE_NONE:
        return "";
    case VALUE_NUMBER:
        return " -x";
    case VALUE_TEXT:
    case VALUE_CHOICE:
    case VALUE_WORD:
        return *words ? gen_printf(g, " -x -a '%s'", words) : " -x";
    case VALUE_FILE:
        return *words ? gen_printf(g, " -r -F -a '%s'", words) : " -r -F";
    case VALUE_DIR:
        return " -x -a '(__fish_complete_directories)'";
    case VALUE_LUA:
        return " -x -a '(__fish_complete_suffix .lua)'";
    case VALUE_FIELD:
        words = "";
        for (int i = 0; i < fields->count; i++)
            words = gen_printf(g, "%s%s%s=", words, i ? " " : "", fields->items[i]);
        return gen_printf(g, " -x -a '%s'", words);
    }
    return "";
}

/* Inside quotes, fish needs a backslash before a quote. */
static const char *quoted(Gen *g, const char *s)
{
    Text t = {.g = g};

    text_add(&t, "", 0);
    for (; *s; s++)
        text_printf(&t, "%s%c", *s == '\'' || *s == '\\' ? "\\" : "", *s);
    return t.s;
}

static void add_helpers(Gen *g, Text *t, const CommandLine *p)
{
    text_printf(t,
                "function __%s_command # of the line so far\n"
                "    for word in (commandline -opc)[2..-1]\n"
                "        if contains -- $word %s\n"
                "            echo $word\n"
                "            return\n"
                "        end\n"
                "    end\n"
                "    echo %s\n"
                "end\n\n"
                "function __%s_is # one of those\n"
                "    contains -- (__%s_command) $argv\n"
                "end\n\n"
                "function __%s_first # no word is there yet\n"
                "    not string match -qv -- '-*' (commandline -opc)[2..-1]\n"
                "end\n\n",
                p->name, shell_command_names(g, p, " "), p->commands->name, p->name,
                p->name, p->name);
}

void complete_fish(Gen *g, Text *t, const CommandLine *p, const OptionList *fields)
{
    text_printf(t,
                "# Completion of %s for fish. Written by `fsdpgen completion fish%s`: DO "
                "NOT EDIT.\n\n",
                p->name, p->headings ? " --trainer" : "");
    add_helpers(g, t, p);
    text_printf(t, "complete -c %s -f\n", p->name);
    for (const Command *c = p->commands; c->name; c++) {
        const char *words = proposes(g, c->words, c->choice, fields);

        if (!c->implied)
            text_printf(t, "complete -c %s -n __%s_first -a %s -d '%s'\n", p->name,
                        p->name, c->name, quoted(g, c->what));
        if (*words) /* -x and -r are for options */
            text_printf(t, "complete -c %s -n '__%s_is %s'%s\n", p->name, p->name,
                        c->name, words + 3);
    }
    text_printf(t, "complete -c %s -s h -l help -d 'help'\n", p->name);
    for (const Option *o = shell_next_option(p, NULL); o; o = shell_next_option(p, o)) {
        const char *of = shell_option_commands(g, p, o, "", " ");

        if (!o->what || !*of)
            continue;
        text_printf(t, "complete -c %s -n '__%s_is %s'", p->name, p->name, of);
        if (o->letter)
            text_printf(t, " -s %c", o->letter);
        text_printf(t, " -l %s -d '%s'%s\n", o->name, quoted(g, o->what),
                    o->kind == VALUE_WORD
                        ? gen_printf(g, " -a '%s'", shell_choices(g, o->choice, " "))
                        : proposes(g, o->kind, o->choice, fields));
    }
}
