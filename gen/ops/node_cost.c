/* SPDX-License-Identifier: Apache-2.0 */
/* node_cost.c: what the time of a node's kernel depends on. In: the rule's `cost`, its
 * function `products`, or else its axes; the node's shapes. Out: OpInfo.cost, Node.cost.
 *
 *   cost = "copy",         the class of the kernel, one of `costs` in gen/lua/op.lua.
 *                          Default: norm if an axis is a reduction, else elementwise
 *   products = function(n) return { { "nt", m, n, k, times } } end
 *                          the matrix products that the kernel consists of, as it calls
 *                          rt_gemm, each `times` times (default: 1). Their class is
 *                          product
 *   products_cuda = ...    those of cuda.cu, if they are others. Knows n.elem_bytes
 *   bytes_cuda = function(n) return bytes end
 *                          what the kernels of cuda.cu move: beside the products, in
 *                          passes of their own; without products, in place of `bytes` */
#include "ops/ops.h"

#include <string.h>

enum { MAX_PRODUCTS = 16 };

void node_cost_rule(lua_State *L, const OpRule *op)
{
    OpInfo *info = op->info;
    const char *name;

    info->cost = COST_ELEMENTWISE;
    for (int i = 0; i < info->n_axes; i++)
        if (info->axes[i].reduction)
            info->cost = COST_NORM;
    ops_push_function(L, op, "cost");
    name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    for (int c = 0; c < N_COSTS; c++)
        if (!strcmp(cost_class_name((CostClass)c), name))
            info->cost = (CostClass)c;
    lua_pop(L, 1);
    ops_push_function(L, op, "products");
    info->has_products = !lua_isnil(L, -1);
    lua_pop(L, 1);
    if (info->has_products)
        info->cost = COST_PRODUCT;
}

/* Reads { form, m, n, k, times } on top of the stack. */
static Product product_at(lua_State *L, const OpRule *op)
{
    Product p = {.form = N_FORMS};
    int64_t *const size[] = {&p.m, &p.n, &p.k, &p.times};
    const char *form;

    if (!lua_istable(L, -1))
        luaL_error(L, "%s: products(n) must return a list of lists", op->name);
    lua_rawgeti(L, -1, 1);
    form = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    for (int f = 0; f < N_FORMS; f++)
        if (!strcmp(product_form_name((ProductForm)f), form))
            p.form = (ProductForm)f;
    lua_pop(L, 1);
    for (int i = 0; i < 4; i++) {
        lua_rawgeti(L, -1, i + 2);
        *size[i] = i == 3 && lua_isnil(L, -1) ? 1 : lua_tointeger(L, -1);
        lua_pop(L, 1);
        if (p.form != N_FORMS && *size[i] > INT32_MAX)
            luaL_error(L,
                       "%s: a product of more than 2147483647 rows or columns: use "
                       "smaller sizes",
                       op->name);
        if (p.form == N_FORMS || *size[i] < 1)
            luaL_error(L,
                       "%s: a product is { \"nt\", m, n, k } with sizes of 1 or more; "
                       "forms are nt, nn, tn",
                       op->name);
    }
    return p;
}

bool node_is_fp8(const Node *node)
{
    return node->n_in > 0 &&
           (node->in[0]->dtype == DT_E4M3 || node->in[0]->dtype == DT_E5M2);
}

Dtype node_product_dtype(const Gen *g, const Node *node)
{
    return node_is_fp8(node) && !g->model.target->device ? ops_acc_dtype(g)
                                                         : node->in[0]->dtype;
}

/* Operands of the products, as often as they run: those that add to a gradient read it
 * and write it. */
static int64_t operand_bytes(const Gen *g, const Node *node)
{
    const double elem = (double)dtype_bytes(node->in[0]->dtype),
                 made = (double)dtype_bytes(node->out[0]->dtype) *
                        (node->op->out[0].may_add ? 2 : 1),
                 grad = (double)dtype_bytes(g->model.reduce_dtype);
    double bytes = 0;

    for (int i = 0; i < node->cost.n_products; i++) {
        const Product *p = &node->cost.products[i];
        const double m = (double)p->m, n = (double)p->n, k = (double)p->k,
                     times = (double)p->times;
        const double out = node_is_fp8(node)    ? made * times
                           : p->form == FORM_TN ? grad * (2 * times - 1)
                                                : elem * times;

        bytes += elem * (m * k + k * n) * times + out * m * n;
    }
    return (int64_t)(bytes < 1e18 ? bytes : 1e18);
}

static void read_products(Gen *g, Node *node)
{
    lua_State *L = g->L;
    NodeCost *c = &node->cost;
    const int top = lua_gettop(L);

    ops_push_function(L, node->op,
                      g->model.target->device && node->op->info->has_products_cuda
                          ? "products_cuda"
                          : "products");
    infer_push_n(g, node);
    lua_pushinteger(L, dtype_bytes(node->in[0]->dtype));
    lua_setfield(L, -2, "elem_bytes");
    lua_call(L, 1, 1);
    if (!lua_istable(L, -1) || lua_rawlen(L, -1) > MAX_PRODUCTS)
        luaL_error(L, "%s: products(n) must return a list of at most %d products",
                   node->op->name, MAX_PRODUCTS);
    c->n_products = (int)lua_rawlen(L, -1);
    c->products = gen_alloc(g, sizeof *c->products * (size_t)(c->n_products + 1));
    for (int i = 0; i < c->n_products; i++) {
        lua_rawgeti(L, -1, i + 1);
        c->products[i] = product_at(L, node->op);
        lua_pop(L, 1);
    }
    lua_settop(L, top);
}

void node_cost(Gen *g, Node *node)
{
    const OpInfo *info = node->op->info;
    const bool device = g->model.target->device;
    const int64_t traffic = infer_traffic(g, node);
    NodeCost *c = &node->cost;

    *c = (NodeCost){.cls = info->cost, .traffic_bytes = traffic, .moved_bytes = traffic};
    if (info->has_products)
        read_products(g, node);
    if (device && info->has_products)
        c->moved_bytes = max_i64(traffic, operand_bytes(g, node));
    if (device && info->has_bytes_cuda) {
        const int64_t own = infer_bytes(g, node, "bytes_cuda");

        c->pass_bytes = info->has_products ? own : 0;
        c->moved_bytes = info->has_products ? c->moved_bytes : own;
    }
}

double node_products_flops(const Node *node)
{
    double flops = 0;

    for (int i = 0; i < node->cost.n_products; i++) {
        const Product *p = &node->cost.products[i];

        flops += 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->times;
    }
    return flops;
}
