/* SPDX-License-Identifier: Apache-2.0 */
/* simulate.c: how long a step should take, from in-order streams and the prices of
 * instructions (cost.c).
 *
 * In: instructions and waits (schedule). Out: step_seconds. Breaks: nothing.
 *
 * All ranks are assumed to be equal, so a collective starts everywhere at once. Time is
 * in integer picoseconds: the same figure on every machine. Time in which a rank runs no
 * kernel counts for the axis of what it waits for, and the time of a meet for its axis.
 * Kernels beside a collective are slower: a first pass says which they are, a second one
 * stretches them by the time that they spent beside one in the first. How much slower:
 * Rates.contention, or beside a sum that is limited to some multiprocessors
 * (unroll_ctas.c), as they lack those.
 *
 * The rates should be right within a small factor. The figure serves to compare
 * schedules, and to set deadlines after which a stalled rank is given up (the runtime
 * multiplies it generously). It is not a promise of speed. */
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>

/* By instruction: its time, alone and then beside others; when it starts and ends; and
 * how long its kernels wait in between, for the collective before a meet. */
typedef struct Times {
    int64_t *ps, *start, *end, *waited;
} Times;

/* Instructions from .. to, each for its ps. On a device collectives have one order
 * (rt_nccl.c says why), and the meets of spans are in it. Where starts go behind meets,
 * those from `held` on begin after the next meet, or when one of them is waited for. */
typedef struct Timing {
    const Gen *g;
    int from, held;
    Times t;
    int64_t stream[N_STREAMS];
    Exposed exposed;
} Timing;

static Exposed exposed_sum(Exposed a, int64_t n, Exposed b)
{
    for (int axis = 0; axis < N_AXES; axis++)
        a.ps[axis] = cost_sum(a.ps[axis], cost_times(n, b.ps[axis]));
    return a;
}

/* Along the first axis that the group has. */
static void expose(Timing *r, RankBits group, int64_t ps)
{
    int axis = 0;

    gen_require(group, "what ranks wait for has no group");
    while (axis < N_AXES - 1 && !(group & r->g->model.mesh.axis[axis].bits))
        axis++;
    r->exposed.ps[axis] = cost_sum(r->exposed.ps[axis], ps);
}

/* When the instruction may start: its stream is free, and what it waits for is complete.
 */
static int64_t ready(const Timing *r, const Instr *i, StreamId own)
{
    int64_t t = r->stream[own];

    for (int w = 0; w < i->n_waits; w++)
        if (i->waits[w] >= r->from) /* earlier variants are complete */
            t = max_i64(t, r->t.end[i->waits[w]]);
    return t;
}

/* The kernels have waited until the instruction starts: for what it waits for longest. */
static void expose_gap(Timing *r, const Instr *i)
{
    const Instr *late = NULL;

    for (int w = 0; w < i->n_waits; w++)
        if (i->waits[w] >= r->from &&
            (!late || r->t.end[i->waits[w]] > r->t.end[late->id]))
            late = &r->g->prog.ins.items[i->waits[w]];
    if (late && r->t.start[i->id] > r->stream[STREAM_COMPUTE])
        expose(r, late->group, r->t.start[i->id] - r->stream[STREAM_COMPUTE]);
}

static void run_one(Timing *r, const Instr *i, StreamId own)
{
    r->t.start[i->id] = ready(r, i, own);
    r->t.waited[i->id] = 0;
    if (own == STREAM_COMPUTE)
        expose_gap(r, i);
    if (own == STREAM_COMPUTE && i->group && i->kind != INS_SPAN)
        expose(r, i->group, r->t.ps[i->id]);
    r->t.end[i->id] = r->stream[own] = cost_sum(r->t.start[i->id], r->t.ps[i->id]);
}

