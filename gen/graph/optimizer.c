/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.c: the ops behind the description's optimizer, and which parameters it treats
 * as matrices.
 *
 * In: the optimizer and its values, op rules, the graph. Out: rules and their attributes
 * by use; Param.matrix; g->shapes, a node of the matrix op per shape. These nodes are not
 * part of the graph: the emitter and the plan ask them for a kernel, flops and workspace.
 *
 * An optimizer whose rule names an op of matrices (`uses`) treats the matrices between
 * the ends of the model as a whole: trained two-dimensional parameters of blocks that
 * neither read tokens nor make the loss; parts of a fused one are separate matrices. A
 * group may decide otherwise. The rule's `others` updates the rest. */
#include "graph/graph.h"
#include "ops/ops.h"
#include "describe/load.h"
#include "base/sandbox.h"

#include <math.h>
#include <string.h>

/* ---- rules ----------------------------------------------------------------------- */

const OpRule *optimizer_rule(const Gen *g, OptimizerUse use)
{
    const Optimizer *o = g->model.optimizer;
    const OpRule *rule = o && o->uses[use] ? ops_find(g, o->uses[use]) : NULL;

    gen_require(!o || !o->uses[use] || rule, "optimizer %s uses %s, which is not an op",
                o->name, o->uses[use]);
    return rule;
}

bool optimizer_uses(const Gen *g, const OpRule *op)
{
    bool used = false;

    for (int use = 0; use < N_USES; use++)
        used = used || optimizer_rule(g, (OptimizerUse)use) == op;
    return used;
}

/* The feed of the attribute; -1: none. */
static int find_feed(const Optimizer *o, OptimizerUse use, const char *attr)
{
    for (int i = 0; o && i < o->feeds.count; i++)
        if (o->feeds.items[i].use == use && !strcmp(o->feeds.items[i].attr, attr))
            return i;
    return -1;
}

Attr optimizer_attr(const Gen *g, OptimizerUse use, int index)
{
    const OpRule *rule = optimizer_rule(g, use);
    const AttrSpec *spec = &rule->info->attrs[index];
    int i = find_feed(g->model.optimizer, use, spec->key);
    const FieldValue *v = &g->model.optimizer_values[i < 0 ? 0 : i];

    gen_require(i >= 0 || spec->has_default, "optimizer %s: no value for attribute %s",
                rule->name, spec->key);
    if (i < 0)
        return spec->dflt;
    return (Attr){
        .key = spec->key, .type = spec->type, .num = v->num, .i = v->i, .s = v->s};
}

double optimizer_number(const Gen *g, const char *attr)
{
    const Optimizer *o = g->model.optimizer;
    int i = find_feed(o, o && o->others ? USE_OTHERS : USE_SELF, attr);

    i = i < 0 ? find_feed(o, USE_MOMENTUM, attr) : i;
    return i < 0 ? 0 : g->model.optimizer_values[i].num;
}

/* ---- matrices -------------------------------------------------------------------- */

/* Does it read tokens or make the loss? Its matrices are look-ups and logits. */
static bool is_end(const Class *c)
{
    bool reads = false;

    for (int i = 0; i < c->values.count; i++)
        reads = reads || (c->values.items[i]->kind == VAL_DATA &&
                          c->values.items[i]->index == DATA_TOKENS);
    return reads || c->loss;
}

static bool at_an_end(const Gen *g, const Param *p)
{
    bool end = false;

    for (int b = 0; b < g->blocks.count; b++) {
        const Block *block = &g->blocks.items[b];

        for (int k = 0; k < block->cls->params.count; k++)
            end = end || (block->param[k] == p->id && is_end(block->cls));
    }
    return end;
}

/* Reports the first parameter of a group that is not a matrix. */
static void check_half(Gen *g, const Param *p)
{
    const char *path = gen_printf(g, "%s.optimizer", p->group->path);
    Text shape = {.g = g};

    if (p->decl->n_dims == 2)
        return;
    for (int i = 0; i < p->id; i++)
        if (g->params.items[i].group == p->group && g->params.items[i].matrix &&
            g->params.items[i].decl->n_dims != 2)
            return;
    for (int d = 0; d < p->decl->n_dims; d++)
        text_printf(&shape, "%s%lld", d ? ", " : "", (long long)p->decl->dim[d]);
    diag_add(g, DIAG_ERROR, model_pos(g, path),
             gen_printf(g, "match those with two dimensions; %s updates everything else",
                        g->model.optimizer->others->name),
             "%s: %s is [%s]: no matrix", path, p->name, shape.s);
}

typedef struct MakeShape {
    Gen *g;
    Node *node;
} MakeShape;

static int run_infer(lua_State *L)
{
    const MakeShape *x = lua_touserdata(L, 1);

    infer_node(x->g, x->node);
    return 0;
}

static Value *shape_value(Gen *g, const char *name, int64_t rows, int64_t cols)
{
    Value *v = gen_alloc(g, sizeof *v);

    *v = (Value){.kind = VAL_NODE, .name = name, .dtype = ops_acc_dtype(g), .n_dims = 2};
    v->dim[0] = rows;
    v->dim[1] = cols;
    v->elems = rows * cols;
    v->bytes = v->elems * dtype_bytes(v->dtype);
    return v;
}

