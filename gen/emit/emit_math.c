/* SPDX-License-Identifier: Apache-2.0 */
/* emit_math.c: spans as Lua tables for math.h and math.c.
 *
 * In: g->classes with spans, value locations and kernel names (span.c), the op folders.
 * Out: fields of the context: those of the kernels (emit_kernels.c), classes (structs of
 * pointers), setup, spans.
 *
 * Nothing here may depend on a choice outside the numerics hash: math.c, math.h and the
 * files of the kernels are byte-identical for all such choices, and a test checks it. */
#include "emit/emit_parts.h"
#include "emit/emit_scratch.h"
#include "base/names.h"
#include "ops/ops.h"
#include "base/show.h"
#include "plan/plan.h"

#include <string.h>

/* ---- names ----------------------------------------------------------------------- */

static const char *local_name(Emit *e, const KernelList *kernels, const char *name)
{
    name = name_local(e->g, name);
    for (int i = 0; i < kernels->count; i++)
        if (!strcmp(kernels->items[i]->kernel, name))
            return gen_printf(e->g, "m_%s", name); /* unique: it has dims and dtype */
    return name;
}

static bool is_own_value(const Class *c, const char *name)
{
    for (int i = 0; c && i < c->values.count; i++)
        if (c->values.items[i]->loc != LOC_CONST &&
            !strcmp(c->values.items[i]->name, name))
            return true;
    return false;
}

/* A constant may have been named by another class: this class's own values come first. Of
 * two that are renamed, one ends in _const or both in their indices; neither is called
 * what a constant is. */
static const char *const_name(Emit *e, const KernelList *kernels, const Class *c,
                              int index)
{
    const Const *all = e->g->consts.items;
    const char *name = all[index].name;
    bool taken = is_own_value(c, name);

    for (int tries = 0; taken; tries++) {
        name = tries ? gen_printf(e->g, "%s_%d", name, index)
                     : gen_printf(e->g, "%s_const", name);
        taken = is_own_value(c, name);
        for (int i = 0; i < e->g->consts.count; i++)
            taken = taken || !strcmp(all[i].name, name);
    }
    return local_name(e, kernels, name);
}

/* The field of a saved value that has its own bytes; else NULL. */
static const Saved *own_field(const Class *c, const Value *v)
{
    const Saved *s = v->loc == LOC_SAVED ? &c->saved.items[v->loc_index] : NULL;

    return s && s->value == v ? s : NULL;
}

/* A member of a struct of pointers. In parts there is an array with a struct for each
 * part. */
static const char *member(Emit *e, const char *of, const Value *v, unsigned loop,
                          const char *name)
{
    return e->g->in_parts ? gen_printf(e->g, "%s[%s].%s", of, parts_index(v, loop), name)
                          : gen_printf(e->g, "%s->%s", of, name);
}

/* An argument. In parts it points to the values of all parts of the rank, one after the
 * other. */
static const char *argument(Emit *e, const Value *v, unsigned loop, const char *name)
{
    const char *index = parts_index(v, loop);

    if (!e->g->in_parts || !strcmp(index, "0"))
        return name;
    return gen_printf(e->g, strlen(index) > 1 ? "%s + (%s) * %lld" : "%s + %s * %lld",
                      name, index,
                      (long long)(plan_part_stride(v->bytes) / dtype_bytes(v->dtype)));
}

/* The argument of the span in whose bytes an in-place op made the value; NULL: the value
 * is an argument itself, or lies elsewhere. */
static const Value *lies_on(const Span *s, const Value *v)
{
    ArgKind kind;

    switch (v->loc) {
    case LOC_IN:
        kind = ARG_IN;
        break;
    case LOC_OUT:
        kind = ARG_OUT;
        break;
    case LOC_DIN:
        kind = ARG_DIN;
        break;
    case LOC_DOUT:
        kind = ARG_DOUT;
        break;
    default:
        return NULL;
    }
    for (int a = 0; a < s->n_args; a++)
        if (s->args[a].kind == kind && s->args[a].index == v->loc_index)
            return s->args[a].value == v ? NULL : s->args[a].value;
    gen_die("%s: no argument holds %s", s->name, v->name);
}

/* The saved value in whose bytes another one lies, before or after it. */
static const char *in_place_of(Emit *e, const Value *v, const Saved *s, unsigned loop)
{
    const char *field = name_saved(e->g, s->value->name), *type = dtype_ctype(v->dtype);
    bool same = !strcmp(type, dtype_ctype(s->value->dtype));

    field = member(e, "saved", v, loop, field);
    return same ? field : gen_printf(e->g, "(%s *)%s", type, field);
}

