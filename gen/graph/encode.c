/* SPDX-License-Identifier: Apache-2.0 */
/* encode.c: weights that are gathered in fp8. In: the joint graph of each class, where
 * products in fp8 round weights after each gather (linears.c). Out: ClassParam.gathered;
 * the value of such a weight is its codes, its scale is a value, too (VAL_SCALE), and the
 * nodes that made both are gone. Breaks: node and value ids.
 *
 * A weight is rounded where it lies, on its shards, once in each step, and its codes are
 * gathered: half the bytes of bf16. Bits are the same, because the scale is still that of
 * the largest element of the whole weight.
 *
 * 1. A rule's function `encoded` builds what takes a call's place where its first input
 *    is such a weight.
 * 2. A weight is gathered so if rules build that for every call that reads it, and no
 *    other block shares it. */
#include "graph/builder.h"
#include "ops/ops.h"

/* A value of a call that is replaced, and what its readers read instead. */
typedef struct Instead {
    const Value *of;
    Value *by;
} Instead;

typedef struct Encoder {
    Gen *g;
    Builder *b;
    Class *c;
    int param;
    Value *codes, *scale; /* of that parameter */
    struct {
        Instead *items;
        int count, cap;
    } instead;
} Encoder;

static const Dtype codes_dtype = DT_E4M3;

static bool reads(const Node *n, int param)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->kind == VAL_PARAM && n->in[i]->index == param)
            return true;
    return false;
}

/* Does every call that reads the parameter have a function to take its place? Codes have
 * the bits of built-in ops, so not those of --ops. */
static bool may_encode(Gen *g, const Class *c, int param)
{
    int readers = 0;

    if (c->params.items[param].tied_global)
        return false;
    for (int i = 0; i < c->nodes.count; i++) {
        const Node *n = c->nodes.items[i];

        if (!reads(n, param))
            continue;
        if (!n->op->info->has_encoded || ops_foreign(g, n->op) ||
            n->in[0]->kind != VAL_PARAM || n->in[0]->index != param)
            return false;
        readers++;
    }
    return readers > 0;
}

static Value *new_value(Encoder *x, ValueKind kind, const char *word)
{
    const char *ident = x->c->params.items[x->param].ident;
    Value *v =
        value_new(x->g, x->c, kind,
                  value_unique_name(x->g, x->c, gen_printf(x->g, "%s_%s", ident, word)));

    v->index = x->param;
    return v;
}

/* Output k of the call, from the table that its rule's function returned. */
static void take_output(Encoder *x, const Node *n, int k)
{
    lua_State *L = x->g->L;
    const char *name = n->op->out[k].name;
    Class *owner = NULL;
    Value *v;

    lua_getfield(L, -1, name);
    v = builder_to_value(L, -1, &owner);
    if (!v || owner != x->c)
        luaL_error(L, "%s: its encoded must return %s", n->op->name, name);
    if (!same_shape(v, n->out[k]) || v->dtype != n->out[k]->dtype)
        luaL_error(L, "%s: its encoded returns %s %s, not %s %s", n->op->name,
                   dtype_name(v->dtype), shape_text(x->g, v),
                   dtype_name(n->out[k]->dtype), shape_text(x->g, n->out[k]));
    *gen_push(x->g, &x->instead) = (Instead){n->out[k], v};
    lua_pop(L, 1);
}

/* Builds what takes the call's place at the end of the class; false: the rule builds
 * nothing. */
