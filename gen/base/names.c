/* SPDX-License-Identifier: Apache-2.0 */
/* names.c: how names of a model become identifiers of C; nothing else decides that.
 *
 * In: names of blocks, classes, parameters and values, which builder_block.c and
 * builder.c let pass: letters, digits, _ and, of blocks and parameters, dots; no keyword
 * of C11. Out: identifiers that neither C, nor a header, nor the emitted code around them
 * has, and that stay apart where the names were apart.
 *
 * Names of functions and structs end in words of ours (layer_forward), those of macros
 * begin with them (SAVED_LAYERS_7). Fields and variables are the model's words alone: the
 * list below has those that cannot be, which a test checks against compilers and
 * headers. A macro with arguments is no danger: no name is followed by a parenthesis. */
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

    if (n == 0 || n > 63 || (*s >= '0' && *s <= '9'))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
              s[i] == '_' || (s[i] >= '0' && s[i] <= '9')))
            return false;
    if (s[0] == '_' && n > 1 && (s[1] == '_' || (s[1] >= 'A' && s[1] <= 'Z')))
        return false; /* C keeps those */
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

/* Words in capitals are macros, whoever defines them today; what begins with _ is the
 * compiler's, with rt_ the runtime's, with math_ and trainer_ the emitted files'. */
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
        /* of compilers, without being asked for */
        "hppa", "i386", "linux", "m68k", "mc68000", "mips", "sparc", "sun", "unix", "vax",
        NULL};

    return taken_by_us(s) || is_in(s, words);
}

/* Functions of the runtime, step.c and bind.c beside forward, backward, evaluate. */
static bool taken_by_functions(const char *s)
{
    static const char *const words[] = {"math", "rt", "trainer", NULL};

    return taken_by_us(s) || is_in(s, words);
}

/* beta, and beta_NAME of what is tied, are fields beside the gradients. */
static bool taken_by_params(const char *s)
{
    return taken_by_c(s) || !strcmp(s, "beta") || starts_with(s, "beta_");
}

/* What every span has, and the types that it names. */
static bool taken_by_spans(const char *s)
{
    static const char *const words[] = {"dw",    "int32_t", "loss", "loss_scale", "rt",
                                        "saved", "scratch", "w",    NULL};

    return taken_by_c(s) || is_in(s, words);
}

/* So that m_x of a model and m_ before its x stay apart, m_x is taken where x is. */
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
