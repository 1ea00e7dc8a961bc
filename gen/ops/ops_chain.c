/* SPDX-License-Identifier: Apache-2.0 */
/* ops_chain.c: ops that are formulas, one after the other, as one op. In: nodes of the
 * graph. Out: by gen/lua/formula_chain.lua a rule with the kernels of all of them, for
 * these dtypes and attributes. It is not in g->ops: no description can name it, and the
 * numerics hash never has it. */
#include "ops/ops.h"
#include "base/sandbox.h"

#include <string.h>

enum { MAX_NAME = 40 };

/* The chains there are. */
struct OpChain {
    const char *key; /* what decides the op: its ops, wires, attributes, dtypes */
    OpRule *op;
    struct OpChain *next;
};

/* The values of a chain, in the order in which its nodes name them; numbers count from 1.
 */
typedef struct Values {
    const Value **items;
    int count, cap;
} Values;

static int number_of(Gen *g, Values *values, const Value *v)
{
    for (int i = 0; i < values->count; i++)
        if (values->items[i] == v)
            return i + 1;
    *gen_push(g, values) = v;
    return values->count;
}

/* ---- what is equal --------------------------------------------------------------- */

static const char *key_of(Gen *g, const Chain *c, Values *values)
{
    Text t = {.g = g};

    for (int i = 0; i < c->n_nodes; i++) {
        const Node *n = c->node[i];

        text_printf(&t, "%s", n->op->name);
        for (int k = 0; k < n->n_attrs; k++)
            text_printf(&t, " %s", attr_text(g, &n->attrs[k]));
        for (int k = 0; k < n->n_in; k++)
            text_printf(&t, " %d", number_of(g, values, n->in[k]));
        for (int k = 0; k < n->n_out; k++)
            text_printf(&t, " -> %d", number_of(g, values, n->out[k]));
        text_printf(&t, "\n");
    }
    for (int i = 0; i < c->n_in; i++)
        text_printf(&t, " %d", number_of(g, values, c->in[i]));
    for (int i = 0; i < c->n_out; i++)
        text_printf(&t, " -> %d", number_of(g, values, c->out[i]));
    for (int i = 0; i < values->count; i++)
        text_printf(&t, " %s", dtype_name(values->items[i]->dtype));
    return t.s;
}

static bool name_taken(Gen *g, const char *name)
{
    for (const struct OpChain *c = g->chains; c; c = c->next)
        if (!strcmp(c->op->name, name))
            return true;
    return ops_find(g, name) != NULL;
}

/* map_relu2_gated; of long ones the first op and how many follow. */
static const char *name_of(Gen *g, const Chain *c)
{
    Text t = {.g = g};
    const char *base, *name;

    text_printf(&t, "map");
    for (int i = 0; i < c->n_nodes; i++)
        text_printf(&t, "_%s", c->node[i]->op->name);
    base = name =
        strlen(t.s) <= MAX_NAME
            ? t.s
            : gen_printf(g, "map_%.24s_and_%d", c->node[0]->op->name, c->n_nodes - 1);
    for (int i = 2; name_taken(g, name); i++)
        name = gen_printf(g, "%s_%d", base, i);
    return name;
}

/* ---- for formula_chain.lua ------------------------------------------------------- */

static void push_numbers(Gen *g, const char *key, Value *const *v, int n, Values *values)
{
    lua_createtable(g->L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushinteger(g->L, number_of(g, values, v[i]));
        lua_rawseti(g->L, -2, i + 1);
    }
    lua_setfield(g->L, -2, key);
}

static void push_operands(Gen *g, const char *key, const Operand *o, Value *const *v,
                          int n, Values *values)
{
    lua_createtable(g->L, 0, n);
    for (int i = 0; i < n; i++) {
        lua_pushinteger(g->L, number_of(g, values, v[i]));
        lua_setfield(g->L, -2, o[i].name);
    }
    lua_setfield(g->L, -2, key);
}

