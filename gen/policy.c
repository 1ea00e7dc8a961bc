/* SPDX-License-Identifier: Apache-2.0 */
/* policy: the choices outside the hash that the description leaves open.
 *
 * Needs units and segments (shard). Changes only fields of g->model that are outside the
 * numerics hash, and of each block what it keeps. Breaks nothing. A block's backward
 * finds what its forward made, or the forward runs again from the block's input, which is
 * always kept: so everything it needs is live or recomputable.
 *
 * Here too: what to do when the placed arena exceeds the target's budget. */
#include "plan.h"

#include <stdlib.h>

/* A reduction may run beside the next span's mathematics if there is room for both
 * gradients: where a unit's gradient is a small part of what the rank holds anyway. Else
 * each span waits for the reduction before it, and the arena keeps near what a single
 * stream would need. */
enum { OVERLAP_DIVISOR = 25 }; /* at most 4 % more memory */

static int64_t overlap_reductions(const Gen *g)
{
    const Model *m = &g->model;
    int64_t held = 0, largest = 0;
    int64_t state =
        dtype_bytes(m->param_dtype) + dtype_bytes(m->reduce_dtype) +
        2 * dtype_bytes(m->moments_dtype) +
        (m->master_dtype != m->param_dtype ? dtype_bytes(m->master_dtype) : 0);
    for (int64_t r = m->leaves / m->world_size; r > 1; r /= 2) {
        state += dtype_bytes(m->reduce_dtype); /* partial sums */
    }
    for (int i = 0; i < g->segments.count; i++) {
        const Segment *s = &g->segments.items[i];
        const Unit *u = &g->units.items[s->unit];
        held += s->shard_elems * state;
        if (u->pieces[0].block > 0 &&
            u->pieces[u->n_pieces - 1].block < g->blocks.count - 1) {
            largest = max_i64(largest, s->elems * dtype_bytes(m->reduce_dtype));
        }
    }
    for (int b = 0; b < g->blocks.count; b++) {
        const Block *k = &g->blocks.items[b];
        held += k->keep == KEEP_ALL ? k->cls->saved_bytes : 0;
    }
    return largest * OVERLAP_DIVISOR <= held ? 1 : 0;
}

/* Would dropping what the block saves free memory for a while? Not in the last block: its
 * backward follows its forward. Nor does a block that makes the loss run twice. */
static bool may_recompute(const Gen *g, const Block *b)
{
    return b->cls->saved_bytes > 0 && b->cls->backward.n_nodes > 0 && !b->cls->loss &&
           b->id + 1 < g->blocks.count;
}

static void choose_recompute(Gen *g)
{
    const Model *m = &g->model;
    int64_t every = m->recompute == RECOMPUTE_EVERY ? m->recompute_every : 1, n = 0;
    for (int i = 0; i < g->blocks.count; i++) {
        Block *b = &g->blocks.items[i];
        bool may = may_recompute(g, b);
        b->keep = may && m->recompute != RECOMPUTE_NONE && n % every == 0 ? KEEP_INPUT
                                                                          : KEEP_ALL;
        n += may;
    }
}

void policy_choose(Gen *g)
{
    Model *m = &g->model;
    uint64_t hash = g->numerics_hash;
    /* Without shards the sum of a leaf over ranks is as large as the leaf's own gradient,
     * so reducing after every leaf saves no memory and costs a collective for each; and
     * nothing else in a micro-step would tell a rank that its peers have read its
     * gradients. */
    if (m->strategy == NO_SHARD && m->world_size > 1) {
        m->accumulate_sharded = false;
    }
    choose_recompute(g);
    m->reduces_in_flight = overlap_reductions(g);
    m->prefetch_forward = max_i64(0, m->prefetch_forward);
    m->prefetch_backward = max_i64(0, m->prefetch_backward);
    m->gathers_in_flight = max_i64(1, m->gathers_in_flight);
    gen_require(g->numerics_hash == hash, "policy changed the numerics hash");
}

/* Bytes a rank holds for sure with `shard` ranks: what is sharded shrinks, the rest
 * stays. */
static int64_t bytes_with(const PlanBytes *b, int64_t now, int64_t shard)
{
    int64_t divided = b->by_kind[BUF_PARAM_SHARD] + b->by_kind[BUF_MASTER] +
                      b->by_kind[BUF_MOMENT1] + b->by_kind[BUF_MOMENT2] +
                      b->by_kind[BUF_GRAD_SHARD];
    return b->total - divided + divided * now / shard;
}

static const char *what_fits(Gen *g, const PlanBytes *b)
{
    const Model *m = &g->model;
    int64_t now = m->strategy == NO_SHARD ? 1 : m->shard;
    const char *help = "fewer sequences in a micro-batch (micro_batch), a shorter seq";
    for (int64_t n = now * 2; n <= MAX_RANKS && n <= m->leaves; n *= 2) {
        if (bytes_with(b, now, n) <= m->budget_bytes) {
            return gen_printf(g, "mesh = { shard = %lld } needs about %s a rank; or %s",
                              (long long)n, human_bytes(g, bytes_with(b, now, n)), help);
        }
    }
    return gen_printf(g, "%s, or a smaller model", help);
}

void policy_check_budget(Gen *g)
{
    const Model *m = &g->model;
    PlanBytes b;
    if (m->budget_bytes == 0) {
        return;
    }
    b = plan_bytes(g);
    if (b.total <= m->budget_bytes) {
        return;
    }
    diag_add(g, DIAG_ERROR, model_pos(g, "target"), what_fits(g, &b),
             "target: the plan needs %s on each rank, the budget is %s",
             human_bytes(g, b.total), human_bytes(g, m->budget_bytes));
    diag_print(g);
    fflush(stdout);
    exit(EXIT_FIT);
}
