/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_load_spaces.c: what tokenizers of SentencePiece's kind have in a
 * tokenizer.json (Llama 2, Mistral 0.1, Phi-3, Gemma). In: the parts that write a space
 * as another text (Prepend, Replace, Metaspace), a decoder, a vocabulary of characters
 * with byte fallback. Out: TokSpaces, words, and where a text may be cut before words are
 * looked for. */
#include "tokenize/tokenize_load.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TO_BYTES = 16 };

/* ---- spaces ---------------------------------------------------------------------- */

/* A member that is a short text; NULL after a message. */
static const char *short_text(Load *l, const json_t *part, const char *path,
                              const char *key)
{
    const json_t *v = json_object_get(part, key);
    const size_t n = json_string_length(v);

    if (json_is_string(v) && n > 0 && n <= MAX_TO_BYTES &&
        !memchr(json_string_value(v), 0, n))
        return gen_strndup(l->g, json_string_value(v), n);
    tok_refuse(l, gen_printf(l->g, "%s.%s", path, key), "is not a text of 1 to %d bytes",
               MAX_TO_BYTES);
    return NULL;
}

static bool is_character(const char *s, size_t n)
{
    size_t k = 1;

    while (k < n && ((unsigned char)s[k] & 0xC0) == 0x80)
        k++;
    return n <= 4 && k == n;
}

static void set_spaces(Load *l, const char *path, const char *to)
{
    TokSpaces *p = &l->t->spaces;

    if (p->to || l->t->nfc) {
        tok_refuse(l, path, "a second step that changes the text is not supported");
    } else if (to && ((unsigned char)to[0] < 0x80 || !is_character(to, strlen(to)))) {
        tok_refuse(l, path,
                   "`%s` for a space is not supported; one character beyond "
                   "ASCII is, such as U+2581",
                   to);
    } else if (to) {
        p->from = ' ';
        p->to = to;
        p->n_to = strlen(to);
    }
}

static void set_before(Load *l, const char *path, const char *before, TokBefore when)
{
    TokSpaces *p = &l->t->spaces;

    if (p->before || p->to || l->t->nfc) {
        tok_refuse(l, path, "is supported as the first step only");
    } else if (before && strchr(before, ' ')) {
        tok_refuse(l, path, "has a space, which is not supported");
    } else if (before) {
        p->before = before;
        p->n_before = strlen(before);
        p->when = when;
    }
}

static void read_replace(Load *l, json_t *part, const char *path)
{
    const json_t *pattern = json_object_get(part, "pattern");
    const char *from = json_string_value(json_object_get(pattern, "String"));

    tok_check_keys(l, part, path, "type pattern content");
    if (!from || strcmp(from, " ") || json_object_size(pattern) != 1)
        tok_refuse(l, gen_printf(l->g, "%s.pattern", path),
                   "is not supported; {\"String\": \" \"} is");
    else
        set_spaces(l, path, short_text(l, part, path, "content"));
}

static void read_one_normalizer(Load *l, json_t *part, const char *path)
{
    const char *type = tok_type_of(part);

    if (!strcmp(type, "NFC")) {
        if (l->t->spaces.to || l->t->spaces.before)
            tok_refuse(l, path, "NFC with other steps is not supported");
        l->t->nfc = true;
#ifndef FSDPGEN_UTF8PROC
        tok_refuse(l, path,
                   "needs utf8proc (libutf8proc-dev), which this fsdpgen was built "
                   "without");
#endif
    } else if (!strcmp(type, "Prepend")) {
        tok_check_keys(l, part, path, "type prepend");
        set_before(l, path, short_text(l, part, path, "prepend"), TOK_BEFORE_ALL);
    } else if (!strcmp(type, "Replace")) {
        read_replace(l, part, path);
    } else {
        tok_refuse(l, path,
                   "the normalizer %s is not supported; NFC is, Prepend, Replace of a "
                   "space, or none",
                   type);
    }
}

static void read_steps(Load *l, json_t *part, const char *path)
{
    json_t *list = json_object_get(part, "normalizers");

    if (strcmp(tok_type_of(part), "Sequence") || !json_is_array(list)) {
        read_one_normalizer(l, part, path);
        return;
    }
    for (size_t i = 0; i < json_array_size(list) && i < TOK_MAX_STEPS; i++)
        read_one_normalizer(l, json_array_get(list, i),
                            gen_printf(l->g, "%s.normalizers.%zu", path, i));
    if (json_array_size(list) > TOK_MAX_STEPS)
        tok_refuse(l, path, "has more than %d steps", TOK_MAX_STEPS);
}

void tok_read_normalizer(Load *l, json_t *part, const char *path)
{
    if (!part || json_is_null(part))
        return;
    read_steps(l, part, path);
    if (l->t->spaces.before && !l->t->spaces.to)
        tok_refuse(l, path, "Prepend without a Replace of the space is not supported");
}

/* Between normalizers and added tokens of the normal form Metaspace would come last; so
 * it is refused with either. */
