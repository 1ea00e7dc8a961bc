/* SPDX-License-Identifier: Apache-2.0 */
/* matrices.c: which rank computes which matrix of the optimizer, and which matrices
 * travel together.
 *
 * In: Param.matrix, g->shapes (optimizer.c) and segments (shard). Out: g->matrices and
 * g->batches. Breaks: nothing. All of it is outside the numerics hash, because the
 * owner computes a whole matrix, whichever rank it is.
 *
 * 1. A batch is the fewest adjacent segments that together have a matrix for each rank
 *    (the last batch takes the remainder). So all ranks have work, and the data on its
 *    way is small compared with the model.
 * 2. Each matrix of a batch is assigned to one of all ranks, the largest first: to the
 *    rank with the least work in this batch; among equals, with the least work in
 *    earlier batches; then to the one that holds most of the matrix already; then to
 *    the lowest. */
#include "ops/ops.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

static void add_matrix(Gen *g, const Param *p, const char *part, int64_t element,
                       int64_t rows)
{
    Matrix *m = gen_push(g, &g->matrices);
    const MatrixShape *shape;

    m->id = g->matrices.count - 1;
    m->param = p->id;
    m->name =
        part ? gen_printf(g, "%s%s", p->decl->tied_global ? "" : p->block->prefix, part)
             : p->name;
    m->element = element;
    m->rows = rows;
    m->cols = p->decl->dim[1];
    shape = optimizer_shape(g, m->rows, m->cols);
    gen_require(shape, "%s has no shape", m->name);
    m->node = shape->node;
    m->lr_adjust = shape->lr_adjust;
}

static void add_segment(Gen *g, const Segment *s)
{
    for (int i = 0; i < s->n_params; i++) {
        const Param *p = &g->params.items[s->params[i]];
        const ClassParam *d = p->decl;
        int64_t row = 0;

        if (!p->matrix)
            continue;
        for (int k = 0; k < d->n_parts; k++) {
            add_matrix(g, p, d->part_name[k], row * d->dim[1], d->part_rows[k]);
            row += d->part_rows[k];
        }
        if (d->n_parts == 0)
            add_matrix(g, p, NULL, 0, d->dim[0]);
    }
}

static int segment_matrices(const Gen *g, const Segment *s)
{
    int n = 0;

    for (int i = 0; i < s->n_params; i++) {
        const Param *p = &g->params.items[s->params[i]];

        n += p->matrix ? (p->decl->n_parts ? p->decl->n_parts : 1) : 0;
    }
    return n;
}

static void name_batch(Gen *g, Batch *b)
{
    const Segment *first = &g->segments.items[b->first_segment],
                  *last = &g->segments.items[b->last_segment];
    bool one = first == last;

    b->name = one ? first->name : gen_printf(g, "%s..%s", first->name, last->name);
    b->ident = one ? first->ident : gen_printf(g, "%s_to_%s", first->ident, last->ident);
}

/* A matrix that is stored as boxes becomes one tensor beside the workspace. */
static void add_to_batch(const Gen *g, Batch *b, Matrix *m)
{
    const Param *p = &g->params.items[m->param];
    const Segment *s = &g->segments.items[p->segment];
    const int64_t bytes = m->rows * m->cols * dtype_bytes(ops_acc_dtype(g));

    m->batch = b->id;
    b->group |= s->within | s->axes;
    b->workspace_bytes = max_i64(b->workspace_bytes, m->node->workspace_bytes);
    if (layout_boxes(p) > 1)
        b->whole_bytes = max_i64(b->whole_bytes, bytes);
}

static void make_batches(Gen *g)
{
    Batch *b = NULL;

    for (int i = 0; i < g->segments.count; i++) {
        int n = segment_matrices(g, &g->segments.items[i]), first = g->matrices.count;

        if (n == 0)
            continue;
        add_segment(g, &g->segments.items[i]);
        if (!b || b->n_matrices >= g->model.mesh.world_size) {
            b = gen_push(g, &g->batches);
            *b = (Batch){
                .id = g->batches.count - 1, .first_segment = i, .first_matrix = first};
        }
        b->last_segment = i;
        b->n_matrices += n;
    }
    if (g->batches.count > 1 &&
        b->n_matrices < g->model.mesh.world_size) { /* the remainder */
        b[-1].last_segment = b->last_segment;
        b[-1].n_matrices += b->n_matrices;
        g->batches.count--;
    }
    for (int i = 0; i < g->batches.count; i++) {
        Batch *batch = &g->batches.items[i];

        name_batch(g, batch);
        for (int k = 0; k < batch->n_matrices; k++)
            add_to_batch(g, batch, &g->matrices.items[batch->first_matrix + k]);
    }
}

