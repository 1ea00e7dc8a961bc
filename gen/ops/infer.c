/* SPDX-License-Identifier: Apache-2.0 */
/* infer.c: shapes, dtypes and costs of one node. In: a node with its op's rule, inputs
 * and attributes. Out: its outputs' shapes and dtypes, flops and workspace. Dims are
 * symbols that the inputs bind from left to right ("t 2*f" binds f to half the columns).
 * Anything that does not fit is a Lua error that names operand, shape and reason, so it
 * points into the architecture or op that made the call. */
#include "ops/ops.h"
#include "base/sandbox.h"

#include <math.h>
#include <string.h>

/* Larger than any tensor; sums and products of dims below it cannot overflow. */
#define MAX_ELEMS (INT64_C(1) << 46)
#define MAX_BYTES (INT64_C(1) << 60) /* so that sums of some cannot overflow */

/* ---- dims: "t (h+2*kv)*hd" ------------------------------------------------------- */

typedef struct Expr {
    const char *p, *end;
    const Syms *syms; /* NULL: check the grammar only */
    bool unbound, bad;
    int depth;
} Expr;

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t word_bytes(const char *p, const char *end)
{
    size_t n = 0;

    while (p + n < end && (letter(p[n]) || digit(p[n])))
        n++;
    return n;
}

static int sym_find(const Syms *s, const char *p, size_t n)
{
    for (int i = 0; s && i < s->n; i++)
        if (strlen(s->name[i]) == n && !memcmp(s->name[i], p, n))
            return i;
    return -1;
}

static int64_t expr_sum(Expr *e);

static int64_t expr_factor(Expr *e)
{
    int64_t v = 0;

    if (e->p < e->end && *e->p == '(' && e->depth < 8) {
        e->p++;
        e->depth++;
        v = expr_sum(e);
        e->depth--;
        if (e->p < e->end && *e->p == ')')
            e->p++;
        else
            e->bad = true;
    } else if (e->p < e->end && digit(*e->p)) {
        for (; e->p < e->end && digit(*e->p) && v < MAX_ELEMS; e->p++)
            v = v * 10 + (*e->p - '0');
    } else if (e->p < e->end && letter(*e->p)) {
        size_t n = word_bytes(e->p, e->end);
        int i = sym_find(e->syms, e->p, n);

        if (i < 0)
            e->unbound = true;
        else
            v = e->syms->value[i];
        e->p += n;
    } else {
        e->bad = true;
    }
    return v;
}

static int64_t expr_product(Expr *e)
{
    int64_t v = expr_factor(e);

    while (!e->bad && e->p < e->end && *e->p == '*') {
        int64_t w;

        e->p++;
        w = expr_factor(e);
        if (__builtin_mul_overflow(v, w, &v))
            e->bad = true;
    }
    return v;
}

static int64_t expr_sum(Expr *e)
{
    int64_t v = expr_product(e);

    while (!e->bad && e->p < e->end && (*e->p == '+' || *e->p == '-')) {
        bool minus = *e->p++ == '-';
        int64_t w = expr_product(e);

        if (minus ? __builtin_sub_overflow(v, w, &v) : __builtin_add_overflow(v, w, &v))
            e->bad = true;
    }
    return v;
}

bool dims_eval(const char *token, size_t bytes, const Syms *s, int64_t *value)
{
    Expr e = {.p = token, .end = token + bytes, .syms = s};

    *value = expr_sum(&e);
    return !e.bad && !e.unbound && e.p == e.end;
}

/* Takes the next dim of a text; false at its end. */
static bool next_token(const char **p, const char **token, size_t *bytes)
{
    while (**p == ' ')
        (*p)++;
    *token = *p;
    while (**p && **p != ' ')
        (*p)++;
    *bytes = (size_t)(*p - *token);
    return *bytes > 0;
}

const char *dims_problem(Gen *g, const char *dims)
{
    const char *token;
    size_t n;
    int count = 0;

    while (next_token(&dims, &token, &n)) {
        Expr e = {.p = token, .end = token + n};

        expr_sum(&e);
        if (e.bad || e.p != e.end)
            return gen_printf(g, "cannot read \"%.*s\"", (int)n, token);
        if (++count > MAX_DIMS)
            return gen_printf(g, "more than %d dims", MAX_DIMS);
    }
    return count ? NULL : "no dims";
}

int dims_symbols(Gen *g, const char *dims, const char **names, int n, int max)
{
    const char *end = dims + strlen(dims);

    for (const char *p = dims; p < end;) {
        size_t bytes = word_bytes(p, end);
        int i = 0;

        if (!bytes || digit(*p)) {
            p += bytes ? bytes : 1;
            continue;
        }
        while (i < n && (strlen(names[i]) != bytes || memcmp(names[i], p, bytes) != 0))
            i++;
        if (i == n && n < max)
            names[n++] = gen_strndup(g, p, bytes);
        p += bytes;
    }
    return n;
}

