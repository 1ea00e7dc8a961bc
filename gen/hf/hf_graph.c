/* SPDX-License-Identifier: Apache-2.0 */
/* hf_graph.c: what a forward graph computes, in a form in which two graphs can be
 * compared; and the graph of a Hugging Face class. In: the blocks and parameters of a Gen
 * (graph_build); a config.json. Out: Graph; another Gen with its own blocks.
 *
 * A value is hashed as an expression: its op, attributes, shape, and the hashes of its
 * inputs, down to tokens and to parameters by their names in a Hugging Face file. So two
 * graphs are equal exactly if they differ only in names of values, order of nodes, or
 * cuts into blocks. The hash leaves out dtypes, initial values, and what the trainer
 * passes to the loss (attributes with a `from`), because classes do not define those. */
#include "hf/hf.h"
#include "describe/load.h"
#include "ops/ops.h"

#include <string.h>

/* ---- expressions ----------------------------------------------------------------- */

typedef struct Walk {
    Gen *g;
    Graph graph;
    uint64_t **nodes; /* by class, then by node: op, attributes, shapes */
    uint64_t *setup;  /* by node of g->setup */
    uint64_t *params; /* by parameter of the model */
    uint64_t *at;     /* by value of the current class */
} Walk;

static uint64_t mix(uint64_t a, uint64_t b)
{
    const uint64_t both[2] = {a, b};

    return hash_bytes(both, sizeof both);
}

bool hf_own_attr(const OpRule *op, const Attr *a)
{
    for (int i = 0; i < op->info->n_attrs; i++)
        if (!strcmp(op->info->attrs[i].key, a->key))
            return !op->info->attrs[i].from;
    return true;
}

static uint64_t hash_node(Gen *g, const Node *n)
{
    Text t = {.g = g};

    text_printf(&t, "%s", n->op->name);
    for (int i = 0; i < n->n_attrs; i++)
        if (hf_own_attr(n->op, &n->attrs[i]))
            text_printf(&t, " %s", attr_text(g, &n->attrs[i]));
    for (int i = 0; i < n->n_out; i++)
        text_printf(&t, " %s", shape_text(g, n->out[i]));
    return hash_bytes(t.s, t.len);
}

static uint64_t value_hash(const Walk *w, const Value *v)
{
    if (v->kind == VAL_NODE && v->def->phase == PHASE_SETUP)
        return mix(w->setup[v->def->id], (uint64_t)v->def_out);
    return w->at[v->id];
}

static uint64_t expression(const Walk *w, const Node *n, uint64_t hash)
{
    for (int i = 0; i < n->n_in; i++)
        hash = mix(hash, value_hash(w, n->in[i]));
    return n->omitted ? mix(hash, n->omitted) : hash;
}

static void walk_block(Walk *w, const Block *b, uint64_t *flow)
{
    const Class *c = b->cls;

    for (int i = 0; i < c->values.count; i++) {
        const Value *v = c->values.items[i];

        if (v->kind == VAL_PARAM)
            w->at[v->id] = w->params[b->param[v->index]];
        else if (v->kind == VAL_INPUT)
            w->at[v->id] = *flow;
        else if (v->kind == VAL_DATA)
            w->at[v->id] = hash_bytes(data_names[v->index], strlen(data_names[v->index]));
    }
    for (int i = 0; i < c->nodes.count; i++) {
        const Node *n = c->nodes.items[i];
        const uint64_t hash = expression(w, n, w->nodes[c->id][i]);

        for (int k = 0; k < n->n_out; k++)
            w->at[n->out[k]->id] = mix(hash, (uint64_t)k);
        *gen_push(w->g, &w->graph.exprs) = (Expr){hash, b, n};
    }
    if (c->n_outputs)
        *flow = value_hash(w, c->outputs[0]);
    if (c->loss)
        w->graph.loss = value_hash(w, c->loss);
}

/* ---- parameters ------------------------------------------------------------------ */

static const Node *first_reader(const Param *p)
{
    const Class *c = p->block->cls;

    for (int i = 0; i < c->nodes.count; i++)
        for (int k = 0; k < c->nodes.items[i]->n_in; k++) {
            const Value *v = c->nodes.items[i]->in[k];

            if (v->kind == VAL_PARAM && p->block->param[v->index] == p->id)
                return c->nodes.items[i];
        }
    return NULL;
}

