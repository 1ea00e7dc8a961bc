/* SPDX-License-Identifier: Apache-2.0 */
/* runs_page.c: the HTML page of a report. In: runs; templates/report/. Out: one text that
 * loads nothing from elsewhere: a table of figures, remarks, the settings of each run,
 * and the curves as JSON, which the page's own script draws.
 *
 * Text from logs and paths is escaped for its place: as HTML text, or as JSON without any
 * `<`. The page's policy names the hashes of its script and its style (tests/report
 * checks them), so a browser runs nothing else. */
#include "report/runs.h"
#include "base/show.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CURVE_POINTS = 1200, KNOTS = 256 };
static const char unknown[] = "&ndash;"; /* in a cell */

static void add(Text *t, const char *s)
{
    text_add(t, s, strlen(s));
}

/* ---- text in HTML ---------------------------------------------------------------- */

static void add_html(Text *t, const char *s)
{
    Text clean = {.g = t->g};

    text_add(&clean, "", 0);
    text_printable(&clean, s, strlen(s), false);
    for (size_t i = 0; i < clean.len; i++) {
        const char c = clean.s[i];
        const char *as = c == '&'   ? "&amp;"
                         : c == '<' ? "&lt;"
                         : c == '>' ? "&gt;"
                         : c == '"' ? "&quot;"
                                    : NULL;

        if (as)
            add(t, as);
        else
            text_add(t, &c, 1);
    }
}

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

static const char *show_time(Gen *g, double seconds)
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
    return show_time(g, row->s.seconds);
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

    add(t, "<table>\n<thead><tr><th scope=\"col\">Run</th>");
    for (int c = 0; c < N_COLUMNS; c++) {
        filled[c] = is_filled(g, &columns[c], rows, n);
        if (filled[c])
            text_printf(t, "<th scope=\"col\">%s</th>", columns[c].head);
    }
    add(t, "</tr></thead>\n<tbody>\n");
    for (int i = 0; i < n; i++) {
        text_printf(t, "<tr><th scope=\"row\"%s>",
                    n > 1 ? gen_printf(g, " data-run=\"%d\"", i) : "");
        add_html(t, rows[i].r->label);
        add(t, "</th>");
        for (int c = 0; c < N_COLUMNS; c++)
            if (filled[c])
                text_printf(t, "<td>%s</td>", columns[c].show(g, &rows[i]));
        add(t, "</tr>\n");
    }
    add(t, "</tbody>\n</table>");
}

/* ---- remarks --------------------------------------------------------------------- */

static void add_note(Gen *g, Text *t, const Row *row, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void add_note(Gen *g, Text *t, const Row *row, const char *fmt, ...)
{
    va_list ap;

    add(t, "<li>");
    add_html(t, row->r->label);
    va_start(ap, fmt);
    add(t, ": ");
    add_html(t, gen_vprintf(g, fmt, ap));
    va_end(ap);
    add(t, "</li>\n");
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

    add(t, "<ul class=\"notes\">\n");
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
            add_note(g, t, row, "resumed %zu time%s; %zu steps were computed again",
                     r->resumes, r->resumes == 1 ? "" : "s", r->replaced);
        if (r->cut)
            add_note(g, t, row, "the last line of the log is incomplete and left out");
    }
    if (t->len == begin)
        t->s[t->len = before] = '\0';
    else
        add(t, "</ul>");
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
    add(&t, json_is_string(v) ? json_string_value(v) : s ? s : "");
    free(s);
    if (t.len > MAX_VALUE_BYTES) {
        t.s[t.len = MAX_VALUE_BYTES] = '\0';
        add(&t, "...");
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
            const char *s = value_of(g, runs->items[i].record, key);

            if (value && strcmp(value, s) != 0)
                return true;
            value = s;
        }
    return false;
}

