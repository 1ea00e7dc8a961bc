/* SPDX-License-Identifier: Apache-2.0 */
/* test_parts_faults.c: plans in parts, damaged on purpose, one fault at a time. A checker
 * names each, and the interpreter shows it where the table says so. Then each wait in
 * turn is removed: a checker says what may go wrong, or else random orders give the same
 * bits.
 */
#include "test_parts.h"

#include <string.h>

typedef struct Fault {
    const char *name;
    bool (*plant)(Gen *g); /* false: there is no such place */
    const char *(*check)(Gen *g);
    const char *named; /* in what the checker says */
    bool shows;        /* the interpreter ends with other bits, or with a fault */
} Fault;

/* ---- buffers and boxes ----------------------------------------------------------- */

/* The first call of a span in the last micro-step that joins ranks. */
static Instr *joint(Gen *g)
{
    for (int id = g->prog.first[VARIANT_LAST]; id < g->prog.ins.count; id++)
        if (g->prog.ins.items[id].kind == INS_SPAN && g->prog.ins.items[id].group)
            return &g->prog.ins.items[id];
    return NULL;
}

static bool shrink(Gen *g, BufKind kind)
{
    for (int b = 0; b < g->prog.bufs.count; b++) {
        Buffer *buf = &g->prog.bufs.items[b];

        if (buf->kind == kind && buf->bytes > ARENA_ALIGN_BYTES) {
            buf->bytes /= plan_parts(g);
            return plan_parts(g) > 1;
        }
    }
    return false;
}

static bool plant_one_saved(Gen *g)
{
    return shrink(g, BUF_SAVED);
}

static bool plant_one_scratch(Gen *g)
{
    return shrink(g, BUF_SCRATCH);
}

static bool plant_one_boundary(Gen *g)
{
    return shrink(g, BUF_BOUNDARY);
}

/* A part computes with the box of the next one. */
static bool next_box(Gen *g, bool grad)
{
    for (int k = 0; k < g->prog.n_bindings; k++) {
        struct Binding *b = &g->prog.bindings[k];
        const Instr *i = &g->prog.ins.items[b->ins];
        const Param *p = &g->params.items[g->blocks.items[i->block].param[b->param]];
        const int size = dtype_bytes(grad ? g->model.reduce_dtype
                                          : g->segments.items[p->segment].gathered);

        if ((b->of == BIND_GRAD) == grad && p->boxes > 1 && layout_held_boxes(p) > 1) {
            b->offset_bytes += layout_box_stride(p) * size;
            return true;
        }
    }
    return false;
}

static bool plant_next_weights(Gen *g)
{
    return next_box(g, false);
}

static bool plant_next_gradient(Gen *g)
{
    return next_box(g, true);
}

static bool plant_one_section(Gen *g)
{
    for (int i = 0; i < g->params.count; i++)
        if (g->params.items[i].sections.n > 1) {
            g->params.items[i].sections.n = 0;
            return true;
        }
    return false;
}

static Param *padded_param(Gen *g)
{
    for (int i = 0; i < g->params.count; i++)
        if (g->params.items[i].sections.pad)
            return &g->params.items[i];
    return NULL;
}

/* A box has a row of zeros more than a part's kernels know, and all sums agree. */
static bool plant_larger_boxes(Gen *g)
{
    Param *p = padded_param(g);
    int64_t *rows = gen_alloc(g, sizeof *rows), row;

    if (!p)
        return false;
    row = p->elems / p->decl->dim[0];
    *rows = p->sections.elems[0] + p->boxes;
    p->sections = (Sections){1, rows, p->sections.pad + p->boxes};
    p->held_elems += row;
    g->segments.items[p->segment].used_elems += layout_held_boxes(p) * row;
    return true;
}

static bool plant_more_zeros(Gen *g)
{
    Param *p = padded_param(g);

    if (p)
        p->sections.pad++;
    return p != NULL;
}

/* Boxes follow each other without regard to grains, so a chunk of a norm would be in two.
 */
static bool plant_across(Gen *g)
{
    for (int i = 0; i < g->params.count; i++) {
        Param *p = &g->params.items[i];

        if (layout_held_boxes(p) > 1 && layout_box_elems(p) % GRAIN_ELEMS != 0) {
            p->held_elems = layout_held_boxes(p) * layout_box_elems(p);
            return true;
        }
    }
    return false;
}

/* Ranks along the other axis hold the boxes of a segment. */
static bool plant_other_ranks(Gen *g)
{
    const RankBits tensor = g->model.mesh.axis[AXIS_TENSOR].bits,
                   context = g->model.mesh.axis[AXIS_CONTEXT].bits;

    for (int i = 0; i < g->segments.count; i++) {
        Segment *s = &g->segments.items[i];

        if (s->axes != (tensor | context))
            continue;
        s->axes = fault_axis == PARTS_TENSOR ? context : tensor;
        for (int k = 0; k < s->n_params; k++)
            g->params.items[s->params[k]].axes = s->axes;
        return true;
    }
    return false;
}

/* ---- meets ----------------------------------------------------------------------- */

static bool plant_alone(Gen *g)
{
    Instr *i = joint(g);

    if (i)
        i->group = 0;
    return i != NULL;
}

/* As if only parts along the other axis met. */
static bool plant_one_axis(Gen *g)
{
    const RankBits bits = g->model.mesh.axis[parts_mesh(fault_axis)].bits;

    for (int id = g->prog.first[VARIANT_LAST]; id < g->prog.ins.count; id++) {
        Instr *i = &g->prog.ins.items[id];

        if (i->kind != INS_SPAN || !(i->group & bits) || i->group == bits)
            continue;
        i->group &= ~bits;
        return true;
    }
    return false;
}

