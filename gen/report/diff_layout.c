/* SPDX-License-Identifier: Apache-2.0 */
/* diff_layout.c: where parameters are in two trainers. In: the tables trainer_segments
 * and trainer_params of both tables.c, as rows SEGMENT(...) and PARAM(...) or, in older
 * trainers, designated initialisers. Out: segments and parameters that were added,
 * removed, moved or resized; all sorted by name. */
#include "report/diff.h"

#include <stdlib.h>
#include <string.h>

typedef struct Row {
    const char *name, *segment, *shape; /* segment: for a parameter its segment's name;
                                         * for a segment its constant */
    int64_t offset, elems, shard;
} Row;

typedef struct Rows {
    Row *items;
    int count, cap;
} Rows;

typedef struct Layout {
    Rows segments, params;
} Layout;

/* ---- reading --------------------------------------------------------------------- */

/* The brace that opens the table: `NAME[...] = {`; the count if there is none. */
static int find_table(const Tokens *t, const char *name)
{
    for (int i = 0; i < t->count; i++) {
        if (!token_is(&t->items[i], name) || i + 1 == t->count ||
            !token_is(&t->items[i + 1], "["))
            continue;
        i = tokens_close(t, i + 1);
        if (i + 2 < t->count && token_is(&t->items[i + 1], "=") &&
            token_is(&t->items[i + 2], "{"))
            return i + 2;
    }
    return t->count;
}

/* Reads `{ 512, 256 }`, which starts at i, as [512, 256]. */
static const char *read_shape(Gen *g, const Tokens *t, int i)
{
    const int end = tokens_close(t, i);
    Text s = {.g = g};

    text_printf(&s, "[");
    for (i++; i < end; i++) {
        text_add(&s, t->items[i].s, (size_t)t->items[i].n);
        if (token_is(&t->items[i], ","))
            text_add(&s, " ", 1);
    }
    text_printf(&s, "]");
    return s.s;
}

/* The members of one row, between its braces. */
static Row read_row(Gen *g, const Tokens *t, int from, int end)
{
    Row r = {.offset = -1, .elems = -1, .shard = -1};

    for (int i = from; i + 3 < end; i++) {
        const Token *key = &t->items[i + 1], *v = &t->items[i + 3];

        if (token_is(&t->items[i], "{")) { /* inner braces have members of their own */
            i = tokens_close(t, i);
            continue;
        }
        if (!token_is(&t->items[i], ".") || !token_is(key + 1, "="))
            continue;
        if (token_is(key, "name") && v->kind == TOKEN_STRING)
            r.name = token_text(g, v);
        else if (token_is(key, "segment"))
            r.segment = token_text(g, v);
        else if (token_is(key, "offset_elems"))
            r.offset = token_value(v);
        else if (token_is(key, "elems"))
            r.elems = token_value(v);
        else if (token_is(key, "shard_elems"))
            r.shard = token_value(v);
        else if (token_is(key, "dim") && token_is(v, "{"))
            r.shape = read_shape(g, t, i + 3);
    }
    return r;
}

/* Finds where the arguments of the call with the bracket at `open` start; returns how
 * many of the first `most` there are. */
static int find_arguments(const Tokens *t, int open, int *args, int most)
{
    const int end = tokens_close(t, open);
    int n = 0;

    for (int i = open + 1; i < end && n < most; i++) {
        if (i == open + 1 || token_is(&t->items[i - 1], ","))
            args[n++] = i;
        if (token_is(&t->items[i], "(") || token_is(&t->items[i], "{"))
            i = tokens_close(t, i);
    }
    return n;
}

/* The number of elements of `(512, 256)`, which starts at i; -1: not a shape. */
static int64_t shape_elems(const Tokens *t, int i)
{
    int dims[5], n = find_arguments(t, i, dims, 5);
    int64_t elems = 1;

    if (n < 1 || n > 4)
        return -1;
    for (int k = 0; k < n; k++) {
        const int64_t dim = token_value(&t->items[dims[k]]);

        if (dim < 1 || dim > INT64_MAX / elems)
            return -1;
        elems *= dim;
    }
    return elems;
}

