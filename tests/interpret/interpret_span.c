/* SPDX-License-Identifier: Apache-2.0 */
/* interpret_span: calls of spans on simulated ranks. Comes in: a machine, an instruction.
 * Goes out: what the mathematics, a callback, wrote. In parts a rank's call consists of a
 * call for each part that it computes. If the span joins ranks, it is run once for all of
 * them, so that meets find what peers have. */
#include "interpret_machine.h"

#include <string.h>

/* One rank's call of a span for one of its parts: the k-th, or all there is. */
typedef struct Binder {
    Machine *m;
    const Instr *i;
    const Turn *t;
    int rank, k;
} Binder;

/* Where the part's value lies in a buffer with a slab for each part of the rank. */
static char *slab(const Binder *b, int buffer, int64_t bytes)
{
    const Buffer *buf = buffer >= 0 ? &b->m->p->bufs.items[buffer] : NULL;
    const int64_t at = b->k * plan_part_stride(bytes);

    if (!buf)
        return NULL;
    if (b->k > 0 && at + bytes > buf->bytes)
        b->m->run->fault =
            gen_printf(b->m->g, "part %d has no room in %s", b->k, buf->name);
    return interp_at(b->m, b->rank, buffer) + (at + bytes > buf->bytes ? 0 : at);
}

static char *value_slab(const Binder *b, int first, int k, const Value *v)
{
    return slab(b, first < 0 ? -1 : first + k, v ? v->bytes : 0);
}

/* The place of the rank's k-th part along an axis. */
static int place_along(const Gen *g, int k, PartsAxis axis)
{
    const int context = plan_parts_along(g, PARTS_CONTEXT);
    return axis == PARTS_CONTEXT ? k % context : k / context;
}

/* Which of the rank's boxes is its part's: it has those of a part of features together.
 */
static int box_of(const Binder *b, const ClassParam *decl)
{
    const Gen *g = b->m->g;
    int box = 0;

    for (int a = 0; a < N_PARTS_AXES; a++)
        if (decl->mark[a].kind == PART_CUT)
            box = box * plan_parts_along(g, a) + place_along(g, b->k, a);
    return box;
}

/* Weights and gradients; of a parameter that is cut, the part's box. */
static void bind_param(const Binder *b, const struct Binding *at, SpanCall *c)
{
    const Gen *g = b->m->g;
    const Param *p = &g->params.items[g->blocks.items[b->i->block].param[at->param]];
    const Dtype d = at->of == BIND_GRAD ? g->model.reduce_dtype : p->decl->gathered;
    char *bytes = interp_at(b->m, b->rank, at->buffer) + at->offset_bytes;

    if (at->of == BIND_SCALE) {
        c->scale[at->param] = bytes;
        return;
    }
    bytes += box_of(b, p->decl) * layout_box_stride(p) * dtype_bytes(d);
    if (at->of == BIND_GRAD) {
        c->grad[at->param] = bytes;
        c->grad_add[at->param] = at->add || b->t->micro > 0;
    } else {
        c->weight[at->param] = bytes;
    }
}

static void bind_params(const Binder *b, SpanCall *c)
{
    const Program *p = b->m->p;

    for (int k = 0; k < p->n_bindings; k++)
        if (p->bindings[k].ins == b->i->id)
            bind_param(b, &p->bindings[k], c);
}

static void bind_boundaries(const Binder *b, SpanCall *c)
{
    const Class *cls = c->cls;

    for (int k = 0; k < cls->n_inputs; k++) {
        c->in[k] = value_slab(b, b->i->in, k, cls->inputs[k]);
        c->d_in[k] =
            value_slab(b, b->i->d_in, k, cls->d_inputs ? cls->d_inputs[k] : NULL);
    }
    for (int k = 0; k < cls->n_outputs; k++) {
        c->out[k] = value_slab(b, b->i->out, k, cls->outputs[k]);
        c->d_out[k] =
            value_slab(b, b->i->d_out, k, cls->d_outputs ? cls->d_outputs[k] : NULL);
    }
}

/* Where each saved value lies: in the slab of all, or in that of those kept or dropped.
 */
static void bind_saved(const Binder *b, SpanCall *c)
{
    const Class *cls = c->cls;
    const bool some = b->m->g->blocks.items[b->i->block].keep == KEEP_SOME;
    char *dropped = slab(b, b->i->dropped, cls->dropped_bytes);

    c->saved = slab(b, b->i->saved, some ? cls->kept_bytes : cls->saved_bytes);
    c->saved_at =
        gen_alloc(b->m->g, sizeof *c->saved_at * (size_t)(cls->saved.count + 1));
    for (int k = 0; k < cls->saved.count; k++) {
        const Saved *s = &cls->saved.items[k];
        char *from = some && s->dropped ? dropped : c->saved;

        c->saved_at[k] =
            from ? from + (some ? s->some_offset_bytes : s->offset_bytes) : NULL;
    }
}

