/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_maps.c: chains of formulas → one node, whose kernel reads and writes once. In: the
 * fused graph. Out: nodes of the ops of ops_chain.c, with `replaced`. Breaks: node and
 * value ids, which are renumbered.
 *
 * A node whose op is a formula joins the node that makes one of its rows, if both have
 * the same index space (rows and columns), phase and piece, and if nothing outside would
 * have to run in between. Values that others read stay outputs; the rest are no longer
 * stored. Each is rounded to its dtype all the same, so the bits, the graph with its
 * rounding points, and the numerics hash are those of the nodes one by one. On a device a
 * chain also takes the sum over rows of what it makes.
 *
 * Before that, a value that only one chain of the backward needs is made again there, if
 * that takes one operation: then the forward stores what it is made of in its
 * stead. (The input of GELU is a product and a bias. The forward need not write their
 * sum.) */
#include "graph/builder.h"
#include "ops/ops.h"

#include <string.h>

/* A kernel with more would keep too much in registers. */
enum { MAX_OPS = 8, MAX_OPERATIONS = 160, MAX_IN = 14, MAX_OUT = 6 };
/* One operation and its two operands. More could cost more time than the bytes save. */
enum { MAX_AGAIN = 3 };

typedef struct Fuse {
    Gen *g;
    Class *c;
    Uses uses;
    Node **next_write;
    int *group;          /* per node: the first node of its chain */
    int64_t (*space)[2]; /* per node that is a formula: rows, columns */
} Fuse;

static bool is_map(const Node *n)
{
    return n->op->info->map && !n->n_replaced;
}

static void find_spaces(Fuse *x)
{
    static const char *const dims[] = {"t", "d"};
    lua_State *L = x->g->L;

    for (int i = 0; i < x->c->nodes.count; i++) {
        if (!is_map(x->c->nodes.items[i]))
            continue;
        infer_push_n(x->g, x->c->nodes.items[i]);
        for (int k = 0; k < 2; k++) {
            lua_getfield(L, -1, dims[k]);
            x->space[i][k] = lua_tointeger(L, -1);
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
}

/* ---- what may join --------------------------------------------------------------- */

/* Does n read v as the rows that they were made as? */
static bool reads_rows(const Node *n, const Value *v)
{
    const char *dims = v->def->op->out[v->def_out].dims;

    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] == v && strcmp(node_operand(n, i)->dims, dims) != 0)
            return false;
    return true;
}

static bool fits(const Fuse *x, const Node *n, const Value *v)
{
    const Node *def = v->def;

    return def && def->phase != PHASE_SETUP && is_map(def) && def->phase == n->phase &&
           def->piece == n->piece &&
           !memcmp(x->space[def->id], x->space[n->id], sizeof *x->space) &&
           reads_rows(n, v);
}

/* Does a path from a node lead to this group, over others? */
static bool leads_to(const Fuse *x, const Node *n, int group, bool *seen);

static bool node_leads_to(const Fuse *x, const Node *from, int group, bool *seen)
{
    for (int i = 0; i < from->n_out; i++) {
        const Value *v = from->out[i];

        if (x->next_write[v->id] && leads_to(x, x->next_write[v->id], group, seen))
            return true;
        for (int k = 0; k < x->uses.count[v->id]; k++)
            if (leads_to(x, x->uses.node[v->id][k], group, seen))
                return true;
    }
    return false;
}

static bool leads_to(const Fuse *x, const Node *n, int group, bool *seen)
{
    int own = x->group[n->id];

    if (own == group)
        return true;
    if (seen[own])
        return false;
    seen[own] = true;
    for (int i = 0; i < x->c->nodes.count; i++) /* a chain runs as a whole */
        if (x->group[i] == own && node_leads_to(x, x->c->nodes.items[i], group, seen))
            return true;
    return false;
}

/* Would something outside have to run after a part of the group and before another? */
static bool divided(const Fuse *x, int group)
{
    bool *seen = gen_alloc(x->g, (size_t)x->c->nodes.count + 1);

    for (int i = 0; i < x->c->nodes.count; i++) {
        const Node *n = x->c->nodes.items[i];

        for (int k = 0; x->group[i] == group && k < n->n_out; k++) {
            const Value *v = n->out[k];

            for (int u = 0; u < x->uses.count[v->id]; u++) {
                const Node *user = x->uses.node[v->id][u];

                if (x->group[user->id] != group && leads_to(x, user, group, seen))
                    return true;
            }
        }
    }
    return false;
}