/* PARAM("name", SEG_X, offset, SHAPE_2(512, 256), ...), whose bracket is at `open`. */
static Row read_param(Gen *g, const Tokens *t, int open)
{
    Row r = {.offset = -1, .elems = -1, .shard = -1};
    int args[4];

    if (find_arguments(t, open, args, 4) < 4 || t->items[args[0]].kind != TOKEN_STRING ||
        !token_is(&t->items[args[3] + 1], "("))
        return r;
    r.name = token_text(g, &t->items[args[0]]);
    r.segment = token_text(g, &t->items[args[1]]);
    r.offset = token_value(&t->items[args[2]]);
    r.shape = read_shape(g, t, args[3] + 1);
    r.elems = shape_elems(t, args[3] + 1);
    return r;
}

/* SEGMENT("name", elements, of a shard, ...), whose bracket is at `open`. */
static Row read_segment(Gen *g, const Tokens *t, int open)
{
    Row r = {.offset = -1, .elems = -1, .shard = -1};
    int args[3];

    if (find_arguments(t, open, args, 3) < 3 || t->items[args[0]].kind != TOKEN_STRING)
        return r;
    r.name = token_text(g, &t->items[args[0]]);
    r.elems = token_value(&t->items[args[1]]);
    r.shard = token_value(&t->items[args[2]]);
    return r;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const Row *)a)->name, ((const Row *)b)->name);
}

static int by_constant(const void *a, const void *b)
{
    return strcmp(((const Row *)a)->segment, ((const Row *)b)->segment);
}

/* The table's rows, in order; false: it is missing, or a row is incomplete. */
static bool read_table(Gen *g, const Tokens *t, const char *name, bool params, Rows *rows)
{
    const int open = find_table(t, name), end = tokens_close(t, open);

    if (end == t->count)
        return false;
    for (int i = open + 1; i < end; i++) {
        const char *constant = NULL;
        bool row; /* in the current form, with macros */
        int close;
        Row r;

        if (token_is(&t->items[i], "[") && i + 3 < end) { /* [SEG_EMBED] = */
            constant = token_text(g, &t->items[i + 1]);
            i += 4;
        }
        row = i + 1 < end && token_is(&t->items[i], params ? "PARAM" : "SEGMENT");
        i += row;
        if (i >= end || !token_is(&t->items[i], row ? "(" : "{"))
            return false;
        close = tokens_close(t, i);
        r = !row     ? read_row(g, t, i + 1, close)
            : params ? read_param(g, t, i)
                     : read_segment(g, t, i);
        r.segment = params ? r.segment : constant;
        if (!r.name || !r.segment || r.elems < 0 ||
            (params ? r.offset < 0 || !r.shape : r.shard < 0))
            return false;
        *gen_push(g, rows) = r;
        i = close + 1; /* after the comma */
    }
    return true;
}

/* Sorts segments by their constants, which parameters use; then everything by name. */
static bool resolve(Layout *l)
{
    Rows *s = &l->segments, *p = &l->params;

    if (s->count)
        qsort(s->items, (size_t)s->count, sizeof *s->items, by_constant);
    for (int i = 0; i < p->count; i++) {
        const Row *of = s->count ? bsearch(&p->items[i], s->items, (size_t)s->count,
                                           sizeof *s->items, by_constant)
                                 : NULL;

        if (!of)
            return false;
        p->items[i].segment = of->name;
    }
    if (s->count)
        qsort(s->items, (size_t)s->count, sizeof *s->items, by_name);
    if (p->count)
        qsort(p->items, (size_t)p->count, sizeof *p->items, by_name);
    return true;
}

