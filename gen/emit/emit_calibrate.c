/* SPDX-License-Identifier: Apache-2.0 */
/* emit_calibrate.c: what `trainer --calibrate` measures. In: the kernels that a step
 * calls, with their costs (ops/node_cost.c). Out: the fields of calibrate.c: `products`,
 * each form and shape once, and `timed`, the other kernels with the arguments of a call
 * alone. A kernel is of the class by which plan prices it; a copy is measured by the
 * runtime. And what `trainer --tune-kernels` compares: `sites`, calls of both kernels,
 * and `kernel_choices`, which of them steps call. */
#include "emit/emit.h"
#include "graph/graph.h"
#include "ops/ops.h"
#include "plan/plan.h"

#include <inttypes.h>
#include <string.h>

/* Operands lie one after the other, and begin as buffers do. */
static int64_t aligned(int64_t bytes)
{
    return round_up(bytes, ARENA_ALIGN_BYTES);
}

/* ---- products -------------------------------------------------------------------- */

typedef struct TimedProduct {
    Product of;
    Dtype from, to;
} TimedProduct;
typedef struct TimedProducts {
    TimedProduct *items;
    int count, cap;
} TimedProducts;

/* A product of form tn makes the gradient of a weight, which is of the reduce dtype; one
 * of fp8 says itself what it makes. */
static void add_product(Gen *g, TimedProducts *list, const Product *p, const Node *n)
{
    const Dtype from = node_product_dtype(g, n);
    const Dtype to = node_is_fp8(n)       ? n->out[0]->dtype
                     : p->form == FORM_TN ? g->model.reduce_dtype
                                          : from;

    for (int i = 0; i < list->count; i++) {
        const TimedProduct *t = &list->items[i];

        if (t->of.form == p->form && t->of.m == p->m && t->of.n == p->n &&
            t->of.k == p->k && t->from == from)
            return;
    }
    *gen_push(g, list) = (TimedProduct){*p, from, to};
}

static void push_product(Emit *e, const TimedProduct *t)
{
    const Product *p = &t->of;
    const Dtype to = t->to;
    const int64_t a = p->m * p->k * dtype_bytes(t->from),
                  b = p->n * p->k * dtype_bytes(t->from),
                  c = p->m * p->n * dtype_bytes(to);
    const char *form = p->form == FORM_NT ? "NT" : p->form == FORM_NN ? "NN" : "TN";

    lua_newtable(e->L);
    emit_str(e->L, "form", form);
    emit_int(e->L, "m", p->m);
    emit_int(e->L, "n", p->n);
    emit_int(e->L, "k", p->k);
    emit_str(e->L, "from", dtype_name(t->from));
    emit_str(e->L, "to", dtype_name(to));
    emit_num(e->L, "flops", 2.0 * (double)p->m * (double)p->n * (double)p->k);
    emit_int(e->L, "traffic", a + b + c);
    emit_int(e->L, "align", ARENA_ALIGN_BYTES);
    emit_int(e->L, "second", aligned(a));
    emit_int(e->L, "out", aligned(a) + aligned(b));
    emit_int(e->L, "bytes", aligned(a) + aligned(b) + aligned(c));
}

/* ---- kernels --------------------------------------------------------------------- */

static void push_arg(Emit *e, const char *text)
{
    lua_pushstring(e->L, text);
    lua_rawseti(e->L, -2, (lua_Integer)lua_rawlen(e->L, -2) + 1);
}

/* The data that v is, or of which it is a part's piece, which may be measured by what
 * comes first: numbers of rows must be numbers of rows. NULL: neither. */
static const Value *data_of(const Value *v)
{
    while (v->kind == VAL_NODE && v->def->op->collective)
        v = v->def->in[0];
    return v->kind == VAL_DATA ? v : NULL;
}

/* Operands are apart even where the step computes in place. Returns the bytes they take.
 */
