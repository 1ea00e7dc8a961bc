/* SPDX-License-Identifier: Apache-2.0 */
/* warn_sums.c: warns of what a rank keeps for sums of gradients: levels of partial sums,
 * which more leaves add, and whole gradients across micro-batches, which fewer leaves
 * need. Default leaves are there for more ranks, so fewer are proposed only where the
 * description gives them. In: the whole plan. Out: the choice that should take fewest
 * bytes; and, when the driver has planned that, the warning with the bytes and the time
 * of both. */
#include "plan/plan.h"
#include "base/show.h"

#include <math.h>

enum { WORTH_PERCENT = 15 }; /* of a rank's bytes, for a warning */

typedef struct Sums {
    int64_t levels, partials, whole; /* bytes */
} Sums;

/* As unroll makes the buffers. */
static Sums sums_of(const Gen *g, const SumChoice *c)
{
    const Model *m = &g->model;
    const int64_t rounds = c->leaves / m->mesh.data_ranks;
    const int64_t in_a_leaf = m->micro_batches / c->leaves;
    const int64_t turns = c->sharded ? in_a_leaf : rounds * in_a_leaf;
    Sums s = {0};

    for (int64_t r = rounds; r > 1; r /= 2)
        s.levels++;
    for (int i = 0; i < g->segments.count; i++) {
        const Segment *k = &g->segments.items[i];
        const int64_t bytes = dtype_bytes(m->reduce_dtype);

        if (!k->trainable)
            continue;
        s.partials += s.levels * bytes *
                      (c->sharded || !plan_collectives(g) ? k->shard_elems : k->elems);
        s.whole += k->within && turns > 1 ? k->elems * bytes : 0;
    }
    return s;
}

static int64_t bytes_of(const Gen *g, const SumChoice *c)
{
    const Sums s = sums_of(g, c);

    return s.partials + s.whole;
}

bool warn_sums_find(Gen *g, SumChoice *best)
{
    const Model *m = &g->model;
    const SumChoice now = {m->leaves, m->accumulate_sharded};
    const int64_t least = plan_bytes(g).total * WORTH_PERCENT / 100;

    *best = now;
    if (!now.sharded && mesh_cut(m, HELD_OPTIMIZER)) { /* changes no bit: first */
        best->sharded = true;
        if (bytes_of(g, &now) - bytes_of(g, best) >= least)
            return true;
        best->sharded = false;
    }
    for (int64_t leaves = model_given(g, "leaves") ? m->mesh.data_ranks : m->leaves;
         leaves <= policy_most_leaves(g); leaves *= 2) {
        const SumChoice c = {leaves, now.sharded};

        if (bytes_of(g, &c) < bytes_of(g, best))
            *best = c;
    }
    return bytes_of(g, &now) - bytes_of(g, best) >= least;
}

void warn_sums(Gen *g, const SumChoice *choice, const Cost *then)
{
    const Model *m = &g->model;
    const Sums s = sums_of(g, &(SumChoice){m->leaves, m->accumulate_sharded});
    const Cost now = policy_cost(g);
    const bool leaves = choice->leaves != m->leaves;
    const char *data = m->mesh.data_ranks < m->mesh.world_size ? "data " : "";
    Pos pos = model_pos(g, leaves ? "leaves" : "accumulate");
    Text t = {.g = g};

    if ((now.bytes - then->bytes) * 100 < now.bytes * WORTH_PERCENT)
        return;
    if (s.partials)
        text_printf(&t, "%lld level%s of partial sums (%s)", (long long)s.levels,
                    s.levels == 1 ? "" : "s", show_bytes(g, s.partials));
    if (s.whole)
        text_printf(&t, "%swhole gradients across micro-batches (%s)",
                    t.len ? " and " : "", show_bytes(g, s.whole));
    diag_add(g, DIAG_WARNING, pos.line ? pos : model_pos(g, "global_batch"),
             gen_printf(g, "%s needs %s a rank%s%s",
                        leaves ? gen_printf(g, "leaves = %lld", (long long)choice->leaves)
                               : "accumulate = \"sharded\"",
                        show_bytes(g, then->bytes),
                        isinf(now.seconds) ? ""
                                           : gen_printf(g, " and about %s a step, now %s",
                                                        show_seconds(g, then->seconds),
                                                        show_seconds(g, now.seconds)),
                        !leaves ? ""
                        : choice->leaves > m->leaves
                            ? "; it is another numerics hash"
                            : gen_printf(g,
                                         "; it is another numerics hash, for at most "
                                         "%lld %srank%s",
                                         (long long)choice->leaves, data,
                                         choice->leaves == 1 ? "" : "s")),
             "%s: %lld leaves on %lld %srank%s keep %s, of %s a rank",
             leaves ? "leaves" : "accumulate", (long long)m->leaves,
             (long long)m->mesh.data_ranks, data, m->mesh.data_ranks == 1 ? "" : "s", t.s,
             show_bytes(g, now.bytes));
}
