/* SPDX-License-Identifier: Apache-2.0 */
/* grad.c: reverse mode, once per class. In: the forward nodes of every class (graph).
 * Out: its backward nodes, d_outputs, d_inputs, grads. Breaks: nothing. Each op's
 * backward is a Lua function that builds graph.
 *
 * 0. Where parts of a sequence need copies of heads, repeat.c makes them in the forward.
 * 1. Several contributions to one value are added by the op with the role "sum", in the
 *    order in which they arise.
 * 2. A frozen parameter with nothing trainable before it needs no gradient: nodes for
 *    such gradients are never built, and a class without needed gradients has no
 *    backward. An op whose optional outputs have no user takes the form without them
 *    (ops_form).
 * 3. The uses of one parameter inside a class add into its one gradient buffer
 *    (node.add); uses in different blocks do so at run time (beta = 1).
 * 4. With dtypes.linear = "fp8", products become graphs of fp8 ops last (linears.c), so
 *    rounding to fp8 has no gradient of its own: it is passed through. */
#include "graph/builder.h"

#include <string.h>

typedef struct GradList {
    Value **items;
    int count, cap;
} GradList;

typedef struct Grad {
    Gen *g;
    Builder *b;
    Class *c;
    int n_values, n_nodes; /* of the forward graph */
    GradList *of;          /* contributions per forward value */
    bool *needs;           /* forward values that depend on a parameter or the input */
} Grad;

static bool auto_named(const Value *v)
{
    return v->kind == VAL_NODE && v->def->phase == PHASE_BACKWARD &&
           strncmp(v->name, "d_", 2) != 0;
}

/* Names a gradient after its value, unless it has such a name already. */
static void name_gradient(Grad *x, Value *d, const char *name)
{
    if (!auto_named(d))
        return;
    d->name = value_unique_name(x->g, x->c, name);
    if (d->def_out == 0)
        d->def->name = d->name;
}

static const char *value_what(Grad *x, const Value *v)
{
    return v->kind == VAL_PARAM ? x->c->params.items[v->index].name : v->name;
}

/* dw of a parameter: the first use stores into the gradient's buffer, later ones add. */
static void add_param_grad(Grad *x, const Node *node, const Value *w, Value *d)
{
    Class *c = x->c;
    const OpRule *op = d->kind == VAL_NODE ? d->def->op : NULL;
    const Value *before;

    if (!op || !op->out[d->def_out].may_add || d->loc == LOC_GRAD) {
        x->b->blame = node->pos;
        luaL_error(x->g->L,
                   "%s: it cannot take parameter %s: a parameter's gradient is an output"
                   " of its own with dtype = \"grad\" and add = true",
                   node->op->name, value_what(x, w));
    }
    before = c->grads[w->index];
    if (before && before->def->id >= d->def->id) {
        x->b->blame = node->pos;
        luaL_error(x->g->L, "%s: it cannot take parameter %s twice", node->op->name,
                   value_what(x, w));
    }
    name_gradient(x, d, gen_printf(x->g, "d_%s", c->params.items[w->index].ident));
    d->def->add[d->def_out] = before != NULL;
    d->loc = LOC_GRAD;
    d->loc_index = w->index;
    d->index = before ? before->index + 1 : 0; /* position in the order of writes */
    c->grads[w->index] = d;
}

static void add_grad(Grad *x, const Node *node, const Value *v, Value *d)
{
    Dtype want = v->kind == VAL_PARAM ? x->g->model.reduce_dtype : v->dtype;

    if (!x->needs[v->id])
        return; /* gradient of data or a constant: not needed */
    if (v->kind == VAL_PARAM && d->dtype != want && d->dtype == v->dtype)
        want = d->dtype; /* add_param_grad reports it */
    if (!same_shape(v, d))
        luaL_error(
            x->g->L, "%s: its backward gives %s of shape %s a gradient of shape %s",
            node->op->name, value_what(x, v), shape_text(x->g, v), shape_text(x->g, d));
    if (d->dtype != want)
        luaL_error(x->g->L, "%s: its backward gives %s a gradient of dtype %s, not %s",
                   node->op->name, value_what(x, v), dtype_name(d->dtype),
                   dtype_name(want));
    if (v->kind == VAL_PARAM)
        add_param_grad(x, node, v, d);
    else
        *gen_push(x->g, &x->of[v->id]) = d;
}

