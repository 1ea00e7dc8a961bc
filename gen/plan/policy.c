/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c: the choices outside the hash that the description leaves open.
 *
 * Needs units and segments (shard). Changes only fields of g->model that are outside the
 * numerics hash, and of each block what it keeps. Breaks nothing. A block's backward
 * finds what its forward made, or the forward runs again from the block's input, which is
 * always kept: so everything it needs is live or recomputable.
 *
 * With recompute = "auto" this is where the search begins (search.c). Here too: what a
 * plan costs, and what to do when that exceeds the target's budget. */
#include "plan/plan.h"
#include "base/show.h"

/* A reduction may run beside the next span's mathematics if there is room for both
 * gradients: where a unit's gradient is a small part of what the rank holds anyway. Else
 * each span waits for the reduction before it, and the arena keeps near what a single
 * stream would need. With a communication thread it is what the thread is for. */
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
        held += s->param_elems * dtype_bytes(s->dtype) +
                (s->trainable ? s->shard_elems * (state + master) : 0);
        if (s->trainable && u->pieces[0].block > 0 &&
            u->pieces[u->n_pieces - 1].block < g->blocks.count - 1)
            largest = max_i64(largest, s->elems * dtype_bytes(m->reduce_dtype));
    }
    for (int b = 0; b < g->blocks.count; b++) {
        const Block *k = &g->blocks.items[b];
        held += k->keep == KEEP_ALL    ? k->cls->saved_bytes
                : k->keep == KEEP_SOME ? k->cls->kept_bytes
                                       : 0;
    }
    return largest * OVERLAP_DIVISOR <= held ? 1 : 0;
}

/* Would dropping what the block saves free memory for a while? Not in the last block: its
 * backward follows its forward. Nor does a block that makes the loss run twice. */
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
    /* Without shards the sum of a leaf over ranks is as large as the leaf's own gradient,
     * so reducing after every leaf saves no memory and costs a collective for each; and
     * nothing else in a micro-step would tell a rank that its peers have read its
     * gradients. */
    if (g->segments.count > 0 && g->segments.items[0].shards == 1 &&
        m->mesh.world_size > 1)
        m->accumulate_sharded = false;
    if (m->recompute == RECOMPUTE_CHEAP || m->recompute == RECOMPUTE_OPS ||
        m->recompute == RECOMPUTE_AUTO)
        recompute_classes(g, m->recompute);
    recompute_check_ops(g);
    choose_recompute(g);
    for (int i = 0; i < g->units.count; i++) {
        const Segment *s = &g->segments.items[g->units.items[i].segments[0]];
        g->units.items[i].keep_gathered = s->cut[HELD_PARAMS] && !s->cut[HELD_BETWEEN];
    }
    m->prefetch_forward = max_i64(0, m->prefetch_forward);
    m->prefetch_backward = max_i64(0, m->prefetch_backward);
    m->gathers_in_flight = max_i64(1, m->gathers_in_flight);
    policy_settle(g);
    g->search = NULL;
    gen_require(g->numerics_hash == hash, "policy changed the numerics hash");
}

/* ---- what a plan costs ----------------------------------------------------------- */

Cost policy_cost(Gen *g)
{
    PlanBytes b = plan_bytes(g);
    const int64_t *k = b.by_kind;
    const StrategyRule *rule = strategy_rule(g->model.strategy);
    bool whole = rule->cut[HELD_OPTIMIZER] && !rule->cut[HELD_PARAMS];
    return (Cost){
        .bytes = b.total,
        .sharded_bytes = (whole ? 0 : k[BUF_PARAM_SHARD]) + k[BUF_MASTER] +
                         k[BUF_MOMENT1] + k[BUF_MOMENT2] + k[BUF_GRAD_SHARD] +
                         (g->model.accumulate_sharded ? k[BUF_PARTIAL] : 0),
        .batch_bytes = k[BUF_BOUNDARY] + k[BUF_D_BOUNDARY] + k[BUF_SAVED] +
                       k[BUF_SCRATCH] + k[BUF_DATA],
        .seconds = g->prog.step_seconds,
    };
}

