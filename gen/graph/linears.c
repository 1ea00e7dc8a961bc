/* SPDX-License-Identifier: Apache-2.0 */
/* linears.c: dtypes.linear = "fp8". In: the joint forward and backward graph of each
 * class. Out: in place of each product that has one, the graph that its rule's function
 * `fp8` builds: scales, roundings and a product of what they made. Breaks: node and value
 * ids, which are renumbered.
 *
 * 1. The last block, with the head and the loss, stays as it is; so does a call for which
 *    the rule builds nothing: of sizes that matrix units do not take. A warning counts
 *    them.
 * 2. What several products ask for is made once: of equal nodes (node_equal) the first
 *    is kept. So forward and backward share the scale of a weight and what is made of
 *    the rows.
 * 3. Parts that a product of the backward needs of forward values are made in the
 *    forward, which then saves one byte for each element. Only what depends on a
 *    parameter is made where it is used: weights are gathered again for the backward,
 *    and copies of them would outlive their block's turn. */
#include "graph/builder.h"

/* Matrix units take multiples of so many elements. */
enum { FP8_GRAIN = 16 };

typedef struct Linears {
    Gen *g;
    Builder *b;
    Class *c;
    int replaced, left; /* products of all classes so far */
} Linears;

/* What sizes are multiples of, so that those of parts are of FP8_GRAIN. */
static int64_t grain(const Gen *g)
{
    return FP8_GRAIN * parts_all(&g->model);
}

static bool reads_parameter(const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->kind == VAL_PARAM)
            return true;
    return false;
}

/* Does it read only what the forward has? */
static bool of_forward(const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->kind == VAL_DOUT ||
            (n->in[i]->def && n->in[i]->def->phase == PHASE_BACKWARD))
            return false;
    return true;
}

/* May the later node use what the first one made? A parameter's scale is kept for the
 * backward, but nothing larger. */
static bool may_share(const Node *first, const Node *n)
{
    return node_equal(first, n) &&
           (first->phase == n->phase || !reads_parameter(n) || n->out[0]->elems == 1);
}

/* Nodes from `from` on that read the copy's outputs now read the first's. */
static void use_first(Class *c, int from, const Node *first, const Node *copy)
{
    for (int i = from; i < c->nodes.count; i++) {
        Node *n = c->nodes.items[i];

        for (int k = 0; k < n->n_in; k++)
            if (n->in[k]->def == copy)
                n->in[k] = first->out[n->in[k]->def_out];
    }
}

/* A new node: dropped if there is one like it among those from `made` on, else named
 * after its first input and put into its phase. */
static void settle(Linears *x, int made, int at)
{
    Class *c = x->c;
    Node *n = c->nodes.items[at];

    for (int i = made; i < at; i++)
        if (may_share(c->nodes.items[i], n)) {
            use_first(c, at + 1, c->nodes.items[i], n);
            return;
        }
    n->name = value_unique_name(x->g, c,
                                gen_printf(x->g, "%s_%s", n->in[0]->name, n->op->name));
    n->out[0]->name = n->name;
    if (of_forward(n) && !reads_parameter(n))
        n->phase = PHASE_FORWARD;
}

/* The last node that the rule built takes the old node's outputs. */
static void take_outputs(Linears *x, const Node *old)
{
    Class *c = x->c;
    Node *n = c->nodes.items[c->nodes.count - 1];
    Class *owner = NULL;
    const Value *v;

    lua_getfield(x->g->L, -1, old->op->out[0].name);
    v = builder_to_value(x->g->L, -1, &owner);
    if (!v || owner != c || v->def != n || old->n_out != 1 || n->n_out != 1)
        luaL_error(x->g->L,
                   "%s: its fp8 must return %s, the output of the last op called",
                   old->op->name, old->op->out[0].name);
    if (!same_shape(v, old->out[0]) || v->dtype != old->out[0]->dtype)
        luaL_error(x->g->L, "%s: its fp8 returns %s %s, not %s %s", old->op->name,
                   dtype_name(v->dtype), shape_text(x->g, v),
                   dtype_name(old->out[0]->dtype), shape_text(x->g, old->out[0]));
    if (old->out[0]->loc == LOC_GRAD && !n->op->out[0].may_add)
        luaL_error(x->g->L, "%s: its fp8 returns no output with add = true",
                   old->op->name);
    n->out[0] = old->out[0];
    n->out[0]->def = n;
    n->add[0] = old->add[0];
    n->name = old->name;
    n->pos = old->pos;
    lua_pop(x->g->L, 1);
}

