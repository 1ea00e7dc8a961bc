/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_split.c: the patterns by which a tokenizer cuts a text into pieces. In: a
 * pattern of tokenizer.json, in Oniguruma's language; a text. Out: its matches, by PCRE2.
 *
 * The two languages differ in details, and a difference would silently give wrong ids. So
 * a pattern is parsed here first, and accepted only if all its parts mean the same in
 * both: characters, classes, general categories, groups, look-ahead, greedy repetition,
 * alternatives. White space is written out as Unicode's White_Space, because PCRE2's \s
 * also has U+180E. PCRE2's version of Unicode decides what is a letter or a number. */
#include "tokenize/tokenize.h"

#include <stdlib.h>
#include <string.h>
#ifdef FSDPGEN_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

const char tok_gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

#ifdef FSDPGEN_PCRE2

/* Inside a class. */
static const char white_space[] =
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";

struct TokRegex {
    pcre2_code *code;
};

struct TokMatch {
    pcre2_match_data *data;
    pcre2_match_context *context;
};

/* ---- reading a pattern ----------------------------------------------------------- */

typedef struct Reader {
    const char *s;
    size_t n, at;
    TokText out;
    char *error;
} Reader;

static bool refuse(Reader *r, size_t from, size_t n, const char *why)
{
    snprintf(r->error, TOK_ERROR_BYTES, "the pattern's part `%.*s` %s",
             (int)(n < r->n - from ? n : r->n - from), r->s + from, why);
    return false;
}

static void put(Reader *r, const char *s)
{
    tok_append(&r->out, s, strlen(s));
}

static bool begins(const Reader *r, const char *with)
{
    const size_t n = strlen(with);

    return r->n - r->at >= n && !memcmp(r->s + r->at, with, n);
}

/* \p{..}: a general category, which both languages name alike. */
static bool read_property(Reader *r)
{
    static const char *const names[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn",
                                        "Mc", "Me", "N",  "Nd", "Nl", "No", "P", "Pc",
                                        "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm",
                                        "Sc", "Sk", "So", "Z",  "Zs"};
    const size_t from = r->at;

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char whole[8];

        snprintf(whole, sizeof whole, "\\%c{%s}", r->s[from + 1], names[k]);
        if (begins(r, whole)) {
            put(r, whole);
            r->at += strlen(whole);
            return true;
        }
    }
    return refuse(r, from, 6, "is not a general category (L, N, Lu, ...)");
}

static bool read_escape(Reader *r, bool in_class)
{
    const char c = r->at + 1 < r->n ? r->s[r->at + 1] : '\0';

    if (c == 'p' || c == 'P')
        return read_property(r);
    if (c == 's' || (c == 'S' && !in_class)) {
        put(r, in_class ? "" : c == 's' ? "[" : "[^");
        put(r, white_space);
        put(r, in_class ? "" : "]");
    } else if (c &&
               (strchr("rnt", c) || (c > ' ' && c < 127 &&
                                     strchr("\\/'\"-.,;:!?|()[]{}*+^$#&~@%<>=_`", c)))) {
        tok_append(&r->out, r->s + r->at, 2);
    } else {
        return refuse(r, r->at, 2, "may mean something else here");
    }
    r->at += 2;
    return true;
}

static bool read_class(Reader *r)
{
    const size_t from = r->at++;

    put(r, "[");
    if (begins(r, "^")) {
        put(r, "^");
        r->at++;
    }
    for (bool first = true; r->at < r->n; first = false) {
        const char c = r->s[r->at];

        if (c == ']' && !first) {
            put(r, "]");
            r->at++;
            return true;
        }
        if (c == '[' || c == ']' || begins(r, "&&"))
            return refuse(r, from, 16, "is a class within a class");
        if (c == '\\') {
            if (!read_escape(r, true))
                return false;
        } else {
            tok_append(&r->out, &c, 1);
            r->at++;
        }
    }
    return refuse(r, from, 16, "is not closed");
}

/* {n}, {n,}, {n,m}, and what follows. */
static bool read_repeat(Reader *r)
{
    const size_t from = r->at;
    size_t n = 1 + strspn(r->s + from + 1, "0123456789,");

    if (n == 1 || r->s[from + 1] == ',' || n >= r->n - from || r->s[from + n] != '}' ||
        n > 9)
        return refuse(r, from, n + 1, "is not a repetition");
    tok_append(&r->out, r->s + from, n + 1);
    r->at += n + 1;
    if (begins(r, "+") || begins(r, "?") || begins(r, "*"))
        return refuse(r, from, n + 2, "means something else here");
    return true;
}

static bool read_group(Reader *r)
{
    static const char *const known[] = {"(?i:", "(?:", "(?!", "(?="};

    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (begins(r, known[k])) {
            put(r, known[k]);
            r->at += strlen(known[k]);
            return true;
        }
    if (begins(r, "(?") || begins(r, "(*"))
        return refuse(r, r->at, 4, "is not a group that is known here");
    put(r, "(?:"); /* groups need not capture */
    r->at++;
    return true;
}