/* Its meets, which kernels do where ranks read each other's memory. */
static void expose_meets(Timing *r, const Span *s)
{
    for (int k = 0; k < s->n_nodes; k++)
        if (plan_met_bytes(r->g, s->nodes[k]) > 0)
            expose(r, parts_group(&r->g->model, s->nodes[k]->along),
                   cost_meet(r->g, s->nodes[k]));
}

static bool is_held(const Program *p, const Instr *i)
{
    return p->behind_meets && i->stream != STREAM_COMPUTE && i->variant != VARIANT_END;
}

static bool waits_for_held(const Timing *r, const Instr *i)
{
    const Program *p = &r->g->prog;

    for (int w = 0; w < i->n_waits; w++)
        if (i->waits[w] >= r->held && is_held(p, &p->ins.items[i->waits[w]]))
            return true;
    return false;
}

/* Collectives before `to` that are held begin, one after the other. */
static void let_go(Timing *r, int to)
{
    const Program *p = &r->g->prog;

    for (; r->held < to; r->held++)
        if (is_held(p, &p->ins.items[r->held]))
            run_one(r, &p->ins.items[r->held], STREAM_GATHER);
}

/* What the span's kernels take alone, without its meets. */
static int64_t cost_kernels(const Gen *g, const Span *s)
{
    int64_t ps = 0;

    for (int k = 0; k < s->n_nodes; k++)
        ps = cost_sum(
            ps, cost_times(plan_calls(g, s->nodes[k]), cost_node(g, s->nodes[k]).ps));
    return ps;
}

/* All of its kernels are slower by what the span's ps has beyond its price. A meet joins
 * the order of collectives: kernels wait until the one before it is complete, and for the
 * meet. */
static void run_meeting(Timing *r, const Instr *i)
{
    const Gen *g = r->g;
    const Span *s = ins_span(g, i);
    const int64_t more = r->t.ps[i->id] - cost_span(g, s);
    const double slower = 1 + (double)more / (double)max_i64(cost_kernels(g, s), 1);
    int64_t t = ready(r, i, STREAM_COMPUTE);

    r->t.start[i->id] = t;
    r->t.waited[i->id] = 0;
    expose_gap(r, i);
    for (int k = 0; k < s->n_nodes; k++) {
        const Node *n = s->nodes[k];
        const int64_t kernels = cost_times(plan_calls(g, n), cost_node(g, n).ps);

        if (plan_met_bytes(g, n) > 0) {
            const int64_t begins = max_i64(t, r->stream[STREAM_GATHER]);
            const int64_t met = cost_sum(begins, cost_meet(g, n));

            r->t.waited[i->id] = cost_sum(r->t.waited[i->id], begins - t);
            expose(r, parts_group(&g->model, n->along), met - t);
            r->stream[STREAM_GATHER] = t = met;
            let_go(r, i->id);
        }
        t = cost_sum(t, min_i64((int64_t)((double)kernels * slower), COST_MOST_PS));
    }
    r->t.end[i->id] = r->stream[STREAM_COMPUTE] = t;
}

/* From time 0; returns when all are complete. */
static int64_t run_once(const Gen *g, int from, int to, Times t, Exposed *exposed)
{
    const Program *p = &g->prog;
    const bool one_order = g->model.target->device;
    Timing r = {.g = g, .from = from, .held = from, .t = t};
    int last = from;

    for (int id = from; id < to; id++) {
        const Instr *i = &p->ins.items[id];

        if (is_held(p, i))
            continue;
        if (i->variant == VARIANT_END || waits_for_held(&r, i))
            let_go(&r, id);
        if (one_order && i->kind == INS_SPAN && i->group)
            run_meeting(&r, i);
        else
            run_one(&r, i,
                    one_order && i->stream == STREAM_REDUCE ? STREAM_GATHER : i->stream);
        if (!one_order && i->kind == INS_SPAN && i->group)
            expose_meets(&r, ins_span(g, i));
    }
    let_go(&r, to);
    for (int id = from; id < to; id++)
        last = t.end[id] > t.end[last] ? id : last;
    if (from == to)
        return 0;
    if (t.end[last] > r.stream[STREAM_COMPUTE])
        expose(&r, p->ins.items[last].group, t.end[last] - r.stream[STREAM_COMPUTE]);
    *exposed = r.exposed;
    return t.end[last];
}

