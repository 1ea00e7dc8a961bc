/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c: the choices outside the hash that the description leaves open.
 *
 * In: units and segments (shard). Out: fields of g->model that are outside the numerics
 * hash, and what each block keeps. Breaks: nothing. A block's backward either finds what
 * its forward made, or the forward runs again from the block's input, which is always
 * kept. So everything it needs is live or can be recomputed.
 *
 * With recompute = "auto" the search starts here (search.c). This file also has the cost
 * of a plan, and the reaction when it exceeds the target's budget. */
#include "plan/plan.h"
#include "base/show.h"

/* A reduction may run beside the next span's mathematics if both gradients fit: if a
 * unit's gradient is a small part of what the rank holds anyway. Otherwise each span
 * waits for the previous reduction, and the arena stays close to the need of a single
 * stream. With a communication thread reductions always overlap: that is its purpose. */
enum { OVERLAP_DIVISOR = 25 }; /* at most 4 % more memory */

static int64_t overlap_reductions(const Gen *g)
{
    const Model *m = &g->model;
    int64_t held = 0, largest = 0;
    int64_t state =
        dtype_bytes(m->reduce_dtype) + m->moments * dtype_bytes(m->moments_dtype);
    for (int64_t r = m->leaves / m->mesh.data_ranks; r > 1; r /= 2)
        state += dtype_bytes(m->reduce_dtype); /* partial sums */
    for (int i = 0; i < g->segments.count; i++) {
        const Segment *s = &g->segments.items[i];
        const Unit *u = &g->units.items[s->unit];
        int64_t master = segment_has_master(m, s) ? dtype_bytes(m->master_dtype) : 0;
        int codes = segment_has_codes(s) ? dtype_bytes(s->gathered) : 0;
        held += s->param_elems * (dtype_bytes(s->dtype) + codes) +
                (s->trainable ? s->shard_elems * (state + master) : 0);
        if (s->trainable && u->pieces[0].block > 0 &&
            u->pieces[u->n_pieces - 1].block < g->blocks.count - 1)
            largest = max_i64(largest, s->elems * dtype_bytes(m->reduce_dtype));
    }
    for (int b = 0; b < g->blocks.count; b++) {
        const Block *k = &g->blocks.items[b];
        held += plan_parts_bytes(g, k->keep == KEEP_ALL    ? k->cls->saved_bytes
                                    : k->keep == KEEP_SOME ? k->cls->kept_bytes
                                                           : 0);
    }
    return largest * OVERLAP_DIVISOR <= held ? 1 : 0;
}

/* Would dropping the block's saved values free memory for a while? Not in the last block,
 * because its backward follows its forward. And a block that makes the loss must not run
 * twice. */
bool policy_may_recompute(const Gen *g, const Block *b)
{
    return b->cls->saved_bytes > 0 && b->cls->backward.n_nodes > 0 && !b->cls->loss &&
           b->id + 1 < g->blocks.count;
}

bool policy_may_drop_some(const Gen *g, const Block *b)
{
    return policy_may_recompute(g, b) && b->cls->dropped_bytes > 0;
}

static void choose_recompute(Gen *g)
{
    const Model *m = &g->model;
    int64_t every = m->recompute == RECOMPUTE_EVERY ? m->recompute_every : 1, n = 0;
    for (int i = 0; i < g->blocks.count; i++) {
        Block *b = &g->blocks.items[i];
        bool may = policy_may_recompute(g, b);
        bool again = m->recompute == RECOMPUTE_BLOCK || m->recompute == RECOMPUTE_EVERY;
        bool some = m->recompute == RECOMPUTE_CHEAP || m->recompute == RECOMPUTE_OPS;
        b->keep = again && may && n % every == 0       ? KEEP_INPUT
                  : some && policy_may_drop_some(g, b) ? KEEP_SOME
                                                       : KEEP_ALL;
        n += may;
    }
}