/* ---- what a rank holds ----------------------------------------------------------- */

/* Rows of a parameter that are consecutive in a stored box: `rows` of `cols` elements,
 * the first at `offset` of the segment; it is the parameter's row `row`. */
typedef struct BoxRows {
    int64_t offset, row, rows, cols;
} BoxRows;

/* How many elements of a matrix's rows they have between lo and hi of the segment. */
static int64_t elems_between(const BoxRows *b, const Box *rows, int64_t lo, int64_t hi)
{
    const int64_t first = max_i64(rows->from[0], b->row) - b->row;
    const int64_t end = min_i64(rows->to[0], b->row + b->rows) - b->row;

    return first < end ? max_i64(0, min_i64(b->offset + end * b->cols, hi) -
                                        max_i64(b->offset + first * b->cols, lo))
                       : 0;
}

/* A box has consecutive rows of each section, or, if boxes are columns, a piece of every
 * row. */
int64_t matrix_held(const Gen *g, const Matrix *m, Coordinate at)
{
    const Param *p = &g->params.items[m->param];
    const Box rows = layout_rows(p, m->element / m->cols, m->rows);
    const int boxes = layout_boxes(p);
    const bool columns = boxes > 1 && p->cut_dim == 1;
    const int64_t shard = g->segments.items[p->segment].shard_elems;
    const int sections = columns || p->sections.n == 0 ? 1 : p->sections.n;
    int64_t n = 0;

    for (int k = 0; k < layout_held_boxes(p); k++) {
        BoxRows b = {.offset = p->offset_elems + k * layout_box_stride(p),
                     .cols = columns ? m->cols / boxes : m->cols};
        int64_t section = 0;

        for (int i = 0; i < sections; i++) {
            const int64_t all =
                sections > 1 ? p->sections.elems[i] : p->decl->dim[0] + p->sections.pad;

            b.rows = columns ? all : all / boxes;
            b.row = columns ? 0 : section + layout_box(g, p, at.along, k) * b.rows;
            n += elems_between(&b, &rows, at.part * shard, (at.part + 1) * shard);
            b.offset += b.rows * b.cols;
            section += all;
        }
    }
    return n;
}

/* Number of second moments of a parameter's elements between lo and hi of the segment,
 * with what lies between its boxes. After its last one, padding aligns those of the next
 * parameter. */
static int64_t others_between(const Param *p, int64_t lo, int64_t hi)
{
    const int64_t end = p->offset_elems + p->held_elems;
    const int64_t n = max_i64(0, min_i64(end, hi) - max_i64(p->offset_elems, lo));

    return end <= hi ? round_up(n, OTHERS_ALIGN_ELEMS) : n;
}

int64_t nonmatrix_elems(const Gen *g, const Segment *s, int64_t flat)
{
    int64_t n = 0, lo = flat / s->shard_elems * s->shard_elems;

    for (int i = 0; i < s->n_params; i++) {
        const Param *p = &g->params.items[s->params[i]];

        if (!p->matrix)
            n += others_between(p, lo, flat);
    }
    return n;
}

int64_t max_nonmatrix_elems(const Gen *g, const Segment *s)
{
    int64_t most = 0;

    for (int64_t k = 1; k <= s->shards; k++) {
        int64_t n = 0;

        for (int i = 0; i < s->n_params; i++) {
            const Param *p = &g->params.items[s->params[i]];

            if (!p->matrix)
                n += others_between(p, (k - 1) * s->shard_elems, k * s->shard_elems);
        }
        most = max_i64(most, n);
    }
    return most;
}

bool segment_has_matrices(const Gen *g, const Segment *s)
{
    return segment_matrices(g, s) > 0;
}

