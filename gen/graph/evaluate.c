/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate.c: what runs after the forward to evaluate a model instead of training it: the
 * loss, if the forward does not make it, and the logits of one token, to sample from. In:
 * a class that ends the model, with locations of its values. Out: Class.evaluate, one
 * node.
 *
 * In parts, the op computes a part's piece of the logits, or, where parts have tokens,
 * the loss of these and the logits as a summand that only the part with the token has;
 * and meets make them whole.
 *
 * The rule says which op that is: its `evaluates` names the op whose loss it makes. Its
 * inputs are that op's, by name, and `row`; so are its attributes. It reads what the
 * forward leaves for the backward; what meets bring for the backward, meets bring here
 * again. The node is not part of the class's graph nor of the
 * numerics hash, because training uses none of its results. If no rule evaluates the
 * loss, the trainer reports that it cannot evaluate. */
#include "graph/builder.h"
#include "ops/ops.h"

#include <string.h>

typedef struct Evaluation {
    Gen *g;
    Class *c;
    const Node *loss; /* whose inputs and attributes it takes */
    struct {
        Node **items;
        int count, cap;
    } nodes;
    int64_t scratch_bytes; /* so far */
} Evaluation;

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

/* The token's row, or the number of a part along the axis, of which each part has its
 * own. */
static Value *number_value(Gen *g, Class *c, int kind, PartsAxis axis)
{
    Value *v = gen_alloc(g, sizeof *v);
    int64_t *n = gen_alloc(g, sizeof *n);

    *n = kind == DATA_PART ? g->model.parts[axis] : 1;
    *v = (Value){.id = -1,
                 .kind = VAL_DATA,
                 .name = value_unique_name(g, c, data_names[kind]),
                 .index = kind,
                 .loc = LOC_DATA,
                 .loc_index = kind};
    value_shape(v, DT_I32, n, 1);
    if (kind == DATA_PART) {
        v->part[axis] = (PartState){.kind = PART_CUT, .sections = {1, n, 0}};
        split_shape(g, v, axis);
    }
    return v;
}

/* The value that the loss's op has under that name; NULL if it has none. */
static Value *input_of(const Node *loss, const char *name)
{
    for (int i = 0; i < loss->n_in; i++)
        if (!strcmp(node_operand(loss, i)->name, name))
            return loss->in[i];
    return NULL;
}

/* Is it data that no loss has? */
static bool is_number(const char *input)
{
    return !strcmp(input, data_names[DATA_ROW]) || !strcmp(input, data_names[DATA_PART]);
}

/* The node whose inputs and attributes the evaluation takes, and its op: the one that
 * makes the loss, or in parts one of those that stand for it (split_ops.c). NULL: none.
 */
static const Node *evaluated(const Gen *g, const Class *c, const OpRule **op)
{
    const Node *loss = c->loss ? c->loss->def : NULL;

    while (loss && loss->op->collective)
        loss = loss->in[0]->def;
    if (!loss)
        return NULL;
    *op = evaluator_of(g, loss->part_of ? loss->part_of : loss->op);
    for (int i = 0; *op && loss->part_of && i < c->nodes.count; i++) {
        const Node *n = c->nodes.items[i];
        bool all = n->part_of == loss->part_of && n->phase == PHASE_FORWARD;

        for (int k = 0; all && k < (*op)->n_in; k++)
            all = is_number((*op)->in[k].name) || input_of(n, (*op)->in[k].name);
        if (all)
            return n;
    }
    return *op ? loss : NULL;
}

/* Does a part along the axis make its tokens' loss? */
static bool has_tokens(const Node *loss, PartsAxis axis)
{
    const PartState *part = &loss->in[0]->part[axis];

    return part->kind == PART_CUT && part->dim == 0;
}

/* Is the value still there after the forward? */
static bool outlives_forward(const Value *v)
{
    return v->kind != VAL_DOUT &&
           (v->kind != VAL_NODE || v->loc == LOC_CONST ||
            (v->loc == LOC_SAVED && v->def->phase == PHASE_FORWARD));
}

static void take_scratch(Evaluation *x, Value *v)
{
    v->loc = LOC_SCRATCH;
    v->offset_bytes = x->scratch_bytes;
    x->scratch_bytes += round_up(v->bytes, ARENA_ALIGN_BYTES);
}

/* Adds a node from one value to one: `out`, of which only what the op's rule says is
 * still to be known. */