/* ---- one call -------------------------------------------------------------------- */

typedef struct Infer {
    Gen *g;
    lua_State *L;
    const Node *node;
    const OpRule *op;
    Syms syms;
    int n_index; /* stack index of n */
} Infer;

static void bind(Infer *in, const char *name, size_t bytes, int64_t value,
                 const char *from)
{
    Syms *s = &in->syms;

    if (s->n == MAX_SYMS)
        luaL_error(in->L, "%s: more than %d dims", in->op->name, MAX_SYMS);
    s->name[s->n] = gen_strndup(in->g, name, bytes);
    s->value[s->n] = value;
    s->from[s->n++] = from;
    lua_pushinteger(in->L, value);
    lua_setfield(in->L, in->n_index, s->name[s->n - 1]);
}

/* The origin of a dim's symbols: " (k from x)". */
static const char *bound_where(Infer *in, const char *token, size_t bytes)
{
    size_t n = word_bytes(token, token + bytes);
    int i = sym_find(&in->syms, token, n);

    if (n == bytes && i >= 0)
        return gen_printf(in->g, " (%.*s, from %s)", (int)n, token, in->syms.from[i]);
    return gen_printf(in->g, " (%.*s)", (int)bytes, token);
}

static void match_dim(Infer *in, const Operand *o, const Value *v, int d,
                      const char *token, size_t n)
{
    int64_t factor = 1, want;
    const char *name = token;
    size_t bytes = n;

    if (digit(*token)) { /* 2*f binds f */
        const char *star = memchr(token, '*', n);

        if (star && word_bytes(token, star) == (size_t)(star - token)) {
            dims_eval(token, (size_t)(star - token), NULL, &factor);
            name = star + 1;
            bytes = n - (size_t)(name - token);
        }
    }
    if (factor > 0 && letter(*name) && word_bytes(name, name + bytes) == bytes &&
        sym_find(&in->syms, name, bytes) < 0) {
        if (v->dim[d] % factor)
            luaL_error(in->L, "%s: %s is %s, but its dim %d must be %s times something",
                       in->op->name, o->name, shape_text(in->g, v), d + 1,
                       gen_printf(in->g, "%lld", (long long)factor));
        bind(in, name, bytes, v->dim[d] / factor, o->name);
        return;
    }
    if (!dims_eval(token, n, &in->syms, &want))
        luaL_error(in->L,
                   "%s: the rule's dims \"%s\" of %s use a name before anything binds it",
                   in->op->name, o->dims, o->name);
    if (want != v->dim[d])
        luaL_error(in->L, "%s: %s is %s, but its dim %d must be %s%s", in->op->name,
                   o->name, shape_text(in->g, v), d + 1,
                   gen_printf(in->g, "%lld", (long long)want), bound_where(in, token, n));
}

/* The shape that a rule's function returns; which: "inputs" or "outputs". */
static int dims_call(Infer *in, const char *which, int index, int64_t *dim)
{
    lua_State *L = in->L;
    const char *name =
        !strcmp(which, "inputs") ? in->op->in[index].name : in->op->out[index].name;
    int n;

    ops_push_function(L, in->op, which);
    if (!lua_istable(L, -1) || lua_rawgeti(L, -1, index + 1) != LUA_TTABLE ||
        lua_rawgeti(L, -1, 2) != LUA_TFUNCTION) /* checked when loaded */
        return luaL_error(L, "%s: the rule changed its own %s", in->op->name, which);
    lua_pushvalue(L, in->n_index);
    lua_call(L, 1, 1);
    if (!lua_istable(L, -1) || (n = (int)sandbox_length(L, -1)) < 1 || n > MAX_DIMS)
        return luaL_error(
            L,
            "%s: the rule's function for the dims of %s must return a list of 1"
            " to %d numbers",
            in->op->name, name, MAX_DIMS);
    for (int i = 0; i < n; i++) {
        int ok;

        lua_rawgeti(L, -1, i + 1);
        dim[i] = lua_tointegerx(L, -1, &ok);
        if (!ok)
            return luaL_error(L, "%s: dim %d of %s is not a whole number", in->op->name,
                              i + 1, name);
        lua_pop(L, 1);
    }
    lua_pop(L, 3);
    return n;
}

