/* SPDX-License-Identifier: Apache-2.0 */
/* diff_description.c: which fields of two resolved descriptions differ, and the side of
 * the hash of each. In: the text of both description.lua, read as data in the form that
 * resolve.c writes, and never run. Out: {"field", "old", "new", "hash"} in order of
 * names; null if a trainer has no such field. */
#include "report/diff.h"
#include "base/show.h"
#include "describe/load.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 32 };

typedef struct Written {
    const char *key;  /* NULL: an item of a list */
    const char *word; /* a scalar as written; for a table its constructor, or NULL */
    bool table;
    struct Written *first, *next;
} Written;

typedef struct Parse {
    Gen *g;
    const char *s, *end;
    bool failed;
} Parse;

typedef struct Entry {
    const char *path, *value;
} Entry;

typedef struct Entries {
    Entry *items;
    int count, cap;
} Entries;

/* ---- reading --------------------------------------------------------------------- */

static void skip_blanks(Parse *p)
{
    while (p->s < p->end) {
        if (p->end - p->s >= 2 && p->s[0] == '-' && p->s[1] == '-')
            while (p->s < p->end && *p->s != '\n')
                p->s++;
        else if (isspace((unsigned char)*p->s))
            p->s++;
        else
            return;
    }
}

static bool take(Parse *p, char c)
{
    skip_blanks(p);
    if (p->s == p->end || *p->s != c)
        return false;
    p->s++;
    return true;
}

/* A word, a number or a string as written; NULL: something else follows. */
static const char *take_scalar(Parse *p)
{
    const char *from;

    skip_blanks(p);
    from = p->s;
    if (p->s < p->end && *p->s == '"') {
        for (p->s++; p->s < p->end && *p->s != '"' && *p->s != '\n'; p->s++)
            if (*p->s == '\\' && p->s + 1 < p->end)
                p->s++;
        if (p->s == p->end || *p->s != '"')
            return NULL;
        p->s++;
    } else {
        while (p->s < p->end &&
               (isalnum((unsigned char)*p->s) || strchr("_.+-", *p->s)) && *p->s)
            p->s++;
    }
    return p->s > from ? gen_strndup(p->g, from, (size_t)(p->s - from)) : NULL;
}

/* 0.003 for 0.0030000000000000001: the shortest text of the same number. */
static const char *short_number(Gen *g, const char *s)
{
    char *end;
    const double v = strtod(s, &end);

    if (*end || !(isdigit((unsigned char)*s) || *s == '-') || !strpbrk(s, ".e"))
        return s;
    return show_number(g, v);
}

static Written *read_value(Parse *p, int depth);

/* `name = value`, or an item. */
static Written *read_field(Parse *p, int depth)
{
    const char *back, *key;
    Written *n;

    skip_blanks(p);
    back = p->s;
    key = p->s < p->end && *p->s != '"' && *p->s != '{' ? take_scalar(p) : NULL;
    if (!key || !take(p, '=')) {
        p->s = back;
        key = NULL;
    }
    n = read_value(p, depth);
    if (n)
        n->key = key;
    return n;
}

static Written *read_table(Parse *p, const char *word, int depth)
{
    Written *table = gen_alloc(p->g, sizeof *table), **at = &table->first;

    table->word = word;
    table->table = true;
    while (!p->failed && !take(p, '}')) {
        *at = read_field(p, depth + 1);
        if (!*at)
            return NULL;
        at = &(*at)->next;
        if (!take(p, ',') && !take(p, ';')) {
            if (!take(p, '}'))
                p->failed = true;
            return table;
        }
    }
    return table;
}

static Written *read_value(Parse *p, int depth)
{
    const char *word;
    Written *n;

    if (depth > MAX_DEPTH)
        p->failed = true;
    if (!p->failed && take(p, '{'))
        return read_table(p, NULL, depth);
    word = p->failed ? NULL : take_scalar(p);
    if (!word) {
        p->failed = true;
        return NULL;
    }
    if (*word != '"' && take(p, '{'))
        return read_table(p, word, depth);
    if (*word != '"' && take(p, '(')) { /* per_block(2) */
        const char *inner = take_scalar(p);

        p->failed = !inner || !take(p, ')');
        word = gen_printf(p->g, "%s(%s)", word, inner ? inner : "");
    } else {
        word = short_number(p->g, word);
    }
    n = gen_alloc(p->g, sizeof *n);
    n->word = word;
    return n;
}

/* ---- flat ------------------------------------------------------------------------ */

static void add_entry(Gen *g, Entries *e, const char *path, const char *value)
{
    *gen_push(g, e) = (Entry){path, value};
}

