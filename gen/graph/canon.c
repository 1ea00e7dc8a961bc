/* SPDX-License-Identifier: Apache-2.0 */
/* canon.c: the text whose hash is the numerics hash. In: the fused graph, the fields
 * inside the hash, the ops' rules. Out: a text that is equal for two descriptions exactly
 * if they compute the same bits in the same way.
 *
 * It contains every value with its dtype, which is where it is rounded; every node with
 * its inputs and attributes; parameters with their initial values; the fields of the
 * description that no graph shows. A built-in op is its canonical name and the version of
 * its arithmetic; an op from --ops is the text of its folder, or its
 * formula, in which inputs have no names.
 *
 * It does not contain what only people read (names of values, blocks and architectures; a
 * dump's spelling; a rule's comments, test cases and documentation), costs, templates,
 * and neutral values: an attribute that has its default, a field that changes nothing. A
 * field added later has such a value, so no existing hash changes. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- ops ------------------------------------------------------------------------- */

static bool op_used(Gen *g, const OpRule *op)
{
    if (optimizer_uses(g, op))
        return true;
    for (int i = 0; i < g->setup.n_nodes; i++)
        if (g->setup.nodes[i]->op == op)
            return true;
    for (int i = 0; i < g->classes.count; i++)
        for (int k = 0; k < g->classes.items[i]->nodes.count; k++)
            if (g->classes.items[i]->nodes.items[k]->op == op)
                return true;
    return false;
}

/* The hash of a foreign op: its rule and its kernels for all targets, so targets share
 * the hash. */
static uint64_t folder_hash(Gen *g, const OpRule *op)
{
    Text t = {.g = g};

    for (int i = 0; ops_file(i); i++) {
        size_t bytes;
        const char *text = ops_template(g, op, ops_file(i), &bytes);

        text_printf(&t, "\n%s\n", ops_file(i));
        if (text)
            text_add(&t, text, bytes);
    }
    return hash_bytes(t.s, t.len);
}

static int by_canonical(const void *a, const void *b)
{
    return strcmp((*(const OpRule *const *)a)->info->canonical,
                  (*(const OpRule *const *)b)->info->canonical);
}

/* Ops by canonical name, so that the text contains no folder's name; a name that two ops
 * share appears once. */
static void put_ops(Gen *g, Text *t)
{
    const OpRule **used = gen_alloc(g, sizeof *used * (size_t)(g->ops.count + 1));
    int n = 0;

    for (int i = 0; i < g->ops.count; i++)
        if (op_used(g, &g->ops.items[i]))
            used[n++] = &g->ops.items[i];
    qsort(used, (size_t)n, sizeof *used, by_canonical);
    for (int i = 0; i < n; i++) {
        const OpInfo *info = used[i]->info;

        if (i > 0 && !strcmp(info->canonical, used[i - 1]->info->canonical))
            continue;
        if (info->map && ops_foreign(g, used[i])) {
            text_printf(t, "arithmetic.%s = formula %016llx\n", info->canonical,
                        (unsigned long long)hash_bytes(info->map->formula,
                                                       strlen(info->map->formula)));
            continue;
        }
        if (ops_foreign(g, used[i])) {
            text_printf(t, "arithmetic.%s = text %016llx\n", info->canonical,
                        (unsigned long long)folder_hash(g, used[i]));
            continue;
        }
        gen_require(info->arithmetic > 0, "op %s states no version of its arithmetic",
                    used[i]->name);
        text_printf(t, "arithmetic.%s = %d\n", info->canonical, info->arithmetic);
    }
}

/* ---- values and nodes ------------------------------------------------------------ */

static void put_shape(Text *t, Dtype dtype, int n_dims, const int64_t *dim)
{
    text_printf(t, "%s", dtype_name(dtype));
    for (int i = 0; i < n_dims; i++)
        text_printf(t, " %lld", (long long)dim[i]);
}

/* Identifies a value of the class by its origin, not by its name: outputs are counted in
 * order. */
static void put_ref(Text *t, const Class *c, const Value *v)
{
    int n = 0;

    if (!v) {
        text_printf(t, " -");
    } else if (v->kind == VAL_PARAM) {
        text_printf(t, " p%d", v->index);
    } else if (v->kind == VAL_SCALE) {
        text_printf(t, " s%d", v->index);
    } else if (v->kind == VAL_DATA) {
        text_printf(t, " %s", data_names[v->index]);
    } else if (v->kind == VAL_INPUT || v->kind == VAL_DOUT) {
        text_printf(t, " %s%d", v->kind == VAL_INPUT ? "in" : "d", v->index);
    } else if (v->def->phase == PHASE_SETUP) {
        text_printf(t, " const%d", v->loc_index);
    } else {
        for (int i = 0; i < c->nodes.count && c->nodes.items[i] != v->def; i++)
            n += c->nodes.items[i]->n_out;
        text_printf(t, " %%%d", n + v->def_out);
    }
}