/* The next instruction of the stream from id on; to: none. */
static int next_of(const Program *p, StreamId s, int id, int to)
{
    while (id < to && p->ins.items[id].stream != s)
        id++;
    return id;
}

/* The time that a kernel runs beside collectives: without a limit, and with one; and with
 * one, the time for which these take its multiprocessors, which counts twice while they
 * exchange and add at once. */
typedef struct Beside {
    int64_t any, limited, taken;
} Beside;

static int64_t taken(const Gen *g, const Instr *i, int64_t both, int64_t all)
{
    return both + (int64_t)((double)cost_at_once(g, i) * (double)both / (double)all);
}

/* Adds to also[] of the kernels, counted from `from`, the time that they run beside the
 * stream's instructions. */
static void beside(const Gen *g, StreamId s, int from, int to, const Times *t,
                   Beside *also)
{
    const Program *p = &g->prog;
    int other = next_of(p, s, from, to);

    for (int id = next_of(p, STREAM_COMPUTE, from, to); id < to;
         id = next_of(p, STREAM_COMPUTE, id + 1, to)) {
        const int64_t start = t->start[id], end = t->end[id];
        Beside *a = &also[id - from];

        if (ins_rule(p->ins.items[id].kind)->collective)
            continue;
        while (other < to && t->end[other] <= start)
            other = next_of(p, s, other + 1, to);
        for (int o = other; o < to && t->start[o] < end; o = next_of(p, s, o + 1, to)) {
            const int64_t both = min_i64(end, t->end[o]) - max_i64(start, t->start[o]);
            if (p->ins.items[o].ctas > 0) {
                a->limited += both;
                a->taken += taken(g, &p->ins.items[o], both, t->end[o] - t->start[o]);
            } else {
                a->any += both;
            }
        }
    }
}

/* What the instruction takes more. Its kernels do not run while they wait for a
 * collective before a meet; such a one has no limit (unroll_ctas.c). */
static int64_t slowed(const Times *t, int id, const Beside *also, int64_t more,
                      int64_t more_limited)
{
    const int64_t runs = t->end[id] - t->start[id] - t->waited[id];
    const int64_t any = min_i64(max_i64(also->any - t->waited[id], 0), runs);
    const int64_t limited = min_i64(also->limited, runs - any);
    const double share = also->limited > 0 ? (double)limited / (double)also->limited : 0;

    return any / 1000 * more +
           (int64_t)((double)also->taken * share) / 1000 * more_limited;
}

/* Of 1000 ps of a kernel beside a sum that takes some of the processors, the ps more. */
static int64_t more_beside_limited(const Gen *g, int from, int to)
{
    const int64_t all = g->model.rates.processors;

    for (int id = from; id < to; id++)
        if (g->prog.ins.items[id].ctas > 0) /* all have the same */
            return 1000 * g->prog.ins.items[id].ctas /
                   max_i64(all - g->prog.ins.items[id].ctas, 1);
    return 0;
}

static int64_t run_range(const Gen *g, int from, int to, const Times *t, Exposed *exposed)
{
    const int64_t more = g->model.rates.contention - 1000,
                  more_limited = more_beside_limited(g, from, to);
    Beside *also;
    int64_t all;

    for (int id = from; id < to; id++)
        t->ps[id] = cost_instr(g, &g->prog.ins.items[id]);
    all = run_once(g, from, to, *t, exposed);
    if ((more <= 0 && more_limited <= 0) || g->model.mesh.world_size == 1)
        return all;
    also = gen_calloc(sizeof *also, (size_t)(to - from) + 1);
    beside(g, STREAM_GATHER, from, to, t, also);
    beside(g, STREAM_REDUCE, from, to, t, also);
    for (int id = from; id < to; id++)
        t->ps[id] =
            cost_sum(t->ps[id], slowed(t, id, &also[id - from], more, more_limited));
    free(also);
    return run_once(g, from, to, *t, exposed);
}

