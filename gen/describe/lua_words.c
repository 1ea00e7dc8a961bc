/* SPDX-License-Identifier: Apache-2.0 */
/* lua_words.c: messages of Lua's parser and machine in the words of descriptions. In: a
 * message without its place. Out: what is wrong, and what to write if that is known;
 * messages from elsewhere stay as they are. Many users know Python or JSON, so forms of
 * theirs are answered with Lua's. */
#include "describe/load.h"

#include <string.h>

/* ---- forms of other languages ---------------------------------------------------- */

static const struct {
    const char *word, *help;
} of_others[] = {
    {"None", "write nil, or leave the field out"},
    {"null", "write nil, or leave the field out"},
    {"True", "write true"},
    {"False", "write false"},
    {"torch", "dtypes are names: dtypes = { param = \"bf16\" }"},
    {"#", "a comment begins with --"},
    {"//", "a comment begins with --"},
    {"!", "write ~= for not equal, and `not` for not"},
    {"&", "write `and`"},
    {"|", "write `or`"},
    {":", "a field is NAME = VALUE: seq = 1024"},
    {"*", "a power is a product: 8 * 8, or 1 << 6"},
    {"[", "a list is { 1, 2, 3 }"},
    {"{",
     "a description is Lua: return trainer { name = ..., model = llama { ... }, ... }; "
     "`fsdpgen import` reads a config.json of Hugging Face's"},
    {"import", "a description is Lua: local llama = require \"arch.llama\""},
    {"from", "a description is Lua: local llama = require \"arch.llama\""},
    {"def", "a function is written function(x) return x end"},
    {"lambda", "a function is written function(x) return x end"},
    {"class",
     "a description is Lua: return trainer { name = ..., model = llama { ... } }"},
};

const char *lua_word_of_others(const char *word)
{
    for (size_t i = 0; i < sizeof of_others / sizeof *of_others; i++)
        if (!strcmp(of_others[i].word, word))
            return of_others[i].help;
    return NULL;
}

const char *lua_line_of_others(const char *word)
{
    static const char *const begins[] = {"#", "import", "from", "def", "class"};

    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (!strcmp(begins[i], word))
            return lua_word_of_others(word);
    return NULL;
}

/* ---- the machine ----------------------------------------------------------------- */

static const struct {
    const char *does, *as;
} uses[] = {
    {"call a ", "called as a function"},
    {"index a ", "used as a table of fields"},
    {"perform arithmetic on a ", "used as a number"},
    {"perform bitwise operation on a ", "used as a whole number"},
    {"concatenate a ", "joined to a text"},
    {"get length of a ", "used as a list"},
};

/* A Lua type of n bytes, as messages call its values. */
static const char *plain_type(Gen *g, const char *type, size_t n)
{
    if (n == 3 && !memcmp(type, "nil", 3))
        return "nil";
    if (n == 6 && !memcmp(type, "string", 6))
        return "a text";
    return gen_printf(g, "a %.*s", (int)n, type);
}

/* "attempt to DO a TYPE value (KIND 'NAME')". */
static const char *plain_use(Gen *g, const char *text)
{
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        const size_t n = strlen(uses[i].does);
        const char *end = strstr(text, " value"), *open, *quote, *type;

        if (strncmp(text, uses[i].does, n) != 0 || !end || end < text + n)
            continue;
        type = plain_type(g, text + n, (size_t)(end - text) - n);
        open = strstr(end, " (");
        quote = open ? strchr(open, '\'') : NULL;
        if (!quote)
            return gen_printf(g, "%s is %s", type, uses[i].as);
        return gen_printf(g, "%.*s`%.*s` is %s, but is %s", (int)(quote - open - 2),
                          open + 2, (int)strcspn(quote + 1, "'"), quote + 1, type,
                          uses[i].as);
    }
    return NULL;
}

/* "attempt to compare two TYPE values", "attempt to compare TYPE with TYPE". */
static const char *plain_compare(Gen *g, const char *text)
{
    if (strncmp(text, "compare ", 8) != 0)
        return NULL;
    text += 8;
    if (!strncmp(text, "two ", 4))
        return gen_printf(g, "%s are compared, which have no order", text);
    return gen_printf(g, "comparing %s: they have no order", text);
}

/* "add a 'number' with a 'string'": arithmetic on a text that is not a number. */
static const char *plain_arithmetic(Gen *g, const char *text, const char **help)
{
    const char *verb = strstr(text, " a '"), *with = strstr(text, "' with a '");

    if (!strncmp(text, "divide by zero", 14) || !strncmp(text, "perform 'n", 10)) {
        *help = *help ? *help : "the value after `//` or `%` is 0";
        return "a number is divided by zero";
    }
    if (!verb || !with)
        return NULL;
    *help = *help ? *help : "numbers have no quotes, and .. joins texts";
    return gen_printf(g, "%s and %s are given to `%.*s`, which takes numbers",
                      plain_type(g, verb + 4, strcspn(verb + 4, "'")),
                      plain_type(g, with + 10, strcspn(with + 10, "'")),
                      (int)(verb - text), text);
}

/* ---- the parser ------------------------------------------------------------------ */

