/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate.c: what runs after the forward to evaluate a model instead of training it: the
 * loss, if the forward does not make it, and the logits of one token, to sample from. In:
 * a class that ends the model, with locations of its values. Out: Class.evaluate, one
 * node.
 *
 * The rule says which op that is: its `evaluates` names the op whose loss it makes. Its
 * inputs are that op's, by name, and `row`; so are its attributes. It reads what the
 * forward leaves for the backward. The node is not part of the class's graph nor of the
 * numerics hash, because training uses none of its results. If no rule evaluates the
 * loss, the trainer reports that it cannot evaluate. */
#include "graph/builder.h"
#include "ops/ops.h"

#include <string.h>

/* An op and its forms make the same loss, so one op evaluates all of them. */
static const OpRule *evaluator_of(const Gen *g, const OpRule *op)
{
    const char *form_of = op->info->form_of ? op->info->form_of : op->name;

    for (int i = 0; i < g->ops.count; i++) {
        const char *name = g->ops.items[i].info->evaluates;

        if (name && (!strcmp(name, op->name) || !strcmp(name, form_of)))
            return &g->ops.items[i];
    }
    return NULL;
}

static Value *row_value(Gen *g, Class *c)
{
    Value *v = gen_alloc(g, sizeof *v);
    int64_t one = 1;

    *v = (Value){.id = -1,
                 .kind = VAL_DATA,
                 .name = value_unique_name(g, c, data_names[DATA_ROW]),
                 .index = DATA_ROW,
                 .loc = LOC_DATA,
                 .loc_index = DATA_ROW};
    value_shape(v, DT_I32, &one, 1);
    return v;
}

/* Is the value still there after the forward? */
static bool outlives_forward(const Value *v)
{
    return v->kind != VAL_DOUT &&
           (v->kind != VAL_NODE || v->loc == LOC_CONST ||
            (v->loc == LOC_SAVED && v->def->phase == PHASE_FORWARD));
}

/* The value that the loss's op has under that name; NULL if it has none. */
static Value *input_of(const Node *loss, const char *name)
{
    for (int i = 0; i < loss->n_in; i++)
        if (!strcmp(loss->op->in[i].name, name))
            return loss->in[i];
    return NULL;
}

static void take_inputs(Gen *g, Class *c, const Node *loss, Node *n)
{
    const OpRule *op = n->op;

    n->n_in = op->n_in;
    n->in = gen_alloc(g, sizeof *n->in * (size_t)op->n_in);
    for (int i = 0; i < op->n_in; i++) {
        const char *name = op->in[i].name;

        n->in[i] =
            strcmp(name, data_names[DATA_ROW]) ? input_of(loss, name) : row_value(g, c);
        if (!n->in[i])
            luaL_error(g->L, "%s: its input %s is not an input of %s, which it evaluates",
                       op->name, name, loss->op->name);
    }
}

static void take_attrs(Gen *g, const Node *loss, Node *n)
{
    const OpInfo *info = n->op->info;

    n->n_attrs = info->n_attrs;
    n->attrs = gen_alloc(g, sizeof *n->attrs * (size_t)(info->n_attrs + 1));
    for (int i = 0; i < info->n_attrs; i++) {
        const Attr *found = NULL;

        for (int k = 0; k < loss->n_attrs; k++)
            if (!strcmp(loss->attrs[k].key, info->attrs[i].key) &&
                (int)loss->attrs[k].type == info->attrs[i].type)
                found = &loss->attrs[k];
        if (!found)
            luaL_error(
                g->L,
                "%s: its attribute %s is not an attribute of %s, which it evaluates",
                n->op->name, info->attrs[i].key, loss->op->name);
        n->attrs[i] = *found;
    }
}

static void make_outputs(Gen *g, Class *c, const Node *loss, Node *n)
{
    const OpRule *op = n->op;

    n->n_out = op->n_out;
    n->out = gen_alloc(g, sizeof *n->out * (size_t)op->n_out);
    n->add = gen_alloc(g, sizeof *n->add * (size_t)op->n_out);
    for (int i = 0; i < op->n_out; i++) {
        Value *v = gen_alloc(g, sizeof *v);
        bool is_loss = !strcmp(op->out[i].name, "loss");

        *v = (Value){.id = -1,
                     .name = is_loss ? c->loss->name
                                     : value_unique_name(g, c, op->out[i].name),
                     .loc = is_loss ? LOC_LOSS : LOC_LOGITS};
        n->out[i] = v;
        if (is_loss && loss->phase == PHASE_FORWARD)
            luaL_error(g->L, "%s: %s makes its loss in the forward already", op->name,
                       loss->op->name);
    }
    infer_node(g, n);
    for (int i = 0; i < op->n_out; i++) {
        n->out[i]->kind = VAL_NODE;
        n->out[i]->def = n;
        n->out[i]->def_out = i;
    }
}

void evaluate_class(Gen *g, Class *c)
{
    const Node *loss = c->loss ? c->loss->def : NULL;
    const OpRule *op = loss ? evaluator_of(g, loss->op) : NULL;
    Node *n;

    if (!op)
        return;
    n = gen_alloc(g, sizeof *n);
    *n = (Node){.id = -1, .op = op, .name = op->name, .phase = PHASE_EVALUATE};
    take_inputs(g, c, loss, n);
    for (int i = 0; i < n->n_in; i++)
        if (!outlives_forward(n->in[i]))
            return;
    take_attrs(g, loss, n);
    make_outputs(g, c, loss, n);
    c->evaluate.phase = PHASE_EVALUATE;
    c->evaluate.n_nodes = 1;
    c->evaluate.nodes = gen_alloc(g, sizeof *c->evaluate.nodes);
    c->evaluate.nodes[0] = n;
    c->evaluate.flops = n->flops;
    node_cost(g, n);
    c->evaluate.traffic_bytes = n->cost.traffic_bytes;
    c->evaluate.scratch_bytes = c->evaluate.live_scratch_bytes =
        round_up(n->workspace_bytes, ARENA_ALIGN_BYTES);
}
