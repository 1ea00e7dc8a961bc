/* SPDX-License-Identifier: Apache-2.0 */
/* unroll_bufs.c: the buffers of the step. In: the Unroller's order of spans, gathers and
 * reductions. Out: buffers without offsets.
 *
 * The symmetric space holds what peers access: parameter shards and kept parts (gathers
 * read them), gradient buffers (reductions read them), gradient shards that copies sum in
 * place, the runtime's exchange area. Everything else is local. If a rank holds a
 * segment's weights whole, spans read them at rest and nothing is gathered. Of weights
 * that are gathered as codes (graph/encode.c), all of this holds of the codes. If it
 * holds all of the state too, spans write the gradient to the place of its sum. */
#include "plan/unroll.h"
#include "base/show.h"
#include "ops/ops.h"

#include <string.h>

/* ---- buffers --------------------------------------------------------------------- */

int unroll_buffer(Unroller *u, BufKind kind, Space space, const char *name,
                  const char *what, int64_t bytes)
{
    Buffer *b = gen_push(u->g, &u->p->bufs);
    b->id = u->p->bufs.count - 1;
    b->kind = kind;
    b->space = space;
    b->name = name;
    b->what = what;
    b->bytes = bytes;
    b->persistent = kind < BUF_GATHERED;
    b->segment = b->block = -1;
    b->offset_bytes = -1;
    return b->id;
}

int unroll_flat(Unroller *u, BufKind kind, Space space, const char *prefix,
                const Segment *s, Dtype dtype, int64_t elems, int64_t levels)
{
    Gen *g = u->g;
    const int64_t dim[] = {levels, elems};
    const int first = levels == 1; /* with one level: [elems] alone */
    const char *what =
        gen_printf(g, "%s %s", show_shape(g, dim + first, 2 - first), dtype_name(dtype));
    int id = unroll_buffer(u, kind, space, gen_printf(g, "%s_%s", prefix, s->ident), what,
                           levels * elems * dtype_bytes(dtype));
    u->p->bufs.items[id].segment = s->id;
    return id;
}

/* Between GPUs, ranks write into the receivers' buffers. */
static Space gathered_space(const Unroller *u)
{
    return u->g->model.target->peers_write_gathered ? SPACE_SYMMETRIC : SPACE_LOCAL;
}

static int *int_array(Gen *g, int n)
{
    int *a = gen_alloc(g, sizeof(int) * (size_t)(n + 1));
    memset(a, -1, sizeof(int) * (size_t)(n + 1));
    return a;
}

static void gradient_buffers(Unroller *u, const Segment *s)
{
    const Model *m = &u->g->model;
    int i = s->id;
    Space space = s->across ? SPACE_SYMMETRIC : SPACE_LOCAL;
    bool sharded = m->accumulate_sharded || !plan_collectives(u->g);
    u->grad_shard[i] = unroll_flat(u, BUF_GRAD_SHARD, space, "grad_shard", s,
                                   m->reduce_dtype, s->shard_elems, 1);
    if (u->p->partial_levels > 0) {
        u->partials[i] =
            unroll_flat(u, BUF_PARTIAL, SPACE_LOCAL, "partials", s, m->reduce_dtype,
                        sharded ? s->shard_elems : s->elems, u->p->partial_levels);
    }
    if (!s->within) {
        u->grad[i] = u->grad_shard[i];
    } else if (variant_turns(u->g, VARIANT_LOCAL) > 0) {
        u->grad[i] = unroll_flat(u, BUF_GRAD_ACCUM, SPACE_SYMMETRIC, "grad_accum", s,
                                 m->reduce_dtype, s->elems, 1);
    }
}

/* Where matrices have one moment, everything else has a second one, in a buffer of its
 * own. */
static void second_moments(Unroller *u, const Segment *s)
{
    const Model *m = &u->g->model;
    int64_t elems = u->g->batches.count ? max_nonmatrix_elems(u->g, s) : s->shard_elems;
    if (m->moments > 1 && elems > 0) {
        u->moment2[s->id] = unroll_flat(u, BUF_MOMENT2, SPACE_LOCAL, "moment2", s,
                                        m->moments_dtype, elems, 1);
    }
}

