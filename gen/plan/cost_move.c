/* SPDX-License-Identifier: Apache-2.0 */
/* cost_move.c: how long a collective takes alone. In: its group, the bytes that a rank
 * receives; rates of links (Rates), nodes and fabric (Network). Out: integer picoseconds.
 *
 * 1. What --rates measured: interpolated in the logarithm of its size.
 * 2. Ranks that links join: a latency, then the bytes that a rank receives.
 * 3. A gather beyond them is a ring through all nodes, as NCCL's: a part enters each node
 *    once, over the NICs of its ranks together, while links bring it to each rank: what
 *    takes longer counts. A step of the ring for each hop from the first node on.
 * 4. A sum is an exchange: each rank gets its part from every other one, from near ranks
 *    over links and from others over its NIC, at the same time; beyond a leaf switch its
 *    NIC is slower by the oversubscription. A ring is not: it leaves a leaf switch once.
 * 5. A sum in two hops (mesh_two_hops) is two exchanges, one after the other: within
 *    nodes, then across them, where only one rank of each node takes part.
 * 6. A sum that is limited to some multiprocessors (unroll_ctas.c) has their share of the
 *    links' rate.
 * 7. A device adds what a sum in tree order exchanged: it reads each part once and writes
 *    the sum, at the rate of memory, or of the multiprocessors to which it is limited.
 * 8. A sum that its staging does not hold goes by halves of it, as many slices: all but
 *    the last are added while the next one arrives, or arrive while the last is added
 *    (runtime/cuda/ranks/rt_tree.c). */
#include "plan/plan.h"
#include "base/exact.h"

#include <math.h>

enum { PS_PER_US = 1000000 };

static int64_t capped(double ps)
{
    return ps < (double)COST_MOST_PS ? (int64_t)ps : COST_MOST_PS;
}

static double ps_of(double bytes, double per_us)
{
    return bytes / per_us * PS_PER_US;
}

/* ---- measured -------------------------------------------------------------------- */

/* The rows of the kind whose number of ranks is nearest; returns how many. */
static int nearest_rows(const Rates *r, MoveKind kind, int64_t ranks,
                        const MoveTime **rows)
{
    int64_t best = INT64_MAX;
    int n = 0;

    for (int i = 0; i < r->n_moves; i++) {
        const MoveTime *t = &r->moves[i];
        const int64_t away = t->ranks > ranks ? t->ranks - ranks : ranks - t->ranks;

        if (t->kind != kind || away > best)
            continue;
        if (away < best || t->ranks != (*rows)->ranks) {
            if (away == best)
                continue; /* the smaller of two equally near ones stands */
            best = away;
            *rows = t;
            n = 0;
        }
        n++;
    }
    return n;
}

/* Plans are emitted, and libm's logarithm is another in the last bit on some machines.
 * Below the smallest size its time, which is latency; above the largest its rate. */
static double interpolate(const MoveTime *t, int n, double bytes)
{
    int k = 0;

    if (bytes <= (double)t[0].bytes)
        return (double)t[0].ps;
    if (bytes >= (double)t[n - 1].bytes)
        return (double)t[n - 1].ps * (bytes / (double)t[n - 1].bytes);
    while (bytes > (double)t[k + 1].bytes)
        k++;
    return (double)t[k].ps +
           (double)(t[k + 1].ps - t[k].ps) *
               (exact_log2(bytes / (double)t[k].bytes) /
                exact_log2((double)t[k + 1].bytes / (double)t[k].bytes));
}

/* ---- by rates of links and NICs -------------------------------------------------- */

/* The ranks of the group that links join, as bits: all of them if the target has no
 * datasheet of nodes. */
static RankBits near_of(const Gen *g, RankBits group)
{
    return g->model.net.node ? group & g->model.net.near : group;
}

bool cost_over_links(const Gen *g, RankBits group)
{
    return near_of(g, group) == group;
}

/* Step 2. */
static int64_t over_links(const Rates *r, double bytes)
{
    return capped((double)r->latency_ps + ps_of(bytes, (double)r->link_per_us));
}

