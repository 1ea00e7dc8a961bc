/* SPDX-License-Identifier: Apache-2.0 */
/* complete_zsh.c: completion of a command line in zsh. In: a command line, the fields of
 * descriptions. Out: a function file for $fpath, made of _arguments. */
#include "shell/shell.h"

#include <string.h>

/* The part after the second colon, which proposes values of this kind. */
static const char *proposes(Gen *g, OptionValue kind, ChoiceFn *choice,
                            const OptionList *fields)
{
    const char *words = shell_choices(g, choice, " ");

    switch (kind) {
    case VALUE_NONE:
    case VALUE_NUMBER:
        return "";
    case VALUE_TEXT:
    case VALUE_CHOICE:
    case VALUE_WORD:
        return *words ? gen_printf(g, "(%s)", words) : "";
    case VALUE_FILE:
        return *words ? gen_printf(g,
                                   "{_alternative \"names:name:(%s)\" "
                                   "\"files:file:_files\"}",
                                   words)
                      : "_files";
    case VALUE_DIR:
        return "_files -/";
    case VALUE_LUA:
        return "_files -g \"*.lua(-.)\"";
    case VALUE_FIELD:
        words = "";
        for (int i = 0; i < fields->count; i++)
            words = gen_printf(g, "%s%s%s", words, i ? " " : "", fields->items[i]);
        return gen_printf(g, "{compadd -S = -- %s}", words);
    }
    return "";
}

static const char *value_word(Gen *g, const char *value)
{
    return shell_quoted(g, value, ":[]");
}

/* The line of _arguments for an option. */
static void add_option(Gen *g, Text *t, const Option *o, const OptionList *fields)
{
    const char *list = o->store == STORE_LIST ? "*" : "";
    const char *what = shell_quoted(g, o->what, "[]");
    const char *takes =
        !o->value
            ? ""
            : gen_printf(g, ":%s:%s", value_word(g, o->value),
                         shell_quoted(g, proposes(g, o->kind, o->choice, fields), ""));

    if (o->kind == VALUE_WORD) {
        text_printf(t, " \\\n            '(--%s)--%s[%s]' '(--%s)--%s=-[%s]%s'", o->name,
                    o->name, what, o->name, o->name, what, takes);
        return;
    }
    if (o->letter)
        text_printf(t, " \\\n            '(-%c --%s)'{-%c+,--%s=}'[%s]%s'", o->letter,
                    o->name, o->letter, o->name, what, takes);
    else
        text_printf(t, " \\\n            '%s--%s%s[%s]%s'", list, o->name,
                    o->value ? "=" : "", what, takes);
}

static void add_command(Gen *g, Text *t, const CommandLine *p, const Command *c,
                        const OptionList *fields)
{
    text_printf(t, "    %s)\n        _arguments -s -S", c->name);
    for (const Option *o = c->options; o->name; o++)
        if (o->what && option_is_of(o, c))
            add_option(g, t, o, fields);
    text_printf(t, " \\\n            '(- *)'{-h,--help}'[help]'");
    if (c == p->commands) /* a command, or the default's arguments */
        text_printf(t, " \\\n            '1: :_%s_first' '*: :%s' ;;\n", p->name,
                    shell_quoted(g, proposes(g, c->words, c->choice, fields), ""));
    else
        text_printf(t, " \\\n            '1: :(%s)' '*: :%s' ;;\n", c->name,
                    shell_quoted(g, proposes(g, c->words, c->choice, fields), ""));
}

static void add_first(Gen *g, Text *t, const CommandLine *p, const OptionList *fields)
{
    const char *words = proposes(g, p->commands->words, p->commands->choice, fields);

    text_printf(t,
                "_%s_first() {\n"
                "    local -a commands\n"
                "    commands=(\n",
                p->name);
    for (const Command *c = p->commands; c->name; c++)
        if (!c->implied)
            text_printf(t, "        '%s:%s'\n", c->name, shell_quoted(g, c->what, ":"));
    text_printf(t, "    )\n    _describe command commands\n");
    if (*words)
        text_printf(t, "    %s\n", words);
    text_printf(t, "}\n\n");
}

void complete_zsh(Gen *g, Text *t, const CommandLine *p, const OptionList *fields)
{
    text_printf(t,
                "#compdef %s\n"
                "# Written by `fsdpgen completion zsh%s`: DO NOT EDIT.\n\n",
                p->name, p->headings ? " --trainer" : "");
    add_first(g, t, p, fields);
    text_printf(t,
                "_%s() {\n"
                "    local word command=%s\n"
                "    for word in ${words[2,CURRENT-1]}; do\n"
                "        case $word in\n"
                "        %s) command=$word; break ;;\n"
                "        esac\n"
                "    done\n"
                "    case $command in\n",
                p->name, p->commands->name, shell_command_names(g, p, "|"));
    for (const Command *c = p->commands; c->name; c++)
        add_command(g, t, p, c, fields);
    text_printf(t,
                "    esac\n"
                "}\n\n"
                "_%s \"$@\"\n",
                p->name);
}
