/* SPDX-License-Identifier: Apache-2.0 */
/* split.c: the joint graph → the same graph as each of several parts computes it.
 * In: nodes and gradients of every class (grad), `cuts` of op rules, marks of parameters.
 * Out: Value.part, dims and attributes of one part, and meets: nodes of the op with role
 * "collective" where a node needs something else of a value than its part has. Fusion
 * follows and finds nothing across a meet. With one part nothing changes.
 *
 * The axes are cut one after the other: first the graph into parts of heads and features
 * (tensor), then what such a part computes into parts of tokens (context). The meets of
 * the first are nodes for the second.
 *
 * 1. Parameters are cut as they are marked; rows of zeros are added where the mark says
 *    so. Values between blocks are cut by tokens, so what lies between two blocks'
 *    products is computed once (sequence parallelism).
 * 2. split_choose.c chooses for each node, forward and backward alike, along which axis
 *    it is cut. Hence the meets of the backward are the gradients of those of the
 *    forward: of a gather a sum, of a sum a gather, of a turn the opposite turn.
 *    A node whose parts are other ops is replaced first: split_ops.c.
 * 3. Meets are inserted before the first node that needs them. A value is gathered again
 *    for the backward, so that what is kept is cut; a sum is made once, of summands that
 *    are as wide as parts.dtype says.
 *    With parts.context, parts have tokens all along, and weights are cut only to be
 *    stored: a part gathers what it multiplies by, and sums its gradient to boxes.
 * 4. The gradient of a parameter that is cut is its piece, and that of a whole one is
 *    whole: where parts see different tokens they meet in a sum. Such parameters are
 *    norms and biases, so it is small. Hence ranks along the axis update them alike. */
#include "graph/builder.h"

#include <string.h>

typedef struct Meet {
    const Value *from;
    Phase phase;
    PartState to;
    Value *value;
} Meet;

typedef struct Split {
    Gen *g;
    PartsAxis axis;
    int64_t parts; /* along it */
    Builder *b;
    Class *c;
    const OpRule *meet;   /* role "collective" */
    const OpRule *copy;   /* role "copy" */
    Choice *choices;      /* per node of the whole graph */
    Node **part_nodes;    /* and what a part computes */
    PartState *out_parts; /* of the block's outputs, as they must be */
    Value *before;        /* each value before this axis was cut, by id */
    struct {
        Meet *items;
        int count, cap;
    } meets;
    struct {
        Node **items;
        int count, cap;
    } order; /* the new graph */
} Split;

/* ---- what comes from outside ----------------------------------------------------- */

/* What each part has of a value of this shape that passes between blocks: its tokens. A
 * part of features has some of each part of tokens, so that what parts of features gather
 * is, for a part of tokens, its own tokens in their order. */
static PartState split_boundary(const Split *x, const Value *v)
{
    const Model *m = &x->g->model;
    const bool tensor = x->axis == PARTS_TENSOR;
    const int64_t tokens =
        m->micro_batch * m->seq_tokens / (tensor ? 1 : m->parts[PARTS_TENSOR]);
    const int sections = tensor ? (int)m->parts[PARTS_CONTEXT] : 1;
    PartState p = {.kind = PART_CUT, .sections = {.n = sections}};

    if (v->n_dims < 2 || v->dim[0] != tokens)
        return (PartState){0};
    p.sections.elems = gen_alloc(x->g, sizeof *p.sections.elems * (size_t)sections);
    for (int i = 0; i < sections; i++)
        p.sections.elems[i] = tokens / sections;
    return p;
}

/* Rows of zeros make all parts equal. What follows from the parameters' shapes follows
 * from the padded ones; ops that must know get both sizes. */
static void pad_params(Split *x)
{
    const int64_t parts = x->parts;
    Class *c = x->c;
    bool any = false;

    for (int i = 0; i < c->values.count; i++) {
        Value *v = c->values.items[i];
        ClassParam *p = v->kind == VAL_PARAM ? &c->params.items[v->index] : NULL;
        Sections *s = p ? &p->mark[PARTS_TENSOR].sections : NULL;
        int64_t dim[MAX_DIMS];

        if (!p || !p->mark_pads || split_padded_rows(p, parts) * parts == p->dim[0])
            continue;
        *s = (Sections){.n = 1, .elems = gen_alloc(x->g, sizeof *s->elems)};
        s->elems[0] = split_padded_rows(p, parts) * parts;
        s->pad = s->elems[0] - p->dim[0];
        memcpy(dim, p->dim, sizeof dim);
        dim[0] = s->elems[0];
        value_shape(v, v->dtype, dim, v->n_dims);
        any = true;
    }
    for (int i = 0; any && i < c->nodes.count; i++) {
        x->b->blame = c->nodes.items[i]->pos;
        infer_node(x->g, c->nodes.items[i]);
    }
}