void policy_settle(Gen *g)
{
    g->model.reduces_in_flight = g->model.comm_thread ? 1 : overlap_reductions(g);
}

void policy_choose(Gen *g)
{
    Model *m = &g->model;
    uint64_t hash = g->numerics_hash;
    /* Without shards, the sum of a leaf over ranks is as large as the leaf's own
     * gradient. So reducing after every leaf saves no memory and costs a collective each
     * time; and nothing else in a micro-step would tell a rank that its peers have read
     * its gradients. */
    if (!mesh_cut(m, HELD_OPTIMIZER) && m->mesh.world_size > 1)
        m->accumulate_sharded = false;
    if (m->recompute == RECOMPUTE_CHEAP || m->recompute == RECOMPUTE_OPS ||
        m->recompute == RECOMPUTE_AUTO)
        recompute_classes(g, m->recompute);
    recompute_check_ops(g);
    choose_recompute(g);
    for (int i = 0; i < g->units.count; i++)
        g->units.items[i].keep_gathered =
            mesh_cut(m, HELD_PARAMS) && !mesh_cut(m, HELD_BETWEEN);
    policy_settle(g);
    g->search = NULL;
    gen_require(g->numerics_hash == hash, "policy changed the numerics hash");
}

/* ---- the cost of a plan ---------------------------------------------------------- */

Cost policy_cost(Gen *g)
{
    PlanBytes b = plan_bytes(g);
    const int64_t *k = b.by_kind;
    const StrategyRule *rule = strategy_rule(g->model.strategy);
    bool whole = rule->cut[HELD_OPTIMIZER] && !rule->cut[HELD_PARAMS];
    return (Cost){
        .bytes = b.total,
        .sharded_bytes = (whole ? 0 : k[BUF_PARAM_SHARD] + k[BUF_CODES]) + k[BUF_MASTER] +
                         k[BUF_MOMENT1] + k[BUF_MOMENT2] + k[BUF_GRAD_SHARD] +
                         (g->model.accumulate_sharded ? k[BUF_PARTIAL] : 0),
        .batch_bytes = k[BUF_BOUNDARY] + k[BUF_D_BOUNDARY] + k[BUF_SAVED] +
                       k[BUF_SCRATCH] + k[BUF_DATA],
        .seconds = g->prog.step_seconds,
    };
}

/* ---- a plan over the budget ------------------------------------------------------ */

/* Estimates a rank's bytes with n times the ranks of a copy and 1/k of a micro-batch. */
static int64_t bytes_with(const Cost *c, int64_t n, int64_t k)
{
    return c->bytes - c->sharded_bytes + c->sharded_bytes / n - c->batch_bytes +
           c->batch_bytes / k;
}

/* Describes change c with n times the ranks of a copy and 1/k of a micro-batch; NULL if
 * that does not fit. An estimate lacks what the change adds, as gathered weights and sums
 * of several micro-batches, so plan has the last word. */
static const char *change_text(Gen *g, const Change *c, int64_t n, int64_t k,
                               PlanWith *plan)
{
    const Model *m = &g->model;
    int64_t shards = group_ranks(mesh_cut(m, HELD_OPTIMIZER)) * n;
    int64_t ranks = shards * m->mesh.axis[AXIS_REPLICATE].degree; /* that divide leaves */
    int64_t world = ranks * parts_all_ranks(m);
    int64_t bytes = bytes_with(&c->cost, n, k);
    Text t = {.g = g};
    if (bytes > m->budget_bytes || world > STARTED_RANKS || ranks > c->leaves ||
        m->micro_batch % k != 0)
        return NULL;
    text_printf(&t, "%s", c->with);
    if (n > 1)
        text_printf(&t, "%smesh.shard = %lld", t.len ? ", " : "", (long long)shards);
    if (k > 1)
        text_printf(&t, "%smicro_batch = %lld", t.len ? ", " : "",
                    (long long)(m->micro_batch / k));
    if (plan && (n > 1 || k > 1)) {
        Cost cost;
        if (plan(g, t.s, &cost) != EXIT_DONE)
            return NULL;
        bytes = cost.bytes;
    }
    text_printf(&t, " needs about %s a rank", show_bytes(g, bytes));
    if (n > 1)
        text_printf(&t, " on %lld ranks", (long long)world);
    return t.s;
}

