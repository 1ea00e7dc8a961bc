/* SPDX-License-Identifier: Apache-2.0 */
/* policy_auto: recompute = "auto": spends the target's budget where a byte buys most
 * time.
 *
 * Needs units and segments (shard), the other choices of policy. Changes what blocks
 * keep, which units stay gathered, the two prefetch depths; nothing else. Breaks nothing.
 *
 * A choice is a vector of numbers, 0 the fastest end of each: of a class, how many of its
 * blocks are recomputed, the first ones, whose memory is free for longest, and how many
 * of those after them drop what cheap ops make; of units of one size, how many are freed
 * between forward and backward, the first ones likewise; by how much each prefetch depth
 * is cut. Every choice tried is planned, placed and simulated as the step will be, so its
 * bytes are exact and its time is the plan's own.
 *
 * If the fastest vector fits, it is taken. Else single steps away from it are lined up by
 * the roofline's time for each byte they should free, and the shortest run of them that
 * fits is found by bisection; then small exchanges (one number loosened, another
 * tightened) are kept while they make the step shorter. The number of plans tried is
 * bounded by the size of the program alone, so the result is the same everywhere. */
#include "plan/plan.h"
#include "base/show.h"

#include <stdlib.h>
#include <string.h>

typedef enum { DIM_BLOCKS, DIM_SOME, DIM_UNITS, DIM_FORWARD, DIM_BACKWARD } DimKind;

typedef struct Dim {
    DimKind kind;
    int n;         /* its largest number */
    int *ids;      /* blocks or units, in the order in which they are tightened */
    int64_t ps;    /* a step tighter should cost so much time in a micro-step */
    int64_t bytes; /* and free so many bytes */
} Dim;

typedef struct Vector {
    int *v;
    Cost cost;
} Vector;

typedef struct Search {
    Gen *g;
    struct {
        Dim *items;
        int count, cap;
    } dims;
    struct {
        Vector *items;
        int count, cap;
    } tried;
    int limit;                 /* plans to try at most */
    int64_t forward, backward; /* prefetch depths of the description */
    const Vector *best;
    bool fits;
} Search;

/* ---- one choice ------------------------------------------------------------------ */

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

Cost policy_try(Gen *g)
{
    void *mark = gen_mark(g);
    Cost cost;
    policy_settle(g);
    unroll_step(g);
    schedule_step(g);
    place_buffers(g);
    simulate_step(g);
    cost = policy_cost(g);
    memset(&g->prog, 0, sizeof g->prog);
    gen_release(g, mark);
    return cost;
}

static void apply(Search *s, const int *v)
{
    Model *m = &s->g->model;
    for (int d = 0; d < s->dims.count; d++) {
        const Dim *dim = &s->dims.items[d];
        for (int i = 0; dim->kind == DIM_BLOCKS && i < dim->n; i++) {
            s->g->blocks.items[dim->ids[i]].keep = i < v[d] ? KEEP_INPUT : KEEP_ALL;
        }
        for (int i = 0, left = v[d]; dim->kind == DIM_SOME && i < dim->n && left; i++) {
            Block *b = &s->g->blocks.items[dim->ids[i]];
            left -= b->keep == KEEP_ALL;
            b->keep = b->keep == KEEP_ALL ? KEEP_SOME : b->keep;
        }
        for (int i = 0; dim->kind == DIM_UNITS && i < dim->n; i++) {
            s->g->units.items[dim->ids[i]].keep_gathered = i >= v[d];
        }
        if (dim->kind == DIM_FORWARD) {
            m->prefetch_forward = s->forward - v[d];
        } else if (dim->kind == DIM_BACKWARD) {
            m->prefetch_backward = s->backward - v[d];
        }
    }
    policy_settle(s->g);
}

static bool better(const Search *s, const Cost *a, const Cost *b)
{
    bool fits = a->bytes <= s->g->model.budget_bytes;
    if (fits != s->fits) {
        return fits;
    }
    if (!fits) {
        return a->bytes < b->bytes;
    }
    return a->seconds < b->seconds || (a->seconds == b->seconds && a->bytes < b->bytes);
}

/* The cost of v, planned once. False when no more plans may be tried. */
static bool try_vector(Search *s, const int *v, Cost *cost)
{
    size_t bytes = sizeof *v * (size_t)s->dims.count;
    const int *now = s->best ? s->best->v : NULL;
    Vector *t;
    for (int i = 0; i < s->tried.count; i++) {
        if (!memcmp(s->tried.items[i].v, v, bytes)) {
            *cost = s->tried.items[i].cost;
            return true;
        }
    }
    if (s->tried.count >= s->limit) {
        return false;
    }
    apply(s, v);
    *cost = policy_try(s->g);
    t = gen_push(s->g, &s->tried); /* may move the others */
    t->v = gen_alloc(s->g, bytes + 1);
    memcpy(t->v, v, bytes);
    t->cost = *cost;
    for (int i = 0; now && i < s->tried.count; i++) {
        s->best = s->tried.items[i].v == now ? &s->tried.items[i] : s->best;
    }
    if (!s->best || better(s, cost, &s->best->cost)) {
        s->best = &s->tried.items[s->tried.count - 1];
        s->fits = cost->bytes <= s->g->model.budget_bytes;
    }
    return true;
}