/* Adds its tensors; returns the hash of their names and shapes. */
static uint64_t add_tensors(Walk *w, const Param *p)
{
    const ClassParam *d = p->decl;
    const char *prefix = d->tied_global ? "" : p->block->prefix;
    uint64_t hash = 0;

    for (int k = 0; k < (d->n_parts ? d->n_parts : 1); k++) {
        Tensor *t = gen_push(w->g, &w->graph.tensors);

        *t = (Tensor){.name = d->n_parts
                                  ? gen_printf(w->g, "%s%s", prefix, d->part_name[k])
                                  : p->name,
                      .n_dims = d->n_dims,
                      .block = p->block,
                      .reader = first_reader(p)};
        memcpy(t->dim, d->dim, sizeof t->dim);
        if (d->n_parts)
            t->dim[0] = d->part_rows[k];
        hash = mix(hash, hash_bytes(t->name, strlen(t->name)));
        hash = mix(hash, hash_bytes(t->dim, sizeof t->dim));
    }
    return hash;
}

Graph hf_graph(Gen *g)
{
    Walk w = {.g = g};
    uint64_t flow = 0;
    int most = 1;

    w.nodes = gen_alloc(g, sizeof *w.nodes * (size_t)(g->classes.count + 1));
    for (int i = 0; i < g->classes.count; i++) {
        const Class *c = g->classes.items[i];

        most = c->values.count > most ? c->values.count : most;
        w.nodes[i] = gen_alloc(g, sizeof **w.nodes * (size_t)(c->nodes.count + 1));
        for (int k = 0; k < c->nodes.count; k++)
            w.nodes[i][k] = hash_node(g, c->nodes.items[k]);
    }
    w.at = gen_alloc(g, sizeof *w.at * (size_t)most);
    w.setup = gen_alloc(g, sizeof *w.setup * (size_t)(g->setup.n_nodes + 1));
    for (int i = 0; i < g->setup.n_nodes; i++)
        w.setup[i] = expression(&w, g->setup.nodes[i], hash_node(g, g->setup.nodes[i]));
    w.params = gen_alloc(g, sizeof *w.params * (size_t)(g->params.count + 1));
    for (int i = 0; i < g->params.count; i++)
        w.params[i] = add_tensors(&w, &g->params.items[i]);
    for (int i = 0; i < g->blocks.count; i++)
        walk_block(&w, &g->blocks.items[i], &flow);
    return w.graph;
}

/* ---- the graph of a class -------------------------------------------------------- */

/* A trainer around the model, with what the graph depends on in g's trainer. */
static const char *description(Gen *g, const char *arch, const char *model)
{
    const Model *m = &g->model;

    return gen_printf(g,
                      "local %s = require \"arch.%s\"\n"
                      "return trainer { name = \"reference\", model = %s,\n"
                      "seq = %lld, micro_batch = %lld, global_batch = %lld%s }\n",
                      arch, arch, model, (long long)m->seq_tokens,
                      (long long)m->micro_batch, (long long)m->global_batch,
                      m->packed ? gen_printf(g, ", documents = { end_id = %lld }",
                                             (long long)m->document_end)
                                : "");
}

Gen *hf_reference(Gen *g, const char *config, const char **problem)
{
    static void (*const passes[])(Gen *) = {check_model, ops_load, graph_build};
    Gen *r = gen_alloc(g, sizeof *r);
    Config c = {.g = r};
    const char *model;

    r->opt = (Options){.command = "check", .input = "reference.lua"};
    if (g->opt.ops_shared) {
        r->opt.ops_dir = g->opt.ops_dir;
        r->opt.ops_shared = true;
    }
    model = hf_take(&c, config) ? hf_model(&c) : NULL;
    if (model)
        load_own_text(r, description(g, c.family->arch, model));
    for (size_t i = 0; i < sizeof passes / sizeof *passes && !diag_errors(r); i++)
        passes[i](r);
    json_decref(c.root);
    *problem = diag_first_error(r);
    return *problem ? NULL : r;
}
