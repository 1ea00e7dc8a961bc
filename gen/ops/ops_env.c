/* SPDX-License-Identifier: Apache-2.0 */
/* ops_env.c: the environment of a kernel's template. In: a node with its rule and the
 * types of its values. Out: a Lua table with what the template may use: C types, shapes,
 * sizes, the op's dims and attributes (n of infer.c), its accumulation type, the
 * alignment of buffers. */
#include "ops/ops.h"

/* Pushes {name, type, dtype, elems, bytes, shape, alias}. */
static void push_operand(lua_State *L, const Operand *o, const Value *v)
{
    lua_createtable(L, 0, 8);
    lua_pushstring(L, o->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, dtype_ctype(v->dtype));
    lua_setfield(L, -2, "type");
    lua_pushstring(L, dtype_name(v->dtype));
    lua_setfield(L, -2, "dtype");
    lua_pushinteger(L, v->elems);
    lua_setfield(L, -2, "elems");
    lua_pushinteger(L, v->bytes);
    lua_setfield(L, -2, "bytes");
    if (o->alias) {
        lua_pushstring(L, o->alias);
        lua_setfield(L, -2, "alias");
    }
    lua_createtable(L, v->n_dims, 0);
    for (int i = 0; i < v->n_dims; i++) {
        lua_pushinteger(L, v->dim[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "shape");
}

static void push_operands(lua_State *L, const Node *node, bool in, const char *key)
{
    const int n = in ? node->n_in : node->n_out;

    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        const Operand *o = in ? node_operand(node, i) : &node->op->out[i];

        push_operand(L, o, in ? node->in[i] : node->out[i]);
        lua_pushvalue(L, -1);
        lua_setfield(L, -4, o->name);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, key);
}

Dtype ops_acc_dtype(const Gen *g)
{
    return g->model.param_dtype == DT_F64 ? DT_F64 : DT_F32;
}

bool ops_scaled(const Gen *g, const OpRule *op)
{
    return op->info->scaled && g->model.loss_scale_init > 0;
}

void ops_push_env(Gen *g, const Node *node)
{
    lua_State *L = g->L;
    bool adds = false;

    infer_push_n(g, node);
    push_operands(L, node, true, "inputs");
    push_operands(L, node, false, "outputs");
    for (int i = 0; i < node->op->n_out; i++)
        adds = adds || node->op->out[i].may_add;
    lua_pushboolean(L, adds);
    lua_setfield(L, -2, "adds");
    lua_pushboolean(L, ops_scaled(g, node->op));
    lua_setfield(L, -2, "scaled");
    lua_pushstring(L, ops_acc_dtype(g) == DT_F64 ? "double" : "float");
    lua_setfield(L, -2, "acc");
    lua_pushinteger(L, node->workspace_bytes);
    lua_setfield(L, -2, "workspace");
    lua_pushinteger(L, ARENA_ALIGN_BYTES);
    lua_setfield(L, -2, "buffer_align");
    if (node->kernel) {
        lua_pushstring(L, node->kernel);
        lua_setfield(L, -2, "fn");
    }
}
