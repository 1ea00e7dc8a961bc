/* SPDX-License-Identifier: MIT-0 */
/* rt_map.c: the one map of where elements are. In: the tables of segments and parameters,
 * a box of a parameter, a mesh coordinate. Out: runs: elements of the box that are
 * consecutive both in the parameter and in the shard there. Initial weights, updates,
 * checkpoints, hashes and debugging all use it. Stretches, where the elements of a whole
 * matrix are in the boxes of all ranks. And which parts a rank computes.
 *
 * A parameter is stored as boxes, one or more, cut along cut_dim: box p has the p-th
 * piece of each section of that dim. A box is a tensor of its own, row-major. Ranks along
 * a segment's axes each hold an equal share of the boxes, those of the parts that they
 * compute: the first at offset_elems of the segment, each further one at the next grain.
 * The segment's elements are then divided into shards. gen/plan/layout.c is the same map
 * in the generator. */
#include "rt_target.h"
#include "state/rt_state.h"

size_t rt_dtype_bytes(RtDtype d)
{
    return d == RT_F64 ? 8 : d == RT_F32 ? 4 : d == RT_E4M3 || d == RT_E5M2 ? 1 : 2;
}

static int64_t shard_first(const Rt *rt, const RtSegment *s)
{
    return rt_group_index(s->within, rt->rank) * s->shard_elems;
}

int64_t rt_param_part(const Rt *rt, const RtSegment *s)
{
    const int64_t item = (int64_t)rt_dtype_bytes(s->dtype);
    return s->param_shard + (s->params_whole ? shard_first(rt, s) * item : 0);
}

static int boxes_of(const RtSegment *s, const RtParam *p)
{
    return p->boxes > 1 ? p->boxes : rt_group_ranks(s->axes);
}

int rt_boxes(const RtTrainer *t, const RtParam *p)
{
    return boxes_of(&t->segments[p->segment], p);
}

/* Of the dim that boxes cut: all sections, and padding if boxes do not divide it. */
static int64_t cut_size(const RtParam *p)
{
    int64_t size = p->n_sections ? 0 : p->dim[p->cut_dim];
    for (int i = 0; i < p->n_sections; i++)
        size += p->sections[i];
    return size;
}

/* The boxes of one rank, the elements of one, and from one to the next. */
static int held_boxes(const RtSegment *s, const RtParam *p)
{
    return boxes_of(s, p) / rt_group_ranks(s->axes);
}

/* The number of the k-th box of ranks whose number along the segment's axes is `along`.
 * Of boxes along two axes, a rank has some of the inner ones of some of the outer ones.
 */
static int held_box(const RtTrainer *t, const RtParam *p, int along, int k)
{
    const RtSegment *s = &t->segments[p->segment];
    const RtGroup context = s->axes & t->context_ranks;
    const int outer_ranks = rt_group_ranks(s->axes & ~context);
    const int held = held_boxes(s, p);
    if (p->inner_boxes <= 1)
        return along * held + k;
    const int inner = p->inner_boxes / rt_group_ranks(context);
    const int outer = along % outer_ranks * (held / inner) + k / inner;
    return outer * p->inner_boxes + along / outer_ranks * inner + k % inner;
}

static int64_t box_elems(const RtSegment *s, const RtParam *p)
{
    return p->elems / p->dim[p->cut_dim] * cut_size(p) / boxes_of(s, p);
}

static int64_t box_stride(const RtSegment *s, const RtParam *p)
{
    const int64_t grains = (box_elems(s, p) + RT_GRAIN_ELEMS - 1) / RT_GRAIN_ELEMS;
    return grains * RT_GRAIN_ELEMS;
}

int64_t rt_held_elems(const RtSegment *s, const RtParam *p)
{
    return (held_boxes(s, p) - 1) * box_stride(s, p) + box_elems(s, p);
}

RtBox rt_box_rows(const RtParam *p, int64_t first, int64_t rows)
{
    RtBox box = {{first}, {first + rows}};
    for (int d = 1; d < p->n_dims; d++)
        box.to[d] = p->dim[d];
    return box;
}