static void match_input(Infer *in, int i)
{
    const Operand *o = node_operand(in->node, i);
    const Value *v = in->node->in[i];
    int64_t dim[MAX_DIMS];
    const char *p = o->dims, *token;
    size_t n;
    int d = 0;

    infer_input_dtype(in->g, in->node, i);
    if (!strcmp(o->dims, "...")) {
        lua_createtable(in->L, v->n_dims, 0);
        for (; d < v->n_dims; d++) {
            lua_pushinteger(in->L, v->dim[d]);
            lua_rawseti(in->L, -2, d + 1);
        }
        lua_setfield(in->L, in->n_index, o->name);
        return;
    }
    if (!*o->dims) {
        int count = dims_call(in, "inputs", operand_index(in->node, i), dim);

        if (count != v->n_dims || memcmp(dim, v->dim, sizeof *dim * (size_t)count) != 0) {
            Value want = {.n_dims = count};

            memcpy(want.dim, dim, sizeof *dim * (size_t)count);
            luaL_error(in->L, "%s: %s is %s, but must be %s", in->op->name, o->name,
                       shape_text(in->g, v), shape_text(in->g, &want));
        }
        return;
    }
    while (next_token(&p, &token, &n)) {
        if (d < v->n_dims)
            match_dim(in, o, v, d, token, n);
        d++;
    }
    if (d != v->n_dims)
        luaL_error(in->L, "%s: %s is %s, but must have %d dims (%s)", in->op->name,
                   o->name, shape_text(in->g, v), d, o->dims);
}

/* Makes n and binds attributes and inputs; leaves n on the stack. */
static void infer_begin(Infer *in, Gen *g, const Node *node)
{
    *in = (Infer){.g = g, .L = g->L, .node = node, .op = node->op};
    luaL_checkstack(in->L, 20, "an op call");
    lua_createtable(in->L, 0, 16);
    in->n_index = lua_gettop(in->L);
    for (int i = 0; i < node->n_attrs; i++) {
        const Attr *a = &node->attrs[i];

        switch (a->type) {
        case ATTR_INT:
            bind(in, a->key, strlen(a->key), a->i, "the attribute");
            break;
        case ATTR_NUM:
            lua_pushnumber(in->L, a->num);
            lua_setfield(in->L, in->n_index, a->key);
            break;
        case ATTR_STR:
            lua_pushstring(in->L, a->s);
            lua_setfield(in->L, in->n_index, a->key);
            break;
        case ATTR_BOOL:
            lua_pushboolean(in->L, a->i != 0);
            lua_setfield(in->L, in->n_index, a->key);
            break;
        }
    }
    for (int i = 0; i < node->n_in; i++) {
        match_input(in, i);
        if (node_operand(node, i)->optional) { /* the rule's functions may test it */
            lua_pushboolean(in->L, 1);
            lua_setfield(in->L, in->n_index, node_operand(node, i)->name);
        }
    }
    for (int i = 0; i < in->op->n_out; i++)
        if (in->op->out[i].form) {
            lua_pushboolean(in->L, 1);
            lua_setfield(in->L, in->n_index, in->op->out[i].name);
        }
}

static void set_shape(Infer *in, Value *v, const char *name, const int64_t *dim, int n)
{
    v->n_dims = n;
    v->elems = 1;
    for (int i = 0; i < n; i++) {
        v->dim[i] = dim[i];
        if (dim[i] < 1)
            luaL_error(in->L, "%s: %s would be %s", in->op->name, name,
                       shape_text(in->g, v));
        if (__builtin_mul_overflow(v->elems, dim[i], &v->elems) || v->elems > MAX_ELEMS)
            luaL_error(in->L, "%s: %s would have more than 2^46 elements", in->op->name,
                       name);
    }
    v->bytes = v->elems * dtype_bytes(v->dtype);
}

static void infer_output(Infer *in, int i)
{
    const Operand *o = &in->op->out[i];
    Value *v = in->node->out[i];
    int64_t dim[MAX_DIMS] = {0};
    const char *p = o->dims, *token;
    size_t bytes;
    int n = 0;

    v->dtype = infer_output_dtype(in->g, in->node, o);
    if (v->dtype == DT_NONE)
        luaL_error(in->L, "%s: %s is the dtype of %s, but names none", in->op->name,
                   o->dtype, o->name);
    if (!*o->dims)
        n = dims_call(in, "outputs", i, dim);
    else
        while (next_token(&p, &token, &bytes))
            if (!dims_eval(token, bytes, &in->syms, &dim[n++]))
                luaL_error(in->L, "%s: cannot compute dim %d of %s (%s)", in->op->name, n,
                           o->name, o->dims);
    set_shape(in, v, o->name, dim, n);
    if (!o->alias)
        return;
    for (int k = 0; k < in->node->n_in; k++)
        if (!strcmp(node_operand(in->node, k)->name, o->alias) &&
            in->node->in[k]->bytes < v->bytes)
            luaL_error(in->L, "%s: %s is declared an alias of %s, which is smaller",
                       in->op->name, o->name, o->alias);
}

