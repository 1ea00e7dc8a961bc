/* SPDX-License-Identifier: Apache-2.0 */
/* test_faults: plans damaged on purpose, one fault at a time; the checker of the pass
 * must name it. Faults that can be executed are also run: some legal order must show
 * other bits. */
#include "test_faults.h"

#include <string.h>

typedef struct Fault {
    const char *name;
    bool (*plant)(Gen *g, uint64_t *r); /* false: this model has no place for it */
    const char *(*check)(Gen *g);
    bool runs; /* the interpreter must show it, too, now and then */
    int every; /* one block in so many is recomputed */
    enum {
        STATE = 1,
        CODES = 2
    } of; /* models where every rank holds all weights and a
           * part of the state; that are gathered in fp8 */
} Fault;

int choose(uint64_t *r, int n)
{
    return n > 0 ? (int)(synth_random(r) % (uint64_t)n) : -1;
}

/* ---- unroll ---------------------------------------------------------------------- */

Instr *find_ins(Gen *g, uint64_t *r, InsKind kind)
{
    int from = choose(r, g->prog.ins.count);
    for (int k = 0; k < g->prog.ins.count; k++) {
        Instr *i = &g->prog.ins.items[(from + k) % g->prog.ins.count];
        if (i->kind == kind)
            return i;
    }
    return NULL;
}

static bool touches(const Instr *i, int buffer)
{
    for (int a = 0; a < i->n_access; a++)
        if (i->access[a].buffer == buffer)
            return true;
    return false;
}

/* The gather comes one instruction late: the span that needs it stands before it. */
static bool plant_late_gather(Gen *g, uint64_t *r)
{
    Instr *i = find_ins(g, r, INS_ALL_GATHER);
    for (int id = i ? i->id + 1 : g->prog.ins.count; id < g->prog.ins.count; id++) {
        Instr *span = &g->prog.ins.items[id];
        if (span->kind == INS_SPAN && touches(span, i->to)) {
            Instr kept = *span;
            int at = i->id;
            *span = *i;
            *i = kept;
            span->id = id;
            i->id = at;
            for (int k = 0; k < g->prog.n_bindings; k++) {
                g->prog.bindings[k].ins =
                    g->prog.bindings[k].ins == id ? at : g->prog.bindings[k].ins;
            }
            return true;
        }
    }
    return false;
}

/* A gather stands at the start of its variant, units ahead of what limit and depth
 * allow. */
static bool plant_early_gather(Gen *g, uint64_t *r)
{
    Instr *i = find_ins(g, r, INS_ALL_GATHER);
    int to = i ? g->prog.first[i->variant] : 0;
    if (!i || i->phase == PHASE_FORWARD || g->units.count < 4 ||
        plan_units_ahead(&g->model, PHASE_FORWARD) > 1)
        return false; /* of few units, all are one ahead */
    Instr kept = *i;
    int from = i->id;
    memmove(&g->prog.ins.items[to + 1], &g->prog.ins.items[to],
            sizeof kept * (size_t)(from - to));
    g->prog.ins.items[to] = kept;
    for (int id = to; id <= from; id++)
        g->prog.ins.items[id].id = id;
    for (int k = 0; k < g->prog.n_bindings; k++) {
        int at = g->prog.bindings[k].ins;
        g->prog.bindings[k].ins += at >= to && at < from;
    }
    return true;
}

/* A grain beside its place, but still inside its buffer: the interpreter executes it. */
static bool plant_wrong_binding(Gen *g, uint64_t *r)
{
    int from = choose(r, g->prog.n_bindings);
    for (int k = 0; k < g->prog.n_bindings; k++) {
        struct Binding *b = &g->prog.bindings[(from + k) % g->prog.n_bindings];
        const Instr *i = &g->prog.ins.items[b->ins];
        const ClassParam *decl = &g->blocks.items[i->block].cls->params.items[b->param];
        int64_t bytes =
            decl->elems *
            dtype_bytes(b->of == BIND_GRAD ? g->model.reduce_dtype : decl->gathered);
        int64_t room = g->prog.bufs.items[b->buffer].bytes - b->offset_bytes - bytes;
        if (room >= 4 * GRAIN_ELEMS || b->offset_bytes >= 4 * GRAIN_ELEMS) {
            b->offset_bytes += (room >= 4 * GRAIN_ELEMS ? 4 : -4) * GRAIN_ELEMS;
            return true;
        }
    }
    return false;
}

