/* SPDX-License-Identifier: Apache-2.0 */
/* interpret_ops: the mathematics of a span by its ops' references in Lua. Comes in: a
 * SpanCall with operands at their planned bytes, or those of all parts that meet. Goes
 * out: outputs at theirs, rounded to their dtypes. In parts nodes run leg by leg. For
 * tests: naive and slow, and sharing nothing with the kernels. */
#include "interpret.h"
#include "ops/ops.h"

#include <string.h>

static char *place_of(const SpanCall *c, const Value *v)
{
    if (c->n_parts || c->has[0])
        c = c->has[value_differs(v)];
    switch (v->loc) {
    case LOC_PARAM:
        return (char *)c->weight[v->loc_index];
    case LOC_SCALE:
        return (char *)c->scale[v->loc_index];
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
        if (v->loc_index == DATA_PART)
            return (char *)&c
                ->part[value_differs(v) == 1u << PARTS_TENSOR ? PARTS_TENSOR
                                                              : PARTS_CONTEXT];
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

typedef struct Made { /* what a chain has made, not yet stored */
    const Value *value;
    char *bytes;
} Made;

typedef struct NodeRun {
    const SpanCall *call;
    const Node *node;
    char *const *out; /* where outputs go, instead of their places; NULL: there */
    const Made *made; /* inputs that lie elsewhere, too */
    int n_made;
} NodeRun;

static const char *input_of(const NodeRun *run, const Value *v)
{
    for (int i = 0; i < run->n_made; i++)
        if (run->made[i].value == v)
            return run->made[i].bytes;
    return place_of(run->call, v);
}

/* Does output k add into what is there? */
static bool adds(const NodeRun *run, int k)
{
    const Value *v = run->node->out[k];
    return !run->out && v->loc == LOC_GRAD &&
           ((run->node->add && run->node->add[k]) || run->call->grad_add[v->loc_index]);
}

/* The numbers of the list at the top of the stack. */
static void store_output(lua_State *L, const NodeRun *run, int k)
{
    const SpanCall *c = run->call;
    const Value *v = run->node->out[k];
    char *bytes = run->out ? run->out[k] : place_of(c, v);
    const bool add = adds(run, k);
    for (int64_t i = 0; bytes && i < v->elems; i++) {
        double x;
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        x = lua_tonumber(L, -1);
        interp_store(v->dtype, bytes, i, add ? interp_load(v->dtype, bytes, i) + x : x);
        lua_pop(L, 1);
    }
}

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
        const char *bytes = input_of(run, node->in[k]);
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
        lua_getfield(L, n, node->op->out[k].name);
        store_output(L, run, k);
        lua_pop(L, 1);
    }
    return 0;
}

static const char *run_function(Gen *g, lua_CFunction run, const Node *node, void *ctx)
{
    const char *bad = NULL;
    lua_pushcfunction(g->L, run);
    lua_pushlightuserdata(g->L, ctx);
    if (lua_pcall(g->L, 1, 0, 0) != LUA_OK) {
        bad = gen_printf(g, "%s: %s", node->name, lua_tostring(g->L, -1));
        lua_pop(g->L, 1);
    }
    return bad;
}

static void store_made(const NodeRun *run, int k, const Made *made, int n)
{
    const Value *v = run->node->out[k];
    char *to = place_of(run->call, v);
    for (int i = 0; i < n; i++)
        for (int64_t e = 0; made[i].value == v && e < v->elems; e++) {
            double x = interp_load(v->dtype, made[i].bytes, e);
            interp_store(v->dtype, to, e,
                         adds(run, k) ? interp_load(v->dtype, to, e) + x : x);
        }
}

/* Its nodes, one by one. It stores when all are done, since its kernel may work in place.
 */
static const char *run_chain(const SpanCall *c, const Node *chain)
{
    const NodeRun whole = {.call = c, .node = chain};
    Made *made;
    int n = 0;
    for (int i = 0; i < chain->n_replaced; i++)
        n += chain->replaced[i]->n_out;
    made = gen_alloc(c->g, sizeof *made * (size_t)n);
    n = 0;
    for (int i = 0; i < chain->n_replaced; i++) {
        const Node *node = chain->replaced[i];
        char **out = gen_alloc(c->g, sizeof *out * (size_t)node->n_out);
        NodeRun run = {c, node, out, made, n};
        const char *bad;
        for (int k = 0; k < node->n_out; k++)
            out[k] = gen_alloc(c->g, (size_t)node->out[k]->bytes);
        bad = run_function(c->g, run_protected, node, &run);
        if (bad)
            return bad;
        for (int k = 0; k < node->n_out; k++)
            made[n++] = (Made){node->out[k], out[k]};
    }
    for (int k = 0; k < chain->n_out; k++)
        store_made(&whole, k, made, n);
    return NULL;
}

static const char *run_node(const SpanCall *c, const Node *node, char *const *out)
{
    NodeRun run = {.call = c, .node = node, .out = out};
    if (node->op->info->map && node->n_replaced)
        return run_chain(c, node);
    return run_function(c->g, run_protected, node, &run);
}

/* ---- parts ----------------------------------------------------------------------- */

typedef struct MeetRun {
    const Node *node;
    const SpanCall *calls[64]; /* those that meet, by part along the axis */
    int n;
} MeetRun;

/* What the reference of a meet takes: lists of all parts' numbers; of what all parts have
 * one. Keeps the bytes in a list at the top of the stack. */