RtCoordinate rt_coordinate(const RtSegment *s, int rank)
{
    return (RtCoordinate){rt_group_index(s->axes, rank), rt_group_index(s->within, rank)};
}

/* The intersection of a box of indices with one section of a stored box. */
typedef struct BoxPart {
    const RtParam *param;
    int param_id;
    int64_t offset;             /* of the stored box in its segment */
    int64_t elems;              /* of the stored box */
    int64_t dim[RT_MAX_DIMS];   /* likewise */
    int64_t first[RT_MAX_DIMS]; /* an index here plus this is the parameter's */
    int64_t from[RT_MAX_DIMS], to[RT_MAX_DIMS]; /* of the intersection, here */
    int last;    /* the dims after it are whole, here and in the parameter: */
    int64_t row; /* so this many elements are consecutive */
    RtRunFn fn;
    void *ctx;
} BoxPart;

/* A piece of a section of the cut dim: where it starts, in the parameter and in the
 * stored box, and how long it is. */
typedef struct SectionPiece {
    int64_t first, at, size;
} SectionPiece;

/* False if the intersection is empty. */
static bool box_part(BoxPart *b, int boxes, const RtBox *box, const SectionPiece *piece)
{
    const RtParam *p = b->param;
    for (int d = 0; d < p->n_dims; d++) {
        const bool cut = boxes > 1 && d == p->cut_dim;
        const int64_t at = cut ? piece->at : 0, end = cut ? at + piece->size : p->dim[d];
        b->dim[d] = cut ? cut_size(p) / boxes : p->dim[d];
        b->first[d] = cut ? piece->first - at : 0;
        const int64_t from = box->from[d] - b->first[d], to = box->to[d] - b->first[d];
        b->from[d] = from > at ? from : at;
        b->to[d] = to < end ? to : end;
        if (b->from[d] >= b->to[d])
            return false;
    }
    b->row = 1;
    for (b->last = p->n_dims - 1; b->last > 0; b->last--) {
        if (b->to[b->last] - b->from[b->last] < p->dim[b->last])
            break;
        b->row *= b->dim[b->last];
    }
    return true;
}

/* Skips indices of dim 0 without elements between lo and hi of the segment. False: none
 * has any. */
static bool skip_rows(BoxPart *b, int64_t lo, int64_t hi)
{
    const int64_t row = b->elems / b->dim[0], offset = b->offset;
    if (hi <= offset)
        return false;
    const int64_t first = lo > offset ? (lo - offset) / row : 0;
    const int64_t end = (hi - offset + row - 1) / row;
    b->from[0] = b->from[0] > first ? b->from[0] : first;
    b->to[0] = b->to[0] < end ? b->to[0] : end;
    return b->from[0] < b->to[0];
}

/* Emits the part of row k of the box between lo and hi. */
static void row_run(const BoxPart *b, int64_t k, int64_t base, int64_t lo, int64_t hi)
{
    const RtParam *p = b->param;
    int64_t held = 0, element = 0, held_stride = b->row, stride = b->row;
    for (int d = b->last; d >= 0; d--) {
        const int64_t n = d < b->last ? b->to[d] - b->from[d] : 1;
        const int64_t i = b->from[d] + k % n;
        held += i * held_stride;
        element += (b->first[d] + i) * stride;
        held_stride *= b->dim[d];
        stride *= p->dim[d];
        k /= n;
    }
    const int64_t flat = b->offset + held;
    const int64_t end = flat + (b->to[b->last] - b->from[b->last]) * b->row;
    const int64_t from = flat > lo ? flat : lo, to = end < hi ? end : hi;
    const RtRun run = {p, b->param_id, from - base, element + from - flat, to - from};
    if (from < to)
        b->fn(b->ctx, &run);
}

/* Runs of the box between elements lo and hi of its segment; base: where the buffers at
 * that coordinate start. */