static void bind_call(const Binder *b, SpanCall *c)
{
    Machine *m = b->m;
    Gen *g = m->g;
    const int control = interp_find_buffer(m, BUF_CONTROL, -1);
    size_t n;

    c->cls = g->blocks.items[b->i->block].cls;
    n = (size_t)c->cls->params.count + 1;
    c->weight = gen_alloc(g, sizeof *c->weight * n);
    c->scale = gen_alloc(g, sizeof *c->scale * n);
    c->grad = gen_alloc(g, sizeof *c->grad * n);
    c->grad_add = gen_alloc(g, n);
    bind_params(b, c);
    bind_boundaries(b, c);
    bind_saved(b, c);
    c->constant = (const char **)m->constants;
    for (int k = 0, data = interp_find_buffer(m, BUF_DATA, -1); k < N_DATA; k++)
        if (k == DATA_PART)
            c->data[k] = c->part;
        else if (k != DATA_STARTS || g->model.packed)
            c->data[k] = (const int32_t *)interp_at(m, b->rank, data++);
    c->logits = b->i->logits >= 0 ? interp_at(m, b->rank, b->i->logits) : NULL;
    c->loss =
        (double *)interp_at(m, b->rank, control) + interp_micro_batch(m, b->rank, b->t);
    c->scratch = slab(b, b->i->scratch, class_scratch_bytes(c->cls, b->i->phase));
}

/* Does its phase of the block begin with this call? Then nothing lies in its scratch. */
static bool opens_block(const Instr *i, const Class *c)
{
    for (int k = 0; i->piece >= 0 && class_piece(c, k, i->phase) != i->piece; k++)
        if (class_span(c, class_piece(c, k, i->phase), i->phase)->n_nodes > 0)
            return false;
    return true;
}

/* A call of one piece of the block, or of those in turn, as the emitted step makes it. */
static void call_span(Machine *m, const Instr *i, SpanCall *c)
{
    const bool some = i->phase == PHASE_EVALUATE ||
                      (i->phase == PHASE_RECOMPUTE &&
                       m->g->blocks.items[i->block].keep == KEEP_SOME); /* one span */
    const int pieces = some ? 1 : c->cls->pieces.count;

    for (int k = 0; k < pieces && !m->run->fault; k++) {
        const int piece = some ? i->piece : class_piece(c->cls, k, i->phase);

        c->span = some ? ins_span(m->g, i) : class_span(c->cls, piece, i->phase);
        if (c->span->n_nodes > 0 && (i->piece < 0 || i->piece == piece))
            m->run->fault = m->run->span(m->run->ctx, c);
    }
}

static void clear_scratch(Machine *m, int rank, const Instr *i)
{
    const Block *b = &m->g->blocks.items[i->block];
    const bool all = i->phase == PHASE_EVALUATE ||
                     (i->phase == PHASE_RECOMPUTE && b->keep == KEEP_SOME);

    if (i->scratch >= 0 && (all || opens_block(i, b->cls)))
        interp_poison(m, rank, i->scratch);
}

/* The call's parts; first: the call of the rank's first part. */
static void place_call(const Binder *b, const SpanCall *first, SpanCall *c)
{
    const Gen *g = b->m->g;
    const int context = plan_parts_along(g, PARTS_CONTEXT);

    for (int a = 0; a < N_PARTS_AXES; a++)
        c->part[a] =
            group_index(parts_group(&g->model, a), b->rank) * plan_parts_along(g, a) +
            place_along(g, b->k, a);
    for (unsigned axes = 0; axes < 1u << N_PARTS_AXES; axes++)
        c->has[axes] = first + (axes >> PARTS_TENSOR & 1 ? b->k / context * context : 0) +
                       (axes >> PARTS_CONTEXT & 1 ? b->k % context : 0);
}

/* Of all ranks that it joins; without a group, of this one. */
void interp_run_span(Machine *m, int rank, int e)
{
    const Instr *i = &m->p->ins.items[m->ins[e]];
    const Turn *t = &m->turn[m->turn_of[e]];
    const int here = plan_parts(m->g), members = i->group ? group_ranks(i->group) : 1;
    SpanCall *calls = gen_alloc(m->g, sizeof *calls * (size_t)(members * here));
    SpanCall c;

    for (int n = 0; n < members * here; n++) {
        const int q = i->group ? interp_member(i, rank, n / here) : rank;
        const Binder b = {m, i, t, q, n % here};

        if (b.k == 0)
            clear_scratch(m, q, i);
        calls[n] = (SpanCall){.g = m->g, .rank = q, .block = i->block};
        place_call(&b, &calls[n - b.k], &calls[n]);
        bind_call(&b, &calls[n]);
    }
    c = calls[0];
    if (m->g->in_parts) {
        c.parts = calls;
        c.n_parts = members * here;
    }
    if (!m->run->fault)
        call_span(m, i, &c);
    for (int n = 0; n < members && !m->run->fault; n++) {
        calls[n * here].span = ins_span(m->g, i);
        interp_check_evaluation(m, calls[n * here].rank, i, t, &calls[n * here]);
    }
}
