/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_spaces.c: the form that a text has before it is cut. In: a text between added
 * tokens, whole or a stretch after the other. Out: its normal form: C (tokenize_utf8.c),
 * or SentencePiece's, in which a character, the space, is written as another text, `▁`,
 * and a text may get one more before it. */
#include "tokenize/tokenize.h"

#include <string.h>

bool tok_is_normal(const Tokenizer *t, const char *s, size_t n)
{
    return t->spaces.to ? n == 0 : !t->nfc || tok_is_nfc(s, n);
}

/* Does it get `before`? What Metaspace adds is not added twice. */
static bool is_preceded(const TokSpaces *p, const char *s, size_t n, bool first)
{
    const bool has =
        n > 0 && (s[0] == p->from || (n >= p->n_to && !memcmp(s, p->to, p->n_to)));

    return n > 0 &&
           (p->when == TOK_BEFORE_ALL || (p->when == TOK_BEFORE_MISSING && !has) ||
            (p->when == TOK_BEFORE_FIRST && first && !has));
}

bool tok_normal(const Tokenizer *t, TokText *out, const char *s, size_t n,
                TokBegins begins, char *error)
{
    const TokSpaces *p = &t->spaces;

    if (!p->to && t->nfc)
        return tok_nfc(out, s, n, error);
    if (p->to && begins != TOK_GOES_ON && is_preceded(p, s, n, begins == TOK_BEGINS_TEXT))
        tok_append(out, p->before, p->n_before);
    while (n > 0) {
        const char *at = p->to ? memchr(s, p->from, n) : NULL;
        const size_t step = at ? (size_t)(at - s) : n;

        tok_append(out, s, step);
        if (at)
            tok_append(out, p->to, p->n_to);
        s += step + (at != NULL);
        n -= step + (at != NULL);
    }
    return true;
}

size_t tok_normal_cut(const Tokenizer *t, const char *s, size_t n, size_t all)
{
    if (t->nfc)
        return tok_nfc_cut(s, n);
    while (n > 0 && n < all && ((unsigned char)s[n] & 0xC0) == 0x80)
        n--;
    return n;
}

/* What is added before a text belongs to its first byte. */
bool tok_normal_place(const Tokenizer *t, TokPlace *place, size_t at, size_t *normal,
                      char *error)
{
    const TokSpaces *p = &t->spaces;

    if (!p->to)
        return tok_nfc_place(place, at, normal, error);
    if (place->at == 0 && at > 0 &&
        is_preceded(p, place->s, place->n, place->begins == TOK_BEGINS_TEXT))
        place->normal += p->n_before;
    for (; place->at < at; place->at++)
        place->normal += place->s[place->at] == p->from ? p->n_to : 1;
    *normal = place->normal;
    return true;
}