static bool plant_unbound(Gen *g, uint64_t *r)
{
    int k = choose(r, g->prog.n_bindings);
    memmove(&g->prog.bindings[k], &g->prog.bindings[k + 1],
            sizeof *g->prog.bindings * (size_t)(g->prog.n_bindings - k - 1));
    g->prog.n_bindings--;
    return true;
}

Instr *find_recompute(Gen *g, uint64_t *r)
{
    int from = choose(r, g->prog.ins.count);
    for (int k = 0; k < g->prog.ins.count; k++) {
        Instr *i = &g->prog.ins.items[(from + k) % g->prog.ins.count];
        if (i->kind == INS_SPAN && i->phase == PHASE_RECOMPUTE)
            return i;
    }
    return NULL;
}

static void move_access(Instr *i, int from, int to)
{
    for (int a = 0; a < i->n_access; a++)
        i->access[a].buffer = i->access[a].buffer == from ? to : i->access[a].buffer;
}

/* The second forward fills the slab of the first: the backward finds nothing in its own.
 */
static bool plant_not_again(Gen *g, uint64_t *r)
{
    Instr *again = find_recompute(g, r);
    for (int id = 0; again && id < again->id; id++) {
        const Instr *i = &g->prog.ins.items[id];
        if (i->kind == INS_SPAN && i->block == again->block &&
            i->variant == again->variant) {
            move_access(again, again->saved, i->saved);
            again->saved = i->saved;
            return true;
        }
    }
    return false;
}

/* The second forward reads a boundary that is not its own block's. */
static bool plant_again_from_elsewhere(Gen *g, uint64_t *r)
{
    Instr *again = find_recompute(g, r);
    if (!again || again->in < 0)
        return false;
    for (int b = 0; b < g->prog.bufs.count; b++) {
        const Buffer *buf = &g->prog.bufs.items[b];
        if (buf->kind == BUF_BOUNDARY && buf->block != again->block - 1 &&
            buf->block < again->block) {
            move_access(again, again->in, b);
            again->in = b;
            return true;
        }
    }
    return false;
}

static bool plant_two_reductions(Gen *g, uint64_t *r)
{
    Instr *i = find_ins(g, r, INS_REDUCE_SCATTER);
    if (!i || g->segments.count < 2)
        return false;
    i->segment = (i->segment + 1) % g->segments.count;
    return true;
}

static bool plant_early_reduction(Gen *g, uint64_t *r)
{
    Instr *i = find_ins(g, r, INS_REDUCE_SCATTER);
    if (!i || g->prog.ins.items[i->id - 1].kind != INS_SPAN)
        return false;
    Instr kept = i[-1];
    i[-1] = *i;
    *i = kept;
    i[-1].id--;
    i->id++;
    for (int k = 0; k < g->prog.n_bindings; k++)
        g->prog.bindings[k].ins += g->prog.bindings[k].ins == kept.id;
    return true;
}

static bool plant_more_turns(Gen *g, uint64_t *r)
{
    StepNode *node = &g->prog.step.nodes[0];
    (void)r;
    if (node->of == NODE_LINE)
        return false;
    node->turns++;
    return true;
}

static bool plant_lost_line(Gen *g, uint64_t *r)
{
    (void)r;
    g->prog.step.n_nodes--;
    return true;
}

static bool plant_tasks_turned(Gen *g, uint64_t *r)
{
    const int n = g->prog.n_tasks[VARIANT_LAST],
              at = (int)(synth_random(r) % (uint64_t)n);
    Task *t = g->prog.tasks[VARIANT_LAST], kept = t[at];
    t[at] = t[(at + 1) % n];
    t[(at + 1) % n] = kept;
    return n > 1;
}

static bool plant_other_task(Gen *g, uint64_t *r)
{
    Instr *i = find_ins(g, r, INS_SPAN);
    i->phase = i->phase == PHASE_FORWARD ? PHASE_BACKWARD : PHASE_FORWARD;
    return true;
}

static bool plant_lost_merge(Gen *g, uint64_t *r)
{
    Instr *i = find_ins(g, r, INS_MERGE);
    if (!i || g->segments.count < 2)
        return false;
    i->segment = (i->segment + 1) % g->segments.count;
    return true;
}

static bool plant_lost_sum(Gen *g, uint64_t *r)
{
    Instr *i = find_ins(g, r, INS_ALL_REDUCE);
    if (!i || g->segments.count < 2)
        return false;
    i->segment = (i->segment + 1) % g->segments.count;
    return true;
}

static Instr *not_span(Gen *g, uint64_t *r)
{
    for (int tries = 0; tries < 200; tries++) {
        Instr *i = &g->prog.ins.items[choose(r, g->prog.ins.count)];
        if (i->kind != INS_SPAN)
            return i;
    }
    return NULL;
}

