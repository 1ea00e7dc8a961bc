/* SPDX-License-Identifier: Apache-2.0 */
/* search.c: recompute = "auto": spends the target's budget where a byte saves most time.
 *
 * In: units and segments (shard), the other choices of policy, and the cost of each
 * choice that the search proposes. The driver plans the choices one after the other
 * (drive.c); the search itself calls no pass. Out: what blocks keep, which units stay
 * gathered, the two prefetch depths. Breaks: nothing.
 *
 * 1. A choice is a vector of numbers; 0 is the fastest value of each. There is a number
 *    per class for the blocks that are recomputed (the first ones, whose memory is free
 *    for longest), and one for the blocks after them that drop what cheap ops make; one
 *    per unit size for the units that are freed between forward and backward (also the
 *    first ones); and one for how much each prefetch depth is cut.
 * 2. Every choice is planned, placed and simulated like the final step, so its bytes are
 *    exact and its time is the plan's own.
 * 3. If the fastest vector fits, it is taken. Otherwise single steps away from it are
 *    sorted by the roofline's time per byte that they should free, and bisection finds
 *    the shortest run of them that fits.
 * 4. Then small exchanges (one number loosened, another tightened) are kept if they make
 *    the step shorter.
 * 5. The number of plans tried depends only on the size of the program, so the result is
 *    the same everywhere. */
#include "plan/plan.h"
#include "base/show.h"

#include <stdlib.h>
#include <string.h>

typedef enum { DIM_BLOCKS, DIM_SOME, DIM_UNITS, DIM_FORWARD, DIM_BACKWARD } DimKind;

typedef struct Dim {
    DimKind kind;
    int n;         /* its largest value */
    int *ids;      /* blocks or units, in the order in which they are tightened */
    int64_t ps;    /* estimated cost of one step tighter, in time of a micro-step */
    int64_t bytes; /* and the bytes that it should free */
} Dim;

typedef struct Vector {
    int *v;
    Cost cost;
} Vector;

/* One dimension a number tighter. */
typedef struct Step {
    int dim;
    int64_t ps, bytes;
} Step;

/* Dimension i is loosened by a, and j tightened by b (j < 0: none). */
typedef struct Exchange {
    int i, a, j, b;
} Exchange;

typedef enum { AT_FASTEST, AT_LEAST, AT_BISECTION, AT_EXCHANGES, AT_END } Stage;

typedef struct Search {
    struct {
        Dim *items;
        int count, cap;
    } dims;
    struct {
        Step *items; /* cheapest first */
        int count, cap;
    } steps;
    struct {
        Exchange *items; /* small ones first */
        int count, cap;
    } exchanges;
    struct {
        Vector *items;
        int count, cap;
    } tried;
    int limit;                 /* plans to try at most */
    int64_t forward, backward; /* prefetch depths of the description */
    int best;                  /* the best one tried; -1: none yet */
    bool fits;                 /* the best one fits */
    Stage stage;
    int lo, hi; /* AT_BISECTION: a run of hi steps fits, one of lo - 1 does not */
    int at;     /* AT_EXCHANGES: the next one */
    int *v;     /* the vector to plan next */
} Search;

/* ---- one choice ------------------------------------------------------------------ */

static void apply(Gen *g, const Search *s, const int *v)
{
    Model *m = &g->model;
    for (int d = 0; d < s->dims.count; d++) {
        const Dim *dim = &s->dims.items[d];
        for (int i = 0; dim->kind == DIM_BLOCKS && i < dim->n; i++)
            g->blocks.items[dim->ids[i]].keep = i < v[d] ? KEEP_INPUT : KEEP_ALL;
        for (int i = 0, left = v[d]; dim->kind == DIM_SOME && i < dim->n && left; i++) {
            Block *b = &g->blocks.items[dim->ids[i]];
            left -= b->keep == KEEP_ALL;
            b->keep = b->keep == KEEP_ALL ? KEEP_SOME : b->keep;
        }
        for (int i = 0; dim->kind == DIM_UNITS && i < dim->n; i++)
            g->units.items[dim->ids[i]].keep_gathered = i >= v[d];
        if (dim->kind == DIM_FORWARD)
            m->prefetch_forward = s->forward - v[d];
        else if (dim->kind == DIM_BACKWARD)
            m->prefetch_backward = s->backward - v[d];
    }
    policy_settle(g);
}

static bool better(const Gen *g, const Search *s, const Cost *a, const Cost *b)
{
    bool fits = a->bytes <= g->model.budget_bytes;
    if (fits != s->fits)
        return fits;
    if (!fits)
        return a->bytes < b->bytes;
    return a->seconds < b->seconds || (a->seconds == b->seconds && a->bytes < b->bytes);
}

/* The cost of the current vector, if it was tried before. */
static const Cost *known_cost(const Search *s)
{
    size_t bytes = sizeof *s->v * (size_t)s->dims.count;
    for (int i = 0; i < s->tried.count; i++)
        if (!memcmp(s->tried.items[i].v, s->v, bytes))
            return &s->tried.items[i].cost;
    return NULL;
}