/* Describes the first of the given changes that fits; NULL if none does. */
static const char *change_that_fits(Gen *g, const Change *c, bool mesh, bool batch,
                                    PlanWith *plan)
{
    int64_t most_batch = batch ? g->model.micro_batch : 1;
    const char *found = NULL;
    for (int64_t n = mesh ? 2 : 1; !found && n <= (mesh ? STARTED_RANKS : 1); n *= 2)
        for (int64_t k = batch ? 2 : 1; !found && k <= most_batch; k *= 2)
            found = change_text(g, c, n, k, plan);
    return found;
}

/* What would fit: each single change that does, or the first combination. Parts and ranks
 * that share them count as one change. */
static const char *what_fits(Gen *g, const Change *changes, int n_changes,
                             const Change *parts, int n_parts, PlanWith *plan)
{
    const char *found;
    int64_t least = changes[0].cost.bytes;
    Text t = {.g = g};
    for (int i = 0; i < n_changes; i++)
        least = min_i64(least, changes[i].cost.bytes);
    for (int together = 0; together < 2 && !t.len; together++) {
        for (int others = 0; others < 4; others++) { /* bits: mesh, micro_batch */
            for (int i = 0; i < n_changes; i++) {
                int n = changes[i].n_fields + (others & 1) + (others >> 1);
                if (n == 0 || (n > 1) != together || (together && t.len))
                    continue;
                found = change_that_fits(g, &changes[i], others & 1, others & 2, plan);
                if (found)
                    text_printf(&t, "%s%s", t.len ? "; " : "", found);
            }
        }
        for (int i = 0; !together && i < n_parts; i++)
            text_printf(&t, "%s%s needs %s a rank on %lld ranks", t.len ? "; " : "",
                        parts[i].with, show_bytes(g, parts[i].cost.bytes),
                        (long long)parts[i].ranks);
    }
    return t.len ? t.s
                 : gen_printf(
                       g,
                       "no recomputation, leaves, mesh.shard%s or micro_batch fits: "
                       "give a rank at least %s, or take a shorter seq or a smaller "
                       "model",
                       g->in_parts ? gen_printf(g, ", %s", parts_fields(g, "mesh")) : "",
                       show_bytes(g, least));
}

int64_t policy_most_leaves(const Gen *g)
{
    int64_t m = g->model.micro_batches;
    return m & -m;
}

void policy_recompute_all(Gen *g)
{
    for (int b = 0; b < g->blocks.count; b++) {
        Block *k = &g->blocks.items[b];
        k->keep = policy_may_recompute(g, k) ? KEEP_INPUT : KEEP_ALL;
    }
}

void policy_over_budget(Gen *g, const Change *changes, int n_changes, const Change *parts,
                        int n_parts, PlanWith *plan)
{
    const Model *m = &g->model;
    Pos pos = model_pos(g, "target.memory");
    const char *path = pos.line ? "target.memory" : m->target->budget_field;
    pos = model_pos(g, path);
    diag_add(g, DIAG_ERROR, pos.line ? pos : model_pos(g, "target"),
             what_fits(g, changes, n_changes, parts, n_parts, plan),
             "%s: the plan needs %s on each rank%s, the budget is %s", path,
             show_bytes(g, changes[0].cost.bytes),
             m->recompute == RECOMPUTE_AUTO ? " with the least memory that \"auto\" found"
                                            : "",
             show_bytes(g, m->budget_bytes));
    g->base.exit_code = EXIT_FIT;
}
