/* SPDX-License-Identifier: Apache-2.0 */
/* builder_block.c: blocks, their pieces and parameters as an architecture declares them.
 * In: b:block(name, class, prefix, function, value), g:cut "name" and g:param{...}. Out:
 * the class being built with its boundary values, pieces and parameter declarations,
 * passed to graph.c. Names end up in C, in names of Hugging Face tensors and in JSON, so
 * they are checked here, once. */
#include "graph/builder.h"
#include "base/names.h"
#include "base/sandbox.h"

#include <math.h>
#include <string.h>

#define MAX_PARAM_ELEMS (INT64_C(1) << 46)

enum {
    MAX_PIECES = 32,
};

/* ---- names ----------------------------------------------------------------------- */

static bool chars_ok(const char *s, bool upper, bool dots)
{
    for (; *s; s++)
        if (!((*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') || *s == '_' ||
              (dots && *s == '.') || (upper && *s >= 'A' && *s <= 'Z')))
            return false;
    return true;
}

static bool block_name_ok(const char *s)
{
    size_t n = strlen(s);

    return n > 0 && n < 64 && *s >= 'a' && *s <= 'z' && chars_ok(s, false, true) &&
           s[n - 1] != '.' && !strstr(s, "..");
}

static bool param_name_ok(const char *s)
{
    size_t n = strlen(s);

    return n > 0 && n < 128 && chars_ok(s, true, true) && *s != '.' && s[n - 1] != '.' &&
           !strstr(s, "..");
}

/* ---- g:param{...} ---------------------------------------------------------------- */

void builder_check_fields(Builder *b, int index, const char *what, int n_items,
                          const char *const *keys, int n_keys)
{
    lua_State *L = b->g->L;
    const char *worst = NULL, *near;
    Text t = {.g = b->g};

    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        bool known = lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 &&
                     lua_tointeger(L, -2) <= n_items;
        const char *key = lua_type(L, -2) == LUA_TSTRING
                              ? gen_strdup(b->g, lua_tostring(L, -2))
                              : builder_show(b->g, L, -2);

        for (int i = 0; i < n_keys; i++)
            known = known || !strcmp(key, keys[i]);
        if (!known && (!worst || strcmp(key, worst) < 0))
            worst = key;
    }
    if (!worst)
        return;
    near = diag_nearest(worst, keys, n_keys);
    if (near)
        luaL_error(L, "%s: unknown field %s; did you mean %s?", what, worst, near);
    for (int i = 0; i < n_keys; i++)
        text_printf(&t, "%s%s", i ? ", " : "", keys[i]);
    luaL_error(L, "%s: unknown field %s; it has %s", what, worst, t.s);
}

