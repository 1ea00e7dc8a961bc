/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_input.c: files to jobs. In: the inputs, in order. Out: jobs whose ids, one
 * behind the other, are the output, whatever thread does them and when.
 *
 * A file of JSON lines is cut between lines. A text file is one document: it is cut after
 * added tokens, where pieces know nothing of each other. A long stretch without one is
 * cut anywhere, best after a line, and the cut is a guess: pieces found from there on are
 * right only if one ends there for who comes from before. Who puts the jobs in order
 * knows that, and has a wrong guess done again from the right place (tokenize_jobs.c).
 * Matching only looks ahead, in the whole text, so what is found from a place on does not
 * depend on where somebody began. */
#include "tokenize.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { JOB_BYTES = 1 << 18, LOOK_BYTES = 1 << 14 };

bool tok_map(const char *name, const char **at, size_t *bytes, char *error)
{
    const int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat s = {0};
    void *map = NULL;

    *at = NULL;
    *bytes = 0;
    if (fd < 0 || fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) {
        snprintf(error, TOK_ERROR_BYTES, "%s",
                 fd < 0 || !s.st_mode ? strerror(errno) : "not a regular file");
        if (fd >= 0)
            close(fd);
        return false;
    }
    if (s.st_size > 0)
        map = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED) {
        snprintf(error, TOK_ERROR_BYTES, "cannot be mapped: %s", strerror(errno));
        return false;
    }
    *at = map ? map : "";
    *bytes = (size_t)s.st_size;
    return true;
}

void tok_input_release(TokInput *in)
{
    if (in && --in->readers == 0) {
        if (in->bytes)
            munmap((void *)(uintptr_t)in->at, in->bytes);
        free(in);
    }
}

/* ---- reading -------------------------------------------------------------------------
 */

struct TokReader {
    const Tokenizer *tok;
    const TokOptions *o;
    int next;     /* input */
    TokInput *in; /* NULL: between inputs */
    bool lines, begun;
    size_t at; /* of the input */
    int64_t line, bytes_before, total;
    /* a long stretch without added tokens, normalised: s[long_at, long_n); NULL: none */
    const char *s;
    char *owned;
    size_t long_at, long_n, long_end; /* long_end: where it ends in the input */
    bool chained;
};

TokReader *tok_reader_open(const Tokenizer *t, const TokOptions *o)
{
    TokReader *r = calloc(1, sizeof *r);

    gen_require(r, "out of memory");
    r->tok = t;
    r->o = o;
    for (int i = 0; i < o->inputs.count; i++) {
        struct stat s;

        r->total += stat(o->inputs.items[i], &s) == 0 ? s.st_size : 0;
    }
    return r;
}

void tok_reader_close(TokReader *r)
{
    tok_input_release(r->in);
    free(r->owned);
    free(r);
}

int64_t tok_reader_bytes(const TokReader *r, int64_t *total)
{
    *total = r->total;
    return r->bytes_before + (int64_t)(r->in ? r->at : 0);
}

static bool open_next(TokReader *r, char *error)
{
    const char *name = r->o->inputs.items[r->next++];
    char why[TOK_ERROR_BYTES - 128];
    TokInput *in = calloc(1, sizeof *in);
    size_t good;

    gen_require(in, "out of memory");
    in->readers = 1;
    in->name = name;
    if (!tok_map(name, &in->at, &in->bytes, why)) {
        snprintf(error, TOK_ERROR_BYTES, "%.120s: %.300s", name, why);
        free(in);
        return false;
    }
    r->in = in;
    r->at = 0;
    r->line = 1;
    r->begun = false;
    r->lines = tok_is_lines(r->o, name);
    if (r->lines && in->bytes >= 3 && !memcmp(in->at, "\xef\xbb\xbf", 3))
        r->at = 3; /* the byte order mark that Windows' programs write */
    good = r->lines || !r->tok->file ? in->bytes : tok_utf8_valid(in->at, in->bytes);
    if (good < in->bytes) {
        int64_t line = 1;

        for (size_t i = 0; i < good; i++)
            line += in->at[i] == '\n';
        snprintf(error, TOK_ERROR_BYTES,
                 "%.300s:%lld: byte %zu is not UTF-8; a tokenizer.json is for text", name,
                 (long long)line, good);
        return false;
    }
    return true;
}

static void close_input(TokReader *r)
{
    r->bytes_before += (int64_t)r->in->bytes;
    tok_input_release(r->in);
    r->in = NULL;
}

