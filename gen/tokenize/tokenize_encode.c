/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_encode.c: a whole text to ids, as a tokenizer.json defines it. In: a Tokenizer
 * and bytes. Out: ids in order.
 *
 * Added tokens are cut out of the raw text; the text between them is normalised; added
 * tokens that are searched in normalised text are cut out of that; patterns cut the rest
 * into pieces, each step those of the previous step; and a piece is merged. Text on one
 * side of a cut does not affect the other side, so stretches of a text can be processed
 * separately. */
#include "tokenize/tokenize.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PIECE_BYTES = 1 << 30 }; /* a merge counts three times as many pairs */

/* Does this added token lie at s[at]? */
static bool lies_at(const TokAdded *a, TokFind find, const char *theirs, const char *s,
                    size_t n, size_t at)
{
    if ((a->special && find == TOK_FIND_PLAIN) || a->n > n - at ||
        memcmp(s + at, a->s, a->n) != 0)
        return false;
    for (size_t i = at; a->special && theirs && i < at + a->n; i++)
        if (theirs[i])
            return false;
    return true;
}

/* The token at s[at], or NULL. */
static const TokAdded *added_at(const Tokenizer *t, bool normalized, TokFind find,
                                const char *theirs, const char *s, size_t n, size_t at)
{
    const unsigned char c = (unsigned char)s[at];

    for (int k = t->added_from[c]; k < t->added_from[c + 1]; k++) {
        const TokAdded *a = &t->added[k];

        if (a->normalized == normalized && lies_at(a, find, theirs, s, n, at))
            return a;
    }
    return NULL;
}

int64_t tok_added_next(const Tokenizer *t, bool normalized, TokFind find,
                       const char *theirs, const char *s, size_t n, size_t from,
                       size_t first, size_t limit, size_t *begin, size_t *end)
{
    for (size_t at = first; at < limit && t->has_added[normalized]; at++) {
        const TokAdded *a = added_at(t, normalized, find, theirs, s, n, at);
        size_t spaces;

        if (!a)
            continue;
        *begin = at - (a->lstrip ? tok_space_end(s + from, at - from) : 0);
        *end = at + a->n;
        spaces = a->rstrip ? tok_space_begin(s + *end, n - *end) : 0;
        /* not the white space with which another one begins */
        while (spaces-- > 0 && !added_at(t, normalized, find, theirs, s, n, *end))
            ++*end;
        return a->id;
    }
    *begin = *end = n;
    return -1;
}

int64_t tok_id_of(const Tokenizer *t, const char *name, size_t n)
{
    for (int k = 0; k < t->n_added; k++)
        if (t->added[k].n_name == n && !memcmp(t->added[k].name, name, n))
            return t->added[k].id;
    return -1;
}

/* Takes a piece made by step `step`. */
static bool cut(TokWorker *w, int step, const char *s, size_t n, TokIds *out)
{
    size_t at = 0, begin, end;

    if (n > MAX_PIECE_BYTES) {
        snprintf(w->error, sizeof w->error,
                 "a piece of more than 1 GiB is not supported");
        return false;
    }
    if (step == w->tok->steps) {
        tok_bpe_piece(&w->tok->vocab, w->bpe, s, n, out);
        return true;
    }
    while (at < n) {
        if (tok_regex_next(w->tok->step[step], w->match, s, n, at, true, &begin, &end,
                           w->error) == TOK_FAILED)
            return false;
        if (begin > at && !cut(w, step + 1, s + at, begin - at, out))
            return false;
        if (end > begin && !cut(w, step + 1, s + begin, end - begin, out))
            return false;
        at = end;
    }
    return true;
}

/* A text without patterns, or of bytes. */
static bool encode_unbroken(TokWorker *w, const char *s, size_t n, bool last, size_t to,
                            size_t *end_at, TokIds *out)
{
    *end_at = 0;
    if (!w->tok->file) {
        for (size_t at = 0; at < to; at++)
            tok_push(out, (unsigned char)s[at]);
        *end_at = to;
    } else if (last && n > 0) { /* one piece */
        *end_at = n;
        return cut(w, 0, s, n, out);
    }
    return true;
}

bool tok_encode_stretch(TokWorker *w, const char *s, size_t n, bool last, size_t to,
                        size_t *end_at, TokIds *out)
{
    size_t at = 0, begin, end;

    w->error[0] = '\0';
    if (!w->tok->file || w->tok->steps == 0)
        return encode_unbroken(w, s, n, last, to, end_at, out);
    while (at < to) {
        const TokFound found = tok_regex_next(w->tok->step[0], w->match, s, n, at, last,
                                              &begin, &end, w->error);

        if (found == TOK_FAILED)
            return false;
        if (found == TOK_MORE)
            break;
        if (begin > at && !cut(w, 1, s + at, begin - at, out))
            return false;
        at = begin;
        if (end > begin && at < to) {
            if (!cut(w, 1, s + begin, end - begin, out))
                return false;
            at = end;
        }
    }
    *end_at = at;
    return true;
}

/* Between the added tokens of the raw text. */
bool tok_encode_part(TokWorker *w, const char *s, size_t n, TokFind find, TokIds *out)
{
    for (size_t at = 0, begin, end; at < n; at = end) {
        const int64_t id =
            tok_added_next(w->tok, true, find, NULL, s, n, at, at, n, &begin, &end);

        if (begin > at && !cut(w, 0, s + at, begin - at, out))
            return false;
        if (id >= 0)
            tok_push(out, (uint32_t)id);
    }
    return true;
}

bool tok_encode_between(TokWorker *w, const char *s, size_t n, bool first, TokFind find,
                        TokIds *out)
{
    if (tok_is_normal(w->tok, s, n))
        return tok_encode_part(w, s, n, find, out);
    w->scratch.n = 0;
    return tok_normal(w->tok, &w->scratch, s, n, first ? TOK_BEGINS_TEXT : TOK_BEGINS,
                      w->error) &&
           tok_encode_part(w, w->scratch.s, w->scratch.n, find, out);
}

bool tok_encode(TokWorker *w, const char *s, size_t n, bool first, TokIds *out)
{
    w->error[0] = '\0';
    for (size_t i = 0; !w->tok->file && i < n; i++)
        tok_push(out, (unsigned char)s[i]);
    for (size_t at = 0, begin, end; w->tok->file && at < n; at = end) {
        const int64_t id = tok_added_next(w->tok, false, TOK_FIND_ALL, NULL, s, n, at, at,
                                          n, &begin, &end);

        if (begin > at && !tok_encode_between(w, s + at, begin - at, first && at == 0,
                                              TOK_FIND_ALL, out))
            return false;
        if (id >= 0)
            tok_push(out, (uint32_t)id);
    }
    return true;
}
