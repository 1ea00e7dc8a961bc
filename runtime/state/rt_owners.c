/* SPDX-License-Identifier: MIT-0 */
/* rt_owners.c: moves matrices that an optimizer treats as a whole to the ranks that own
 * them and back, by exchanges, for both targets.
 *
 * In: tables of matrices and batches, directions in the ranks' shards. Out: the exchange
 * of a batch each way: the owner of a matrix gets its parts from the ranks of its own
 * copy of the model, which together hold all of it; then every rank of all copies gets
 * its part of the result. So the work is divided among all ranks, even if each of them
 * holds everything: this costs a fraction of a sum over copies, and saves time of the
 * longest products of the step. One rank computes a matrix on fixed tiles (rt_matrix.c),
 * so the bits depend on neither mesh nor owners.
 *
 * A matrix travels in the order in which the ranks along the axes of its segment store
 * it, stretch after stretch (rt_map.h): so a rank sends its piece of a stretch at once,
 * and not row by row. Where a matrix is stored as boxes, the owner copies their rows side
 * by side before it computes, and back. */
#include "rt_target.h"
#include "state/rt_matrix.h"

/* ---- places ---------------------------------------------------------------------- */

static const RtSegment *segment_of(const RtTrainer *t, const RtMatrix *m)
{
    return &t->segments[t->params[m->param].segment];
}

/* Symmetric offsets of an element: of a shard's directions; of a matrix, as its owner
 * has it. */
static int64_t direction_at(const RtTrainer *t, const RtMatrix *m, int64_t elem)
{
    return segment_of(t, m)->direction + elem * rt_sum_bytes(t);
}

static int64_t owned_at(const RtTrainer *t, const RtBatch *b, const RtMatrix *m,
                        int64_t elem)
{
    return b->owned + (m->owned_elems + elem) * rt_sum_bytes(t);
}

/* ---- the exchange ---------------------------------------------------------------- */

typedef struct Listing {
    const Rt *rt;
    const RtBatch *batch;
    const RtMatrix *matrix;
    RtGroup holders; /* of the owner: those that send it their parts, or all ranks */
    bool back;
    RtTransferFn *fn;
    void *ctx;
} Listing;

static void list_stretch(void *ctx, const RtStretch *x)
{
    const Listing *l = ctx;
    const RtTrainer *t = l->rt->trainer;
    const RtMatrix *m = l->matrix;
    const RtSegment *s = segment_of(t, m);
    for (int k = 0; k < rt_group_ranks(l->holders); k++) {
        const int holder = rt_group_rank(l->holders, m->owner, k);
        const RtRun run = rt_stretch_run(t, m, x, rt_coordinate(s, holder));
        const int64_t before = x->before_elems + run.element - x->number;
        const int64_t held = direction_at(t, m, run.shard_offset_elems),
                      owned = owned_at(t, l->batch, m, before);
        const RtTransfer transfer =
            l->back ? (RtTransfer){m->owner, holder, owned, held, run.elems}
                    : (RtTransfer){holder, m->owner, held, owned, run.elems};
        if (run.elems > 0)
            l->fn(l->ctx, &transfer);
    }
}

/* Lists the parts of the batch's matrices, between their owners and their holders. */
static void list(const Rt *rt, const RtOp *op, bool back, RtTransferFn *fn, void *ctx)
{
    const RtTrainer *t = rt->trainer;
    const RtBatch *b = op->of;
    for (int i = 0; i < b->n_matrices; i++) {
        const RtMatrix *m = &t->matrices[b->first_matrix + i];
        const RtSegment *s = segment_of(t, m);
        Listing l = {.rt = rt,
                     .batch = b,
                     .matrix = m,
                     .holders = back ? op->group : s->within | s->axes,
                     .back = back,
                     .fn = fn,
                     .ctx = ctx};
        rt_matrix_stretches(t, m, list_stretch, &l);
    }
}

static void to_owners(const Rt *rt, const RtOp *op, RtTransferFn *fn, void *ctx)
{
    list(rt, op, false, fn, ctx);
}

static void from_owners(const Rt *rt, const RtOp *op, RtTransferFn *fn, void *ctx)
{
    list(rt, op, true, fn, ctx);
}

static RtOp exchange(const RtTrainer *t, int batch)
{
    return (RtOp){.kind = RT_OP_EXCHANGE,
                  .dtype = t->param_dtype == RT_F64 ? RT_F64 : RT_F32, /* dtype of sums */
                  .subject = rt_subject_batch(t, batch),
                  .of = &t->batches[batch]};
}