/* Step 3. part: bytes that each rank gives. */
static double ring(const Gen *g, RankBits group, double part)
{
    const Rates *r = &g->model.rates;
    const Network *net = &g->model.net;
    const int64_t ranks = group_ranks(group), near = group_ranks(near_of(g, group)),
                  nodes = ranks / near;
    const double links = ps_of((double)(ranks - 1) * part, (double)r->link_per_us);
    const double nics =
        ps_of((double)(ranks - near) * part, (double)near * net->nic_per_us);
    const double steps =
        (double)(nodes - 1) *
        ((double)net->net_step_ps + (double)(near - 1) * (double)net->step_ps);

    return (double)r->latency_ps + steps + fmax(links, nics);
}

/* Step 4. part: bytes that each rank gets from each other one. */
static double exchange(const Gen *g, RankBits group, double part)
{
    const Rates *r = &g->model.rates;
    const Network *net = &g->model.net;
    const int64_t ranks = group_ranks(group), near = group_ranks(near_of(g, group)),
                  leaf = group_ranks(group & net->leaf);
    double most = ps_of((double)(near - 1) * part, (double)r->link_per_us);

    if (near == ranks)
        return (double)r->latency_ps + most;
    most = fmax(most, ps_of((double)(ranks - near) * part, net->nic_per_us));
    most = fmax(most, ps_of((double)(ranks - leaf) * part,
                            net->nic_per_us / net->oversubscription));
    return (double)r->latency_ps + (double)net->net_step_ps + most;
}

/* Step 7. What a multiprocessor has in flight, 64 KiB for 1024 threads with 4 loads of
 * 16 bytes each, arrives in 0.8 us. */
static double added(const Gen *g, const Instr *i, int64_t ranks, double part)
{
    const double all = (double)g->model.rates.per_us[COST_ELEMENTWISE],
                 each = 65536 / 0.8;
    const double rate = fmin(all, (i->ctas ? i->ctas : SUM_CTAS) * each);

    return g->model.target->device && i->order == ORDER_TREE
               ? ps_of((double)(ranks + 1) * part, rate)
               : 0;
}

/* Step 8: of `moving` and `adding`, the time that they run at once. */
static double at_once(const Gen *g, int64_t ranks, double part, double moving,
                      double adding)
{
    const double bytes = (double)ranks * part,
                 staging = (double)g->model.target->staging_bytes;
    const double slices =
        staging > 0 && bytes > staging ? ceil(bytes / (staging / 2)) : 1;

    return fmin(moving, adding) * (slices - 1) / slices;
}

/* An exchange, and what it takes longer to add what comes. */
static double exchanged_and_added(const Gen *g, const Instr *i, RankBits group,
                                  double part)
{
    const int64_t ranks = group_ranks(group);
    const double moving = exchange(g, group, part), adding = added(g, i, ranks, part);

    return moving + adding - at_once(g, ranks, part, moving, adding);
}

/* Steps 4, 5, 7 and 8: the sum of a rank's part. */
static double sum(const Gen *g, const Instr *i, double part)
{
    const RankBits group = i->group, mates = mesh_mates(g, group),
                   others = group & ~mates;

    if (!mesh_two_hops(g, group))
        return exchanged_and_added(g, i, group, part);
    return exchanged_and_added(g, i, mates, (double)group_ranks(others) * part) +
           exchanged_and_added(g, i, others, part);
}

/* Steps 6 and 8, of a rank's part. */
static double at_once_over_links(const Gen *g, const Instr *i, double part)
{
    const int64_t ranks = group_ranks(i->group);
    const double share = i->ctas ? (double)i->ctas / LINK_CTAS : 1;
    const double moving =
        ps_of((double)(ranks - 1) * part, (double)g->model.rates.link_per_us * share);

    return at_once(g, ranks, part, moving, added(g, i, ranks, part));
}

/* Steps 2, 6, 7 and 8: the sum of a rank's part, and what the instruction moves
 * besides. */