void tok_read_metaspace(Load *l, json_t *part, const char *path)
{
    static const char *const schemes[] = {"never", "always", "first"};
    static const TokBefore before[] = {TOK_BEFORE_NONE, TOK_BEFORE_MISSING,
                                       TOK_BEFORE_FIRST};
    const json_t *v = json_object_get(part, "prepend_scheme");
    const char *to = short_text(l, part, path, "replacement");
    TokBefore when = TOK_BEFORE_MISSING;
    int k = 3;

    tok_check_keys(l, part, path,
                   "type replacement prepend_scheme split add_prefix_space str_rep");
    for (k = 0; v && k < 3; k++)
        if (json_is_string(v) && !strcmp(json_string_value(v), schemes[k]))
            break;
    if (v && k == 3)
        tok_refuse(l, gen_printf(l->g, "%s.prepend_scheme", path),
                   "is not `always`, `first` or `never`");
    else if (v)
        when = before[k];
    if (l->t->steps > 0) /* a step before it would see spaces as they were */
        tok_refuse(l, path, "Metaspace is supported as the first step only");
    if (!tok_flag(l, part, path, "add_prefix_space", when != TOK_BEFORE_NONE))
        when = TOK_BEFORE_NONE;
    l->metaspace = true;
    if (when != TOK_BEFORE_NONE)
        set_before(l, path, to, when);
    set_spaces(l, path, to);
    if (l->t->spaces.to && tok_flag(l, part, path, "split", true))
        tok_add_step(l, path, gen_printf(l->g, "%s[^%s]*", to, to));
}

/* ---- the decoder ----------------------------------------------------------------- */

static bool strips_one(json_t *part)
{
    json_t *list = json_object_get(part, "decoders");
    const char *type = tok_type_of(part), *scheme;
    bool strips = false;

    if (!strcmp(type, "Metaspace")) {
        scheme = json_string_value(json_object_get(part, "prepend_scheme"));
        return !scheme || strcmp(scheme, "never") != 0;
    }
    if (!strcmp(type, "Strip"))
        return json_integer_value(json_object_get(part, "start")) == 1;
    for (size_t i = 0; json_is_array(list) && i < json_array_size(list); i++) {
        json_t *step = json_array_get(list, i);

        strips = strips || (!json_object_get(step, "decoders") && strips_one(step));
    }
    return strips;
}

void tok_read_decoder(Load *l, json_t *part)
{
    l->t->strips_space = l->t->spaces.to && strips_one(part);
}

/* ---- words ----------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int tok_byte_word(const char *s, size_t n)
{
    return n == 6 && !memcmp(s, "<0x", 3) && s[5] == '>' && hex_digit(s[3]) >= 0 &&
                   hex_digit(s[4]) >= 0
               ? hex_digit(s[3]) << 4 | hex_digit(s[4])
               : -1;
}

void tok_read_characters(Load *l, size_t slots)
{
    TokVocab *v = &l->t->vocab;
    bool have[256] = {false};
    const char *key;
    json_t *value;

    v->char_slots = slots;
    v->chars = gen_alloc(l->g, slots * sizeof *v->chars);
    json_object_foreach(l->vocab, key, value)
    {
        const size_t n = strlen(key);
        const uint32_t id = (uint32_t)json_integer_value(value);
        const int byte = tok_byte_word(key, n);

        if (byte >= 0) {
            v->byte_id[byte] = id;
            have[byte] = true;
        } else if (n > 0 && is_character(key, n)) {
            tok_char_put(v, key, n, id);
        }
    }
    for (int b = 0; b < 256; b++)
        if (!have[b]) {
            tok_refuse(l, "model.vocab", "has byte_fallback, but no token <0x%02X>", b);
            return;
        }
}

/* ---- where a text may be cut ----------------------------------------------------- */

/* Does a merge join what ends otherwise than with `to` and what begins with it? */
static bool joins_words(const Load *l, const json_t *merge)
{
    const TokSpaces *p = &l->t->spaces;
    const char *a = json_string_value(json_is_array(merge) ? json_array_get(merge, 0)
                                                           : merge),
               *b = json_string_value(json_array_get(merge, 1));
    size_t n = a ? strlen(a) : 0;

    if (!json_is_array(merge) && a && strchr(a, ' ')) {
        n = (size_t)(strchr(a, ' ') - a);
        b = a + n + 1;
    }
    return a && b && !strncmp(b, p->to, p->n_to) &&
           (n < p->n_to || memcmp(a + n - p->n_to, p->to, p->n_to) != 0);
}

/* Without a pre-tokenizer a text is one piece. Where no merge joins a word and the space
 * after it, pieces end there: they have the same ids, and threads share them. */
void tok_cut_words(Load *l)
{
    const json_t *merges = json_object_get(json_object_get(l->root, "model"), "merges");
    const TokSpaces *p = &l->t->spaces;
    bool joined = !p->to || l->t->steps > 0;

    for (size_t i = 0; !joined && i < json_array_size(merges); i++)
        joined = joins_words(l, json_array_get(merges, i));
    if (!joined)
        tok_add_step(l, "model", gen_printf(l->g, "%s*[^%s]+|%s+", p->to, p->to, p->to));
}
