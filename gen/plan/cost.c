/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c: the one model of time. In: nodes with their costs (ops/node_cost.c),
 * instructions; the target's rates, or those of --rates (describe/rates.c). Out: how long
 * each takes alone, in integer picoseconds: the same figure on every machine.
 *
 * 1. A kernel whose class counts flops takes its flops at the rate of its class, or its
 *    operands' bytes at the rate of memory if that is longer; any other kernel its bytes
 *    at the rate of its class, or its flops at the rate of products. Then its launch.
 * 2. A product of a shape that was measured takes what it took.
 * 3. A collective takes a latency and the bytes that a rank receives, or what was
 *    measured, interpolated in the logarithm of its size. */
#include "plan/plan.h"
#include "ops/ops.h"

#include <math.h>

enum { PS_PER_US = 1000000 };

/* 26 days: legal dimensions could exceed this, and must not overflow. */
#define MOST_PS (INT64_C(1) << 61)

static int64_t ps_of(double amount, int64_t per_us)
{
    double ps = amount / (double)per_us * PS_PER_US;

    return ps < (double)MOST_PS ? (int64_t)ps : MOST_PS;
}

static int64_t capped(double ps)
{
    return ps < (double)MOST_PS ? (int64_t)ps : MOST_PS;
}

/* ---- kernels --------------------------------------------------------------------- */

static KernelPrice price_of(const Gen *g, CostClass by, int64_t ps, int64_t per_us)
{
    const Rates *r = &g->model.rates;

    return (KernelPrice){min_i64(ps + r->launch_ps, MOST_PS), by, (double)per_us * 1e6,
                         r->measured >> by & 1};
}

/* Step 1. */
static KernelPrice roofline(const Gen *g, CostClass c, double flops, double bytes,
                            int64_t slower)
{
    const Rates *r = &g->model.rates;
    const CostClass math = cost_by_flops(c) ? c : COST_PRODUCT;
    const CostClass memory = cost_by_flops(c) ? COST_ELEMENTWISE : c;
    const int64_t per_us = max_i64(r->per_us[math] / slower, 1);
    const int64_t computes = ps_of(flops, per_us),
                  moves = ps_of(bytes, r->per_us[memory]);

    return moves > computes ? price_of(g, memory, moves, r->per_us[memory])
                            : price_of(g, math, computes, per_us);
}

/* Step 2: false if a product's shape was not measured. */
static bool measured_products(const Gen *g, const Node *n, double *ps)
{
    *ps = 0;
    for (int i = 0; i < n->cost.n_products; i++) {
        const Product *p = &n->cost.products[i];
        const ProductTime *t = rates_product(&g->model.rates, p, n->in[0]->dtype);

        if (!t)
            return false;
        *ps += (double)t->ps * (double)p->times;
    }
    return n->cost.n_products > 0;
}

KernelPrice cost_node(const Gen *g, const Node *n)
{
    double ps;

    if (measured_products(g, n, &ps))
        return (KernelPrice){capped(ps), COST_PRODUCT, 0, true};
    return roofline(g, n->cost.cls, n->flops, (double)n->cost.traffic_bytes, 1);
}

int64_t cost_span(const Gen *g, const Span *s)
{
    int64_t ps = 0;

    for (int i = 0; i < s->n_nodes; i++)
        ps = min_i64(ps + cost_node(g, s->nodes[i]).ps, MOST_PS);
    return ps;
}

KernelPrice cost_traffic(const Gen *g, CostClass c, double bytes)
{
    return roofline(g, c, 0, bytes, 1);
}

bool cost_is_cheap(const Gen *g, const Node *n)
{
    const Rates *r = &g->model.rates;

    return ps_of(n->flops, r->per_us[COST_PRODUCT]) <=
           ps_of((double)n->cost.traffic_bytes, r->per_us[COST_ELEMENTWISE]);
}

const char *cost_source(const Gen *g)
{
    const char *file = g->model.rates.file;

    return file ? gen_printf((Gen *)(uintptr_t)g, "calibrated by %s", file)
                : "uncalibrated rates";
}

/* ---- collectives ----------------------------------------------------------------- */

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

/* Below the smallest size its time, which is latency; above the largest its rate. */
static double interpolate(const MoveTime *t, int n, double bytes)
{
    int k = 0;

    if (bytes <= (double)t[0].bytes)
        return (double)t[0].ps;
    if (bytes >= (double)t[n - 1].bytes)
        return (double)t[n - 1].ps * (bytes / (double)t[n - 1].bytes);
    while (bytes > (double)t[k + 1].bytes)
        k++;
    return (double)t[k].ps + (double)(t[k + 1].ps - t[k].ps) *
                                 (log2(bytes / (double)t[k].bytes) /
                                  log2((double)t[k + 1].bytes / (double)t[k].bytes));
}

int64_t cost_move(const Gen *g, MoveKind kind, int64_t ranks, int64_t bytes)
{
    const Rates *r = &g->model.rates;
    const MoveTime *rows = NULL;
    const int n = nearest_rows(r, kind, ranks, &rows);

    if (ranks < 2)
        return 0;
    if (n == 0)
        return min_i64(r->latency_ps +
                           ps_of((double)(bytes - bytes / ranks), r->link_per_us),
                       MOST_PS);
    /* what a rank receives grows as (ranks - 1) / ranks */
    return capped(interpolate(rows, n, (double)bytes) *
                  ((double)(ranks - 1) / (double)ranks) /
                  ((double)(rows->ranks - 1) / (double)rows->ranks));
}

/* By the bytes that this rank receives, which two hops or owners make other than a
 * plain collective's. */
static int64_t moved(const Gen *g, const Instr *i)
{
    const Rates *r = &g->model.rates;
    const int64_t ranks = max_i64(group_ranks(i->group), 2);
    const int64_t whole =
        (int64_t)((double)i->moved_bytes * (double)ranks / (double)(ranks - 1));

    if (r->n_moves == 0)
        return min_i64(r->latency_ps + ps_of((double)i->moved_bytes, r->link_per_us),
                       MOST_PS);
    if (i->kind == INS_ALL_REDUCE) /* sums a part, then gathers the parts */
        return min_i64(cost_move(g, MOVE_REDUCE, ranks, whole / 2) +
                           cost_move(g, MOVE_GATHER, ranks, whole / 2),
                       MOST_PS);
    return cost_move(g, i->kind == INS_REDUCE_SCATTER ? MOVE_REDUCE : MOVE_GATHER, ranks,
                     whole);
}

/* ---- instructions ---------------------------------------------------------------- */

int64_t cost_instr(const Gen *g, const Instr *i)
{
    const InsRule *rule = ins_rule(i->kind);

    if (rule->collective)
        return moved(g, i);
    if (i->kind == INS_SPAN)
        return cost_span(g, ins_span(g, i));
    if (i->kind == INS_MATRICES)
        return roofline(g, COST_PRODUCT, i->flops, 0, g->model.rates.f32_slower).ps;
    return rule->traffic_bytes ? cost_traffic(g, rule->cost, rule->traffic_bytes(g, i)).ps
                               : 0;
}