static void segment_buffers(Unroller *u)
{
    Gen *g = u->g;
    const Model *m = &g->model;
    int n = g->segments.count;
    u->param_shard = int_array(g, n);
    u->codes = int_array(g, n);
    u->master = int_array(g, n);
    u->moment1 = int_array(g, n);
    u->moment2 = int_array(g, n);
    u->grad_shard = int_array(g, n);
    u->partials = int_array(g, n);
    u->grad = int_array(g, n);
    for (int i = 0; i < n; i++) {
        const Segment *s = &g->segments.items[i];
        u->param_shard[i] = unroll_flat(u, BUF_PARAM_SHARD, SPACE_SYMMETRIC,
                                        "param_shard", s, s->dtype, s->param_elems, 1);
        if (segment_has_codes(s)) {
            u->codes[i] = unroll_flat(u, BUF_CODES, SPACE_SYMMETRIC, "codes", s,
                                      s->gathered, s->param_elems, 1);
        }
        if (!s->trainable)
            continue;                   /* frozen: no gradient, no state */
        if (segment_has_master(m, s)) { /* otherwise the shard is the master */
            u->master[i] = unroll_flat(u, BUF_MASTER, SPACE_LOCAL, "master", s,
                                       m->master_dtype, s->shard_elems, 1);
        }
        if (m->moments > 0) {
            u->moment1[i] = unroll_flat(u, BUF_MOMENT1, SPACE_LOCAL, "moment1", s,
                                        m->moments_dtype, s->shard_elems, 1);
        }
        second_moments(u, s);
        gradient_buffers(u, s);
    }
}

static void shared_buffers(Unroller *u)
{
    Gen *g = u->g;
    const Model *m = &g->model;
    int64_t tokens = m->micro_batch * m->seq_tokens;
    const char *what = gen_printf(g, "%s i32", show_shape(g, &tokens, 1));
    u->consts = int_array(g, g->consts.count);
    for (int i = 0; i < g->consts.count; i++) {
        u->consts[i] = unroll_buffer(
            u, BUF_CONST, SPACE_LOCAL, gen_printf(g, "const_%s", g->consts.items[i].name),
            gen_printf(g, "%lld bytes", (long long)g->consts.items[i].bytes),
            g->consts.items[i].bytes);
    }
    for (int i = 0; i < N_DATA; i++) {
        bool used = i == DATA_STARTS ? m->packed : i != DATA_PART, row = i == DATA_ROW;
        u->data[i] = used ? unroll_buffer(u, BUF_DATA, SPACE_LOCAL, data_names[i],
                                          row ? "[1] i32" : what, row ? 4 : tokens * 4)
                          : -1;
    }
    u->control = unroll_buffer(
        u, BUF_CONTROL, SPACE_SYMMETRIC, "control", "losses, exchange",
        round_up(m->micro_batches * 8 + SUPERACC_WORDS * 8 + CONTROL_EXTRA_BYTES, 256));
}

/* The largest elements of weights that are gathered as codes, and their scales. */
static void scale_buffers(Unroller *u)
{
    Gen *g = u->g;
    const Dtype dtype = ops_acc_dtype(g);
    int64_t n = 0;
    for (int i = 0; i < g->params.count; i++)
        n += g->params.items[i].scale >= 0;
    u->largest = u->scales = -1;
    if (n == 0)
        return;
    u->largest = unroll_buffer(u, BUF_LARGEST, SPACE_SYMMETRIC, "largest",
                               gen_printf(g, "%s i32", show_shape(g, &n, 1)), n * 4);
    u->scales =
        unroll_buffer(u, BUF_SCALES, SPACE_LOCAL, "scales",
                      gen_printf(g, "%s %s", show_shape(g, &n, 1), dtype_name(dtype)),
                      n * dtype_bytes(dtype));
}

/* Workspace of the target's libraries, fixed here so that nothing is allocated later. And
 * the parts of a segment that a rank receives from others to add them; if the buffer is
 * smaller, the runtime takes them slice by slice, in whole grains. All that ranks send
 * and receive is in the symmetric space (rt_nccl.c). */