/* The C expression of a value inside a span. */
static const char *value_expr(Emit *e, const KernelList *kernels, const Class *c,
                              const Span *s, const Value *v, unsigned loop)
{
    const Value *on;

    if (c && own_field(c, v))
        return member(e, "saved", v, loop, name_saved(e->g, v->name));
    switch (v->loc) {
    case LOC_PARAM:
        return member(e, "w", v, loop,
                      name_param(e->g, c->params.items[v->loc_index].ident));
    case LOC_SCALE:
        return member(e, "w", v, loop, name_param(e->g, v->name));
    case LOC_GRAD:
        return member(e, "dw", v, loop,
                      name_param(e->g, c->params.items[v->loc_index].ident));
    case LOC_LOSS:
        return "loss";
    case LOC_LOGITS:
        return local_name(e, kernels, v->name);
    case LOC_CONST:
        return const_name(e, kernels, c, v->loc_index);
    case LOC_IN:
    case LOC_OUT:
    case LOC_DIN:
    case LOC_DOUT:
        on = e->g->in_parts ? lies_on(s, v) : NULL;
        return argument(e, v, loop, local_name(e, kernels, on ? on->name : v->name));
    case LOC_SAVED:
        if (e->g->in_parts)
            return in_place_of(e, v, &c->saved.items[v->loc_index], loop);
        return local_name(e, kernels, v->name);
    case LOC_DATA:
        return v->loc_index == DATA_PART ? parts_number(e->g, v, loop)
                                         : local_name(e, kernels, v->name);
    case LOC_SCRATCH:
        return member(e, "scratch", v, loop, scratch_value(e->g, c, v));
    case LOC_NONE:
        break;
    }
    gen_die("value %s of %s has no place", v->name, c ? c->name : "setup");
}

/* ---- spans ----------------------------------------------------------------------- */

static bool is_written(const Span *s, const Value *v)
{
    for (int i = 0; i < s->n_nodes; i++)
        for (int k = 0; k < s->nodes[i]->n_out; k++)
            if (s->nodes[i]->out[k] == v)
                return true;
    return false;
}

/* One parameter of the C signature. */
static const char *arg_decl(Emit *e, const KernelList *kernels, const Class *c,
                            const Span *s, const SpanArg *a)
{
    const char *type = a->value ? dtype_ctype(a->value->dtype) : NULL;
    const char *name = a->value ? local_name(e, kernels, a->value->name) : NULL;

    switch (a->kind) {
    case ARG_PARAMS:
        return gen_printf(e->g, "const struct %s_params *w", c->name);
    case ARG_GRADS:
        return gen_printf(e->g, "const struct %s_grads *dw", c->name);
    case ARG_CONST:
        name = const_name(e, kernels, c, a->index);
        return gen_printf(e->g, "%s%s *%s", s->phase == PHASE_SETUP ? "" : "const ", type,
                          name);
    case ARG_DATA:
    case ARG_IN:
    case ARG_DOUT:
        gen_require(!is_written(s, a->value), "%s writes its input %s", s->name, name);
        return gen_printf(e->g, "const %s *%s", type, name);
    case ARG_OUT:
    case ARG_DIN:
        return gen_printf(e->g, "%s *%s", type, name);
    case ARG_LOSS:
        return "double *loss";
    case ARG_LOSS_SCALE: /* on a device it is in memory: it changes between steps */
        return emit_on_device(e) ? "const float *loss_scale" : "float loss_scale";
    case ARG_LOGITS:
        return gen_printf(e->g, "%s *%s", type, name);
    case ARG_SAVED:
        return gen_printf(e->g, "const struct %s_saved *saved", c->name);
    case ARG_SCRATCH:
        return c ? gen_printf(e->g, "const struct %s *scratch",
                              scratch_struct(e->g, c, s->phase))
                 : "char *scratch"; /* emit_step.c refuses it */
    }
    gen_die("span %s: argument %d", s->name, (int)a->kind);
}

static const char *arg_note(Emit *e, const SpanArg *a)
{
    return a->value ? gen_printf(e->g, "%s %s",
                                 show_shape(e->g, a->value->dim, a->value->n_dims),
                                 dtype_name(a->value->dtype))
                    : NULL;
}

/* The values that a span uses and that are not arguments, in order of first use: its
 * variables. */