/* As a row of kinds.c would that forgets an operand. */
static bool plant_lost_access(Gen *g, uint64_t *r)
{
    Instr *i = not_span(g, r);
    if (i)
        i->access[choose(r, i->n_access)] = i->access[i->n_access - 1];
    return i && i->n_access-- > 0;
}

static bool plant_read_for_write(Gen *g, uint64_t *r)
{
    Instr *i = not_span(g, r);
    Access *a = i ? &i->access[choose(r, i->n_access)] : NULL;
    if (a)
        a->write = !a->write;
    return a;
}

/* One rank after the other, where the description asks for the tree. */
static bool plant_other_order(Gen *g, uint64_t *r)
{
    Instr *i = find_ins(g, r, choose(r, 2) ? INS_REDUCE_SCATTER : INS_ALL_REDUCE);
    if (i)
        i->order = ORDER_LIBRARY;
    return i;
}

static bool plant_early_update(Gen *g, uint64_t *r)
{
    Instr *n = find_ins(g, r, INS_NORM_REDUCE);
    Instr kept = n[0];
    n[0] = n[1];
    n[1] = kept;
    n[0].id--;
    n[1].id++;
    return true;
}

/* ---- schedule -------------------------------------------------------------------- */

static bool plant_cycle(Gen *g, uint64_t *r)
{
    for (int tries = 0; tries < 50; tries++) {
        Instr *i = &g->prog.ins.items[choose(r, g->prog.ins.count)];
        if (i->n_waits > 0 && i->id + 1 < g->prog.ins.count) {
            i->waits[0] = i->id + 1;
            return true;
        }
    }
    return false;
}

bool drop_wait(Gen *g, uint64_t *r, InsKind of, InsKind on)
{
    int from = choose(r, g->prog.ins.count);
    for (int k = 0; k < g->prog.ins.count; k++) {
        Instr *i = &g->prog.ins.items[(from + k) % g->prog.ins.count];
        for (int w = 0; i->kind == of && w < i->n_waits; w++) {
            if (g->prog.ins.items[i->waits[w]].kind == on) {
                i->waits[w] = i->waits[--i->n_waits];
                return true;
            }
        }
    }
    return false;
}

static bool plant_no_gather_wait(Gen *g, uint64_t *r)
{
    return drop_wait(g, r, INS_SPAN, INS_ALL_GATHER);
}

static bool plant_no_grad_wait(Gen *g, uint64_t *r)
{
    return drop_wait(g, r, INS_REDUCE_SCATTER, INS_SPAN);
}

/* A collective among other ranks than those that hold the parts. */
static bool plant_other_ranks(Gen *g, uint64_t *r)
{
    Instr *i = find_ins(g, r, INS_ALL_REDUCE);
    if (i)
        i->group = g->segments.items[i->segment].within;
    return i != NULL;
}

static bool plant_no_sum_wait(Gen *g, uint64_t *r)
{
    return drop_wait(g, r, INS_NORM, INS_ALL_REDUCE);
}

static bool plant_no_norm_wait(Gen *g, uint64_t *r)
{
    return drop_wait(g, r, INS_NORM, INS_REDUCE_SCATTER);
}

/* Said to hold a part of the weights, while its buffer and spans have all. */
static bool plant_other_placement(Gen *g, uint64_t *r)
{
    Segment *s = &g->segments.items[choose(r, g->segments.count)];
    s->cut[HELD_PARAMS] = s->cut[HELD_OPTIMIZER];
    return true;
}

/* A segment whose sums go over rounds first, where leaves are dealt to ranks first. */
static bool plant_leaf_order(Gen *g, uint64_t *r)
{
    Segment *s = &g->segments.items[choose(r, g->segments.count)];
    if (!s->trainable || !s->within || !g->model.accumulate_sharded)
        return false;
    s->across |= s->within;
    s->within = 0;
    return true;
}