/* ---- what may be chosen ---------------------------------------------------------- */

static Dim *add_dim(Search *s, DimKind kind, int cap)
{
    Dim *d = gen_push(s->g, &s->dims);
    d->kind = kind;
    d->ids = gen_alloc(s->g, sizeof(int) * (size_t)(cap + 1));
    return d;
}

/* DIM_BLOCKS of a class comes before its DIM_SOME, which takes of what is left. */
static void block_dim(Search *s, const Class *c, DimKind kind)
{
    Gen *g = s->g;
    Dim *d = NULL;
    const Span *again = kind == DIM_SOME ? &c->again : &c->forward;
    for (int b = 0; b < g->blocks.count; b++) {
        const Block *k = &g->blocks.items[b];
        if (k->cls != c || !(kind == DIM_SOME ? policy_may_drop_some(g, k)
                                              : policy_may_recompute(g, k))) {
            continue;
        }
        d = d ? d : add_dim(s, kind, g->blocks.count);
        d->ids[d->n++] = b;
        d->bytes = kind == DIM_SOME ? c->dropped_bytes : c->saved_bytes;
        d->ps = math_picoseconds(g, again->flops, (double)again->traffic_bytes);
    }
}

static void block_dims(Search *s)
{
    for (int c = 0; c < s->g->classes.count; c++) {
        block_dim(s, s->g->classes.items[c], DIM_BLOCKS);
        block_dim(s, s->g->classes.items[c], DIM_SOME);
    }
}

static int64_t gathered_bytes(const Gen *g, const Unit *u)
{
    int64_t bytes = 0;
    for (int k = 0; k < u->n_segments; k++) {
        const Segment *s = &g->segments.items[u->segments[k]];
        bytes += s->cut[HELD_PARAMS] ? s->elems * dtype_bytes(g->model.param_dtype) : 0;
    }
    return bytes;
}

/* Units of one size; and what cutting a depth would cost: the time of one more gather
 * that nothing hides, for the memory of one unit. */
static void unit_dims(Search *s)
{
    Gen *g = s->g;
    Model *m = &g->model;
    int64_t largest = 0, n = 0;
    for (int u = 0; u < g->units.count; u++) {
        int64_t bytes = gathered_bytes(g, &g->units.items[u]);
        bool first = bytes > 0;
        for (int w = 0; w < u; w++) {
            first = first && gathered_bytes(g, &g->units.items[w]) != bytes;
        }
        largest = max_i64(largest, bytes);
        n += bytes > 0;
        if (!first || g->units.items[u].keep_gathered) {
            continue;
        }
        Dim *d = add_dim(s, DIM_UNITS, g->units.count);
        for (int w = u; w < g->units.count; w++) {
            if (gathered_bytes(g, &g->units.items[w]) == bytes) {
                d->ids[d->n++] = w;
            }
        }
        d->bytes = bytes;
        d->ps = moved_picoseconds(g, bytes - bytes / m->reshard_ranks);
    }
    for (int back = 0; largest > 0 && back < 2; back++) {
        int64_t depth = back ? s->backward : s->forward;
        Dim *d = depth > 0 ? add_dim(s, back ? DIM_BACKWARD : DIM_FORWARD, 0) : NULL;
        if (d) {
            d->n = (int)depth;
            d->bytes = largest;
            d->ps = moved_picoseconds(g, largest -
                                             largest / m->mesh.axis[AXIS_SHARD].degree) *
                    n;
        }
    }
}

/* ---- the search ------------------------------------------------------------------ */

typedef struct Step {
    int dim;
    int64_t ps, bytes;
} Step;

static int by_price(const void *a, const void *b)
{
    const Step *x = a, *y = b;
    double p = (double)x->ps * (double)y->bytes, q = (double)y->ps * (double)x->bytes;
    return p != q ? (p < q ? -1 : 1) : x->dim - y->dim;
}

/* The shortest run of single steps, cheapest first, that fits. */
static void bisect(Search *s)
{
    Gen *g = s->g;
    Step *steps;
    int n = 0, lo = 0, *v = gen_alloc(g, sizeof *v * (size_t)(s->dims.count + 1));
    for (int d = 0; d < s->dims.count; d++) {
        n += s->dims.items[d].n;
    }
    steps = gen_alloc(g, sizeof *steps * (size_t)(n + 1));
    n = 0;
    for (int d = 0; d < s->dims.count; d++) {
        for (int i = 0; i < s->dims.items[d].n; i++) {
            steps[n++] = (Step){d, s->dims.items[d].ps, s->dims.items[d].bytes};
        }
    }
    qsort(steps, (size_t)n, sizeof *steps, by_price);
    for (int hi = n; lo < hi;) { /* a run of hi steps fits, one of lo - 1 does not */
        int middle = lo + (hi - lo) / 2;
        Cost cost;
        memset(v, 0, sizeof *v * (size_t)s->dims.count);
        for (int i = 0; i < middle; i++) {
            v[steps[i].dim]++;
        }
        if (!try_vector(s, v, &cost)) {
            return;
        }
        if (cost.bytes <= g->model.budget_bytes) {
            hi = middle;
        } else {
            lo = middle + 1;
        }
    }
}