/* The mark that cuts what a part of features has of the parameter: the pieces of each
 * section again, so that all boxes are pieces along one dim. Padding stays together. */
static PartState mark_of_piece(const Split *x, const PartState *piece)
{
    const int64_t tensor = x->g->model.parts[PARTS_TENSOR];
    PartState p = *piece;

    p.sections.elems = gen_alloc(x->g, sizeof *p.sections.elems * (size_t)p.sections.n);
    for (int i = 0; i < p.sections.n; i++) {
        p.sections.elems[i] = piece->sections.elems[i] / tensor;
        if (p.sections.elems[i] % x->parts || piece->sections.pad)
            return (PartState){0};
    }
    return p;
}

/* Parts of tokens need all of each parameter, so it is cut only to be stored: along the
 * dim that an architecture's mark names, or the first one of a table or weight that parts
 * divide. Norms and biases are whole everywhere. */
static void mark_for_storage(const Split *x)
{
    for (int i = 0; i < x->c->params.count; i++) {
        ClassParam *p = &x->c->params.items[i];
        PartState *mark = &p->mark[PARTS_CONTEXT];

        *mark = (PartState){0};
        if (p->n_dims != 2)
            continue;
        if (p->mark[PARTS_TENSOR].kind == PART_CUT) {
            *mark = mark_of_piece(x, &p->mark[PARTS_TENSOR]);
            continue;
        }
        for (int d = 0; d < 2 && mark->kind == PART_WHOLE; d++) {
            if (p->dim[d] % x->parts)
                continue;
            *mark = (PartState){.kind = PART_CUT, .dim = d, .sections = {.n = 1}};
            mark->sections.elems = gen_alloc(x->g, sizeof *mark->sections.elems);
            mark->sections.elems[0] = p->dim[d];
        }
    }
}

/* Without parts of features the architecture's marks say nothing. */
static void drop_marks(Class *c)
{
    for (int i = 0; i < c->params.count; i++) {
        c->params.items[i].mark[PARTS_TENSOR] = (PartState){0};
        c->params.items[i].mark_unit = 1;
        c->params.items[i].mark_pads = false;
    }
}

/* Parts of parameters and boundary values; whole shapes. */
static void place_boundary(Split *x)
{
    Class *c = x->c;

    for (int i = 0; i < c->values.count; i++) {
        Value *v = c->values.items[i];

        v->part[x->axis] = (PartState){0};
        if (v->kind == VAL_PARAM)
            v->part[x->axis] = c->params.items[v->index].mark[x->axis];
        if (v->kind == VAL_INPUT || v->kind == VAL_DOUT)
            v->part[x->axis] = split_boundary(x, v);
    }
}

/* ---- gradients of parameters ----------------------------------------------------- */

PartState split_gradient(const Class *c, const Value *gradient, PartsAxis axis)
{
    const PartState *mark = &c->params.items[gradient->loc_index].mark[axis];

    return mark->kind == PART_CUT ? *mark : (PartState){0};
}

/* ---- meets ----------------------------------------------------------------------- */

/* A meet of v, or of its copy. */
static Node *new_meet(Split *x, const Value *v, Value *from, const PartState *to,
                      const char *name)
{
    Gen *g = x->g;
    const Dtype of_sum = x->before[v->id].dtype;
    Attr attrs[] = {
        {.key = "axis", .type = ATTR_STR, .s = axis_name(parts_mesh(x->axis))},
        {.key = "dtype",
         .type = ATTR_STR,
         .s = from->dtype == of_sum ? x->meet->in[0].name : dtype_name(of_sum)},
        {.key = "from", .type = ATTR_STR, .s = part_text(g, &from->part[x->axis])},
        {.key = "parts", .type = ATTR_INT, .i = x->parts},
        {.key = "to", .type = ATTR_STR, .s = part_text(g, to)},
    };
    Node *n =
        builder_node(x->b, x->meet, &from, attrs, sizeof attrs / sizeof *attrs, name);

    n->along = x->axis;
    memcpy(n->out[0]->part, x->before[v->id].part, sizeof v->part);
    n->out[0]->part[x->axis] = *to;
    split_others(g, n->out[0]->part, x->axis);
    return n;
}

static const char *meet_word(const PartState *from, const PartState *to)
{
    if (part_is_made(from))
        return from->kind == PART_PARTIAL ? "sum" : "largest";
    if (to->kind == PART_WHOLE)
        return "whole";
    return from->kind == PART_WHOLE ? "piece" : "turned";
}

