/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c: the one model of time. In: nodes with their costs (ops/node_cost.c),
 * instructions; the target's rates, or those of --rates (describe/rates.c). Out: how long
 * each takes alone, in integer picoseconds: the same figure on every machine.
 *
 * 1. A kernel whose class counts flops takes its flops at the rate of its class, or its
 *    operands' bytes at the rate of memory if that is longer; any other kernel its bytes
 *    at the rate of its class, or its flops at the rate of products. Then its launch.
 *    Products of fp8, and on a device of f32 and f64, have rates of their own, in
 *    proportion to that of bf16. What --rates measured is for the weights' dtype.
 * 2. A product of a shape that was measured takes what it took.
 * 3. On a device, what a kernel moves beside its products takes its time after them.
 * Collectives are priced in cost_move.c. */
#include "plan/plan.h"
#include "ops/ops.h"

enum { PS_PER_US = 1000000 };

static int64_t ps_of(double amount, int64_t per_us)
{
    double ps = amount / (double)per_us * PS_PER_US;

    return ps < (double)COST_MOST_PS ? (int64_t)ps : COST_MOST_PS;
}

static int64_t capped(double ps)
{
    return ps < (double)COST_MOST_PS ? (int64_t)ps : COST_MOST_PS;
}

/* ---- kernels --------------------------------------------------------------------- */

static KernelPrice price_of(const Gen *g, CostClass by, int64_t ps, int64_t per_us)
{
    const Rates *r = &g->model.rates;

    return (KernelPrice){min_i64(ps + r->launch_ps, COST_MOST_PS), by,
                         (double)per_us * 1e6, r->measured >> by & 1};
}

/* Of the rate of its class. */
typedef struct Pace {
    int64_t times, by;
} Pace;
static const Pace as_stated = {1, 1};

static bool is_full(Dtype d)
{
    return d == DT_F32 || d == DT_F64;
}

static Pace pace_of(const Gen *g, CostClass c, Dtype d)
{
    const Rates *r = &g->model.rates;
    const bool measured = (r->measured >> c & 1) && is_full(g->model.param_dtype);

    if (d == DT_E4M3 || d == DT_E5M2)
        return (Pace){r->fp8_percent, 100};
    return is_full(d) && !measured ? (Pace){1, r->f32_slower} : as_stated;
}

/* Step 1. */
static KernelPrice roofline(const Gen *g, CostClass c, double flops, double bytes,
                            Pace pace, bool by_library)
{
    const Rates *r = &g->model.rates;
    const CostClass math = cost_by_flops(c) ? c : COST_PRODUCT;
    const CostClass memory = cost_by_flops(c) ? COST_ELEMENTWISE : c;
    const int64_t library = by_library ? r->library_per_us[math] : 0;
    const int64_t per_us =
        library ? library : max_i64(r->per_us[math] * pace.times / pace.by, 1);
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
        const ProductTime *t =
            rates_product(&g->model.rates, p, node_product_dtype(g, n));

        if (!t)
            return false;
        *ps += (double)t->ps * (double)p->times;
    }
    return n->cost.n_products > 0;
}

static Pace pace_of_node(const Gen *g, const Node *n)
{
    return cost_by_flops(n->cost.cls) && n->n_in > 0
               ? pace_of(g, n->cost.cls, node_product_dtype(g, n))
               : as_stated;
}

int64_t cost_products_per_us(const Gen *g, const Node *n)
{
    const Pace pace = pace_of_node(g, n);

    return max_i64(g->model.rates.per_us[COST_PRODUCT] * pace.times / pace.by, 1);
}

/* Steps 1 and 2. */
static KernelPrice price_products(const Gen *g, const Node *n)
{
    double ps;

    if (measured_products(g, n, &ps))
        return (KernelPrice){capped(ps), COST_PRODUCT, 0, true};
    return roofline(g, n->cost.cls, n->flops, (double)n->cost.moved_bytes,
                    pace_of_node(g, n), n->library != NULL);
}

KernelPrice cost_node(const Gen *g, const Node *n)
{
    KernelPrice p = price_products(g, n);

    if (n->cost.pass_bytes > 0)
        p.ps = min_i64(
            p.ps + cost_traffic(g, COST_ELEMENTWISE, (double)n->cost.pass_bytes).ps,
            COST_MOST_PS);
    return p;
}

int64_t cost_span(const Gen *g, const Span *s)
{
    int64_t ps = 0;

    for (int i = 0; i < s->n_nodes; i++)
        ps = cost_sum(ps, cost_sum(cost_times(plan_calls(g, s->nodes[i]),
                                              cost_node(g, s->nodes[i]).ps),
                                   cost_meet(g, s->nodes[i])));
    return ps;
}

KernelPrice cost_traffic(const Gen *g, CostClass c, double bytes)
{
    return roofline(g, c, 0, bytes, as_stated, false);
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

/* ---- instructions ---------------------------------------------------------------- */

KernelPrice cost_kernel(const Gen *g, const Instr *i)
{
    const InsRule *rule = ins_rule(i->kind);

    if (i->kind == INS_MATRICES)
        return roofline(g, COST_PRODUCT, i->flops, 0,
                        pace_of(g, COST_PRODUCT, ops_acc_dtype(g)), false);
    return rule->traffic_bytes ? cost_traffic(g, rule->cost, rule->traffic_bytes(g, i))
                               : (KernelPrice){.ps = 0};
}

int64_t cost_instr(const Gen *g, const Instr *i)
{
    if (ins_rule(i->kind)->collective)
        return cost_collective(g, i);
    if (i->kind == INS_SPAN)
        return cost_span(g, ins_span(g, i));
    return cost_kernel(g, i).ps;
}
