/* SPDX-License-Identifier: Apache-2.0 */
/* diag.c: messages for users. In: a place, a problem, a help. Out: messages on stderr,
 * all at once and in order of place:
 *
 *     models/tiny.lua:14:11: error: model.ffn: 1001 is not divisible by 4
 *        14 |     ffn = 1001,
 *           |           ^~~~
 *       help: use 1000 or 1004
 *
 * Source lines come from registered texts, never from disk, so a message shows what was
 * read. Bytes that a terminal might obey are shown as escapes. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_SHOWN = 200,
    MAX_KEPT = 1000,
    MAX_TEXT_BYTES = 4000,
    MAX_LINE_COLUMNS = 160,
    MAX_WORD = 64
};

typedef struct Diag {
    DiagKind kind;
    Pos pos;
    const char *text, *help;
    int order; /* of arrival */
    bool shown;
} Diag;

typedef struct Source {
    const char *file, *text;
    size_t bytes;
} Source;

struct Diags {
    struct {
        Diag *items;
        int count, cap;
    } list;
    struct {
        Source *items;
        int count, cap;
    } sources;
    int errors, dropped; /* all errors; beyond MAX_KEPT only their number is kept */
};

static struct Diags *diags_of(Gen *g)
{
    if (!base_of(g)->diags)
        base_of(g)->diags = gen_alloc(g, sizeof *base_of(g)->diags);
    return base_of(g)->diags;
}

void diag_source(Gen *g, const char *file, const char *text, size_t bytes)
{
    struct Diags *d = diags_of(g);
    Source *s = NULL;

    for (int i = 0; i < d->sources.count; i++)
        if (!strcmp(d->sources.items[i].file, file))
            s = &d->sources.items[i];
    if (!s)
        s = gen_push(g, &d->sources);
    *s = (Source){gen_strdup(g, file), gen_strndup(g, text, bytes), bytes};
}

static const char *printable(Gen *g, const char *s, bool keep_newlines)
{
    Text t = {.g = g};
    size_t n = strlen(s);

    text_add(&t, "", 0);
    text_printable(&t, s, n > MAX_TEXT_BYTES ? MAX_TEXT_BYTES : n, keep_newlines);
    if (n > MAX_TEXT_BYTES)
        text_printf(&t, "...");
    return t.s;
}

void diag_add(Gen *g, DiagKind kind, Pos pos, const char *help, const char *fmt, ...)
{
    struct Diags *d = diags_of(g);
    const char *text;
    va_list ap;
    Diag *item;

    va_start(ap, fmt);
    text = printable(g, gen_vprintf(g, fmt, ap), true);
    va_end(ap);
    for (int i = 0; i < d->list.count; i++) { /* the same message once is enough */
        const Diag *o = &d->list.items[i];

        if (o->pos.line == pos.line && o->pos.col == pos.col && !strcmp(o->text, text) &&
            !strcmp(o->pos.file ? o->pos.file : "", pos.file ? pos.file : ""))
            return;
    }
    d->errors += kind == DIAG_ERROR;
    if (d->list.count == MAX_KEPT) {
        d->dropped++;
        return;
    }
    item = gen_push(g, &d->list);
    *item = (Diag){.kind = kind, .pos = pos, .text = text, .order = d->list.count};
    item->pos.file = pos.file ? printable(g, pos.file, false) : NULL;
    item->help = help ? printable(g, help, true) : NULL;
}

int diag_errors(const Gen *g)
{
    return base_of(g)->diags ? base_of(g)->diags->errors : 0;
}

static const char *text_of(const Gen *g, DiagKind kind, int k)
{
    for (int i = 0; base_of(g)->diags && i < base_of(g)->diags->list.count; i++)
        if (base_of(g)->diags->list.items[i].kind == kind && k-- == 0)
            return base_of(g)->diags->list.items[i].text;
    return NULL;
}

