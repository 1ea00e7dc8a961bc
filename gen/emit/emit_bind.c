/* SPDX-License-Identifier: Apache-2.0 */
/* emit_bind.c: how a call of the schedule finds its pointers.
 *
 * In: the bindings of every span call, the flat layouts. Out: binders, small functions of
 * bind.c that turn a few offsets into the pointers that math.c takes. There is one per
 * span and relative layout of the block's parameters, which is nearly always one per
 * span. Every binding of the plan is checked against the layout on the way. */
#include "emit/emit_parts.h"
#include "emit/emit_scratch.h"
#include "emit/emit_step.h"
#include "base/names.h"
#include "base/show.h"
#include "ops/ops.h"
#include "plan/plan.h"

#include <inttypes.h>
#include <string.h>

/* ---- which binder ---------------------------------------------------------------- */

static const char *binder_key(const Steps *s, const Instr *i, const Bases *bases)
{
    const Class *c = s->g->blocks.items[i->block].cls;
    Text t = {.g = s->g};

    text_printf(&t, "%s %d %d %d", ins_span(s->g, i)->name, i->saved >= 0,
                i->dropped >= 0, i->scratch >= 0);
    for (int k = 0; k < bases->count; k++)
        text_printf(&t, " %d:%d", bases->items[k].of,
                    s->p->bufs.items[bases->items[k].buffer].space);
    for (BindOf of = BIND_WEIGHT; of < N_BINDS; of++) {
        for (int p = 0; p < c->params.count; p++) {
            int64_t offset = 0;
            int base = bases_find(s, i, bases, p, of, &offset);

            text_printf(&t, " %d+%" PRId64, base, offset);
        }
    }
    return t.s;
}

const Binder *bind_binder(Steps *s, const Instr *i, const Bases *bases)
{
    const char *key = binder_key(s, i, bases);
    const Span *span = ins_span(s->g, i);
    Binder *b;
    int same = 1;

    for (int k = 0; k < s->binders.count; k++) {
        if (!strcmp(s->binders.items[k].key, key))
            return &s->binders.items[k];
        same += s->binders.items[k].span == span;
    }
    b = gen_push(s->g, &s->binders);
    b->key = key;
    b->name = same == 1 ? gen_printf(s->g, "%s_at", span->name)
                        : gen_printf(s->g, "%s_at_%d", span->name, same);
    b->cls = s->g->blocks.items[i->block].cls;
    b->span = span;
    b->block = &s->g->blocks.items[i->block];
    b->ins = i;
    return b;
}

/* ---- the arguments of a call ----------------------------------------------------- */

const char *bind_space(const Buffer *b)
{
    return b->space == SPACE_SYMMETRIC ? "rt_symmetric" : "rt_local";
}

static const char *numbered(Gen *g, const char *name, int index)
{
    return index <= 0 ? name : gen_printf(g, "%s_%d", name, index + 1);
}

static const char *base_name(Gen *g, const Bases *bases, int k)
{
    int index = 0;

    static const char *const names[N_BINDS] = {"weights", "scales", "grads"};

    for (int j = 0; j < k; j++)
        index += bases->items[j].of == bases->items[k].of;
    return numbered(g, names[bases->items[k].of], index);
}

static bool tied_grad(const Class *c, int p)
{
    return c->params.items[p].tied_global && c->grads && c->grads[p];
}

bool bind_plain_grad(const Class *c)
{
    for (int p = 0; c->grads && p < c->params.count; p++)
        if (c->grads[p] && !c->params.items[p].tied_global)
            return true;
    return false;
}