static void add_records(Gen *g, Text *t, const RunList *runs)
{
    Keys keys = {0};

    for (int i = 0; i < runs->count; i++)
        add_keys(g, &keys, runs->items[i].record);
    if (!keys.count)
        return;
    add(t, "<section class=\"records\">\n<h2>What was run</h2>\n<div class=\"scroll\">\n"
           "<table>\n<thead><tr><th scope=\"col\"></th>");
    for (int i = 0; i < runs->count; i++) {
        add(t, "<th scope=\"col\">");
        add_html(t, runs->items[i].label);
        add(t, "</th>");
    }
    add(t, "</tr></thead>\n<tbody>\n");
    for (int k = 0; k < keys.count; k++) {
        text_printf(t, "<tr%s><th scope=\"row\">",
                    differs(g, runs, keys.items[k]) ? " class=\"differs\"" : "");
        add_html(t, keys.items[k]);
        add(t, "</th>");
        for (int i = 0; i < runs->count; i++) {
            const char *value = value_of(g, runs->items[i].record, keys.items[k]);

            add(t, "<td>");
            add_html(t, *value ? value : "\xe2\x80\x93");
            add(t, "</td>");
        }
        add(t, "</tr>\n");
    }
    add(t, "</tbody>\n</table>\n</div>\n</section>");
}

/* ---- the curves ------------------------------------------------------------------ */

/* As JSON in which no byte can end the surrounding element. */
static void add_string(Gen *g, Text *t, const char *s)
{
    Text clean = {.g = g};
    json_t *v;
    char *quoted;

    text_add(&clean, "", 0);
    text_printable(&clean, s, strlen(s), false);
    v = json_stringn(clean.s, clean.len);
    quoted = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
    gen_require(quoted, "a text cannot be written as JSON");
    for (const char *c = quoted; *c; c++)
        if (*c == '<' || *c == '>' || *c == '&')
            text_printf(t, "\\u%04x", *c);
        else
            text_add(t, c, 1);
    free(quoted);
    json_decref(v);
}

static void add_number(Text *t, double x)
{
    if (isfinite(x))
        text_printf(t, "%.7g", x);
    else
        add(t, "null");
}

/* The members of a curve. */
static void add_curve(Text *t, RunCurve c)
{
    add(t, "\"s\":[");
    for (int i = 0; i < c.count; i++)
        text_printf(t, "%s%" PRId64, i ? "," : "", c.items[i].step);
    add(t, "],\"v\":[");
    for (int i = 0; i < c.count; i++) {
        add(t, i ? "," : "");
        add_number(t, c.items[i].value);
    }
    add(t, "]");
}

/* Steps, tokens and seconds of some rows; the script interpolates linearly. */
static void add_knots(Text *t, const RunLog *r)
{
    const size_t n = r->n < KNOTS ? r->n : KNOTS;
    static const char *const names[] = {"step", "tokens", "seconds"};
    bool known = true;

    for (size_t i = 0; i < r->n; i++)
        known = known && isfinite(r->rows[i].tokens);
    add(t, "\"x\":{");
    for (int k = 0; k < 3; k++) {
        text_printf(t, "%s\"%s\":", k ? "," : "", names[k]);
        if ((k == 1 && !known) || (k == 2 && !(r->rows[r->n - 1].seconds > 0))) {
            add(t, "null");
            continue;
        }
        add(t, "[");
        for (size_t i = 0; i < n; i++) {
            const RunRow *row = &r->rows[n > 1 ? i * (r->n - 1) / (n - 1) : 0];

            add(t, i ? "," : "");
            if (k == 0)
                text_printf(t, "%" PRId64, row->step);
            else
                text_printf(t, "%.10g", k == 1 ? row->tokens : row->seconds);
        }
        add(t, "]");
    }
    add(t, "}");
}