/* A list of scalars is one value; other tables give an entry per part. */
static void flatten(Gen *g, Entries *e, const Written *n, const char *path)
{
    bool list = n->table && n->first;
    int item = 0;
    Text t = {.g = g};

    for (const Written *c = n->first; c; c = c->next)
        list = list && !c->key && !c->table;
    if (!n->table) {
        add_entry(g, e, path, n->word);
    } else if (list || !n->first) {
        text_printf(&t, "%s%s{", n->word ? n->word : "", n->word ? " " : "");
        for (const Written *c = n->first; c; c = c->next)
            text_printf(&t, " %s%s", c->word, c->next ? "," : "");
        text_printf(&t, " }");
        add_entry(g, e, path, t.s);
    } else {
        if (n->word && *path)
            add_entry(g, e, path, n->word);
        for (const Written *c = n->first; c; c = c->next)
            flatten(g, e, c,
                    !c->key ? gen_printf(g, "%s[%d]", path, ++item)
                    : *path ? gen_printf(g, "%s.%s", path, c->key)
                            : c->key);
    }
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const Entry *)a)->path, ((const Entry *)b)->path);
}

static Entries read_description(DiffSide *s)
{
    static const char mark[] = "\nreturn trainer";
    Entries e = {0};
    size_t bytes;
    const char *text = side_text(s, "description.lua", true, &bytes);
    const char *at = text && !memchr(text, '\0', bytes) ? strstr(text, mark) : NULL;
    Parse p = {.g = s->g};
    Written *root = NULL;

    if (at) {
        p.s = at + sizeof mark - 1;
        p.end = text + bytes;
        root = take(&p, '{') ? read_table(&p, "trainer", 0) : NULL;
        skip_blanks(&p);
    }
    if (root && !p.failed && p.s == p.end)
        flatten(s->g, &e, root, "");
    else if (text)
        side_complain(s, "description.lua",
                      "generate it again with `fsdpgen MODEL.lua -o DIR`",
                      "damaged: this is not a description as fsdpgen writes it out");
    if (e.count)
        qsort(e.items, (size_t)e.count, sizeof *e.items, by_path);
    return e;
}

/* ---- comparing ------------------------------------------------------------------- */

/* A row's own side, or that of the row around it; NULL: this fsdpgen has no such row. */
static const char *hash_side(Gen *g, const Fields *fields, const char *path)
{
    const char *side = NULL;

    while (fields) {
        const size_t n = strcspn(path, ".[");
        const Field *f = fields_find(fields, gen_strndup(g, path, n));

        if (!f)
            return side;
        side = f->hash;
        fields = f->fields;
        if (path[n] != '.')
            return side;
        path += n + 1;
    }
    return side;
}

/* With reduction = "library" the order of sums depends on which rank holds what
 * (resolve.c). */
static bool library_adds(const Entries *e)
{
    for (int i = 0; i < e->count; i++)
        if (!strcmp(e->items[i].path, "reduction"))
            return !strcmp(e->items[i].value, "\"library\"");
    return false;
}

static bool knows_mesh(const char *path)
{
    return !strncmp(path, "mesh.", 5) || !strcmp(path, "strategy") ||
           !strcmp(path, "accumulate");
}

json_t *diff_description(Gen *g, DiffSide *old, DiffSide *now)
{
    const Loader *ld = loader_open(g);
    json_t *list = json_array();
    Entries a = read_description(old), b = read_description(now);
    const bool library = library_adds(&a) || library_adds(&b);

    if (diag_errors(g)) /* in rules of --ops */
        return list;
    for (int i = 0, j = 0; i < a.count || j < b.count;) {
        const int c = i == a.count   ? 1
                      : j == b.count ? -1
                                     : strcmp(a.items[i].path, b.items[j].path);
        const Entry *x = c <= 0 ? &a.items[i++] : NULL;
        const Entry *y = c >= 0 ? &b.items[j++] : NULL;
        const char *path = x ? x->path : y->path, *side;
        json_t *o;

        if (x && y && !strcmp(x->value, y->value))
            continue;
        side = library && knows_mesh(path) ? "in" : hash_side(g, ld->trainer, path);
        o = json_object();
        diff_set(o, "field", diff_word(g, path));
        diff_set(o, "old", x ? diff_word(g, x->value) : json_null());
        diff_set(o, "new", y ? diff_word(g, y->value) : json_null());
        diff_set(o, "hash", json_string(side ? side : "unknown"));
        diff_push(list, o);
    }
    return list;
}