static const Fault faults[] = {
    {"parameters overlap", plant_param_overlap, verify_shard, false, 0, 0},
    {"parameter off the grain", plant_param_off_grain, verify_shard, false, 0, 0},
    {"unequal shards", plant_unequal_shards, verify_shard, false, 0, 0},
    {"parameter lost", plant_param_lost, verify_shard, false, 0, 0},
    {"segment said to be frozen", plant_frozen, verify_shard, false, 0, 0},
    {"gradient of what is frozen", plant_frozen, verify_unroll, false, 0, 0},
    {"another dtype", plant_other_dtype, verify_shard, false, 0, 0},
    {"one key twice", plant_one_key, verify_shard, false, 0, 0},
    {"parts along data", plant_cut_along_data, verify_shard, false, 0, 0},
    {"half a parameter", plant_half_held, verify_shard, false, 0, 0},
    {"copies mixed", plant_copies_mixed, verify_shard, false, 0, 0},
    {"a parameter listed twice", plant_param_twice, verify_shard, false, 0, 0},
    {"another unit's segment", plant_other_segment, verify_shard, false, 0, 0},
    {"shards larger than needed", plant_larger_shards, verify_shard, false, 0, 0},
    {"late gather", plant_late_gather, verify_unroll, false, 0, 0},
    {"gather too early", plant_early_gather, verify_unroll, false, 0, 0},
    {"binding at the wrong place", plant_wrong_binding, verify_unroll, true, 0, 0},
    {"operand not bound", plant_unbound, verify_unroll, false, 0, 0},
    {"a turn too many", plant_more_turns, verify_unroll, false, 0, 0},
    {"a line lost", plant_lost_line, verify_unroll, false, 0, 0},
    {"tasks in another order", plant_tasks_turned, verify_unroll, false, 0, 0},
    {"a call that is another task", plant_other_task, verify_unroll, false, 0, 0},
    {"two reductions", plant_two_reductions, verify_unroll, false, 0, 0},
    {"early reduction", plant_early_reduction, verify_unroll, false, 0, 0},
    {"nothing computed again", plant_not_again, verify_unroll, true, 1, 0},
    {"computed again from elsewhere", plant_again_from_elsewhere, verify_unroll, true, 2,
     0},
    {"lost merge", plant_lost_merge, verify_unroll, false, 0, 0},
    {"sum over copies lost", plant_lost_sum, verify_unroll, false, 0, 0},
    {"an access left out", plant_lost_access, verify_unroll, false, 0, 0},
    {"an access of another kind", plant_read_for_write, verify_unroll, false, 0, 0},
    {"a sum in another order", plant_other_order, verify_unroll, true, 0, 0},
    {"update before the norm", plant_early_update, verify_unroll, false, 0, 0},
    {"a first gradient that adds", plant_first_adds, verify_unroll, true, 0, 0},
    {"a later gradient that stores", plant_later_stores, verify_unroll, true, 0, 0},
    {"a gradient from elsewhere", plant_grad_from_elsewhere, verify_unroll, true, 0, 0},
    {"weights read in gradients", plant_weights_of_gradient, verify_unroll, true, 0,
     STATE},
    {"an access of a span left out", plant_span_access_lost, verify_unroll, false, 0, 0},
    {"a span's read for a write", plant_span_access_other, verify_unroll, false, 0, 0},
    {"a span that peers read", plant_span_peers, verify_unroll, false, 0, 0},
    {"another call's scratch", plant_other_scratch, verify_unroll, false, 0, 0},
    {"less state", plant_less_state, verify_unroll, false, 0, 0},
    {"less room for weights", plant_less_gathered, verify_unroll, false, 0, 0},
    {"less room for shared data", plant_less_shared, verify_unroll, false, 0, 0},
    {"fewer levels of partial sums", plant_less_levels, verify_unroll, false, 0, 0},
    {"more rounds", plant_more_rounds, verify_unroll, false, 0, 0},
    {"more micro-batches of a leaf", plant_more_micro_batches, verify_unroll, false, 0,
     0},
    {"state that is not persistent", plant_state_in_passing, verify_unroll, false, 0, 0},
    {"peers in a local buffer", plant_peers_at_local, verify_unroll, false, 0, 0},
    {"waits of one rank", plant_waits_alone, verify_simulate, false, 0, 0},
    {"waits longer than a step", plant_long_waits, verify_simulate, false, 0, 0},
    {"more elements moved", plant_more_elems, verify_unroll, false, 0, 0},
    {"another dtype moved", plant_moved_dtype, verify_unroll, false, 0, 0},
    {"fewer bytes moved", plant_moved_less, verify_unroll, false, 0, 0},
    {"wait cycle", plant_cycle, verify_schedule, false, 0, 0},
    {"no wait for a gather", plant_no_gather_wait, verify_schedule, true, 0, 0},
    {"no wait for a gradient", plant_no_grad_wait, verify_schedule, true, 0, 0},
    {"no wait for a reduction", plant_no_norm_wait, verify_schedule, true, 0, 0},
    {"no wait for a sum over copies", plant_no_sum_wait, verify_schedule, true, 0, 0},
    {"a sum among other ranks", plant_other_ranks, verify_schedule, false, 0, 0},
    {"updated weights not shared", plant_not_shared, verify_unroll, false, 0, STATE},
    {"updated weights shared early", plant_shared_early, verify_schedule, true, 0, STATE},
    {"gathered in another dtype", plant_other_codes, verify_shard, false, 0, 0},
    {"weights gathered for codes", plant_gathered_weights, verify_unroll, false, 0,
     CODES},
    {"weights read for codes", plant_bound_weights, verify_unroll, false, 0,
     STATE | CODES},
    {"codes before their scales", plant_codes_early, verify_unroll, false, 0, CODES},
    {"codes of a segment lost", plant_codes_lost, verify_unroll, true, 0, CODES},
    {"codes of weights of before", plant_codes_of_before, verify_schedule, true, 0,
     STATE | CODES},
    {"updated weights not waited for", plant_not_closed, verify_schedule, false, 0,
     STATE},
    {"leaves dealt in another order", plant_leaf_order, verify_policy, false, 0, 0},
    {"another placement", plant_other_placement, verify_shard, false, 0, STATE},
    {"two saved slabs in one place", plant_saved_twice, verify_place, true, 0, 0},
    {"scratch on a saved slab", plant_scratch_on_saved, verify_place, true, 0, 0},
    {"boundary under a slab", plant_dropped_on_boundary, verify_place, true, 1, 0},
    {"slab on persistent bytes", plant_on_persistent, verify_place, true, 0, 0},
    {"gradient under peers' eyes", plant_grad_under_peers, verify_place, true, 0, 0},
    {"misaligned buffer", plant_misaligned, verify_place, false, 0, 0},
    {"buffer outside", plant_outside, verify_place, false, 0, 0},
};

