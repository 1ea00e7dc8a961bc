/* SPDX-License-Identifier: Apache-2.0 */
/* runs_page.c: the HTML page of a report. In: runs; templates/report/. Out: one text that
 * loads nothing from elsewhere: a table of figures, remarks, the settings of each run,
 * and the curves as JSON, which the page's own script draws.
 *
 * Text from logs and paths is escaped for its place: as HTML text, or as JSON without any
 * `<`. The page's policy names the hashes of its script and its style (tests/report
 * checks them), so a browser runs nothing else. */
#include "report/html.h"
#include "report/runs.h"
#include "base/show.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CURVE_POINTS = 1200, KNOTS = 256 };
static const char unknown[] = "&ndash;"; /* in a cell */

static const char *show_real(Gen *g, double x, int digits)
{
    return isfinite(x) ? gen_printf(g, "%.*g", digits, x) : unknown;
}

static const char *show_tokens(Gen *g, double x)
{
    return !isfinite(x)    ? unknown
           : fabs(x) < 1e7 ? show_grouped(g, (int64_t)x)
                           : show_count(g, x);
}

static const char *show_percent(Gen *g, double x)
{
    return isfinite(x) ? gen_printf(g, "%.2f %%", 100 * x) : unknown;
}

static const char *show_memory(Gen *g, double x)
{
    return x > 0 && x < 9e18 ? show_bytes(g, (int64_t)x) : unknown;
}

/* How long a run took, of which all minutes count. */
static const char *show_elapsed(Gen *g, double seconds)
{
    const int64_t s = seconds >= 0 && seconds < 9e15 ? (int64_t)(seconds + 0.5) : 0;

    return s < 60 ? gen_printf(g, "%.3g s", seconds)
           : s < 3600
               ? gen_printf(g, "%" PRId64 " min %02" PRId64 " s", s / 60, s % 60)
               : gen_printf(g, "%" PRId64 " h %02" PRId64 " min", s / 3600, s / 60 % 60);
}

/* ---- the table of figures -------------------------------------------------------- */

typedef struct Row {
    const RunLog *r;
    RunSummary s;
} Row;

/* A column, in HTML; omitted if no run has a value. */
typedef struct Column {
    const char *head;
    const char *(*show)(Gen *g, const Row *row);
    bool optional;
} Column;

static const char *col_steps(Gen *g, const Row *row)
{
    return show_grouped(g, row->s.steps);
}
static const char *col_tokens(Gen *g, const Row *row)
{
    return show_tokens(g, row->s.tokens);
}
static const char *col_loss(Gen *g, const Row *row)
{
    return show_real(g, row->s.loss, 5);
}
static const char *col_smooth(Gen *g, const Row *row)
{
    return show_real(g, row->s.smooth_loss, 5);
}
static const char *col_eval(Gen *g, const Row *row)
{
    return show_real(g, row->s.eval, 5);
}
static const char *col_best(Gen *g, const Row *row)
{
    if (!row->s.best_eval_step)
        return unknown;
    return gen_printf(g, "%.5g <small>at %s</small>", row->s.best_eval,
                      show_grouped(g, row->s.best_eval_step));
}
static const char *col_norm(Gen *g, const Row *row)
{
    return show_real(g, row->s.grad_norm, 4);
}
static const char *col_rate(Gen *g, const Row *row)
{
    return show_tokens(g, row->s.rate);
}
static const char *col_mfu(Gen *g, const Row *row)
{
    return show_percent(g, row->s.mfu);
}
static const char *col_memory(Gen *g, const Row *row)
{
    return show_memory(g, row->s.memory);
}
static const char *col_plan(Gen *g, const Row *row)
{
    return show_memory(g, (double)row->r->plan_bytes);
}
static const char *col_skipped(Gen *g, const Row *row)
{
    return show_tokens(g, row->s.skipped);
}
static const char *col_time(Gen *g, const Row *row)
{
    return show_elapsed(g, row->s.seconds);
}