static void box_runs(const RtTrainer *t, int param, const RtBox *box, int along,
                     int64_t base, int64_t lo, int64_t hi, RtRunFn fn, void *ctx)
{
    const RtParam *p = &t->params[param];
    const RtSegment *s = &t->segments[p->segment];
    const int boxes = boxes_of(s, p), held = held_boxes(s, p);
    const int64_t *sections = p->n_sections ? p->sections : &p->dim[p->cut_dim];
    const int n_sections = p->n_sections ? p->n_sections : 1;
    BoxPart b = {.param = p, .param_id = param, .fn = fn, .ctx = ctx};
    b.elems = box_elems(s, p);
    for (int k = 0; k < held; k++) {
        SectionPiece piece = {0};
        int64_t section = 0;
        b.offset = p->offset_elems + k * box_stride(s, p);
        for (int c = 0; c < n_sections; c++) {
            int64_t rows = 1;
            piece.size = sections[c] / boxes;
            piece.first = section + held_box(t, p, along, k) * piece.size;
            if (box_part(&b, boxes, box, &piece) && skip_rows(&b, lo, hi)) {
                for (int d = 0; d < b.last; d++)
                    rows *= b.to[d] - b.from[d];
                for (int64_t row = 0; row < rows; row++)
                    row_run(&b, row, base, lo, hi);
            }
            section += sections[c];
            piece.at += piece.size;
        }
    }
}

void rt_box_runs(const RtTrainer *t, int param, const RtBox *box, RtCoordinate at,
                 RtRunFn fn, void *ctx)
{
    const int64_t shard = t->segments[t->params[param].segment].shard_elems;
    const int64_t lo = at.part * shard;
    box_runs(t, param, box, at.along, lo, lo, lo + shard, fn, ctx);
}

void rt_held_runs(const Rt *rt, int param, const RtBox *box, RtRunFn fn, void *ctx)
{
    const RtTrainer *t = rt->trainer;
    const RtSegment *s = &t->segments[t->params[param].segment];
    rt_box_runs(t, param, box, rt_coordinate(s, rt->rank), fn, ctx);
}

void rt_resting_runs(const Rt *rt, int segment, bool all, RtRestingFn fn, void *ctx)
{
    const RtTrainer *t = rt->trainer;
    const RtSegment *s = &t->segments[segment];
    const int64_t first = shard_first(rt, s), base = s->params_whole ? 0 : first;
    const int64_t lo = all ? base : first;
    const int64_t hi = all && s->params_whole ? s->elems : first + s->shard_elems;
    for (int i = 0; i < s->n_params; i++) {
        const RtParam *p = &t->params[t->segment_params[s->first_param + i]];
        const int64_t end = p->offset_elems + rt_held_elems(s, p);
        const int64_t from = p->offset_elems > lo ? p->offset_elems : lo;
        const int64_t to = end < hi ? end : hi;
        if (from < to)
            fn(ctx, p, from - base, to - from);
    }
}

/* Elements lo to hi of a segment; base: where this rank's buffers start. */
typedef struct Between {
    int64_t base, lo, hi;
} Between;

static Between shard_of(const Rt *rt, const RtSegment *s)
{
    const int64_t lo = shard_first(rt, s);
    return (Between){lo, lo, lo + s->shard_elems};
}

/* What a rank takes of a sum over all ranks: its shard, or some grains of it if several
 * copies hold the shard. */
static Between share_of(const Rt *rt, const RtSegment *s)
{
    const int64_t copies = rt_group_ranks(s->same),
                  copy = rt_group_index(s->same, rt->rank);
    const int64_t grains = (s->shard_elems + RT_GRAIN_ELEMS - 1) / RT_GRAIN_ELEMS;
    const int64_t share = (grains + copies - 1) / copies * RT_GRAIN_ELEMS;
    const Between shard = shard_of(rt, s);
    const int64_t lo = shard.lo + copy * share;
    return (Between){shard.base, lo, lo + share < shard.hi ? lo + share : shard.hi};
}