static bool shows(Gen *g, const Interpretation *want)
{
    for (uint64_t order = 0; order < 24; order++) {
        Interpretation got = run_model(g, order * 7 + 3);
        if (!same_state(want, &got))
            return true;
    }
    return false;
}

enum { PLANTED, FAULTS_SHOWN }; /* in test_tally */

static uint64_t faults_seed;

static void plant_kind(uint64_t f)
{
    int here = 0, shown = 0;
    bool silent = true;
    bool lacking = true; /* some faults fit few shapes: such a kind is drawn on */
    for (uint64_t k = 0; lacking ? k < 1000 : k < 60 && here < 5; k++) {
        uint64_t r = faults_seed + k * 31 + f;
        SynthShape shape = synth_shape(faults_seed + k);
        SynthMesh base = synth_numerics(faults_seed + k);
        SynthMesh mesh = synth_mesh(faults_seed + k, base);
        Interpretation want;
        Gen *g;
        mesh.ranks = 2 + 2 * (int64_t)(k & 1);
        mesh.replicate = 1;
        mesh.reshard_ranks = k & 4 ? 1 : mesh.ranks;
        mesh.strategy = FULL_SHARD;
        if (k & 2) {
            mesh.ranks = 4;
            mesh.replicate = 2;
            mesh.reshard_ranks = k & 4 ? 1 : 2;
            mesh.strategy = HYBRID_SHARD;
        }
        if (faults[f].of & STATE)
            mesh.strategy = SHARD_OPTIMIZER;
        synth_beside(&mesh, 8, faults_seed + k);
        mesh.every = faults[f].every;
        shape.layers += 2;
        shape.codes |= (faults[f].of & CODES) != 0;
        g = plan_model(&shape, &mesh);
        want = run_model(g, 1);
        silent = silent && !want.fault && !faults[f].check(g);
        if (faults[f].plant(g, &r)) {
            here++;
            test_that(faults[f].check(g), "%s (model %llu): not noticed", faults[f].name,
                      (unsigned long long)(faults_seed + k));
            shown += faults[f].runs && shows(g, &want);
            lacking = faults[f].runs && !shown;
        }
    }
    test_that(silent, "%s: noticed where there is none", faults[f].name);
    test_that(here > 0, "%s: never planted", faults[f].name);
    test_that(!faults[f].runs || shown > 0, "%s: no order shows it", faults[f].name);
    test_tally[PLANTED] += here;
    test_tally[FAULTS_SHOWN] += shown;
}

void test_faults(uint64_t seed)
{
    int kinds = sizeof faults / sizeof *faults;
    faults_seed = seed;
    memset(test_tally, 0, sizeof test_tally);
    for (int f = 0; f < kinds; f++)
        test_forked(plant_kind, (uint64_t)f);
    printf("figure: planted faults: %d of %d kinds, all named unless said; "
           "%d shown by other bits\n",
           test_tally[PLANTED], kinds, test_tally[FAULTS_SHOWN]);
}