/* Builds the node's graph at the end of the class; false: its rule builds none. */
static bool replace(Linears *x, Node *old, int made)
{
    lua_State *L = x->g->L;
    Class *c = x->c;
    const int top = lua_gettop(L), before = c->nodes.count;
    bool built;

    luaL_checkstack(L, 30, "fp8");
    x->b->phase = old->phase;
    x->b->piece = old->piece;
    x->b->blame = ops_place(x->g, old->op, "fp8", NULL);
    ops_push_function(L, old->op, "fp8");
    builder_push_call(x->b, old, x->c);
    lua_pushinteger(L, grain(x->g));
    lua_call(L, 3, 1);
    built = lua_istable(L, -1) && c->nodes.count > before;
    if (!built && (c->nodes.count > before || !lua_isnil(L, -1)))
        luaL_error(L, "%s: its fp8 returns %s, not a table of its outputs or nil",
                   old->op->name, builder_show(x->g, L, -1));
    if (built)
        take_outputs(x, old);
    for (int i = before; built && i < c->nodes.count - 1; i++)
        settle(x, made, i);
    lua_settop(L, top);
    return built;
}

static int run_linears(lua_State *L)
{
    Linears *x = lua_touserdata(L, 1);
    Class *c = x->c;
    const int count = c->nodes.count;
    int kept = 0;

    for (int i = 0; i < count; i++) {
        Node *n = c->nodes.items[i];

        if (!n->op->info->has_fp8)
            continue;
        if (replace(x, n, count)) {
            n->n_out = 0; /* its output has another maker */
            x->replaced++;
        } else {
            x->left++;
        }
    }
    for (int i = 0; i < c->nodes.count; i++) {
        Node *n = c->nodes.items[i];

        if (n->n_out)
            c->nodes.items[kept++] = n;
    }
    c->nodes.count = kept;
    for (int i = 0; i < kept; i++)
        c->nodes.items[i]->id = i;
    return 0;
}

static void tell_left(Gen *g, const Linears *x)
{
    const char *of = grain(g) == FP8_GRAIN
                         ? ""
                         : gen_printf(g, " (%d in each of %lld parts)", FP8_GRAIN,
                                      (long long)parts_all(&g->model));
    const char *size = gen_printf(g, "%lld%s", (long long)grain(g), of);
    const char *help =
        gen_printf(g,
                   "make the tokens of a micro-batch and the widths of the "
                   "model multiples of %s, or leave dtypes.linear out",
                   size);
    const Pos pos = model_pos(g, "dtypes.linear");

    if (!x->replaced)
        diag_add(g, DIAG_ERROR, pos, help,
                 "dtypes.linear: no product of this model can be \"fp8\"%s",
                 x->left ? gen_printf(g, ": each has a size that is not a multiple of %s",
                                      size)
                         : "");
    else if (x->left)
        diag_add(
            g, DIAG_WARNING, pos, help,
            "dtypes.linear: %d of %d products stay in %s: a size is not a multiple of %s",
            x->left, x->left + x->replaced, dtype_name(g->model.param_dtype), size);
}

void grad_fp8(Gen *g)
{
    Linears x = {.g = g, .b = builder_get(g)};

    for (int i = 0; i < g->classes.count && !diag_errors(g); i++) {
        x.c = g->classes.items[i];
        if (x.c->loss)
            continue;
        x.b->cls = x.c;
        x.b->block = x.c->name;
        if (builder_protect(g, run_linears, &x, model_pos(g, "dtypes.linear"))) {
            class_sort(g, x.c);
            class_sweep(g, x.c);
        }
        x.b->cls = NULL;
        x.b->block = NULL;
        x.b->blame = (Pos){0};
    }
    if (!diag_errors(g))
        tell_left(g, &x);
}
