/* SPDX-License-Identifier: Apache-2.0 */
/* mutate.c: the texts that the fuzzers feed. In: a random state. Out: good descriptions
 * with something changed, legal values in strange company, numbers and strings that break
 * naive programs. What is listed here is what once broke something, here or elsewhere. */
#include "mutate.h"
#include "words.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) ((uint32_t)(sizeof(a) / sizeof *(a)))

/* SplitMix64: neighbouring seeds have nothing in common. */
static uint64_t next(Random *r)
{
    uint64_t z = r->state += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

void random_start(Random *r, uint64_t seed, uint64_t i)
{
    r->state = seed;
    r->state = next(r) ^ i;
    next(r);
}

uint32_t random_below(Random *r, uint32_t n)
{
    return (uint32_t)((next(r) >> 32) * n >> 32);
}

void str_add(Str *s, const char *bytes, size_t n)
{
    if (s->n + n + 1 > s->cap) {
        s->cap = (s->n + n + 1) * 2;
        s->s = realloc(s->s, s->cap);
        if (!s->s)
            abort();
    }
    if (n)
        memcpy(s->s + s->n, bytes, n);
    s->n += n;
    s->s[s->n] = '\0';
}

void str_printf(Str *s, const char *fmt, ...)
{
    char text[4096];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0 || n >= (int)sizeof text)
        abort();
    str_add(s, text, (size_t)n);
}

/* ---- values ---------------------------------------------------------------------- */

const char *hostile_number(Random *r)
{
    return numbers[random_below(r, COUNT(numbers))];
}

const char *hostile_string(Random *r)
{
    return strings[random_below(r, COUNT(strings))];
}

const char *hostile_value(Random *r)
{
    switch (random_below(r, 4)) {
    case 0:
        return hostile_number(r);
    case 1:
        return hostile_string(r);
    default:
        return values[random_below(r, COUNT(values))];
    }
}

/* ---- changes of a text ----------------------------------------------------------- */

typedef struct Span {
    size_t at, n;
} Span;

static void splice(Str *s, Span cut, const char *put, size_t put_n)
{
    Str out = {0};

    str_add(&out, s->s, cut.at);
    str_add(&out, put, put_n);
    str_add(&out, s->s + cut.at + cut.n, s->n - cut.at - cut.n);
    free(s->s);
    *s = out;
}

static int is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The token around or after a random place: a name, a number, a quoted string, one mark.
 */
static Span token(Random *r, const Str *s)
{
    size_t at = random_below(r, (uint32_t)s->n), end;

    while (at > 0 && is_word(s->s[at]) && is_word(s->s[at - 1]))
        at--;
    while (at < s->n && isspace((unsigned char)s->s[at]))
        at++;
    end = at;
    if (at == s->n)
        return (Span){at, 0};
    if (is_word(s->s[at])) {
        while (end < s->n && (is_word(s->s[end]) || s->s[end] == '.'))
            end++;
    } else if (s->s[at] == '"') {
        for (end++; end < s->n && s->s[end] != '"' && s->s[end] != '\n'; end++) {
        }
        end += end < s->n;
    } else {
        end++;
    }
    return (Span){at, end - at};
}

static Span line(Random *r, const Str *s)
{
    size_t at = random_below(r, (uint32_t)s->n), end = at;

    while (at > 0 && s->s[at - 1] != '\n')
        at--;
    while (end < s->n && s->s[end] != '\n')
        end++;
    return (Span){at, end - at + (end < s->n)};
}

/* A token that begins like this, or, after a few tries, any. */
static Span token_like(Random *r, const Str *s, int (*like)(int))
{
    Span t = token(r, s);

    for (int i = 0; i < 30 && !(t.n && like((unsigned char)s->s[t.at])); i++)
        t = token(r, s);
    return t;
}

static int is_quote(int c)
{
    return c == '"';
}

/* After `=`: the value of a field. */
static Span value_after(Random *r, const Str *s)
{
    for (int i = 0; i < 30; i++) {
        Span t = token(r, s);

        if (t.n == 1 && s->s[t.at] == '=') {
            size_t at = t.at + 1, end;

            while (at < s->n && s->s[at] == ' ')
                at++;
            for (end = at; end < s->n && !strchr(",}\n", s->s[end]); end++) {
            }
            return (Span){at, end - at};
        }
    }
    return token(r, s);
}

