/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: reads a command line by the table of commands and options. In: argv, the
 * table (options.h). Out: the command, its arguments and the fields that its options
 * fill; or a message with the nearest name. */
#include "base/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_NAMES = 64 };

OptionsFound options_wrong(OptionReader *r, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    r->error = gen_vprintf(r->g, fmt, ap);
    va_end(ap);
    return OPTIONS_WRONG;
}

int options_complain(const OptionReader *r)
{
    const char *name = r->named ? r->command->name : "";

    print_line(stderr, "fsdpgen: ", "%s%s%s", name, r->named ? ": " : "", r->error);
    fprintf(stderr, "  help: fsdpgen %s%s--help\n", name, r->named ? " " : "");
    return EXIT_USAGE;
}

/* ---- numbers --------------------------------------------------------------------- */

/* Reads a decimal number without a sign; sets *end to what follows it. False if s does
 * not begin with one. */
static bool decimal(const char *s, double *value, const char **end)
{
    const size_t n = strspn(s, "0123456789.");
    char *stop;

    if (n == 0 || n > 40 || s[n] == 'x' || s[n] == 'X')
        return false;
    *value = strtod(s, &stop);
    *end = stop;
    return stop >= s + n; /* 1e9 goes further */
}

bool options_amount(const char *s, int64_t most, int64_t *n)
{
    static const struct {
        const char *letters;
        double times;
    } units[] = {{"", 1}, {"Kk", 1e3}, {"Mm", 1e6}, {"GgBb", 1e9}, {"Tt", 1e12}};
    const char *unit;
    double value;

    if (!decimal(s, &value, &unit))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (*unit ? !strchr(units[i].letters, *unit) || !i || unit[1] : i)
            continue;
        value *= units[i].times;
        if (!(value >= 1 && value <= (double)most))
            return false;
        *n = (int64_t)(value + 0.5);
        return true;
    }
    return false;
}

bool options_dollars(const char *s, double *usd)
{
    const char *end;

    return decimal(s, usd, &end) && !*end && *usd <= 1e6;
}

/* ---- the command ----------------------------------------------------------------- */

/* The command's option of that name; or NULL. */
static const Option *named_option(const Command *c, const char *name, size_t bytes)
{
    for (const Option *o = c->options; o->name; o++)
        if (option_is_of(o, c) && strlen(o->name) == bytes &&
            !memcmp(o->name, name, bytes))
            return o;
    return NULL;
}

static const Option *lettered_option(const Command *c, char letter)
{
    for (const Option *o = c->options; o->name; o++)
        if (o->letter && o->letter == letter && option_is_of(o, c))
            return o;
    return NULL;
}

/* Before the command is known: is the next argument the value of this one? */
static bool takes_next(const OptionReader *r, const char *arg)
{
    const bool letter = arg[1] != '-';

    if (letter && arg[1] && arg[2])
        return false;
    for (const Command *c = r->commands; c->name; c++) {
        const Option *o = letter ? lettered_option(c, arg[1])
                                 : named_option(c, arg + 2, strlen(arg + 2));

        if (o)
            return o->value;
    }
    return false;
}

static OptionsFound unknown_command(OptionReader *r, const char *word, const char *near)
{
    static const struct {
        const char *words, *way;
    } known[] = {
        {" train run build make compile ",
         "fsdpgen MODEL.lua -o DIR writes a trainer, `make -C DIR` builds it, and "
         "DIR/trainer --data FILE trains"},
        {" sample chat infer predict ",
         "a trainer samples: DIR/trainer sample --checkpoint CK --prompt TEXT"},
        {" eval evaluate validate test ",
         "a trainer evaluates: DIR/trainer eval --checkpoint CK --data FILE"},
        {" resume continue extend ",
         "a trainer resumes: DIR/trainer --data FILE --checkpoint CK --resume"},
        {" finetune fine-tune sft ", "`fsdpgen import FOLDER >MODEL.lua` describes a "
                                     "Hugging Face model, and its trainer "
                                     "takes the weights: --init FOLDER"},
        {" export convert save push ",
         "every checkpoint, CK/step-..., is a Hugging Face folder as it is"},
    };
    const char *padded = gen_printf(r->g, " %s ", word);

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(known[i].words, padded))
            return options_wrong(r, "unknown command %s: %s", word, known[i].way);
    if (!strcmp(word, "help") || !strcmp(word, "version"))
        return options_wrong(r, "unknown command %s; did you mean --%s?", word, word);
    return options_wrong(
        r, "unknown command %s%s%s; without a command a description is generated", word,
        near ? "; did you mean " : "", near ? near : "");
}

static const char *near_command(const OptionReader *r, const char *word)
{
    const char *names[MOST_NAMES];
    int n = 0;

    for (const Command *c = r->commands; c->name; c++)
        names[n++] = c->name;
    return diag_nearest(word, names, n);
}

