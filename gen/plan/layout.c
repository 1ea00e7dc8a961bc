/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c: the one map of what lies where. In: parameters in segments (shard). Out: of
 * a box of a parameter, or of a stretch of a segment, the runs of elements that lie one
 * behind the other in the parameter and in one rank's part of the segment.
 *
 * A parameter with axes is cut along cut_dim into as many equal parts as the axes have
 * ranks; part c is held by the ranks whose number along the axes is c. In row-major order
 * a part is a comb: `block` elements of it, then as many of each other part, and so on,
 * where a block is what one index of the dims before cut_dim has of the part. Held, its
 * blocks follow each other. Then the segment of held parts is cut into shards.
 *
 * runtime/state/rt_map.c is the same map, rank by rank, in a trainer. */
#include "plan/plan.h"

/* Elements of a part that are consecutive in the parameter. */
static int64_t block_elems(const Param *p)
{
    int64_t elems = p->elems;
    if (p->axes == 0)
        return elems;
    for (int d = 0; d < p->cut_dim; d++)
        elems /= p->decl->dim[d];
    return elems / group_ranks(p->axes);
}

/* Elements from .. to of the parameter, which are consecutive. */
static void flat_runs(const Segment *s, const Param *p, int64_t from, int64_t to,
                      RunFn fn, void *ctx)
{
    const int64_t block = block_elems(p), parts = group_ranks(p->axes);
    while (from < to) {
        const int64_t before = from / block, inside = from % block;
        const int64_t held = before / parts * block + inside;
        const int64_t at = p->offset_elems + held;
        Run run = {.axes_part = (int)(before % parts),
                   .part = (int)(at / s->shard_elems),
                   .offset_elems = at % s->shard_elems,
                   .element = from};
        run.elems = min_i64(to - from, block - inside);
        run.elems = min_i64(run.elems, s->shard_elems - run.offset_elems);
        fn(ctx, &run);
        from += run.elems;
    }
}

void layout_runs(const Gen *g, const Param *p, const Box *box, RunFn fn, void *ctx)
{
    const Segment *s = &g->segments.items[p->segment];
    const int n = p->decl->n_dims;
    const int64_t *dim = p->decl->dim;
    int64_t index[MAX_DIMS];
    int64_t row =
        1; /* elements of the box that are consecutive: whole dims, at its end */
    int last = n - 1;
    for (int d = 0; d < n; d++) {
        if (box->from[d] >= box->to[d])
            return; /* it is empty */
        index[d] = box->from[d];
    }
    while (last > 0 && box->from[last] == 0 && box->to[last] == dim[last])
        row *= dim[last--];
    for (;;) {
        int64_t from = 0;
        int d = last - 1;
        for (int k = 0; k <= last; k++)
            from = from * dim[k] + (k < last ? index[k] : box->from[k]);
        flat_runs(s, p, from * row, (from + box->to[last] - box->from[last]) * row, fn,
                  ctx);
        while (d >= 0 && ++index[d] == box->to[d]) {
            index[d] = box->from[d];
            d--;
        }
        if (d < 0)
            return;
    }
}

Box layout_whole(const Param *p)
{
    Box box = {{0}, {0}};
    for (int d = 0; d < p->decl->n_dims; d++)
        box.to[d] = p->decl->dim[d];
    return box;
}

bool layout_holds(const Segment *s, int rank, const Run *run)
{
    return group_index(s->axes, rank) == run->axes_part &&
           mesh_part(s, rank) == run->part;
}

Stretch layout_between(const Param *p, int64_t lo, int64_t hi)
{
    const int64_t from = max_i64(p->offset_elems, lo);
    const int64_t to = min_i64(p->offset_elems + p->held_elems, hi);
    return (Stretch){from - p->offset_elems, max_i64(0, to - from)};
}

RankBits layout_same(const Gen *g, const Segment *s)
{
    return g->model.mesh.all & ~s->cut[HELD_OPTIMIZER] & ~s->axes;
}
