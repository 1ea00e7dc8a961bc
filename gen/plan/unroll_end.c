/* SPDX-License-Identifier: Apache-2.0 */
/* unroll_end.c: the end of a step: norms, their one exchange, the updates; then updated
 * weights go to the other ranks that hold them whole, and what is gathered as codes is
 * rounded to them. If the optimizer treats matrices as a whole, they go to the ranks that
 * own them and back. In: the Unroller with the buffers
 * of segments. Out: END's instructions with complete access lists; buffers of matrices.
 *
 * A batch of matrices takes five instructions:
 * 1. Every rank writes the directions of its shard (INS_MOMENTUM).
 * 2. Owners read their matrices (INS_TO_OWNERS).
 * 3. Owners compute (INS_MATRICES).
 * 4. All ranks read their parts of the results over the directions (INS_FROM_OWNERS).
 * 5. All ranks take the step (INS_STEP).
 * A batch travels to its owners while they compute the previous one, and its results
 * return while they compute the next. So at most two batches are alive at once, in bytes
 * that the micro-steps no longer need. */
#include "ops/ops.h"
#include "plan/unroll.h"
#include "base/show.h"

#include <inttypes.h>

/* ---- matrices: buffers ----------------------------------------------------------- */

static int *int_array(Gen *g, int n)
{
    int *a = gen_alloc(g, sizeof(int) * (size_t)(n + 1));
    for (int i = 0; i < n; i++)
        a[i] = -1;
    return a;
}

static void batch_buffers(Unroller *u, const Batch *b)
{
    Gen *g = u->g;
    Dtype d = ops_acc_dtype(g);
    if (g->model.mesh.world_size > 1) {
        u->owned[b->id] = unroll_buffer(
            u, BUF_OWNED, SPACE_SYMMETRIC, gen_printf(g, "owned_%s", b->ident),
            gen_printf(g, "%s %s", show_shape(g, &b->owned_elems, 1), dtype_name(d)),
            b->owned_elems * dtype_bytes(d));
    }
    const int64_t bytes = matrix_whole_at(b) + b->whole_bytes;
    u->workspace[b->id] = unroll_buffer(u, BUF_WORKSPACE, SPACE_LOCAL,
                                        gen_printf(g, "workspace_%s", b->ident),
                                        gen_printf(g, "%" PRId64 " bytes", bytes), bytes);
}

void unroll_matrix_buffers(Unroller *u)
{
    Gen *g = u->g;
    u->direction = int_array(g, g->segments.count);
    u->owned = int_array(g, g->batches.count);
    u->workspace = int_array(g, g->batches.count);
    for (int i = 0; i < g->segments.count; i++) {
        const Segment *s = &g->segments.items[i];
        if (segment_has_matrices(g, s)) {
            u->direction[i] = unroll_flat(u, BUF_DIRECTION, SPACE_SYMMETRIC, "direction",
                                          s, ops_acc_dtype(g), s->shard_elems, 1);
        }
    }
    for (int i = 0; i < g->batches.count; i++)
        batch_buffers(u, &g->batches.items[i]);
}

/* ---- matrices: instructions ------------------------------------------------------ */

static bool in_batch(const Unroller *u, const Batch *b, int segment)
{
    return u->direction[segment] >= 0 && b->first_segment <= segment &&
           segment <= b->last_segment;
}

static Instr *batch_ins(Unroller *u, InsKind kind, const Batch *b)
{
    Instr *i = unroll_ins(u, kind);
    i->batch = b->id;
    i->unit = u->g->segments.items[b->first_segment].unit;
    return i;
}

/* Adds the instructions that make the directions, or take the step with them. */
static void shard_updates(Unroller *u, InsKind kind, const Batch *b)
{
    for (int s = b->first_segment; s <= b->last_segment; s++) {
        bool momentum = kind == INS_MOMENTUM;
        Instr *i;
        if (!in_batch(u, b, s))
            continue;
        i = batch_ins(u, kind, b);
        i->segment = s;
        i->unit = u->g->segments.items[s].unit;
        i->from = momentum ? u->grad_shard[s] : u->direction[s];
        i->to = momentum ? u->direction[s] : u->param_shard[s];
        unroll_uses(u, i);
    }
}

/* The largest share of any rank, which determines the time. */
static int64_t max_moved(const Gen *g, int batch, bool to_owners)
{
    int64_t most = 0;
    for (int r = 0; r < g->model.mesh.world_size; r++) {
        Moved m = matrices_moved(g, batch, r);
        most = max_i64(most, to_owners ? m.to_owners : m.from_owners + m.from_copies);
    }
    return most;
}

/* If each rank has all of its matrices, nothing travels. */
static void to_owners(Unroller *u, const Batch *b)
{
    shard_updates(u, INS_MOMENTUM, b);
    if (b->group) {
        Instr *i = batch_ins(u, INS_TO_OWNERS, b);
        i->group = b->group;
        i->to = u->owned[b->id];
        i->moved_bytes = max_moved(u->g, b->id, true);
        unroll_uses(u, i);
    }
}