/* ---- the dimensions -------------------------------------------------------------- */

static Dim *add_dim(Gen *g, Search *s, DimKind kind, int cap)
{
    Dim *d = gen_push(g, &s->dims);
    d->kind = kind;
    d->ids = gen_alloc(g, sizeof(int) * (size_t)(cap + 1));
    return d;
}

/* DIM_BLOCKS of a class comes before its DIM_SOME, which applies to the remaining
 * blocks. */
static void block_dim(Gen *g, Search *s, const Class *c, DimKind kind)
{
    Dim *d = NULL;
    const Span *again = kind == DIM_SOME ? &c->again : &c->forward;
    for (int b = 0; b < g->blocks.count; b++) {
        const Block *k = &g->blocks.items[b];
        if (k->cls != c ||
            !(kind == DIM_SOME ? policy_may_drop_some(g, k) : policy_may_recompute(g, k)))
            continue;
        d = d ? d : add_dim(g, s, kind, g->blocks.count);
        d->ids[d->n++] = b;
        d->bytes =
            plan_parts_bytes(g, kind == DIM_SOME ? c->dropped_bytes : c->saved_bytes);
        d->ps = cost_span(g, again);
    }
}

static void block_dims(Gen *g, Search *s)
{
    for (int c = 0; c < g->classes.count; c++) {
        block_dim(g, s, g->classes.items[c], DIM_BLOCKS);
        block_dim(g, s, g->classes.items[c], DIM_SOME);
    }
}

static int64_t gathered_bytes(const Gen *g, const Unit *u)
{
    int64_t bytes = 0;
    for (int k = 0; k < u->n_segments; k++) {
        const Segment *s = &g->segments.items[u->segments[k]];
        bytes += s->cut[HELD_PARAMS] ? s->elems * dtype_bytes(s->gathered) : 0;
    }
    return bytes;
}

/* Dimensions for units of one size; and the price of a smaller depth: the time of one
 * more exposed gather, for the memory of one unit. */
static void unit_dims(Gen *g, Search *s)
{
    const Model *m = &g->model;
    const RankBits shards = m->mesh.axis[AXIS_SHARD].bits;
    int64_t largest = 0, n = 0;
    for (int u = 0; u < g->units.count; u++) {
        int64_t bytes = gathered_bytes(g, &g->units.items[u]);
        bool first = bytes > 0;
        for (int w = 0; w < u; w++)
            first = first && gathered_bytes(g, &g->units.items[w]) != bytes;
        largest = max_i64(largest, bytes);
        n += bytes > 0;
        if (!first || g->units.items[u].keep_gathered)
            continue;
        Dim *d = add_dim(g, s, DIM_UNITS, g->units.count);
        for (int w = u; w < g->units.count; w++)
            if (gathered_bytes(g, &g->units.items[w]) == bytes)
                d->ids[d->n++] = w;
        d->bytes = bytes;
        d->ps = cost_move(g, MOVE_GATHER, group_low(shards, m->reshard_ranks), bytes);
    }
    for (int back = 0; largest > 0 && back < 2; back++) {
        int64_t depth = back ? s->backward : s->forward;
        Dim *d = depth > 0 ? add_dim(g, s, back ? DIM_BACKWARD : DIM_FORWARD, 0) : NULL;
        if (d) {
            d->n = (int)depth;
            d->bytes = largest;
            d->ps = cost_move(g, MOVE_GATHER, shards, largest) * n;
        }
    }
}

/* ---- the order in which choices are tried ---------------------------------------- */

static int by_price(const void *a, const void *b)
{
    const Step *x = a, *y = b;
    double p = (double)x->ps * (double)y->bytes, q = (double)y->ps * (double)x->bytes;
    return p != q ? (p < q ? -1 : 1) : x->dim - y->dim;
}

static void list_steps(Gen *g, Search *s)
{
    for (int d = 0; d < s->dims.count; d++) {
        for (int i = 0; i < s->dims.items[d].n; i++) {
            Step *step = gen_push(g, &s->steps);
            *step = (Step){d, s->dims.items[d].ps, s->dims.items[d].bytes};
        }
    }
    if (s->steps.count > 0)
        qsort(s->steps.items, (size_t)s->steps.count, sizeof *s->steps.items, by_price);
}

static void list_exchanges(Gen *g, Search *s)
{
    enum { MOST = 3 };
    Exchange *e;
    for (int i = 0; i < s->dims.count; i++) {
        e = gen_push(g, &s->exchanges);
        *e = (Exchange){i, 1, -1, 0};
    }
    for (int sum = 2; sum <= 2 * MOST; sum++) {
        for (int a = sum > MOST ? sum - MOST : 1; a <= MOST && a < sum; a++) {
            for (int i = 0; i < s->dims.count; i++) {
                for (int j = 0; j < s->dims.count; j++) {
                    if (j != i) {
                        e = gen_push(g, &s->exchanges);
                        *e = (Exchange){i, a, j, sum - a};
                    }
                }
            }
        }
    }
}

