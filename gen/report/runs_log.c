/* SPDX-License-Identifier: Apache-2.0 */
/* runs_log.c: the lines of a log of `trainer --log`. In: a file that others may have
 * written, or that a trainer is writing now. Out: a row per step, the record at the start
 * of the log and those of resumes; messages name file, line and column.
 *
 * Steps increase in the rows. A line whose step is not above the previous one comes from
 * a resumed run that computes it again, so rows from that step on are dropped. An
 * incomplete last line is ignored. */
#include "report/runs.h"

#include "base/json_place.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_COMPLAINTS = 20 };
static const int64_t max_step = INT64_C(1) << 53;
static const char help[] = "give a file that `trainer --log FILE` wrote";

const RunSeriesName run_series[RUN_SERIES] = {
    [RUN_LOSS] = {"loss", "Loss", "nats per token"},
    [RUN_EVAL] = {"eval_loss", "Evaluation loss", "nats per token"},
    [RUN_GRAD_NORM] = {"grad_norm", "Gradient norm", ""},
    [RUN_LR] = {"lr", "Learning rate", ""},
    [RUN_RATE] = {"tokens_per_second", "Throughput", "tokens per second"},
    [RUN_MFU] = {"mfu", "Model FLOPs utilization", "of the peak"},
    [RUN_MEMORY] = {"memory_bytes", "Peak memory", "rank 0"},
    [RUN_SCALE] = {"loss_scale", "Loss scale", ""},
    [RUN_SKIPPED] = {"skipped", "Skipped updates", "since the start"},
};

/* ---- lines ----------------------------------------------------------------------- */

typedef struct Lines {
    int fd, number; /* number of the last line read */
    char *buffer;   /* MAX_LINE_BYTES */
    size_t from, to;
    bool end; /* of the file */
    int error;
} Lines;