const char *diag_warning(const Gen *g, int k)
{
    return text_of(g, DIAG_WARNING, k);
}

const char *diag_first_error(const Gen *g)
{
    return text_of(g, DIAG_ERROR, 0);
}

static int diag_order(const void *pa, const void *pb)
{
    const Diag *a = pa, *b = pb;
    int c = strcmp(a->pos.file ? a->pos.file : "", b->pos.file ? b->pos.file : "");

    if (c)
        return c;
    if (a->pos.line != b->pos.line)
        return a->pos.line < b->pos.line ? -1 : 1;
    if (a->pos.col != b->pos.col)
        return a->pos.col < b->pos.col ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* As they were reported. The places of a description do not count: the resolved one,
 * which makes the same trainer, has others. */
static int by_time(const void *pa, const void *pb)
{
    const Diag *a = pa, *b = pb;

    return a->order < b->order ? -1 : a->order > b->order;
}

static bool source_line(Gen *g, Pos pos, const char **line, size_t *bytes)
{
    for (int i = 0; i < base_of(g)->diags->sources.count; i++) {
        const Source *s = &base_of(g)->diags->sources.items[i];
        const char *p = s->text, *end = s->text + s->bytes;

        if (strcmp(s->file, pos.file) != 0)
            continue;
        for (int n = 1; n < pos.line && p < end; n++) {
            const char *nl = memchr(p, '\n', (size_t)(end - p));

            p = nl ? nl + 1 : end;
        }
        if (p >= end)
            return false;
        *line = p;
        p = memchr(p, '\n', (size_t)(end - p));
        *bytes = (size_t)((p ? p : end) - *line);
        return true;
    }
    return false;
}

static void print_source(Gen *g, Text *out, Pos pos)
{
    const char *line;
    size_t bytes, start, from = 0, pad, marks;
    Text before = {.g = g}, marked = {.g = g}, after = {.g = g};

    if (!pos.file || pos.line < 1 || pos.col < 1 || !source_line(g, pos, &line, &bytes))
        return;
    start = (size_t)pos.col - 1;
    if (start > bytes)
        start = bytes;
    if (start > MAX_LINE_COLUMNS / 2) /* of a very long line, a part */
        from = start - MAX_LINE_COLUMNS / 2;
    marks = pos.len > 0 ? (size_t)pos.len : 1;
    if (start + marks > bytes)
        marks = bytes > start ? bytes - start : 0;
    if (marks > MAX_LINE_COLUMNS / 2)
        marks = MAX_LINE_COLUMNS / 2;
    if (bytes > from + MAX_LINE_COLUMNS)
        bytes = from + MAX_LINE_COLUMNS;
    text_add(&before, "", 0);
    text_add(&marked, "", 0);
    text_add(&after, "", 0);
    text_printable(&before, line + from, start - from, false);
    text_printable(&marked, line + start, marks, false);
    if (start + marks < bytes)
        text_printable(&after, line + start + marks, bytes - start - marks, false);
    while (after.len && after.s[after.len - 1] == ' ')
        after.s[--after.len] = '\0';
    if (after.len >= 4 && !strcmp(after.s + after.len - 4, "\\x0d"))
        after.s[after.len -= 4] = '\0';
    printable_fit(before.s, SIZE_MAX, &pad);
    printable_fit(marked.s, SIZE_MAX, &marks);
    text_printf(out, "%5d | %s%s%s%s\n", pos.line, from ? "..." : "", before.s, marked.s,
                after.s);
    text_printf(out, "      | %*s^", (int)(pad + (from ? 3 : 0)), "");
    for (size_t i = 1; i < marks; i++)
        text_add(out, "~", 1);
    text_add(out, "\n", 1);
}

static void print_diag(Gen *g, Text *out, const Diag *d)
{
    static const char *const kinds[] = {"error", "warning", "note"};
    static const char *const colors[] = {"\033[1;31m", "\033[1;35m", "\033[1;36m"};
    const char *kind = kinds[d->kind], *on = "", *off = "";

    if (base_of(g)->color) {
        on = colors[d->kind];
        off = "\033[0m";
    }
    if (!d->pos.file)
        text_printf(out, "fsdpgen: ");
    else if (d->pos.line < 1)
        text_printf(out, "%s: ", d->pos.file);
    else if (d->pos.col < 1)
        text_printf(out, "%s:%d: ", d->pos.file, d->pos.line);
    else
        text_printf(out, "%s:%d:%d: ", d->pos.file, d->pos.line, d->pos.col);
    text_printf(out, "%s%s:%s %s\n", on, kind, off, d->text);
    print_source(g, out, d->pos);
    if (d->help)
        text_printf(out, "  help: %s\n", d->help);
}

void diag_print(Gen *g)
{
    struct Diags *d = diags_of(g);
    Text out = {.g = g};
    int shown = 0, left = d->dropped;

    d->dropped = 0;
    if (d->list.count)
        qsort(d->list.items, (size_t)d->list.count, sizeof *d->list.items, diag_order);
    for (int i = 0; i < d->list.count; i++) {
        Diag *item = &d->list.items[i];

        if (item->shown)
            continue;
        item->shown = true;
        if (base_of(g)->silent || (base_of(g)->only_errors && item->kind != DIAG_ERROR))
            continue;
        if (shown++ < MAX_SHOWN)
            print_diag(g, &out, item);
        else
            left++;
    }
    if (d->list.count)
        qsort(d->list.items, (size_t)d->list.count, sizeof *d->list.items, by_time);
    if (left && !base_of(g)->silent)
        text_printf(&out, "fsdpgen: %d more messages are not shown\n", left);
    if (out.len) {
        fflush(stdout);
        fwrite(out.s, 1, out.len, stderr);
        fflush(stderr);
    }
}

int diag_finish(Gen *g)
{
    diag_print(g);
    if (diag_errors(g) == 0)
        return EXIT_DONE;
    return base_of(g)->exit_code ? base_of(g)->exit_code : EXIT_DIAG;
}

void diag_stop_on_errors(Gen *g)
{
    const int code = diag_finish(g);

    if (code != EXIT_DONE) {
        fflush(stdout);
        exit(code);
    }
}

/* ---- nearest word ---------------------------------------------------------------- */

/* Damerau-Levenshtein, the optimal string alignment form: insert, delete, replace,
 * swap. */
static int distance(const char *a, size_t n, const char *b, size_t m)
{
    int rows[3][MAX_WORD + 1];

    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];

        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);

            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[n % 3][m];
}

const char *diag_nearest(const char *word, const char *const *candidates, int count)
{
    size_t n = strlen(word);
    int limit = (int)(n / 3 > 1 ? n / 3 : 1), best = limit + 1;
    const char *found = NULL;

    if (n > MAX_WORD)
        return NULL;
    for (int i = 0; i < count; i++) {
        size_t m = strlen(candidates[i]);
        int d;

        if (m > MAX_WORD)
            continue;
        d = distance(word, n, candidates[i], m);
        if (d < best) {
            best = d;
            found = candidates[i];
        }
    }
    return found;
}

int diag_option(const char *name, size_t n, const char *const *names, int count,
                char *text, size_t bytes)
{
    char word[64];
    const char *near;

    for (int i = 0; i < count; i++)
        if (strlen(names[i]) == n && !strncmp(names[i], name, n))
            return i;
    snprintf(word, sizeof word, "%.*s", (int)(n < 60 ? n : 60), name);
    near = diag_nearest(word, names, count);
    snprintf(text, bytes,
             near ? "unknown option --%s; did you mean --%s?" : "unknown option --%s",
             word, near);
    return -1;
}

bool diag_is_option(const char *word)
{
    return word[0] == '-' && word[1];
}