/* The backward runs pieces in reverse, so a sum can run in the lower one of its two
 * pieces. */
static int sum_piece(const Grad *x, const Value *a, const Value *b)
{
    int last = x->c->pieces.count - 1;

    return (int)min_i64(a->def ? a->def->piece : last, b->def ? b->def->piece : last);
}

/* The whole gradient of a forward value, once all its uses have been visited; NULL if
 * there is none. */
static Value *total_grad(Grad *x, const Value *v)
{
    const GradList *list = &x->of[v->id];
    const char *name = gen_printf(x->g, "d_%s", v->name);
    const OpRule *sum = ops_role(x->g, "sum");
    Value *total = NULL;

    if (list->count == 1)
        name_gradient(x, list->items[0], name);
    if (list->count < 2)
        return list->count ? list->items[0] : NULL;
    if (!sum)
        luaL_error(x->g->L,
                   "%s has several uses, but no op has role = \"sum\" to add their"
                   " gradients",
                   v->name);
    for (int i = 0; i < list->count; i++)
        name_gradient(x, list->items[i], gen_printf(x->g, "%s_%d", name, i + 1));
    total = list->items[0];
    for (int i = 1; i < list->count; i++) {
        Value *in[2] = {total, list->items[i]};
        bool last = i == list->count - 1;

        x->b->piece = sum_piece(x, total, list->items[i]);
        total = builder_node(x->b, sum, in, NULL, 0,
                             last ? name : gen_printf(x->g, "%s_1_%d", name, i + 1))
                    ->out[0];
    }
    return total;
}

static void push_backward_args(Grad *x, const Node *n, Value **d_out)
{
    lua_State *L = x->g->L;

    builder_push_call(x->b, n, x->c);
    for (int i = 0; i < n->n_out; i++) {
        builder_push_value(x->b, n->out[i], x->c);
        lua_setfield(L, -2, n->op->out[i].name);
    }
    lua_createtable(L, 0, n->n_out);
    for (int i = 0; i < n->n_out; i++) {
        if (!d_out[i])
            continue;
        builder_push_value(x->b, d_out[i], x->c);
        lua_setfield(L, -2, n->op->out[i].name);
    }
}

static void check_result_keys(Grad *x, const OpRule *op, int index)
{
    lua_State *L = x->g->L;
    const char *worst = NULL;

    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        bool known = false;

        for (int i = 0; i < op->n_in; i++)
            known = known || !strcmp(op->in[i].name, key);
        if (!known && (!worst || strcmp(key, worst) < 0))
            worst = gen_strdup(x->g, key);
    }
    if (worst)
        luaL_error(L, "%s: its backward returns a gradient of %s, which is not an input",
                   op->name, worst);
}

