/* SPDX-License-Identifier: Apache-2.0 */
/* builder.c: the Lua side of the graph. In: calls on `g` and `b` by an architecture, an
 * op's backward or an expansion. Out: nodes, values and parameters of the class being
 * built (graph.c collects classes). Values are userdata with shape, dtype and name.
 * Anything that does not fit is a Lua error, which builder_protect turns into a message
 * at the line of the call. */
#include "graph/builder.h"
#include "base/sandbox.h"
#include "base/names.h"

#include <math.h>
#include <string.h>

static const char value_meta[] = "fsdpgen.value";
static const char builder_key[] = "fsdpgen.builder";

typedef struct LuaValue {
    Value *value;
    Class *owner;
} LuaValue;

/* ---- small helpers --------------------------------------------------------------- */

/* ---- values in Lua --------------------------------------------------------------- */

void builder_push_value(Builder *b, Value *v, Class *owner)
{
    lua_State *L = b->g->L;
    LuaValue *lv = lua_newuserdatauv(L, sizeof *lv, 0);

    *lv = (LuaValue){v, owner};
    luaL_setmetatable(L, value_meta);
}

Value *builder_to_value(lua_State *L, int index, Class **owner)
{
    LuaValue *lv = luaL_testudata(L, index, value_meta);

    if (lv && owner)
        *owner = lv->owner;
    return lv ? lv->value : NULL;
}

const char *builder_show(Gen *g, lua_State *L, int index)
{
    const Value *v = builder_to_value(L, index, NULL);

    if (v && v->n_dims > 0)
        return gen_printf(g, "a value of %s %s", dtype_name(v->dtype), shape_text(g, v));
    switch (lua_type(L, index)) {
    case LUA_TNONE:
    case LUA_TNIL:
        return "nil";
    case LUA_TSTRING:
        return gen_printf(g, "\"%.60s\"", lua_tostring(L, index));
    case LUA_TNUMBER:
        return lua_isinteger(L, index)
                   ? gen_printf(g, "%lld", (long long)lua_tointeger(L, index))
                   : gen_printf(g, "%g", lua_tonumber(L, index));
    case LUA_TBOOLEAN:
        return lua_toboolean(L, index) ? "true" : "false";
    case LUA_TUSERDATA:
        return v ? "a value" : "a builder";
    default:
        return gen_printf(g, "a %s", luaL_typename(L, index));
    }
}

static int value_index(lua_State *L)
{
    const LuaValue *lv = luaL_checkudata(L, 1, value_meta);
    const char *key = lua_tostring(L, 2);
    const Value *v = lv->value;

    if (key && !strcmp(key, "name")) {
        lua_pushstring(L, v->name);
    } else if (key && v->n_dims > 0 && !strcmp(key, "dtype")) {
        lua_pushstring(L, dtype_name(v->dtype));
    } else if (key && v->n_dims > 0 && !strcmp(key, "shape")) {
        lua_createtable(L, v->n_dims, 0);
        for (int i = 0; i < v->n_dims; i++) {
            lua_pushinteger(L, v->dim[i]);
            lua_rawseti(L, -2, i + 1);
        }
    } else if (v->n_dims == 0 && key &&
               (!strcmp(key, "shape") || !strcmp(key, "dtype"))) {
        return luaL_error(L, "values have no %s while an expansion is recorded", key);
    } else {
        return luaL_error(L, "a value has shape, dtype and name, but no %s",
                          key ? key : "such field");
    }
    return 1;
}

static int value_eq(lua_State *L)
{
    const Value *a = builder_to_value(L, 1, NULL), *b = builder_to_value(L, 2, NULL);

    lua_pushboolean(L, a && a == b);
    return 1;
}

static int value_tostring(lua_State *L)
{
    Builder *b = lua_touserdata(L, lua_upvalueindex(1));
    const Value *v = builder_to_value(L, 1, NULL);

    lua_pushstring(L,
                   v ? gen_printf(b->g, "%s %s", v->name, shape_text(b->g, v)) : "value");
    return 1;
}