/* LOCAL so often as a step runs it, of which some turns end with merges. */
static int64_t run_local(const Gen *g, const Times *t, Exposed *exposed)
{
    const Program *p = &g->prog;
    const int from = p->first[VARIANT_LOCAL], all = from + p->count[VARIANT_LOCAL];
    int to = all;
    int64_t turns = variant_turns(g, VARIANT_LOCAL), merging = 0, ps = 0;
    Exposed of_one = {{0}};

    while (to > from && p->ins.items[to - 1].kind == INS_MERGE)
        merging = ins_turns(g, &p->ins.items[--to]);
    if (to < all) {
        ps = cost_times(turns - merging, run_range(g, from, to, t, &of_one));
        *exposed = exposed_sum(*exposed, turns - merging, of_one);
        turns = merging;
    }
    ps = cost_sum(ps, cost_times(turns, run_range(g, from, all, t, &of_one)));
    *exposed = exposed_sum(*exposed, turns, of_one);
    return ps;
}

/* As simulate_times; exposed: of the whole step. */
static int64_t run_step(const Gen *g, int64_t *start, int64_t *end, int64_t *waited,
                        Exposed *exposed)
{
    const Program *p = &g->prog;
    const int64_t n_last = variant_turns(g, VARIANT_LAST);
    const int last = p->first[VARIANT_LAST];
    const Times t = {gen_calloc(sizeof *t.ps, (size_t)p->ins.count + 1), start, end,
                     waited};
    Exposed of_local = {{0}}, of_last = {{0}}, of_end = {{0}};
    const int64_t t_local = run_local(g, &t, &of_local);
    const int64_t t_last =
        run_range(g, last, last + p->count[VARIANT_LAST], &t, &of_last);
    const int64_t t_end = run_range(g, last, p->ins.count, &t, &of_end);

    free(t.ps);
    *exposed = exposed_sum(exposed_sum(of_end, 1, of_local), n_last - 1, of_last);
    return cost_sum(cost_sum(t_local, cost_times(n_last - 1, t_last)), t_end);
}

int64_t simulate_times(const Gen *g, int64_t *start, int64_t *end, int64_t *waited)
{
    Exposed exposed;

    return run_step(g, start, end, waited, &exposed);
}

int64_t simulate_busy(const Gen *g)
{
    const Program *p = &g->prog;
    size_t n = (size_t)p->ins.count + 1;
    int64_t *start = gen_calloc(sizeof *start, n), *end = gen_calloc(sizeof *end, n),
            *waited = gen_calloc(sizeof *waited, n);
    int64_t busy = 0;

    simulate_times(g, start, end, waited);
    for (int id = 0; id < p->ins.count; id++) {
        const Instr *i = &p->ins.items[id];

        if (i->stream == STREAM_COMPUTE)
            busy = cost_sum(
                busy, cost_times(ins_turns(g, i), end[id] - start[id] - waited[id]));
    }
    free(start);
    free(end);
    free(waited);
    return busy;
}

void simulate_step(Gen *g)
{
    size_t n = (size_t)g->prog.ins.count + 1;
    int64_t *start = gen_alloc(g, sizeof *start * n),
            *end = gen_alloc(g, sizeof *end * n),
            *waited = gen_alloc(g, sizeof *waited * n);
    const int64_t ps = run_step(g, start, end, waited, &g->prog.exposed);

    g->prog.step_seconds = ps < COST_MOST_PS ? (double)ps * 1e-12 : INFINITY;
}
