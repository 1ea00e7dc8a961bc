/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_input.c: files to jobs. In: the inputs, in order. Out: jobs whose ids, one
 * after the other, are the output, whatever thread runs them and when. A job has a copy
 * of its text; of a file, only the text in jobs and the current stretch are in memory.
 *
 * 1. A file of JSON lines is cut between lines. A text file is one document.
 * 2. A document is first cut after added tokens, because pieces never cross them.
 * 3. If the text between two of them is long, it is normalised here, and cut after the
 *    added tokens that are searched in the normal form.
 * 4. A long stretch without any is cut anywhere, preferably after a line, and the cut is
 *    a guess: the pieces after it are right only if encoding from the left also ends a
 *    piece there. The code that orders jobs knows that, and repeats a wrong guess from
 *    the right place (tokenize_jobs.c).
 * 5. Matching only looks ahead. A job has some of the text after it, and reports if that
 *    was not enough. */
#include "tokenize/tokenize.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { JOB_BYTES = 1 << 18, LOOK_BYTES = 1 << 14, LONG_BYTES = 2 * JOB_BYTES };

/* A text that arrives from the left: consumed text is dropped, new text is appended. */
typedef struct Window {
    TokText text;
    size_t at;       /* text before it is consumed */
    size_t scanned;  /* no added token starts between `at` and here */
    bool ended;      /* nothing follows it */
    bool normalized; /* which kind of added tokens it searches */
} Window;

struct TokReader {
    const Tokenizer *tok;
    const TokOptions *o;
    int next; /* input */
    TokFile file;
    bool open, lines, begun;
    Window raw;
    Window part;  /* of raw, between two tokens, in normal form, if it is long */
    bool in_part; /* there is such a part; its end is in raw, or not yet read */
    bool in_stretch,
        chained;     /* of part: a long stretch without tokens; not its first job */
    int64_t part_at; /* place of part.text in the part */
    int64_t bytes_before, total;
};

TokReader *tok_reader_open(const Tokenizer *t, const TokOptions *o)
{
    TokReader *r = gen_calloc(1, sizeof *r);

    r->tok = t;
    r->o = o;
    r->part.normalized = true;
    for (int i = 0; i < o->inputs.count; i++) {
        struct stat s;

        r->total += stat(o->inputs.items[i], &s) == 0 ? s.st_size : 0;
    }
    return r;
}

void tok_reader_close(TokReader *r)
{
    if (r->open)
        tok_file_close(&r->file);
    free(r->raw.text.s);
    free(r->part.text.s);
    free(r);
}

int64_t tok_reader_bytes(const TokReader *r, int64_t *total)
{
    *total = r->total;
    return r->bytes_before + (r->open ? r->file.bytes : 0);
}

/* ---- windows --------------------------------------------------------------------- */

static void window_begin(Window *w)
{
    w->text.n = w->at = w->scanned = 0;
    w->ended = false;
}

/* Frees the memory of consumed text; returns how much that was. */
static size_t window_shift(Window *w)
{
    const size_t gone = w->at;

    if (gone < JOB_BYTES && gone < w->text.n)
        return 0;
    if (gone < w->text.n)
        memmove(w->text.s, w->text.s + gone, w->text.n - gone);
    w->text.n -= gone;
    w->scanned -= w->scanned < gone ? w->scanned : gone;
    w->at = 0;
    return gone;
}

/* Doubles what is there, so that text is scanned again only a few times. */
static bool read_more(TokReader *r, char *error)
{
    Window *w = &r->raw;
    size_t want;

    window_shift(w);
    want = 2 * (w->text.n - w->at) + w->at;
    do
        if (!tok_file_read(&r->file, &w->text, error))
            return false;
    while (w->text.n < want && !r->file.ended);
    w->ended = r->file.ended;
    return true;
}

/* The first added token of w's kind from `from` on, with the white space it takes:
 * [*begin, *end). False: there is none before *begin, and all of that is certainly text;
 * the rest may belong to a token, unless the window ended. */