/* Reads the dims on top of the stack (popped). */
static void read_dims(Builder *b, ClassParam *p)
{
    lua_State *L = b->g->L;
    int n = lua_istable(L, -1) ? (int)sandbox_length(L, -1) : 0;

    if (n < 1 || n > MAX_DIMS)
        luaL_error(L, "param: %s needs a list of 1 to %d dims, not %s", p->name, MAX_DIMS,
                   builder_show(b->g, L, -1));
    p->n_dims = n;
    p->elems = 1;
    for (int i = 0; i < n; i++) {
        int ok;

        lua_rawgeti(L, -1, i + 1);
        p->dim[i] = lua_tointegerx(L, -1, &ok);
        if (!ok || p->dim[i] < 1)
            luaL_error(L, "param: dim %d of %s is %s, not a positive whole number", i + 1,
                       p->name, builder_show(b->g, L, -1));
        if (__builtin_mul_overflow(p->elems, p->dim[i], &p->elems) ||
            p->elems > MAX_PARAM_ELEMS)
            luaL_error(L, "param: %s has more than 2^46 elements", p->name);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static void read_init(Builder *b, ClassParam *p, int index)
{
    static const char *const inits[] = {"normal", "zeros", "ones"};
    lua_State *L = b->g->L;
    int type;

    type = lua_getfield(L, index, "init");
    p->init = "normal";
    if (type != LUA_TNIL) {
        const char *s = type == LUA_TSTRING ? lua_tostring(L, -1) : "";

        p->init = NULL;
        for (int i = 0; i < 3; i++)
            if (!strcmp(s, inits[i]))
                p->init = inits[i];
        if (!p->init)
            luaL_error(L, "param: init of %s is %s, not normal, zeros or ones", p->name,
                       builder_show(b->g, L, -1));
    }
    lua_pop(L, 1);
    type = lua_getfield(L, index, "std");
    if (type != LUA_TNIL && type != LUA_TNUMBER)
        luaL_error(L, "param: std of %s is %s, not a number", p->name,
                   builder_show(b->g, L, -1));
    p->init_std = type == LUA_TNIL ? 0.02 : lua_tonumber(L, -1);
    if (!isfinite(p->init_std) || p->init_std < 0)
        luaL_error(L, "param: std of %s must be finite and not negative", p->name);
    if (strcmp(p->init, "normal") != 0)
        p->init_std = 0;
    lua_pop(L, 1);
    type = lua_getfield(L, index, "decay");
    if (type != LUA_TNIL && type != LUA_TBOOLEAN)
        luaL_error(L, "param: decay of %s is %s, not true or false", p->name,
                   builder_show(b->g, L, -1));
    p->decay = type == LUA_TNIL ? p->n_dims >= 2 : lua_toboolean(L, -1);
    lua_pop(L, 1);
}

static void read_parts(Builder *b, ClassParam *p, int index)
{
    lua_State *L = b->g->L;
    int64_t rows = 0;
    int type = lua_getfield(L, index, "parts");

    if (type == LUA_TNIL) {
        lua_pop(L, 1);
        return;
    }
    if (type != LUA_TTABLE || sandbox_length(L, -1) < 1 || sandbox_length(L, -1) > 64)
        luaL_error(L, "param: parts of %s must be a list of { name, rows }", p->name);
    p->n_parts = (int)sandbox_length(L, -1);
    p->part_name = gen_alloc(b->g, sizeof *p->part_name * (size_t)p->n_parts);
    p->part_rows = gen_alloc(b->g, sizeof *p->part_rows * (size_t)p->n_parts);
    for (int i = 0; i < p->n_parts; i++) {
        const char *name = NULL;
        int ok = 0;

        lua_rawgeti(L, -1, i + 1);
        if (lua_istable(L, -1)) {
            if (lua_rawgeti(L, -1, 1) == LUA_TSTRING)
                name = gen_strdup(b->g, lua_tostring(L, -1));
            lua_rawgeti(L, -2, 2);
            p->part_rows[i] = lua_tointegerx(L, -1, &ok);
            lua_pop(L, 2);
        }
        if (!name || !param_name_ok(name) || !ok || p->part_rows[i] < 1 ||
            p->part_rows[i] > p->dim[0])
            luaL_error(L, "param: part %d of %s must be { name, rows }", i + 1, p->name);
        p->part_name[i] = name;
        rows += p->part_rows[i];
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    if (rows != p->dim[0])
        luaL_error(L, "param: the parts of %s have %I rows, but its dim 1 is %I", p->name,
                   (LUAI_UACINT)rows, (LUAI_UACINT)p->dim[0]);
}

bool param_equal(const ClassParam *a, const ClassParam *b)
{
    if (strcmp(a->name, b->name) != 0 || a->n_dims != b->n_dims ||
        memcmp(a->dim, b->dim, sizeof a->dim) != 0 || strcmp(a->init, b->init) != 0 ||
        memcmp(&a->init_std, &b->init_std, sizeof a->init_std) != 0 ||
        a->decay != b->decay || a->n_parts != b->n_parts || a->dtype != b->dtype ||
        a->tied_global != b->tied_global ||
        !part_equal(&a->mark[PARTS_TENSOR], &b->mark[PARTS_TENSOR]) ||
        a->mark_unit != b->mark_unit || a->mark_pads != b->mark_pads)
        return false;
    for (int i = 0; i < a->n_parts; i++)
        if (strcmp(a->part_name[i], b->part_name[i]) != 0 ||
            a->part_rows[i] != b->part_rows[i])
            return false;
    return true;
}

/* The value of the class's parameter p: the existing one, or a new one. */
static Value *param_value(Builder *b, const ClassParam *p)
{
    lua_State *L = b->g->L;
    Class *c = b->cls;
    Value *v;

    for (int i = 0; i < c->params.count; i++) {
        ClassParam *o = &c->params.items[i];

        if (strcmp(o->ident, p->ident) != 0)
            continue;
        if (!param_equal(o, p))
            luaL_error(L, "param: the block declares %s already, differently", o->name);
        for (int k = 0; k < c->values.count; k++)
            if (c->values.items[k]->kind == VAL_PARAM && c->values.items[k]->index == i)
                return c->values.items[k];
    }
    v = value_new(b->g, c, VAL_PARAM, value_unique_name(b->g, c, p->ident));
    v->index = c->params.count;
    value_shape(v, p->dtype, p->dim, p->n_dims);
    *gen_push(b->g, &c->params) = *p;
    return v;
}

int builder_param(lua_State *L)
{
    Builder *b = lua_touserdata(L, lua_upvalueindex(1));
    static const char *const keys[] = {"global", "init", "std", "decay", "parts", "cut"};
    ClassParam p = {.dtype = b->g->model.param_dtype};
    bool local;

    p.gathered = p.dtype;
    if (lua_type(L, 2) != LUA_TTABLE)
        return luaL_error(
            L, "param: call it as g:param{ \"name\", {dims}, ... }, with a colon");
    if (!b->cls || b->pattern || b->phase != PHASE_FORWARD)
        return luaL_error(L, "param: parameters can only be declared inside a block");
    lua_settop(L, 2);
    builder_check_fields(b, 2, "param", 2, keys, 6);
    local = lua_rawgeti(L, 2, 1) == LUA_TSTRING;
    if (!local)
        lua_getfield(L, 2, "global");
    if (lua_type(L, -1) != LUA_TSTRING || !param_name_ok(lua_tostring(L, -1)))
        return luaL_error(L, "param: the name is %s, not letters, digits, '_' and '.'",
                          builder_show(b->g, L, -1));
    p.name = gen_strdup(b->g, lua_tostring(L, -1));
    p.tied_global = !local;
    p.ident = name_ident(b->g, p.name);
    if (!ident_ok(p.ident))
        return luaL_error(L, "param: %s makes no C identifier of at most 63 letters",
                          p.name);
    lua_settop(L, 2);
    lua_rawgeti(L, 2, local ? 2 : 1);
    read_dims(b, &p);
    read_init(b, &p, 2);
    read_parts(b, &p, 2);
    builder_mark(b, &p, 2);
    builder_push_value(b, param_value(b, &p), b->cls);
    return 1;
}

/* ---- g:cut "name" ---------------------------------------------------------------- */

static bool hint_ok(const char *s)
{
    return ident_ok(s) && chars_ok(s, false, false) && *s != '_' && strlen(s) < 40;
}

/* Does the current piece have nodes that run in the step? */
static bool piece_has_nodes(const Builder *b)
{
    for (int i = b->cls->nodes.count - 1; i >= 0; i--) {
        const Node *n = b->cls->nodes.items[i];

        if (n->piece == b->piece && n->phase != PHASE_SETUP)
            return true;
    }
    return false;
}

int builder_cut(lua_State *L)
{
    Builder *b = lua_touserdata(L, lua_upvalueindex(1));
    Class *c = b->cls;
    const char *name;
    Piece *piece;

    if (lua_type(L, 2) != LUA_TSTRING)
        return luaL_error(L, "cut: call it as g:cut \"name\", with a colon");
    if (!c || b->pattern || b->phase != PHASE_FORWARD)
        return luaL_error(L, "cut: a block can only be cut while it is built");
    name = gen_strdup(b->g, lua_tostring(L, 2));
    if (strlen(name) != lua_rawlen(L, 2) || !hint_ok(name))
        return luaL_error(L, "cut: the name is %s, not [a-z][a-z0-9_]*, no word of C",
                          builder_show(b->g, L, 2));
    for (int i = 0; i < c->pieces.count; i++)
        if (!strcmp(c->pieces.items[i].name, name))
            return luaL_error(L, "cut: the block has a piece %s already", name);
    if (!piece_has_nodes(b) && c->pieces.count)
        return luaL_error(L, "cut: there is no op between %s and %s",
                          c->pieces.items[b->piece].name, name);
    if (piece_has_nodes(b) && !c->pieces.count) {
        b->help = "begin the block with a cut, so that its first piece has a name too";
        return luaL_error(L, "cut: ops come before the first cut, %s", name);
    }
    if (c->pieces.count == MAX_PIECES)
        return luaL_error(L, "cut: more than %d pieces in one block", MAX_PIECES);
    b->piece = c->pieces.count;
    piece = gen_push(b->g, &c->pieces);
    *piece = (Piece){.name = name, .pos = builder_place(b)};
    return 0;
}

/* Completes the last piece; a block without cuts is one piece without a name. */
static void end_pieces(Builder *b)
{
    Class *c = b->cls;

    if (!c->pieces.count)
        gen_push(b->g, &c->pieces);
    else if (!piece_has_nodes(b))
        luaL_error(b->g->L, "cut: there is no op after %s",
                   c->pieces.items[b->piece].name);
}

/* ---- b:block(...) ---------------------------------------------------------------- */

/* The input of a block: none for the first, else what the previous block returned. */
static void take_input(Builder *b, int index)
{
    lua_State *L = b->g->L;
    Class *c = b->cls, *owner = NULL;
    const Value *flow = builder_to_value(L, index, &owner);
    Value *v;

    if (lua_gettop(L) > index)
        luaL_error(L, "block: a block takes one value");
    if (!b->flow) {
        if (!lua_isnoneornil(L, index))
            luaL_error(L, "block: the first block takes no value");
        return;
    }
    if (!flow || flow != b->flow || owner != b->flow_class)
        luaL_error(
            L, "block: it must take the value that the block before it returned, not %s",
            flow ? "another" : builder_show(b->g, L, index));
    v = value_new(b->g, c, VAL_INPUT, value_unique_name(b->g, c, "block_in"));
    v->index = 0;
    value_shape(v, flow->dtype, flow->dim, flow->n_dims);
    c->n_inputs = 1;
    c->inputs = gen_alloc(b->g, sizeof *c->inputs);
    c->inputs[0] = v;
}

/* Takes what the function returned, from stack index first on. */
static void take_output(Builder *b, int first)
{
    lua_State *L = b->g->L;
    Class *c = b->cls, *owner = NULL;
    int n = lua_gettop(L) - first + 1;
    Value *v = n > 0 ? builder_to_value(L, first, &owner) : NULL;
    const char *shown = v ? "a value of another block" : "nothing";

    if (!v && n > 0)
        shown = builder_show(b->g, L, first);
    if (!v || owner != c)
        luaL_error(L,
                   "block: its function must return the value for the next block, or the"
                   " loss, not %s",
                   shown);
    if (v->kind != VAL_NODE || v->def->phase == PHASE_SETUP)
        luaL_error(L, "block: it returns %s, which it does not compute", v->name);
    for (int i = 1; i < n; i++) {
        const Value *o = builder_to_value(L, first + i, NULL);

        if (!o || o->def != v->def)
            luaL_error(L, "block: it must return one value, not %d", n);
    }
    if (!strcmp(v->def->op->out[v->def_out].dtype, "f64") && v->elems == 1) {
        c->loss = v;
        b->ended = true;
        return;
    }
    c->n_outputs = 1;
    c->outputs = gen_alloc(b->g, sizeof *c->outputs);
    c->outputs[0] = v;
}

static const char *text_arg(Builder *b, int index, const char *what,
                            bool (*ok)(const char *), const char *rule)
{
    lua_State *L = b->g->L;

    if (lua_type(L, index) != LUA_TSTRING ||
        strlen(lua_tostring(L, index)) != lua_rawlen(L, index) ||
        !ok(lua_tostring(L, index)))
        luaL_error(L, "block: %s is %s, but must be %s", what,
                   builder_show(b->g, L, index), rule);
    return gen_strdup(b->g, lua_tostring(L, index));
}

static bool prefix_ok(const char *s)
{
    return *s == '\0' ||
           (chars_ok(s, true, true) && *s != '.' && strlen(s) < 128 && !strstr(s, ".."));
}

int builder_block(lua_State *L)
{
    Builder *b = lua_touserdata(L, lua_upvalueindex(1));
    Gen *g = b->g;
    const char *name, *ident;

    if (lua_type(L, 1) != LUA_TUSERDATA)
        return luaL_error(
            L, "block: call it as b:block(name, class, prefix, function, value)");
    if (b->cls)
        return luaL_error(L, "block: blocks do not nest");
    if (b->ended)
        return luaL_error(
            L, "block: a block before it returned the loss, which ends the model");
    b->block = NULL;
    name = text_arg(b, 2, "its name", block_name_ok, "[a-z][a-z0-9_.]*");
    if (g->blocks.count == MAX_BLOCKS)
        return luaL_error(L, "block: more than %d blocks", MAX_BLOCKS);
    ident = name_ident(g, name);
    for (int i = 0; i < g->blocks.count; i++)
        if (!strcmp(g->blocks.items[i].ident, ident))
            return luaL_error(L, "block: there is a block %s already",
                              g->blocks.items[i].name);
    b->hint = text_arg(b, 3, "its class", hint_ok, "[a-z][a-z0-9_]*, no word of C");
    b->prefix = text_arg(b, 4, "its prefix", prefix_ok, "letters, digits, '_' and '.'");
    if (lua_type(L, 5) != LUA_TFUNCTION)
        return luaL_error(
            L, "block: after the prefix comes the function that builds it, not %s",
            builder_show(g, L, 5));
    b->block = name;
    b->phase = PHASE_FORWARD;
    b->piece = 0;
    b->cls = gen_alloc(g, sizeof *b->cls);
    take_input(b, 6);
    lua_settop(L, 5);
    lua_pushvalue(L, 5);
    builder_push_g(b);
    if (b->cls->n_inputs)
        builder_push_value(b, b->cls->inputs[0], b->cls);
    lua_call(L, 1 + b->cls->n_inputs, LUA_MULTRET);
    take_output(b, 6);
    end_pieces(b);
    lua_settop(L, 5);
    b->flow = b->cls->n_outputs ? b->cls->outputs[0] : NULL;
    b->flow_class = b->cls;
    graph_add_block(b, name, b->prefix);
    b->cls = NULL;
    b->block = NULL;
    if (!b->flow)
        return 0;
    builder_push_value(b, b->flow, b->flow_class);
    return 1;
}