/* What meets take of a parameter's box: peers read values, not weights. */
static Value *box_copy(Split *x, Value *box)
{
    Node *n =
        builder_node(x->b, x->copy, &box, NULL, 0, gen_printf(x->g, "%s_box", box->name));

    memcpy(n->out[0]->part, box->part, sizeof box->part);
    *gen_push(x->g, &x->order) = n;
    return n->out[0];
}

/* A turn is from one dim to another. Other pieces of the same dim are pieces of the
 * whole. */
static bool needs_whole(const PartState *has, const PartState *to)
{
    return has->kind == PART_CUT && to->kind == PART_CUT && has->dim == to->dim;
}

/* v as a node of this phase and piece needs it. */
static Value *as_part(Split *x, Value *v, const PartState *to, Phase phase, int piece)
{
    const PartState *has = &v->part[x->axis], whole = {0};
    Value *from = v;
    Meet *m;

    if (part_equal(has, to))
        return v;
    for (int i = 0; i < x->meets.count; i++) {
        m = &x->meets.items[i];
        if (m->from == v && part_equal(&m->to, to) &&
            (m->phase == phase || part_is_made(has)))
            return m->value;
    }
    if (needs_whole(has, to))
        from = as_part(x, v, &whole, phase, piece);
    x->b->phase = phase;
    x->b->piece = piece;
    if (from == v && v->kind == VAL_PARAM && has->kind == PART_CUT)
        from = box_copy(x, v);
    m = gen_push(x->g, &x->meets);
    *m = (Meet){
        v, phase, *to,
        new_meet(x, v, from, to, gen_printf(x->g, "%s_%s", v->name, meet_word(has, to)))
            ->out[0]};
    *gen_push(x->g, &x->order) = m->value->def;
    return m->value;
}

/* A gradient that is made otherwise than it must be meets on its way into the buffer. */
static void convert_gradient(Split *x, Node *n, int out)
{
    Value *made = n->out[out], *d;
    const PartState want = split_gradient(x->c, made, x->axis);
    const char *name = made->name;
    const PartState whole = {0};
    Value *from = made;
    Node *m;

    if (part_equal(&made->part[x->axis], &want))
        return;
    made->name = value_unique_name(x->g, x->c, gen_printf(x->g, "%s_part", name));
    if (out == 0)
        n->name = made->name;
    x->b->phase = n->phase;
    x->b->piece = n->piece;
    if (needs_whole(&made->part[x->axis], &want)) {
        m = new_meet(x, made, made, &whole, gen_printf(x->g, "%s_whole", made->name));
        *gen_push(x->g, &x->order) = m;
        from = m->out[0];
    }
    m = new_meet(x, made, from, &want, "meet");
    d = m->out[0];
    d->name = m->name = name;
    d->loc = made->loc;
    d->loc_index = made->loc_index;
    d->index = made->index;
    m->add[0] = n->add[out];
    made->loc = LOC_NONE;
    made->index = -1;
    n->add[out] = false;
    if (x->c->grads[d->loc_index] == made)
        x->c->grads[d->loc_index] = d;
    *gen_push(x->g, &x->order) = m;
}

/* ---- one class ------------------------------------------------------------------- */

static void split_node(Split *x, Node *n, const Choice *choice, const Node *part)
{
    for (int i = 0; i < n->n_in; i++)
        n->in[i] = as_part(x, n->in[i], &choice->part[i], n->phase, n->piece);
    for (int k = 0; k < n->n_out; k++) { /* a summand may be wider than its value */
        n->out[k]->dtype = part->out[k]->dtype;
        n->out[k]->bytes = n->out[k]->elems * dtype_bytes(n->out[k]->dtype);
    }
    n->attrs = part->attrs;
    n->flops = part->flops;
    n->library = part->library;
    n->site = part->site;
    n->workspace_bytes = part->workspace_bytes;
    n->other_workspace_bytes = part->other_workspace_bytes;
    *gen_push(x->g, &x->order) = n;
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k]->loc == LOC_GRAD)
            convert_gradient(x, n, k);
}

/* What blocks hand on has the same part in all of them; the loss is whole. */
static void end_forward(Split *x)
{
    Class *c = x->c;
    const PartState whole = {0};

    for (int i = 0; i < c->n_outputs; i++) {
        Value *v = c->outputs[i];

        c->outputs[i] =
            as_part(x, v, &x->out_parts[i], PHASE_FORWARD, v->def ? v->def->piece : 0);
    }
    if (c->loss)
        c->loss = as_part(x, c->loss, &whole, PHASE_FORWARD, c->loss->def->piece);
}