static bool is_lua(const char *path)
{
    const size_t n = strlen(path);

    return n > 4 && !strcmp(path + n - 4, ".lua");
}

OptionsFound options_open(OptionReader *r)
{
    const char *word = NULL, *near;

    r->command = r->commands;
    for (int i = 1; i < r->argc && !word && strcmp(r->argv[i], "--"); i++)
        if (!diag_is_option(r->argv[i]))
            word = r->argv[i];
        else if (takes_next(r, r->argv[i]))
            i++;
    for (const Command *c = r->commands; word && c->name; c++)
        if (!strcmp(word, c->name)) {
            r->command = c;
            r->named = true;
            return OPTIONS_GO;
        }
    if (!word || is_lua(word) || !access(word, F_OK) ||
        !access(gen_printf(r->g, "%s.lua", word), F_OK))
        return OPTIONS_GO;
    near = near_command(r, word);
    return near || !strpbrk(word, "./") ? unknown_command(r, word, near) : OPTIONS_GO;
}

/* ---- one option ------------------------------------------------------------------ */

/* --NAME is not an option of the command: does another command have it, or a similar
 * one? */
static OptionsFound unknown_option(OptionReader *r, const char *name, size_t bytes)
{
    const char *names[MOST_NAMES], *text = "";
    char error[160];
    int n = 0;

    for (const Command *c = r->commands; c->name; c++) {
        const Option *o = named_option(c, name, bytes);

        if (o && o->what)
            text = gen_printf(r->g, "%s%s%s", text, *text ? ", " : "", c->name);
    }
    if (*text)
        return options_wrong(r, "--%.*s is not an option of `%s`, but of: %s", (int)bytes,
                             name, r->command->name, text);
    for (const Option *o = r->command->options; o->name; o++)
        if (o->what && option_is_of(o, r->command))
            names[n++] = o->name;
    names[n++] = "help";
    names[n++] = "version";
    diag_option(name, bytes, names, n, error, sizeof error);
    return options_wrong(
        r, "%s%s", error,
        strstr(error, "did you mean") || !named_option(r->command, "set", 3) ? ""
        : bytes == 7 && !memcmp(name, "dry-run", 7)
            ? "; fsdpgen plan MODEL.lua prints what a folder would hold, and writes "
              "nothing"
            : "; a field of the description is set by --set FIELD=VALUE");
}

/* A word after a single `-` that is not the letter of an option: the user meant two
 * dashes. */
static OptionsFound single_dash(OptionReader *r, const char *arg)
{
    const size_t bytes = strcspn(arg + 1, "=");
    const Option *o = named_option(r->command, arg + 1, bytes);

    for (const Option *p = r->command->options; !o && bytes == 1 && p->name; p++)
        if (p->what && option_is_of(p, r->command) && p->name[0] == arg[1])
            o = p;
    if (o)
        return options_wrong(r, "unknown option %s; did you mean --%s?", arg, o->name);
    return options_wrong(r, "unknown option %s%s", arg,
                         arg[1] == 'v' ? "; did you mean --version?" : "");
}

/* `--set seq 128` */
static OptionsFound check_field(OptionReader *r, const Option *o, int i,
                                const char *value)
{
    const char *next = i + 1 < r->argc ? r->argv[i + 1] : NULL;

    if (o->kind != VALUE_FIELD || strchr(value, '=') || !next || diag_is_option(next) ||
        is_lua(next))
        return OPTIONS_GO;
    return options_wrong(r, "--%s %s: there is no `=`; did you mean --%s %s=%s?", o->name,
                         value, o->name, value, next);
}

static OptionsFound check_choice(OptionReader *r, const char *place, ChoiceFn *choice,
                                 const char *value)
{
    const char *names[MOST_NAMES], *near, *all = "";
    int n = 0;

    for (; n < MOST_NAMES && (names[n] = choice(n)); n++) {
        if (!strcmp(names[n], value))
            return OPTIONS_GO;
        all = gen_printf(r->g, "%s%s%s", all, n ? ", " : "", names[n]);
    }
    near = diag_nearest(value, names, n);
    return near ? options_wrong(r, "%sthere is no \"%s\"; did you mean %s?", place, value,
                                near)
                : options_wrong(r, "%sthere is no \"%s\"; there are: %s", place, value,
                                all);
}