static void target_buffers(Unroller *u)
{
    Gen *g = u->g;
    const Model *m = &g->model;
    int64_t most = 0,
            row = m->mesh.world_size * GRAIN_ELEMS * dtype_bytes(m->reduce_dtype);
    u->staging = -1;
    for (int i = 0; i < g->segments.count; i++) {
        const Segment *s = &g->segments.items[i];
        if (s->trainable && (s->within || s->across))
            most = max_i64(most, s->elems * dtype_bytes(m->reduce_dtype));
    }
    if (most > 0 && !m->library_order && m->target->staging_bytes) {
        int64_t bytes =
            max_i64(row, min_i64(round_up(most, row), m->target->staging_bytes));
        u->staging = unroll_buffer(u, BUF_STAGING, SPACE_SYMMETRIC, "staging",
                                   "parts of other ranks, to be added", bytes);
    }
    if (m->target->peers_write_gathered && g->in_parts && parts_all_group(m))
        unroll_buffer(u, BUF_MEETING, SPACE_SYMMETRIC, "meeting",
                      "what parts of other ranks have, in a meet", plan_meeting_bytes(g));
    if (m->target->library_workspace_bytes) {
        unroll_buffer(u, BUF_LIBRARY, SPACE_LOCAL, "library",
                      "workspace of matrix products", m->target->library_workspace_bytes);
    }
}

static const char *value_text(Gen *g, const Value *v)
{
    return gen_printf(g, "%s %s", shape_text(g, v), dtype_name(v->dtype));
}

/* Values of a block: of all parts that this rank computes. Those of other ranks' parts
 * read them in meets. */
static int value_buffer(Unroller *u, const Block *b, BufKind kind, const char *name,
                        const char *what, int64_t bytes)
{
    const Gen *g = u->g;
    const bool meets = g->in_parts && parts_all_group(&g->model);
    int id = unroll_buffer(u, kind, meets ? SPACE_SYMMETRIC : SPACE_LOCAL, name, what,
                           plan_parts_bytes(g, bytes));
    u->p->bufs.items[id].block = b->id;
    return id;
}

/* One buffer per output, with consecutive ids. Returns the first. */
static int boundary_buffers(Unroller *u, const Block *b, BufKind kind, const char *prefix,
                            Value *const *values)
{
    int first = -1;
    for (int i = 0; i < b->cls->n_outputs; i++) {
        const Value *v = values[i] ? values[i] : b->cls->outputs[i];
        const char *name = i == 0 ? gen_printf(u->g, "%s_%s", prefix, b->ident)
                                  : gen_printf(u->g, "%s_%s_%d", prefix, b->ident, i);
        int id =
            value_buffer(u, b, kind, name, value_text(u->g, v), values[i] ? v->bytes : 0);
        first = first < 0 ? id : first;
    }
    return first;
}

static int slab_buffer(Unroller *u, const Block *b, BufKind kind, const char *name,
                       int64_t bytes)
{
    if (bytes == 0)
        return -1;
    return value_buffer(u, b, kind, name,
                        gen_printf(u->g, "%lld bytes", (long long)bytes), bytes);
}

static bool makes_out(const Span *s)
{
    for (int a = 0; a < s->n_args; a++)
        if (s->args[a].kind == ARG_OUT)
            return true;
    return false;
}

/* For a recomputed block: the slab that its first forward fills in vain, and the buffers
 * of its second run. */
static void again_buffers(Unroller *u, const Block *b)
{
    Gen *g = u->g;
    const Class *c = b->cls;
    const Span *s = block_span(b, -1, PHASE_RECOMPUTE);
    u->dropped[b->id] =
        slab_buffer(u, b, BUF_SCRATCH, gen_printf(g, "dropped_%s", b->ident),
                    b->keep == KEEP_SOME ? c->dropped_bytes : c->saved_bytes);
    if (b->keep == KEEP_SOME) {
        u->again[b->id] = slab_buffer(
            u, b, BUF_SAVED, gen_printf(g, "again_%s", b->ident), c->dropped_bytes);
    }
    if (makes_out(s)) {
        u->out_again[b->id] =
            boundary_buffers(u, b, BUF_SCRATCH, "out_again", c->outputs);
    }
    u->scratch_again[b->id] = slab_buffer(
        u, b, BUF_SCRATCH, gen_printf(g, "scratch_%s_again", b->ident), s->scratch_bytes);
}

