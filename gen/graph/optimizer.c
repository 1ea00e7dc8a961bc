/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer: the ops behind the description's optimizer, and what is a matrix to it.
 *
 * In: the optimizer's name and fields, op rules, the graph. Out: rules and their
 * attributes by what they are for; Param.matrix; g->shapes, a node of the matrix op for
 * each shape. No node of the graph: the emitter and the plan ask it for a kernel, flops
 * and workspace.
 *
 * An optimizer whose rule names an op of matrices (`uses`) treats as a whole the matrices
 * between the ends of the model: trained parameters of two dimensions, of blocks that
 * neither read tokens nor make the loss, each part of a fused one by itself. A group may
 * say otherwise. The rest goes to the rule's `others`. */
#include "graph/graph.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

/* ---- rules ------------------------------------------------------------------------- */

/* The name at the optimizer's uses[key]; NULL: it has none. */
static const char *used_name(Gen *g, const OpRule *rule, const char *key)
{
    lua_State *L = g->L;
    const char *name = NULL;

    lua_rawgeti(L, LUA_REGISTRYINDEX, rule->lua_ref);
    if (lua_getfield(L, -1, "uses") == LUA_TTABLE) {
        if (lua_getfield(L, -1, key) == LUA_TSTRING)
            name = gen_strdup(g, lua_tostring(L, -1));
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
    return name;
}

const OpRule *optimizer_rule(Gen *g, const char *use)
{
    const char *name = g->model.optimizer_name;
    const OpRule *rule = name ? ops_find(g, name) : NULL;

    gen_require(rule && rule->optimizer, "optimizer %s has no op",
                name ? name : "(none)");
    if (!use)
        return rule;
    name = used_name(g, rule, use);
    rule = name ? ops_find(g, name) : NULL;
    gen_require(!name || rule, "op %s uses %s, which is none", g->model.optimizer_name,
                name);
    return rule;
}

bool optimizer_uses(Gen *g, const OpRule *op)
{
    static const char *const uses[] = {"matrix", "momentum", "others"};
    bool used = g->model.optimizer_name && !strcmp(op->name, g->model.optimizer_name);

    for (size_t i = 0; g->model.optimizer_name && i < sizeof uses / sizeof *uses; i++)
        used = used || optimizer_rule(g, uses[i]) == op;
    return used;
}

Attr optimizer_attr(const Gen *g, const OpRule *rule, int index)
{
    const Model *m = &g->model;
    const AttrSpec *spec = &rule->info->attrs[index];
    const Attr known[] = {
        {.key = "beta1", .type = ATTR_NUM, .num = m->beta1},
        {.key = "beta2", .type = ATTR_NUM, .num = m->beta2},
        {.key = "eps", .type = ATTR_NUM, .num = rule->optimizer ? m->eps : m->matrix.eps},
        {.key = "momentum", .type = ATTR_NUM, .num = m->momentum},
        {.key = "nesterov", .type = ATTR_BOOL, .i = m->matrix.nesterov},
        {.key = "steps", .type = ATTR_INT, .i = m->matrix.steps},
        {.key = "a", .type = ATTR_NUM, .num = m->matrix.coefficient[0]},
        {.key = "b", .type = ATTR_NUM, .num = m->matrix.coefficient[1]},
        {.key = "c", .type = ATTR_NUM, .num = m->matrix.coefficient[2]},
    };

    for (int i = 0; m->optimizer == OPT_OWN && i < m->n_own; i++)
        if (!strcmp(m->own[i].key, spec->key))
            return (Attr){.key = spec->key,
                          .type = spec->type,
                          .num = m->own[i].num,
                          .i = m->own[i].i};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].key, spec->key) && (int)known[i].type == spec->type)
            return known[i];
    gen_die("optimizer %s: no value for attribute %s", rule->name, spec->key);
}

/* ---- matrices ---------------------------------------------------------------------- */

/* Reads tokens, or makes the loss: its matrices are look-ups and logits. */
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

/* The first of a group that is none. */
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
             "match those with two dimensions; what is no matrix goes to adamw by itself",
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

const Node *optimizer_shape(const Gen *g, int64_t rows, int64_t cols)
{
    for (int i = 0; i < g->shapes.count; i++) {
        const Value *v = g->shapes.items[i]->in[0];

        if (v->dim[0] == rows && v->dim[1] == cols)
            return g->shapes.items[i];
    }
    return NULL;
}

static void add_shape(Gen *g, int64_t rows, int64_t cols)
{
    const OpRule *rule = optimizer_rule(g, "matrix");
    Node *n = gen_alloc(g, sizeof *n);
    MakeShape x = {g, n};

    if (optimizer_shape(g, rows, cols))
        return;
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
        n->attrs[i] = optimizer_attr(g, rule, i);
    n->kernel =
        gen_printf(g, "%s_%lldx%lld", rule->name, (long long)rows, (long long)cols);
    if (builder_protect(g, run_infer, &x, ops_place(g, rule, "inputs", NULL)))
        *gen_push(g, &g->shapes) = n;
}

static void find_matrix(Gen *g, Param *p)
{
    const ClassParam *d = p->decl;
    bool hidden = d->n_dims == 2 && !at_an_end(g, p);
    const char *half = p->group ? p->group->half : "";

    if (d->frozen)
        return;
    p->matrix = *half ? !strcmp(half, g->model.optimizer_name) : hidden;
    if (!p->matrix)
        return;
    if (*half)
        check_half(g, p);
    for (int i = 0; i < d->n_parts && d->n_dims == 2; i++)
        add_shape(g, d->part_rows[i], d->dim[1]);
    if (d->n_parts == 0 && d->n_dims == 2)
        add_shape(g, d->dim[0], d->dim[1]);
}

void optimizer_matrices(Gen *g)
{
    bool any = false, trains = false;

    if (!g->model.optimizer_name || !optimizer_rule(g, "matrix"))
        return;
    for (int i = 0; i < g->params.count; i++) {
        find_matrix(g, &g->params.items[i]);
        any = any || g->params.items[i].matrix;
        trains = trains || !g->params.items[i].decl->frozen;
    }
    if (!any && trains)
        diag_add(
            g, DIAG_ERROR, model_pos(g, "optimizer"),
            gen_printf(g,
                       "use adamw, or name matrices in a group with optimizer = \"%s\"",
                       g->model.optimizer_name),
            "optimizer: %s finds no matrix that trains between the ends of the model",
            g->model.optimizer_name);
}

double optimizer_lr_adjust(const Gen *g, int64_t rows, int64_t cols)
{
    if (g->model.matrix.match_rms)
        return 0.2 * sqrt((double)max_i64(rows, cols));
    return rows > cols ? sqrt((double)rows / (double)cols) : 1;
}