static bool read_pattern(Reader *r)
{
    bool good = true;

    while (good && r->at < r->n) {
        const char c = r->s[r->at];

        if (c == '\\') {
            good = read_escape(r, false);
        } else if (c == '[') {
            good = read_class(r);
        } else if (c == '{') {
            good = read_repeat(r);
        } else if (c == '(') {
            good = read_group(r);
        } else if (strchr(".^$}]", c)) {
            good = refuse(r, r->at, 1, "may mean something else here");
        } else {
            if (strchr("#", c)) /* so it never starts a comment */
                put(r, "\\");
            tok_append(&r->out, &c, 1);
            r->at++;
        }
    }
    return good;
}

TokRegex *tok_regex_open(const char *pattern, size_t n, bool literal, char *error)
{
    Reader r = {.s = pattern, .n = n, .error = error};
    TokRegex *x = NULL;
    int code;
    PCRE2_SIZE at;

    if (n > 65536 || memchr(pattern, 0, n)) {
        snprintf(error, TOK_ERROR_BYTES, "the pattern is too long, or has a NUL");
        return NULL;
    }
    if (literal)
        tok_append(&r.out, pattern, n);
    if (literal || read_pattern(&r)) {
        pcre2_code *p =
            pcre2_compile((PCRE2_SPTR)(r.out.s ? r.out.s : ""), r.out.n,
                          literal ? PCRE2_UTF | PCRE2_LITERAL : PCRE2_UTF | PCRE2_UCP,
                          &code, &at, NULL);

        uint32_t empty = 0;

        if (p && pcre2_pattern_info(p, PCRE2_INFO_MATCHEMPTY, &empty) == 0 && empty) {
            snprintf(error, TOK_ERROR_BYTES,
                     "the pattern can match nothing, and where it does is a cut: not "
                     "supported");
            pcre2_code_free(p);
        } else if (p) {
            /* Without it matching is slower. */
            pcre2_jit_compile(p, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
            x = gen_calloc(1, sizeof *x);
            x->code = p;
        } else {
            PCRE2_UCHAR text[200];

            pcre2_get_error_message(code, text, sizeof text);
            snprintf(error, TOK_ERROR_BYTES, "the pattern: %s", (const char *)text);
        }
    }
    free(r.out.s);
    return x;
}

/* ---- matching -------------------------------------------------------------------- */

TokMatch *tok_match_open(void)
{
    TokMatch *m = gen_calloc(1, sizeof *m);
    pcre2_jit_stack *stack = pcre2_jit_stack_create(32 << 10, 8 << 20, NULL);

    m->data = pcre2_match_data_create(1, NULL);
    m->context = pcre2_match_context_create(NULL);
    if (!m->data || !m->context || !stack)
        gen_out_of_memory(32 << 10);
    pcre2_jit_stack_assign(m->context, NULL, stack); /* lives as long as the program */
    pcre2_set_heap_limit(m->context, 256 << 10);     /* KiB */
    return m;
}

void tok_match_close(TokMatch *m)
{
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    free(m);
}

TokFound tok_regex_next(const TokRegex *r, TokMatch *m, const char *s, size_t n,
                        size_t from, bool last, size_t *begin, size_t *end, char *error)
{
    const uint32_t how = PCRE2_NO_UTF_CHECK | (last ? 0 : PCRE2_PARTIAL_HARD);
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(m->data);
    PCRE2_UCHAR text[200];
    int rc;

    *begin = *end = n;
    if (from >= n)
        return last ? TOK_NONE : TOK_MORE;
    rc = pcre2_match(r->code, (PCRE2_SPTR)s, n, from, how, m->data, m->context);
    if (rc == PCRE2_ERROR_NOMATCH)
        return last ? TOK_NONE : TOK_MORE;
    if (rc == PCRE2_ERROR_PARTIAL)
        return TOK_MORE;
    if (rc < 0) {
        pcre2_get_error_message(rc, text, sizeof text);
        snprintf(error, TOK_ERROR_BYTES, "the pattern cannot be matched at byte %zu: %s",
                 from, (const char *)text);
        return TOK_FAILED;
    }
    *begin = found[0];
    *end = found[1];
    if (*end > *begin && *begin >= from)
        return TOK_FOUND;
    snprintf(error, TOK_ERROR_BYTES, "the pattern matches nothing at byte %zu", from);
    return TOK_FAILED;
}

#else

TokRegex *tok_regex_open(const char *pattern, size_t n, bool literal, char *error)
{
    (void)pattern, (void)n, (void)literal;
    snprintf(error, TOK_ERROR_BYTES,
             "this fsdpgen was built without PCRE2 (libpcre2-dev), which patterns need");
    return NULL;
}

TokMatch *tok_match_open(void)
{
    return NULL;
}

void tok_match_close(TokMatch *m)
{
    (void)m;
}

TokFound tok_regex_next(const TokRegex *r, TokMatch *m, const char *s, size_t n,
                        size_t from, bool last, size_t *begin, size_t *end, char *error)
{
    (void)r, (void)m, (void)s, (void)from, (void)last, (void)error;
    *begin = *end = n;
    return TOK_NONE;
}

#endif