/* The buffer of an activation argument, and the name of its offset in a binder. */
static int role_buffer(const Gen *g, const Instr *i, const SpanArg *a, const char **role)
{
    static const struct {
        ArgKind kind;
        const char *role;
    } roles[] = {
        {ARG_IN, "in"},         {ARG_OUT, "out"},     {ARG_DOUT, "d_out"},
        {ARG_DIN, "d_in"},      {ARG_SAVED, "saved"}, {ARG_SCRATCH, "scratch"},
        {ARG_LOGITS, "logits"},
    };
    int first = -1;

    *role = NULL;
    for (size_t k = 0; k < sizeof roles / sizeof *roles; k++)
        if (roles[k].kind == a->kind)
            *role = roles[k].role;
    if (!*role)
        return -1;
    switch (a->kind) {
    case ARG_IN:
        first = i->in;
        break;
    case ARG_OUT:
        first = i->out;
        break;
    case ARG_DOUT:
        first = i->d_out;
        break;
    case ARG_DIN:
        first = i->d_in;
        break;
    case ARG_SAVED:
        return i->saved;
    case ARG_SCRATCH:
        return i->scratch;
    case ARG_LOGITS:
        return i->logits;
    default:
        break;
    }
    gen_require(first >= 0, "span %s of %s: no buffer for %s", ins_span(g, i)->name,
                g->blocks.items[i->block].name, *role);
    return first + a->index;
}

