/* SPDX-License-Identifier: Apache-2.0 */
/* split_ops.c: ops whose parts along tensor are other ops. In: a node of a class, its
 * inputs with their parts, and `in_parts` of its op's rule (gen/lua/op_cuts.lua). Out:
 * where the operand that the rule names is cut along its dim, the nodes that the rule
 * builds, in the node's place; they make the node's values. All shapes are those of the
 * whole. Breaks: ids.
 *
 * A vocabulary is the example: the rows of an embedding are looked up by the part that
 * has them, and a loss is made of what each part's logits give. Such ops know their part
 * by the data `part`: i32 [parts], the numbers 0, 1, ..., cut, so that part p has [1],
 * its own. */
#include "graph/builder.h"

#include <string.h>

typedef struct Place {
    Gen *g;
    Builder *b;
    Class *c;
    Node *node; /* that is replaced */
    int at;     /* its index */
} Place;

/* The part of the operand that decides about this node's ops, if it is cut along the dim
 * that the rule says; else NULL. */
static const PartState *deciding(const Class *c, const Node *n)
{
    const OpInfo *info = n->op->info;
    const PartState *part = NULL;

    if (!info->parts_by)
        return NULL;
    for (int i = 0; i < n->n_in; i++)
        if (!strcmp(node_operand(n, i)->name, info->parts_by))
            part = &n->in[i]->part[PARTS_TENSOR];
    for (int i = 0; i < n->n_out; i++)
        if (!strcmp(n->op->out[i].name, info->parts_by) && n->out[i]->loc == LOC_GRAD)
            part = &c->params.items[n->out[i]->loc_index].mark[PARTS_TENSOR];
    if (!part || part->kind != PART_CUT || part->dim != info->parts_dim ||
        part->sections.n != 1)
        return NULL;
    return part;
}

/* The class's value of the parts' numbers. */
static Value *part_value(Place *x)
{
    int64_t *parts = gen_alloc(x->g, sizeof *parts);
    Value *v;

    for (int i = 0; i < x->c->values.count; i++) {
        v = x->c->values.items[i];
        if (v->kind == VAL_DATA && v->index == DATA_PART)
            return v;
    }
    *parts = x->g->model.parts[PARTS_TENSOR];
    v = value_new(x->g, x->c, VAL_DATA,
                  value_unique_name(x->g, x->c, data_names[DATA_PART]));
    v->index = DATA_PART;
    value_shape(v, DT_I32, parts, 1);
    v->part[PARTS_TENSOR] = (PartState){.kind = PART_CUT, .sections = {1, parts, 0}};
    return v;
}

/* Calls the rule's function; the table of values that it returns is on top of the stack.
 */
static void build(Place *x, const PartState *by)
{
    lua_State *L = x->g->L;
    const Node *n = x->node;
    Value *part = part_value(x);

    luaL_checkstack(L, 30, "ops of parts");
    ops_push_function(L, n->op, "in_parts");
    if (!lua_istable(L, -1) || lua_getfield(L, -1, "ops") != LUA_TFUNCTION)
        luaL_error(L, "%s: the rule changed its own in_parts", n->op->name);
    builder_push_call(x->b, n, x->c);
    builder_push_value(x->b, part, x->c);
    lua_pushinteger(L, x->g->model.parts[PARTS_TENSOR]);
    lua_pushinteger(L, by->sections.elems[0] - by->sections.pad);
    lua_pushinteger(L, by->sections.elems[0]);
    x->b->phase = n->phase;
    x->b->piece = n->piece;
    lua_call(L, 6, 1);
    if (!lua_istable(L, -1))
        luaL_error(L, "%s: ops of its parts return %s, not a table of its outputs",
                   n->op->name, builder_show(x->g, L, -1));
}

/* The new node makes the old value in place of its own. */
static void take_value(Place *x, Value *made, Value *old, bool adds)
{
    Class *c = x->c;
    Node *n = made->def;
    int kept = 0;

    n->out[made->def_out] = old;
    n->add[made->def_out] = adds;
    old->def = n;
    old->def_out = made->def_out;
    if (made->def_out == 0)
        n->name = old->name;
    for (int i = 0; i < c->nodes.count; i++)
        for (int k = 0; k < c->nodes.items[i]->n_in; k++)
            if (c->nodes.items[i]->in[k] == made)
                c->nodes.items[i]->in[k] = old;
    for (int i = 0; i < c->values.count; i++) {
        Value *v = c->values.items[i];

        if (v == made)
            continue;
        v->id = kept;
        c->values.items[kept++] = v;
    }
    c->values.count = kept;
}

/* Output k of the node, from the table on top of the stack. first: of the new nodes. */
static void take_output(Place *x, int k, int first, const PartState *by)
{
    lua_State *L = x->g->L;
    const Node *n = x->node;
    const char *name = n->op->out[k].name;
    Class *owner = NULL;
    Value *old = n->out[k], *made;

    lua_getfield(L, -1, name);
    made = builder_to_value(L, -1, &owner);
    if (!made || owner != x->c || !made->def || made->def->id < first)
        luaL_error(L, "%s: ops of its parts return %s as %s", n->op->name,
                   builder_show(x->g, L, -1), name);
    if (old->loc == LOC_GRAD && by->sections.pad) /* of the padded parameter */
        value_shape(old, old->dtype, made->dim, made->n_dims);
    if (!same_shape(made, old) || made->dtype != old->dtype)
        luaL_error(L, "%s: ops of its parts give %s as %s %s, not %s %s", n->op->name,
                   name, dtype_name(made->dtype), shape_text(x->g, made),
                   dtype_name(old->dtype), shape_text(x->g, old));
    if (n->add[k] && !made->def->op->out[made->def_out].may_add)
        luaL_error(L,
                   "%s: ops of its parts give %s, which cannot be added to another"
                   " use's",
                   n->op->name, name);
    take_value(x, made, old, n->add[k]);
    lua_pop(L, 1);
}

/* The nodes from `first` on take the node's place. */
static void move_nodes(Place *x, int first)
{
    Class *c = x->c;
    const int count = c->nodes.count - first, after = first - x->at - 1;
    Node **moved = gen_alloc(x->g, sizeof *moved * (size_t)(count + after + 1));

    memcpy(moved, c->nodes.items + first, sizeof *moved * (size_t)count);
    memcpy(moved + count, c->nodes.items + x->at + 1, sizeof *moved * (size_t)after);
    memcpy(c->nodes.items + x->at, moved, sizeof *moved * (size_t)(count + after));
    c->nodes.count--;
    for (int i = x->at; i < c->nodes.count; i++)
        c->nodes.items[i]->id = i;
}

int split_ops(Gen *g, Class *c, int at)
{
    Place x = {g, builder_get(g), c, c->nodes.items[at], at};
    const int top = lua_gettop(g->L), first = c->nodes.count;
    const PartState *by = deciding(c, x.node);
    int count;

    if (!by)
        return 1;
    build(&x, by);
    for (int k = 0; k < x.node->n_out; k++)
        take_output(&x, k, first, by);
    lua_settop(g->L, top);
    count = c->nodes.count - first;
    for (int i = first; i < c->nodes.count; i++) {
        c->nodes.items[i]->pos = x.node->pos;
        c->nodes.items[i]->part_of = x.node->op;
    }
    move_nodes(&x, first);
    return count;
}
