/* SPDX-License-Identifier: Apache-2.0 */
/* test_layout.c: the map (parameter, box) -> (mesh coordinate, segment offset). Random
 * models over random meshes of five axes, some of whose parameters are cut along context
 * and tensor, or stored as more boxes than those axes have ranks, of several sections;
 * what layout.c says of random boxes is compared with a search by element. */
#include "test_plan.h"

#include <string.h>

static int64_t pick(uint64_t *r, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(synth_random(r) % (uint64_t)(hi - lo + 1));
}

/* Up to eight boxes for each rank, each a piece of up to three sections of the dim; or of
 * any size that leaves the last one some elements, and zeros behind them. */
static void store_as_boxes(Gen *g, Param *p, uint64_t *r)
{
    const int64_t dim = p->decl->dim[p->cut_dim];
    const int boxes = group_ranks(p->axes) << pick(r, 0, 3);
    int64_t *section = gen_alloc(g, 3 * sizeof *section), left = dim;

    if (boxes > 1 && p->cut_dim == 0 && (dim % boxes != 0 || pick(r, 0, 2) == 0)) {
        const int64_t least = (dim + boxes - 1) / boxes, most = (dim - 1) / (boxes - 1);

        if (least > most)
            return;
        p->boxes = boxes;
        section[0] = pick(r, least, min_i64(most, least + 8)) * boxes;
        p->sections = (Sections){1, section, section[0] - dim};
        return;
    }
    if (boxes == 1 || dim % boxes != 0)
        return;
    p->boxes = boxes;
    p->sections = (Sections){0, section, 0};
    for (; p->sections.n < 2 && left > boxes; p->sections.n++) {
        section[p->sections.n] = pick(r, 1, left / boxes - 1) * boxes;
        left -= section[p->sections.n];
    }
    section[p->sections.n++] = left;
    if (p->sections.n == 1)
        p->sections.n = (int)pick(r, 0, 1);
}

/* Some of the boxes, as many as ranks along context have at least, are of parts along it.
 */
static void nest_boxes(const Mesh *m, Param *p, uint64_t *r)
{
    const RankBits context = p->axes & m->axis[AXIS_CONTEXT].bits;
    const int64_t most = p->boxes / group_ranks(p->axes & ~context);

    if (p->axes & ~(m->axis[AXIS_CONTEXT].bits | m->axis[AXIS_TENSOR].bits))
        return;
    p->inner_boxes = (int)group_ranks(context);
    while (p->inner_boxes < most && pick(r, 0, 1))
        p->inner_boxes *= 2;
}

/* Any axes that do not compute leaves of their own, along any dim they divide. */
static void cut_params(Gen *g, uint64_t *r)
{
    const Mesh *m = &g->model.mesh;

    for (int i = 0; i < g->params.count; i++) {
        Param *p = &g->params.items[i];
        RankBits axes = (RankBits)synth_random(r) & m->all & ~m->data;
        int dim = (int)pick(r, 0, p->decl->n_dims - 1);

        if (pick(r, 0, 2) && p->decl->dim[dim] % group_ranks(axes) == 0) {
            p->axes = axes;
            p->cut_dim = dim;
            if (pick(r, 0, 1))
                store_as_boxes(g, p, r);
            if (p->boxes > 1 && pick(r, 0, 2))
                nest_boxes(m, p, r);
        }
    }
}

typedef struct Walk {
    const Gen *g;
    const Segment *s;
    const Param *p;
    Coordinate at;
    char *left;   /* elements of the box that no run had yet */
    int64_t next; /* runs at a coordinate are in the order of the boxes, of the sections
                   * of each, and of the parameter */
    const char *bad;
} Walk;

/* By division: which box an element is in, which of its sections, and where in the box.
 */
typedef struct Found {
    int64_t box, section, held;
} Found;

static Found find_element(const Param *p, int64_t boxes, int64_t element)
{
    const int64_t dim = p->decl->dim[p->cut_dim];
    Found f = {0};
    int64_t inner = 1, index, size = dim, before = 0;

    for (int d = p->cut_dim + 1; d < p->decl->n_dims; d++)
        inner *= p->decl->dim[d];
    index = element / inner % dim;
    for (; f.section < p->sections.n; f.section++) {
        size = p->sections.elems[f.section];
        if (index < size)
            break;
        index -= size;
        before += size / boxes;
    }
    f.box = index / (size / boxes);
    index = before + index % (size / boxes);
    f.held = (element / inner / dim * (dim / boxes) + index) * inner + element % inner;
    return f;
}

/* The ranks that hold a box, and which of theirs it is: those along tensor have some of
 * the parts of features, and those along context some of the parts of tokens of each. */
static void find_holder(const Walk *w, int64_t boxes, int64_t box, int *along,
                        int64_t *mine)
{
    const Param *p = w->p;
    const RankBits context = p->axes & w->g->model.mesh.axis[AXIS_CONTEXT].bits;
    const int64_t ranks = group_ranks(p->axes), across = group_ranks(context);
    const int64_t inner = p->inner_boxes, here = inner / across;
    const int64_t outer = inner > 1 ? boxes / inner / (ranks / across) : 1;

    *along = (int)(box / (boxes / ranks));
    *mine = box % (boxes / ranks);
    if (inner <= 1)
        return;
    *along = (int)(box % inner / here * (ranks / across) + box / inner / outer);
    *mine = box / inner % outer * here + box % inner % here;
}