/* Moves the rest to the front, and reads more behind it. */
static bool fill(Lines *l)
{
    ssize_t got;

    memmove(l->buffer, l->buffer + l->from, l->to - l->from);
    l->to -= l->from;
    l->from = 0;
    if (l->to == MAX_LINE_BYTES)
        return false;
    do
        got = read(l->fd, l->buffer + l->to, MAX_LINE_BYTES - l->to);
    while (got < 0 && errno == EINTR);
    l->error = got < 0 ? errno : 0;
    l->end = got <= 0;
    l->to += got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* CUT_LINE: the file ends inside the line. */
typedef enum { NO_LINE, LINE, CUT_LINE, LONG_LINE } LineKind;

static LineKind next_line(Lines *l, const char **s, size_t *n)
{
    const char *newline;
    LineKind kind;

    do
        newline = memchr(l->buffer + l->from, '\n', l->to - l->from);
    while (!newline && !l->end && fill(l));
    *s = l->buffer + l->from;
    *n = newline ? (size_t)(newline - *s) : l->to - l->from;
    kind = newline ? LINE : *n == 0 ? NO_LINE : l->end ? CUT_LINE : LONG_LINE;
    l->from += *n + (kind == LINE);
    l->number += kind != NO_LINE;
    return kind;
}

/* ---- the contents of a line ------------------------------------------------------ */

typedef struct Reader {
    Gen *g;
    RunLog *r;
    const char *file, *s; /* the line */
    size_t n, max_rows;
    int number, complaints;
    bool resumed; /* a record said so, and no step came since */
} Reader;

static void complain(Reader *d, int col, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void complain(Reader *d, int col, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    diag_add(d->g, DIAG_ERROR, (Pos){d->file, d->number, col, 1}, help, "%s",
             gen_vprintf(d->g, fmt, ap));
    va_end(ap);
    d->complaints++;
}

static int column_of(const Reader *d, const char *key)
{
    return json_place(d->file, d->s, d->n, key).col;
}

static const char *kind_of(const json_t *v)
{
    static const char *const kinds[] = {"an object", "a list", "a text", "a number",
                                        "a number",  "true",   "false",  "null"};

    return kinds[json_typeof(v)];
}

/* NAN if it is null or absent. */
static double number(Reader *d, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    if (json_is_number(v))
        return json_number_value(v);
    if (v && !json_is_null(v))
        complain(d, column_of(d, key), "%s: expected a number or null, got %s", key,
                 kind_of(v));
    return NAN;
}

static void drop_rows_from(Reader *d, int64_t step)
{
    RunLog *r = d->r;
    size_t n = r->n;

    while (n > 0 && r->rows[n - 1].step >= step)
        n--;
    if (n < r->n) {
        r->resumes += !d->resumed;
        r->replaced += r->n - n;
        r->n = n;
    }
    d->resumed = false;
}

static RunRow *push_row(Reader *d)
{
    RunLog *r = d->r;

    if (r->n == d->max_rows) {
        diag_add(d->g, DIAG_ERROR, (Pos){d->file, d->number, 0, 0},
                 "report fewer runs at once", "more than %d steps in all logs", MAX_ROWS);
        d->complaints = MAX_COMPLAINTS;
        return NULL;
    }
    if (r->n == r->cap) {
        r->cap = r->cap ? r->cap + r->cap / 2 : 1024;
        r->rows = realloc(r->rows, r->cap * sizeof *r->rows);
        if (!r->rows)
            gen_out_of_memory(r->cap * sizeof *r->rows);
    }
    return &r->rows[r->n++];
}

static void take_step(Reader *d, const json_t *o)
{
    const json_t *v = json_object_get(o, "step");
    const int64_t step = json_is_integer(v) ? json_integer_value(v) : 0;
    RunLog *r = d->r;
    const RunRow *last;
    RunRow row = {.step = step}, *to;
    double seconds;

    if (step < 1 || step > max_step) {
        complain(d, column_of(d, "step"), "step: expected a whole number of at least 1");
        return;
    }
    drop_rows_from(d, step);
    last = r->n ? &r->rows[r->n - 1] : NULL;
    row.tokens = number(d, o, "tokens");
    seconds = number(d, o, "step_seconds");
    row.seconds = (last ? last->seconds : 0) + (seconds > 0 ? seconds : 0);
    for (int i = 0; i < RUN_SERIES; i++)
        row.value[i] = number(d, o, run_series[i].key);
    if ((to = push_row(d)) != NULL)
        *to = row;
}

bool runs_changed(const json_t *before, const json_t *after, const char *key)
{
    static const char *const always[] = {"first_step", "resumed_from", "start_time"};

    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (!strcmp(key, always[i]))
            return false;
    return !json_equal(json_object_get(before, key), json_object_get(after, key));
}

/* The record describes the rows from here on, so earlier ones that described these are
 * left out. */
static void take_again(Reader *d, json_t *record)
{
    const json_t *first = json_object_get(record, "first_step");
    RunLog *r = d->r;
    RunAgain *again;
    int64_t step = json_is_integer(first) ? json_integer_value(first)
                   : r->n                 ? r->rows[r->n - 1].step
                                          : 0;

    d->resumed = json_is_string(json_object_get(record, "resumed_from"));
    r->resumes += d->resumed;
    step = step < 0 || step >= max_step ? 1 : step + 1;
    while (r->again.count > 0 && r->again.items[r->again.count - 1].step >= step)
        json_decref(r->again.items[--r->again.count].record);
    if (step == 1) {
        json_decref(r->record);
        r->record = json_incref(record);
        return;
    }
    again = gen_push(d->g, &r->again);
    *again = (RunAgain){json_incref(record), step};
}

static void take_record(Reader *d, json_t *record)
{
    if (!json_is_object(record))
        complain(d, column_of(d, "run"), "run: expected an object, got %s",
                 kind_of(record));
    else if (!d->r->record)
        d->r->record = json_incref(record);
    else
        take_again(d, record);
}

static void take_object(Reader *d, const json_t *o)
{
    if (!json_is_object(o))
        complain(d, 1, "expected an object, got %s", kind_of(o));
    else if (json_object_get(o, "step"))
        take_step(d, o);
    else if (json_object_get(o, "run"))
        take_record(d, json_object_get(o, "run"));
    else
        d->r->other_lines++;
}

/* jansson's position is behind the token with which its message ends: near 'TOKEN'. */
static int column_of_error(const json_error_t *e)
{
    const char *near = strstr(e->text, "near '");
    const int token = near ? (int)strlen(near + strlen("near '")) - 1 : 1;
    const int col = e->position - token + 1;

    return col > 0 ? col : 1;
}

/* False: the file is not a log, so one message is enough. */
static bool take_line(Reader *d, LineKind kind)
{
    json_error_t e;
    json_t *o = json_loadb(d->s, d->n, JSON_REJECT_DUPLICATES, &e);

    if (o)
        take_object(d, o);
    else if (kind == CUT_LINE)
        d->r->cut = true;
    else
        complain(d, column_of_error(&e), "%s", json_problem(d->g, &e));
    json_decref(o);
    return o || kind == CUT_LINE || d->number > 1 || d->s[0] == '{';
}

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r')
            return false;
    return true;
}

static void read_lines(Reader *d, Lines *l)
{
    LineKind kind = LINE;
    bool is_log = true;

    while (is_log && d->complaints < MAX_COMPLAINTS && kind != LONG_LINE &&
           (kind = next_line(l, &d->s, &d->n)) != NO_LINE) {
        d->number = l->number;
        if (kind == LONG_LINE)
            complain(d, 0, "a line of more than %d bytes", MAX_LINE_BYTES);
        else if (!is_blank(d->s, d->n))
            is_log = take_line(d, kind);
    }
    if (l->error)
        complain(d, 0, "cannot be read further: %s", strerror(l->error));
    d->number = 0;
    if (d->r->n == 0 && d->complaints == 0)
        complain(d, 0,
                 d->r->cut || d->r->record ? "no step is complete yet"
                                           : "it has no line of a step");
}

void runs_read(Gen *g, RunLog *r, const char *file, size_t max_rows)
{
    FileMark mark;
    Lines l = {.fd = file_open(file, &mark)};
    Reader d = {.g = g, .r = r, .file = file, .max_rows = max_rows};

    if (l.fd < 0) {
        diag_add(g, DIAG_ERROR, (Pos){.file = file}, help, "cannot be read: %s",
                 file_problem(errno));
        return;
    }
    l.buffer = gen_calloc(MAX_LINE_BYTES, 1);
    read_lines(&d, &l);
    close(l.fd);
    free(l.buffer);
}
