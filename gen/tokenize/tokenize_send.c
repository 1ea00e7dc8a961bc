/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_send.c: from the process that reads foreign text to the one that writes files.
 * In: ids in order, on that side. Out: the bytes of a token file and of its mask, and the
 * totals, on this side. Frames pass between them: a kind, a length, and that many bytes.
 * The writer checks the lengths and trusts nothing else. */
#include "tokenize/tokenize.h"

#include "base/child.h"

#include <stdlib.h>
#include <string.h>

enum { SEND_BYTES = 1 << 18, FRAME_BYTES = 9 };

/* ---- in the child ---------------------------------------------------------------- */

struct TokSender {
    const char *output;
    int width; /* bytes of a token */
    bool mask;
    int64_t tokens;
    unsigned bits; /* of the mask's last byte */
    TokText data, masks;
};

static void put_number(unsigned char *to, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(v >> 8 * i);
}

static void send_frame(char kind, const void *s, size_t n)
{
    unsigned char head[FRAME_BYTES] = {(unsigned char)kind};

    put_number(head + 1, n, 8);
    child_put(head, sizeof head);
    child_put(s, n);
}

static void flush(char kind, TokText *t, size_t least)
{
    if (t->n >= least && t->n > 0) {
        send_frame(kind, t->s, t->n);
        t->n = 0;
    }
}

TokSender *tok_send_open(const char *output, uint32_t max_id, bool mask)
{
    TokSender *s = gen_calloc(1, sizeof *s);
    char begin[2];

    s->output = output;
    s->width = max_id < 65536 ? 2 : 4;
    s->mask = mask;
    begin[0] = (char)s->width;
    begin[1] = mask;
    send_frame('B', begin, sizeof begin);
    return s;
}

static void add_mask(TokSender *s, const TokIds *ids)
{
    for (size_t i = 0; i < ids->n; i++) {
        const int64_t at = s->tokens + (int64_t)i;
        char byte;

        s->bits |= (unsigned)(ids->target && ids->target[i]) << at % 8;
        if (at % 8 != 7)
            continue;
        byte = (char)s->bits;
        tok_append(&s->masks, &byte, 1);
        s->bits = 0;
    }
}

bool tok_send_ids(void *with, const TokIds *ids, char *error)
{
    TokSender *s = with;
    TokText *t = &s->data;

    if (s->tokens + (int64_t)ids->n > INT32_MAX) {
        snprintf(
            error, TOK_ERROR_BYTES,
            "%.200s: more than 2147483647 tokens, which llm.c's header cannot count: "
            "write several files",
            s->output);
        return false;
    }
    if (s->mask)
        add_mask(s, ids);
    t->s = tok_grow(t->s, &t->cap, t->n + ids->n * (size_t)s->width, 1);
    for (size_t i = 0; i < ids->n; i++, t->n += (size_t)s->width)
        put_number((unsigned char *)t->s + t->n, ids->id[i], s->width);
    s->tokens += (int64_t)ids->n;
    flush('D', &s->data, SEND_BYTES);
    flush('M', &s->masks, SEND_BYTES);
    return true;
}

void tok_send_end(TokSender *s, const TokTotals *t)
{
    const int64_t totals[TOK_TOTALS] = {t->tokens, t->documents,   t->targets,
                                        t->bytes,  t->empty_lines, t->bare,
                                        t->max_id, t->left_out};
    unsigned char end[8 * TOK_TOTALS];
    const char last = (char)s->bits;

    if (s->mask && s->tokens % 8 != 0)
        tok_append(&s->masks, &last, 1);
    flush('D', &s->data, 1);
    flush('M', &s->masks, 1);
    for (int i = 0; i < TOK_TOTALS; i++)
        put_number(end + 8 * i, (uint64_t)totals[i], 8);
    send_frame('E', end, sizeof end);
    free(s->data.s);
    free(s->masks.s);
    free(s);
}

/* ---- in the parent --------------------------------------------------------------- */

static uint64_t number(const unsigned char *s)
{
    uint64_t v = 0;

    for (int i = 8; i-- > 0;)
        v = v << 8 | s[i];
    return v;
}

static bool broken(TokReceiver *r)
{
    snprintf(r->error, TOK_ERROR_BYTES, "what the tokenizer sends makes no sense");
    return false;
}

/* Takes a frame that is not data. */
static bool take_whole(TokReceiver *r)
{
    const unsigned char *s = r->held;

    if (r->kind == 'B') {
        if (r->writer || r->n_held != 2 || (s[0] != 2 && s[0] != 4) || s[1] != r->mask)
            return broken(r);
        r->width = s[0];
        r->writer = tok_writer_open(r->output, r->width, r->mask, r->force, r->error);
        return r->writer != NULL;
    }
    if (!r->writer || r->ended || r->n_held != 8 * TOK_TOTALS)
        return broken(r);
    r->totals = (TokTotals){.tokens = (int64_t)number(s),
                            .documents = (int64_t)number(s + 8),
                            .targets = (int64_t)number(s + 16),
                            .bytes = (int64_t)number(s + 24),
                            .empty_lines = (int64_t)number(s + 32),
                            .bare = number(s + 40) != 0,
                            .max_id = (uint32_t)number(s + 48),
                            .left_out = (int64_t)number(s + 56)};
    r->ended = true;
    return (r->totals.tokens >= 0 && r->totals.tokens <= INT32_MAX &&
            r->data == r->totals.tokens * r->width &&
            r->masks == (r->mask ? (r->totals.tokens + 7) / 8 : 0)) ||
           broken(r);
}

static bool take_head(TokReceiver *r)
{
    const bool data = r->held[0] == 'D' || r->held[0] == 'M';

    r->kind = (char)r->held[0];
    r->left = number(r->held + 1);
    r->n_held = 0;
    r->in_frame = true;
    if ((!data && r->kind != 'B' && r->kind != 'E') || r->ended ||
        (data ? !r->writer || r->left > INT32_MAX : r->left > sizeof r->held))
        return broken(r);
    return r->kind != 'M' || r->mask || broken(r);
}

static bool take_data(TokReceiver *r, const char *s, size_t n)
{
    const bool mask = r->kind == 'M';

    *(mask ? &r->masks : &r->data) += (int64_t)n;
    return tok_writer_add(r->writer, mask, s, n, r->error);
}

bool tok_receive(TokReceiver *r, const char *s, size_t n)
{
    while (n > 0) {
        const bool data = r->in_frame && (r->kind == 'D' || r->kind == 'M');
        const uint64_t want = r->in_frame ? r->left : FRAME_BYTES - r->n_held;
        const size_t part = n < want ? n : (size_t)want;

        if (data) {
            if (!take_data(r, s, part))
                return false;
        } else {
            memcpy(r->held + r->n_held, s, part);
            r->n_held += part;
        }
        if (r->in_frame)
            r->left -= part;
        s += part;
        n -= part;
        if (!r->in_frame && r->n_held == FRAME_BYTES && !take_head(r))
            return false;
        if (r->in_frame && r->left == 0) {
            r->in_frame = false;
            if (!data && r->kind != 'D' && r->kind != 'M' && !take_whole(r))
                return false;
            r->n_held = 0;
        }
    }
    return true;
}
