/* SPDX-License-Identifier: Apache-2.0 */
/* emit_optimizer.c: the optimizer's kernels for kernels.c; and, if it treats matrices as
 * a whole, the tables of matrices and batches for tables.c.
 *
 * In: the optimizer's rules (optimizer.c), g->shapes, the assignment of matrices
 * (matrices.c). Out: kernels in the lists of emit_math.c; fields of the context. Kernels
 * depend on the parameters' shapes alone, in the parameters' order; owners and batches
 * only appear in tables. */
#include "emit/emit.h"
#include "ops/ops.h"
#include "plan/plan.h"
#include "base/show.h"

#include <inttypes.h>
#include <string.h>

/* ---- kernels --------------------------------------------------------------------- */

static Dtype state_dtype(const Gen *g, const char *class)
{
    const Model *m = &g->model;

    if (!strcmp(class, "master"))
        return m->master_dtype;
    if (!strcmp(class, "moments"))
        return m->moments_dtype;
    if (!strcmp(class, "acc"))
        return ops_acc_dtype(g);
    return !strcmp(class, "grad") ? m->reduce_dtype : m->param_dtype;
}

static void push_attr(lua_State *L, const Attr *a)
{
    if (a->type == ATTR_NUM)
        emit_num(L, a->key, a->num);
    else if (a->type == ATTR_STR)
        emit_str(L, a->key, a->s);
    else if (a->type == ATTR_BOOL)
        emit_bool(L, a->key, a->i);
    else
        emit_int(L, a->key, a->i);
}

static const char *update_name(Gen *g, const OpRule *rule)
{
    return gen_printf(g, "%s_update", rule->name);
}

/* As ops_push_env, for runs of any length, so without shapes. An RtUpdateKernel. */
static void push_update_env(Emit *e, OptimizerUse use)
{
    Gen *g = e->g;
    lua_State *L = e->L;
    const OpRule *rule = optimizer_rule(g, use);

    lua_newtable(L);
    emit_str(L, "fn", update_name(g, rule));
    emit_str(L, "acc", dtype_ctype(ops_acc_dtype(g)));
    emit_bool(L, "optimizer", true);
    for (int i = 0; i < rule->info->n_attrs; i++) {
        Attr a = optimizer_attr(g, use, i);

        push_attr(L, &a);
    }
    for (int i = 0; i < rule->n_in; i++) {
        Dtype d = state_dtype(g, rule->in[i].dtype ? rule->in[i].dtype : "");

        lua_newtable(L);
        emit_str(L, "name", rule->in[i].name);
        emit_str(L, "type", dtype_ctype(d));
        emit_str(L, "dtype", dtype_name(d));
        lua_setfield(L, -2, rule->in[i].name);
    }
}

static void add_update(Emit *e, OptimizerUse use, int list, int prepared)
{
    push_update_env(e, use);
    emit_kernel(e, optimizer_rule(e->g, use), NULL, list, prepared);
}

static OptimizerUse of_elements(const Gen *g)
{
    return optimizer_rule(g, USE_OTHERS) ? USE_OTHERS : USE_SELF;
}

void emit_optimizer_kernels(Emit *e, int list, int prepared)
{
    Gen *g = e->g;
    lua_State *L = e->L;

    add_update(e, of_elements(g), list, prepared);
    if (g->shapes.count == 0)
        return;
    add_update(e, USE_MOMENTUM, list, prepared);
    for (int i = 0; i < g->shapes.count; i++) {
        const Node *n = g->shapes.items[i].node;

        ops_push_env(g, n);
        emit_int(L, "operand_at", g->shapes.items[i].at_bytes);
        emit_kernel(e, n->op, n, list, prepared);
        if (diag_errors(g))
            return;
        lua_rawgeti(L, list, (lua_Integer)lua_rawlen(L, list));
        emit_operands(e, n);
        emit_str(L, "fn", n->kernel);
        emit_bool(L, "shared", true);
        lua_pop(L, 1);
    }
    add_update(e, USE_SELF, list, prepared);
}

static void push_update_name(Emit *e, const char *key, OptimizerUse use)
{
    emit_str(e->L, key, update_name(e->g, optimizer_rule(e->g, use)));
}

void emit_optimizer_names(Emit *e)
{
    push_update_name(e, "optimizer", of_elements(e->g));
    if (e->g->shapes.count > 0) {
        push_update_name(e, "matrix_momentum", USE_MOMENTUM);
        push_update_name(e, "matrix_update", USE_SELF);
    }
}

/* ---- tables ---------------------------------------------------------------------- */

static void push_matrix(Emit *e, const Matrix *m)
{
    lua_State *L = e->L;

    lua_newtable(L);
    emit_str(L, "name", m->name);
    emit_int(L, "param", m->param);
    emit_int(L, "element", m->element);
    emit_int(L, "rows", m->rows);
    emit_int(L, "cols", m->cols);
    emit_int(L, "owner", m->owner);
    emit_int(L, "owned_elems", m->owned_elems);
    emit_num(L, "lr_adjust", m->lr_adjust);
    emit_str(L, "kernel", m->node->kernel);
}

static const Buffer *batch_buffer(const Gen *g, int batch, bool owned)
{
    for (int id = g->prog.first[VARIANT_END]; id < g->prog.ins.count; id++) {
        const Instr *i = &g->prog.ins.items[id];
        int buffer = owned ? i->to : i->with;

        if (i->kind == INS_MATRICES && i->batch == batch)
            return buffer < 0 ? NULL : &g->prog.bufs.items[buffer];
    }
    gen_die("batch %d is not computed", batch);
}

static void push_batch(Emit *e, const Batch *b)
{
    Gen *g = e->g;
    lua_State *L = e->L;
    const Buffer *owned = batch_buffer(g, b->id, true);
    double all = matrices_flops(g, b->id, -1), most = matrices_max_flops(g, b->id);

    lua_newtable(L);
    emit_str(L, "name", b->name);
    emit_str(L, "macro", b->macro);
    emit_int(L, "first", b->first_matrix);
    emit_int(L, "count", b->n_matrices);
    emit_str(L, "owned", owned ? owned->macro : "-1");
    if (b->group)
        emit_str(L, "group", gen_printf(g, "0x%x", b->group));
    emit_str(L, "workspace", batch_buffer(g, b->id, false)->macro);
    if (b->whole_bytes)
        emit_int(L, "whole_at", matrix_whole_at(b));
    emit_str(L, "flops", show_count(g, all));
    emit_str(L, "most", show_count(g, most));
}

void emit_matrices(Emit *e)
{
    Gen *g = e->g;
    lua_State *L = e->L;

    lua_createtable(L, g->matrices.count, 0);
    for (int i = 0; i < g->matrices.count; i++) {
        push_matrix(e, &g->matrices.items[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "matrices");
    lua_createtable(L, g->batches.count, 0);
    for (int i = 0; i < g->batches.count; i++) {
        push_batch(e, &g->batches.items[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "batches");
}
