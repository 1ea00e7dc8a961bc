/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_lines.c: runs a job: its text, or its JSON lines, to ids. In: a job, which
 * owns its text. Out: ids, and how far they go; or an error that names file and line. */
#include "tokenize/tokenize.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

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

void tok_end_document(const TokWorker *w, const TokOptions *o, TokJob *job)
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
    const int n = snprintf(job->error, sizeof job->error, "%.200s:%lld: ", job->name,
                           (long long)line);

    va_start(ap, fmt);
    vsnprintf(job->error + n, sizeof job->error - (size_t)n, fmt, ap);
    va_end(ap);
    return false;
}

/* The names in an object, for a message. */
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

/* The template writes what begins a chat. */
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

    if (!v && w->chat && !strcmp(o->field, "messages"))
        v = json_object_get(record, "conversations"); /* ShareGPT's */
    if (!json_is_object(record))
        return line_failed(job, line, "a line is one JSON object");
    if (!v)
        return line_failed(job, line, "no field `%.60s`; it has %s (--field NAME)",
                           o->field, names_of(record, names, sizeof names));
    if (o->held_below && tok_is_held_out(o, v) != o->only_held_out) {
        job->left_out++;
        return true;
    }
    if (w->chat)
        return run_chat(w, o, job, v, record, line);
    if (!json_is_string(v))
        return line_failed(job, line, "the field `%.60s` is not text", o->field);
    begin_document(w, o, job);
    if (!tok_encode(w, json_string_value(v), json_string_length(v), true, &job->ids))
        return line_failed(job, line, "%s", w->error);
    tok_end_document(w, o, job);
    return true;
}

static bool run_line(TokWorker *w, const TokOptions *o, TokJob *job, const char *s,
                     size_t n, int64_t line)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_error_t error;
    json_t *record;
    bool good;

    if (tok_space_begin(s, n) == n) {
        job->skipped++;
        return true;
    }
    record = json_loadb(s, n, flags, &error);
    if (!record && !w->chat && json_error_code(&error) == json_error_numeric_overflow)
        record = json_loadb(s, n, flags | JSON_DECODE_INT_AS_REAL, &error);
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

    for (size_t at = 0, next; at < job->to; at = next, line++) {
        const char *end = memchr(job->s + at, '\n', job->to - at);

        next = end ? (size_t)(end - job->s) + 1 : job->to;
        if (!run_line(w, o, job, job->s + at, next - at - (end != NULL), line))
            return false;
    }
    return true;
}

bool tok_job_fails(TokJob *job, const char *why)
{
    snprintf(job->error, sizeof job->error, "%.200s: %.290s", job->name, why);
    return false;
}

void tok_job_run(TokWorker *w, const TokOptions *o, TokJob *job)
{
    job->ids.n = 0;
    job->documents = job->skipped = job->left_out = 0;
    job->error[0] = w->error[0] = '\0';
    if (job->begins)
        begin_document(w, o, job);
    switch (job->kind) {
    case TOK_JOB_LINES:
        job->good = run_lines(w, o, job);
        break;
    case TOK_JOB_TEXT:
        job->good = tok_encode(w, job->s, job->to, job->begins, &job->ids);
        break;
    case TOK_JOB_PART:
        job->good = tok_encode_part(w, job->s, job->to, TOK_FIND_ALL, &job->ids);
        break;
    case TOK_JOB_STRETCH:
        job->good = tok_encode_stretch(w, job->s, job->n, job->last, job->to, &job->end,
                                       &job->ids);
        break;
    }
    if (job->good && job->ends && job->kind != TOK_JOB_STRETCH)
        tok_end_document(w, o, job);
    if (!job->good && !job->error[0])
        tok_job_fails(job, w->error);
}
