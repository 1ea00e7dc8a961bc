/* SPDX-License-Identifier: Apache-2.0 */
/* complete_bash.c: completion of a command line in bash. In: a command line, the fields
 * of descriptions. Out: a script that needs only bash 4. */
#include "shell/shell.h"

#include <string.h>

static void add_helpers(Text *t, const char *name)
{
    text_printf(
        t,
        "_%s_words() { # the words of $1 that begin as the current one does\n"
        "    mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$current\")\n"
        "}\n\n"
        "_%s_fields() { # each with a = behind it\n"
        "    compopt -o nospace 2>/dev/null\n"
        "    mapfile -t COMPREPLY < <(compgen -S = -W \"$1\" -- \"$current\")\n"
        "}\n\n"
        "_%s_paths() { # file, dir, or a pattern of files; more words\n"
        "    compopt -o filenames 2>/dev/null\n"
        "    case $1 in\n"
        "    file) mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n"
        "    dir) mapfile -t COMPREPLY < <(compgen -d -- \"$current\") ;;\n"
        "    *) mapfile -t COMPREPLY < <(\n"
        "        compgen -f -X \"!$1\" -- \"$current\"\n"
        "        compgen -d -- \"$current\") ;;\n"
        "    esac\n"
        "    [ -z \"$2\" ] ||\n"
        "        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W \"$2\" -- "
        "\"$current\")\n"
        "}\n\n",
        name, name, name);
}

/* The call that proposes values of this kind. */
static const char *proposes(Gen *g, const char *name, OptionValue kind, ChoiceFn *choice,
                            const OptionList *fields)
{
    const char *words = shell_choices(g, choice, " ");

    switch (kind) {
    case VALUE_NONE:
    case VALUE_NUMBER:
        break;
    case VALUE_TEXT:
    case VALUE_CHOICE:
    case VALUE_WORD:
        return *words ? gen_printf(g, "_%s_words '%s'", name, words) : ":";
    case VALUE_FILE:
        return gen_printf(g, "_%s_paths file '%s'", name, words);
    case VALUE_DIR:
        return gen_printf(g, "_%s_paths dir '%s'", name, words);
    case VALUE_LUA:
        return gen_printf(g, "_%s_paths '*.lua' '%s'", name, words);
    case VALUE_FIELD:
        words = "";
        for (int i = 0; i < fields->count; i++)
            words = gen_printf(g, "%s%s%s", words, i ? " " : "", fields->items[i]);
        return gen_printf(g, "_%s_fields '%s'", name, words);
    }
    return ":";
}

/* "plan:--set|check:--set" */
static const char *pattern_of(Gen *g, const CommandLine *p, const Option *o,
                              const char *spelling)
{
    return gen_printf(g, "%s:%s",
                      shell_option_commands(g, p, o, "", gen_printf(g, ":%s|", spelling)),
                      spelling);
}

/* Values of options: one case per row. */
static void add_values(Gen *g, Text *t, const CommandLine *p, const OptionList *fields)
{
    text_printf(t, "    case $command:$option in\n");
    for (const Option *o = shell_next_option(p, NULL); o; o = shell_next_option(p, o)) {
        if (!o->value || !o->what || !*shell_option_commands(g, p, o, "", ""))
            continue;
        text_printf(t, "    %s", pattern_of(g, p, o, gen_printf(g, "--%s", o->name)));
        if (o->letter)
            text_printf(t, "|%s", pattern_of(g, p, o, gen_printf(g, "-%c", o->letter)));
        text_printf(t, ")\n        %s\n        return ;;\n",
                    proposes(g, p->name, o->kind, o->choice, fields));
    }
    text_printf(t, "    esac\n");
}

/* Completions of a command: its options, or what its arguments are. */
static void add_words(Gen *g, Text *t, const CommandLine *p, const OptionList *fields)
{
    text_printf(t, "    case $command:$current in\n");
    for (const Command *c = p->commands; c->name; c++) {
        text_printf(t, "    %s:-*) _%s_words '", c->name, p->name);
        for (const Option *o = c->options; o->name; o++)
            if (o->what && option_is_of(o, c))
                text_printf(t, "--%s%s ", o->name,
                            o->kind == VALUE_WORD
                                ? gen_printf(g, " --%s=%s", o->name, o->choice(0))
                                : "");
        text_printf(t, "--help' ;;\n    %s:*) %s ;;\n", c->name,
                    proposes(g, p->name, c->words, c->choice, fields));
    }
    text_printf(t, "    esac\n");
}

/* Finds the command: the first word that is neither an option nor an option's value. */
static void add_command(Gen *g, Text *t, const CommandLine *p)
{
    const char *names = shell_command_names(g, p, "|"), *valued = "";

    for (const Option *o = shell_next_option(p, NULL); o; o = shell_next_option(p, o))
        if (o->value && o->kind != VALUE_WORD) {
            if (o->letter)
                valued = gen_printf(g, "%s%s-%c", valued, *valued ? "|" : "", o->letter);
            valued = gen_printf(g, "%s%s--%s", valued, *valued ? "|" : "", o->name);
        }
    text_printf(t,
                "    # --name=value comes as three words\n"
                "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                "        case ${COMP_WORDS[i]} in\n"
                "        %s) command=${COMP_WORDS[i]} named=1; break ;;\n"
                "        %s)\n"
                "            [[ ${COMP_WORDS[i + 1]} != = ]] || ((i++))\n"
                "            ((i++)) ;;\n"
                "        -*) ;;\n"
                "        *) named=1; break ;;\n"
                "        esac\n"
                "    done\n",
                names, valued);
}

void complete_bash(Gen *g, Text *t, const CommandLine *p, const OptionList *fields)
{
    const char *first = p->commands->name;

    text_printf(t,
                "# Completion of %s for bash. Written by `fsdpgen completion bash%s`: DO "
                "NOT EDIT.\n\n",
                p->name, p->headings ? " --trainer" : "");
    add_helpers(t, p->name);
    text_printf(t,
                "_%s() {\n"
                "    local current=${COMP_WORDS[COMP_CWORD]} command='%s' named= option= "
                "value= i\n"
                "    COMPREPLY=()\n",
                p->name, first);
    add_command(g, t, p);
    text_printf(t, "    option=${COMP_WORDS[COMP_CWORD - 1]}\n"
                   "    if [[ $current == = ]]; then\n"
                   "        current= value=1\n"
                   "    elif [[ $option == = ]]; then\n"
                   "        option=${COMP_WORDS[COMP_CWORD - 2]} value=1\n"
                   "    fi\n"
                   "    [[ -z $value || $option == -* ]] || return\n");
    add_values(g, t, p, fields);
    add_words(g, t, p, fields);
    text_printf(t,
                "    [[ -n $named || $current == -* ]] ||\n"
                "        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(\n"
                "            compgen -W '%s' -- \"$current\")\n"
                "}\n\n"
                "complete -F _%s %s\n",
                shell_command_names(g, p, " "), p->name, p->name);
}