static void add_node(Evaluation *x, const Node *like, Value *in, Value *out)
{
    Gen *g = x->g;
    Node *n = gen_alloc(g, sizeof *n);

    *n = *like;
    n->id = -1;
    n->name = out->name;
    n->phase = PHASE_EVALUATE;
    n->n_in = n->n_out = 1;
    n->in = gen_alloc(g, sizeof *n->in);
    n->out = gen_alloc(g, sizeof *n->out);
    n->add = gen_alloc(g, sizeof *n->add);
    n->in[0] = in;
    n->out[0] = out;
    infer_node(g, n);
    out->id = -1;
    out->kind = VAL_NODE;
    out->def = n;
    out->def_out = 0;
    *gen_push(g, &x->nodes) = n;
}

/* The value as evaluation finds it: the forward leaves it, or meets bring it again. NULL:
 * neither. */
static Value *found(Evaluation *x, Value *v)
{
    const Node *n = v->kind == VAL_NODE ? v->def : NULL;
    Value *in, *again;

    if (outlives_forward(v))
        return v;
    if (!n || !(n->op->collective || n->op == ops_role(x->g, "copy")))
        return NULL;
    in = found(x, n->in[0]);
    if (!in)
        return NULL;
    again = gen_alloc(x->g, sizeof *again);
    *again = *v;
    add_node(x, n, in, again);
    take_scratch(x, again);
    return again;
}

/* False: evaluation does not find some input. */
static bool take_inputs(Evaluation *x, Node *n)
{
    Gen *g = x->g;
    const OpRule *op = n->op;

    n->in = gen_alloc(g, sizeof *n->in * (size_t)op->n_in);
    for (int i = 0; i < op->n_in; i++) {
        const char *name = op->in[i].name;
        Value *v = is_number(name) ? NULL : input_of(x->loss, name);

        if (v && !(v = found(x, v)))
            return false;
        if (!strcmp(name, data_names[DATA_ROW]))
            v = number_value(g, x->c, DATA_ROW, 0);
        for (int a = 0; !strcmp(name, data_names[DATA_PART]) && a < N_PARTS_AXES; a++)
            if (has_tokens(x->loss, a))
                v = number_value(g, x->c, DATA_PART, a);
        if (v)
            n->in[n->n_in++] = v;
        else if (op->in[i].optional)
            n->omitted |= 1u << i;
        else
            luaL_error(g->L, "%s: its input %s is not an input of %s, which it evaluates",
                       op->name, name, x->loss->op->name);
    }
    return true;
}

static bool reads_part(const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->kind == VAL_DATA && n->in[i]->index == DATA_PART)
            return true;
    return false;
}