static void swap(Str *s, Span a, Span b)
{
    Str out = {0};

    if (a.at > b.at) {
        Span t = a;

        a = b;
        b = t;
    }
    if (a.at + a.n > b.at)
        return;
    str_add(&out, s->s, a.at);
    str_add(&out, s->s + b.at, b.n);
    str_add(&out, s->s + a.at + a.n, b.at - a.at - a.n);
    str_add(&out, s->s + a.at, a.n);
    str_add(&out, s->s + b.at + b.n, s->n - b.at - b.n);
    free(s->s);
    *s = out;
}

/* Puts a copy of one piece somewhere else, or behind itself. */
static void double_it(Random *r, Str *s, Span what)
{
    char *copy = malloc(what.n + 1);
    size_t at = random_below(r, 2) ? what.at + what.n : random_below(r, (uint32_t)s->n);

    if (!copy)
        abort();
    memcpy(copy, s->s + what.at, what.n);
    splice(s, (Span){at, 0}, copy, what.n);
    free(copy);
}

void mutate_text(Random *r, Str *s)
{
    static const char marks[] =
        "{}()[]=,;.:#\"'-+*/%~<>&|^\\\n\0\xff\x80 @$`!?0123456789";
    const char *word;
    char byte;

    if (s->n == 0)
        return;
    switch (random_below(r, 14)) {
    case 0: /* one bit */
        s->s[random_below(r, (uint32_t)s->n)] ^= (char)(1 << random_below(r, 8));
        break;
    case 1:
        byte = marks[random_below(r, sizeof marks - 1)];
        splice(s, (Span){random_below(r, (uint32_t)s->n), random_below(r, 2)}, &byte, 1);
        break;
    case 2:
        splice(s, token(r, s), "", 0);
        break;
    case 3:
        double_it(r, s, token(r, s));
        break;
    case 4:
        swap(s, token(r, s), token(r, s));
        break;
    case 5:
        splice(s, line(r, s), "", 0);
        break;
    case 6:
        double_it(r, s, line(r, s));
        break;
    case 7:
        swap(s, line(r, s), line(r, s));
        break;
    case 8:
    case 9:
        word = hostile_number(r);
        splice(s, token_like(r, s, isdigit), word, strlen(word));
        break;
    case 10:
        word = hostile_string(r);
        splice(s, token_like(r, s, is_quote), word, strlen(word));
        break;
    case 11:
    case 12:
        word = hostile_value(r);
        splice(s, value_after(r, s), word, strlen(word));
        break;
    default: /* cut off */
        if (random_below(r, 4) == 0)
            s->s[s->n = random_below(r, (uint32_t)s->n)] = '\0';
        else
            swap(s, token_like(r, s, isalpha), token_like(r, s, isalpha));
    }
}

/* A byte, a number, a stretch, or a value that becomes one of the words. */
void mutate_json(Random *r, Str *s, const char *const *words)
{
    size_t at = random_below(r, (uint32_t)s->n);
    const size_t n = random_below(r, 40);
    uint32_t n_words = 0;
    const char *word;
    Str to = {0};

    while (words[n_words])
        n_words++;
    word = words[random_below(r, n_words)];
    switch (random_below(r, 8)) {
    case 5:
    case 6:
    case 7: /* another number */
        for (size_t k = at; k < s->n; k++)
            if (s->s[k] >= '0' && s->s[k] <= '9') {
                s->s[k] = (char)('0' + random_below(r, 10));
                break;
            }
        return;
    case 0:
        s->s[at] ^= (char)(1 << random_below(r, 8));
        return;
    case 1:
        s->s[at] = "\"{}[],:\\0123456789 "[random_below(r, 19)];
        return;
    case 2: /* cut out, or off */
        if (random_below(r, 4) == 0)
            s->n = at + 1;
        else if (at + n < s->n)
            memmove(s->s + at, s->s + at + n, s->n - at - n), s->n -= n;
        return;
    case 3: /* a value, or the rest of one, becomes another */
        while (random_below(r, 8) && at > 0 && !strchr(":,[{", s->s[at - 1]))
            at--;
        str_add(&to, s->s, at);
        str_add(&to, word, strlen(word));
        for (size_t k = at; k < s->n; k++)
            if (strchr(",}]", s->s[k])) {
                str_add(&to, s->s + k, s->n - k);
                break;
            }
        break;
    default:
        str_add(&to, s->s, at);
        str_add(&to, word, strlen(word));
        str_add(&to, s->s + at, s->n - at);
    }
    free(s->s);
    *s = to;
}

/* ---- legal values in strange company --------------------------------------------- */