/* ---- values that are made again -------------------------------------------------- */

/* The only row that n reads, where all else are parameters; or NULL. */
static const Value *only_row(const Node *n)
{
    const Value *row = NULL;

    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i]->kind == VAL_PARAM)
            continue;
        if (row || strcmp(node_operand(n, i)->dims, n->op->out[0].dims) != 0)
            return NULL;
        row = n->in[i];
    }
    return row;
}

/* The node of the backward that may make v again; NULL: it is kept. Its forward's readers
 * must be formulas of its rows, so that nothing else has it stored. */
static Node *maker_again(const Fuse *x, const Value *v)
{
    const Node *def = v->def;
    const Value *row = only_row(def);
    Node *again = NULL;

    if (def->phase != PHASE_FORWARD || def->n_out != 1 || class_is_root(x->c, v) ||
        def->op->info->map->operations > MAX_AGAIN || !row || row->bytes > v->bytes ||
        (row->kind != VAL_NODE && row->kind != VAL_INPUT))
        return NULL;
    for (int k = 0; k < x->uses.count[v->id]; k++) {
        Node *user = x->uses.node[v->id][k];

        if (!is_map(user) || user->piece != def->piece || !reads_rows(user, v) ||
            memcmp(x->space[def->id], x->space[user->id], sizeof *x->space) != 0)
            return NULL;
        if (user->phase == PHASE_FORWARD)
            continue;
        if (again || user->op->info->map->operations + MAX_AGAIN > MAX_OPERATIONS ||
            user->n_in + def->n_in > MAX_IN)
            return NULL;
        again = user;
    }
    return again;
}

static Node *copy_backward(Fuse *x, const Node *from, const Node *user)
{
    Node *n = gen_alloc(x->g, sizeof *n);
    const Value *v = from->out[0];
    Value *made = value_new(x->g, x->c, VAL_NODE, value_unique_name(x->g, x->c, v->name));

    value_shape(made, v->dtype, v->dim, v->n_dims);
    memcpy(made->part, v->part, sizeof v->part);
    made->def = n;
    *n = *from;
    n->name = made->name;
    n->phase = user->phase;
    n->out = gen_alloc(x->g, sizeof *n->out);
    n->out[0] = made;
    return n;
}

/* The user of v in the backward reads a copy, which stands before it. */
static void make_again(Fuse *x, const Value *v, Node *user)
{
    Class *c = x->c;
    Node *copy = copy_backward(x, v->def, user);
    Value **in = gen_alloc(x->g, sizeof *in * (size_t)user->n_in);

    for (int i = 0; i < user->n_in; i++)
        in[i] = user->in[i] == v ? copy->out[0] : user->in[i];
    user->in = in;
    *gen_push(x->g, &c->nodes) = copy;
    for (int i = c->nodes.count - 1; i > user->id; i--)
        c->nodes.items[i] = c->nodes.items[i - 1];
    c->nodes.items[user->id] = copy;
    for (int i = 0; i < c->nodes.count; i++)
        c->nodes.items[i]->id = i;
}

static void look_around(Fuse *x)
{
    size_t count = (size_t)x->c->nodes.count + 1;

    x->uses = class_uses(x->g, x->c);
    x->next_write = class_next_writes(x->g, x->c);
    x->space = gen_alloc(x->g, sizeof *x->space * count);
    find_spaces(x);
}

/* The last first: what a value is made of may then be made again, too. */
static void find_again(Fuse *x)
{
    for (int i = x->c->values.count - 1; i >= 0; i--) {
        const Value *v = x->c->values.items[i];
        Node *user = v->def && is_map(v->def) ? maker_again(x, v) : NULL;

        if (!user)
            continue;
        make_again(x, v, user);
        look_around(x);
    }
}

/* ---- a chain --------------------------------------------------------------------- */