static void check_run(void *ctx, const Run *run)
{
    Walk *w = ctx;
    const Param *p = w->p;
    const int64_t ranks = group_ranks(p->axes), boxes = p->boxes ? p->boxes : ranks;
    const int64_t row = p->elems / p->decl->dim[0];
    const int64_t box = (p->elems + p->sections.pad * row) / boxes;
    const int64_t grains = (box + GRAIN_ELEMS - 1) / GRAIN_ELEMS;
    const Found first = find_element(p, boxes, run->element);
    int along;
    int64_t mine;
    find_holder(w, boxes, first.box, &along, &mine);
    const int64_t order =
        (mine * (p->sections.n + 1) + first.section) * p->elems + run->element;

    if (run->elems < 1 || order < w->next)
        w->bad = "a run is empty, or comes late";
    for (int64_t k = 0; k < run->elems && !w->bad; k++) {
        const Found at = find_element(p, boxes, run->element + k);
        const int64_t flat = p->offset_elems + mine * grains * GRAIN_ELEMS + at.held;

        if (!w->left[run->element + k])
            w->bad = "an element is there twice, or not in the box";
        else if (along != w->at.along || at.box != first.box ||
                 flat / w->s->shard_elems != w->at.part ||
                 flat % w->s->shard_elems != run->offset_elems + k)
            w->bad = "an element lies elsewhere";
        w->left[run->element + k] = 0;
    }
    w->next = order + run->elems;
}

static bool in_box(const Param *p, const Box *box, int64_t element)
{
    bool in = true;

    for (int d = p->decl->n_dims - 1; d >= 0; d--) {
        int64_t index = element % p->decl->dim[d];

        in = in && index >= box->from[d] && index < box->to[d];
        element /= p->decl->dim[d];
    }
    return in;
}

static void check_box(const Gen *g, const Param *p, uint64_t *r)
{
    Box box = layout_whole(p);
    Walk w = {.g = g, .s = &g->segments.items[p->segment], .p = p};

    for (int d = 0; d < p->decl->n_dims && pick(r, 0, 3); d++) {
        box.from[d] = pick(r, 0, p->decl->dim[d]);
        box.to[d] = pick(r, box.from[d], p->decl->dim[d]);
    }
    w.left = gen_alloc((Gen *)g, (size_t)p->elems + 1);
    for (int64_t e = 0; e < p->elems; e++)
        w.left[e] = in_box(p, &box, e);
    for (w.at.along = 0; w.at.along < group_ranks(p->axes); w.at.along++)
        for (w.at.part = 0; w.at.part < w.s->shards && !w.bad; w.at.part++) {
            w.next = 0;
            layout_runs(g, p, &box, w.at, check_run, &w);
        }
    for (int64_t e = 0; e < p->elems && !w.bad; e++)
        w.bad = w.left[e] ? "an element is left out" : NULL;
    test_that(!w.bad, "%s, cut along 0x%x, dim %d, %d boxes of %d sections: %s", p->name,
              (unsigned)p->axes, p->cut_dim, p->boxes, p->sections.n, w.bad);
}

/* Ranks have a coordinate as their bits say, and those that share it share the work. */
static void check_ranks(const Gen *g, const Segment *s)
{
    int64_t *next = gen_alloc((Gen *)g, sizeof *next * (size_t)s->shards);
    bool good = true;

    for (int along = 0; along < group_ranks(s->axes); along++) {
        for (int k = 0; k < s->shards; k++)
            next[k] = k * s->shard_elems;
        for (int rank = 0; rank < g->model.mesh.world_size; rank++) {
            Coordinate at = layout_of(s, rank);
            Stretch share = layout_share(g, s, rank);

            good = good && at.along == group_index(s->axes, rank) &&
                   at.part == group_index(s->cut[HELD_OPTIMIZER], rank);
            if (at.along != along || share.lo >= share.hi)
                continue;
            good = good && share.lo == next[at.part];
            next[at.part] = share.hi;
        }
        for (int k = 0; k < s->shards; k++)
            good = good && next[k] == (k + 1) * s->shard_elems;
    }
    test_that(good, "%s: ranks do not share it", s->name);
}

/* What lies between two elements of a segment, along all axes: those of each parameter,
 * once. */
static void check_between(const Gen *g, const Segment *s)
{
    int64_t found = 0, all = 0;

    for (int i = 0; i < s->n_params; i++) {
        const Param *p = &g->params.items[s->params[i]];

        all += p->elems;
        for (int along = 0; along < group_ranks(s->axes); along++)
            for (int64_t lo = 0; lo < s->elems; lo += 700)
                found += layout_between(g, p, along, lo, min_i64(lo + 700, s->elems));
    }
    test_that(found == all, "%s: %lld elements of %lld", s->name, (long long)found,
              (long long)all);
}

static void test_one(uint64_t seed)
{
    uint64_t r = seed * 389 + 7;
    SynthShape shape = synth_shape(seed);
    SynthMesh mesh = synth_mesh(seed, synth_numerics(seed));
    Gen *g = synth_new();
    const char *bad;

    shape.width = 16 * pick(&r, 1, 5);
    mesh.beside[AXIS_CONTEXT] = INT64_C(1) << pick(&r, 0, 2);
    mesh.beside[AXIS_TENSOR] = INT64_C(1) << pick(&r, 0, 2);
    synth_build(g, &shape, &mesh);
    cut_params(g, &r);
    shard_params(g);
    bad = verify_shard(g);
    test_that(!bad, "model %llu: %s", (unsigned long long)seed, bad);
    for (int i = 0; i < g->params.count && !bad; i++)
        for (int k = 0; k < 4; k++)
            check_box(g, &g->params.items[i], &r);
    for (int i = 0; i < g->segments.count && !bad; i++) {
        check_between(g, &g->segments.items[i]);
        check_ranks(g, &g->segments.items[i]);
    }
}

void test_layout(uint64_t seed)
{
    for (uint64_t k = 0; k < 20; k++)
        test_forked(test_one, seed * 53 + k);
}
