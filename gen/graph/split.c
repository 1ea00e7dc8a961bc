/* SPDX-License-Identifier: Apache-2.0 */
/* split.c: the joint graph → the same graph as each of several parts computes it.
 * In: nodes and gradients of every class (grad), `cuts` of op rules, marks of parameters.
 * Out: Value.part, dims and attributes of one part, and meets: nodes of the op with role
 * "collective" where a node needs something else of a value than its part has. Fusion
 * follows and finds nothing across a meet. With one part nothing changes.
 *
 * 1. Parameters are cut as they are marked; rows of zeros are added where the mark says
 *    so. Values between blocks are cut by tokens, so what lies between two blocks'
 *    products is computed once (sequence parallelism).
 * 2. split_choose.c chooses for each node, forward and backward alike, along which axis
 *    it is cut. Hence the meets of the backward are the gradients of those of the
 *    forward: of a gather a sum, of a sum a gather, of a turn the opposite turn.
 *    A node whose parts are other ops is replaced first: split_ops.c.
 * 3. Meets are inserted before the first node that needs them. A value is gathered again
 *    for the backward, so that what is kept is cut; a sum is made once.
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
    Builder *b;
    Class *c;
    const OpRule *meet;   /* role "collective" */
    const OpRule *copy;   /* role "copy" */
    Choice *choices;      /* per node of the whole graph */
    Node **part_nodes;    /* and what a part computes */
    PartState *out_parts; /* of the block's outputs, as they must be */
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

/* What each part has of a value of this shape that passes between blocks: its tokens. */
static PartState split_boundary(Gen *g, const Value *v)
{
    const int64_t tokens = g->model.micro_batch * g->model.seq_tokens;
    PartState p = {.kind = PART_CUT, .sections = {.n = 1}};

    if (v->n_dims < 2 || v->dim[0] != tokens)
        return (PartState){0};
    p.sections.elems = gen_alloc(g, sizeof *p.sections.elems);
    p.sections.elems[0] = tokens;
    return p;
}

/* cuBLASLt multiplies on fast kernels where rows of logits are multiples of 16 bytes, as
 * many as 8 rows of a vocabulary make in the narrowest dtype, bf16. All dtypes have the
 * same rows, so that shapes do not depend on them. Without parts the loss ops' cuda.cu
 * pad copies instead. */
enum { FAST_ROWS = 8 };

/* Rows that each part has of a padded parameter, the last one with zeros: a multiple of
 * FAST_ROWS if that leaves the last part some of its own; else as few as can be. */
static int64_t padded_rows(const ClassParam *p, int64_t parts)
{
    const int64_t least = round_up(p->dim[0], parts) / parts;
    const int64_t fast = round_up(least, FAST_ROWS);

    return fast * (parts - 1) < p->dim[0] ? fast : least;
}

/* Rows of zeros make all parts equal. What follows from the parameters' shapes follows
 * from the padded ones; ops that must know get both sizes. */