static void add_value(Value **list, int *n, Value *v)
{
    for (int i = 0; i < *n; i++)
        if (list[i] == v)
            return;
    list[(*n)++] = v;
}

static bool needed_outside(const Fuse *x, const Value *v)
{
    bool outside = class_is_root(x->c, v);

    for (int k = 0; k < x->uses.count[v->id]; k++)
        outside = outside || x->group[x->uses.node[v->id][k]->id] != x->group[v->def->id];
    return outside;
}

static Chain chain_of(const Fuse *x, int group)
{
    size_t most = 0;
    Chain c = {0};

    for (int i = 0; i < x->c->nodes.count; i++)
        if (x->group[i] == group)
            most += (size_t)(x->c->nodes.items[i]->n_in + x->c->nodes.items[i]->n_out);
    c.node = gen_alloc(x->g, sizeof *c.node * most);
    c.in = gen_alloc(x->g, sizeof *c.in * most);
    c.out = gen_alloc(x->g, sizeof *c.out * most);
    for (int i = 0; i < x->c->nodes.count; i++) {
        Node *n = x->c->nodes.items[i];

        if (x->group[i] != group)
            continue;
        c.node[c.n_nodes++] = n;
        for (int k = 0; k < n->n_in; k++) {
            const Node *def = n->in[k]->def;

            if (!def || def->phase == PHASE_SETUP || x->group[def->id] != group)
                add_value(c.in, &c.n_in, n->in[k]);
        }
        for (int k = 0; k < n->n_out; k++)
            if (needed_outside(x, n->out[k]))
                add_value(c.out, &c.n_out, n->out[k]);
    }
    return c;
}

static bool small(const Chain *c)
{
    int operations = 0;

    for (int i = 0; i < c->n_nodes; i++)
        if (is_map(c->node[i]))
            operations += c->node[i]->op->info->map->operations;
    return c->n_nodes <= MAX_OPS && operations <= MAX_OPERATIONS && c->n_in <= MAX_IN &&
           c->n_out <= MAX_OUT;
}

static void take_adds(const Chain *c, bool *add)
{
    for (int i = 0; i < c->n_out; i++)
        add[i] = c->out[i]->def->add[c->out[i]->def_out];
}

/* Can one kernel with one beta write the gradients among the outputs? */
static bool grads_fit(const Fuse *x, const Chain *c)
{
    bool add[MAX_OUT];

    take_adds(c, add);
    return grads_agree(x->c, c->n_out, c->out, add);
}

/* Joins the groups of two nodes, unless the result cannot be one kernel. */
static void join(Fuse *x, int into, int from)
{
    int *before = gen_alloc(x->g, sizeof *before * (size_t)x->c->nodes.count);
    Chain c;

    memcpy(before, x->group, sizeof *before * (size_t)x->c->nodes.count);
    for (int i = 0; i < x->c->nodes.count; i++)
        if (x->group[i] == from)
            x->group[i] = into;
    c = chain_of(x, into);
    if (!small(&c) || !grads_fit(x, &c) || divided(x, into))
        memcpy(x->group, before, sizeof *before * (size_t)x->c->nodes.count);
}

static void find_groups(Fuse *x)
{
    for (int i = 0; i < x->c->nodes.count; i++)
        x->group[i] = i;
    for (int i = 0; i < x->c->nodes.count; i++) {
        const Node *n = x->c->nodes.items[i];

        for (int k = 0; is_map(n) && k < n->n_in; k++)
            if (fits(x, n, n->in[k]) && x->group[n->in[k]->def->id] != x->group[i])
                join(x, x->group[n->in[k]->def->id], x->group[i]);
    }
}

/* ---- sums over rows, like gradients of biases ------------------------------------ */

/* May the chain of this group add the rows of v? */
static bool takes_sum(const Fuse *x, int group, const Value *v)
{
    for (int i = 0; i < x->c->nodes.count; i++) {
        const Node *n = x->c->nodes.items[i];

        if (x->group[i] == group &&
            (is_map(n) ? n->op->info->map->reduces : n->in[0]->dtype != v->dtype))
            return false;
    }
    return true;
}

/* Only where a kernel's threads cross the rows in no order. On a CPU they go along them.
 */
