/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_chat_ids.c: texts and tokens of a chat to ids and a mask. In: what a template
 * writes, part by part, or as one text of which some bytes are messages'. Out: ids, and
 * which of them are targets. */
#include "tokenize/tokenize_chat.h"

#include <string.h>

enum { TEXT_BYTES = 512 << 20 };

void tok_chat_push(TokIds *out, uint32_t id, bool target)
{
    tok_push(out, id);
    out->target = tok_grow(out->target, &out->target_cap, out->n, 1);
    out->target[out->n - 1] = target;
}

/* The text between two places of c->text, which never decrease. Spans that end before it
 * are skipped for good, so that all texts together visit each span once or twice. */
typedef struct Part {
    TokRange of;
    bool normalised; /* the tokenizer sees its normal form */
    TokPlace place;
} Part;

static size_t span_at(const TokChat *c, size_t *span, size_t from)
{
    while (*span < c->n_spans && c->spans[*span].to <= from)
        ++*span;
    return *span;
}

/* The next span, from *span on, that a part has something of, in bytes of that part as
 * the tokenizer sees it; [SIZE_MAX, SIZE_MAX) when there is none. */
static bool next_span(TokChat *c, Part *part, size_t span, TokRange *found)
{
    const TokRange *of = &part->of, *s = &c->spans[span];

    *found = (TokRange){SIZE_MAX, SIZE_MAX};
    if (span == c->n_spans || s->from >= of->to)
        return true;
    found->from = s->from > of->from ? s->from - of->from : 0;
    found->to = (s->to < of->to ? s->to : of->to) - of->from;
    return !part->normalised || (tok_normal_place(c->w->tok, &part->place, found->from,
                                                  &found->from, c->w->error) &&
                                 tok_normal_place(c->w->tok, &part->place, found->to,
                                                  &found->to, c->w->error));
}

/* Which ids of a part, those from `first` on, are targets. */
static bool mark_part(TokChat *c, Part *part, size_t span, size_t first)
{
    TokIds *out = c->out;
    size_t at = 0;
    TokRange r;

    if (!next_span(c, part, span, &r))
        return false;
    for (size_t k = first; k < out->n; k++) {
        const size_t next = at + c->pieces[out->id[k]].n;

        while (r.to <= at)
            if (!next_span(c, part, ++span, &r))
                return false;
        out->target[k] = r.from < next;
        at = next;
    }
    return true;
}

/* A part of the text between added tokens; span: the first that ends in it or later. */
static bool encode_part(TokChat *c, TokRange of, size_t span)
{
    const char *s = c->text.s + of.from;
    const size_t n = of.to - of.from, begin = c->out->n;
    const bool first = of.from == 0 && begin == c->begin;
    Part part = {.of = of,
                 .normalised = !tok_is_normal(c->w->tok, s, n),
                 .place = {.s = s, .n = n, .scratch = c->normal}};
    bool good;

    part.place.begins = first ? TOK_BEGINS_TEXT : TOK_BEGINS;
    if (!tok_encode_between(c->w, s, n, first, TOK_FIND_PLAIN, c->out))
        return false;
    c->out->target = tok_grow(c->out->target, &c->out->target_cap, c->out->n + 1, 1);
    good = mark_part(c, &part, span, begin);
    c->normal = part.place.scratch;
    return good;
}

/* Between the added tokens of the raw text. Where the tokenizer has no normal form, those
 * that are looked for in it are looked for here, since some are special. */
static bool encode_middle(TokChat *c, TokRange of, size_t *span)
{
    const Tokenizer *t = c->w->tok;
    const bool none = !t->nfc && !t->spaces.to && c->find == TOK_FIND_ALL;

    for (size_t at = of.from, begin = of.to, end; at < of.to; at = end) {
        int64_t id = -1;

        end = begin = of.to;
        if (none)
            id = tok_added_next(t, true, c->find, c->theirs, c->text.s, of.to, at, at,
                                of.to, &begin, &end);
        if (begin > at && !encode_part(c, (TokRange){at, begin}, span_at(c, span, at)))
            return false;
        if (id >= 0)
            tok_chat_push(c->out, (uint32_t)id,
                          span_at(c, span, begin) < c->n_spans &&
                              c->spans[*span].from < end);
    }
    return true;
}

bool tok_chat_flush(TokChat *c)
{
    const Tokenizer *t = c->w->tok;
    size_t span = 0;

    for (size_t at = 0, begin, end; at < c->text.n; at = end) {
        const int64_t id = tok_added_next(t, false, c->find, c->theirs, c->text.s,
                                          c->text.n, at, at, c->text.n, &begin, &end);

        if (begin > at && !encode_middle(c, (TokRange){at, begin}, &span))
            return false;
        if (id >= 0)
            tok_chat_push(c->out, (uint32_t)id,
                          span_at(c, &span, begin) < c->n_spans &&
                              c->spans[span].from < end);
    }
    c->text.n = c->n_spans = 0;
    return true;
}

void tok_chat_span(TokChat *c, size_t from, size_t to)
{
    if (from >= to)
        return;
    if (c->n_spans > 0 && c->spans[c->n_spans - 1].to == from) {
        c->spans[c->n_spans - 1].to = to;
        return;
    }
    c->spans = tok_grow(c->spans, &c->spans_cap, c->n_spans + 1, sizeof *c->spans);
    c->spans[c->n_spans++] = (TokRange){from, to};
}

bool tok_chat_add(TokChat *c, const char *s, size_t n, bool target)
{
    c->bytes += n;
    if (c->bytes > TEXT_BYTES) {
        snprintf(c->w->error, sizeof c->w->error,
                 "the chat is a text of more than %d MiB", TEXT_BYTES >> 20);
        return false;
    }
    if (target)
        tok_chat_span(c, c->text.n, c->text.n + n);
    tok_append(&c->text, s, n);
    return true;
}
