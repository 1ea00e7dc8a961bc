/* SPDX-License-Identifier: Apache-2.0 */
/* names.c: how names of a model become identifiers of C; nothing else decides this.
 *
 * In: names of blocks, classes, parameters and values that builder_block.c and builder.c
 * accepted: letters, digits, _ and, in blocks and parameters, dots; no keyword of C11.
 * Out: identifiers that C, headers and the surrounding emitted code do not use, distinct
 * for distinct names.
 *
 * Names of functions and structs end in fixed words (layer_forward), and names of macros
 * begin with them (SAVED_LAYERS_7). Fields and variables are the model's words alone; the
 * list below has the words they cannot be, and a test checks it against compilers and
 * headers. Macros with arguments are harmless: no name is followed by a parenthesis. */
#include "base/names.h"

#include <ctype.h>
#include <string.h>

bool ident_ok(const char *s)
{
    static const char *const keywords[] = {
        "auto",    "break",  "case",     "char",     "const",    "continue", "default",
        "do",      "double", "else",     "enum",     "extern",   "float",    "for",
        "goto",    "if",     "inline",   "int",      "long",     "register", "restrict",
        "return",  "short",  "signed",   "sizeof",   "static",   "struct",   "switch",
        "typedef", "union",  "unsigned", "void",     "volatile", "while",    "asm",
        "bool",    "true",   "false",    "main",     "and",      "or",       "not",
        "end",     "then",   "local",    "function", "nil",      "in",       "repeat",
        "until",   "elseif",
    };
    size_t n = strlen(s);

    if (n == 0 || n > IDENT_LETTERS || (*s >= '0' && *s <= '9'))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
              s[i] == '_' || (s[i] >= '0' && s[i] <= '9')))
            return false;
    if (s[0] == '_' && n > 1 && (s[1] == '_' || (s[1] >= 'A' && s[1] <= 'Z')))
        return false; /* C reserves those */
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (!strcmp(s, keywords[i]))
            return false;
    return true;
}

const char *name_ident(Gen *g, const char *name)
{
    char *s = gen_strdup(g, name);

    for (char *c = s; *c; c++)
        if (*c == '.')
            *c = '_';
    return isdigit((unsigned char)*s) ? gen_printf(g, "p%s", s) : s;
}

/* ---- words that are taken -------------------------------------------------------- */

static bool is_in(const char *s, const char *const *list)
{
    for (; *list; list++)
        if (!strcmp(s, *list))
            return true;
    return false;
}

static bool starts_with(const char *s, const char *prefix)
{
    return !strncmp(s, prefix, strlen(prefix));
}

/* Words in capitals are macros, now or in the future; words that begin with _ belong to
 * the compiler, with rt_ to the runtime, with math_ and trainer_ to the emitted files. */
static bool taken_by_us(const char *s)
{
    static const char *const prefixes[] = {"_", "rt_", "Rt", "math_", "trainer_"};
    size_t n = strlen(s);

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (starts_with(s, prefixes[i]))
            return true;
    return n > 2 && strcspn(s, "abcdefghijklmnopqrstuvwxyz") == n;
}

static bool taken_by_c(const char *s)
{
    static const char *const words[] = {
        /* C23, GNU C */
        "alignas", "alignof", "bool", "constexpr", "false", "nullptr", "static_assert",
        "thread_local", "true", "typeof", "typeof_unqual", "asm",
        /* macros of <iso646.h> */
        "and", "and_eq", "bitand", "bitor", "compl", "not", "not_eq", "or", "or_eq",
        "xor", "xor_eq",
        /* of other headers of C */
        "I", "assert", "complex", "errno", "imaginary", "math_errhandling", "noreturn",
        "stderr", "stdin", "stdout", "unreachable",
        /* predefined by compilers */
        "hppa", "i386", "linux", "m68k", "mc68000", "mips", "sparc", "sun", "unix", "vax",
        NULL};

    return taken_by_us(s) || is_in(s, words);
}

/* Functions of the runtime, step.c and bind.c beside forward, backward and evaluate. */
static bool taken_by_functions(const char *s)
{
    static const char *const words[] = {"math", "rt", "trainer", NULL};

    return taken_by_us(s) || is_in(s, words);
}

/* beta, and beta_NAME of tied parameters, are fields beside the gradients. */
static bool taken_by_params(const char *s)
{
    return taken_by_c(s) || !strcmp(s, "beta") || starts_with(s, "beta_");
}

/* Fields of every span, the types that spans name, and what their parts are counted by.
 */
static bool taken_by_spans(const char *s)
{
    static const char *const words[] = {"dw",      "int32_t", "loss", "loss_scale",
                                        "p",       "parts",   "rt",   "saved",
                                        "scratch", "w",       NULL};

    return taken_by_c(s) || is_in(s, words);
}

/* m_x is taken if x is: so a model's own m_x stays distinct from a renamed x. */
static const char *mangle(Gen *g, const char *ident, bool (*taken)(const char *s))
{
    for (const char *s = ident;; s += 2) {
        if (taken(s))
            return gen_printf(g, "m_%s", ident);
        if (!starts_with(s, "m_"))
            return ident;
    }
}

const char *name_functions(Gen *g, const char *ident)
{
    return mangle(g, ident, taken_by_functions);
}

const char *name_param(Gen *g, const char *ident)
{
    return mangle(g, ident, taken_by_params);
}

const char *name_saved(Gen *g, const char *ident)
{
    return mangle(g, ident, taken_by_c);
}

const char *name_local(Gen *g, const char *ident)
{
    return mangle(g, ident, taken_by_spans);
}