static void find_sums(Fuse *x)
{
    const OpRule *sum = ops_role(x->g, "column_sum");

    if (!sum || ops_foreign(x->g, sum) || !x->g->model.target->device)
        return;
    for (int i = 0; i < x->c->nodes.count; i++) {
        const Node *n = x->c->nodes.items[i];
        const Value *v = n->op == sum ? n->in[0] : NULL;
        const Node *def = v ? v->def : NULL;

        if (def && is_map(def) && def->phase == n->phase && def->piece == n->piece &&
            !strcmp(def->op->out[v->def_out].dims, "t d") &&
            takes_sum(x, x->group[def->id], v))
            join(x, x->group[def->id], i);
    }
}

/* ---- the new nodes --------------------------------------------------------------- */

static Node *make_node(Fuse *x, const Chain *c)
{
    const OpRule *op = ops_chain(x->g, c);
    Node *n = gen_alloc(x->g, sizeof *n);
    Value **made = gen_alloc(x->g, sizeof *made * (size_t)c->n_out);

    *n = (Node){.op = op,
                .phase = c->node[0]->phase,
                .piece = c->node[0]->piece,
                .n_in = c->n_in,
                .n_out = c->n_out,
                .in = c->in,
                .n_replaced = c->n_nodes,
                .replaced = c->node};
    n->add = gen_alloc(x->g, sizeof *n->add * (size_t)c->n_out);
    take_adds(c, n->add);
    n->attrs = gen_alloc(x->g, sizeof *n->attrs);
    n->out = made;
    for (int i = 0; i < c->n_out; i++) {
        made[i] = gen_alloc(x->g, sizeof *made[i]);
        made[i]->name = c->out[i]->name;
    }
    infer_node(x->g, n);
    for (int i = 0; i < c->n_out; i++)
        gen_require(same_shape(made[i], c->out[i]) && made[i]->dtype == c->out[i]->dtype,
                    "%s: %s of the chain is %s %s", x->c->name, c->out[i]->name,
                    dtype_name(made[i]->dtype), shape_text(x->g, made[i]));
    n->out = c->out;
    for (int i = 0; i < c->n_out; i++) {
        n->out[i]->def = n;
        n->out[i]->def_out = i;
    }
    n->name = n->out[c->n_out - 1]->name;
    return n;
}

/* Each chain stands where its last node stood. */
static void replace_groups(Fuse *x)
{
    Class *c = x->c;
    int count = c->nodes.count, kept = 0;
    Chain *chain = gen_alloc(x->g, sizeof *chain * (size_t)(count + 1));

    for (int i = 0; i < count; i++) /* while all definitions are the old ones */
        if (x->group[i] == i)
            chain[i] = chain_of(x, i);
    for (int i = 0; i < count; i++) {
        Node *n = c->nodes.items[i];
        const Chain *own = &chain[x->group[i]];

        if (own->n_nodes == 1)
            c->nodes.items[kept++] = n;
        else if (own->node[own->n_nodes - 1] == n)
            c->nodes.items[kept++] = make_node(x, own);
    }
    c->nodes.count = kept;
    for (int i = 0; i < kept; i++)
        c->nodes.items[i]->id = i;
    class_sort(x->g, c);
    class_sweep(x->g, c);
}

static int run_fuse_maps(lua_State *L)
{
    Fuse *x = lua_touserdata(L, 1);

    look_around(x);
    find_again(x);
    x->group = gen_alloc(x->g, sizeof *x->group * ((size_t)x->c->nodes.count + 1));
    find_groups(x);
    find_sums(x);
    replace_groups(x);
    return 0;
}

static bool has_maps(const Class *c)
{
    for (int i = 0; i < c->nodes.count; i++)
        if (is_map(c->nodes.items[i]))
            return true;
    return false;
}

void fuse_maps(Gen *g)
{
    Builder *b = builder_get(g);

    for (int i = 0; i < g->classes.count; i++) {
        Fuse x = {.g = g, .c = g->classes.items[i]};

        if (!has_maps(x.c))
            continue;
        b->block = x.c->name;
        builder_protect(g, run_fuse_maps, &x, (Pos){0});
        b->block = NULL;
    }
}