static bool find_token(const TokReader *r, Window *w, size_t from, size_t *begin,
                       size_t *end)
{
    const Tokenizer *t = r->tok;
    const char *s = w->text.s;
    const size_t n = w->text.n, behind = w->ended ? 1 : t->longest_added;
    size_t limit =
        n >= behind ? n - behind + 1 : 0; /* a longer token has no room after it */

    if (!t->has_added[w->normalized]) {
        *begin = *end = n;
        return false;
    }
    w->scanned = w->scanned > from ? w->scanned : from;
    limit = limit > w->scanned ? limit : w->scanned;
    if (tok_added_next(t, w->normalized, TOK_FIND_ALL, NULL, s, n, from, w->scanned,
                       limit, begin, end) >= 0) {
        if (*end < n || w->ended || !t->takes_space[w->normalized])
            return true;
        limit = *begin; /* white space after it may continue */
    }
    w->scanned = limit;
    if (!w->ended && t->takes_space[w->normalized])
        limit -= tok_space_end(s + from, limit - from); /* and before the next one */
    *begin = *end = limit;
    return false;
}

/* Adds to the part the text that certainly belongs to it, up to the start of a unit of
 * its normal form; the rest waits for what follows. */
static bool more_of_part(TokReader *r, char *error)
{
    Window *raw = &r->raw;
    TokBegins begins = r->begun ? TOK_BEGINS : TOK_BEGINS_TEXT;
    size_t begin, end, take;

    r->part_at += (int64_t)window_shift(&r->part);
    for (;;) {
        const bool found = find_token(r, raw, raw->at, &begin, &end);
        const bool last = found || raw->ended;

        take = begin - raw->at;
        if (!last)
            take = tok_normal_cut(r->tok, raw->text.s + raw->at, take,
                                  raw->text.n - raw->at);
        if (last || take > 0) {
            r->part.ended = last;
            break;
        }
        if (!read_more(r, error))
            return false;
    }
    if (r->part_at > 0 || r->part.text.n > 0)
        begins = TOK_GOES_ON;
    if (!tok_normal(r->tok, &r->part.text, raw->text.s + raw->at, take, begins, error))
        return false;
    raw->at += take;
    return true;
}

static bool more_of(TokReader *r, Window *w, char *error)
{
    return w == &r->raw ? read_more(r, error) : more_of_part(r, error);
}

/* ---- jobs ------------------------------------------------------------------------ */

/* A job of w's text [from, to), with look-ahead up to `look`; [from, to) is consumed. */
static void make_job(TokReader *r, Window *w, TokJobKind kind, size_t to, size_t look,
                     TokJob *job)
{
    const size_t n = look - w->at;

    *job = (TokJob){.kind = kind, .name = r->file.name, .to = to - w->at, .n = n};
    job->s = gen_calloc(n + 1, 1);
    memcpy(job->s, w->text.s + w->at, n);
    if (w == &r->part)
        job->at = r->part_at + (int64_t)w->at;
    w->at = to;
}

/* The start of the first character LOOK_BYTES or more after a place. */
static size_t look_on(const char *s, size_t n, size_t from)
{
    size_t at = n - from > LOOK_BYTES ? from + LOOK_BYTES : n;

    while (at < n && ((unsigned char)s[at] & 0xC0) == 0x80)
        at++;
    return at;
}

/* Where a stretch may end: after a line, or between characters. */
static size_t cut_after_line(const char *s, size_t n, size_t from)
{
    const size_t to = look_on(s, n, from);
    const char *end = memchr(s + from, '\n', to - from);

    return end ? (size_t)(end - s) + 1 : to;
}

/* How far the stretch from part.at goes: to `need` bytes, or to its end. */
static bool find_stretch(TokReader *r, size_t need, size_t *end, bool *last, char *error)
{
    Window *w = &r->part;
    size_t behind;

    for (;;) {
        *last = find_token(r, w, w->at, end, &behind) || w->ended;
        if (*last || *end - w->at >= need)
            return true;
        if (!more_of_part(r, error))
            return false;
    }
}

bool tok_reader_peek(TokReader *r, size_t need, const char **s, size_t *n, bool *last,
                     char *error)
{
    size_t end;

    if (!find_stretch(r, need, &end, last, error))
        return false;
    *s = r->part.text.s + r->part.at;
    *n = end - r->part.at;
    return true;
}

static bool next_stretch(TokReader *r, TokJob *job, char *error)
{
    Window *w = &r->part;
    size_t end, to, look;
    bool last;

    if (!find_stretch(r, LONG_BYTES + LOOK_BYTES, &end, &last, error))
        return false;
    to = look = end;
    if (!last || end - w->at > LONG_BYTES) {
        to = cut_after_line(w->text.s, end, w->at + JOB_BYTES);
        look = look_on(w->text.s, end, to);
    }
    make_job(r, w, TOK_JOB_STRETCH, to, look, job);
    job->last = last && look == end;
    job->chained = r->chained;
    r->chained = true;
    r->in_stretch = !(last && to == end);
    return true;
}

