/* SPDX-License-Identifier: Apache-2.0 */
/* interpret_ops: the mathematics of a span by its ops' references in Lua. Comes in: a
 * SpanCall with operands at their planned bytes. Goes out: outputs at theirs, rounded to
 * their dtypes. For tests: naive and slow, and sharing nothing with the kernels. */
#include "interpret.h"
#include "ops/ops.h"

#include <string.h>

static char *place_of(const SpanCall *c, const Value *v)
{
    switch (v->loc) {
    case LOC_PARAM:
        return (char *)c->weight[v->loc_index];
    case LOC_GRAD:
        return c->grad[v->loc_index];
    case LOC_IN:
        return c->in[v->loc_index];
    case LOC_OUT:
        return c->out[v->loc_index];
    case LOC_DIN:
        return c->d_in[v->loc_index];
    case LOC_DOUT:
        return c->d_out[v->loc_index];
    case LOC_DATA:
        return (char *)c->data[v->loc_index];
    case LOC_CONST:
        return (char *)c->constant[v->loc_index];
    case LOC_SAVED:
        return c->saved_at[v->loc_index];
    case LOC_SCRATCH:
        return c->scratch ? c->scratch + v->offset_bytes : NULL;
    case LOC_LOSS:
        return (char *)c->loss;
    case LOC_LOGITS:
        return c->logits;
    case LOC_NONE:
        return NULL;
    }
    gen_die("location %d", (int)v->loc);
}

/* n.round(name, v): upvalue 1 maps operand names to dtypes. */
static int lua_round(lua_State *L)
{
    char rounded[8];
    Dtype d;
    lua_pushvalue(L, 1);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNUMBER)
        return luaL_error(L, "round: no operand %s", lua_tostring(L, 1));
    d = (Dtype)lua_tointeger(L, -1);
    interp_store(d, rounded, 0, luaL_checknumber(L, 2));
    lua_pushnumber(L, interp_load(d, rounded, 0));
    return 1;
}

static void push_array(lua_State *L, const Value *v, const void *bytes)
{
    lua_createtable(L, v->elems < 1 << 24 ? (int)v->elems : 0, 0);
    for (int64_t i = 0; i < v->elems; i++) {
        if (v->dtype == DT_I32)
            lua_pushinteger(L, ((const int32_t *)bytes)[i]);
        else
            lua_pushnumber(L, bytes ? interp_load(v->dtype, bytes, i) : 0);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

typedef struct NodeRun {
    const SpanCall *call;
    const Node *node;
    char *const *out; /* where outputs go, instead of their places; NULL: there */
} NodeRun;

static int run_protected(lua_State *L)
{
    const NodeRun *run = lua_touserdata(L, 1);
    const Node *node = run->node;
    const SpanCall *c = run->call;
    int n;
    infer_push_n(c->g, node);
    n = lua_gettop(L);
    lua_newtable(L); /* dtypes for round */
    for (int k = 0; k < node->n_in; k++) {
        const char *bytes = place_of(c, node->in[k]);
        if (!bytes) {
            return luaL_error(L, "%s: input %s has no place", node->name,
                              node_operand(node, k)->name);
        }
        push_array(L, node->in[k], bytes);
        lua_setfield(L, n, node_operand(node, k)->name);
        lua_pushinteger(L, node->in[k]->dtype);
        lua_setfield(L, n + 1, node_operand(node, k)->name);
    }
    for (int k = 0; k < node->n_out; k++) {
        push_array(L, node->out[k], NULL);
        lua_setfield(L, n, node->op->out[k].name);
        lua_pushinteger(L, node->out[k]->dtype);
        lua_setfield(L, n + 1, node->op->out[k].name);
    }
    lua_pushcclosure(L, lua_round, 1);
    lua_setfield(L, n, "round");
    ops_push_reference(L, node->op);
    lua_pushvalue(L, n);
    lua_call(L, 1, 0);
    for (int k = 0; k < node->n_out; k++) {
        const Value *v = node->out[k];
        char *bytes = run->out ? run->out[k] : place_of(c, v);
        bool add = !run->out && v->loc == LOC_GRAD &&
                   ((node->add && node->add[k]) || c->grad_add[v->loc_index]);
        lua_getfield(L, n, node->op->out[k].name);
        for (int64_t i = 0; bytes && i < v->elems; i++) {
            double x;
            lua_rawgeti(L, -1, (lua_Integer)i + 1);
            x = lua_tonumber(L, -1);
            interp_store(v->dtype, bytes, i,
                         add ? interp_load(v->dtype, bytes, i) + x : x);
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
    return 0;
}

static const char *run_node(const SpanCall *c, const Node *node, char *const *out)
{
    lua_State *L = c->g->L;
    NodeRun run = {c, node, out};
    lua_pushcfunction(L, run_protected);
    lua_pushlightuserdata(L, &run);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
        const char *bad = gen_printf(c->g, "%s: %s", node->name, lua_tostring(L, -1));
        lua_pop(L, 1);
        return bad;
    }
    return NULL;
}

const char *interpret_span(void *ctx, const SpanCall *call)
{
    (void)ctx;
    for (int n = 0; n < call->span->n_nodes; n++) {
        const char *bad = run_node(call, call->span->nodes[n], NULL);
        if (bad)
            return bad;
    }
    return NULL;
}

const char *interpret_setup(Gen *g, char **out)
{
    SpanCall call = {.g = g, .span = &g->setup};
    for (int i = 0; i < g->consts.count; i++) {
        const Const *c = &g->consts.items[i];
        char **places = gen_alloc(g, sizeof *places * (size_t)c->node->n_out);
        const char *bad;
        out[i] = gen_alloc(g, (size_t)c->bytes);
        places[c->out] = out[i];
        bad = run_node(&call, c->node, places);
        if (bad)
            return bad;
    }
    return NULL;
}
