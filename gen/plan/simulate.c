/* SPDX-License-Identifier: Apache-2.0 */
/* simulate.c: how long a step should take, from in-order streams and a table of rates.
 *
 * In: instructions and waits (schedule). Out: step_seconds. Breaks: nothing.
 *
 * All ranks are assumed to be equal, so a collective starts everywhere at once. Time is
 * in integer picoseconds: the same figure on every machine. The rates are the target's
 * (describe/target.c) and should be right within a small factor. The figure serves to
 * compare schedules, and to set deadlines after which a stalled rank is given up (the
 * runtime multiplies it generously). It is not a promise of speed. */
#include "plan/plan.h"

#include <string.h>

enum { PS_PER_US = 1000000 };

/* 26 days: legal dimensions could exceed this, and must not overflow. */
#define MOST_PS (INT64_C(1) << 61)

static int64_t ps_of(double amount, int64_t per_us)
{
    double ps = amount / (double)per_us * PS_PER_US;

    return ps < (double)MOST_PS ? (int64_t)ps : MOST_PS;
}

static int64_t later(int64_t t, int64_t by)
{
    return min_i64(t + by, MOST_PS); /* both at most MOST_PS: no overflow */
}

static int64_t times(int64_t n, int64_t t)
{
    return t > 0 && n > MOST_PS / t ? MOST_PS : n * t;
}

int64_t math_picoseconds(const Gen *g, double flops, double traffic_bytes)
{
    const Rates r = g->model.rates;

    return max_i64(ps_of(flops, r.flops_per_us), ps_of(traffic_bytes, r.memory_per_us));
}

bool math_is_cheap(const Gen *g, double flops, double traffic_bytes)
{
    const Rates r = g->model.rates;

    return ps_of(flops, r.flops_per_us) <= ps_of(traffic_bytes, r.memory_per_us);
}

int64_t moved_picoseconds(const Gen *g, int64_t bytes)
{
    const Rates r = g->model.rates;

    return later(r.latency_ps, ps_of((double)bytes, r.link_per_us));
}

int64_t ins_picoseconds(const Gen *g, const Instr *i)
{
    const InsRule *rule = ins_rule(i->kind);
    int64_t ps;
    if (rule->collective)
        return moved_picoseconds(g, i->moved_bytes);
    ps = math_picoseconds(g, i->flops,
                          rule->traffic_bytes ? rule->traffic_bytes(g, i) : 0);
    return rule->f32 ? times(g->model.rates.f32_slower, ps) : ps;
}

/* Runs the instructions from .. to, starting at time 0; returns when all are complete. */
static int64_t run_range(const Gen *g, int from, int to, int64_t *start, int64_t *end)
{
    const Program *p = &g->prog;
    int64_t stream[N_STREAMS] = {0}, all = 0;
    for (int id = from; id < to; id++) {
        const Instr *i = &p->ins.items[id];
        int64_t t = stream[i->stream];
        for (int w = 0; w < i->n_waits; w++)
            if (i->waits[w] >= from) /* earlier variants are complete */
                t = max_i64(t, end[i->waits[w]]);
        start[id] = t;
        end[id] = stream[i->stream] = later(t, ins_picoseconds(g, i));
        all = max_i64(all, end[id]);
    }
    return all;
}

int64_t simulate_times(const Gen *g, int64_t *start, int64_t *end)
{
    const Program *p = &g->prog;
    int64_t n_local = variant_turns(g, VARIANT_LOCAL);
    int64_t n_last = variant_turns(g, VARIANT_LAST);
    int local = p->first[VARIANT_LOCAL], last = p->first[VARIANT_LAST];
    int64_t t_local = run_range(g, local, local + p->count[VARIANT_LOCAL], start, end);
    int64_t t_last = run_range(g, last, last + p->count[VARIANT_LAST], start, end);
    int64_t t_end = run_range(g, last, p->ins.count, start, end);
    return later(later(times(n_local, t_local), times(n_last - 1, t_last)), t_end);
}

void simulate_step(Gen *g)
{
    size_t n = (size_t)g->prog.ins.count + 1;
    int64_t *start = gen_alloc(g, sizeof *start * n),
            *end = gen_alloc(g, sizeof *end * n);
    g->prog.step_seconds = (double)simulate_times(g, start, end) * 1e-12;
}
