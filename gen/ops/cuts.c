/* SPDX-License-Identifier: Apache-2.0 */
/* cuts.c: how a call of an op is computed in parts. In: `cuts` of op.lua, as
 * gen/lua/op_cuts.lua has checked it, and a node. Out: where each operand is cut. Which
 * cut a node takes is decided by graph/split.c; tests/ops/op_test_cuts.lua compares parts
 * with the whole. */
#include "base/sandbox.h"
#include "ops/ops.h"

#include <string.h>

/* ---- from Lua -------------------------------------------------------------------- */

/* Field `key` of the table on top of the stack: a list of texts, or of numbers as texts.
 */
static const char **read_texts(Gen *g, const char *key, int *count)
{
    lua_State *L = g->L;
    const char **list;

    lua_getfield(L, -1, key);
    *count = (int)sandbox_length(L, -1);
    list = gen_alloc(g, sizeof *list * (size_t)(*count + 1));
    for (int i = 0; i < *count; i++) {
        lua_rawgeti(L, -1, i + 1);
        list[i] = gen_strdup(g, lua_tostring(L, -1));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return list;
}

static int64_t read_number(lua_State *L, const char *key)
{
    int64_t v;

    lua_getfield(L, -1, key);
    v = lua_isboolean(L, -1) ? lua_toboolean(L, -1) : lua_tointeger(L, -1);
    lua_pop(L, 1);
    return v;
}

static const char *read_text(Gen *g, const char *key)
{
    const char *s;

    lua_getfield(g->L, -1, key);
    s = lua_isnil(g->L, -1) ? NULL : gen_strdup(g, lua_tostring(g->L, -1));
    lua_pop(g->L, 1);
    return s;
}

static void read_cut(Gen *g, Cut *cut)
{
    lua_State *L = g->L;

    cut->axis = read_text(g, "axis");
    cut->free = read_number(L, "free");
    cut->context = read_number(L, "context");
    cut->ordered = read_number(L, "ordered");
    cut->pads = read_number(L, "pads");
    cut->when = read_number(L, "when");
    cut->attrs = read_texts(g, "attrs", &cut->n_attrs);
    cut->repeats = read_text(g, "repeats");
    lua_getfield(L, -1, "operands");
    cut->n_operands = (int)sandbox_length(L, -1);
    cut->operands = gen_alloc(g, sizeof *cut->operands * (size_t)(cut->n_operands + 1));
    for (int i = 0; i < cut->n_operands; i++) {
        CutOperand *o = &cut->operands[i];

        lua_rawgeti(L, -1, i + 1);
        o->name = read_text(g, "name");
        o->kind = read_number(L, "sum")       ? PART_PARTIAL
                  : read_number(L, "largest") ? PART_LARGEST
                                              : PART_CUT;
        o->dim = (int)read_number(L, "dim") - 1;
        o->times = read_number(L, "times");
        o->weight = read_texts(g, "weights", &o->n_weights);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

void cuts_read(Gen *g, OpInfo *info)
{
    lua_State *L = g->L;

    lua_getfield(L, -1, "cuts");
    info->n_cuts = (int)sandbox_length(L, -1);
    info->cuts = gen_alloc(g, sizeof *info->cuts * (size_t)(info->n_cuts + 1));
    for (int i = 0; i < info->n_cuts; i++) {
        lua_rawgeti(L, -1, i + 1);
        read_cut(g, &info->cuts[i]);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    if (lua_getfield(L, -1, "in_parts") == LUA_TTABLE) {
        info->parts_by = read_text(g, "operand");
        info->parts_dim = (int)read_number(L, "dim") - 1;
    }
    lua_pop(L, 1);
}

/* ---- of a node ------------------------------------------------------------------- */

const CutOperand *cuts_operand(const Cut *cut, const char *name)
{
    for (int i = 0; i < cut->n_operands; i++)
        if (!strcmp(cut->operands[i].name, name))
            return &cut->operands[i];
    return NULL;
}

/* May this call be cut so, by the rule? n is on top of the stack. */
static bool allowed(Gen *g, const Node *node, const Cut *cut)
{
    lua_State *L = g->L;
    int top = lua_gettop(L);
    bool yes;

    if (!cut->when)
        return true;
    ops_push_function(L, node->op, "cuts");
    if (lua_getfield(L, -1, cut->axis) != LUA_TTABLE ||
        lua_getfield(L, -1, "when") != LUA_TFUNCTION)
        luaL_error(L, "%s: the rule changed its own cuts", node->op->name);
    lua_pushvalue(L, top);
    lua_call(L, 1, 1);
    yes = lua_toboolean(L, -1);
    lua_settop(L, top);
    return yes;
}

/* The operand's sections by their weights, which n on top of the stack has. */
static Sections weighted(Gen *g, const Node *node, const CutOperand *o, int64_t elems)
{
    lua_State *L = g->L;
    Sections s = {.n = o->n_weights};
    int64_t sum = 0;

    s.elems = gen_alloc(g, sizeof *s.elems * (size_t)s.n);
    for (int i = 0; i < s.n; i++) {
        lua_getfield(L, -1, o->weight[i]);
        s.elems[i] = lua_tointeger(L, -1);
        if (s.elems[i] < 1 || s.elems[i] > elems)
            luaL_error(L, "%s: a section of %s is %s = %I, not 1 to %I", node->op->name,
                       o->name, o->weight[i], (LUAI_UACINT)s.elems[i],
                       (LUAI_UACINT)elems);
        sum += s.elems[i];
        lua_pop(L, 1);
    }
    if (elems % sum)
        luaL_error(L, "%s: the sections of %s do not divide its %I elements",
                   node->op->name, o->name, (LUAI_UACINT)elems);
    for (int i = 0; i < s.n; i++)
        s.elems[i] *= elems / sum;
    return s;
}

/* A free axis has these sections; an operand of dims "2*f" has them twice. */
static Sections repeated(Gen *g, const CutOperand *o, int64_t elems, const Sections *base)
{
    const Sections one = {1, (int64_t[]){elems / o->times}, 0};
    const Sections *of = base ? base : &one;
    Sections s = {.n = of->n * (int)o->times, .pad = of->pad};

    s.elems = gen_alloc(g, sizeof *s.elems * (size_t)s.n);
    for (int i = 0; i < s.n; i++)
        s.elems[i] = of->elems[i % of->n];
    return s;
}

static PartState part_of(Gen *g, const Node *node, const Cut *cut, const char *name,
                         const Value *v, const Sections *base)
{
    const CutOperand *o = cuts_operand(cut, name);
    PartState part = {0};

    if (!o)
        return part;
    if (o->kind != PART_CUT)
        return (PartState){.kind = o->kind};
    if (o->dim >= v->n_dims)
        luaL_error(g->L, "%s: cut %s divides dim %d of %s, which is %s", node->op->name,
                   cut->axis, o->dim + 1, name, shape_text(g, v));
    part = (PartState){.kind = PART_CUT, .dim = o->dim};
    part.sections = o->n_weights
                        ? weighted(g, node, o, v->dim[o->dim])
                        : repeated(g, o, v->dim[o->dim], cut->free ? base : NULL);
    return part;
}

PartState *cuts_parts(Gen *g, const Node *node, const Cut *cut, const Sections *sections)
{
    lua_State *L = g->L;
    int top = lua_gettop(L), n = node->n_in + node->n_out;
    PartState *parts = gen_alloc(g, sizeof *parts * (size_t)(n + 1));

    infer_push_n(g, node);
    if ((cut->ordered && sections && sections->n > 1) ||
        (!cut->pads && sections && sections->pad) || !allowed(g, node, cut))
        parts = NULL;
    for (int i = 0; parts && i < n; i++) {
        bool in = i < node->n_in;
        int k = in ? i : i - node->n_in;

        parts[i] = part_of(g, node, cut,
                           in ? node_operand(node, k)->name : node->op->out[k].name,
                           in ? node->in[k] : node->out[k], sections);
    }
    lua_settop(L, top);
    return parts;
}

Sections cuts_base(Gen *g, const CutOperand *o, const Sections *own)
{
    int n = (int)(own->n / o->times);
    Sections base = {0};

    if (o->n_weights || own->n % o->times || (own->pad && o->times > 1))
        return base;
    for (int i = n; i < own->n; i++)
        if (own->elems[i] != own->elems[i - n])
            return base;
    base.n = n;
    base.pad = own->pad;
    base.elems = gen_alloc(g, sizeof *base.elems * (size_t)n);
    memcpy(base.elems, own->elems, sizeof *base.elems * (size_t)n);
    return base;
}

bool part_equal(const PartState *a, const PartState *b)
{
    return a->kind == b->kind &&
           (a->kind != PART_CUT ||
            (a->dim == b->dim && a->sections.n == b->sections.n &&
             !memcmp(a->sections.elems, b->sections.elems,
                     sizeof *a->sections.elems * (size_t)a->sections.n)));
}

const char *part_text(Gen *g, const PartState *p)
{
    Text t = {.g = g};

    if (p->kind != PART_CUT)
        return p->kind == PART_WHOLE     ? "whole"
               : p->kind == PART_PARTIAL ? "partial"
                                         : "largest";
    text_printf(&t, "cut:%d", p->dim + 1);
    for (int i = 0; i < p->sections.n; i++)
        text_printf(&t, "%c%lld", i ? '+' : ':', (long long)p->sections.elems[i]);
    if (p->sections.pad)
        text_printf(&t, "-%lld", (long long)p->sections.pad);
    return t.s;
}