static Layout read_layout(DiffSide *s)
{
    Layout l = {0};
    size_t bytes;
    const char *text = side_text(s, "tables.c", true, &bytes);
    Tokens t = {0};

    if (!text)
        return l;
    t = code_tokens(s->g, text, bytes);
    if (!read_table(s->g, &t, "trainer_segments", false, &l.segments) ||
        !read_table(s->g, &t, "trainer_params", true, &l.params) || !resolve(&l))
        side_complain(s, "tables.c", "generate it again with `fsdpgen MODEL.lua -o DIR`",
                      "damaged: trainer_segments or trainer_params cannot be read");
    return l;
}

/* ---- comparing ------------------------------------------------------------------- */

static json_t *place_of_param(Gen *g, const Row *r)
{
    json_t *o = json_object();

    diff_set(o, "segment", diff_word(g, r->segment));
    diff_set(o, "offset_elems", json_integer(r->offset));
    return o;
}

static json_t *named(Gen *g, const Row *r)
{
    json_t *o = json_object();

    diff_set(o, "name", diff_word(g, r->name));
    return o;
}

typedef void CompareRow(Gen *g, json_t *o, const Row *x, const Row *y);

static json_t *change(Gen *g, const Row *x, json_t *old, json_t *now)
{
    json_t *o = named(g, x);

    diff_set(o, "old", old);
    diff_set(o, "new", now);
    return o;
}

static json_t *segment_size(const Row *r)
{
    json_t *o = json_object();

    diff_set(o, "elems", json_integer(r->elems));
    diff_set(o, "shard_elems", json_integer(r->shard));
    return o;
}

static void compare_segment(Gen *g, json_t *o, const Row *x, const Row *y)
{
    if (x->elems != y->elems || x->shard != y->shard)
        diff_push(json_object_get(o, "resized"),
                  change(g, x, segment_size(x), segment_size(y)));
}

static void compare_param(Gen *g, json_t *o, const Row *x, const Row *y)
{
    if (strcmp(x->segment, y->segment) != 0 || x->offset != y->offset)
        diff_push(json_object_get(o, "moved"),
                  change(g, x, place_of_param(g, x), place_of_param(g, y)));
    if (strcmp(x->shape, y->shape) != 0)
        diff_push(json_object_get(o, "resized"),
                  change(g, x, diff_word(g, x->shape), diff_word(g, y->shape)));
}

static json_t *added(Gen *g, const Row *r)
{
    json_t *o = named(g, r);

    if (r->shape)
        diff_set(o, "shape", diff_word(g, r->shape));
    diff_set(o, "elems", json_integer(r->elems));
    return o;
}

static json_t *compare_rows(Gen *g, const Rows *a, const Rows *b, CompareRow *compare)
{
    static const char *const lists[] = {"added", "removed", "moved", "resized"};
    json_t *o = json_object();

    diff_set(o, "old", json_integer(a->count));
    diff_set(o, "new", json_integer(b->count));
    for (int k = 0; k < 4; k++)
        if (k != 2 || compare == compare_param)
            diff_set(o, lists[k], json_array());
    for (int i = 0, j = 0; i < a->count || j < b->count;) {
        const int c = i == a->count   ? 1
                      : j == b->count ? -1
                                      : strcmp(a->items[i].name, b->items[j].name);

        if (c == 0)
            compare(g, o, &a->items[i], &b->items[j]);
        else if (c < 0)
            diff_push(json_object_get(o, "removed"), added(g, &a->items[i]));
        else
            diff_push(json_object_get(o, "added"), added(g, &b->items[j]));
        i += c <= 0;
        j += c >= 0;
    }
    return o;
}

json_t *diff_layout(Gen *g, DiffSide *old, DiffSide *now)
{
    const Layout a = read_layout(old), b = read_layout(now);
    json_t *o = json_object();

    diff_set(o, "segments", compare_rows(g, &a.segments, &b.segments, compare_segment));
    diff_set(o, "parameters", compare_rows(g, &a.params, &b.params, compare_param));
    return o;
}
