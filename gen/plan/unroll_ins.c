/* SPDX-License-Identifier: Apache-2.0 */
/* unroll_ins.c: the instructions of unroll with all their accesses. In: the Unroller's
 * order of spans, gathers and reductions, its buffers. Out: instructions with complete
 * access lists, the only source of conflicts for placement and scheduling; bindings of
 * weights and gradients. */
#include "ops/ops.h"
#include "plan/unroll.h"

#include <string.h>

/* ---- instructions ---------------------------------------------------------------- */

/* The order of additions of a kind that sums. */
static SumOrder sum_order(const Gen *g, InsKind kind)
{
    return !ins_rule(kind)->sums    ? ORDER_NONE
           : g->model.library_order ? ORDER_LIBRARY
                                    : ORDER_TREE;
}

Instr *unroll_ins(Unroller *u, InsKind kind)
{
    Instr *i = gen_push(u->g, &u->p->ins);
    i->id = u->p->ins.count - 1;
    i->kind = kind;
    i->variant = u->variant;
    i->stream = ins_rule(kind)->stream;
    i->order = sum_order(u->g, kind);
    i->block = i->piece = i->unit = i->segment = i->batch = -1;
    i->from = i->to = i->with = -1;
    i->in = i->out = i->d_in = i->d_out = i->saved = i->scratch = -1;
    i->logits = i->dropped = -1;
    i->phase = PHASE_FORWARD;
    return i;
}

/* One access per (buffer, remote); a write includes a read. */
void unroll_touch(Unroller *u, Instr *i, int buffer, bool write, bool remote)
{
    Access *grown;
    if (buffer < 0)
        return;
    for (int a = 0; a < i->n_access; a++) {
        if (i->access[a].buffer == buffer && i->access[a].remote == remote) {
            i->access[a].write = i->access[a].write || write;
            return;
        }
    }
    if ((i->n_access & (i->n_access - 1)) == 0) { /* grows at powers of two */
        grown =
            gen_alloc(u->g, sizeof *grown * (size_t)(i->n_access ? i->n_access * 2 : 1));
        if (i->n_access)
            memcpy(grown, i->access, sizeof *grown * (size_t)i->n_access);
        i->access = grown;
    }
    i->access[i->n_access++] =
        (Access){.buffer = buffer, .write = write, .remote = remote};
}

/* ---- accesses by kind (kinds.c) -------------------------------------------------- */

/* Accesses of every segment of the instruction's batch, or of every segment that END
 * gathers. */
static void touch_segments(Unroller *u, Instr *i, InsUse use)
{
    for (int k = 0; k < u->g->segments.count; k++) {
        const Segment *s = &u->g->segments.items[k];
        if (use.what == USES_SHARED && mesh_shares_updates(s)) {
            unroll_touch(u, i, u->param_shard[k], use.write, use.peers);
        } else if (use.what == USES_DIRECTIONS) {
            const Batch *b = &u->g->batches.items[i->batch];
            if (b->first_segment <= k && k <= b->last_segment)
                unroll_touch(u, i, u->direction[k], use.write, use.peers);
        }
    }
}

void unroll_directions(Unroller *u, Instr *i, bool write)
{
    touch_segments(u, i, (InsUse){USES_DIRECTIONS, write, false});
}

static int used_buffer(const Unroller *u, const Instr *i, UseOf what)
{
    return what == USES_FROM      ? i->from
           : what == USES_TO      ? i->to
           : what == USES_WITH    ? i->with
           : what == USES_MASTER  ? u->master[i->segment]
           : what == USES_MOMENT1 ? u->moment1[i->segment]
           : what == USES_MOMENT2 ? u->moment2[i->segment]
           : what == USES_CONTROL ? u->control
           : what == USES_LARGEST ? u->largest
           : what == USES_SCALES  ? u->scales
                                  : u->staging;
}