static void end_backward(Split *x)
{
    Class *c = x->c;

    for (int i = 0; i < c->n_inputs; i++) {
        Value *d = c->d_inputs[i];

        if (d)
            c->d_inputs[i] = as_part(x, d, &c->inputs[i]->part[x->axis], PHASE_BACKWARD,
                                     d->def ? d->def->piece : 0);
    }
}

/* Every shape becomes that of a part; then meets are inserted. */
static int run_insert(lua_State *L)
{
    Split *x = lua_touserdata(L, 1);
    Class *c = x->c;
    const int n_nodes = c->nodes.count;
    bool forward = true;

    x->before = gen_alloc(x->g, sizeof *x->before * (size_t)(c->values.count + 1));
    for (int i = 0; i < c->values.count; i++) {
        x->before[i] = *c->values.items[i];
        split_shape(x->g, c->values.items[i], x->axis);
    }
    for (int i = 0; i < n_nodes; i++) {
        Node *n = c->nodes.items[i];

        if (forward && n->phase == PHASE_BACKWARD)
            end_forward(x);
        forward = forward && n->phase != PHASE_BACKWARD;
        split_node(x, n, &x->choices[i], x->part_nodes[i]);
    }
    if (forward)
        end_forward(x);
    end_backward(x);
    for (int i = 0; i < x->order.count; i++) {
        c->nodes.items[i] = x->order.items[i];
        c->nodes.items[i]->id = i;
    }
    gen_require(c->nodes.count == x->order.count, "%s: %d nodes became %d", c->name,
                c->nodes.count, x->order.count);
    return 0;
}

static int run_choose(lua_State *L)
{
    Split *x = lua_touserdata(L, 1);

    if (x->axis == PARTS_TENSOR)
        pad_params(x);
    place_boundary(x);
    x->choices = split_choose(x->g, x->c, x->axis);
    x->part_nodes =
        gen_alloc(x->g, sizeof *x->part_nodes * (size_t)(x->c->nodes.count + 1));
    for (int i = 0; i < x->c->nodes.count; i++)
        x->part_nodes[i] =
            split_part_node(x->g, x->c->nodes.items[i], &x->choices[i], x->axis);
    x->out_parts = gen_alloc(x->g, sizeof *x->out_parts * (size_t)(x->c->n_outputs + 1));
    for (int i = 0; i < x->c->n_outputs; i++)
        x->out_parts[i] = split_boundary(x, x->c->outputs[i]);
    return 0;
}

static bool run_protected(Split *x, lua_CFunction run)
{
    bool good;

    x->b->cls = x->c;
    x->b->block = x->c->name;
    good = builder_protect(x->g, run, x, model_pos(x->g, "model"));
    x->b->cls = NULL;
    x->b->block = NULL;
    return good;
}

/* All classes, along one axis. False: a message says why not. */
static bool split_along(Gen *g, PartsAxis axis)
{
    const OpRule *meet = ops_role(g, "collective"), *copy = ops_role(g, "copy");
    const int n = g->classes.count;
    Split *all = gen_alloc(g, sizeof *all * (size_t)(n + 1));

    if (!meet || !copy) {
        diag_add(g, DIAG_ERROR, model_pos(g, parts_field(g, axis)),
                 "an op of --ops has its name: give that another one",
                 "%s: no op has role = \"%s\", which parts need", parts_field(g, axis),
                 meet ? "copy" : "collective");
        return false;
    }
    for (int i = 0; i < n; i++) {
        all[i] = (Split){.g = g,
                         .axis = axis,
                         .parts = g->model.parts[axis],
                         .b = builder_get(g),
                         .c = g->classes.items[i],
                         .meet = meet,
                         .copy = copy};
        if (axis == PARTS_CONTEXT)
            mark_for_storage(&all[i]);
        if (!run_protected(&all[i], run_choose) || diag_errors(g))
            return false;
    }
    for (int i = 0; i < n; i++)
        if (!run_protected(&all[i], run_insert))
            return false;
    return true;
}

void split_graph(Gen *g)
{
    for (int i = 0; g->model.parts[PARTS_TENSOR] == 1 && i < g->classes.count; i++)
        if (parts_all(&g->model) > 1)
            drop_marks(g->classes.items[i]);
    for (int a = 0; a < N_PARTS_AXES; a++) /* parts of one axis are cut along the other */
        if (g->model.parts[a] > 1 && !split_divides(g, a))
            return;
    for (int a = 0; a < N_PARTS_AXES; a++) {
        if (g->model.parts[a] <= 1)
            continue;
        if (!split_along(g, a))
            return;
        g->in_parts = true;
    }
}