static void push_meet(lua_State *L, const MeetRun *r, int n)
{
    const Value *x = r->node->in[0];
    const int parts = (int)r->calls[0]->g->model.parts[r->node->along];
    lua_newtable(L);
    for (int d = 0; d < x->n_dims; d++) {
        lua_pushinteger(L, x->dim[d]);
        lua_rawseti(L, -2, d + 1);
    }
    lua_setfield(L, n, "shape");
    lua_newtable(L); /* n.y */
    for (int p = 0; p < parts; p++) {
        lua_newtable(L);
        lua_rawseti(L, -2, p + 1);
    }
    lua_setfield(L, n, "y");
    lua_newtable(L); /* n.x */
    lua_newtable(L);
    for (int p = 0; p < r->n; p++) {
        const char *bytes = place_of(r->calls[p], x);
        push_array(L, x, bytes);
        lua_rawseti(L, -3, p + 1);
        lua_pushlstring(L, bytes, (size_t)x->bytes);
        lua_rawseti(L, -2, p + 1);
    }
    lua_insert(L, -2);
    lua_setfield(L, n, "x");
}

static int meet_protected(lua_State *L)
{
    const MeetRun *r = lua_touserdata(L, 1);
    const Node *node = r->node;
    const int parts = (int)r->calls[0]->g->model.parts[node->along];
    int n;
    if (node_joins(node) && r->n != parts)
        return luaL_error(L, "%d of %d parts meet", r->n, parts);
    infer_push_n(r->calls[0]->g, node);
    n = lua_gettop(L);
    push_meet(L, r, n); /* n + 1: the bytes */
    ops_push_reference(L, node->op);
    lua_pushvalue(L, n);
    lua_call(L, 1, 0);
    lua_getfield(L, n, "y");
    for (int p = 0; p < r->n; p++) {
        const SpanCall *to = r->calls[p];
        const NodeRun run = {.call = to, .node = node};
        if (to->has[node_differs(node)] != to)
            continue;
        lua_rawgeti(L, -1, to->part[node->along] + 1);
        store_output(L, &run, 0);
        lua_pop(L, 1);
    }
    for (int p = 0; p < r->n; p++) { /* others may still read it */
        lua_rawgeti(L, n + 1, p + 1);
        if (memcmp(lua_tostring(L, -1), place_of(r->calls[p], node->in[0]),
                   (size_t)node->in[0]->bytes) != 0)
            return luaL_error(L, "it writes over what other parts read");
        lua_pop(L, 1);
    }
    return 0;
}

/* Does the rank's part hold a meet of its own, as parts differ along other axes? */
static bool is_lane(const SpanCall *c, const Node *node)
{
    const unsigned along = 1u << node->along;
    const unsigned all = (1u << N_PARTS_AXES) - 1;
    return c->has[(node_differs(node) & ~along) | along] == c &&
           (c->has[all & ~along] == c || !node_joins(node));
}

/* The calls that meet with this one: the same part along the other axis, on the ranks
 * that differ along this one only. */
static MeetRun meet_of(const SpanCall *c, const SpanCall *first, const Node *node)
{
    const RankBits ranks = parts_group(&c->g->model, node->along);
    MeetRun r = {.node = node};
    for (int part = 0; part < c->g->model.parts[node->along]; part++)
        for (int p = 0; p < c->n_parts; p++) {
            const SpanCall *q = &c->parts[p];
            bool same = q->part[node->along] == part &&
                        ((unsigned)(q->rank ^ first->rank) & ~ranks) == 0;
            for (int a = 0; a < N_PARTS_AXES; a++)
                same = same && (a == (int)node->along || q->part[a] == first->part[a]);
            if (same)
                r.calls[r.n++] = q;
        }
    return r;
}

/* All parts along the axis at once, for each part along the other; of what all have, each
 * part takes its piece alone. */
static const char *run_meet(const SpanCall *c, const Node *node)
{
    const RankBits ranks = parts_group(&c->g->model, node->along);
    const bool joins = node_joins(node);
    const char *bad = NULL;
    for (int p = 0; p < c->n_parts && !bad; p++) {
        const SpanCall *first = &c->parts[p];
        MeetRun r = {node, {first}, 1};
        if (!is_lane(first, node) || (joins && group_index(ranks, first->rank) != 0))
            continue;
        if (joins)
            r = meet_of(c, first, node);
        bad = run_function(c->g, meet_protected, node, &r);
    }
    return bad;
}

/* Nodes that run together for one part after the other; the ranks' order is free. */
static const char *run_leg(const SpanCall *c, Node *const *nodes, int n)
{
    const char *bad = NULL;
    for (int p = 0; p < c->n_parts; p++)
        for (int i = 0; i < n && !bad; i++)
            if (c->parts[p].has[node_differs(nodes[i])] == &c->parts[p])
                bad = run_node(&c->parts[p], nodes[i], NULL);
    return bad;
}

static const char *run_legs(const SpanCall *c)
{
    const Span *s = c->span;
    const char *bad = NULL;
    for (int i = 0, n; i < s->n_nodes && !bad; i += n) {
        n = 1;
        while (i + n < s->n_nodes && s->nodes[i + n]->leg == s->nodes[i]->leg)
            n++;
        bad = s->nodes[i]->op->collective ? run_meet(c, s->nodes[i])
                                          : run_leg(c, s->nodes + i, n);
    }
    return bad;
}

const char *interpret_span(void *ctx, const SpanCall *call)
{
    (void)ctx;
    if (call->n_parts)
        return run_legs(call);
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
