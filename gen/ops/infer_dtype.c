/* SPDX-License-Identifier: Apache-2.0 */
/* infer_dtype.c: dtypes of one node's operands. In: a node with its op's rule, inputs and
 * attributes. Out: an error for an input of another dtype than the rule takes; an
 * output's dtype. */
#include "ops/ops.h"

#include <string.h>

static bool class_takes(const Gen *g, const char *cls, Dtype d)
{
    if (!strcmp(cls, "float"))
        return d == DT_F64 || d == DT_F32 || d == DT_BF16 || d == DT_F16;
    if (!strcmp(cls, "i32"))
        return d == DT_I32;
    if (!strcmp(cls, "fp8"))
        return d == DT_E4M3 || d == DT_E5M2;
    if (!strcmp(cls, "acc"))
        return d == ops_acc_dtype(g);
    if (!strcmp(cls, "grad"))
        return d == g->model.reduce_dtype;
    return true;
}

/* Products have one dtype of operands: that of the first one of class float. */
static void match_products(const Gen *g, const Node *n, int i)
{
    for (int k = 0; n->op->info->has_products && k <= i; k++) {
        const Operand *first = node_operand(n, k);

        if (strcmp(first->dtype, "float") != 0)
            continue;
        if (n->in[k]->dtype != n->in[i]->dtype)
            luaL_error(g->L, "%s: %s is %s, but must be %s, as %s", n->op->name,
                       node_operand(n, i)->name, dtype_name(n->in[i]->dtype),
                       dtype_name(n->in[k]->dtype), first->name);
        return;
    }
}

void infer_input_dtype(const Gen *g, const Node *n, int i)
{
    const Operand *o = node_operand(n, i);

    if (!class_takes(g, o->dtype, n->in[i]->dtype))
        luaL_error(g->L, "%s: %s is %s, but must be %s", n->op->name, o->name,
                   dtype_name(n->in[i]->dtype), o->dtype);
    if (!strcmp(o->dtype, "float"))
        match_products(g, n, i);
}

/* An operand's before output o, a dtype of the model, or one by its own name; DT_NONE:
 * none. */
static Dtype named_dtype(const Gen *g, const Node *n, const Operand *o, const char *name)
{
    for (int i = 0; i < n->n_in; i++)
        if (!strcmp(name, node_operand(n, i)->name))
            return n->in[i]->dtype;
    for (int i = 0; i < n->op->n_out && &n->op->out[i] < o; i++)
        if (!strcmp(name, n->op->out[i].name))
            return n->out[i]->dtype;
    if (!strcmp(name, "param"))
        return g->model.param_dtype;
    if (!strcmp(name, "grad"))
        return g->model.reduce_dtype;
    if (!strcmp(name, "acc"))
        return ops_acc_dtype(g);
    return dtype_parse(name);
}

Dtype infer_output_dtype(const Gen *g, const Node *n, const Operand *o)
{
    const char *name = o->dtype;

    for (int i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].type == ATTR_STR && !strcmp(o->dtype, n->attrs[i].key))
            name = n->attrs[i].s;
    return named_dtype(g, n, o, name);
}