void rt_to_owners_start(Rt *rt, int batch)
{
    RtOp op = exchange(rt->trainer, batch);
    op.group = rt->trainer->batches[batch].group;
    op.transfers = to_owners;
    rt_collective_start(rt, RT_GATHER, op);
}

void rt_from_owners_start(Rt *rt, int batch)
{
    RtOp op = exchange(rt->trainer, batch);
    op.group = rt->trainer->all;
    op.transfers = from_owners;
    rt_collective_start(rt, RT_REDUCE, op);
}

void rt_wait_to_owners(Rt *rt, int batch)
{
    rt_collective_wait(rt, RT_GATHER, rt_subject_batch(rt->trainer, batch));
}

void rt_wait_from_owners(Rt *rt, int batch)
{
    rt_collective_wait(rt, RT_REDUCE, rt_subject_batch(rt->trainer, batch));
}

/* ---- at the owner ---------------------------------------------------------------- */

/* A copy between the boxes of a matrix and the whole one. */
typedef struct Laying {
    Rt *rt;
    const RtBatch *batch;
    const RtMatrix *matrix;
    bool owned; /* the boxes are those that were gathered, not this rank's directions */
    bool back;  /* into the boxes */
} Laying;

/* Copies rows of a stretch: a piece of each section of its columns, if boxes cut them. */
static void lay_stretch(void *ctx, const RtStretch *x)
{
    const Laying *l = ctx;
    const RtTrainer *t = l->rt->trainer;
    const RtMatrix *m = l->matrix;
    const RtParam *p = &t->params[m->param];
    const bool columns = x->cols < m->cols;
    const int n_sections = columns && p->n_sections > 0 ? p->n_sections : 1;
    const int64_t *sections = n_sections > 1 ? p->sections : &m->cols;
    const int64_t item = rt_sum_bytes(t), pieces = columns ? rt_boxes(t, p) : 1;
    const int64_t boxed = l->owned ? owned_at(t, l->batch, m, x->before_elems)
                                   : direction_at(t, m, x->at_elems);
    int64_t section = 0, in_row = 0;
    for (int c = 0; c < n_sections; c++) {
        const int64_t cols = sections[c] / pieces;
        const int64_t col = section + (columns ? x->box * cols : 0);
        const RtRows box = {rt_symmetric(l->rt, boxed + in_row * item), x->cols * item};
        const RtRows whole = {
            rt_local(l->rt, l->batch->whole + (x->row * m->cols + col) * item),
            m->cols * item};
        rt_copy_rows(l->rt, l->back ? box : whole, l->back ? whole : box, cols * item,
                     x->elems / x->cols);
        section += sections[c];
        in_row += cols;
    }
}

static bool in_boxes(const RtTrainer *t, const RtMatrix *m)
{
    return rt_boxes(t, &t->params[m->param]) > 1;
}

/* Where the matrix lies as one tensor: in its only stretch. */
static void take_place(void *ctx, const RtStretch *x)
{
    *(int64_t *)ctx = x->at_elems;
}

char *rt_matrix_open(Rt *rt, const RtBatch *b, const RtMatrix *m)
{
    const RtTrainer *t = rt->trainer;
    Laying l = {.rt = rt, .batch = b, .matrix = m, .owned = b->group != 0};
    int64_t at = 0;
    if (in_boxes(t, m)) {
        rt_matrix_stretches(t, m, lay_stretch, &l);
        return rt_local(rt, b->whole);
    }
    if (b->group != 0)
        return rt_symmetric(rt, owned_at(t, b, m, 0));
    rt_matrix_stretches(t, m, take_place, &at);
    return rt_symmetric(rt, direction_at(t, m, at));
}

char *rt_matrix_result(Rt *rt, const RtBatch *b, const RtMatrix *m, char *open)
{
    const RtTrainer *t = rt->trainer;
    return in_boxes(t, m) || b->owned < 0 ? open : rt_symmetric(rt, owned_at(t, b, m, 0));
}

void rt_matrix_close(Rt *rt, const RtBatch *b, const RtMatrix *m)
{
    Laying l = {.rt = rt, .batch = b, .matrix = m, .owned = b->owned >= 0, .back = true};
    if (in_boxes(rt->trainer, m))
        rt_matrix_stretches(rt->trainer, m, lay_stretch, &l);
}
