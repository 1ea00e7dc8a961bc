/* SPDX-License-Identifier: Apache-2.0 */
/* hf_check.c: does the Hugging Face class that config.json names compute this graph? In:
 * our graph, and the class's. Out: a message per different parameter (of layers that are
 * alike, for the first); if there is none, a message about the first node that computes
 * something else. */
#include "hf/hf.h"
#include "base/show.h"
#include "describe/load.h"
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

static const char ways_out[] =
    "mend it; or name a class of your own: checkpoint = { class = "
    "\"modeling_mine.MineForCausalLM\" }; or write no config.json: checkpoint = { config "
    "= "
    "\"none\" }";

enum { MOST_TOLD = 6 };

/* The architecture's line that calls the node's op. */
static Pos node_place(Gen *g, const Node *n)
{
    const LexFile *f = n && n->pos.file ? loader_file(loader_of(g), n->pos.file) : NULL;

    return f ? lex_word(f, n->pos.line, n->op->name) : model_pos(g, "model");
}

/* ---- parameters ------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const Tensor *)a)->name, ((const Tensor *)b)->name);
}

/* Sorted by name. */
static Tensor *sorted(Gen *g, const Graph *graph)
{
    const size_t n = (size_t)graph->tensors.count;
    Tensor *list = gen_alloc(g, sizeof *list * (n + 1));

    if (n)
        memcpy(list, graph->tensors.items, sizeof *list * n);
    qsort(list, n, sizeof *list, by_name);
    return list;
}

static const Tensor *find(const Tensor *list, int n, const char *name)
{
    const Tensor key = {.name = name};

    return n ? bsearch(&key, list, (size_t)n, sizeof key, by_name) : NULL;
}

/* "layers.*.mlp": equal for the same parameter of each layer. */
static const char *kind_of(Gen *g, const char *name)
{
    Text t = {.g = g};

    text_add(&t, "", 0);
    for (size_t n; *name; name += n + (name[n] == '.')) {
        n = strcspn(name, ".");
        if (strspn(name, "0123456789") == n)
            text_printf(&t, ".*");
        else
            text_printf(&t, ".%.*s", (int)n, name);
    }
    return t.s;
}

typedef struct Told {
    struct {
        const char **items;
        int count, cap;
    } kinds;
} Told;

/* Was the same reported for another layer, or enough reported already? */
static bool is_told(Gen *g, Told *told, const char *name)
{
    const char *kind = kind_of(g, name);

    for (int i = 0; i < told->kinds.count; i++)
        if (!strcmp(told->kinds.items[i], kind))
            return true;
    if (told->kinds.count == MOST_TOLD)
        return true;
    *gen_push(g, &told->kinds) = kind;
    return false;
}

static const char *shape(Gen *g, const Tensor *t)
{
    return show_shape(g, t->dim, t->n_dims);
}

static bool same_dims(const Tensor *a, const Tensor *b)
{
    return a->n_dims == b->n_dims &&
           !memcmp(a->dim, b->dim, sizeof *a->dim * (size_t)a->n_dims);
}

/* Returns whether one differs. */
static bool compare_tensors(Gen *g, const Graph *own, const Graph *theirs,
                            const char *class_name)
{
    const Tensor *mine = sorted(g, own), *others = sorted(g, theirs);
    Told told = {{0}}, lacking = {{0}};

    for (int i = 0; i < own->tensors.count; i++) {
        const Tensor *t = &own->tensors.items[i];
        const Tensor *o = find(others, theirs->tensors.count, t->name);

        if ((o && same_dims(t, o)) || is_told(g, &told, t->name))
            continue;
        if (o)
            diag_add(
                g, DIAG_ERROR, node_place(g, t->reader), ways_out,
                "parameter %s: it is %s, and that of %s, which config.json names, is "
                "%s",
                t->name, shape(g, t), class_name, shape(g, o));
        else
            diag_add(g, DIAG_ERROR, node_place(g, t->reader), ways_out,
                     "parameter %s: %s, which config.json names, has no such parameter",
                     t->name, class_name);
    }
    for (int i = 0; i < theirs->tensors.count; i++) {
        const Tensor *o = &theirs->tensors.items[i];

        if (!find(mine, own->tensors.count, o->name) && !is_told(g, &lacking, o->name))
            diag_add(g, DIAG_ERROR, model_pos(g, "model"), ways_out,
                     "parameter %s: it is missing, and %s, which config.json names, "
                     "loads it",
                     o->name, class_name);
    }
    return told.kinds.count + lacking.kinds.count > 0;
}

/* ---- nodes ----------------------------------------------------------------------- */

static int by_hash(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* The first node of a that computes something that no node of b does. */
static const Expr *first_other(Gen *g, const Graph *a, const Graph *b)
{
    const size_t n = (size_t)b->exprs.count;
    uint64_t *known = gen_alloc(g, sizeof *known * (n + 1));

    for (size_t i = 0; i < n; i++)
        known[i] = b->exprs.items[i].hash;
    qsort(known, n, sizeof *known, by_hash);
    for (int i = 0; i < a->exprs.count; i++)
        if (!n || !bsearch(&a->exprs.items[i].hash, known, n, sizeof *known, by_hash))
            return &a->exprs.items[i];
    return NULL;
}

static const char *show_attr(Gen *g, const Attr *a)
{
    return a->type == ATTR_NUM ? gen_printf(g, "%s=%s", a->key, hf_digits(g, a->num))
                               : attr_text(g, a);
}

/* "window=64" if the other node has another value; NULL: all are equal. */
static const char *other_attr(Gen *g, const Node *a, const Node *b, const char **theirs)
{
    for (int i = 0; i < a->n_attrs && i < b->n_attrs; i++) {
        if (attr_equal(&a->attrs[i], &b->attrs[i]) || !hf_own_attr(a->op, &a->attrs[i]))
            continue;
        *theirs = show_attr(g, &b->attrs[i]);
        return show_attr(g, &a->attrs[i]);
    }
    return NULL;
}

static void tell_node(Gen *g, const Expr *own, const Expr *theirs, const char *class_name)
{
    const Node *n = own->node, *o = theirs ? theirs->node : NULL;
    const char *where = gen_printf(g, "%s of %s", n->name, own->block->name), *attr;
    const char *there = NULL;

    if (o && strcmp(n->op->name, o->op->name) != 0)
        diag_add(g, DIAG_ERROR, node_place(g, n), ways_out,
                 "%s: here the graph has %s, and %s, which config.json names, has %s",
                 where, n->op->name, class_name, o->op->name);
    else if (o && (attr = other_attr(g, n, o, &there)))
        diag_add(g, DIAG_ERROR, node_place(g, n), ways_out,
                 "%s: %s has %s here, and %s in %s, which config.json names", where,
                 n->op->name, attr, there, class_name);
    else
        diag_add(g, DIAG_ERROR, node_place(g, n), ways_out,
                 "%s: %s reads other values here than in %s, which config.json names",
                 where, n->op->name, class_name);
}

void hf_compare(Gen *g, Gen *reference, const char *class_name)
{
    const Graph own = hf_graph(g), theirs = hf_graph(reference);

    if (!compare_tensors(g, &own, &theirs, class_name) && own.loss != theirs.loss) {
        const Expr *mine = first_other(g, &own, &theirs);

        gen_require(mine, "graphs differ, but no node does");
        tell_node(g, mine, first_other(g, &theirs, &own), class_name);
    }
}