static MatrixShape *find_shape(const Gen *g, int64_t rows, int64_t cols)
{
    for (int i = 0; i < g->shapes.count; i++) {
        const Value *v = g->shapes.items[i].node->in[0];

        if (v->dim[0] == rows && v->dim[1] == cols)
            return &g->shapes.items[i];
    }
    return NULL;
}

const MatrixShape *optimizer_shape(const Gen *g, int64_t rows, int64_t cols)
{
    return find_shape(g, rows, cols);
}

/* The factor of the learning rate for a matrix of that shape: its rule's lr_adjust. */
static double lr_adjust(Gen *g, int64_t rows, int64_t cols)
{
    const Optimizer *o = g->model.optimizer;
    lua_State *L = g->L;
    const char *what = gen_printf(g, "op %s", o->name);
    double v;

    if (o->lr_adjust_ref == LUA_NOREF || diag_errors(g)) /* one message is enough */
        return 1;
    lua_rawgeti(L, LUA_REGISTRYINDEX, o->lr_adjust_ref);
    lua_rawgeti(L, LUA_REGISTRYINDEX, g->model.optimizer_ref);
    lua_pushinteger(L, rows);
    lua_pushinteger(L, cols);
    if (sandbox_status(L, lua_pcall(L, 3, 1, 0))) {
        loader_lua_error(g, what, optimizer_place(o, "lr_adjust"));
        return 1;
    }
    v = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : 0;
    if (!(v > 0 && isfinite(v)))
        diag_add(g, DIAG_ERROR, optimizer_place(o, "lr_adjust"),
                 "return a finite number above 0",
                 "%s: lr_adjust makes %s of [%lld, %lld]", what, check_show(g, -1),
                 (long long)rows, (long long)cols);
    lua_pop(L, 1);
    return v;
}

static void new_shape(Gen *g, int64_t rows, int64_t cols)
{
    const OpRule *rule = optimizer_rule(g, USE_MATRIX);
    Node *n = gen_alloc(g, sizeof *n);
    MakeShape x = {g, n};

    gen_require(rule->n_in == 1 && rule->n_out == 1 && !rule->optimizer,
                "op %s is not of one matrix", rule->name);
    n->op = rule;
    n->name = rule->name;
    n->n_in = n->n_out = 1;
    n->in = gen_alloc(g, sizeof *n->in);
    n->out = gen_alloc(g, sizeof *n->out);
    n->in[0] = shape_value(g, rule->in[0].name, rows, cols);
    n->out[0] = shape_value(g, rule->out[0].name, rows, cols);
    n->n_attrs = rule->info->n_attrs;
    n->attrs = gen_alloc(g, sizeof *n->attrs * (size_t)(n->n_attrs + 1));
    for (int i = 0; i < n->n_attrs; i++)
        n->attrs[i] = optimizer_attr(g, USE_MATRIX, i);
    n->kernel =
        gen_printf(g, "%s_%lldx%lld", rule->name, (long long)rows, (long long)cols);
    if (builder_protect(g, run_infer, &x, ops_place(g, rule, "inputs", NULL)))
        *gen_push(g, &g->shapes) =
            (MatrixShape){.node = n, .lr_adjust = lr_adjust(g, rows, cols)};
}

/* at: the first element of a matrix in its parameter. Its kernel is that of all matrices
 * of the shape, wherever they begin. */
static void add_shape(Gen *g, int64_t rows, int64_t cols, int64_t at)
{
    MatrixShape *s;

    if (!find_shape(g, rows, cols))
        new_shape(g, rows, cols);
    s = find_shape(g, rows, cols);
    if (s)
        s->at_bytes = gcd_i64(s->at_bytes, at * dtype_bytes(ops_acc_dtype(g)));
}

static void find_matrix(Gen *g, Param *p)
{
    const ClassParam *d = p->decl;
    bool hidden = d->n_dims == 2 && !at_an_end(g, p);
    const char *half = p->group ? p->group->half : "";
    int64_t row = 0;

    if (d->frozen)
        return;
    p->matrix = *half ? !strcmp(half, g->model.optimizer->name) : hidden;
    if (!p->matrix)
        return;
    if (*half)
        check_half(g, p);
    for (int i = 0; i < d->n_parts && d->n_dims == 2; i++) {
        add_shape(g, d->part_rows[i], d->dim[1], row * d->dim[1]);
        row += d->part_rows[i];
    }
    if (d->n_parts == 0 && d->n_dims == 2)
        add_shape(g, d->dim[0], d->dim[1], 0);
}

void optimizer_matrices(Gen *g)
{
    const Optimizer *o = g->model.optimizer;
    bool any = false, trains = false;

    if (!optimizer_rule(g, USE_MATRIX))
        return;
    for (int i = 0; i < g->params.count; i++) {
        find_matrix(g, &g->params.items[i]);
        any = any || g->params.items[i].matrix;
        trains = trains || !g->params.items[i].decl->frozen;
    }
    if (!any && trains)
        diag_add(
            g, DIAG_ERROR, model_pos(g, "optimizer"),
            gen_printf(g, "use %s, or name matrices in a group with optimizer = \"%s\"",
                       o->others->name, o->name),
            "optimizer: %s finds no matrix that trains between the ends of the model",
            o->name);
}