/* Puts the next exchange for which the best vector has room into s->v. */
static bool next_exchange(Search *s)
{
    const int *best = s->tried.items[s->best].v;
    for (; s->at < s->exchanges.count; s->at++) {
        const Exchange *e = &s->exchanges.items[s->at];
        if (best[e->i] < e->a || (e->j >= 0 && best[e->j] + e->b > s->dims.items[e->j].n))
            continue;
        memcpy(s->v, best, sizeof *best * (size_t)s->dims.count);
        s->v[e->i] -= e->a;
        if (e->j >= 0)
            s->v[e->j] += e->b;
        return true;
    }
    return false;
}

/* Puts the next vector to try into s->v; false: the search is over. */
static bool next_vector(Search *s)
{
    if (s->stage == AT_BISECTION && s->lo >= s->hi)
        s->stage = s->fits ? AT_EXCHANGES : AT_END;
    memset(s->v, 0, sizeof *s->v * (size_t)s->dims.count);
    switch (s->stage) {
    case AT_FASTEST:
        return true;
    case AT_LEAST:
        for (int d = 0; d < s->dims.count; d++)
            s->v[d] = s->dims.items[d].n;
        return true;
    case AT_BISECTION:
        for (int i = 0; i < s->lo + (s->hi - s->lo) / 2; i++)
            s->v[s->steps.items[i].dim]++;
        return true;
    case AT_EXCHANGES:
        return next_exchange(s);
    case AT_END:
        break;
    }
    return false;
}

/* Continues with the cost of s->v. best: it is the best so far. */
static void advance(const Gen *g, Search *s, const Cost *cost, bool best)
{
    const int middle = s->lo + (s->hi - s->lo) / 2;
    switch (s->stage) {
    case AT_FASTEST:
        s->stage = s->fits ? AT_END : AT_LEAST;
        break;
    case AT_LEAST:
        s->stage = AT_BISECTION;
        break;
    case AT_BISECTION:
        if (cost->bytes <= g->model.budget_bytes)
            s->hi = middle;
        else
            s->lo = middle + 1;
        break;
    case AT_EXCHANGES:
        s->at = best ? 0 : s->at + 1;
        break;
    case AT_END:
        break;
    }
}

/* Planning n instructions takes time in n * n, so larger programs get fewer plans. */
static int plans_to_try(const Gen *g)
{
    enum { MOST_PLANS = 400, LEAST_PLANS = 40, WORK = 40000 };
    int64_t n = 3 * (int64_t)g->blocks.count + 4 * (int64_t)g->segments.count;
    return (int)max_i64(LEAST_PLANS, min_i64(MOST_PLANS, WORK / max_i64(n, 1)));
}

/* ---- question and answer --------------------------------------------------------- */

void search_begin(Gen *g)
{
    Search *s = g->search = gen_alloc(g, sizeof *s);
    s->limit = plans_to_try(g);
    s->forward = g->model.prefetch_forward;
    s->backward = g->model.prefetch_backward;
    s->best = -1;
    block_dims(g, s);
    unit_dims(g, s);
    list_steps(g, s);
    list_exchanges(g, s);
    s->hi = s->steps.count;
    s->v = gen_alloc(g, sizeof *s->v * (size_t)(s->dims.count + 1));
}

bool search_next(Gen *g)
{
    Search *s = g->search;
    while (next_vector(s)) {
        const Cost *known = known_cost(s);
        if (known) {
            advance(g, s, known, false);
            continue;
        }
        if (s->tried.count >= s->limit)
            break;
        apply(g, s, s->v);
        return true;
    }
    s->stage = AT_END;
    apply(g, s, s->tried.items[s->best].v);
    return false;
}

void search_answer(Gen *g, const Cost *cost)
{
    Search *s = g->search;
    const size_t bytes = sizeof *s->v * (size_t)s->dims.count;
    Vector *t = gen_push(g, &s->tried);
    t->v = gen_alloc(g, bytes + 1);
    memcpy(t->v, s->v, bytes);
    t->cost = *cost;
    const bool best = s->best < 0 || better(g, s, cost, &s->tried.items[s->best].cost);
    if (best) {
        s->best = s->tried.count - 1;
        s->fits = cost->bytes <= g->model.budget_bytes;
    }
    advance(g, s, cost, best);
}

/* ---- for the reader -------------------------------------------------------------- */

void search_print(Gen *g, Text *t)
{
    const Search *s = g->search;
    if (!s)
        return;
    text_printf(t,
                "auto: %d plans tried for a budget of %s, best first in time that fits\n",
                s->tried.count, show_bytes(g, g->model.budget_bytes));
    for (int d = 0; d < s->dims.count; d++) {
        const Dim *dim = &s->dims.items[d];
        int v = s->tried.items[s->best].v[d];
        const char *price =
            gen_printf(g, "%s for %s", show_seconds(g, (double)dim->ps * 1e-12),
                       show_bytes(g, dim->bytes));
        if (dim->kind == DIM_SOME) {
            int n = 0;
            for (int i = 0; i < dim->n; i++)
                n += g->blocks.items[dim->ids[i]].keep == KEEP_SOME;
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