/* Loosens dimension i by a and tightens j by b (none if j < 0). Better than the best? */
static bool exchange(Search *s, int i, int a, int j, int b)
{
    const Vector *was = s->best;
    int *v;
    Cost cost;
    if (was->v[i] < a || (j >= 0 && was->v[j] + b > s->dims.items[j].n)) {
        return false;
    }
    v = gen_alloc(s->g, sizeof *v * (size_t)s->dims.count);
    memcpy(v, was->v, sizeof *v * (size_t)s->dims.count);
    const int *before = was->v;
    v[i] -= a;
    if (j >= 0) {
        v[j] += b;
    }
    return try_vector(s, v, &cost) && s->best->v != before;
}

static bool improve(Search *s)
{
    enum { MOST = 3 };
    for (int i = 0; i < s->dims.count; i++) {
        if (exchange(s, i, 1, -1, 0)) {
            return true;
        }
    }
    for (int sum = 2; sum <= 2 * MOST; sum++) { /* small exchanges first */
        for (int a = sum > MOST ? sum - MOST : 1; a <= MOST && a < sum; a++) {
            for (int i = 0; i < s->dims.count; i++) {
                for (int j = 0; j < s->dims.count; j++) {
                    if (j != i && exchange(s, i, a, j, sum - a)) {
                        return true;
                    }
                }
            }
        }
    }
    return false;
}

/* Plans of n instructions cost about n * n: fewer for larger ones. */
static int plans_to_try(const Gen *g)
{
    enum { MOST_PLANS = 400, LEAST_PLANS = 40, WORK = 40000 };
    int64_t n = 3 * (int64_t)g->blocks.count + 4 * (int64_t)g->segments.count;
    return (int)max_i64(LEAST_PLANS, min_i64(MOST_PLANS, WORK / max_i64(n, 1)));
}

void policy_auto(Gen *g)
{
    Search *s = g->search = gen_alloc(g, sizeof *s);
    int *v;
    Cost cost;
    s->g = g;
    s->limit = plans_to_try(g);
    s->forward = g->model.prefetch_forward;
    s->backward = g->model.prefetch_backward;
    block_dims(s);
    unit_dims(s);
    v = gen_alloc(g, sizeof *v * (size_t)(s->dims.count + 1));
    try_vector(s, v, &cost);
    if (!s->fits) {
        for (int d = 0; d < s->dims.count; d++) {
            v[d] = s->dims.items[d].n;
        }
        try_vector(s, v, &cost);
        bisect(s);
        while (s->fits && improve(s)) {
        }
    }
    apply(s, s->best->v);
}

/* ---- for the reader -------------------------------------------------------------- */

static const char *milliseconds(Gen *g, int64_t ps)
{
    return gen_printf(g, "%.3g ms", (double)ps * 1e-9);
}

void policy_auto_print(Gen *g, Text *t)
{
    const Search *s = g->search;
    if (!s) {
        return;
    }
    text_printf(t,
                "auto: %d plans tried for a budget of %s, best first in time that fits\n",
                s->tried.count, show_bytes(g, g->model.budget_bytes));
    for (int d = 0; d < s->dims.count; d++) {
        const Dim *dim = &s->dims.items[d];
        int v = s->best->v[d];
        const char *price = gen_printf(g, "%s for %s", milliseconds(g, dim->ps),
                                       show_bytes(g, dim->bytes));
        if (dim->kind == DIM_SOME) {
            int n = 0;
            for (int i = 0; i < dim->n; i++) {
                n += g->blocks.items[dim->ids[i]].keep == KEEP_SOME;
            }
            text_printf(t,
                        "  %d of %d blocks %s recomputed in part, cheap ops: each %s\n",
                        n, dim->n, g->blocks.items[dim->ids[0]].cls->name, price);
        } else if (dim->kind == DIM_BLOCKS) {
            text_printf(t, "  %d of %d blocks %s recomputed: each %s\n", v, dim->n,
                        g->blocks.items[dim->ids[0]].cls->name, price);
        } else if (dim->kind == DIM_UNITS) {
            text_printf(t, "  %d of %d units like %s stay gathered: else each %s\n",
                        dim->n - v, dim->n, g->units.items[dim->ids[0]].name, price);
        } else {
            text_printf(t, "  prefetch %s %d of %d: a slot less, %s\n",
                        dim->kind == DIM_FORWARD ? "forward" : "backward", dim->n - v,
                        dim->n, price);
        }
    }
    text_printf(t, "\n");
}
