/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c: the one map of where elements are. In: parameters in segments (shard). Out:
 * for a box of a parameter and a mesh coordinate, the runs of elements that are
 * consecutive both in the parameter and in the part of the segment there.
 *
 * A parameter is stored as boxes: one, or one for each part, cut along cut_dim: box p
 * has the p-th piece of each section of that dim (of the rows of q, of k and of v). A box
 * is a tensor of its own, row-major, so that the product of a part reads consecutive
 * memory. Ranks whose number along the parameter's axes is c hold the c-th equal share
 * of the boxes: where parts differ along two axes, of those of a part of features (outer)
 * a share of its parts of tokens (inner_boxes of them). The first starts at offset_elems
 * of the segment, each further one at the next multiple of GRAIN_ELEMS. Then the segment
 * is cut into shards. So what a chunk of GRAIN_ELEMS contains depends on the number of
 * boxes, and not on who holds them.
 *
 * Where boxes do not divide the rows, the last has fewer. It is as large as the others
 * in memory and ends in zeros, as segments do between parameters: no run has them, so
 * nothing writes them, and products of a part read them as rows of weights.
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

int layout_boxes(const Param *p)
{
    return p->boxes > 1 ? p->boxes : group_ranks(p->axes);
}

int layout_held_boxes(const Param *p)
{
    return layout_boxes(p) / group_ranks(p->axes);
}

int layout_box(const Gen *g, const Param *p, int along, int k)
{
    const int held = layout_held_boxes(p);

    if (p->inner_boxes > 1) {
        const RankBits context = g->model.mesh.axis[AXIS_CONTEXT].bits & p->axes;
        const int outer_ranks = (int)group_ranks(p->axes & ~context);
        const int inner = p->inner_boxes / (int)group_ranks(context);
        const int outer = along % outer_ranks * (held / inner) + k / inner;

        return outer * p->inner_boxes + along / outer_ranks * inner + k % inner;
    }
    return along * held + k;
}

int64_t layout_box_elems(const Param *p)
{
    const int64_t row = p->elems / p->decl->dim[0];

    return (p->elems + p->sections.pad * row) / layout_boxes(p);
}

/* Elements of the k-th stored box that the parameter has. */
static int64_t own_elems(const Param *p, int k)
{
    const int64_t row = p->elems / p->decl->dim[0];

    return layout_box_elems(p) - (k == layout_boxes(p) - 1 ? p->sections.pad * row : 0);
}

int64_t layout_box_stride(const Param *p)
{
    return round_up(layout_box_elems(p), GRAIN_ELEMS);
}

/* The intersection of a box of indices with one section of a stored box. */
typedef struct BoxPart {
    const Param *p;
    int64_t offset;                       /* of the stored box in its segment */
    int64_t dim[MAX_DIMS];                /* of the stored box */
    int64_t first[MAX_DIMS];              /* an index here plus this is the parameter's */
    int64_t from[MAX_DIMS], to[MAX_DIMS]; /* of the intersection, here */
    int last;                             /* the dims after it are whole in the stored box
                                           * and in the parameter: */
    int64_t row;                          /* so this many elements are consecutive */
    int64_t lo, hi;                       /* elements of the segment, there */
    RunFn fn;
    void *ctx;
} BoxPart;

/* A piece of a section of the cut dim: where it starts, in the parameter and in the
 * stored box, and how long it is. */
typedef struct SectionPiece {
    int64_t first, at, size;
} SectionPiece;

/* False if the intersection is empty. */
static bool box_part(BoxPart *b, const Box *box, const SectionPiece *piece)
{
    const Param *p = b->p;
    const int n = p->decl->n_dims, boxes = layout_boxes(p);
    for (int d = 0; d < n; d++) {
        const int64_t dim = p->decl->dim[d];
        const bool cut = boxes > 1 && d == p->cut_dim;
        const int64_t at = cut ? piece->at : 0, end = cut ? at + piece->size : dim;
        b->dim[d] = cut ? (dim + p->sections.pad) / boxes : dim;
        b->first[d] = cut ? piece->first - at : 0;
        b->from[d] = max_i64(box->from[d] - b->first[d], at);
        b->to[d] = min_i64(box->to[d] - b->first[d], end);
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
    const int64_t row = layout_box_elems(b->p) / b->dim[0], offset = b->offset;
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
    const int64_t flat = b->offset + held;
    const int64_t from = max_i64(flat, b->lo), to = min_i64(flat + elems, b->hi);
    const Run run = {from - b->lo, element + from - flat, to - from};
    if (from < to)
        b->fn(b->ctx, &run);
}

static void part_runs(BoxPart *b)
{
    int64_t rows = 1;
    for (int d = 0; d < b->last; d++)
        rows *= b->to[d] - b->from[d];
    for (int64_t k = 0; k < rows; k++)
        row_run(b, k);
}

void layout_runs(const Gen *g, const Param *p, const Box *box, Coordinate at, RunFn fn,
                 void *ctx)
{
    const int64_t shard = g->segments.items[p->segment].shard_elems;
    const int held = layout_held_boxes(p), boxes = layout_boxes(p);
    const int64_t whole = boxes > 1 ? p->decl->dim[p->cut_dim] : 0;
    const Sections sections =
        p->sections.n ? p->sections : (Sections){.n = 1, .elems = (int64_t[]){whole}};
    BoxPart b = {
        .p = p, .lo = at.part * shard, .hi = (at.part + 1) * shard, .fn = fn, .ctx = ctx};

    for (int k = 0; k < held; k++) {
        SectionPiece piece = {0};
        int64_t section = 0;

        b.offset = p->offset_elems + k * layout_box_stride(p);
        for (int s = 0; s < sections.n; s++) {
            piece.size = sections.elems[s] / boxes;
            piece.first = section + layout_box(g, p, at.along, k) * piece.size;
            if (box_part(&b, box, &piece) && skip_rows(&b))
                part_runs(&b);
            section += sections.elems[s];
            piece.at += piece.size;
        }
    }
}

/* ---- stretches of a segment ------------------------------------------------------ */

int64_t layout_between(const Gen *g, const Param *p, int along, int64_t lo, int64_t hi)
{
    const int held = layout_held_boxes(p);
    int64_t n = 0;
    for (int k = 0; k < held; k++) {
        const int64_t at = p->offset_elems + k * layout_box_stride(p);
        n += max_i64(0, min_i64(at + own_elems(p, layout_box(g, p, along, k)), hi) -
                            max_i64(at, lo));
    }
    return n;
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
