/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c: the one map of where elements are. In: parameters in segments (shard). Out:
 * for a box of a parameter and a mesh coordinate, the runs of elements that are
 * consecutive both in the parameter and in the part of the segment there.
 *
 * A parameter with axes is cut along cut_dim into as many equal parts as the axes have
 * ranks; ranks whose number along the axes is c hold part c. A part is a tensor of its
 * own: row-major, with the parameter's dims except for the shorter cut_dim. It starts at
 * offset_elems of the segment. Then the segment of these parts is cut into shards.
 *
 * runtime/state/rt_map.c is the same map in a trainer. */
#include "plan/plan.h"

/* ---- boxes ----------------------------------------------------------------------- */

Box layout_whole(const Param *p)
{
    Box box = {{0}, {0}};
    for (int d = 0; d < p->decl->n_dims; d++)
        box.to[d] = p->decl->dim[d];
    return box;
}

Box layout_rows(const Param *p, int64_t first, int64_t rows)
{
    Box box = layout_whole(p);
    box.from[0] = first;
    box.to[0] = first + rows;
    return box;
}

/* ---- coordinates ----------------------------------------------------------------- */

Coordinate layout_of(const Segment *s, int rank)
{
    return (Coordinate){group_index(s->axes, rank), mesh_part(s, rank)};
}

RankBits layout_same(const Gen *g, const Segment *s)
{
    return g->model.mesh.all & ~s->cut[HELD_OPTIMIZER] & ~s->axes;
}

/* ---- the map --------------------------------------------------------------------- */

/* The intersection of a box with the part of its parameter at one number along the
 * axes. */
typedef struct BoxPart {
    const Param *p;
    int64_t dim[MAX_DIMS];                /* of the part */
    int64_t first[MAX_DIMS];              /* where its indices start in the parameter */
    int64_t from[MAX_DIMS], to[MAX_DIMS]; /* of the box, relative to the part */
    int last;                             /* the dims after it are whole in the part and
                                           * in the parameter: */
    int64_t row;                          /* so this many elements are consecutive */
    int64_t lo, hi;                       /* elements of the segment, there */
    RunFn fn;
    void *ctx;
} BoxPart;

/* False if it is empty. */
static bool box_part(BoxPart *b, const Box *box, int along)
{
    const Param *p = b->p;
    const int n = p->decl->n_dims;
    for (int d = 0; d < n; d++) {
        const int64_t dim = p->decl->dim[d];
        const bool cut = p->axes && d == p->cut_dim;
        b->dim[d] = cut ? dim / group_ranks(p->axes) : dim;
        b->first[d] = cut ? along * b->dim[d] : 0;
        b->from[d] = max_i64(box->from[d] - b->first[d], 0);
        b->to[d] = min_i64(box->to[d] - b->first[d], b->dim[d]);
        if (b->from[d] >= b->to[d])
            return false;
    }
    b->row = 1;
    for (b->last = n - 1; b->last > 0; b->last--) {
        const int d = b->last;
        if (b->to[d] - b->from[d] < p->decl->dim[d])
            break;
        b->row *= b->dim[d];
    }
    return true;
}

/* Skips indices of dim 0 without elements between lo and hi. False: none has any. */
static bool skip_rows(BoxPart *b)
{
    const int64_t row = b->p->held_elems / b->dim[0], offset = b->p->offset_elems;
    if (b->lo > offset)
        b->from[0] = max_i64(b->from[0], (b->lo - offset) / row);
    if (b->hi <= offset)
        return false;
    b->to[0] = min_i64(b->to[0], (b->hi - offset + row - 1) / row);
    return b->from[0] < b->to[0];
}

/* Emits the part of row k of the box between lo and hi. */
static void row_run(const BoxPart *b, int64_t k)
{
    const int64_t *dim = b->p->decl->dim,
                  elems = (b->to[b->last] - b->from[b->last]) * b->row;
    int64_t held = 0, element = 0, held_stride = b->row, stride = b->row;
    for (int d = b->last; d >= 0; d--) {
        const int64_t n = d < b->last ? b->to[d] - b->from[d] : 1, i = b->from[d] + k % n;
        held += i * held_stride;
        element += (b->first[d] + i) * stride;
        held_stride *= b->dim[d];
        stride *= dim[d];
        k /= n;
    }
    const int64_t flat = b->p->offset_elems + held;
    const int64_t from = max_i64(flat, b->lo), to = min_i64(flat + elems, b->hi);
    const Run run = {from - b->lo, element + from - flat, to - from};
    if (from < to)
        b->fn(b->ctx, &run);
}

void layout_runs(const Gen *g, const Param *p, const Box *box, Coordinate at, RunFn fn,
                 void *ctx)
{
    const int64_t shard = g->segments.items[p->segment].shard_elems;
    BoxPart b = {
        .p = p, .lo = at.part * shard, .hi = (at.part + 1) * shard, .fn = fn, .ctx = ctx};
    int64_t rows = 1;
    if (!box_part(&b, box, at.along) || !skip_rows(&b))
        return;
    for (int d = 0; d < b.last; d++)
        rows *= b.to[d] - b.from[d];
    for (int64_t k = 0; k < rows; k++)
        row_run(&b, k);
}

/* ---- stretches of a segment ------------------------------------------------------ */

int64_t layout_between(const Param *p, int64_t lo, int64_t hi)
{
    const int64_t from = max_i64(p->offset_elems, lo);
    return max_i64(0, min_i64(p->offset_elems + p->held_elems, hi) - from);
}

Stretch layout_share(const Gen *g, const Segment *s, int rank)
{
    const RankBits same = layout_same(g, s);
    const int64_t copies = group_ranks(same);
    const int64_t grains = (s->shard_elems + GRAIN_ELEMS - 1) / GRAIN_ELEMS;
    const int64_t share = (grains + copies - 1) / copies * GRAIN_ELEMS;
    const int64_t first = mesh_part(s, rank) * s->shard_elems;
    const int64_t lo = first + group_index(same, rank) * share;
    return (Stretch){lo, min_i64(lo + share, first + s->shard_elems)};
}