static void push_string(lua_State *L, const char *s)
{
    lua_pushstring(L, s);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

/* Does the call pass this parameter? A piece passes only its own; a block all. */
static bool binds(const Steps *s, const Instr *i, int param, BindOf of)
{
    for (int k = s->first_binding[i->id]; k < s->first_binding[i->id + 1]; k++)
        if (s->p->bindings[k].param == param && s->p->bindings[k].of == of)
            return true;
    return i->piece < 0 && i->phase != PHASE_EVALUATE;
}

/* The arguments of the call in the schedule: offsets. */
void bind_push_call(Steps *s, const Instr *i, const Bases *bases)
{
    Gen *g = s->g;
    lua_State *L = s->e->L;
    const Span *span = ins_span(g, i);
    const Class *c = g->blocks.items[i->block].cls;
    bool grads = false;

    lua_newtable(L);
    push_string(L, "rt");
    for (int k = 0; k < bases->count; k++) {
        const char *macro = s->p->bufs.items[bases->items[k].buffer].macro;
        int64_t offset = bases->items[k].offset_bytes;

        push_string(L, offset ? gen_printf(g, "%s + %" PRId64, macro, offset) : macro);
        grads = grads || bases->items[k].of == BIND_GRAD;
    }
    if (grads && bind_plain_grad(c))
        push_string(L, s->p->count[VARIANT_LOCAL] ? "beta" : "0.0f");
    for (int p = 0; grads && p < c->params.count; p++) {
        bool add = false;

        if (!tied_grad(c, p) || !binds(s, i, p, BIND_GRAD))
            continue;
        for (int k = s->first_binding[i->id]; k < s->first_binding[i->id + 1]; k++)
            if (s->p->bindings[k].of == BIND_GRAD && s->p->bindings[k].param == p)
                add = s->p->bindings[k].add;
        push_string(L, add ? "1.0f" : s->p->count[VARIANT_LOCAL] ? "beta" : "0.0f");
    }
    for (int a = 0; a < span->n_args; a++) {
        const char *role;
        int buffer = role_buffer(g, i, &span->args[a], &role);

        if (buffer >= 0)
            push_string(L, s->p->bufs.items[buffer].macro);
        if (span->args[a].kind == ARG_SAVED && i->dropped >= 0)
            push_string(L, s->p->bufs.items[i->dropped].macro);
    }
    lua_setfield(L, -2, "args");
}

/* ---- binders --------------------------------------------------------------------- */

/* Adds the binder's fields of this kind to the list on top. */
static void add_fields(Steps *s, const Binder *b, const Bases *bases, BindOf of)
{
    lua_State *L = s->e->L;

    for (int p = 0; p < b->cls->params.count; p++) {
        const ClassParam *decl = &b->cls->params.items[p];
        const bool scale = of == BIND_SCALE;
        const char *box = scale ? NULL : parts_box(s->g, decl);
        int64_t offset = 0;
        int base = bases_find(s, b->ins, bases, p, of, &offset);

        if (base < 0 || (of == BIND_GRAD && !b->cls->grads[p]) ||
            !binds(s, b->ins, p, of))
            continue;
        lua_newtable(L);
        emit_str(L, "ident",
                 scale ? class_scale(s->g, b->cls, p) : name_param(s->g, decl->ident));
        emit_str(L, "base", base_name(s->g, bases, base));
        emit_str(L, "type", dtype_ctype(bases_dtype(s->g, decl, of)));
        emit_int(L, "offset", offset);
        emit_str(L, "box", box);
        emit_int(L, "box_bytes",
                 box ? layout_box_stride(bases_param(s->g, b->ins, p)) *
                           dtype_bytes(bases_dtype(s->g, decl, of))
                     : 0);
        emit_str(L, "shape", scale ? "[1]" : parts_shape(s->g, decl));
        emit_bool(L, "tied", decl->tied_global);
        lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    }
}

static void push_fields(Steps *s, const Binder *b, const Bases *bases)
{
    lua_State *L = s->e->L;

    lua_newtable(L);
    add_fields(s, b, bases, BIND_WEIGHT);
    add_fields(s, b, bases, BIND_SCALE);
    lua_setfield(L, -2, "weights");
    lua_newtable(L);
    add_fields(s, b, bases, BIND_GRAD);
    lua_setfield(L, -2, "grads");
}

static const char *data_macro(Steps *s, BufKind kind, const char *name)
{
    for (int i = 0; i < s->p->bufs.count; i++) {
        const Buffer *b = &s->p->bufs.items[i];

        if (b->kind == kind && !strcmp(b->name, name))
            return b->macro;
    }
    gen_die("the plan has no buffer %s", name);
}

const char *bind_const(Steps *s, int index)
{
    return data_macro(s, BUF_CONST,
                      gen_printf(s->g, "const_%s", s->g->consts.items[index].name));
}

/* The parameters of a binder. */
static void push_binder_params(Steps *s, const Binder *b, const Bases *bases)
{
    Gen *g = s->g;
    lua_State *L = s->e->L;
    bool grads = false;

    lua_newtable(L);
    for (int k = 0; k < bases->count; k++) {
        push_string(L, gen_printf(g, "int64_t %s", base_name(g, bases, k)));
        grads = grads || bases->items[k].of == BIND_GRAD;
    }
    if (grads && bind_plain_grad(b->cls))
        push_string(L, "float beta");
    for (int p = 0; grads && p < b->cls->params.count; p++)
        if (tied_grad(b->cls, p) && binds(s, b->ins, p, BIND_GRAD))
            push_string(L, gen_printf(g, "float beta_%s",
                                      name_param(g, b->cls->params.items[p].ident)));
    for (int a = 0; a < b->span->n_args; a++) {
        const SpanArg *arg = &b->span->args[a];
        const char *role;
        int buffer = role_buffer(g, b->ins, arg, &role);

        if (buffer >= 0)
            push_string(L, gen_printf(g, "int64_t %s", numbered(g, role, arg->index)));
        if (arg->kind == ARG_SAVED && b->ins->dropped >= 0)
            push_string(L, "int64_t dropped");
    }
    lua_setfield(L, -2, "params");
}

static const char *binder_arg(Steps *s, const Binder *b, const SpanArg *arg)
{
    Gen *g = s->g;
    const char *role;
    int buffer = role_buffer(g, b->ins, arg, &role);

    switch (arg->kind) {
    case ARG_PARAMS: /* in parts an array, one struct for each */
        return g->in_parts ? "w" : "&w";
    case ARG_GRADS:
        return g->in_parts ? "dw" : "&dw";
    case ARG_SAVED:
        return g->in_parts ? "kept" : "&kept";
    case ARG_SCRATCH:
        return g->in_parts ? "temp" : "&temp";
    case ARG_LOSS:
        return "rt_loss_slot(rt)";
    case ARG_LOSS_SCALE:
        return "rt_loss_scale(rt)";
    case ARG_CONST:
        return gen_printf(g, "rt_local(rt, %s)", bind_const(s, arg->index));
    case ARG_DATA:
        return gen_printf(g, "rt_local(rt, %s)",
                          data_macro(s, BUF_DATA, data_names[arg->index]));
    default:
        return buffer < 0
                   ? "NULL"
                   : gen_printf(g, "%s(rt, %s)", bind_space(&s->p->bufs.items[buffer]),
                                numbered(g, role, arg->index));
    }
}

static void push_binder_call(Steps *s, const Binder *b, const Span *span)
{
    lua_State *L = s->e->L;

    lua_newtable(L);
    emit_str(L, "span", span->name);
    lua_newtable(L);
    if (s->g->in_parts)
        push_string(L, "rt_parts(rt)");
    else if (emit_on_device(s->e))
        push_string(L, "rt");
    for (int a = 0; a < span->n_args; a++)
        push_string(L, binder_arg(s, b, &span->args[a]));
    lua_setfield(L, -2, "args");
}

/* The mathematics that a binder calls: one piece, or those of the block in order. */
static void push_binder_calls(Steps *s, const Binder *b)
{
    lua_State *L = s->e->L;
    bool some = b->ins->phase == PHASE_EVALUATE ||
                (b->ins->phase == PHASE_RECOMPUTE &&
                 s->g->blocks.items[b->ins->block].keep == KEEP_SOME);
    int pieces = some ? 0 : b->cls->pieces.count, n = 0;

    lua_newtable(L);
    if (some) {
        push_binder_call(s, b, b->span);
        lua_rawseti(L, -2, ++n);
    }
    for (int k = 0; k < pieces; k++) {
        int piece = class_piece(b->cls, k, b->ins->phase);
        const Span *span = class_span(b->cls, piece, b->ins->phase);

        if (span->n_nodes == 0 || (b->ins->piece >= 0 && b->ins->piece != piece))
            continue;
        push_binder_call(s, b, span);
        lua_rawseti(L, -2, ++n);
    }
    lua_setfield(L, -2, "calls");
}

/* The slab of part p: ", saved + p * 4096". */
static const char *slab_part(Gen *g, const char *name, int64_t bytes)
{
    return g->in_parts ? gen_printf(g, ", %s + p * %lld", name,
                                    (long long)plan_part_stride(bytes))
                       : gen_printf(g, ", %s", name);
}

/* How a binder finds saved values: through a function per class, or another one if some
 * of them are dropped and computed again. */
static const char *saved_call(Steps *s, const Binder *b)
{
    bool saved = b->ins->saved >= 0, dropped = b->ins->dropped >= 0;

    if (!saved && !dropped)
        return NULL;
    return gen_printf(
        s->g, "%s_saved%s_at(rt%s%s)", b->cls->name, dropped ? "_some" : "",
        saved
            ? slab_part(s->g, "saved", dropped ? b->cls->kept_bytes : b->cls->saved_bytes)
            : "",
        dropped ? slab_part(s->g, "dropped", b->cls->dropped_bytes) : "");
}

/* One function of bind.c: turns offsets into the pointers of a class's saved values. */
static void push_saver(Steps *s, const Class *c, bool some)
{
    Gen *g = s->g;
    lua_State *L = s->e->L;

    lua_newtable(L);
    emit_str(L, "class", c->name);
    emit_str(L, "name", gen_printf(g, "%s_saved%s_at", c->name, some ? "_some" : ""));
    emit_bool(L, "saved", !some || c->kept_bytes > 0);
    emit_bool(L, "dropped", some);
    lua_createtable(L, c->saved.count, 0);
    for (int i = 0; i < c->saved.count; i++) {
        const Saved *v = &c->saved.items[i];

        lua_newtable(L);
        emit_str(L, "ident", name_saved(g, v->value->name));
        emit_str(L, "type", dtype_ctype(v->value->dtype));
        emit_str(L, "base", some && v->dropped ? "dropped" : "saved");
        emit_int(L, "offset", some ? v->some_offset_bytes : v->offset_bytes);
        emit_str(L, "shape", show_shape(g, v->value->dim, v->value->n_dims));
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "fields");
}

/* How a binder finds the values that its kernels pass to each other; NULL: there are
 * none. */
static const char *scratch_call(Steps *s, const Binder *b)
{
    return b->ins->scratch < 0 || !scratch_any(b->cls, b->span->phase)
               ? NULL
               : gen_printf(s->g, "%s_at(rt%s)",
                            scratch_struct(s->g, b->cls, b->span->phase),
                            slab_part(s->g, "scratch",
                                      class_scratch_bytes(b->cls, b->span->phase)));
}

/* Field `slabs`: the functions for these values. */
static void push_slabs(Steps *s)
{
    lua_State *L = s->e->L;
    const char **calls = gen_alloc(s->g, sizeof *calls * (size_t)(s->binders.count + 1));
    int n = 0;

    lua_newtable(L);
    for (int k = 0; k < s->binders.count; k++) {
        const Binder *b = &s->binders.items[k];
        const char *call = scratch_call(s, b);
        bool seen = !call;

        for (int i = 0; i < n && !seen; i++)
            seen = !strcmp(calls[i], call);
        if (seen)
            continue;
        calls[n] = call;
        scratch_push(s->e, b->cls, b->span->phase);
        lua_rawseti(L, -2, ++n);
    }
    lua_setfield(L, -2, "slabs");
}

/* Field `savers`: the functions for saved values. */
static void push_savers(Steps *s)
{
    lua_State *L = s->e->L;
    int n = 0;

    lua_newtable(L);
    for (int c = 0; c < s->g->classes.count; c++) {
        for (int some = 0; some < 2; some++) {
            bool used = false;

            for (int k = 0; k < s->binders.count; k++) {
                const Instr *i = s->binders.items[k].ins;

                used =
                    used || (s->binders.items[k].cls == s->g->classes.items[c] &&
                             (some ? i->dropped >= 0 : i->dropped < 0 && i->saved >= 0));
            }
            if (!used)
                continue;
            push_saver(s, s->g->classes.items[c], some);
            lua_rawseti(L, -2, ++n);
        }
    }
    lua_setfield(L, -2, "savers");
}

void bind_push_binders(Steps *s)
{
    Gen *g = s->g;
    lua_State *L = s->e->L;

    emit_bool(L, "in_parts", g->in_parts);
    emit_int(L, "here", plan_parts(g));
    emit_str(L, "slab_space",
             g->in_parts && parts_all_group(&g->model) ? "rt_symmetric" : "rt_local");
    lua_newtable(L);
    for (int k = 0; k < s->binders.count; k++) {
        const Binder *b = &s->binders.items[k];
        Bases bases = bind_bases(s, b->ins);

        lua_newtable(L);
        emit_str(L, "name", b->name);
        emit_str(L, "class", b->cls->name);
        emit_bool(L, "has_beta", bind_plain_grad(b->cls));
        lua_newtable(L);
        for (int j = 0; j < bases.count; j++) {
            const Buffer *buffer = &s->p->bufs.items[bases.items[j].buffer];

            lua_newtable(L);
            emit_str(L, "name", base_name(g, &bases, j));
            emit_str(
                L, "pointer",
                gen_printf(g, "%s(rt, %s)", bind_space(buffer), base_name(g, &bases, j)));
            lua_rawseti(L, -2, j + 1);
        }
        lua_setfield(L, -2, "bases");
        push_fields(s, b, &bases);
        push_binder_params(s, b, &bases);
        push_binder_calls(s, b);
        emit_str(L, "saved", saved_call(s, b));
        emit_str(L, "scratch", scratch_call(s, b));
        if (scratch_call(s, b))
            emit_str(L, "scratch_struct", scratch_struct(g, b->cls, b->span->phase));
        lua_rawseti(L, -2, k + 1);
    }
    lua_setfield(L, -2, "binders");
    push_savers(s);
    push_slabs(s);
}