/* Where a stretch of lines, or of text, may end. */
static size_t cut_after_line(const char *s, size_t n, size_t from, size_t look)
{
    const size_t to = n - from > look ? from + look : n;
    const char *end = memchr(s + from, '\n', to - from);
    size_t at = end ? (size_t)(end - s) + 1 : to;

    while (!end && at < n && ((unsigned char)s[at] & 0xC0) == 0x80)
        at++;
    return at;
}

static void next_lines(TokReader *r, TokJob *job)
{
    const char *s = r->in->at;
    const size_t n = r->in->bytes;

    *job =
        (TokJob){.kind = TOK_JOB_LINES, .s = s, .n = n, .from = r->at, .line = r->line};
    job->to = n - r->at > JOB_BYTES ? cut_after_line(s, n, r->at + JOB_BYTES, n) : n;
    for (const char *p = s + r->at; p && p < s + job->to; p = p ? p + 1 : NULL) {
        p = memchr(p, '\n', (size_t)(s + job->to - p));
        r->line += p != NULL;
        if (!p)
            break;
    }
    r->at = job->to;
}

static void next_stretch(TokReader *r, TokJob *job)
{
    const size_t left = r->long_n - r->long_at;

    *job = (TokJob){.kind = TOK_JOB_STRETCH,
                    .s = r->s,
                    .n = r->long_n,
                    .from = r->long_at,
                    .chained = r->chained};
    job->to = left > 2 * JOB_BYTES
                  ? cut_after_line(r->s, r->long_n, r->long_at + JOB_BYTES, LOOK_BYTES)
                  : r->long_n;
    r->chained = true;
    r->at += (r->long_end - r->at) * (job->to - r->long_at) / left;
    r->long_at = job->to;
    if (r->long_at == r->long_n) {
        job->owned = r->owned;
        r->owned = NULL;
        r->s = NULL;
        r->at = r->long_end;
    }
}

/* The input's [from, to) has no added token, and is long. */
static bool begin_stretch(TokReader *r, size_t from, size_t to, char *error)
{
    const char *s = r->in->at + from;
    TokText normal = {0};

    r->s = s;
    r->long_n = to - from;
    r->long_at = 0;
    r->long_end = to;
    r->chained = false;
    if (r->tok->nfc && !tok_is_nfc(s, to - from)) {
        if (!tok_nfc(&normal, s, to - from, error))
            return false;
        r->s = r->owned = normal.s;
        r->long_n = normal.n;
    }
    return true;
}

/* Text up to an added token's end, after JOB_BYTES; or to where a long stretch begins. */
static bool next_text(TokReader *r, TokJob *job, char *error)
{
    const char *s = r->in->at;
    const size_t n = r->in->bytes;
    size_t at = r->at, begin, end;

    while (at < n && at - r->at < JOB_BYTES) {
        tok_added_next(r->tok, false, TOK_FIND_ALL, s, n, at, &begin, &end);
        if (begin - at > 2 * JOB_BYTES && !r->tok->any_normalized) {
            if (at > r->at)
                break;
            if (!begin_stretch(r, at, begin, error))
                return false;
            next_stretch(r, job);
            return true;
        }
        at = end;
    }
    *job = (TokJob){.kind = TOK_JOB_TEXT, .s = s, .n = n, .from = r->at, .to = at};
    r->at = at;
    return true;
}

bool tok_reader_next(TokReader *r, TokJob *job, char *error)
{
    while (!r->in) {
        if (r->next == r->o->inputs.count || !open_next(r, error))
            return false;
        if (r->lines && r->at == r->in->bytes)
            close_input(r);
    }
    if (r->lines)
        next_lines(r, job);
    else if (r->s)
        next_stretch(r, job);
    else if (!next_text(r, job, error))
        return false;
    job->begins = !r->lines && !r->begun;
    job->ends = !r->lines && !r->s && r->at == r->in->bytes;
    r->begun = true;
    job->input = r->in;
    r->in->readers++;
    if (!r->s && r->at == r->in->bytes)
        close_input(r);
    return true;
}

/* ---- doing ----------------------------------------------------------------------------
 */

static void push_all(TokIds *out, const uint32_t *id, int n)
{
    for (int i = 0; i < n; i++)
        tok_push(out, id[i]);
}

static void begin_document(const TokWorker *w, const TokOptions *o, TokJob *job)
{
    job->documents++;
    if (!o->no_special)
        push_all(&job->ids, w->tok->before, w->tok->n_before);
}