static void runs_between(const Rt *rt, const RtSegment *s, Between at, RtRunFn fn,
                         void *ctx)
{
    const RtTrainer *t = rt->trainer;
    for (int i = 0; i < s->n_params; i++) {
        const int id = t->segment_params[s->first_param + i];
        const RtBox whole = rt_box_rows(&t->params[id], 0, t->params[id].dim[0]);
        box_runs(t, id, &whole, rt_coordinate(s, rt->rank).along, at.base, at.lo, at.hi,
                 fn, ctx);
    }
}

/* Elements are counted as they are stored: box after box. */
static void stored_between(const Rt *rt, const RtSegment *s, Between at, RtRunFn fn,
                           void *ctx)
{
    const RtTrainer *t = rt->trainer;
    for (int i = 0; i < s->n_params; i++) {
        const int id = t->segment_params[s->first_param + i];
        const RtParam *p = &t->params[id];
        const int held = held_boxes(s, p);
        const int64_t elems = box_elems(s, p);
        for (int k = 0; k < held; k++) {
            const int64_t first = p->offset_elems + k * box_stride(s, p);
            const int64_t before =
                held_box(t, p, rt_coordinate(s, rt->rank).along, k) * elems;
            const int64_t from = first > at.lo ? first : at.lo;
            const int64_t left = p->elems - before; /* the last box may be padded */
            const int64_t end = first + (elems < left ? elems : left);
            const int64_t to = end < at.hi ? end : at.hi;
            const RtRun run = {p, id, from - at.base, before + from - first, to - from};
            if (from < to)
                fn(ctx, &run);
        }
    }
}

void rt_shard_runs(const Rt *rt, int segment, RtRunFn fn, void *ctx)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    runs_between(rt, s, shard_of(rt, s), fn, ctx);
}

void rt_share_runs(const Rt *rt, int segment, RtRunFn fn, void *ctx)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    runs_between(rt, s, share_of(rt, s), fn, ctx);
}

void rt_shard_stored(const Rt *rt, int segment, RtRunFn fn, void *ctx)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    stored_between(rt, s, shard_of(rt, s), fn, ctx);
}

void rt_share_stored(const Rt *rt, int segment, RtRunFn fn, void *ctx)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    stored_between(rt, s, share_of(rt, s), fn, ctx);
}

/* ---- matrices -------------------------------------------------------------------- */

typedef struct Stretches {
    const RtTrainer *trainer;
    const RtMatrix *matrix;
    int64_t before_elems; /* of all that fn has been called for */
    RtStretchFn fn;
    void *ctx;
} Stretches;

/* Of one box: rows of each section; or, if boxes are columns, a piece of every row. */
static void box_stretches(Stretches *all, int along, int k)
{
    const RtMatrix *m = all->matrix;
    const RtParam *p = &all->trainer->params[m->param];
    const RtSegment *s = &all->trainer->segments[p->segment];
    const int boxes = boxes_of(s, p), box = held_box(all->trainer, p, along, k);
    const bool columns = boxes > 1 && p->cut_dim == 1;
    const int n_sections = columns || p->n_sections == 0 ? 1 : p->n_sections;
    const int64_t *sections = columns || p->n_sections == 0 ? p->dim : p->sections;
    const int64_t cols = columns ? m->cols / boxes : m->cols;
    const int64_t first = m->element / m->cols, end = first + m->rows;
    int64_t section = 0, box_row = 0; /* where a section starts, and its piece here */
    for (int c = 0; c < n_sections; c++) {
        const int64_t rows = columns ? sections[c] : sections[c] / boxes;
        const int64_t row = columns ? 0 : section + box * rows;
        const int64_t from = row > first ? row : first;
        const int64_t to = row + rows < end ? row + rows : end;
        const int64_t in_box = (box_row + from - row) * cols;
        const RtStretch x = {.along = along,
                             .box = box,
                             .at_elems = p->offset_elems + k * box_stride(s, p) + in_box,
                             .number = box * box_stride(s, p) + in_box,
                             .before_elems = all->before_elems,
                             .elems = (to - from) * cols,
                             .row = from - first,
                             .cols = cols};
        if (from < to) {
            all->fn(all->ctx, &x);
            all->before_elems += x.elems;
        }
        section += sections[c];
        box_row += rows;
    }
}