static OptionsFound store(OptionReader *r, const Option *o, void *into, const char *value)
{
    void *field = (char *)into + o->at;
    char *end;
    long long n;

    if (o->value && !*value)
        return options_wrong(r, "--%s needs a value: --%s %s", o->name, o->name,
                             o->value);
    if (o->kind == VALUE_CHOICE && check_choice(r, gen_printf(r->g, "--%s: ", o->name),
                                                o->choice, value) != OPTIONS_GO)
        return OPTIONS_WRONG;
    switch (o->store) {
    case STORE_SWITCH:
        *(bool *)field = true;
        break;
    case STORE_TEXT:
        *(const char **)field = value;
        break;
    case STORE_LIST:
        *gen_push(r->g, (OptionList *)field) = value;
        break;
    case STORE_COUNT:
        errno = 0;
        n = strtoll(value, &end, 10);
        if (errno || end == value || *end || n < 1 || n > o->most)
            return options_wrong(r, "--%s: `%s` is not between 1 and %lld", o->name,
                                 value, (long long)o->most);
        *(int64_t *)field = n;
        break;
    case STORE_AMOUNT:
        if (!options_amount(value, o->most, field))
            return options_wrong(r,
                                 "--%s: `%s` is not between 1 and %.15g, as in 15T, "
                                 "1.5B, 250M or 1000000",
                                 o->name, value, (double)o->most);
        break;
    case STORE_DOLLARS:
        if (!options_dollars(value, &((Dollars *)field)->usd))
            return options_wrong(r,
                                 "--%s: `%s` is not between 0 and 1000000 dollars, as "
                                 "in 2.50",
                                 o->name, value);
        ((Dollars *)field)->given = true;
        break;
    }
    return OPTIONS_GO;
}

/* The value of an option: after its =, or the next argument. */
static OptionsFound take_value(OptionReader *r, const Option *o, int *i,
                               const char **value)
{
    if (!o->value && *value)
        return options_wrong(r, "--%s takes no value", o->name);
    if (!o->value || *value)
        return OPTIONS_GO;
    if (++*i == r->argc)
        return options_wrong(r, "--%s needs a value: --%s %s", o->name, o->name,
                             o->value);
    *value = r->argv[*i];
    if (diag_is_option(*value))
        return options_wrong(
            r, "--%s needs a value, %s, but %s is an option; if it is meant: --%s=%s",
            o->name, o->value, *value, o->name, *value);
    return OPTIONS_GO;
}

/* argv[*i] begins with `-`; afterwards *i is the last argument used. */
static OptionsFound read_option(OptionReader *r, int *i, void *into)
{
    const char *arg = r->argv[*i], *equals = strchr(arg, '='), *value = NULL;
    const size_t bytes = equals ? (size_t)(equals - arg - 2) : strlen(arg + 1) - 1;
    const Option *o = NULL;

    if (!strcmp(arg, "--help") || !strcmp(arg, "-h"))
        return OPTIONS_HELP;
    if (!strcmp(arg, "--version"))
        return OPTIONS_VERSION;
    if (arg[1] == '-') {
        o = named_option(r->command, arg + 2, bytes);
        if (!o)
            return unknown_option(r, arg + 2, bytes);
        value = equals ? equals + 1 : NULL;
    } else {
        o = lettered_option(r->command, arg[1]);
        for (const Command *c = r->commands; !o && c->name; c++)
            if (lettered_option(c, arg[1])) {
                const char *name = lettered_option(c, arg[1])->name;

                return unknown_option(r, name, strlen(name));
            }
        if (!o || (arg[2] && named_option(r->command, arg + 1, strcspn(arg + 1, "="))))
            return single_dash(r, arg);
        if (arg[2] == '=')
            return options_wrong(r, "-%c takes its value without a `=`: -%c %s", arg[1],
                                 arg[1], arg + 3);
        value = arg[2] ? arg + 2 : NULL;
    }
    if (take_value(r, o, i, &value) != OPTIONS_GO ||
        check_field(r, o, *i, value) != OPTIONS_GO)
        return OPTIONS_WRONG;
    return store(r, o, into, value);
}

/* ---- all of them ----------------------------------------------------------------- */

static OptionsFound check_words(OptionReader *r, const OptionList *words)
{
    const Command *c = r->command;
    const char *what = c->usage[0], *first = words->count ? words->items[0] : NULL;

    if (!r->named && words->count > 1 && !is_lua(first))
        return unknown_command(r, first, near_command(r, first));
    if (words->count < c->least)
        return options_wrong(r, "%s; write: fsdpgen %s %s", c->lack, c->name, what);
    if (c->most >= 0 && words->count > c->most)
        return options_wrong(r, "`%s` is one word too many; write: fsdpgen %s %s",
                             words->items[c->most], c->name, what);
    return c->words == VALUE_CHOICE && words->count
               ? check_choice(r, "", c->choice, first)
               : OPTIONS_GO;
}

OptionsFound options_read(OptionReader *r, void *into, OptionList *words)
{
    bool named = false, words_only = false;
    OptionsFound found = OPTIONS_GO;

    for (int i = 1; i < r->argc && found == OPTIONS_GO; i++) {
        char *arg = r->argv[i];

        if (!words_only && !strcmp(arg, "--"))
            words_only = true;
        else if (!words_only && diag_is_option(arg))
            found = read_option(r, &i, into);
        else if (r->named && !named)
            named = true;
        else
            *gen_push(r->g, words) = arg;
    }
    return found == OPTIONS_GO ? check_words(r, words) : found;
}