static void push_locals(Emit *e, const KernelList *kernels, const Class *c, const Span *s)
{
    lua_State *L = e->L;
    struct {
        const Value **items;
        int count, cap;
    } seen = {0};

    lua_newtable(L);
    for (int i = 0; !e->g->in_parts && i < s->n_nodes; i++) {
        const Node *n = s->nodes[i];

        for (int k = 0; k < n->n_in + n->n_out; k++) {
            const Value *v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];
            const Value *on = lies_on(s, v);
            bool known = v->loc != LOC_SAVED && !on;

            known = known || (c && own_field(c, v));

            for (int j = 0; j < seen.count && !known; j++)
                known = seen.items[j] == v;
            if (known)
                continue;
            *gen_push(e->g, &seen) = v;
            lua_newtable(L);
            emit_str(L, "type",
                     gen_printf(e->g, "%s%s", is_written(s, v) ? "" : "const ",
                                dtype_ctype(v->dtype)));
            emit_str(L, "name", value_expr(e, kernels, c, s, v, 0));
            /* saved: before or after the saved value */
            emit_str(L, "on",
                     on ? local_name(e, kernels, on->name)
                        : in_place_of(e, v, &c->saved.items[v->loc_index], 0));
            emit_str(L, "shape", show_shape(e->g, v->dim, v->n_dims));
            lua_rawseti(L, -2, seen.count);
        }
    }
    lua_setfield(L, -2, "locals");
}

/* Does a node read v? A kernel that makes a frozen parameter's gradient among others
 * still writes it, to scratch. */
static bool is_read(const Class *c, const Value *v)
{
    for (int i = 0; i < c->nodes.count; i++)
        for (int k = 0; k < c->nodes.items[i]->n_in; k++)
            if (c->nodes.items[i]->in[k] == v)
                return true;
    return false;
}

/* beta of a call: 0 stores, 1 adds; a parameter's own beta is in the struct of gradients.
 * Results without a reader take either. */
static const char *call_beta(Emit *e, const Class *c, const Node *n)
{
    const char *beta = NULL, *any = NULL;

    for (int i = 0; i < n->n_out; i++) {
        const Value *v = n->out[i];
        const ClassParam *p = v->loc == LOC_GRAD ? &c->params.items[v->loc_index] : NULL;
        const char *b;

        if (!n->op->out[i].may_add)
            continue;
        if (!p && !is_read(c, v)) {
            any = "0.0f";
            continue;
        }
        b = n->add && n->add[i] ? "1.0f"
            : !p                ? "0.0f"
                 : gen_printf(e->g, "dw%sbeta%s%s", e->g->in_parts ? "[0]." : "->",
                              p->tied_global ? "_" : "",
                              p->tied_global ? name_param(e->g, p->ident) : "");
        gen_require(!beta || !strcmp(beta, b), "%s: outputs of one kernel with %s and %s",
                    n->name, beta, b);
        beta = b;
    }
    return beta ? beta : any;
}

static void push_calls(Emit *e, const KernelList *kernels, const Class *c, const Span *s)
{
    lua_State *L = e->L;

    lua_createtable(L, s->n_nodes, 0);
    for (int i = 0; i < s->n_nodes; i++) {
        const Node *n = s->nodes[i];
        Text note = {.g = e->g};
        const char *beta = call_beta(e, c, n);
        int count = 0;

        lua_newtable(L);
        lua_newtable(L);
        if (emit_on_device(e) && !n->op->collective) { /* a meet has it from the parts */
            lua_pushstring(L, c && e->g->in_parts ? "parts->rt" : "rt");
            lua_rawseti(L, -2, ++count);
        }
        for (int k = 0; k < n->n_in + n->n_out; k++) {
            lua_pushstring(L, value_expr(e, kernels, c, s,
                                         k < n->n_in ? n->in[k] : n->out[k - n->n_in],
                                         parts_loop_axes(e->g, n)));
            lua_rawseti(L, -2, ++count);
        }
        if (beta) {
            lua_pushstring(L, beta);
            lua_rawseti(L, -2, ++count);
        }
        if (n->workspace_bytes) {
            lua_pushstring(L, member(e, "scratch", n->out[0], parts_loop_axes(e->g, n),
                                     scratch_workspace(e->g, c, n)));
            lua_rawseti(L, -2, ++count);
        }
        if (ops_scaled(e->g, n->op)) {
            lua_pushliteral(L, "loss_scale");
            lua_rawseti(L, -2, ++count);
        }
        lua_setfield(L, -2, "args");
        for (int k = 0; k < n->n_out; k++)
            text_printf(&note, "%s%s", k ? ", " : "",
                        show_shape(e->g, n->out[k]->dim, n->out[k]->n_dims));
        emit_str(L, "kernel", n->kernel);
        emit_str(L, "note", note.s);
        emit_str(L, "each", c && e->g->in_parts ? parts_loop(e->g, n) : NULL);
        emit_int(L, "leg", n->leg);
        if (n->op->collective)
            parts_push_meet(e, n);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "calls");
}