static int64_t push_args(Emit *e, const Node *n, int64_t *out)
{
    int64_t at = 0;
    bool adds = false;

    if (emit_on_device(e))
        push_arg(e, "rt");
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const Value *v = i < n->n_in ? n->in[i] : n->out[i - n->n_in], *data = data_of(v);

        adds = adds || (i >= n->n_in && n->op->out[i - n->n_in].may_add);
        *out = i == n->n_in ? at : *out;
        if (data) {
            push_arg(e, data->index == DATA_PART
                            ? gen_printf(e->g, "rt_parts(rt)->%s.number",
                                         data->part[PARTS_TENSOR].kind != PART_WHOLE
                                             ? "tensor"
                                             : "context")
                            : gen_printf(e->g, "rt_local(rt, rt->trainer->%s_offset)",
                                         data_names[data->index]));
            continue;
        }
        push_arg(e, gen_printf(e->g, "(void *)(at + %" PRId64 ")", at));
        at += aligned(v->bytes);
    }
    if (adds)
        push_arg(e, "0.0f");
    if (n->workspace_bytes) {
        push_arg(e, gen_printf(e->g, "at + %" PRId64, at));
        at += aligned(n->workspace_bytes);
    }
    if (ops_scaled(e->g, n->op))
        push_arg(e, "rt_loss_scale(rt)");
    return at;
}

static const char *kind_of(CostClass c)
{
    return c == COST_ATTENTION       ? "ATTENTION"
           : c == COST_ATTENTION_BWD ? "ATTENTION_BWD"
           : c == COST_NORM          ? "NORM"
                                     : "ELEMENTWISE";
}

static void push_kernel(Emit *e, const Node *n)
{
    int64_t out = 0, bytes;

    lua_newtable(e->L);
    lua_newtable(e->L);
    bytes = push_args(e, n, &out);
    lua_setfield(e->L, -2, "args");
    emit_str(e->L, "fn", n->kernel);
    emit_str(e->L, "kind", kind_of(n->cost.cls));
    emit_num(e->L, "flops", n->flops);
    emit_int(e->L, "traffic", n->cost.traffic_bytes);
    emit_int(e->L, "bytes", bytes);
    emit_int(e->L, "out", out);
}

/* Field `key`: a call of the kernel. Returns the bytes it takes without a workspace. */
static int64_t push_side(Emit *e, const Node *n, const char *key, int64_t *out,
                         int64_t *bytes)
{
    int64_t all;

    lua_newtable(e->L);
    emit_str(e->L, "fn", n->kernel);
    lua_newtable(e->L);
    all = push_args(e, n, out);
    lua_setfield(e->L, -2, "args");
    lua_setfield(e->L, -2, key);
    *bytes = all > *bytes ? all : *bytes;
    return all - aligned(n->workspace_bytes);
}

void emit_sites(Emit *e, const KernelList *kernels, const KernelList *others)
{
    lua_Integer count = 0;

    lua_newtable(e->L);
    for (int i = 0; i < kernels->count && count < others->count; i++) {
        const Node *n = kernels->items[i], *other = others->items[count];
        int64_t out = 0, bytes = 0, end;

        if (n->op != other->op || n->out[0] != other->out[0])
            continue;
        lua_newtable(e->L);
        emit_str(e->L, "site", n->site);
        emit_str(e->L, "op", n->op->name);
        push_side(e, n->library ? n : other, "library", &out, &bytes);
        end = push_side(e, n->library ? other : n, "own", &out, &bytes);
        emit_int(e->L, "bytes", bytes);
        emit_int(e->L, "out", out);
        emit_int(e->L, "out_bytes", end - out);
        lua_rawseti(e->L, -2, ++count);
    }
    lua_setfield(e->L, -2, "sites");
    emit_str(e->L, "kernel_choices", kernel_library_choices(e->g));
}

void emit_timed(Emit *e, const KernelList *kernels)
{
    TimedProducts products = {0};
    lua_Integer count = 0;

    lua_newtable(e->L);
    for (int i = 0; i < kernels->count; i++) {
        const Node *n = kernels->items[i];

        /* what takes scales is not measured alone */
        const bool fp8 = emit_on_device(e) && node_is_fp8(n);

        if (n->phase == PHASE_SETUP || n->phase == PHASE_EVALUATE)
            continue;
        for (int k = 0; k < n->cost.n_products && !fp8; k++)
            add_product(e->g, &products, &n->cost.products[k], n);
        if (n->cost.cls == COST_PRODUCT || n->cost.cls == COST_COPY)
            continue;
        push_kernel(e, n);
        lua_rawseti(e->L, -2, ++count);
    }
    lua_setfield(e->L, -2, "timed");
    lua_newtable(e->L);
    for (int i = 0; i < products.count; i++) {
        push_product(e, &products.items[i]);
        lua_rawseti(e->L, -2, i + 1);
    }
    lua_setfield(e->L, -2, "products");
}