static void block_buffers(Unroller *u)
{
    Gen *g = u->g;
    int n = g->blocks.count;
    u->out = int_array(g, n);
    u->d_out = int_array(g, n);
    u->saved = int_array(g, n);
    u->scratch[0] = int_array(g, n);
    u->scratch[1] = int_array(g, n);
    u->dropped = int_array(g, n);
    u->out_again = int_array(g, n);
    u->scratch_again = int_array(g, n);
    u->again = int_array(g, n);
    for (int i = 0; i < n; i++) {
        const Block *b = &g->blocks.items[i];
        const Class *c = b->cls;
        if (i + 1 < n) {
            u->out[i] = boundary_buffers(u, b, BUF_BOUNDARY, "out", c->outputs);
            if (c->d_outputs && c->d_outputs[0]) {
                u->d_out[i] =
                    boundary_buffers(u, b, BUF_D_BOUNDARY, "d_out", c->d_outputs);
            }
        }
        u->saved[i] = slab_buffer(u, b, BUF_SAVED, gen_printf(g, "saved_%s", b->ident),
                                  b->keep == KEEP_SOME ? c->kept_bytes : c->saved_bytes);
        u->scratch[0][i] =
            slab_buffer(u, b, BUF_SCRATCH, gen_printf(g, "scratch_%s_forward", b->ident),
                        c->forward.scratch_bytes);
        u->scratch[1][i] =
            slab_buffer(u, b, BUF_SCRATCH, gen_printf(g, "scratch_%s_backward", b->ident),
                        c->backward.scratch_bytes);
        if (b->keep != KEEP_ALL)
            again_buffers(u, b);
    }
}

static void gathered_buffers(Unroller *u)
{
    Gen *g = u->g;
    for (int i = 0; i < u->n_inst; i++) {
        Instance *in = &u->inst[i];
        const Segment *s = &g->segments.items[in->segment];
        const char *phase =
            u->seq[in->first].phase == PHASE_FORWARD ? "forward" : "backward";
        int again = 1;
        for (int j = 0; j < i; j++) {
            again += u->inst[j].segment == in->segment &&
                     part_of(u->seq[u->inst[j].first].phase) ==
                         part_of(u->seq[in->first].phase);
        }
        if (in->from_kept && u->kept[s->id] < 0) {
            u->kept[s->id] =
                unroll_flat(u, BUF_KEPT, SPACE_SYMMETRIC, "kept", s, s->gathered,
                            s->elems / group_ranks(s->between), 1);
        }
        in->buffer = unroll_flat(u, BUF_GATHERED, gathered_space(u), "gathered", s,
                                 s->gathered, s->elems, 1);
        u->p->bufs.items[in->buffer].name =
            again == 1 ? gen_printf(g, "gathered_%s_%s", s->ident, phase)
                       : gen_printf(g, "gathered_%s_%s_%d", s->ident, phase, again);
    }
}

/* What the forward of training gathers is gathered to the same place; what evaluation
 * reads after it gets a place of its own. */
void unroll_evaluate_buffers(Unroller *u, const Unroller *training)
{
    Gen *g = u->g;
    const Block *b = &g->blocks.items[g->blocks.count - 1];
    const Span *s = &b->cls->evaluate;
    for (int i = 0; i < u->n_inst; i++) {
        Instance *in = &u->inst[i];
        const Segment *seg = &g->segments.items[in->segment];
        in->buffer = -1;
        for (int k = 0; k < training->n_inst; k++) {
            const Instance *t = &training->inst[k];
            if (u->seq[in->first].phase == PHASE_FORWARD && t->segment == in->segment &&
                t->first == in->first)
                in->buffer = t->buffer;
        }
        if (in->buffer < 0) {
            in->buffer = unroll_flat(u, BUF_GATHERED, gathered_space(u), "gathered", seg,
                                     seg->gathered, seg->elems, 1);
            u->p->bufs.items[in->buffer].name =
                gen_printf(g, "gathered_%s_evaluate", seg->ident);
        }
    }
    u->scratch_evaluate =
        slab_buffer(u, b, BUF_SCRATCH, gen_printf(g, "scratch_%s_evaluate", b->ident),
                    s->scratch_bytes);
    for (int a = 0; a < s->n_args; a++) {
        if (s->args[a].kind == ARG_LOGITS) {
            u->logits =
                unroll_buffer(u, BUF_LOGITS, SPACE_LOCAL, "logits",
                              value_text(g, s->args[a].value), s->args[a].value->bytes);
        }
    }
}

void unroll_buffers(Unroller *u)
{
    Gen *g = u->g;
    segment_buffers(u);
    shared_buffers(u);
    scale_buffers(u);
    target_buffers(u);
    u->kept = int_array(g, g->segments.count);
    gathered_buffers(u);
    for (int i = 0; i < g->segments.count; i++) {
        if (u->grad[i] < 0 && g->segments.items[i].trainable) {
            u->grad[i] =
                unroll_flat(u, BUF_GRAD, SPACE_SYMMETRIC, "grad", &g->segments.items[i],
                            g->model.reduce_dtype, g->segments.items[i].elems, 1);
        }
    }
    block_buffers(u);
    unroll_matrix_buffers(u);
}