/* Peers read a buffer of the span that nothing says they do. */
static bool plant_unseen(Gen *g)
{
    Instr *i = joint(g);

    for (int a = 0; i && a < i->n_access; a++)
        if (i->access[a].remote) {
            i->access[a] = i->access[--i->n_access];
            return true;
        }
    return false;
}

/* A meet brings the parts of one rank less. */
static bool plant_less_met(Gen *g)
{
    Instr *i = joint(g);

    if (i)
        i->moved_bytes /= 2;
    return i != NULL;
}

/* ---- the faults ------------------------------------------------------------------ */

static const Fault faults[] = {
    {"one slab of saved values for all parts", plant_one_saved, verify_unroll,
     "bytes, but", true},
    {"one slab of scratch for all parts", plant_one_scratch, verify_unroll, "bytes, but",
     true},
    {"one boundary value for all parts", plant_one_boundary, verify_unroll, "bytes, but",
     true},
    {"the next part's weights", plant_next_weights, verify_unroll, "at the wrong place",
     true},
    {"the next part's gradient", plant_next_gradient, verify_unroll, "at the wrong place",
     true},
    {"boxes with a row of zeros more", plant_larger_boxes, verify_shard,
     "not cut as it says", true},
    {"more zeros than boxes have room for", plant_more_zeros, verify_shard,
     "other parameters than lie in it", false},
    {"q, k and v stored as one", plant_one_section, verify_shard, "not cut as it says",
     true},
    {"a chunk across boxes", plant_across, verify_shard, "segment", false},
    {"a span that joins no ranks", plant_alone, verify_schedule, "does not join", true},
    {"an access of peers unsaid", plant_unseen, verify_schedule, "read values unseen",
     false},
    {"a meet that brings half", plant_less_met, verify_unroll, " brings ", false},
};

static void judge(Gen *g, const Fault *f, const Interpretation *want)
{
    const char *bad = f->check(g);
    Interpretation got;

    models_check(bad && strstr(bad, f->named), "%s: %s", f->name,
                 bad ? bad : "not noticed");
    if (!f->shows)
        return;
    got = models_run(g, 3);
    models_check(!same_state(want, &got), "%s: and no bit shows it", f->name);
}

static void without_wait(Gen *g, Instr *i, int w, const Interpretation *want)
{
    const int on = i->waits[w], last = --i->n_waits;
    const char *bad;

    i->waits[w] = i->waits[last];
    i->waits[last] = on;
    bad = verify_schedule(g);
    bad = bad ? bad : verify_place(g);
    models_check(!verify_races(g, true) == !verify_races_of_all(g, true),
                 "two ranks along each part and all ranks: one of them shows a race");
    for (uint64_t order = 0; order < 3 && !bad; order++) {
        Interpretation got = models_run(g, order + 50);

        models_check(same_state(want, &got), "without a wait for %s: %s",
                     ins_label(g, &g->prog.ins.items[on]),
                     got.fault ? got.fault : "other bits, unforeseen");
    }
    i->waits[last] = i->waits[w];
    i->waits[w] = on;
    i->n_waits++;
    if (bad)
        models_passed++;
}

static void remove_waits(Gen *g, const Interpretation *want)
{
    int waits = 0;

    models_check(!verify_races_of_all(g, true), "a race without a fault");
    for (int id = 0; id < g->prog.ins.count; id++)
        for (int w = 0; w < g->prog.ins.items[id].n_waits; w++, waits++)
            without_wait(g, &g->prog.ins.items[id], w, want);
    models_check(waits > 0, "no wait to remove");
}

static void judge_legs(const PartsFaulty *x, const char *folder, const SplitFault *f,
                       const Interpretation *want)
{
    Gen *g = x->open(folder, "{shard=1}");
    const Fault leg = {f->name, f->plant, verify_legs, f->named,
                       !strstr(f->named, "workspace")};
    const bool planted = f->plant(g);

    models_check(planted, "%s: no place for it", f->name);
    if (planted)
        judge(g, &leg, want);
}

static void judge_axis(const PartsFaulty *x, const char *folder,
                       const Interpretation *want)
{
    for (const SplitFault *f = legs_faults; f->name; f++)
        if (f->place != ALONG_TENSOR || fault_axis == PARTS_TENSOR)
            judge_legs(x, folder, f, want);
    if (x->along[PARTS_TENSOR] && x->along[PARTS_CONTEXT]) {
        static const Fault both[] = {
            {"a span that joins ranks along one axis", plant_one_axis, verify_schedule,
             "does not join", true},
            {"boxes on other ranks", plant_other_ranks, verify_shard,
             "other parameters than lie in it", false},
        };

        for (size_t k = 0; k < sizeof both / sizeof *both; k++) {
            Gen *g = x->open(folder, "{tensor=2,context=2}");
            const bool planted = both[k].plant(g);

            models_check(planted, "%s: no place for it", both[k].name);
            if (planted)
                judge(g, &both[k], want);
        }
    }
}

void test_parts_faults(const PartsFaulty *x, const char *folder,
                       const Interpretation *want)
{
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
        Gen *g = x->open(folder, x->two);
        bool planted = faults[k].plant(g);

        models_check(planted, "%s: no place for it", faults[k].name);
        if (planted)
            judge(g, &faults[k], want);
    }
    for (int axis = 0; axis < N_PARTS_AXES; axis++) {
        fault_axis = axis;
        if (x->along[axis])
            judge_axis(x, folder, want);
    }
    remove_waits(x->open(folder, x->waits), want);
}