static void put_attr(Text *t, const OpRule *op, const Attr *a)
{
    for (int i = 0; i < op->info->n_attrs; i++) {
        const AttrSpec *spec = &op->info->attrs[i];

        if (strcmp(spec->key, a->key))
            continue;
        if (spec->has_default && !spec->from && attr_equal(a, &spec->dflt))
            return;
        if (spec->from && a->type != ATTR_STR &&
            (a->type == ATTR_NUM ? a->num == 0 : !a->i))
            return; /* the field behind it is neutral */
    }
    text_printf(t, " %s", attr_text(t->g, a));
}

static void put_node(Text *t, const Class *c, const Node *n)
{
    text_printf(t, "%s", n->op->info->canonical);
    for (int i = 0, at = 0; i < n->n_in; i++, at++) {
        for (; at < operand_index(n, i); at++)
            put_ref(t, c, NULL);
        put_ref(t, c, n->in[i]);
    }
    for (int i = 0; i < n->n_attrs; i++)
        put_attr(t, n->op, &n->attrs[i]);
    for (int i = 0; i < n->n_out; i++) {
        text_printf(t, n->add[i] ? " += " : " -> ");
        put_shape(t, n->out[i]->dtype, n->out[i]->n_dims, n->out[i]->dim);
    }
    text_printf(t, "\n");
}

/* ---- classes, blocks, parameters ------------------------------------------------- */

static void put_params(Text *t, const Class *c)
{
    for (int i = 0; i < c->params.count; i++) {
        const ClassParam *p = &c->params.items[i];

        text_printf(t, "param %s", p->init);
        if (!strcmp(p->init, "normal"))
            text_printf(t, " %.17g", p->init_std);
        for (int k = 0; k < p->n_dims; k++)
            text_printf(t, " %lld", (long long)p->dim[k]);
        text_printf(t, "%s%s", p->decay ? " decay" : "", p->frozen ? " frozen" : "");
        if (p->gathered != p->dtype)
            text_printf(t, " as %s", dtype_name(p->gathered));
        for (int k = 0; k < p->n_parts; k++)
            text_printf(t, " part %lld", (long long)p->part_rows[k]);
        text_printf(t, "\n");
    }
}

static void put_values(Text *t, const Class *c, const char *what, Value *const *v, int n)
{
    text_printf(t, "%s", what);
    for (int i = 0; v && i < n; i++)
        put_ref(t, c, v[i]);
    text_printf(t, "\n");
}

static void put_class(Text *t, const Class *c)
{
    text_printf(t, "class\n");
    put_params(t, c);
    for (int i = 0; i < c->n_inputs; i++) {
        text_printf(t, "in ");
        put_shape(t, c->inputs[i]->dtype, c->inputs[i]->n_dims, c->inputs[i]->dim);
        text_printf(t, "\n");
    }
    for (int phase = PHASE_FORWARD; phase <= PHASE_BACKWARD; phase++) {
        text_printf(t, "%s\n", phase == PHASE_FORWARD ? "forward" : "backward");
        for (int i = 0; i < c->nodes.count; i++)
            if (c->nodes.items[i]->phase == (Phase)phase)
                put_node(t, c, c->nodes.items[i]);
    }
    put_values(t, c, "out", c->outputs, c->n_outputs);
    put_values(t, c, "d_in", c->d_inputs, c->n_inputs);
    put_values(t, c, "grads", c->grads, c->params.count);
    put_values(t, c, "loss", &c->loss, 1);
}

/* The class of each block, and which tensors of the model its parameters are. */
static void put_blocks(Gen *g, Text *t)
{
    for (int i = 0; i < g->blocks.count; i++) {
        const Block *b = &g->blocks.items[i];

        text_printf(t, "block %d", b->cls->id);
        for (int k = 0; k < b->cls->params.count; k++)
            text_printf(t, " %s", g->params.items[b->param[k]].name);
        text_printf(t, "\n");
    }
}

static void put_graph(Gen *g, Text *t)
{
    for (int i = 0; i < g->setup.n_nodes; i++)
        put_node(t, NULL, g->setup.nodes[i]);
    for (int i = 0; i < g->classes.count; i++)
        put_class(t, g->classes.items[i]);
    put_blocks(g, t);
}

uint64_t numerics_hash(Gen *g)
{
    Text t = {.g = g};

    text_printf(&t, "numerics 2\n%s",
                g->model.canonical_fields ? g->model.canonical_fields : "");
    put_ops(g, &t);
    put_graph(g, &t);
    return hash_bytes(t.s, t.len);
}

const char *numerics_lines(Gen *g)
{
    Text t = {.g = g}, graph = {.g = g};

    put_graph(g, &graph);
    put_ops(g, &t);
    text_printf(&t, "graph = %016llx\n%s",
                (unsigned long long)hash_bytes(graph.s, graph.len),
                g->model.hash_fields ? g->model.hash_fields : "");
    return t.s;
}