static const char *pick(Random *r, const char *list)
{
    static char word[64];
    uint32_t n = 1, at;
    const char *p;

    for (p = list; *p; p++)
        n += *p == ' ';
    at = random_below(r, n);
    for (p = list; at; p++)
        at -= *p == ' ';
    snprintf(word, sizeof word, "%.*s", (int)strcspn(p, " "), p);
    return word;
}

static long number(Random *r, int max)
{
    static const long wide[] = {1, 2, 64, 1000, 4096, 50257, 1 << 20, 1L << 31, 1L << 40};

    if (random_below(r, 40) == 0)
        return wide[random_below(r, COUNT(wide))];
    return 1 + (long)random_below(r, (uint32_t)max);
}

static int often(Random *r, uint32_t of)
{
    return random_below(r, of) != 0;
}

static void legal_model(Random *r, Str *s, const char *arch)
{
    int llama = !strcmp(arch, "llama");
    long heads = number(r, 6), each = 2 * number(r, 12);
    long dim = heads > 1L << 20 ? heads : heads * each;

    str_printf(
        s, "    model = arch { layers = %ld, dim = %ld, heads = %ld, vocab = %ld,\n",
        number(r, 5), often(r, 5) ? dim : number(r, 200), heads, 1 + number(r, 600));
    if (!llama) {
        str_printf(s, "        max_positions = %ld,", number(r, 70));
        if (!often(r, 3))
            str_printf(s, " ffn = %ld,", number(r, 90));
        str_printf(s, "\n    },\n");
        return;
    }
    str_printf(s, "        ffn = %ld, kv_heads = %ld,", number(r, 90),
               often(r, 3) ? heads : number(r, 6));
    if (!often(r, 3))
        str_printf(s, " head_dim = %ld,", 2 * number(r, 20));
    if (!often(r, 2))
        str_printf(s, " tied = %s,", pick(r, "true false"));
    if (!often(r, 2))
        str_printf(s, " qkv_bias = %s,", pick(r, "true false"));
    if (!often(r, 2))
        str_printf(s, " qk_norm = %s,", pick(r, "true false"));
    if (!often(r, 3))
        str_printf(s, " window = %ld,", number(r, 40) - 1);
    if (!often(r, 3))
        str_printf(s, " norm_eps = %s,", pick(r, "1e-5 1e-30 1 1e300 5e-324"));
    if (!often(r, 3))
        str_printf(s, " init_std = %s,", pick(r, "0 0.02 1e30 1e-300"));
    if (!often(r, 3))
        str_printf(s, " scale_residual_init = true,");
    if (!often(r, 3))
        str_printf(s, " rope = { theta = %s%s },", pick(r, "1e4 1 0.5 1e300 5e-324"),
                   often(r, 2) ? "" : ", scaling = arch.scaling_3_1");
    str_printf(s, "\n    },\n");
}

static void legal_step(Random *r, Str *s)
{
    long micro = number(r, 4),
         batches = often(r, 3) ? 1L << random_below(r, 6) : number(r, 24);

    str_printf(s, "    seq = %ld, micro_batch = %ld, global_batch = %ld,\n",
               number(r, 70), micro,
               often(r, 6) && batches < 1L << 20 && micro < 1L << 20 ? micro * batches
                                                                     : number(r, 64));
    if (!often(r, 3))
        str_printf(s, "    leaves = %ld,\n", 1L << random_below(r, often(r, 5) ? 5 : 17));
    if (often(r, 4))
        str_printf(s, "    dtypes = { param = \"%s\" },\n", pick(r, "f32 bf16 f64"));
    else
        str_printf(s, "    dtypes = { reduce = \"%s\", master = \"f32\" },\n",
                   pick(r, "f32 f64"));
    if (often(r, 3))
        str_printf(s, "    mesh = { shard = %ld },\n",
                   often(r, 4) ? 1L << random_below(r, 4)
                               : 1 + (long)random_below(r, 1024));
    if (!often(r, 6))
        str_printf(s, "    strategy = \"%s\",\n", pick(r, "full_shard no_shard"));
}