static void compute(Unroller *u, const Batch *b)
{
    bool whole = !b->group;
    Instr *i = batch_ins(u, INS_MATRICES, b);
    i->with = u->workspace[b->id];
    i->flops = matrices_max_flops(u->g, b->id);
    i->from = i->to = u->owned[b->id];
    if (whole)
        unroll_directions(u, i, i->to < 0);
    unroll_uses(u, i);
    if (i->to >= 0) {
        Instr *back = batch_ins(u, INS_FROM_OWNERS, b);
        back->group = u->g->model.mesh.all;
        back->from = u->owned[b->id];
        back->moved_bytes = max_moved(u->g, b->id, false);
        unroll_uses(u, back);
    }
}

static void unroll_matrices(Unroller *u)
{
    Gen *g = u->g;
    const Batch *b = g->batches.items;
    int n = g->batches.count;
    bool alone = g->model.mesh.world_size == 1; /* nothing travels: one after the other */
    for (int i = 0; i < n; i++) {
        if (i == 0 || alone)
            to_owners(u, &b[i]);
        if (i + 1 < n && !alone)
            to_owners(u, &b[i + 1]);
        compute(u, &b[i]);
        if (i > 0 && !alone)
            shard_updates(u, INS_STEP, &b[i - 1]);
        if (i + 1 == n || alone)
            shard_updates(u, INS_STEP, &b[i]);
    }
}

/* ---- the end --------------------------------------------------------------------- */

static void share(Unroller *u, int segment)
{
    if (mesh_shares_updates(&u->g->segments.items[segment]))
        unroll_gather_updated(u, segment);
}

/* Spans of the next step read what END gathers, so END ends when all of that has
 * arrived. */
static void close_step(Unroller *u)
{
    bool any = false;
    for (int s = 0; s < u->g->segments.count; s++)
        any = any || mesh_shares_updates(&u->g->segments.items[s]);
    if (any)
        unroll_uses(u, unroll_ins(u, INS_CLOSE));
}

static void norms(Unroller *u)
{
    Gen *g = u->g;
    Instr *i;
    for (int s = g->segments.count - 1; s >= 0; s--) { /* in order of reductions' ends */
        if (!g->segments.items[s].trainable)
            continue;
        i = unroll_ins(u, INS_NORM);
        i->segment = s;
        i->unit = g->segments.items[s].unit;
        i->from = u->grad_shard[s];
        unroll_uses(u, i);
    }
    i = unroll_ins(u, INS_NORM_REDUCE);
    i->group = g->model.mesh.all;
    i->moved_bytes = (g->model.mesh.world_size - 1) *
                     (int64_t)(SUPERACC_WORDS * 8 + g->model.micro_batches * 8);
    unroll_uses(u, i);
}

static void update(Unroller *u, int segment)
{
    Instr *i = unroll_ins(u, INS_UPDATE);
    i->segment = segment;
    i->unit = u->g->segments.items[segment].unit;
    i->from = u->grad_shard[segment];
    i->to = u->param_shard[segment];
    unroll_uses(u, i);
}

/* What is gathered as codes: the largest element of each weight, of all ranks, and codes
 * by their scales. */
static void encode(Unroller *u)
{
    Gen *g = u->g;
    const InsKind kinds[] = {INS_LARGEST, INS_LARGEST_REDUCE, INS_ENCODE};
    if (u->scales < 0)
        return;
    for (int k = 0; k < 3; k++) {
        for (int s = 0; s < g->segments.count; s++) {
            const Segment *seg = &g->segments.items[s];
            Instr *i;
            if (!segment_has_codes(seg) || !seg->trainable)
                continue;
            i = unroll_ins(u, kinds[k]);
            if (kinds[k] == INS_LARGEST_REDUCE) {
                i->group = g->model.mesh.all;
                i->moved_bytes =
                    (g->model.mesh.world_size - 1) * g->prog.bufs.items[u->largest].bytes;
                unroll_uses(u, i);
                break;
            }
            i->segment = s;
            i->unit = seg->unit;
            i->from = u->param_shard[s];
            i->to = kinds[k] == INS_ENCODE ? u->codes[s] : -1;
            unroll_uses(u, i);
        }
    }
}

/* In the order in which the next forward needs the weights. */
void unroll_end(Unroller *u)
{
    Gen *g = u->g;
    norms(u);
    for (int s = 0; s < g->segments.count; s++) {
        const Segment *seg = &g->segments.items[s];
        if (seg->trainable && !(g->batches.count && max_nonmatrix_elems(g, seg) == 0))
            update(u, s);
        if (u->direction[s] < 0)
            share(u, s);
    }
    unroll_matrices(u);
    for (int s = 0; s < g->segments.count; s++)
        if (u->direction[s] >= 0)
            share(u, s);
    encode(u);
    close_step(u);
}