static void push_op(Gen *g, const Node *n, Values *values)
{
    lua_State *L = g->L;

    lua_createtable(L, 0, 5);
    lua_rawgeti(L, LUA_REGISTRYINDEX, n->op->info->map->program_ref);
    lua_setfield(L, -2, "program");
    lua_rawgeti(L, LUA_REGISTRYINDEX, n->op->lua_ref);
    lua_setfield(L, -2, "rule");
    lua_createtable(L, 0, n->n_attrs);
    for (int i = 0; i < n->n_attrs; i++) {
        const Attr *a = &n->attrs[i];

        if (a->type == ATTR_STR)
            lua_pushstring(L, a->s);
        else if (a->type == ATTR_BOOL)
            lua_pushboolean(L, a->i != 0);
        else
            lua_pushnumber(L, a->type == ATTR_NUM ? a->num : (double)a->i);
        lua_setfield(L, -2, a->key);
    }
    lua_setfield(L, -2, "attrs");
    push_operands(g, "inputs", n->op->in, n->in, n->n_in, values);
    push_operands(g, "outputs", n->op->out, n->out, n->n_out, values);
}

/* { value, output, rule }: a node that adds the rows of a value. */
static void push_sum(Gen *g, const Node *n, Values *values)
{
    lua_State *L = g->L;

    lua_createtable(L, 0, 4);
    lua_pushinteger(L, number_of(g, values, n->in[0]));
    lua_setfield(L, -2, "value");
    lua_pushinteger(L, number_of(g, values, n->out[0]));
    lua_setfield(L, -2, "output");
    lua_pushstring(L, n->op->out[0].name);
    lua_setfield(L, -2, "name");
    lua_rawgeti(L, LUA_REGISTRYINDEX, n->op->lua_ref);
    lua_setfield(L, -2, "rule");
}

void ops_push_chain(Gen *g, const Chain *c)
{
    int n_ops = 0;
    lua_State *L = g->L;
    Values values = {0};
    Text doc = {.g = g};

    key_of(g, c, &values);
    lua_createtable(L, 0, 7);
    lua_pushstring(L, dtype_name(ops_acc_dtype(g)));
    lua_setfield(L, -2, "acc");
    lua_createtable(L, c->n_nodes, 0);
    lua_createtable(L, c->n_nodes, 0);
    for (int i = 0; i < c->n_nodes; i++) {
        bool map = c->node[i]->op->info->map != NULL;

        (map ? push_op : push_sum)(g, c->node[i], &values);
        n_ops += map;
        lua_rawseti(L, map ? -3 : -2, map ? n_ops : i + 1 - n_ops);
        text_printf(&doc, "%s%s", i ? ", then " : "", c->node[i]->op->name);
    }
    lua_setfield(L, -3, "sums");
    lua_setfield(L, -2, "ops");
    push_numbers(g, "inputs", c->in, c->n_in, &values);
    push_numbers(g, "outputs", c->out, c->n_out, &values);
    lua_createtable(L, values.count, 0);
    for (int i = 0; i < values.count; i++) {
        lua_pushstring(L, dtype_name(values.items[i]->dtype));
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "dtypes");
    lua_pushstring(L, doc.s);
    lua_setfield(L, -2, "doc");
}

static OpRule *make_op(Gen *g, const Chain *c)
{
    lua_State *L = g->L;
    const OpInfo *last = c->node[c->n_nodes - 1]->op->info;
    OpRule *op = gen_alloc(g, sizeof *op);
    int make = ops_load_function(g, "gen/lua/formula_chain.lua");
    int checker = ops_load_checker(g);

    *op = (OpRule){.name = name_of(g, c)};
    op->folder = gen_printf(g, "formulas/%s", op->name);
    op->info = gen_alloc(g, sizeof *op->info);
    *op->info =
        (OpInfo){.path = last->path, .text = last->text, .text_bytes = last->text_bytes};
    lua_rawgeti(L, LUA_REGISTRYINDEX, make);
    ops_push_tools(g);
    ops_push_chain(g, c);
    lua_call(L, 2, 1);
    op->info->map = ops_map_read(g, "");
    gen_require(ops_take_rule(g, op, checker) && ops_map_finish(g, op), "the rule of %s",
                op->name);
    luaL_unref(L, LUA_REGISTRYINDEX, make);
    luaL_unref(L, LUA_REGISTRYINDEX, checker);
    return op;
}

const OpRule *ops_chain(Gen *g, const Chain *c)
{
    Values values = {0};
    const char *key = key_of(g, c, &values);
    struct OpChain *known = g->chains;

    while (known && strcmp(known->key, key) != 0)
        known = known->next;
    if (known)
        return known->op;
    known = gen_alloc(g, sizeof *known);
    *known = (struct OpChain){.key = key, .op = make_op(g, c), .next = g->chains};
    g->chains = known;
    return known->op;
}
