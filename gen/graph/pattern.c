/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.c: the `expands` of fused ops → patterns. In: rules. Out: for each fused op,
 * the small graph of primitive ops that it stands for, recorded by running `expands` once
 * with placeholders for its inputs, attributes and dims. */
#include "graph/pattern.h"

#include <string.h>

static const char var_meta[] = "fsdpgen.variable";

/* A user's op in place of ours need not have the attributes that our fused ops pass on;
 * then they do not stand for it. */
static void drop_unknown(Builder *b, Pattern *p, const OpRule *op, int index)
{
    const char *key;

    if (ops_foreign(b->g, p->op) || !ops_foreign(b->g, op))
        return;
    while ((key = builder_unknown_key(b, op, index))) {
        lua_pushnil(b->g->L);
        lua_setfield(b->g->L, index, key);
        p->replaced = true;
    }
}

int pattern_call(Builder *b, const OpRule *op)
{
    lua_State *L = b->g->L;
    Pattern *p = b->pattern;
    PatternNode *n = &p->node[p->n_nodes];
    int n_attrs = op->info->n_attrs;

    if (p->n_nodes == MAX_PATTERN)
        return luaL_error(L, "%s: an expansion of more than %d ops", p->op->name,
                          MAX_PATTERN);
    if (op->fused && !p->op->info->same_bits)
        return luaL_error(L, "%s: it expands into %s, which is fused itself", p->op->name,
                          op->name);
    if (p->op->info->same_bits && ops_foreign(b->g, op))
        p->replaced = true; /* its kernel has the bits of the built-in op */
    n->op = op;
    n->in = gen_alloc(b->g, sizeof *n->in * (size_t)(op->n_in + 1));
    n->out = gen_alloc(b->g, sizeof *n->out * (size_t)op->n_out);
    n->attrs = gen_alloc(b->g, sizeof *n->attrs * (size_t)(n_attrs + 1));
    n->var = gen_alloc(b->g, sizeof *n->var * (size_t)(n_attrs + 1));
    builder_inputs(b, op, 1, p->cls, n->in);
    n->n_in = builder_given(op, n->in, n->in, &n->omitted);
    drop_unknown(b, p, op, 1);
    builder_check_keys(b, op, 1);
    for (int i = 0; i < n_attrs; i++) {
        const AttrSpec *spec = &op->info->attrs[i];
        const int *var;

        lua_getfield(L, 1, spec->key);
        var = luaL_testudata(L, -1, var_meta);
        n->var[i] = var ? *var : -1;
        if (lua_isnil(L, -1) && !spec->has_default)
            return luaL_error(L, "%s: attribute %s is missing", op->name, spec->key);
        if (lua_isnil(L, -1))
            n->attrs[i] = spec->dflt;
        else if (!var)
            builder_attr(b, op, spec, lua_gettop(L), &n->attrs[i]);
        lua_pop(L, 1);
    }
    p->n_nodes++;
    for (int i = 0; i < op->n_out; i++) {
        n->out[i] = value_new(b->g, p->cls, VAL_NODE, op->out[i].name);
        n->out[i]->index = p->n_nodes - 1;
        builder_push_value(b, n->out[i], p->cls);
    }
    if (p->cls->values.count > MAX_PATTERN_VALUES)
        return luaL_error(L, "%s: an expansion of more than %d values", p->op->name,
                          MAX_PATTERN_VALUES);
    return op->n_out;
}

static void push_var(Gen *g, Pattern *p, const char *name)
{
    int *var;

    for (int i = 0; i < p->n_vars; i++)
        if (!strcmp(p->var_name[i], name))
            return; /* n has it already */
    if (p->n_vars == MAX_VARS)
        luaL_error(g->L, "%s: too many dims and attributes", p->op->name);
    var = lua_newuserdatauv(g->L, sizeof *var, 0);
    *var = p->n_vars;
    if (luaL_newmetatable(g->L, var_meta)) {
        lua_pushliteral(g->L, "placeholder"); /* "arithmetic on a placeholder value" */
        lua_setfield(g->L, -2, "__name");
        lua_pushboolean(g->L, 0);
        lua_setfield(g->L, -2, "__metatable");
    }
    lua_setmetatable(g->L, -2);
    lua_setfield(g->L, -2, name);
    p->var_name[p->n_vars++] = name;
}

/* Pushes n for `expands`: placeholders for inputs, attributes and dims. */
static void push_placeholders(Builder *b, Pattern *p)
{
    const char *names[MAX_VARS];
    int n = 0;

    lua_createtable(b->g->L, 0, 16);
    for (int i = 0; i < p->op->info->n_attrs; i++)
        push_var(b->g, p, p->op->info->attrs[i].key);
    for (int i = 0; i < p->op->n_in; i++) {
        Value *v = value_new(b->g, p->cls, VAL_INPUT, p->op->in[i].name);

        v->index = i;
        builder_push_value(b, v, p->cls);
        lua_setfield(b->g->L, -2, p->op->in[i].name);
        n = dims_symbols(b->g, p->op->in[i].dims, names, n, MAX_VARS);
    }
    for (int i = 0; i < n; i++)
        push_var(b->g, p, names[i]);
}

/* Drops what no output needs, and replaces ops by the forms that make less, as in the
 * graphs to be matched (class_trim). */