Value *value_new(Gen *g, Class *c, ValueKind kind, const char *name)
{
    Value *v = gen_alloc(g, sizeof *v);

    v->id = c->values.count;
    v->kind = kind;
    v->name = name;
    v->index = -1;
    *gen_push(g, &c->values) = v;
    return v;
}

void value_shape(Value *v, Dtype dtype, const int64_t *dim, int n_dims)
{
    v->dtype = dtype;
    v->n_dims = n_dims;
    v->elems = 1;
    for (int i = 0; i < n_dims; i++) {
        v->dim[i] = dim[i];
        v->elems *= dim[i];
    }
    v->bytes = v->elems * dtype_bytes(dtype);
}

/* Names of the current class, hashed, so that naming stays cheap in blocks of thousands
 * of values. */
typedef struct NameSlot {
    const char *name;
    int next; /* the suffix to try next: name_2, name_3, ... */
} NameSlot;

struct NameSet {
    const Class *cls;
    NameSlot *slot;
    int count, cap;
};

/* The name's slot, or the empty one where it belongs. */
static NameSlot *name_slot(struct NameSet *s, const char *name)
{
    uint64_t at = hash_bytes(name, strlen(name));

    for (;; at++) {
        NameSlot *slot = &s->slot[at % (uint64_t)s->cap];

        if (!slot->name || !strcmp(slot->name, name))
            return slot;
    }
}

static void name_add(Gen *g, struct NameSet *s, const char *name)
{
    NameSlot *slot;

    if (2 * (s->count + 1) > s->cap) {
        struct NameSet old = *s;

        s->cap = old.cap ? 2 * old.cap : 128;
        s->slot = gen_alloc(g, sizeof *s->slot * (size_t)s->cap);
        for (int i = 0; i < old.cap; i++)
            if (old.slot[i].name)
                *name_slot(s, old.slot[i].name) = old.slot[i];
    }
    slot = name_slot(s, name);
    if (slot->name)
        return;
    *slot = (NameSlot){name, 2};
    s->count++;
}

static struct NameSet *names_of(Gen *g, const Class *c)
{
    Builder *b = builder_get(g);
    struct NameSet *s = b->names ? b->names : gen_alloc(g, sizeof *s);

    b->names = s;
    if (s->cls == c)
        return s;
    s->cls = c;
    s->count = 0;
    if (s->cap)
        memset(s->slot, 0, sizeof *s->slot * (size_t)s->cap);
    else
        name_add(g, s, "");
    for (int i = 0; i < c->values.count; i++)
        name_add(g, s, c->values.items[i]->name);
    return s;
}

static bool name_used(Gen *g, const Class *c, const char *name)
{
    return name_slot(names_of(g, c), name)->name != NULL;
}

const char *value_unique_name(Gen *g, const Class *c, const char *base)
{
    struct NameSet *s = names_of(g, c);
    const bool fits = strlen(base) <= IDENT_LETTERS;
    const char *start = fits ? base : gen_printf(g, "%.*s", IDENT_LETTERS, base);
    const char *name = start;

    while (name_slot(s, name)->name) {
        const char *end = gen_printf(g, "_%d", name_slot(s, start)->next++);

        name = gen_printf(g, "%.*s%s", IDENT_LETTERS - (int)strlen(end), start, end);
    }
    name_add(g, s, name);
    return name;
}

/* ---- calls of ops ---------------------------------------------------------------- */

int builder_given(const OpRule *op, Value *const *in, Value **given, uint32_t *omitted)
{
    uint32_t gaps = 0;
    int n = 0;

    *omitted = 0;
    for (int i = 0; i < op->n_in; i++) {
        if (in[i]) {
            given[n++] = in[i];
            *omitted = gaps;
        } else {
            gaps |= UINT32_C(1) << i; /* MAX_OPERANDS has fewer */
        }
    }
    return n;
}