/* Text of w up to a token's end, after JOB_BYTES; *is_long: a long stretch starts. */
static bool next_text(TokReader *r, Window *w, TokJob *job, bool *is_long, char *error)
{
    size_t at = w->at, begin, end;

    *is_long = false;
    while (at - w->at < JOB_BYTES) {
        const bool found = find_token(r, w, at, &begin, &end);

        if (begin - at > LONG_BYTES) {
            *is_long = at == w->at;
            break;
        }
        if (!found && !w->ended) {
            const size_t done = at - w->at; /* reading more may move the window */

            if (!more_of(r, w, error))
                return false;
            at = w->at + done;
            continue;
        }
        at = end;
        if (!found)
            break;
    }
    if (!*is_long)
        make_job(r, w, w == &r->raw ? TOK_JOB_TEXT : TOK_JOB_PART, at, at, job);
    return true;
}

static bool next_of_document(TokReader *r, TokJob *job, char *error)
{
    bool is_long;

    for (;;) {
        if (r->in_stretch)
            return next_stretch(r, job, error);
        if (r->in_part && r->part.ended && r->part.at == r->part.text.n)
            r->in_part = false;
        if (!next_text(r, r->in_part ? &r->part : &r->raw, job, &is_long, error))
            return false;
        if (!is_long)
            return true;
        if (r->in_part) {
            r->in_stretch = true;
            r->chained = false;
        } else {
            window_begin(&r->part);
            r->in_part = true;
            r->part_at = 0;
        }
    }
}

/* Is all of the file in jobs? */
static bool is_at_end(const TokReader *r)
{
    return r->raw.ended && r->raw.at == r->raw.text.n && !r->in_stretch &&
           !(r->in_part && r->part.at < r->part.text.n);
}

/* Whole lines, at least JOB_BYTES of them. */
static bool next_lines(TokReader *r, TokJob *job, char *error)
{
    Window *w = &r->raw;
    int64_t lines = 0;
    size_t to;

    for (;;) {
        const size_t from =
            w->at + JOB_BYTES > w->scanned ? w->at + JOB_BYTES : w->scanned;
        const char *end =
            w->text.n > from ? memchr(w->text.s + from, '\n', w->text.n - from) : NULL;

        to = end ? (size_t)(end - w->text.s) + 1 : w->text.n;
        if (end || w->ended)
            break;
        w->scanned = w->text.n;
        if (!read_more(r, error))
            return false;
    }
    for (size_t i = w->at; i < to; i++)
        lines += w->text.s[i] == '\n';
    make_job(r, w, TOK_JOB_LINES, to, to, job);
    w->scanned = to;
    job->line = r->file.line;
    r->file.line += lines;
    return true;
}

/* ---- files ----------------------------------------------------------------------- */

static bool open_next(TokReader *r, char *error)
{
    const char *name = r->o->inputs.items[r->next++];
    Window *w = &r->raw;

    r->lines = tok_is_lines(r->o, name);
    if (!tok_file_open(&r->file, name, r->tok->file && !r->lines, error))
        return false;
    r->open = true;
    r->begun = false;
    window_begin(w);
    while (r->lines && w->text.n < 3 && !w->ended)
        if (!read_more(r, error))
            return false;
    if (r->lines && w->text.n >= 3 && !memcmp(w->text.s, "\xef\xbb\xbf", 3))
        w->at = 3; /* the byte order mark of Windows programs */
    return true;
}

static void close_input(TokReader *r)
{
    r->bytes_before += r->file.bytes;
    tok_file_close(&r->file);
    r->open = false;
}

bool tok_reader_next(TokReader *r, TokJob *job, char *error)
{
    while (!r->open) {
        if (r->next == r->o->inputs.count || !open_next(r, error))
            return false;
        if (r->lines && is_at_end(r))
            close_input(r);
    }
    if (r->lines ? !next_lines(r, job, error) : !next_of_document(r, job, error))
        return false;
    job->begins = !r->lines && !r->begun;
    job->ends = !r->lines && is_at_end(r);
    r->begun = true;
    if (is_at_end(r))
        close_input(r);
    return true;
}