static void node_backward(Grad *x, Node *n)
{
    lua_State *L = x->g->L;
    Value **d_out = gen_alloc(x->g, sizeof *d_out * (size_t)n->n_out);
    bool any = false, needed = false;
    int top = lua_gettop(L);

    for (int i = 0; i < n->n_in; i++)
        needed = needed || x->needs[n->in[i]->id];
    if (!needed)
        return;
    for (int i = 0; i < n->n_out; i++) {
        d_out[i] = total_grad(x, n->out[i]);
        any = any || d_out[i] || n->out[i] == x->c->loss;
    }
    if (!any)
        return;
    if (!n->op->info->has_backward) {
        x->b->blame = n->pos;
        luaL_error(
            L, "%s: the op has no backward, but %s lies between parameters and the loss",
            n->op->name, n->name);
    }
    luaL_checkstack(L, 30, "a backward");
    ops_push_function(L, n->op, "backward");
    push_backward_args(x, n, d_out);
    x->b->piece = n->piece;
    lua_call(L, 3, 1);
    x->b->blame = ops_place(x->g, n->op, "backward", NULL);
    if (!lua_istable(L, -1))
        luaL_error(L, "%s: its backward returns %s, not a table of gradients by input",
                   n->op->name, builder_show(x->g, L, -1));
    check_result_keys(x, n->op, lua_gettop(L));
    for (int i = 0; i < n->n_in; i++) {
        Class *owner = NULL;
        Value *d;

        lua_getfield(L, -1, node_operand(n, i)->name);
        d = builder_to_value(L, -1, &owner);
        if (!lua_isnil(L, -1) && (!d || owner != x->c))
            luaL_error(L, "%s: its backward returns %s as the gradient of %s",
                       n->op->name, builder_show(x->g, L, -1), node_operand(n, i)->name);
        if (d)
            add_grad(x, n, n->in[i], d);
        lua_pop(L, 1);
    }
    x->b->blame = (Pos){0};
    lua_settop(L, top);
}

static void find_needs(Grad *x)
{
    for (int i = 0; i < x->n_values; i++) {
        const Value *v = x->c->values.items[i];

        x->needs[v->id] =
            (v->kind == VAL_PARAM && !x->c->params.items[v->index].frozen) ||
            (v->kind == VAL_INPUT && x->c->trains_before);
    }
    for (int i = 0; i < x->n_nodes; i++) {
        const Node *n = x->c->nodes.items[i];
        bool any = false;

        for (int k = 0; k < n->n_in; k++)
            any = any || x->needs[n->in[k]->id];
        for (int k = 0; k < n->n_out; k++)
            x->needs[n->out[k]->id] = any;
    }
}

static void seed_outputs(Grad *x)
{
    Class *c = x->c;

    c->d_outputs = gen_alloc(x->g, sizeof *c->d_outputs * (size_t)(c->n_outputs + 1));
    for (int i = 0; i < c->n_outputs; i++) {
        const Value *y = c->outputs[i];
        Value *d =
            value_new(x->g, c, VAL_DOUT,
                      value_unique_name(x->g, c, gen_printf(x->g, "d_%s", y->name)));

        d->index = i;
        value_shape(d, y->dtype, y->dim, y->n_dims);
        c->d_outputs[i] = d;
        *gen_push(x->g, &x->of[y->id]) = d;
    }
}

/* A tied parameter's gradient adds to those of other blocks, with a beta of its own. */
static _Noreturn void refuse_grads(Grad *x, const Node *n)
{
    Text t = {.g = x->g};
    bool tied = false;

    for (int k = 0; k < n->n_out; k++) {
        const ClassParam *p;

        if (n->out[k]->loc != LOC_GRAD)
            continue;
        p = &x->c->params.items[n->out[k]->loc_index];
        text_printf(&t, "%s%s", t.len ? ", " : "", p->name);
        tied = tied || p->tied_global;
    }
    luaL_error(x->g->L, "%s: it writes the gradients of %s in one go, but %s",
               n->op->name, t.s,
               tied ? "a tied parameter's gradient is a sum over blocks; tie none of them"
                    : "their other uses differ; share all of them, or none");
    gen_die("luaL_error returns");
}

/* A kernel has one beta: its gradients all add, or all store into buffers of one kind.
 * And no node may read a buffer that accumulates. */
static void check_buffers(Grad *x)
{
    Class *c = x->c;

    for (int i = 0; i < c->nodes.count; i++) {
        const Node *n = c->nodes.items[i];

        if (!grads_agree(c, n->op->n_out, n->out, n->add))
            refuse_grads(x, n);
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k]->loc == LOC_GRAD)
                luaL_error(x->g->L, "%s: it reads %s, the gradient of a parameter",
                           n->op->name, n->in[k]->name);
    }
}