/* The number that one of the rule's functions of n returns. */
static double number_of(Infer *in, const char *key)
{
    return infer_number(in->L, in->op, in->n_index, key);
}

static bool rule_has(Infer *in, const OpRule *op, const char *key)
{
    bool has;

    ops_push_function(in->L, op, key);
    has = !lua_isnil(in->L, -1);
    lua_pop(in->L, 1);
    return has;
}

/* For functions that return bytes: n.elem_bytes of the first input, or of the one after
 * ids; n.acc_bytes of sums; n.grad_bytes of gradients. */
static void set_sizes(Infer *in, const Node *node)
{
    const int first = node->n_in > 1 && node->in[0]->dtype == DT_I32;

    lua_pushinteger(in->L, node->n_in > 0 ? dtype_bytes(node->in[first]->dtype) : 0);
    lua_setfield(in->L, in->n_index, "elem_bytes");
    lua_pushinteger(in->L, dtype_bytes(ops_acc_dtype(in->g)));
    lua_setfield(in->L, in->n_index, "acc_bytes");
    lua_pushinteger(in->L, dtype_bytes(in->g->model.reduce_dtype));
    lua_setfield(in->L, in->n_index, "grad_bytes");
}

static int64_t workspace_of(Infer *in, const Node *node, const KernelLibrary *library)
{
    const char *own = library ? library->workspace : in->g->model.target->workspace;
    const char *key = rule_has(in, node->op, own)                 ? own
                      : !library && node->op->info->has_workspace ? "workspace"
                                                                  : NULL;
    double bytes;

    if (!key)
        return 0;
    set_sizes(in, node);
    bytes = number_of(in, key);
    if (bytes > (double)MAX_ELEMS || bytes != floor(bytes))
        luaL_error(in->L, "%s: workspace(n) must return whole bytes", node->op->name);
    return (int64_t)bytes;
}

/* A Lua error if the rule's function says that something is wrong. */
static void check_call(Infer *in, const char *key)
{
    lua_State *L = in->L;

    ops_push_function(L, in->op, key);
    lua_pushvalue(L, in->n_index);
    lua_call(L, 1, 1);
    if (lua_toboolean(L, -1))
        luaL_error(L, "%s: %s", in->op->name,
                   lua_isstring(L, -1) ? lua_tostring(L, -1) : "check failed");
    lua_pop(L, 1);
}

/* What the target's own kernel cannot do. */
static void check_target(Infer *in)
{
    const char *key = in->g->model.target->check_op;

    if (!key || !rule_has(in, in->op, key))
        return;
    set_sizes(in, in->node);
    check_call(in, key);
}

void infer_node(Gen *g, Node *node)
{
    Infer in;
    lua_State *L = g->L;
    const OpInfo *info = node->op->info;
    int top = lua_gettop(L);
    bool both;

    infer_begin(&in, g, node);
    if (info->has_check)
        check_call(&in, "check");
    for (int i = 0; i < node->op->n_out; i++)
        infer_output(&in, i);
    node->flops = info->has_flops ? number_of(&in, "flops") : 0;
    infer_library(g, node);
    both = node->site && g->model.library_measured;
    if (!node->library || both)
        check_target(&in);
    node->workspace_bytes = workspace_of(&in, node, node->library);
    if (both)
        node->other_workspace_bytes = workspace_of(
            &in, node, node->library ? NULL : ops_kernel_library(g, node->op));
    lua_settop(L, top);
}

void infer_push_n(Gen *g, const Node *node)
{
    Infer in;

    infer_begin(&in, g, node);
}

int64_t infer_bytes(Gen *g, const Node *node, const char *key)
{
    double bytes;
    Infer in;

    infer_begin(&in, g, node);
    set_sizes(&in, node);
    bytes = number_of(&in, key);
    if (bytes > (double)MAX_BYTES)
        luaL_error(g->L, "%s: %s(n) returns more than 2^60 bytes", node->op->name, key);
    lua_pop(g->L, 1);
    return (int64_t)bytes;
}

int64_t infer_traffic(Gen *g, const Node *node)
{
    int64_t bytes = 0;

    if (node->op->info->has_bytes)
        return infer_bytes(g, node, "bytes");
    for (int i = 0; i < node->n_in; i++)
        bytes += node->in[i]->bytes;
    for (int i = 0; i < node->n_out; i++)
        bytes += node->out[i]->bytes;
    return bytes;
}