static void end_document(const TokWorker *w, const TokOptions *o, TokJob *job)
{
    if (!o->no_special)
        push_all(&job->ids, w->tok->after, w->tok->n_after);
    if (o->end_id >= 0)
        tok_push(&job->ids, (uint32_t)o->end_id);
}

static bool line_failed(TokJob *job, int64_t line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool line_failed(TokJob *job, int64_t line, const char *fmt, ...)
{
    va_list ap;
    const int n = snprintf(job->error, sizeof job->error,
                           "%.200s:%lld: ", job->input->name, (long long)line);

    va_start(ap, fmt);
    vsnprintf(job->error + n, sizeof job->error - (size_t)n, fmt, ap);
    va_end(ap);
    return false;
}

/* The names that an object has, for a message. */
static const char *names_of(const json_t *object, char *to, size_t bytes)
{
    size_t n = 0;
    const char *key;
    json_t *v;

    to[0] = '\0';
    json_object_foreach((json_t *)(uintptr_t)object, key, v)
    {
        if (n + strlen(key) + 4 < bytes)
            n += (size_t)snprintf(to + n, bytes - n, "%s`%s`", n ? ", " : "", key);
    }
    return n ? to : "none";
}

/* Its template writes what begins a chat. */
static bool run_chat(TokWorker *w, const TokOptions *o, TokJob *job,
                     const json_t *messages, const json_t *record, int64_t line)
{
    TokIds *ids = &job->ids;
    char error[TOK_ERROR_BYTES];

    job->documents++;
    if (!tok_chat_run(w->chat, messages, record, ids, error))
        return line_failed(job, line, "%s", error);
    if (o->end_id >= 0) {
        tok_push(ids, (uint32_t)o->end_id);
        ids->target = tok_grow(ids->target, &ids->target_cap, ids->n, 1);
        ids->target[ids->n - 1] = 0;
    }
    return true;
}

static bool run_record(TokWorker *w, const TokOptions *o, TokJob *job,
                       const json_t *record, int64_t line)
{
    const json_t *v = json_object_get(record, o->field);
    char names[160];

    if (!json_is_object(record))
        return line_failed(job, line, "a line is one JSON object");
    if (!v)
        return line_failed(job, line, "no field `%.60s`; it has %s (--field NAME)",
                           o->field, names_of(record, names, sizeof names));
    if (w->chat)
        return run_chat(w, o, job, v, record, line);
    if (!json_is_string(v))
        return line_failed(job, line, "the field `%.60s` is no text", o->field);
    begin_document(w, o, job);
    if (!tok_encode(w, json_string_value(v), json_string_length(v), &job->ids))
        return line_failed(job, line, "%s", w->error);
    end_document(w, o, job);
    return true;
}

static bool run_line(TokWorker *w, const TokOptions *o, TokJob *job, const char *s,
                     size_t n, int64_t line)
{
    json_error_t error;
    json_t *record;
    bool good;

    if (tok_space_begin(s, n) == n) {
        job->skipped++;
        return true;
    }
    record = json_loadb(s, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!record)
        return line_failed(job, line, "column %d: %s",
                           error.column > 0 ? error.column : 1, error.text);
    good = run_record(w, o, job, record, line);
    json_decref(record);
    return good;
}

static bool run_lines(TokWorker *w, const TokOptions *o, TokJob *job)
{
    int64_t line = job->line;

    for (size_t at = job->from, next; at < job->to; at = next, line++) {
        const char *end = memchr(job->s + at, '\n', job->to - at);

        next = end ? (size_t)(end - job->s) + 1 : job->to;
        if (!run_line(w, o, job, job->s + at, next - at - (end != NULL), line))
            return false;
    }
    return true;
}

void tok_job_run(TokWorker *w, const TokOptions *o, TokJob *job)
{
    job->ids.n = 0;
    job->documents = job->skipped = 0;
    job->error[0] = w->error[0] = '\0';
    if (job->begins)
        begin_document(w, o, job);
    switch (job->kind) {
    case TOK_JOB_LINES:
        job->good = run_lines(w, o, job);
        break;
    case TOK_JOB_TEXT:
        job->good = tok_encode(w, job->s + job->from, job->to - job->from, &job->ids);
        break;
    case TOK_JOB_STRETCH:
        job->good = tok_encode_stretch(w, job->s, job->n, job->from, job->to, &job->end,
                                       &job->ids);
        break;
    }
    if (job->good && job->ends)
        end_document(w, o, job);
    if (!job->good && !job->error[0])
        snprintf(job->error, sizeof job->error, "%.200s: %.290s", job->input->name,
                 w->error);
}