Node *builder_node(Builder *b, const OpRule *op, Value **in, Attr *attrs, int n_attrs,
                   const char *name)
{
    Gen *g = b->g;
    Class *c = b->cls;
    Node *n = gen_alloc(g, sizeof *n);
    bool setup = !op->collective; /* a piece of a constant is each part's own */

    if (c->values.count > MAX_VALUES)
        luaL_error(g->L, "%s: more than %d values in one block; make it several",
                   op->name, MAX_VALUES);
    *n = (Node){.op = op,
                .phase = b->phase,
                .piece = b->piece,
                .n_out = op->n_out,
                .n_attrs = n_attrs};
    n->in = gen_alloc(g, sizeof *n->in * (size_t)(op->n_in + 1));
    n->out = gen_alloc(g, sizeof *n->out * (size_t)op->n_out);
    n->add = gen_alloc(g, sizeof *n->add * (size_t)op->n_out);
    n->attrs = gen_alloc(g, sizeof *n->attrs * (size_t)(n_attrs + 1));
    if (n_attrs)
        memcpy(n->attrs, attrs, sizeof *attrs * (size_t)n_attrs);
    n->n_in = builder_given(op, in, n->in, &n->omitted);
    for (int i = 0; i < n->n_in; i++)
        setup = setup && n->in[i]->def && n->in[i]->def->phase == PHASE_SETUP;
    if (setup)
        n->phase = PHASE_SETUP;
    n->name = value_unique_name(g, c, name ? name : op->name);
    for (int i = 0; i < op->n_out; i++) {
        const char *own =
            i == 0 ? n->name : gen_printf(g, "%s_%s", n->name, op->out[i].name);

        n->out[i] =
            value_new(g, c, VAL_NODE, i == 0 ? own : value_unique_name(g, c, own));
        n->out[i]->def = n;
        n->out[i]->def_out = i;
    }
    infer_node(g, n);
    n->id = c->nodes.count;
    *gen_push(g, &c->nodes) = n;
    return n;
}

static const char *ordinal(Gen *g, int n)
{
    return gen_printf(g, "%d%s", n, n == 1 ? "st" : n == 2 ? "nd" : n == 3 ? "rd" : "th");
}

/* "2 inputs (x, w)", "1 or 2 inputs (x, [starts])" */
static const char *inputs_text(Gen *g, const OpRule *op)
{
    Text t = {.g = g};
    int needed = 0;

    for (int i = 0; i < op->n_in; i++)
        needed += !op->in[i].optional;
    if (needed < op->n_in)
        text_printf(&t, "%d %s ", needed, needed + 1 < op->n_in ? "to" : "or");
    text_printf(&t, "%d input%s (", op->n_in, op->n_in == 1 ? "" : "s");
    for (int i = 0; i < op->n_in; i++)
        text_printf(&t, op->in[i].optional ? "%s[%s]" : "%s%s", i ? ", " : "",
                    op->in[i].name);
    text_printf(&t, ")");
    return t.s;
}

/* Reads the positional values of an op call's table. */
void builder_inputs(Builder *b, const OpRule *op, int index, Class *owner, Value **in)
{
    lua_State *L = b->g->L;

    memset(in, 0, sizeof *in * (size_t)op->n_in);
    for (int i = 0; i < op->n_in; i++) {
        Class *c = NULL;

        lua_rawgeti(L, index, i + 1);
        if (op->in[i].optional && lua_isnil(L, -1)) {
            lua_pop(L, 1);
            continue;
        }
        in[i] = builder_to_value(L, -1, &c);
        if (!in[i])
            luaL_error(L, "%s: it takes %s, but the %s is %s", op->name,
                       inputs_text(b->g, op), ordinal(b->g, i + 1),
                       builder_show(b->g, L, -1));
        if (c != owner)
            luaL_error(L,
                       "%s: %s is a value of another block; hand it on as the value that"
                       " block returns",
                       op->name, op->in[i].name);
        lua_pop(L, 1);
    }
    lua_rawgeti(L, index, op->n_in + 1);
    if (builder_to_value(L, -1, NULL) && !b->pattern)
        b->help = "a call gives all its outputs; in parentheses, only the first";
    if (!lua_isnil(L, -1))
        luaL_error(L, "%s: it takes %s, but there is one more: %s", op->name,
                   inputs_text(b->g, op), builder_show(b->g, L, -1));
    lua_pop(L, 1);
}