void unroll_uses(Unroller *u, Instr *i)
{
    for (const InsUse *use = ins_rule(i->kind)->uses; use->what != USES_END; use++)
        if (use->what == USES_DIRECTIONS || use->what == USES_SHARED)
            touch_segments(u, i, *use);
        else
            unroll_touch(u, i, used_buffer(u, i, use->what), use->write, use->peers);
}

/* ---- collectives of segments, what is kept, merges ------------------------------- */

/* What spans read of a segment, at rest. */
static int resting_buffer(const Unroller *u, int segment)
{
    return u->codes[segment] >= 0 ? u->codes[segment] : u->param_shard[segment];
}

static int weight_buffer(const Unroller *u, int pos, int segment)
{
    if (!u->g->segments.items[segment].cut[HELD_PARAMS])
        return resting_buffer(u, segment);
    for (int i = 0; i < u->n_inst; i++)
        if (u->inst[i].segment == segment && u->inst[i].first <= pos &&
            pos <= u->inst[i].last)
            return u->inst[i].buffer;
    gen_die("segment %d is not gathered at position %d", segment, pos);
}

void unroll_gather(Unroller *u, const Instance *inst)
{
    const Segment *s = &u->g->segments.items[inst->segment];
    Instr *i = unroll_ins(u, INS_ALL_GATHER);
    i->segment = s->id;
    i->unit = s->unit;
    i->phase = part_of(u->seq[inst->first].phase);
    if (u->variant == VARIANT_EVAL && i->phase != PHASE_FORWARD)
        i->phase = PHASE_EVALUATE;
    i->to = inst->buffer;
    i->from = inst->from_kept ? u->kept[s->id] : resting_buffer(u, s->id);
    i->group = inst->from_kept ? s->between : s->within;
    i->dtype = s->gathered;
    i->elems = s->elems / group_ranks(i->group);
    i->moved_bytes = (group_ranks(i->group) - 1) * i->elems * dtype_bytes(i->dtype);
    unroll_uses(u, i);
}

/* After the last reader of the forward, from the buffer that it read. */
void unroll_keep(Unroller *u, int segment)
{
    const Segment *s = &u->g->segments.items[segment];
    Instr *i = unroll_ins(u, INS_KEEP);
    i->segment = segment;
    i->unit = s->unit;
    i->from = weight_buffer(u, u->keep_at[segment], segment);
    i->to = u->kept[segment];
    unroll_uses(u, i);
}

/* In place: each rank's updated part of the weights, to all ranks that hold them
 * whole. */
void unroll_gather_updated(Unroller *u, int segment)
{
    const Segment *s = &u->g->segments.items[segment];
    Instr *i = unroll_ins(u, INS_GATHER_UPDATED);
    i->segment = segment;
    i->unit = s->unit;
    i->group = s->within;
    i->from = i->to = u->param_shard[segment];
    i->dtype = s->dtype;
    i->elems = s->shard_elems;
    i->moved_bytes = (group_ranks(i->group) - 1) * i->elems * dtype_bytes(i->dtype);
    unroll_uses(u, i);
}

/* Elements that the group's first rank reads from others to sum its part of elems. */
static int64_t summed_elems(const Unroller *u, RankBits group, int64_t part,
                            int64_t elems)
{
    int64_t ranks = group_ranks(group), read = 0;
    int64_t mates = group_ranks(mesh_mates(u->g, group));
    if (!mesh_two_hops(u->g, group))
        return (ranks - 1) * part;
    for (int64_t k = 0; k < ranks; k += mates)
        read += (mates - 1) * max_i64(0, min_i64(part, elems - k * part));
    return read + (ranks / mates - 1) * part;
}

void unroll_reduce(Unroller *u, int segment)
{
    const Segment *s = &u->g->segments.items[segment];
    Instr *i = unroll_ins(u, INS_REDUCE_SCATTER);
    i->segment = segment;
    i->unit = s->unit;
    i->phase = PHASE_BACKWARD;
    i->group = s->within;
    i->from = u->grad[segment];
    i->to = u->grad_shard[segment];
    i->dtype = u->g->model.reduce_dtype;
    i->elems = s->shard_elems;
    i->moved_bytes =
        summed_elems(u, i->group, i->elems, s->elems) * dtype_bytes(i->dtype);
    unroll_uses(u, i);
    if (mesh_two_hops(u->g, i->group)) /* the first hop leaves its sums there */
        unroll_touch(u, i, i->from, true, false);
    u->reduce_order[u->n_reduces++] = segment;
}

