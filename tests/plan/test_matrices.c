/* SPDX-License-Identifier: Apache-2.0 */
/* test_matrices: the deal and the exchange of matrices that an optimizer treats whole.
 * Faults are planted in plans of a small llama whose matrices straddle shards; the
 * checker of the pass must name each, and those that can be executed must show other
 * bits. Then the deal itself on meshes of all sizes: balanced, and the bytes of all
 * ranks. */
#include "test_models.h"

#include <string.h>

static Instr *find(Gen *g, InsKind kind, int batch)
{
    for (int id = 0; id < g->prog.ins.count; id++) {
        Instr *i = &g->prog.ins.items[id];
        if (i->kind == kind && (i->batch == batch || batch < 0))
            return i;
    }
    gen_die("no instruction %d of batch %d", (int)kind, batch);
}

static Buffer *buffer(Gen *g, BufKind kind, int which)
{
    for (int b = 0; b < g->prog.bufs.count; b++)
        if (g->prog.bufs.items[b].kind == kind && which-- == 0)
            return &g->prog.bufs.items[b];
    gen_die("no buffer of kind %d", (int)kind);
}

/* ---- faults ---------------------------------------------------------------------- */

static void no_owner(Gen *g)
{
    g->matrices.items[1].owner = (int)g->model.mesh.world_size;
}

/* Of one batch and one owner: the second lies on the first. */
static void overlap(Gen *g)
{
    for (int i = 1; i < g->batches.items[0].n_matrices; i++) {
        for (int k = 0; k < i; k++) {
            Matrix *a = &g->matrices.items[k], *b = &g->matrices.items[i];
            if (a->owner == b->owner) {
                b->owned_elems = a->owned_elems;
                return;
            }
        }
    }
    gen_die("no two matrices of one owner");
}

static void moved_row(Gen *g)
{
    g->matrices.items[1].element += g->matrices.items[1].cols;
}

static void left_out(Gen *g)
{
    g->batches.items[0].n_matrices--;
}

static void not_sent(Gen *g)
{
    find(g, INS_TO_OWNERS, 0)->batch = 1;
}

static void not_back(Gen *g)
{
    find(g, INS_FROM_OWNERS, 1)->batch = 0;
}

static void step_first(Gen *g)
{
    Instr *a = find(g, INS_MOMENTUM, 0), *b = find(g, INS_STEP, 0), kept = *a;
    *a = *b;
    *b = kept;
    kept.id = a->id;
    a->id = b->id;
    b->id = kept.id;
}

static void back_in_copy(Gen *g)
{
    find(g, INS_FROM_OWNERS, 0)->group = g->segments.items[0].within;
}

static void no_wait(Gen *g, InsKind from, InsKind to)
{
    Instr *i = find(g, to, 0);
    for (int w = 0; w < i->n_waits; w++) {
        if (g->prog.ins.items[i->waits[w]].kind == from) {
            i->waits[w] = i->waits[--i->n_waits];
            schedule_closure(g, &g->prog);
            return;
        }
    }
    gen_die("no wait to remove");
}

static void no_wait_for_owners(Gen *g)
{
    no_wait(g, INS_TO_OWNERS, INS_MATRICES);
}

static void no_wait_for_results(Gen *g)
{
    no_wait(g, INS_FROM_OWNERS, INS_STEP);
}

static void directions_twice(Gen *g)
{
    buffer(g, BUF_DIRECTION, 1)->offset_bytes = buffer(g, BUF_DIRECTION, 0)->offset_bytes;
}

static void owned_on_directions(Gen *g)
{
    buffer(g, BUF_OWNED, 0)->offset_bytes = buffer(g, BUF_DIRECTION, 1)->offset_bytes;
}

/* Without the ranks along tensor, which have the other boxes. */
static void half_sent(Gen *g)
{
    find(g, INS_TO_OWNERS, 0)->group = g->segments.items[1].within;
}

static void no_room_for_whole(Gen *g)
{
    g->batches.items[0].whole_bytes = 0;
}

static void no_room_beside(Gen *g)
{
    buffer(g, BUF_WORKSPACE, 0)->bytes--;
}

static void less_sent(Gen *g)
{
    find(g, INS_TO_OWNERS, 1)->moved_bytes -= 4;
}

static void less_back(Gen *g)
{
    find(g, INS_FROM_OWNERS, 0)->moved_bytes -= 4;
}

static void half_the_flops(Gen *g)
{
    find(g, INS_MATRICES, 0)->flops /= 2;
}

static void no_room_for_owned(Gen *g)
{
    buffer(g, BUF_OWNED, 0)->bytes--;
}