/* ---- a budget that is exceeded --------------------------------------------------- */

/* About what a rank holds with n times the ranks of a copy and 1/k of a micro-batch. */
static int64_t bytes_with(const Cost *c, int64_t n, int64_t k)
{
    return c->bytes - c->sharded_bytes + c->sharded_bytes / n - c->batch_bytes +
           c->batch_bytes / k;
}

/* The first change of those given that fits, as text; NULL if none does. */
static const char *change_that_fits(Gen *g, const Cost *c, const char *with, bool mesh,
                                    bool batch)
{
    const Model *m = &g->model;
    int64_t now = g->segments.items[0].shards, bytes;
    for (int64_t n = mesh ? 2 : 1; n <= (mesh ? MAX_RANKS : 1); n *= 2) {
        for (int64_t k = batch ? 2 : 1; k <= (batch ? m->micro_batch : 1); k *= 2) {
            Text t = {.g = g};
            bytes = bytes_with(c, n, k);
            if (bytes > m->budget_bytes ||
                now * n * m->mesh.axis[AXIS_REPLICATE].degree > MAX_RANKS ||
                now * n * m->mesh.axis[AXIS_REPLICATE].degree > m->leaves ||
                m->micro_batch % k != 0)
                continue;
            text_printf(&t, "%s", with);
            if (mesh) {
                text_printf(&t, "%smesh.shard = %lld", t.len ? " with " : "",
                            (long long)(now * n));
            }
            if (batch) {
                text_printf(&t, "%smicro_batch = %lld", t.len ? " with " : "",
                            (long long)(m->micro_batch / k));
            }
            text_printf(&t, " needs about %s a rank", show_bytes(g, bytes));
            return t.s;
        }
    }
    return NULL;
}

/* What would fit: each single change that does, or the first that do together. */
static const char *what_fits(Gen *g, const Cost *now, const Cost *again)
{
    const char *recompute = again->bytes < now->bytes ? "recompute = \"block\"" : "";
    const char *found;
    Text t = {.g = g};
    for (int change = 1; change < 8; change++) { /* bits: recompute, mesh, micro_batch */
        bool single = change == 1 || change == 2 || change == 4;
        if ((change & 1 && !*recompute) || (!single && t.len))
            continue;
        found = change_that_fits(g, change & 1 ? again : now, change & 1 ? recompute : "",
                                 change & 2, change & 4);
        if (found)
            text_printf(&t, "%s%s", t.len ? "; " : "", found);
    }
    return t.len
               ? t.s
               : gen_printf(g,
                            "no recomputation, mesh.shard or micro_batch fits: give a "
                            "rank at least %s, or take a shorter seq or a smaller model",
                            show_bytes(g, again->bytes));
}

void policy_recompute_all(Gen *g)
{
    for (int b = 0; b < g->blocks.count; b++) {
        Block *k = &g->blocks.items[b];
        k->keep = policy_may_recompute(g, k) ? KEEP_INPUT : KEEP_ALL;
    }
}

void policy_over_budget(Gen *g, const Cost *now, const Cost *again)
{
    const Model *m = &g->model;
    Pos pos = model_pos(g, "target.memory");
    const char *path = pos.line ? "target.memory" : m->target->budget_field;
    pos = model_pos(g, path);
    diag_add(g, DIAG_ERROR, pos.line ? pos : model_pos(g, "target"),
             what_fits(g, now, again),
             "%s: the plan needs %s on each rank%s, the budget is %s", path,
             show_bytes(g, now->bytes),
             m->recompute == RECOMPUTE_AUTO ? " with the least memory that \"auto\" found"
                                            : "",
             show_bytes(g, m->budget_bytes));
    g->exit_code = EXIT_FIT;
}