static const char *call_name(Builder *b, const OpRule *op, int index)
{
    lua_State *L = b->g->L;
    const char *name = NULL;

    lua_getfield(L, index, "name");
    if (!lua_isnil(L, -1)) {
        name =
            lua_type(L, -1) == LUA_TSTRING ? gen_strdup(b->g, lua_tostring(L, -1)) : NULL;
        if (!name || !ident_ok(name))
            luaL_error(L, "%s: name %s is not a C identifier", op->name,
                       builder_show(b->g, L, -1));
        if (name_used(b->g, b->cls, name))
            luaL_error(L, "%s: the block has a value named %s already", op->name, name);
    }
    lua_pop(L, 1);
    return name;
}

Pos builder_place(Builder *b)
{
    lua_State *L = b->g->L;
    lua_Debug ar;

    if (!lua_getstack(L, 1, &ar) || !lua_getinfo(L, "Sl", &ar) || *ar.source != '@')
        return (Pos){0};
    if (!b->source || strcmp(b->source, ar.source + 1) != 0)
        b->source = gen_strdup(b->g, ar.source + 1);
    return (Pos){.file = b->source, .line = ar.currentline};
}

static int op_call(lua_State *L)
{
    Builder *b = lua_touserdata(L, lua_upvalueindex(1));
    const OpRule *op = lua_touserdata(L, lua_upvalueindex(2));
    Value *in[MAX_OPERANDS];
    Attr attrs[MAX_OPERANDS];
    const char *name;
    Node *n;

    if (lua_type(L, 1) != LUA_TTABLE)
        return luaL_error(L, "%s: call it as g.%s{ ... }, with a dot and one table",
                          op->name, op->name);
    lua_settop(L, 1);
    if (b->pattern)
        return pattern_call(b, op);
    if (!b->cls)
        return luaL_error(L, "%s: ops can only be called inside a block", op->name);
    builder_inputs(b, op, 1, b->cls, in);
    builder_attrs(b, op, 1, attrs);
    name = call_name(b, op, 1);
    n = builder_node(b, op, in, attrs, op->info->n_attrs, name);
    if (b->phase == PHASE_FORWARD)
        n->pos = builder_place(b);
    luaL_checkstack(L, n->n_out, "outputs");
    for (int i = 0; i < n->n_out; i++)
        builder_push_value(b, n->out[i], b->cls);
    return n->n_out;
}

const char *const data_names[N_DATA] = {"tokens", "targets", "starts", "row", "part"};

/* ---- g --------------------------------------------------------------------------- */

static int g_data(lua_State *L)
{
    Builder *b = lua_touserdata(L, lua_upvalueindex(1));
    int which = (int)lua_tointeger(L, lua_upvalueindex(2));
    Class *c = b->cls;
    Value *v = NULL;

    if (!c || b->pattern || b->phase != PHASE_FORWARD)
        return luaL_error(L, "g:%s() can only be called inside a block",
                          data_names[which]);
    if (which == DATA_STARTS && !b->g->model.packed)
        return 0; /* nil: sequences are not packed */
    for (int i = 0; i < c->values.count; i++)
        if (c->values.items[i]->kind == VAL_DATA && c->values.items[i]->index == which)
            v = c->values.items[i];
    if (!v) {
        int64_t tokens = b->g->model.micro_batch * b->g->model.seq_tokens;

        v = value_new(b->g, c, VAL_DATA, value_unique_name(b->g, c, data_names[which]));
        v->index = which;
        value_shape(v, DT_I32, &tokens, 1);
    }
    builder_push_value(b, v, c);
    return 1;
}

/* Help for a name that resembles no op: lists what architectures are made of. */
static const char *all_ops(Gen *g)
{
    Words names = {0};

    for (int i = 0; i < g->ops.count; i++)
        if (g->ops.items[i].info->has_backward && !g->ops.items[i].fused)
            *gen_push(g, &names) = g->ops.items[i].name;
    return gen_printf(g, "the ops are %s; `--ops DIR` adds others", words_all(g, &names));
}

