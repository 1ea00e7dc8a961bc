/* SPDX-License-Identifier: Apache-2.0 */
/* emit_class.c: the structs of pointers of a class, as a Lua table for math.h.
 *
 * In: a class with its parameters, gradients and saved values. Out: one table on the
 * stack. Like the rest of math.h, it depends on no choice outside the numerics hash. */
#include "emit/emit_scratch.h"
#include "base/names.h"
#include "base/show.h"
#include "ops/ops.h"

static bool span_has(const Span *s, ArgKind kind)
{
    for (int i = 0; i < s->n_args; i++)
        if (s->args[i].kind == kind)
            return true;
    return false;
}

const char *class_scale(Gen *g, const Class *c, int param)
{
    for (int i = 0; i < c->values.count; i++)
        if (c->values.items[i]->kind == VAL_SCALE && c->values.items[i]->index == param)
            return name_param(g, c->values.items[i]->name);
    return NULL;
}

void emit_class(Emit *e, const Class *c)
{
    Gen *g = e->g;
    lua_State *L = e->L;
    bool has_beta = false; /* a parameter that is not tied uses the step's */

    for (int i = 0; c->grads && i < c->params.count; i++)
        has_beta = has_beta || (c->grads[i] && !c->params.items[i].tied_global);
    lua_newtable(L);
    emit_str(L, "name", c->name);
    emit_bool(L, "has_beta", has_beta);
    emit_bool(L, "has_params",
              span_has(&c->forward, ARG_PARAMS) || span_has(&c->backward, ARG_PARAMS) ||
                  span_has(&c->evaluate, ARG_PARAMS));
    emit_bool(L, "has_grads",
              span_has(&c->forward, ARG_GRADS) || span_has(&c->backward, ARG_GRADS));
    lua_createtable(L, c->saved.count, 0);
    for (int i = 0; i < c->saved.count; i++) {
        const Saved *s = &c->saved.items[i];

        lua_newtable(L);
        emit_str(L, "ident", name_saved(g, s->value->name));
        emit_str(L, "type", dtype_ctype(s->value->dtype));
        emit_str(L, "shape", show_shape(g, s->value->dim, s->value->n_dims));
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "saved");
    lua_createtable(L, c->params.count, 0);
    for (int i = 0; i < c->params.count; i++) {
        const ClassParam *p = &c->params.items[i];
        const Value *d = c->grads ? c->grads[i] : NULL;

        lua_newtable(L);
        emit_str(L, "ident", name_param(g, p->ident));
        emit_str(L, "name", p->name);
        emit_str(L, "type", dtype_ctype(p->gathered));
        emit_str(L, "shape", show_shape(g, p->dim, p->n_dims));
        emit_str(L, "scale", class_scale(g, c, i));
        emit_str(L, "scale_type", dtype_ctype(ops_acc_dtype(g)));
        emit_bool(L, "tied", p->tied_global);
        emit_str(L, "grad_type", d ? dtype_ctype(d->dtype) : NULL);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "params");
    scratch_push_all(e, c);
}