static void pad_params(Split *x)
{
    const int64_t parts = x->g->model.parts;
    Class *c = x->c;
    bool any = false;

    for (int i = 0; i < c->values.count; i++) {
        Value *v = c->values.items[i];
        ClassParam *p = v->kind == VAL_PARAM ? &c->params.items[v->index] : NULL;
        Sections *s = p ? &p->mark.sections : NULL;
        int64_t dim[MAX_DIMS];

        if (!p || !p->mark_pads || padded_rows(p, parts) * parts == p->dim[0])
            continue;
        *s = (Sections){.n = 1, .elems = gen_alloc(x->g, sizeof *s->elems)};
        s->elems[0] = padded_rows(p, parts) * parts;
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

/* Parts of tokens need all of each parameter, so it is cut only to be stored: along the
 * first dim of a table or weight that parts divide. Norms and biases are whole
 * everywhere, and so is all of it if the optimizer treats matrices as a whole. */
static void mark_for_storage(const Split *x)
{
    const int64_t parts = x->g->model.parts;
    const bool whole = optimizer_rule(x->g, USE_MATRIX);

    for (int i = 0; i < x->c->params.count; i++) {
        ClassParam *p = &x->c->params.items[i];

        p->mark = (PartState){0};
        p->mark_unit = 1;
        p->mark_pads = false;
        for (int d = 0; p->n_dims == 2 && d < 2 && p->mark.kind == PART_WHOLE; d++) {
            if (p->dim[d] % parts || whole)
                continue;
            p->mark = (PartState){.kind = PART_CUT, .dim = d, .sections = {.n = 1}};
            p->mark.sections.elems = gen_alloc(x->g, sizeof *p->mark.sections.elems);
            p->mark.sections.elems[0] = p->dim[d];
        }
    }
}

/* Parts of parameters and boundary values; whole shapes. */
static void place_boundary(Split *x)
{
    Class *c = x->c;

    for (int i = 0; i < c->values.count; i++) {
        Value *v = c->values.items[i];

        v->part = (PartState){0};
        if (v->kind == VAL_PARAM)
            v->part = c->params.items[v->index].mark;
        if (v->kind == VAL_INPUT || v->kind == VAL_DOUT)
            v->part = split_boundary(x->g, v);
    }
}

/* The largest number of parts, a power of two, that divides n. */
static int64_t most_parts(int64_t n)
{
    return n & -n;
}

/* What parts divide: "rows", or "units of 64 rows". */
static const char *unit_text(Gen *g, const ClassParam *p, int64_t count)
{
    const char *lines = !p ? "tokens" : p->mark.dim ? "columns" : "rows";

    return !p || p->mark_unit == 1
               ? lines
               : gen_printf(g, "unit%s of %lld %s", count == 1 ? "" : "s",
                            (long long)p->mark_unit, lines);
}

/* "use 8, 4 or 2"; where only 1 part has whole units, also what these parts would need.
 */
static const char *use_parts(Gen *g, int64_t most, const ClassParam *least, int64_t count)
{
    const int64_t parts = g->model.parts, enough = round_up(count, parts);
    const char *all = gen_printf(g, "use %lld", (long long)most);

    if (most == 1)
        return gen_printf(
            g, "use 1; %lld parts need a multiple of %lld %s there: %lld, not %lld",
            (long long)parts, (long long)parts, unit_text(g, least, enough),
            (long long)enough, (long long)count);
    for (int64_t n = most / 2; n > 1; n /= 2)
        all = gen_printf(g, "%s%s %lld", all, n > 2 ? "," : " or", (long long)n);
    return all;
}

/* Does the last part have rows of its own? All others are full. */
static bool padding_fits(const ClassParam *p, int64_t parts)
{
    return padded_rows(p, parts) * (parts - 1) < p->dim[0];
}

/* Whole numbers of tokens, heads and features in each part; else a message. */
static bool parts_divide(Gen *g)
{
    const int64_t parts = g->model.parts;
    const int64_t tokens = g->model.micro_batch * g->model.seq_tokens;
    int64_t most = most_parts(tokens), count = tokens;
    const ClassParam *least = NULL;

    for (int i = 0; g->model.parts_axis == AXIS_TENSOR && i < g->params.count; i++) {
        const ClassParam *p = g->params.items[i].decl;

        for (int k = 0; p->mark.kind == PART_CUT && k < p->mark.sections.n; k++) {
            int64_t units = p->mark.sections.elems[k] / p->mark_unit;
            int64_t can = p->mark_pads ? parts : most_parts(units);

            while (p->mark_pads && can > most_parts(units) && !padding_fits(p, can))
                can /= 2;
            if (can >= most)
                continue;
            most = can;
            count = units;
            least = p;
        }
    }
    if (most >= parts)
        return true;
    if (least && least->mark_pads) {
        diag_add(
            g, DIAG_ERROR, model_pos(g, "parts.tensor"), use_parts(g, most, least, count),
            "parts.tensor: %lld parts of %lld %s leave the last none of the %lld of %s",
            (long long)parts, (long long)((count + parts - 1) / parts),
            unit_text(g, least, count), (long long)count, least->name);
        return false;
    }
    diag_add(g, DIAG_ERROR, model_pos(g, parts_field(g)),
             use_parts(g, most, least, count), "%s: %lld parts do not divide %s%s%lld %s",
             parts_field(g), (long long)parts, least ? least->name : "micro_batch * seq",
             least && least->mark.sections.n > 1 ? ", of which a section has "
             : least                             ? ", which has "
                                                 : ", which is ",
             (long long)count, unit_text(g, least, count));
    return false;
}

/* ---- gradients of parameters ----------------------------------------------------- */

PartState split_gradient(const Class *c, const Value *gradient)
{
    const PartState *mark = &c->params.items[gradient->loc_index].mark;

    return mark->kind == PART_CUT ? *mark : (PartState){0};
}

/* ---- meets ----------------------------------------------------------------------- */

static Node *new_meet(Split *x, Value *v, const PartState *to, const char *name)
{
    Gen *g = x->g;
    Attr attrs[] = {
        {.key = "axis", .type = ATTR_STR, .s = axis_name(g->model.parts_axis)},
        {.key = "from", .type = ATTR_STR, .s = part_text(g, &v->part)},
        {.key = "parts", .type = ATTR_INT, .i = g->model.parts},
        {.key = "to", .type = ATTR_STR, .s = part_text(g, to)},
    };
    Node *n = builder_node(x->b, x->meet, &v, attrs, 4, name);

    n->out[0]->part = *to;
    return n;
}

static const char *meet_word(const PartState *from, const PartState *to)
{
    if (from->kind == PART_PARTIAL)
        return "sum";
    if (to->kind == PART_WHOLE)
        return "whole";
    return from->kind == PART_WHOLE ? "piece" : "turned";
}

/* What meets take of a parameter's box: peers read values, not weights. */
static Value *box_copy(Split *x, Value *box)
{
    Node *n =
        builder_node(x->b, x->copy, &box, NULL, 0, gen_printf(x->g, "%s_box", box->name));

    n->out[0]->part = box->part;
    *gen_push(x->g, &x->order) = n;
    return n->out[0];
}

/* v as a node of this phase and piece needs it. */
static Value *as_part(Split *x, Value *v, const PartState *to, Phase phase, int piece)
{
    Value *from;
    Meet *m;

    if (part_equal(&v->part, to))
        return v;
    for (int i = 0; i < x->meets.count; i++) {
        m = &x->meets.items[i];
        if (m->from == v && part_equal(&m->to, to) &&
            (m->phase == phase || v->part.kind == PART_PARTIAL))
            return m->value;
    }
    x->b->phase = phase;
    x->b->piece = piece;
    m = gen_push(x->g, &x->meets);
    *m = (Meet){v, phase, *to, NULL};
    from = v->kind == VAL_PARAM && v->part.kind == PART_CUT ? box_copy(x, v) : v;
    m->value =
        new_meet(x, from, to, gen_printf(x->g, "%s_%s", v->name, meet_word(&v->part, to)))
            ->out[0];
    *gen_push(x->g, &x->order) = m->value->def;
    return m->value;
}

/* A gradient that is made otherwise than it must be meets on its way into the buffer. */
static void convert_gradient(Split *x, Node *n, int out)
{
    Value *made = n->out[out], *d;
    const PartState want = split_gradient(x->c, made);
    const char *name = made->name;
    Node *m;

    if (part_equal(&made->part, &want))
        return;
    made->name = value_unique_name(x->g, x->c, gen_printf(x->g, "%s_part", name));
    if (out == 0)
        n->name = made->name;
    x->b->phase = n->phase;
    x->b->piece = n->piece;
    m = new_meet(x, made, &want, "meet");
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
    n->attrs = part->attrs;
    n->flops = part->flops;
    n->library = part->library;
    n->workspace_bytes = part->workspace_bytes;
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
            c->d_inputs[i] = as_part(x, d, &c->inputs[i]->part, PHASE_BACKWARD,
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

    for (int i = 0; i < c->values.count; i++)
        split_shape(x->g, c->values.items[i]);
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

    pad_params(x);
    place_boundary(x);
    x->choices = split_choose(x->g, x->c);
    x->part_nodes =
        gen_alloc(x->g, sizeof *x->part_nodes * (size_t)(x->c->nodes.count + 1));
    for (int i = 0; i < x->c->nodes.count; i++)
        x->part_nodes[i] = split_part_node(x->g, x->c->nodes.items[i], &x->choices[i]);
    x->out_parts = gen_alloc(x->g, sizeof *x->out_parts * (size_t)(x->c->n_outputs + 1));
    for (int i = 0; i < x->c->n_outputs; i++)
        x->out_parts[i] = split_boundary(x->g, x->c->outputs[i]);
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

void split_graph(Gen *g)
{
    const OpRule *meet = ops_role(g, "collective"), *copy = ops_role(g, "copy");
    const int n = g->classes.count;
    Split *all;

    if (g->model.parts <= 1 || !parts_divide(g))
        return;
    if (!meet || !copy) {
        diag_add(g, DIAG_ERROR, model_pos(g, parts_field(g)),
                 "an op of --ops has its name: give that another one",
                 "%s: no op has role = \"%s\", which parts need", parts_field(g),
                 meet ? "copy" : "collective");
        return;
    }
    all = gen_alloc(g, sizeof *all * (size_t)(n + 1));
    for (int i = 0; i < n; i++) {
        all[i] =
            (Split){g, builder_get(g), g->classes.items[i], meet, copy, .order = {0}};
        if (g->model.parts_axis == AXIS_CONTEXT)
            mark_for_storage(&all[i]);
        if (!run_protected(&all[i], run_choose))
            return;
    }
    for (int i = 0; i < n; i++)
        if (!run_protected(&all[i], run_insert))
            return;
    g->in_parts = true;
}