/* piece: its name; NULL for a block without cuts or for the constants. */
static void push_span(Emit *e, const KernelList *kernels, const Class *c, const Span *s,
                      const char *piece)
{
    lua_State *L = e->L;
    const bool parts = c && e->g->in_parts;
    int rank = emit_on_device(e) || parts; /* an argument before those of the span */

    lua_newtable(L);
    emit_str(L, "name", c ? s->name : "math_setup");
    emit_str(L, "class",
             piece ? gen_printf(e->g, "%s %s", c->name, piece)
             : c   ? c->name
                   : "setup");
    emit_str(L, "phase",
             s->phase == PHASE_SETUP      ? "setup"
             : s->phase == PHASE_FORWARD  ? "forward"
             : s->phase == PHASE_EVALUATE ? "evaluate"
                                          : "backward");
    emit_str(L, "flops", show_count(e->g, s->flops));
    emit_str(L, "traffic", show_bytes_short(e->g, s->traffic_bytes));
    emit_int(L, "scratch_bytes", s->scratch_bytes);
    lua_createtable(L, s->n_args + rank, 0);
    if (rank) {
        lua_newtable(L);
        emit_str(L, "decl", parts ? "RtParts *parts" : "Rt *rt");
        lua_rawseti(L, -2, rank);
    }
    for (int i = 0; i < s->n_args; i++) {
        lua_newtable(L);
        emit_str(L, "decl", arg_decl(e, kernels, c, s, &s->args[i]));
        emit_str(L, "note", arg_note(e, &s->args[i]));
        lua_rawseti(L, -2, rank + i + 1);
    }
    lua_setfield(L, -2, "args");
    push_locals(e, kernels, c, s);
    push_calls(e, kernels, c, s);
}

/* ---- the parts of the context ---------------------------------------------------- */

/* Does the wrap cut (or leave whole) some block of the class that has KEEP_SOME? */
static bool runs_some(const Gen *g, const Class *c, bool cut)
{
    for (int b = 0; b < g->blocks.count; b++) {
        const Block *k = &g->blocks.items[b];

        if (k->cls == c && k->keep == KEEP_SOME && k->cut == cut)
            return true;
    }
    return false;
}

/* What KEEP_SOME runs again, as spans of bind.c. */
static void push_again(Emit *e, const KernelList *kernels)
{
    Gen *g = e->g;
    int n = 0;

    lua_newtable(e->L);
    for (int i = 0; i < g->classes.count; i++) {
        const Class *c = g->classes.items[i];

        for (int piece = -1; piece < c->pieces.count; piece++) {
            const Span *s = piece < 0 ? &c->again : &c->pieces.items[piece].again;

            if (s->n_nodes == 0 || !runs_some(g, c, piece >= 0))
                continue;
            push_span(e, kernels, c, s, piece < 0 ? NULL : c->pieces.items[piece].name);
            lua_rawseti(e->L, -2, ++n);
        }
    }
    lua_setfield(e->L, -2, "again");
}

/* Tables and binders support any key of a segment. The kernels do not yet: the
 * optimizer's reads weights of one dtype. No description asks for more: fields of other
 * axes are not available yet, and tests/house finds what would make such keys. */
void emit_check_math(const Gen *g)
{
    for (int i = 0; i < g->segments.count; i++) {
        const Segment *s = &g->segments.items[i];

        gen_require(!s->axes || g->in_parts, "segment %s: no span computes on parts",
                    s->name);
        gen_require(!s->trainable || s->dtype == g->model.param_dtype,
                    "segment %s: no optimizer updates weights of its dtype", s->name);
    }
}

void emit_math_context(Emit *e)
{
    Gen *g = e->g;
    lua_State *L = e->L;
    KernelList kernels = {0};
    int n = 0;

    emit_kernels(e, &kernels);
    if (diag_errors(g))
        return;
    lua_newtable(L);
    for (int i = 0; i < g->classes.count; i++) {
        emit_class(e, g->classes.items[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "classes");

    lua_newtable(L);
    for (int i = 0; i < g->classes.count; i++) {
        const Class *c = g->classes.items[i];
        int pieces = c->pieces.count;

        for (int k = 0; k < 2 * pieces; k++) {
            int piece = k < pieces ? k : 2 * pieces - 1 - k;
            const Span *s =
                class_span(c, piece, k < pieces ? PHASE_FORWARD : PHASE_BACKWARD);

            if (s->n_nodes == 0)
                continue;
            push_span(e, &kernels, c, s, c->pieces.items[piece].name);
            lua_rawseti(L, -2, ++n);
        }
        if (c->evaluate.n_nodes) {
            push_span(e, &kernels, c, &c->evaluate, NULL);
            lua_rawseti(L, -2, ++n);
        }
    }
    lua_setfield(L, -2, "spans");
    push_again(e, &kernels);
    if (g->setup.n_nodes) {
        push_span(e, &kernels, NULL, &g->setup, NULL);
        lua_setfield(L, -2, "setup");
    }
}