static void fewer_second_moments(Gen *g)
{
    buffer(g, BUF_MOMENT2, 0)->bytes -= OTHERS_ALIGN_ELEMS * 4;
}

typedef struct Fault {
    const char *name;
    void (*plant)(Gen *g);
    const char *(*check)(Gen *g);
    bool runs; /* other bits show it, too */
} Fault;

static const Fault faults[] = {
    {"a matrix of no rank", no_owner, verify_shard, true},
    {"two matrices in one place at their owner", overlap, verify_shard, true},
    {"a matrix a row too far", moved_row, verify_shard, true},
    {"a matrix in no batch", left_out, verify_shard, false},
    {"a batch that is not sent", not_sent, verify_unroll, false},
    {"a batch that does not come back", not_back, verify_unroll, false},
    {"a step before its momentum", step_first, verify_unroll, false},
    {"no room for owned matrices", no_room_for_owned, verify_unroll, false},
    {"fewer bytes to owners", less_sent, verify_unroll, false},
    {"fewer bytes of results", less_back, verify_unroll, false},
    {"fewer flops", half_the_flops, verify_unroll, false},
    {"fewer second moments", fewer_second_moments, verify_unroll, false},
    {"results of a copy's ranks only", back_in_copy, verify_schedule, false},
    {"no wait for what owners read", no_wait_for_owners, verify_schedule, true},
    {"no wait for results", no_wait_for_results, verify_schedule, true},
    {"directions of two batches in one place", directions_twice, verify_place, true},
    {"what is owned on directions", owned_on_directions, verify_place, true},
};

static const Fault faults_in_boxes[] = {
    {"fewer bytes to owners of boxes", less_sent, verify_unroll, false},
    {"a matrix of some of its boxes", half_sent, verify_schedule, true},
    {"no room for a matrix of boxes", no_room_for_whole, verify_shard, false},
    {"no room beside the workspace", no_room_beside, verify_unroll, false},
    {"a matrix a row too far", moved_row, verify_shard, true},
};

static const char *const in_boxes[] = {
    "optimizer=muon{}", "model.heads=4",  "model.kv_heads=4",        "model.head_dim=2",
    "model.ffn=8",      "model.layers=2", "model.vocab=29",          "seq=4",
    "global_batch=4",   "parts.tensor=4", "mesh={shard=2,tensor=2}", NULL};

static const char *const straddling[] = {"optimizer=muon{}",
                                         "model.ffn=100",
                                         "seq=2",
                                         "global_batch=4",
                                         "model.layers=2",
                                         "mesh={replicate=2,shard=2}",
                                         NULL};

static bool shows(Gen *g, const Interpretation *want)
{
    for (uint64_t order = 0; order < 12; order++) {
        Interpretation got = models_run(g, order * 5 + 2);
        if (!same_state(want, &got))
            return true;
    }
    return false;
}

static void test_fault(const char *folder, const Fault *f, const char *const *sets)
{
    Gen *g = models_open(folder, "small_llama", sets);
    Interpretation want;
    models_plan(g, NULL);
    models_check(g->batches.count > 1, "one batch: there is nothing to overlap");
    want = models_run(g, 1);
    models_check(!want.fault && !f->check(g), "%s: noticed where there is none", f->name);
    f->plant(g);
    models_check(f->check(g), "%s: not noticed", f->name);
    models_check(!f->runs || shows(g, &want), "%s: no order shows it", f->name);
}

/* ---- the deal -------------------------------------------------------------------- */

/* Largest first, to who has least: no rank has more than an equal share and one matrix.
 */
static void check_balance(const Gen *g, const char *mesh)
{
    for (int b = 0; b < g->batches.count; b++) {
        double largest = 0,
               share = matrices_flops(g, b, -1) / (double)g->model.mesh.world_size;
        for (int i = 0; i < g->matrices.count; i++) {
            const Matrix *m = &g->matrices.items[i];
            if (m->batch == b && m->node->flops > largest)
                largest = m->node->flops;
        }
        models_check(matrices_max_flops(g, b) <= share + largest,
                     "%s: batch %s: %g of %g", mesh, g->batches.items[b].name,
                     matrices_max_flops(g, b), share);
    }
}

/* All that owners receive: each matrix once, but for what lies there already. All that
 * comes back: each matrix to each copy, but for what lies there already. */
