/* SPDX-License-Identifier: Apache-2.0 */
/* test_layout.c: the map (parameter, box) -> (mesh coordinate, segment offset). Random
 * models over random meshes of five axes, some of whose parameters are cut along context
 * and tensor; what layout.c says of random boxes is compared with a search by element. */
#include "test_plan.h"

#include <string.h>

static int64_t pick(uint64_t *r, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(synth_random(r) % (uint64_t)(hi - lo + 1));
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
        }
    }
}

typedef struct Walk {
    const Gen *g;
    const Segment *s;
    const Param *p;
    int64_t *next; /* the parameter's elements of the box, in order */
    int64_t n, seen;
    const char *bad;
} Walk;

/* By division: which part of the axes an element is in, and where among that part's. */
static void find_element(const Param *p, int64_t element, int64_t *part, int64_t *held)
{
    int64_t inner = 1, index, dim = p->decl->dim[p->cut_dim],
            own = dim / group_ranks(p->axes);

    for (int d = p->cut_dim + 1; d < p->decl->n_dims; d++)
        inner *= p->decl->dim[d];
    index = element / inner % dim;
    *part = index / own;
    *held = (element / inner / dim * own + index % own) * inner + element % inner;
}

static void check_run(void *ctx, const Run *run)
{
    Walk *w = ctx;
    const Mesh *m = &w->g->model.mesh;

    if (run->elems < 1 || w->bad) {
        w->bad = "a run is empty";
        return;
    }
    for (int64_t k = 0; k < run->elems && !w->bad; k++) {
        int64_t part, held, flat;

        find_element(w->p, run->element + k, &part, &held);
        flat = w->p->offset_elems + held;
        if (w->seen >= w->n || w->next[w->seen++] != run->element + k)
            w->bad = "an element is left out, or there twice";
        else if (part != run->axes_part || flat / w->s->shard_elems != run->part ||
                 flat % w->s->shard_elems != run->offset_elems + k)
            w->bad = "an element lies elsewhere";
    }
    for (int rank = 0; rank < m->world_size && !w->bad; rank++) {
        bool holds = group_index(w->s->axes, rank) == run->axes_part &&
                     group_index(w->s->cut[HELD_OPTIMIZER], rank) == run->part;
        int first = group_rank(layout_same(w->g, w->s), rank, 0);

        if (layout_holds(w->s, rank, run) != holds ||
            layout_holds(w->s, first, run) != holds)
            w->bad = "another rank holds it";
    }
}

static void check_box(const Gen *g, const Param *p, uint64_t *r)
{
    Box box = layout_whole(p);
    Walk w = {.g = g, .s = &g->segments.items[p->segment], .p = p};
    int n = p->decl->n_dims;

    for (int d = 0; d < n && pick(r, 0, 3); d++) {
        box.from[d] = pick(r, 0, p->decl->dim[d]);
        box.to[d] = pick(r, box.from[d], p->decl->dim[d]);
    }
    w.next = gen_alloc((Gen *)g, sizeof *w.next * (size_t)(p->elems + 1));
    for (int64_t e = 0; e < p->elems; e++) {
        int64_t rest = e;
        bool in = true;

        for (int d = n - 1; d >= 0; d--) {
            int64_t index = rest % p->decl->dim[d];

            in = in && index >= box.from[d] && index < box.to[d];
            rest /= p->decl->dim[d];
        }
        if (in)
            w.next[w.n++] = e;
    }
    layout_runs(g, p, &box, check_run, &w);
    test_that(!w.bad && w.seen == w.n, "%s, cut along 0x%x, dim %d: %s", p->name,
              (unsigned)p->axes, p->cut_dim, w.bad ? w.bad : "elements are left out");
}

/* What lies between two elements of a segment: those of each parameter, once. */
static void check_between(const Gen *g, const Segment *s)
{
    int64_t found = 0, at = 0;

    for (int64_t lo = 0; lo < s->elems; lo += 700)
        for (int i = 0; i < s->n_params; i++) {
            const Param *p = &g->params.items[s->params[i]];
            Stretch x = layout_between(p, lo, min_i64(lo + 700, s->elems));

            if (x.elems > 0 && x.first > 0 && p->offset_elems + x.first != lo)
                at++;
            found += x.elems;
        }
    test_that(found == s->used_elems && at == 0, "%s: %lld elements of %lld", s->name,
              (long long)found, (long long)s->used_elems);
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
    for (int i = 0; i < g->segments.count && !bad; i++)
        check_between(g, &g->segments.items[i]);
}

void test_layout(uint64_t seed)
{
    for (uint64_t k = 0; k < 20; k++)
        test_forked(test_one, seed * 53 + k);
}