static bool build(Encoder *x, const Node *n)
{
    lua_State *L = x->g->L;
    const int before = x->c->nodes.count;
    bool built;

    luaL_checkstack(L, 30, "encoded");
    x->b->phase = n->phase;
    x->b->piece = n->piece;
    x->b->blame = ops_place(x->g, n->op, "encoded", NULL);
    ops_push_function(L, n->op, "encoded");
    builder_push_call(x->b, n, x->c);
    builder_push_value(x->b, x->codes, x->c);
    lua_setfield(L, -2, "codes");
    builder_push_value(x->b, x->scale, x->c);
    lua_setfield(L, -2, "scale");
    lua_call(L, 2, 1);
    built = lua_istable(L, -1);
    if (!built && !lua_isnil(L, -1))
        luaL_error(L, "%s: its encoded returns %s, not a table of its outputs or nil",
                   n->op->name, builder_show(x->g, L, -1));
    for (int k = 0; built && k < n->n_out; k++)
        take_output(x, n, k);
    for (int i = before; i < x->c->nodes.count; i++) {
        Node *made = x->c->nodes.items[i];
        const char *ident = x->c->params.items[x->param].ident;

        made->name = made->out[0]->name = value_unique_name(
            x->g, x->c, gen_printf(x->g, "%s_%s", ident, made->op->name));
    }
    lua_pop(L, 1);
    return built;
}

/* Readers of a replaced value read the new one. */
static void replace(Encoder *x)
{
    for (int i = 0; i < x->c->nodes.count; i++)
        for (int k = 0; k < x->c->nodes.items[i]->n_in; k++)
            for (int r = 0; r < x->instead.count; r++)
                if (x->c->nodes.items[i]->in[k] == x->instead.items[r].of)
                    x->c->nodes.items[i]->in[k] = x->instead.items[r].by;
}

/* The calls that are replaced, and the weight itself, are no longer of the class. */
static void drop_weight(Encoder *x)
{
    Class *c = x->c;
    int nodes = 0, values = 0;

    for (int i = 0; i < c->nodes.count; i++) {
        Node *n = c->nodes.items[i];
        const Value *in = n->n_in ? n->in[0] : NULL;

        if (in && in != x->codes && in->kind == VAL_PARAM && in->index == x->param)
            continue;
        n->id = nodes;
        c->nodes.items[nodes++] = n;
    }
    c->nodes.count = nodes;
    for (int i = 0; i < c->values.count; i++) {
        Value *v = c->values.items[i];

        if (v->kind == VAL_PARAM && v->index == x->param && v != x->codes) {
            x->codes->name = v->name;
            continue;
        }
        v->id = values;
        c->values.items[values++] = v;
    }
    c->values.count = values;
}

/* If a rule builds nothing for one of its readers, the parameter stays. */
static void encode_param(Encoder *x)
{
    Class *c = x->c;
    ClassParam *p = &c->params.items[x->param];
    const int nodes = c->nodes.count, values = c->values.count;
    const int64_t one = 1;
    bool built = true;

    x->instead.count = 0;
    x->codes = new_value(x, VAL_PARAM, "codes");
    value_shape(x->codes, codes_dtype, p->dim, p->n_dims);
    x->scale = new_value(x, VAL_SCALE, "scale");
    value_shape(x->scale, ops_acc_dtype(x->g), &one, 1);
    for (int i = 0; built && i < nodes; i++)
        if (reads(c->nodes.items[i], x->param))
            built = build(x, c->nodes.items[i]);
    if (!built) {
        c->nodes.count = nodes;
        c->values.count = values;
        return;
    }
    p->gathered = codes_dtype;
    replace(x);
    drop_weight(x);
}

static int run_encode(lua_State *L)
{
    Encoder *x = lua_touserdata(L, 1);

    for (x->param = 0; x->param < x->c->params.count; x->param++)
        if (may_encode(x->g, x->c, x->param))
            encode_param(x);
    return 0;
}

void encode_weights(Gen *g)
{
    Encoder x = {.g = g, .b = builder_get(g)};

    for (int i = 0; g->model.linear_fp8 && i < g->classes.count && !diag_errors(g); i++) {
        x.c = g->classes.items[i];
        x.b->cls = x.c;
        x.b->block = x.c->name;
        if (builder_protect(g, run_encode, &x, model_pos(g, "dtypes.linear"))) {
            class_sort(g, x.c);
            class_sweep(g, x.c);
        }
        x.b->cls = NULL;
        x.b->block = NULL;
        x.b->blame = (Pos){0};
    }
}