/* ---- owners ---------------------------------------------------------------------- */

static int by_flops(const void *a, const void *b)
{
    const Matrix *x = *(Matrix *const *)a, *y = *(Matrix *const *)b;

    if (x->node->flops != y->node->flops)
        return x->node->flops > y->node->flops ? -1 : 1;
    return x->id - y->id;
}

/* Elements of the matrix in rank's shard. */
static int64_t held(const Gen *g, const Matrix *m, int rank)
{
    const Param *p = &g->params.items[m->param];

    return matrix_held(g, m, layout_of(&g->segments.items[p->segment], rank));
}

/* Should r rather than owner compute the matrix? Flops are whole numbers, so sums are
 * exact. */
static bool has_less(const Gen *g, const Matrix *m, int r, int owner, const double *now,
                     const double *before)
{
    if (now[r] != now[owner])
        return now[r] < now[owner];
    if (before[r] != before[owner])
        return before[r] < before[owner];
    return held(g, m, r) > held(g, m, owner);
}

static void deal_batch(Gen *g, Batch *b, double *load)
{
    int w = (int)g->model.mesh.world_size;
    Matrix **sorted = gen_alloc(g, sizeof *sorted * (size_t)b->n_matrices);
    int64_t *owned = gen_alloc(g, sizeof *owned * (size_t)w);
    double *now = gen_alloc(g, sizeof *now * (size_t)w);

    for (int i = 0; i < b->n_matrices; i++)
        sorted[i] = &g->matrices.items[b->first_matrix + i];
    qsort(sorted, (size_t)b->n_matrices, sizeof *sorted, by_flops);
    for (int i = 0; i < b->n_matrices; i++) {
        int owner = 0;

        for (int r = 1; r < w; r++)
            owner = has_less(g, sorted[i], r, owner, now, load) ? r : owner;
        sorted[i]->owner = owner;
        now[owner] += sorted[i]->node->flops;
        load[owner] += sorted[i]->node->flops;
    }
    for (int i = 0; i < b->n_matrices; i++) { /* in the order of their places there */
        Matrix *m = &g->matrices.items[b->first_matrix + i];

        m->owned_elems = owned[m->owner];
        owned[m->owner] += round_up(m->rows * m->cols, OWNED_ALIGN_ELEMS);
        b->owned_elems = max_i64(b->owned_elems, owned[m->owner]);
    }
}

void matrices_deal(Gen *g)
{
    double *load = gen_alloc(g, sizeof *load * (size_t)(g->model.mesh.world_size + 1));

    make_batches(g);
    for (int i = 0; i < g->batches.count; i++)
        deal_batch(g, &g->batches.items[i], load);
}

double matrices_flops(const Gen *g, int batch, int rank)
{
    double flops = 0;

    for (int i = 0; i < g->matrices.count; i++) {
        const Matrix *m = &g->matrices.items[i];

        if ((batch < 0 || m->batch == batch) && (rank < 0 || m->owner == rank))
            flops += m->node->flops;
    }
    return flops;
}

double matrices_max_flops(const Gen *g, int batch)
{
    double most = 0;

    for (int r = 0; r < g->model.mesh.world_size; r++) {
        double flops = matrices_flops(g, batch, r);

        most = flops > most ? flops : most;
    }
    return most;
}

/* ---- bytes ----------------------------------------------------------------------- */

Moved matrices_moved(const Gen *g, int batch, int rank)
{
    int64_t item = dtype_bytes(ops_acc_dtype(g));
    RankBits replicate = g->model.mesh.axis[AXIS_REPLICATE].bits;
    Moved moved = {0};

    for (int i = 0; i < g->matrices.count; i++) {
        const Matrix *m = &g->matrices.items[i];
        int64_t here;

        if (batch >= 0 && m->batch != batch)
            continue;
        here = held(g, m, rank);
        if (m->owner == rank)
            moved.to_owners += (m->rows * m->cols - here) * item;
        else if (((RankBits)(m->owner ^ rank) & replicate) == 0)
            moved.from_owners += here * item;
        else
            moved.from_copies += here * item;
    }
    return moved;
}