static const Column columns[] = {
    {"Steps", col_steps, false},
    {"Tokens", col_tokens, false},
    {"Final<br>loss", col_loss, false},
    {"Smoothed<br>loss", col_smooth, true},
    {"Last<br>evaluation", col_eval, true},
    {"Best<br>evaluation", col_best, true},
    {"Median<br>gradient norm", col_norm, true},
    {"Median<br>tokens / s", col_rate, true},
    {"Median<br>MFU", col_mfu, true},
    {"Peak<br>memory", col_memory, true},
    {"Planned<br>memory", col_plan, true},
    {"Skipped<br>updates", col_skipped, true},
    {"Training<br>time", col_time, false},
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

static bool is_filled(Gen *g, const Column *c, const Row *rows, int n)
{
    for (int i = 0; i < n; i++)
        if (!c->optional || strcmp(c->show(g, &rows[i]), unknown) != 0)
            return true;
    return false;
}

static void add_summary(Gen *g, Text *t, const Row *rows, int n)
{
    bool filled[N_COLUMNS];

    html_add(t, "<table>\n<thead><tr><th scope=\"col\">Run</th>");
    for (int c = 0; c < N_COLUMNS; c++) {
        filled[c] = is_filled(g, &columns[c], rows, n);
        if (filled[c])
            text_printf(t, "<th scope=\"col\">%s</th>", columns[c].head);
    }
    html_add(t, "</tr></thead>\n<tbody>\n");
    for (int i = 0; i < n; i++) {
        text_printf(t, "<tr><th scope=\"row\"%s>",
                    n > 1 ? gen_printf(g, " data-run=\"%d\"", i) : "");
        html_text(t, rows[i].r->label);
        html_add(t, "</th>");
        for (int c = 0; c < N_COLUMNS; c++)
            if (filled[c])
                text_printf(t, "<td>%s</td>", columns[c].show(g, &rows[i]));
        html_add(t, "</tr>\n");
    }
    html_add(t, "</tbody>\n</table>");
}

/* ---- remarks --------------------------------------------------------------------- */

static void add_note(Gen *g, Text *t, const Row *row, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void add_note(Gen *g, Text *t, const Row *row, const char *fmt, ...)
{
    va_list ap;

    html_add(t, "<li>");
    html_text(t, row->r->label);
    va_start(ap, fmt);
    html_add(t, ": ");
    html_text(t, gen_vprintf(g, fmt, ap));
    va_end(ap);
    html_add(t, "</li>\n");
}

static void note_same(Gen *g, Text *t, const Row *row, const Row *first)
{
    if (row->s.differs)
        add_note(g, t, row, "the loss differs from that of %s from step %s on",
                 first->r->label, show_grouped(g, row->s.differs));
    else if (row->s.common)
        add_note(g, t, row, "the same loss as %s, to the bit, at all %s common steps",
                 first->r->label, show_grouped(g, row->s.common));
}

static void add_notes(Gen *g, Text *t, const Row *rows, int n)
{
    const size_t before = t->len;
    size_t begin;

    html_add(t, "<ul class=\"notes\">\n");
    begin = t->len;
    for (int i = 0; i < n; i++) {
        const Row *row = &rows[i];
        const RunLog *r = row->r;

        if (i > 0)
            note_same(g, t, row, &rows[0]);
        if (row->s.not_finite)
            add_note(g, t, row, "%s steps without a finite loss",
                     show_grouped(g, row->s.not_finite));
        if (r->resumes)
            add_note(g, t, row, "resumed %zu time%s%s", r->resumes,
                     r->resumes == 1 ? "" : "s",
                     r->replaced
                         ? gen_printf(g, "; %zu steps were computed again", r->replaced)
                         : "");
        if (r->cut)
            add_note(g, t, row, "the last line of the log is incomplete and left out");
    }
    if (t->len == begin)
        t->s[t->len = before] = '\0';
    else
        html_add(t, "</ul>");
}

/* ---- the settings of each run ---------------------------------------------------- */

enum { MAX_KEYS = 64, MAX_VALUE_BYTES = 240 };

typedef struct Keys {
    const char **items;
    int count, cap;
} Keys;

static void add_key(Gen *g, Keys *keys, const char *key)
{
    for (int i = 0; i < keys->count; i++)
        if (!strcmp(keys->items[i], key))
            return;
    if (keys->count < MAX_KEYS)
        *gen_push(g, keys) = gen_strdup(g, key);
}

/* A text as it is, anything else as JSON; "" if absent. */
static const char *text_of(Gen *g, const json_t *v)
{
    char *s;
    Text t = {.g = g};

    if (!v || json_is_null(v))
        return "";
    s = json_is_string(v) ? NULL
                          : json_dumps(v, JSON_ENCODE_ANY | JSON_PRESERVE_ORDER |
                                              JSON_REAL_PRECISION(12));
    html_add(&t, json_is_string(v) ? json_string_value(v) : s ? s : "");
    free(s);
    if (t.len > MAX_VALUE_BYTES) {
        t.s[t.len = MAX_VALUE_BYTES] = '\0';
        html_add(&t, "...");
    }
    return t.s;
}

/* The value of a key, or of a member of an object of the record: "mesh.shard". */
static const char *value_of(Gen *g, const json_t *record, const char *key)
{
    const json_t *v = json_object_get(record, key);
    const char *dot = v ? NULL : strchr(key, '.');

    if (dot)
        v = json_object_get(
            json_object_get(record, gen_strndup(g, key, (size_t)(dot - key))), dot + 1);
    return text_of(g, v);
}

/* Is the key, or the object with that member, another one after a resume? */
static bool key_changed(Gen *g, const json_t *before, const json_t *after,
                        const char *key)
{
    const char *dot = json_object_get(before, key) || json_object_get(after, key)
                          ? NULL
                          : strchr(key, '.');

    return runs_changed(before, after,
                        dot ? gen_strndup(g, key, (size_t)(dot - key)) : key) &&
           strcmp(value_of(g, before, key), value_of(g, after, key)) != 0;
}

/* The value of a key over the run: "2, from step 31: 4". */
static const char *values_of(Gen *g, const RunLog *r, const char *key)
{
    const char *value = value_of(g, r->record, key);
    const json_t *before = r->record;
    Text t = {.g = g};

    html_add(&t, *value ? value : "\xe2\x80\x93");
    for (int i = 0; i < r->again.count; before = r->again.items[i++].record) {
        const RunAgain *again = &r->again.items[i];

        if (key_changed(g, before, again->record, key)) {
            value = value_of(g, again->record, key);
            html_add(&t, gen_printf(g, ", from step %s: %s", show_grouped(g, again->step),
                                    *value ? value : "\xe2\x80\x93"));
        }
    }
    return t.s;
}

static void add_keys(Gen *g, Keys *keys, const json_t *record)
{
    const char *key, *member;
    json_t *v, *w;

    json_object_foreach((json_t *)record, key, v)
    {
        if (!json_is_object(v) || strchr(key, '.')) {
            add_key(g, keys, key);
            continue;
        }
        json_object_foreach(v, member, w)
            add_key(g, keys, gen_printf(g, "%s.%s", key, member));
    }
}

/* Does it differ among the runs that have a record? */
static bool differs(Gen *g, const RunList *runs, const char *key)
{
    const char *value = NULL;

    for (int i = 0; i < runs->count; i++)
        if (runs->items[i].record) {
            const char *s = values_of(g, &runs->items[i], key);

            if (value && strcmp(value, s) != 0)
                return true;
            value = s;
        }
    return false;
}

static void add_records(Gen *g, Text *t, const RunList *runs)
{
    Keys keys = {0};

    for (int i = 0; i < runs->count; i++) {
        const RunLog *r = &runs->items[i];

        add_keys(g, &keys, r->record);
        for (int k = 0; k < r->again.count; k++)
            add_keys(g, &keys, r->again.items[k].record);
    }
    if (!keys.count)
        return;
    html_add(
        t, "<section class=\"records\">\n<h2>What was run</h2>\n<div class=\"scroll\">\n"
           "<table>\n<thead><tr><th scope=\"col\"></th>");
    for (int i = 0; i < runs->count; i++) {
        html_add(t, "<th scope=\"col\">");
        html_text(t, runs->items[i].label);
        html_add(t, "</th>");
    }
    html_add(t, "</tr></thead>\n<tbody>\n");
    for (int k = 0; k < keys.count; k++) {
        text_printf(t, "<tr%s><th scope=\"row\">",
                    differs(g, runs, keys.items[k]) ? " class=\"differs\"" : "");
        html_text(t, keys.items[k]);
        html_add(t, "</th>");
        for (int i = 0; i < runs->count; i++) {
            html_add(t, "<td>");
            html_text(t, values_of(g, &runs->items[i], keys.items[k]));
            html_add(t, "</td>");
        }
        html_add(t, "</tr>\n");
    }
    html_add(t, "</tbody>\n</table>\n</div>\n</section>");
}

/* ---- the curves ------------------------------------------------------------------ */

static void add_number(Text *t, double x)
{
    if (isfinite(x))
        text_printf(t, "%.7g", x);
    else
        html_add(t, "null");
}

/* The members of a curve. */
static void add_curve(Text *t, RunCurve c)
{
    html_add(t, "\"s\":[");
    for (int i = 0; i < c.count; i++)
        text_printf(t, "%s%" PRId64, i ? "," : "", c.items[i].step);
    html_add(t, "],\"v\":[");
    for (int i = 0; i < c.count; i++) {
        html_add(t, i ? "," : "");
        add_number(t, c.items[i].value);
    }
    html_add(t, "]");
}

/* Steps, tokens and seconds of some rows; the script interpolates linearly. */
static void add_knots(Text *t, const RunLog *r)
{
    const size_t n = r->n < KNOTS ? r->n : KNOTS;
    static const char *const names[] = {"step", "tokens", "seconds"};
    bool known = true;

    for (size_t i = 0; i < r->n; i++)
        known = known && isfinite(r->rows[i].tokens);
    html_add(t, "\"x\":{");
    for (int k = 0; k < 3; k++) {
        text_printf(t, "%s\"%s\":", k ? "," : "", names[k]);
        if ((k == 1 && !known) || (k == 2 && !(r->rows[r->n - 1].seconds > 0))) {
            html_add(t, "null");
            continue;
        }
        html_add(t, "[");
        for (size_t i = 0; i < n; i++) {
            const RunRow *row = &r->rows[n > 1 ? i * (r->n - 1) / (n - 1) : 0];

            html_add(t, i ? "," : "");
            if (k == 0)
                text_printf(t, "%" PRId64, row->step);
            else
                text_printf(t, "%.10g", k == 1 ? row->tokens : row->seconds);
        }
        html_add(t, "]");
    }
    html_add(t, "}");
}

static void add_run(Gen *g, Text *t, const RunLog *r, int points)
{
    bool first = true;

    html_add(t, "{\"label\":");
    html_json(g, t, r->label);
    text_printf(t, ",\"plan\":%" PRId64 ",\"over\":%d,", r->plan_bytes,
                runs_smooth_steps(r));
    add_knots(t, r);
    html_add(t, ",\n\"series\":{");
    for (int s = 0; s < RUN_SERIES; s++) {
        if (!runs_has(r, (RunSeries)s) || (s == RUN_SKIPPED && runs_most(r, s) <= 0))
            continue;
        text_printf(t, "%s\n\"%s\":{", first ? "" : ",", run_series[s].key);
        add_curve(t, runs_curve(g, r, (RunSeries)s, points));
        if (runs_smooths((RunSeries)s) && runs_smooth_steps(r)) {
            html_add(t, ",\n\"smooth\":{");
            add_curve(t, runs_smooth(g, r, (RunSeries)s, points));
            html_add(t, "}");
        }
        html_add(t, "}");
        first = false;
    }
    html_add(t, "}}");
}

static void add_data(Gen *g, Text *t, const RunList *runs)
{
    const int all = MAX_PAGE_POINTS / (runs->count * (RUN_SERIES + 2));
    const int points = all < MAX_CURVE_POINTS ? all : MAX_CURVE_POINTS;

    html_add(t, "{\"charts\":[");
    for (int s = 0; s < RUN_SERIES; s++)
        text_printf(t, "%s{\"key\":\"%s\",\"title\":\"%s\",\"unit\":\"%s\"}",
                    s ? ",\n" : "", run_series[s].key, run_series[s].title,
                    run_series[s].unit);
    html_add(t, "],\n\"runs\":[\n");
    for (int i = 0; i < runs->count; i++) {
        html_add(t, i ? ",\n" : "");
        add_run(g, t, &runs->items[i], points);
    }
    html_add(t, "]}");
}

/* ---- the page -------------------------------------------------------------------- */

static void add_title(Text *t, const RunList *runs)
{
    enum { MOST = 4 };

    for (int i = 0; i < runs->count && i < MOST; i++) {
        html_add(t, i ? ", " : "");
        html_text(t, runs->items[i].label);
    }
    if (runs->count > MOST)
        text_printf(t, " and %d more", runs->count - MOST);
}

typedef struct Page {
    const RunList *runs;
    const Row *rows;
} Page;

static void fill_in(Gen *g, Text *t, const char *name, const void *with)
{
    const Page *p = with;

    if (!strcmp(name, "title"))
        add_title(t, p->runs);
    else if (!strcmp(name, "summary"))
        add_summary(g, t, p->rows, p->runs->count);
    else if (!strcmp(name, "notes"))
        add_notes(g, t, p->rows, p->runs->count);
    else if (!strcmp(name, "records"))
        add_records(g, t, p->runs);
    else if (!strcmp(name, "data"))
        add_data(g, t, p->runs);
    else
        gen_die("templates/report/page.html: unknown word @%s@", name);
}

void runs_page(Gen *g, const RunList *runs, Text *t)
{
    Row rows[MAX_RUNS];

    for (int i = 0; i < runs->count; i++)
        rows[i] =
            (Row){&runs->items[i], runs_summary(g, &runs->items[i], &runs->items[0])};
    html_page(g, t, "page.html", fill_in, &(Page){runs, rows});
}