void legal_description(Random *r, Str *s)
{
    const char *arch = random_below(r, 3) ? "llama" : "gpt2";

    str_printf(
        s, "local arch = require \"arch.%s\"\nreturn trainer {\n    name = \"%s\",\n",
        arch,
        pick(r, "a demo x_1 a.b int main rt_x z9.9 con aux n.u.l step math trainer"));
    legal_model(r, s, arch);
    legal_step(r, s);
    if (!often(r, 3))
        str_printf(s, "    wrap = per_block(%ld),\n", number(r, 4));
    if (!often(r, 3))
        str_printf(s, "    reshard_after_forward = %s,\n", pick(r, "true false"));
    if (!often(r, 3)) {
        str_printf(s,
                   "    prefetch = { forward = %u, backward = %u, in_flight = %u, "
                   "order = \"%s\" },\n",
                   random_below(r, 17), random_below(r, 4), 1 + random_below(r, 8),
                   pick(r, "pre post none"));
    }
    if (!often(r, 3))
        str_printf(s, "    accumulate = \"%s\",\n", pick(r, "sharded unsharded"));
    if (!often(r, 4))
        str_printf(s, "    fuse = %s,\n", pick(r, "true false"));
    if (!often(r, 3))
        str_printf(s, "    loss = { chunk_tokens = %ld },\n", number(r, 100));
    if (!often(r, 4))
        str_printf(s, "    seed = %s,\n", pick(r, "0 1 9007199254740991 4294967296"));
    if (!often(r, 4))
        str_printf(s, "    target = cpu { arch = \"%s\" },\n",
                   pick(r, "native x86-64-v3 z a.b-c"));
    if (!often(r, 3)) {
        str_printf(s, "    groups = { { match = \"%s\", ",
                   pick(r, "*norm* *.0.* *mlp* *embed* *.weight *attn* *w?e*"));
        str_printf(s, "%s } },\n",
                   pick(r, "frozen=true lr=0.5 weight_decay=0 lr=1e-3,weight_decay=1"));
    }
    str_printf(s, "    optimizer = adamw { lr = %s", pick(r, "1e-3 1e3 5e-324 1"));
    str_printf(s, ", clip = %s", pick(r, "0 1.0 1e30 1e-300"));
    str_printf(s, ", betas = { %s, 0.95 } },\n", pick(r, "0 0.9 0.9999999999999999"));
    if (random_below(r, 2))
        str_printf(s, "    lr = cosine { warmup = %u, steps = %ld, min_ratio = 0.1 },\n",
                   random_below(r, 12), 10 + number(r, 100));
    str_printf(s, "}\n");
}

/* ---- deep, long, endless --------------------------------------------------------- */

static void repeat(Str *s, const char *what, uint32_t n)
{
    while (n--)
        str_add(s, what, strlen(what));
}

void deep_description(Random *r, Str *s, int costly)
{
    static const struct {
        const char *open, *middle, *close;
    } nests[] = {{"(", "1", ")"},
                 {"{", "", "}"},
                 {"- ", "1", ""},
                 {"not ", "1", ""},
                 {"function() return ", "1", " end"},
                 {"\"a\" .. ", "\"a\"", ""},
                 {"{x=", "1", "}"},
                 {"trainer{model=", "1", "}"},
                 {"{[", "1", "]=1}"},
                 {"f(", "1", ")"},
                 {"1+", "1", ""},
                 {"2^", "1", ""},
                 {"a.", "b", ""},
                 {"adamw{lr=", "1", "}"},
                 {"do ", "", " end"},
                 {"if x then ", "", " end"},
                 {"while x do ", "", " end"},
                 {"local function f() ", "", " end "},
                 {"repeat ", "", " until x "},
                 {"x[", "1", "]"},
                 {"[==[", "", "]==]"},
                 {"#", "{}", ""},
                 {"a={", "", "},"},
                 {"local a ", "", ""},
                 {"goto a ", "", ""},
                 {";", "", ""},
                 {"--[[", "\n", "]]"}};
    uint32_t which = random_below(r, COUNT(nests)), deep = 1 + random_below(r, 300);

    if (costly) {
        const char *text = endless[random_below(r, COUNT(endless))];

        str_add(s, text, strlen(text));
        return;
    }
    if (random_below(r, 4) == 0)
        deep *= 200;
    if (random_below(r, 2))
        str_printf(s, "return ");
    repeat(s, nests[which].open, deep);
    str_printf(s, "%s", nests[which].middle);
    repeat(s, nests[which].close, random_below(r, 8) ? deep : deep / 2);
}

void set_argument(Random *r, Str *s)
{
    const char *value;
    Str text = {0};

    str_printf(&text, "%s%s", fields[random_below(r, COUNT(fields))],
               random_below(r, 20) ? "=" : "");
    value = hostile_value(r);
    str_add(&text, value, strlen(value));
    if (random_below(r, 6) == 0)
        mutate_text(r, &text);
    for (size_t i = 0; i < text.n; i++) /* an argument ends at a zero byte */
        if (!text.s[i])
            text.s[i] = ' ';
    str_add(s, text.s, text.n);
    free(text.s);
}