/* Upvalues: builder, table of closures already made. */
static int g_index(lua_State *L)
{
    Builder *b = lua_touserdata(L, lua_upvalueindex(1));
    const char *key = lua_tostring(L, 2), *near;
    const OpRule *op;

    if (!key)
        return luaL_error(L, "g has ops, param, cut, tokens, targets and starts, but "
                             "no such field");
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL)
        return 1;
    op = ops_find(b->g, key);
    if (!op) {
        near = ops_nearest(b->g, key);
        if (near)
            return luaL_error(L, "%s: there is no such op; did you mean %s?", key, near);
        b->help = all_ops(b->g);
        return luaL_error(L, "%s: there is no such op", key);
    }
    if (op->optimizer)
        return luaL_error(L, "%s: it is an optimizer, not an op of the graph", key);
    if (op->collective)
        return luaL_error(L, "%s: the pass split inserts it, where parts exchange values",
                          key);
    lua_pushlightuserdata(L, b);
    lua_pushlightuserdata(L, (void *)(uintptr_t)op);
    lua_pushcclosure(L, op_call, 2);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, -2);
    lua_rawset(L, lua_upvalueindex(2));
    return 1;
}

void builder_push_g(Builder *b)
{
    lua_rawgeti(b->g->L, LUA_REGISTRYINDEX, b->g_ref);
}

void builder_push_call(Builder *b, const Node *n, Class *c)
{
    builder_push_g(b);
    infer_push_n(b->g, n);
    for (int i = 0; i < n->n_in; i++) {
        builder_push_value(b, n->in[i], c);
        lua_setfield(b->g->L, -2, node_operand(n, i)->name);
    }
}

static int make_builder(lua_State *L)
{
    Builder *b = lua_touserdata(L, 1);

    luaL_newmetatable(L, value_meta);
    lua_pushcfunction(L, value_index);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, value_eq);
    lua_setfield(L, -2, "__eq");
    lua_pushlightuserdata(L, b);
    lua_pushcclosure(L, value_tostring, 1);
    lua_setfield(L, -2, "__tostring");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");

    lua_newuserdatauv(L, 1, 0); /* g */
    lua_createtable(L, 0, 2);
    lua_pushlightuserdata(L, b);
    lua_createtable(L, 0, 32);
    for (int i = 0; i < DATA_ROW; i++) {
        lua_pushlightuserdata(L, b);
        lua_pushinteger(L, i);
        lua_pushcclosure(L, g_data, 2);
        lua_setfield(L, -2, data_names[i]);
    }
    lua_pushlightuserdata(L, b);
    lua_pushcclosure(L, builder_param, 1);
    lua_setfield(L, -2, "param");
    lua_pushlightuserdata(L, b);
    lua_pushcclosure(L, builder_cut, 1);
    lua_setfield(L, -2, "cut");
    lua_pushcclosure(L, g_index, 2);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    b->g_ref = luaL_ref(L, LUA_REGISTRYINDEX);

    lua_newuserdatauv(L, 1, 0); /* b */
    lua_createtable(L, 0, 2);
    lua_createtable(L, 0, 1);
    lua_pushlightuserdata(L, b);
    lua_pushcclosure(L, builder_block, 1);
    lua_setfield(L, -2, "block");
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    b->b_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

Builder *builder_get(Gen *g)
{
    lua_State *L = g->L;
    Builder *b;

    lua_pushlightuserdata(L, (void *)(uintptr_t)builder_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    b = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (b)
        return b;
    b = gen_alloc(g, sizeof *b);
    b->g = g;
    lua_pushlightuserdata(L, (void *)(uintptr_t)builder_key);
    lua_pushlightuserdata(L, b);
    lua_rawset(L, LUA_REGISTRYINDEX);
    lua_pushcfunction(L, make_builder);
    lua_pushlightuserdata(L, b);
    if (lua_pcall(L, 1, 0, 0))
        sandbox_fault(L, "builder");
    return b;
}