bool grads_agree(const Class *c, int n, Value *const *out, const bool *add)
{
    int first = -1;

    for (int i = 0; i < n; i++) {
        if (out[i]->loc != LOC_GRAD)
            continue;
        if (first < 0) {
            first = i;
            continue;
        }
        if (out[i]->loc_index == out[first]->loc_index || add[i] != add[first])
            return false;
        if (!add[i] && (c->params.items[out[i]->loc_index].tied_global ||
                        c->params.items[out[first]->loc_index].tied_global))
            return false; /* each has its own beta */
    }
    return true;
}

static int run_grad(lua_State *L)
{
    Grad *x = lua_touserdata(L, 1);
    Class *c = x->c;

    find_needs(x);
    seed_outputs(x);
    c->grads = gen_alloc(x->g, sizeof *c->grads * (size_t)(c->params.count + 1));
    for (int i = x->n_nodes - 1; i >= 0; i--)
        node_backward(x, c->nodes.items[i]);
    c->d_inputs = gen_alloc(x->g, sizeof *c->d_inputs * (size_t)(c->n_inputs + 1));
    for (int i = 0; i < c->n_inputs; i++) {
        Value *d = c->d_inputs[i] = total_grad(x, c->inputs[i]);

        if (!d && !c->trains_before)
            continue;
        if (!d)
            luaL_error(L, "no gradient reaches the value that the block takes");
        if (d->kind != VAL_NODE || d->loc == LOC_GRAD) {
            x->b->help = "apply an op that depends on it, or add in the block before; a "
                         "formula like x * 0 or x - x does not depend on x";
            luaL_error(L,
                       "the gradient of the value that the block takes is %s itself: the "
                       "block only adds to that value",
                       d->name);
        }
    }
    check_buffers(x);
    graph_hoist_setup(x->g, c); /* of backward functions */
    class_sweep(x->g, c);
    class_trim(x->g, c);
    return 0;
}

/* Does the class, or a block before it, have something to train? */
static bool class_trains(const Class *c)
{
    bool trains = c->n_inputs && c->trains_before;

    for (int i = 0; i < c->params.count; i++)
        trains = trains || !c->params.items[i].frozen;
    return trains;
}

static void class_grad(Gen *g, Class *c)
{
    Grad x = {.g = g,
              .b = builder_get(g),
              .c = c,
              .n_values = c->values.count,
              .n_nodes = c->nodes.count};
    Pos where = model_pos(g, "model");
    bool ok;

    x.of = gen_alloc(g, sizeof *x.of * (size_t)(x.n_values + 1));
    x.needs = gen_alloc(g, (size_t)x.n_values + 1);
    x.b->cls = c;
    x.b->phase = PHASE_BACKWARD;
    x.b->block = c->name;
    ok = builder_protect(g, run_grad, &x, where);
    x.b->cls = NULL;
    x.b->block = NULL;
    for (int i = 0; ok && i < c->params.count; i++)
        if (!c->grads[i] && !c->params.items[i].frozen)
            diag_add(g, DIAG_ERROR, where, "use it, or do not declare it",
                     "%s: no gradient reaches parameter %s", c->name,
                     c->params.items[i].name);
}

void grad_build(Gen *g)
{
    graph_repeat(g);
    for (int i = 0; i < g->classes.count; i++) {
        Class *c = g->classes.items[i];

        if (!class_trains(c)) { /* all NULL */
            c->grads = gen_alloc(g, sizeof *c->grads * (size_t)(c->params.count + 1));
            c->d_inputs = gen_alloc(g, sizeof *c->d_inputs * (size_t)(c->n_inputs + 1));
            c->d_outputs = gen_alloc(g, sizeof *c->d_inputs * (size_t)(c->n_outputs + 1));
        } else {
            class_grad(g, c);
        }
    }
    if (g->model.linear_fp8 && !diag_errors(g))
        grad_fp8(g);
}