/* parts: of how many it has rows, its own or, 0, all of them. */
static void take_attrs(Gen *g, const Node *loss, Node *n)
{
    const OpInfo *info = n->op->info;
    const Attr own_part = {.key = "parts", .type = ATTR_INT, .i = reads_part(n)};

    n->n_attrs = info->n_attrs;
    n->attrs = gen_alloc(g, sizeof *n->attrs * (size_t)(info->n_attrs + 1));
    for (int i = 0; i < info->n_attrs; i++) {
        const Attr *found = NULL;

        for (int k = 0; k < loss->n_attrs; k++)
            if (!strcmp(loss->attrs[k].key, info->attrs[i].key) &&
                (int)loss->attrs[k].type == info->attrs[i].type)
                found = &loss->attrs[k];
        if (!strcmp(info->attrs[i].key, own_part.key))
            found = &own_part;
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

/* ---- in parts -------------------------------------------------------------------- */

/* The cut of the op's rule by which its inputs lie in parts along the axis; NULL: none.
 */
static const Cut *cut_of_inputs(const Node *n, PartsAxis axis)
{
    const OpInfo *info = n->op->info;

    for (int c = 0; c < info->n_cuts; c++) {
        bool fits = true;

        for (int i = 0; i < n->n_in; i++) {
            const CutOperand *o = cuts_operand(&info->cuts[c], node_operand(n, i)->name);
            const PartState *part = &n->in[i]->part[axis];

            fits = fits && (o ? part->kind == PART_CUT && part->dim == o->dim
                              : part->kind == PART_WHOLE);
        }
        if (fits)
            return &info->cuts[c];
    }
    return NULL;
}

/* A part has a piece, or a summand: it goes to scratch, and a meet makes the whole of it.
 */
static Value *add_whole(Evaluation *x, Value *piece, PartsAxis axis)
{
    Gen *g = x->g;
    const OpRule *op = ops_role(g, "collective");
    Value *whole = gen_alloc(g, sizeof *whole);
    const PartState all = {0};
    const Attr attrs[] = {
        {.key = "axis", .type = ATTR_STR, .s = axis_name(parts_mesh(axis))},
        {.key = "dtype", .type = ATTR_STR, .s = op->in[0].name},
        {.key = "from", .type = ATTR_STR, .s = part_text(g, &piece->part[axis])},
        {.key = "parts", .type = ATTR_INT, .i = g->model.parts[axis]},
        {.key = "to", .type = ATTR_STR, .s = part_text(g, &all)},
    };
    Node meet = {.op = op, .along = axis, .n_attrs = sizeof attrs / sizeof *attrs};

    *whole = *piece;
    whole->part[axis] = all;
    take_scratch(x, piece);
    piece->name = gen_printf(g, "%s_%s", piece->name,
                             part_is_made(&piece->part[axis]) ? "part" : "piece");
    meet.attrs = gen_alloc(g, sizeof attrs);
    memcpy(meet.attrs, attrs, sizeof attrs);
    add_node(x, &meet, piece, whole);
    return whole;
}

/* What a part along the axis has of each output. False: the inputs do not lie as the rule
 * cuts the call. */
static bool place_outputs(const Node *n, PartsAxis axis)
{
    const Cut *cut = cut_of_inputs(n, axis);
    bool whole = true;

    for (int i = 0; i < n->n_in; i++)
        whole = whole && n->in[i]->part[axis].kind == PART_WHOLE;
    for (int k = 0; cut && k < n->n_out; k++) {
        const CutOperand *o = cuts_operand(cut, n->op->out[k].name);
        PartState *part = &n->out[k]->part[axis];

        if (o && o->kind != PART_CUT)
            part->kind = o->kind;
        for (int i = 0; o && o->kind == PART_CUT && i < n->n_in; i++)
            if (n->in[i]->part[axis].kind == PART_CUT)
                *part = (PartState){PART_CUT, o->dim, n->in[i]->part[axis].sections};
    }
    return whole || cut;
}

/* The op, and in parts the meets after it, summands first. False: its inputs do not lie
 * as its rule cuts it. */
static bool add_nodes(Evaluation *x, Node *n)
{
    *gen_push(x->g, &x->nodes) = n;
    for (int a = 0; a < N_PARTS_AXES; a++)
        if (!place_outputs(n, a))
            return false;
    for (int k = 0; k < n->n_out; k++) {
        Value *v = n->out[k];

        for (int a = N_PARTS_AXES - 1; a >= 0; a--)
            if (v->part[a].kind != PART_WHOLE)
                v = add_whole(x, v, a);
    }
    return true;
}

static void fill_span(Evaluation *x, Node *n)
{
    Span *s = &x->c->evaluate;

    *s = (Span){
        .phase = PHASE_EVALUATE, .nodes = x->nodes.items, .n_nodes = x->nodes.count};
    n->workspace_offset_bytes = x->scratch_bytes;
    s->scratch_bytes = s->live_scratch_bytes =
        x->scratch_bytes + round_up(n->workspace_bytes, ARENA_ALIGN_BYTES);
    for (int i = 0; i < s->n_nodes; i++) {
        node_cost(x->g, s->nodes[i]);
        s->flops += s->nodes[i]->flops;
        s->traffic_bytes += s->nodes[i]->cost.traffic_bytes;
        s->nodes[i]->leg = i;
    }
}

void evaluate_class(Gen *g, Class *c)
{
    const OpRule *op = NULL;
    Evaluation x = {.g = g, .c = c, .loss = evaluated(g, c, &op)};
    Node *n;

    if (!x.loss ||
        (has_tokens(x.loss, PARTS_TENSOR) && has_tokens(x.loss, PARTS_CONTEXT)))
        return; /* the op knows one number of a part */
    n = gen_alloc(g, sizeof *n);
    *n = (Node){.id = -1, .op = op, .name = op->name, .phase = PHASE_EVALUATE};
    if (!take_inputs(&x, n))
        return;
    take_attrs(g, x.loss, n);
    make_outputs(g, c, x.loss, n);
    if (add_nodes(&x, n))
        fill_span(&x, n);
}