static void add_run(Gen *g, Text *t, const RunLog *r, int points)
{
    bool first = true;

    add(t, "{\"label\":");
    add_string(g, t, r->label);
    text_printf(t, ",\"plan\":%" PRId64 ",\"over\":%d,", r->plan_bytes,
                runs_smooth_steps(r));
    add_knots(t, r);
    add(t, ",\n\"series\":{");
    for (int s = 0; s < RUN_SERIES; s++) {
        if (!runs_has(r, (RunSeries)s) || (s == RUN_SKIPPED && runs_most(r, s) <= 0))
            continue;
        text_printf(t, "%s\n\"%s\":{", first ? "" : ",", run_series[s].key);
        add_curve(t, runs_curve(g, r, (RunSeries)s, points));
        if (runs_smooths((RunSeries)s) && runs_smooth_steps(r)) {
            add(t, ",\n\"smooth\":{");
            add_curve(t, runs_smooth(g, r, (RunSeries)s, points));
            add(t, "}");
        }
        add(t, "}");
        first = false;
    }
    add(t, "}}");
}

static void add_data(Gen *g, Text *t, const RunList *runs)
{
    const int all = MAX_PAGE_POINTS / (runs->count * (RUN_SERIES + 2));
    const int points = all < MAX_CURVE_POINTS ? all : MAX_CURVE_POINTS;

    add(t, "{\"charts\":[");
    for (int s = 0; s < RUN_SERIES; s++)
        text_printf(t, "%s{\"key\":\"%s\",\"title\":\"%s\",\"unit\":\"%s\"}",
                    s ? ",\n" : "", run_series[s].key, run_series[s].title,
                    run_series[s].unit);
    add(t, "],\n\"runs\":[\n");
    for (int i = 0; i < runs->count; i++) {
        add(t, i ? ",\n" : "");
        add_run(g, t, &runs->items[i], points);
    }
    add(t, "]}");
}

/* ---- the page -------------------------------------------------------------------- */

static const Embedded *part(const char *name)
{
    char path[64];
    const Embedded *e;

    snprintf(path, sizeof path, "templates/report/%s", name);
    e = embed_find(path);
    gen_require(e, "%s is not built in", path);
    return e;
}

static void add_part(Text *t, const char *name)
{
    const Embedded *e = part(name);

    text_add(t, (const char *)e->data, e->bytes);
}

static void add_title(Text *t, const RunList *runs)
{
    enum { MOST = 4 };

    for (int i = 0; i < runs->count && i < MOST; i++) {
        add(t, i ? ", " : "");
        add_html(t, runs->items[i].label);
    }
    if (runs->count > MOST)
        text_printf(t, " and %d more", runs->count - MOST);
}

static void fill_in(Gen *g, Text *t, const char *word, size_t n, const RunList *runs,
                    const Row *rows)
{
    const char *name = gen_strndup(g, word, n);

    if (!strcmp(name, "version"))
        add(t, FSDPGEN_VERSION);
    else if (!strcmp(name, "title"))
        add_title(t, runs);
    else if (!strcmp(name, "style"))
        add_part(t, "page.css");
    else if (!strcmp(name, "script"))
        add_part(t, "page.js");
    else if (!strcmp(name, "summary"))
        add_summary(g, t, rows, runs->count);
    else if (!strcmp(name, "notes"))
        add_notes(g, t, rows, runs->count);
    else if (!strcmp(name, "records"))
        add_records(g, t, runs);
    else if (!strcmp(name, "data"))
        add_data(g, t, runs);
    else
        gen_die("templates/report/page.html: unknown word @%s@", name);
}

void runs_page(Gen *g, const RunList *runs, Text *t)
{
    const Embedded *page = part("page.html");
    const char *s = (const char *)page->data, *end = s + page->bytes, *at;
    Row rows[MAX_RUNS];

    for (int i = 0; i < runs->count; i++)
        rows[i] =
            (Row){&runs->items[i], runs_summary(g, &runs->items[i], &runs->items[0])};
    while ((at = memchr(s, '@', (size_t)(end - s))) != NULL) {
        const char *to = memchr(at + 1, '@', (size_t)(end - at - 1));

        gen_require(to, "templates/report/page.html: a @ without its end");
        text_add(t, s, (size_t)(at - s));
        fill_in(g, t, at + 1, (size_t)(to - at - 1), runs, rows);
        s = to + 1;
    }
    text_add(t, s, (size_t)(end - s));
}