static void trim_pattern(Gen *g, Pattern *p)
{
    bool needed[MAX_PATTERN_VALUES] = {false}, live[MAX_PATTERN] = {false};
    int kept = 0;

    for (int i = 0; i < p->op->n_out; i++)
        needed[p->out[i]->id] = true;
    for (int i = p->n_nodes - 1; i >= 0; i--) {
        const PatternNode *n = &p->node[i];

        for (int k = 0; k < n->op->n_out; k++)
            live[i] = live[i] || needed[n->out[k]->id];
        for (int k = 0; live[i] && k < n->n_in; k++)
            needed[n->in[k]->id] = true;
    }
    for (int i = 0; i < p->n_nodes; i++) {
        PatternNode *n = &p->node[kept];
        bool dead[MAX_OPERANDS];
        const OpRule *form;
        int outs = 0;

        if (!live[i])
            continue;
        *n = p->node[i];
        kept++;
        for (int k = 0; k < n->op->n_out; k++)
            dead[k] = !needed[n->out[k]->id];
        form = ops_form(g, n->op, dead);
        for (int k = 0; form && k < n->op->n_out; k++)
            if (outs < form->n_out && !strcmp(form->out[outs].name, n->op->out[k].name))
                n->out[outs++] = n->out[k];
        n->op = form ? form : n->op;
        for (int k = 0; k < n->op->n_out; k++)
            n->out[k]->index = kept - 1;
    }
    p->n_nodes = kept;
}

static bool touches(const PatternNode *a, const PatternNode *b)
{
    for (int i = 0; i < a->n_in; i++) {
        for (int k = 0; k < b->n_in; k++)
            if (a->in[i] == b->in[k])
                return true;
        for (int k = 0; k < b->op->n_out; k++)
            if (a->in[i] == b->out[k])
                return true;
    }
    for (int i = 0; i < a->op->n_out; i++)
        for (int k = 0; k < b->n_in; k++)
            if (a->out[i] == b->in[k])
                return true;
    return false;
}

static void order_pattern(Gen *g, Pattern *p)
{
    bool done[MAX_PATTERN] = {false};

    p->order[0] = p->n_nodes - 1;
    done[p->n_nodes - 1] = true;
    for (int n = 1; n < p->n_nodes; n++) {
        int next = -1;

        for (int i = 0; i < p->n_nodes && next < 0; i++)
            for (int k = 0; k < n && !done[i] && next < 0; k++)
                if (touches(&p->node[i], &p->node[p->order[k]]))
                    next = i;
        if (next < 0)
            luaL_error(g->L, "%s: its expansion falls apart into unconnected ops",
                       p->op->name);
        p->order[n] = next;
        done[next] = true;
    }
}

static int record_pattern(lua_State *L)
{
    Builder *b = lua_touserdata(L, 1);
    Pattern *p = b->pattern;
    const OpRule *op = p->op;

    ops_push_function(L, op, "expands");
    builder_push_g(b);
    push_placeholders(b, p);
    lua_call(L, 2, 1);
    if (!lua_istable(L, -1))
        return luaL_error(L, "%s: expands must return a table of values by output",
                          op->name);
    if (p->n_nodes < 1)
        return luaL_error(L, "%s: its expansion has no op", op->name);
    for (int i = 0; i < op->n_out; i++) {
        Class *owner = NULL;

        lua_getfield(L, -1, op->out[i].name);
        p->out[i] = builder_to_value(L, -1, &owner);
        if (!p->out[i] || owner != p->cls || p->out[i]->kind != VAL_NODE)
            return luaL_error(L, "%s: its expansion does not compute output %s", op->name,
                              op->out[i].name);
        for (int k = 0; k < i; k++)
            if (p->out[k] == p->out[i])
                return luaL_error(L,
                                  "%s: outputs %s and %s are one value of its expansion",
                                  op->name, op->out[k].name, op->out[i].name);
        lua_pop(L, 1);
    }
    trim_pattern(b->g, p);
    for (int i = 0; i < op->n_in; i++) {
        bool used = false;

        for (int k = 0; k < p->n_nodes; k++)
            for (int q = 0; q < p->node[k].n_in; q++)
                used = used || p->node[k].in[q]->id == i;
        if (!used)
            return luaL_error(L, "%s: its expansion does not use input %s", op->name,
                              op->in[i].name);
    }
    order_pattern(b->g, p);
    return 0;
}

/* What makes a scale takes in other fused ops, so it comes after them. */
static int larger_first(const Pattern *a, const Pattern *b)
{
    if (a->op->info->with_scale != b->op->info->with_scale)
        return a->op->info->with_scale ? 1 : -1;
    return a->n_nodes != b->n_nodes ? b->n_nodes - a->n_nodes
                                    : strcmp(a->op->name, b->op->name);
}

static Pattern *record(Builder *b, const OpRule *op)
{
    Pattern *p = gen_alloc(b->g, sizeof *p);
    bool ok;

    p->op = op;
    p->cls = gen_alloc(b->g, sizeof *p->cls);
    b->pattern = p;
    b->help =
        "an expansion only calls primitive ops on n's inputs and passes n's attributes"
        " and dims on";
    ok = builder_protect(b->g, record_pattern, b, ops_place(b->g, op, "expands", NULL));
    b->pattern = NULL;
    b->help = NULL;
    return ok && !p->replaced ? p : NULL;
}

void patterns_record(Gen *g, PatternList *list)
{
    for (int i = 0; i < g->ops.count; i++) {
        Pattern *p =
            g->ops.items[i].fused ? record(builder_get(g), &g->ops.items[i]) : NULL;

        if (p)
            *gen_push(g, list) = p;
    }
    for (int i = 1; i < list->count; i++) /* insertion: stable, and there are few */
        for (int k = i; k > 0 && larger_first(list->items[k - 1], list->items[k]) > 0;
             k--) {
            Pattern *p = list->items[k];

            list->items[k] = list->items[k - 1];
            list->items[k - 1] = p;
        }
}