static int64_t sum_over_links(const Gen *g, const Instr *i, double part)
{
    const Rates *r = &g->model.rates;
    const double share = i->ctas ? (double)i->ctas / LINK_CTAS : 1;

    return capped((double)r->latency_ps +
                  ps_of((double)i->moved_bytes, (double)r->link_per_us * share) +
                  added(g, i, group_ranks(i->group), part) -
                  at_once_over_links(g, i, part));
}

/* ---- both ------------------------------------------------------------------------ */

/* ranks: of the group, at least 2. */
static int64_t move_of(const Gen *g, MoveKind kind, RankBits group, int64_t ranks,
                       int64_t bytes)
{
    const MoveTime *rows = NULL;
    const int n = nearest_rows(&g->model.rates, kind, ranks, &rows);
    const double part = (double)bytes / (double)ranks;

    if (n > 0) /* what a rank receives grows as (ranks - 1) / ranks */
        return capped(interpolate(rows, n, (double)bytes) *
                      ((double)(ranks - 1) / (double)ranks) /
                      ((double)(rows->ranks - 1) / (double)rows->ranks));
    if (cost_over_links(g, group))
        return over_links(&g->model.rates, (double)(bytes - bytes / ranks));
    return capped(kind == MOVE_GATHER ? ring(g, group, part) : exchange(g, group, part));
}

int64_t cost_move(const Gen *g, MoveKind kind, RankBits group, int64_t bytes)
{
    const int64_t ranks = group_ranks(group);

    return ranks < 2 ? 0 : move_of(g, kind, group, ranks, bytes);
}

/* By the bytes that this rank receives, which two hops or owners make other than a
 * plain collective's. */
static int64_t by_size_measured(const Gen *g, const Instr *i)
{
    const int64_t ranks = max_i64(group_ranks(i->group), 2);
    const int64_t whole =
        (int64_t)((double)i->moved_bytes * (double)ranks / (double)(ranks - 1));

    if (i->kind == INS_ALL_REDUCE) /* sums a part, then gathers the parts */
        return min_i64(move_of(g, MOVE_REDUCE, i->group, ranks, whole / 2) +
                           move_of(g, MOVE_GATHER, i->group, ranks, whole / 2),
                       COST_MOST_PS);
    return move_of(g, i->kind == INS_REDUCE_SCATTER ? MOVE_REDUCE : MOVE_GATHER, i->group,
                   ranks, whole);
}

/* What a rank adds up: its part, or its slice of what all ranks have. */
static double summed_part(const Instr *i)
{
    const int64_t ranks = group_ranks(i->group);
    const int64_t slice = round_up((i->elems + ranks - 1) / ranks, GRAIN_ELEMS);

    return (double)((i->kind == INS_ALL_REDUCE ? min_i64(i->elems, slice) : i->elems) *
                    dtype_bytes(i->dtype));
}

int64_t cost_at_once(const Gen *g, const Instr *i)
{
    return i->group && i->ctas ? capped(at_once_over_links(g, i, summed_part(i))) : 0;
}

int64_t cost_collective(const Gen *g, const Instr *i)
{
    const bool sums = ins_rule(i->kind)->sums;
    double part;

    if (!i->group) /* a rank alone */
        return 0;
    part = sums ? summed_part(i)
                : (double)i->moved_bytes / (double)max_i64(group_ranks(i->group) - 1, 1);
    if (g->model.rates.n_moves > 0) /* of sums without a limit */
        return max_i64(by_size_measured(g, i), i->ctas ? sum_over_links(g, i, part) : 0);
    if (cost_over_links(g, i->group))
        return sums ? sum_over_links(g, i, part)
                    : over_links(&g->model.rates, (double)i->moved_bytes);
    if (i->kind == INS_ALL_GATHER || i->kind == INS_GATHER_UPDATED)
        return capped(ring(g, i->group, part));
    if (i->kind == INS_REDUCE_SCATTER)
        return capped(sum(g, i, part));
    if (i->kind == INS_ALL_REDUCE)
        return capped(sum(g, i, part) + exchange(g, i->group, part));
    return capped(exchange(g, i->group, part));
}