/* In place: each rank reads a slice of every copy's part to sum it, then the slices that
 * the others have summed. */
void unroll_all_reduce(Unroller *u, int segment)
{
    const Segment *s = &u->g->segments.items[segment];
    Instr *i = unroll_ins(u, INS_ALL_REDUCE);
    int64_t copies = group_ranks(s->across);
    int64_t slice = min_i64(
        s->shard_elems, round_up((s->shard_elems + copies - 1) / copies, GRAIN_ELEMS));
    i->segment = segment;
    i->unit = s->unit;
    i->phase = PHASE_BACKWARD;
    i->group = s->across;
    i->from = i->to = u->grad_shard[segment];
    i->dtype = u->g->model.reduce_dtype;
    i->elems = s->shard_elems;
    i->moved_bytes = (summed_elems(u, i->group, slice, i->elems) + i->elems - slice) *
                     dtype_bytes(i->dtype);
    unroll_uses(u, i);
}

void unroll_merge(Unroller *u, int segment)
{
    const Segment *s = &u->g->segments.items[segment];
    bool sharded = u->g->model.accumulate_sharded || !plan_collectives(u->g);
    Instr *i = unroll_ins(u, INS_MERGE);
    i->segment = segment;
    i->unit = s->unit;
    i->phase = PHASE_BACKWARD;
    i->from = i->to = sharded ? u->grad_shard[segment] : u->grad[segment];
    i->with = u->partials[segment];
    unroll_uses(u, i);
}

/* ---- spans ----------------------------------------------------------------------- */

static void bind(Unroller *u, int ins, int param, int buffer, int64_t offset_bytes,
                 BindOf of, bool add)
{
    struct Binding *b;
    void *items = u->p->bindings;
    b = gen_push_(u->g, &items, &u->p->n_bindings, &u->p->cap_bindings, sizeof *b);
    u->p->bindings = items;
    b->ins = ins;
    b->param = param;
    b->buffer = buffer;
    b->offset_bytes = offset_bytes;
    b->of = of;
    b->add = add;
}

static void bind_params(Unroller *u, Instr *i, int pos, const Block *b)
{
    const SpanUse *use = seq_use(u, &u->seq[pos]);
    const Model *m = &u->g->model;
    int ph = use_of(i->phase);
    for (int p = 0; p < b->cls->params.count; p++) {
        const Param *param = &u->g->params.items[b->param[p]];
        if (use->reads[ph][p]) {
            int buffer = weight_buffer(u, pos, param->segment);
            unroll_touch(u, i, buffer, false, false);
            bind(u, i->id, p, buffer,
                 param->offset_elems * dtype_bytes(param->decl->gathered), BIND_WEIGHT,
                 false);
        }
        if (use->scales[ph][p]) {
            unroll_touch(u, i, u->scales, false, false);
            bind(u, i->id, p, u->scales, param->scale * dtype_bytes(ops_acc_dtype(u->g)),
                 BIND_SCALE, false);
        }
        if (use->writes[ph][p]) {
            int buffer = u->grad[param->segment];
            unroll_touch(u, i, buffer, true, false);
            bind(u, i->id, p, buffer, param->offset_elems * dtype_bytes(m->reduce_dtype),
                 BIND_GRAD, u->param_written[param->id]);
            u->param_written[param->id] = true;
        }
    }
}