static void check_bytes(const Gen *g, const char *mesh)
{
    int64_t all = 0, sent = 0, back = 0, at_owner = 0;
    int copies = (int)(g->model.mesh.world_size / g->segments.items[1].shards);
    for (int i = 0; i < g->matrices.count; i++) {
        const Matrix *m = &g->matrices.items[i];
        const Segment *s = &g->segments.items[g->params.items[m->param].segment];
        all += m->rows * m->cols;
        at_owner += matrix_held(g, m, layout_of(s, m->owner));
    }
    for (int r = 0; r < g->model.mesh.world_size; r++) {
        Moved m = matrices_moved(g, -1, r);
        sent += m.to_owners;
        back += m.from_owners + m.from_copies;
    }
    models_check(sent == 4 * (all - at_owner) && back == 4 * (copies * all - at_owner),
                 "%s: %lld bytes to owners, %lld back", mesh, (long long)sent,
                 (long long)back);
}

static void count(void *ctx, const Run *run)
{
    *(int64_t *)ctx += run->elems;
}

/* What each rank holds of each matrix, as the map of elements says. */
static void check_held(const Gen *g, const char *what)
{
    for (int i = 0; i < g->matrices.count; i++) {
        const Matrix *m = &g->matrices.items[i];
        const Param *p = &g->params.items[m->param];
        const Box rows = layout_rows(p, m->element / m->cols, m->rows);
        for (int r = 0; r < g->model.mesh.world_size; r++) {
            const Coordinate at = layout_of(&g->segments.items[p->segment], r);
            int64_t n = 0;
            layout_runs(g, p, &rows, at, count, &n);
            models_check(n == matrix_held(g, m, at), "%s: rank %d holds %lld of %s", what,
                         r, (long long)n, m->name);
        }
    }
}

/* Boxes of rows and of columns, with sections, of one axis and of both, whole or cut. */
static void test_held(const char *folder)
{
    static const struct {
        const char *model, *sets[6];
    } plans[] = {
        {"llama", {"model.kv_heads=4", "parts={tensor=4}", "mesh={tensor=2}", NULL}},
        {"llama",
         {"model.kv_heads=2", "parts={tensor=2,context=2}",
          "mesh={shard=2,tensor=2,context=2}", NULL}},
        {"llama",
         {"model.kv_heads=1", "parts={context=4}", "mesh={shard=4,context=2}", NULL}},
        {"gpt2", {"parts={tensor=2,context=2}", "mesh={shard=2,context=2}", NULL}},
        {"gpt2", {"parts={tensor=4}", "mesh={replicate=2,shard=4}", NULL}},
    };
    static const char *const llama[] = {"optimizer=muon{}",
                                        "model.heads=4",
                                        "model.head_dim=2",
                                        "model.ffn=20",
                                        "seq=8",
                                        "global_batch=8",
                                        NULL};
    static const char *const gpt2[] = {"optimizer=muon{}",
                                       "model.heads=4",
                                       "model.dim=24",
                                       "model.max_positions=8",
                                       "seq=8",
                                       "global_batch=8",
                                       NULL};
    for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
        const bool is_llama = !strcmp(plans[k].model, "llama");
        Gen *g = models_open(folder, is_llama ? "small_llama" : "small_gpt2",
                             is_llama ? llama : gpt2);
        const char *parts = plans[k].sets[is_llama];
        for (int i = 0; plans[k].sets[i]; i++)
            models_set(g, plans[k].sets[i]);
        models_plan(g, NULL);
        models_check(g->params.items[g->matrices.items[0].param].boxes == 4,
                     "%s, %s: no boxes", plans[k].model, parts);
        check_held(g, parts);
    }
}

static void test_deal(const char *folder)
{
    static const char *const meshes[] = {"mesh={shard=1}",
                                         "mesh={shard=2}",
                                         "mesh={shard=8}",
                                         "mesh={replicate=8}",
                                         "mesh={replicate=2,shard=4}",
                                         "mesh={shard=32}"};
    for (size_t k = 0; k < sizeof meshes / sizeof *meshes; k++) {
        const char *sets[] = {"optimizer=muon{}", "model.ffn=200", "global_batch=32",
                              "leaves=32",        meshes[k],       NULL};
        Gen *g = models_open(folder, "small_llama", sets);
        models_plan(g, NULL);
        check_balance(g, meshes[k]);
        check_bytes(g, meshes[k]);
    }
}

void test_matrices(const char *folder)
{
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++)
        test_fault(folder, &faults[f], straddling);
    for (size_t f = 0; f < sizeof faults_in_boxes / sizeof *faults_in_boxes; f++)
        test_fault(folder, &faults_in_boxes[f], in_boxes);
    test_deal(folder);
    test_held(folder);
}