void rt_matrix_stretches(const RtTrainer *t, const RtMatrix *m, RtStretchFn fn, void *ctx)
{
    const RtParam *p = &t->params[m->param];
    const RtSegment *s = &t->segments[p->segment];
    Stretches all = {.trainer = t, .matrix = m, .fn = fn, .ctx = ctx};
    for (int along = 0; along < rt_group_ranks(s->axes); along++)
        for (int k = 0; k < held_boxes(s, p); k++)
            box_stretches(&all, along, k);
}

RtRun rt_stretch_run(const RtTrainer *t, const RtMatrix *m, const RtStretch *x,
                     RtCoordinate at)
{
    const RtParam *p = &t->params[m->param];
    const int64_t shard = t->segments[p->segment].shard_elems, lo = at.part * shard;
    const int64_t from = x->at_elems > lo ? x->at_elems : lo;
    const int64_t end = x->at_elems + x->elems, hi = lo + shard, to = end < hi ? end : hi;
    return (RtRun){.param = p,
                   .param_id = m->param,
                   .shard_offset_elems = from - lo,
                   .element = x->number + from - x->at_elems,
                   .elems = x->along == at.along && from < to ? to - from : 0};
}

void rt_run_windows(void *ctx, const RtRun *run, RtWindowFn fn)
{
    for (int64_t from = 0; from < run->elems; from += RT_WINDOW_ELEMS) {
        const int64_t left = run->elems - from;
        fn(ctx, run, from, left < RT_WINDOW_ELEMS ? left : RT_WINDOW_ELEMS);
    }
}

/* As nonmatrix_elems of gen/ places them: each parameter's at a multiple of this. */
enum { OTHERS_ALIGN_ELEMS = 8 };

int64_t rt_second_moment(const Rt *rt, int segment, int64_t at)
{
    const RtTrainer *t = rt->trainer;
    const RtSegment *s = &t->segments[segment];
    const int64_t lo = shard_first(rt, s);
    int64_t n = 0;
    if (t->n_batches == 0)
        return at;
    for (int i = 0; i < s->n_params; i++) {
        const RtParam *p = &t->params[t->segment_params[s->first_param + i]];
        const int64_t from = p->offset_elems > lo ? p->offset_elems : lo;
        const int64_t end = p->offset_elems + rt_held_elems(s, p);
        const int64_t to = end < lo + at ? end : lo + at;
        n += p->n_matrices == 0 && from < to ? to - from : 0;
        if (end <= lo + at) /* the next parameter's are aligned */
            n = (n + OTHERS_ALIGN_ELEMS - 1) / OTHERS_ALIGN_ELEMS * OTHERS_ALIGN_ELEMS;
    }
    return n;
}

/* ---- parts ----------------------------------------------------------------------- */

static RtAlong parts_along(int all, RtGroup ranks, int rank)
{
    const int here = (all > 0 ? all : 1) / rt_group_ranks(ranks);
    return (RtAlong){.ranks = ranks,
                     .all = all > 0 ? all : 1,
                     .here = here,
                     .first = rt_group_index(ranks, rank) * here};
}

void rt_parts_lay(const RtTrainer *t, int rank, RtParts *parts)
{
    RtAlong tensor = parts_along(t->tensor_parts, t->tensor_ranks, rank);
    RtAlong context = parts_along(t->context_parts, t->context_ranks, rank);
    tensor.step = context.lane_step = context.here;
    context.step = tensor.lane_step = 1;
    tensor.lanes = context.lanes = 1;
    parts->here = tensor.here * context.here;
    parts->tensor_once = tensor;
    parts->context_once = context;
    tensor.lanes = context.here;
    context.lanes = tensor.here;
    parts->tensor = tensor;
    parts->context = context;
}