static void touch_arg(Unroller *u, Instr *i, const SpanArg *a, const Block *b)
{
    bool back = i->phase == PHASE_BACKWARD, again = i->phase == PHASE_RECOMPUTE;
    bool after_forward = i->phase == PHASE_FORWARD || i->phase == PHASE_EVALUATE;
    int before = b->id > 0 ? u->out[b->id - 1] : -1;
    int d_before = b->id > 0 ? u->d_out[b->id - 1] : -1;
    switch (a->kind) {
    case ARG_PARAMS:
    case ARG_GRADS:
        break; /* bind_params does these */
    case ARG_CONST:
        unroll_touch(u, i, u->consts[a->index], false, false);
        break;
    case ARG_DATA:
        unroll_touch(u, i, u->data[a->index], false, false);
        break;
    case ARG_IN:
        i->in = before;
        unroll_touch(u, i, before + a->index, false, false);
        break;
    case ARG_OUT:
        i->out = again || (back && b->keep == KEEP_INPUT) ? u->out_again[b->id]
                                                          : u->out[b->id];
        unroll_touch(u, i, i->out + a->index, !back, false);
        break;
    case ARG_DOUT:
        i->d_out = u->d_out[b->id];
        unroll_touch(u, i, i->d_out + a->index, false, false);
        break;
    case ARG_DIN:
        i->d_in = d_before;
        unroll_touch(u, i, d_before + a->index, true, false);
        break;
    case ARG_LOSS:
        gen_require(!again, "%s: a loss is computed again", b->name);
        unroll_touch(u, i, u->control, true, false);
        break;
    case ARG_LOSS_SCALE: /* a number */
        break;
    case ARG_LOGITS:
        i->logits = u->logits;
        unroll_touch(u, i, i->logits, true, false);
        break;
    case ARG_SAVED: /* the backward may overwrite what it no longer needs */
        i->saved =
            b->keep == KEEP_INPUT && after_forward ? u->dropped[b->id] : u->saved[b->id];
        unroll_touch(u, i, i->saved, i->phase != PHASE_EVALUATE, false);
        if (b->keep == KEEP_SOME) {
            i->dropped = after_forward ? u->dropped[b->id] : u->again[b->id];
            unroll_touch(u, i, i->dropped, i->phase != PHASE_EVALUATE, false);
        }
        break;
    case ARG_SCRATCH:
        i->scratch = again                        ? u->scratch_again[b->id]
                     : i->phase == PHASE_EVALUATE ? u->scratch_evaluate
                                                  : u->scratch[back][b->id];
        unroll_touch(u, i, i->scratch, true, false);
        break;
    }
}

static bool holds_values(BufKind k)
{
    return k == BUF_BOUNDARY || k == BUF_D_BOUNDARY || k == BUF_SAVED || k == BUF_SCRATCH;
}

/* In the span's meets, ranks along their axes read what their parts have of each value.
 * Ranks that differ along two axes wait for each other by way of a third. */
static void join_parts(Unroller *u, Instr *i, const Span *span)
{
    const Gen *g = u->g;
    const int n = i->n_access;
    for (int k = 0; g->in_parts && k < span->n_nodes; k++)
        if (node_joins(span->nodes[k]))
            i->group |= parts_group(&g->model, span->nodes[k]->along);
    for (int a = 0; i->group && a < n; a++)
        if (holds_values(u->p->bufs.items[i->access[a].buffer].kind))
            unroll_touch(u, i, i->access[a].buffer, false, true);
}

void unroll_span(Unroller *u, int pos)
{
    const SeqSpan *s = &u->seq[pos];
    const Block *b = &u->g->blocks.items[s->block];
    const Span *span = block_span(b, s->piece, s->phase);
    Instr *i = unroll_ins(u, INS_SPAN);
    i->block = s->block;
    i->piece = s->piece;
    i->unit = s->unit;
    i->phase = s->phase;
    for (int k = 0; k < span->n_nodes; k++)
        i->flops += span->nodes[k]->flops * (double)plan_calls(u->g, span->nodes[k]);
    for (int a = 0; a < N_PARTS_AXES; a++)
        i->moved_bytes += plan_span_met_bytes(u->g, span, a);
    bind_params(u, i, pos, b);
    for (int a = 0; a < span->n_args; a++)
        touch_arg(u, i, &span->args[a], b);
    join_parts(u, i, span);
}