/* What follows the last " near ": `seq`, or the end of the file. */
static const char *plain_token(Gen *g, const char *near, const char **word)
{
    size_t n = strlen(near);

    *word = NULL;
    if (!strcmp(near, "<eof>") || !strcmp(near, "'<eof>'"))
        return "the end of the file";
    if (n > 2 && near[0] == '\'' && near[n - 1] == '\'')
        *word = near = gen_strndup(g, near + 1, n - 2);
    return gen_printf(g, "`%s`", near);
}

/* "'}' expected (to close '{' at line 3)" */
static const char *plain_expected(Gen *g, const char *text, size_t n, const char *token,
                                  const char *word, const char **help)
{
    const char *open = strstr(text, " (to close '"), *at = strstr(text, " at line ");
    const char *what = gen_strndup(g, text, strcspn(text, " "));
    const char *opened =
        open && at && at < text + n
            ? gen_printf(g, "`%.*s` of line %.*s", (int)strcspn(open + 12, "'"),
                         open + 12, (int)strspn(at + 9, "0123456789"), at + 9)
            : NULL;

    if (!strcmp(what, "'}'") && word) {
        *help = *help ? *help
                      : gen_printf(g, "fields are separated by commas%s%s",
                                   opened ? ", and this one is still inside the " : "",
                                   opened ? opened : "");
        return gen_printf(g, "a comma or a closing `}` is missing before %s", token);
    }
    if (opened) {
        *help = *help ? *help : gen_printf(g, "add %s", what);
        return gen_printf(g, "the %s is never closed before %s", opened, token);
    }
    if (!strcmp(what, "<name>")) { /* after a `:`, which calls a method */
        *help = *help ? *help : lua_word_of_others(":");
        return gen_printf(g, "%s cannot follow `:`", token);
    }
    if (!strcmp(what, "<eof>")) {
        *help =
            *help ? *help : "a file ends with its `return`, a value with one expression";
        return gen_printf(g, "nothing can follow here, but %s does", token);
    }
    if (!*help && !strncmp(what, "'", 1))
        *help = gen_printf(g, "add %s", what);
    return gen_printf(g, "%s is missing before %s", what, token);
}

static const char *plain_syntax(Gen *g, const char *text, const char **help)
{
    const char *near = NULL, *token, *word;
    size_t n;

    for (const char *p = text; (p = strstr(p, " near ")); p++)
        near = p + 6;
    if (!near)
        return NULL;
    n = (size_t)(near - 6 - text);
    token = plain_token(g, near, &word);
    if (!strncmp(near, "'<\\", 3) || !strncmp(near, "<\\", 2)) { /* <\\226>: a byte */
        if (!*help)
            *help =
                "outside texts and comments, use ASCII characters: plain quotes (\"), "
                "and a file saved as UTF-8";
        return "Lua does not know this character";
    }
    if (word && !*help)
        *help = lua_word_of_others(strlen(word) > 1 && strchr("#!&|:[{*", *word)
                                       ? gen_strndup(g, word, 1)
                                       : word);
    if (!strncmp(text, "unexpected symbol", 17)) {
        if (!*help)
            *help =
                word ? "a value is a number, a text in quotes, true, false, { ... } or a "
                       "call"
                     : "a bracket, a quote or an `end` is missing";
        return word ? gen_printf(g, "%s cannot stand here", token)
                    : "the file ends where a value is expected";
    }
    if (!strncmp(text, "syntax error", 12))
        return gen_printf(g, "%s cannot stand here", token);
    if (!strncmp(text, "function arguments", 18)) { /* after NAME:NAME */
        *help = *help ? *help : lua_word_of_others(":");
        return gen_printf(g, "%s cannot stand here", token);
    }
    if (!strncmp(text, "unfinished string", 17)) {
        *help = "end it with the quote that it begins with, on the same line";
        return word ? gen_printf(g, "the text %s has no closing quote", token)
                    : "a text has no closing quote";
    }
    if (!strncmp(text, "unfinished long", 15)) {
        *help = "end it with ]]";
        return gen_printf(g, "%.*s has no end", (int)n - 11, text + 11);
    }
    if (!strncmp(text, "malformed number", 16)) {
        *help = *help ? *help
                      : "write its digits: 4096, or 4 * 1024; a text stands in quotes";
        return gen_printf(g, "%s is not a number", token);
    }
    if (!strncmp(text, "invalid escape sequence", 23)) {
        *help = "write \\\\ for a backslash";
        return gen_printf(g, "a backslash in a text begins no escape that Lua has: %s",
                          token);
    }
    return n > 9 && strstr(text, " expected") && strstr(text, " expected") < near
               ? plain_expected(g, text, n, token, word, help)
               : NULL;
}

const char *lua_plain(Gen *g, const char *text, const char **help)
{
    static const char undefined[] = "undefined global '", attempt[] = "attempt to ";
    const char *plain = NULL;

    if (!strncmp(text, undefined, sizeof undefined - 1)) {
        text += sizeof undefined - 1;
        return gen_printf(g, "`%.*s` is not defined", (int)strcspn(text, "'"), text);
    }
    if (!strncmp(text, attempt, sizeof attempt - 1)) {
        plain = plain_use(g, text + sizeof attempt - 1);
        plain = plain ? plain : plain_compare(g, text + sizeof attempt - 1);
        plain = plain ? plain : plain_arithmetic(g, text + sizeof attempt - 1, help);
    } else {
        plain = plain_syntax(g, text, help);
    }
    return plain ? plain : text;
}
