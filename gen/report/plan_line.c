/* SPDX-License-Identifier: Apache-2.0 */
/* plan_line.c: a planned step over time. In: the program, with its times (simulate). Out:
 * when each call runs, what is live when, and which units' transfers computation waits
 * for.
 *
 * A buffer is drawn from the first call that touches it to the end of the last. Its bytes
 * may be reserved for longer, so the arena is at least as high as the drawing. */
#include "report/plan_line.h"

#include <stdlib.h>
#include <string.h>

const char *const plan_for[N_FOR] = {
    "parameters",  "gradients",        "master and moments", "partial sums",
    "activations", "gathered weights", "workspace and data"};

static PlanFor for_of(BufKind kind)
{
    switch (kind) {
    case BUF_PARAM_SHARD:
    case BUF_CODES:
        return FOR_PARAMS;
    case BUF_MASTER:
    case BUF_MOMENT1:
    case BUF_MOMENT2:
        return FOR_OPTIMIZER;
    case BUF_GRAD_SHARD:
    case BUF_GRAD_ACCUM:
    case BUF_GRAD:
        return FOR_GRADIENTS;
    case BUF_PARTIAL:
        return FOR_PARTIALS;
    case BUF_GATHERED:
    case BUF_KEPT:
        return FOR_GATHERED;
    case BUF_BOUNDARY:
    case BUF_D_BOUNDARY:
    case BUF_SAVED:
        return FOR_ACTIVATIONS;
    default:
        return FOR_WORKSPACE;
    }
}

/* ---- what is live ---------------------------------------------------------------- */

typedef struct Shift {
    int64_t ps, bytes;
    PlanFor what;
} Shift;

typedef struct Shifts {
    Shift *items;
    int count, cap;
} Shifts;

static int by_time(const void *pa, const void *pb)
{
    const Shift *a = pa, *b = pb;

    if (a->ps != b->ps)
        return a->ps < b->ps ? -1 : 1;
    if ((a->bytes < 0) != (b->bytes < 0)) /* what ends there is gone */
        return a->bytes < 0 ? -1 : 1;
    return (int)a->what - (int)b->what;
}

static Shifts find_shifts(Gen *g, const PlanLine *l, int64_t kept[N_FOR])
{
    const Program *p = &g->prog;
    const size_t n = (size_t)p->bufs.count + 1;
    int64_t *from = gen_alloc(g, sizeof *from * n), *to = gen_alloc(g, sizeof *to * n);
    Shifts shifts = {0};

    for (int b = 0; b < p->bufs.count; b++)
        from[b] = to[b] = -1;
    for (int id = l->first; id < l->first + l->count; id++) {
        const Instr *i = &p->ins.items[id];

        for (int a = 0; a < i->n_access; a++) {
            const int b = i->access[a].buffer;

            from[b] = from[b] < 0 ? l->start[id] : min_i64(from[b], l->start[id]);
            to[b] = max_i64(to[b], l->end[id]);
        }
    }
    for (int b = 0; b < p->bufs.count; b++) {
        const Buffer *buf = &p->bufs.items[b];
        const PlanFor what = for_of(buf->kind);

        if (buf->persistent) {
            kept[what] += buf->bytes;
        } else if (from[b] >= 0 && buf->bytes > 0) {
            *gen_push(g, &shifts) = (Shift){from[b], buf->bytes, what};
            *gen_push(g, &shifts) = (Shift){to[b], -buf->bytes, what};
        }
    }
    if (shifts.count)
        qsort(shifts.items, (size_t)shifts.count, sizeof *shifts.items, by_time);
    return shifts;
}

static int64_t sum_of(const PlanMoment *m)
{
    int64_t sum = 0;

    for (int k = 0; k < N_FOR; k++)
        sum += m->live[k];
    return sum;
}

/* Of many moments, those with the most bytes in each of MAX_MOMENTS stretches. */
static void thin_out(PlanLine *l)
{
    PlanMoment *m = l->moments.items;
    const int n = l->moments.count;
    int kept = 0;

    if (n <= MAX_MOMENTS)
        return;
    for (int s = 0; s < MAX_MOMENTS; s++) {
        const int from = (int)((int64_t)n * s / MAX_MOMENTS);
        const int to = (int)((int64_t)n * (s + 1) / MAX_MOMENTS);
        int most = from;

        for (int i = from + 1; i < to; i++)
            most = sum_of(&m[i]) > sum_of(&m[most]) ? i : most;
        m[kept++] = m[most];
    }
    l->moments.count = kept;
}

static void find_moments(Gen *g, PlanLine *l)
{
    PlanMoment now = {0};
    const Shifts shifts = find_shifts(g, l, now.live);

    *gen_push(g, &l->moments) = now;
    for (int i = 0; i < shifts.count; i++) {
        const Shift *c = &shifts.items[i];

        now.ps = c->ps;
        now.live[c->what] += c->bytes;
        if (i + 1 == shifts.count || shifts.items[i + 1].ps != c->ps)
            *gen_push(g, &l->moments) = now;
    }
    thin_out(l);
}

/* ---- what is waited for ---------------------------------------------------------- */

/* A gap of the compute stream belongs to the call that ends it last. */
static void find_exposed(Gen *g, PlanLine *l)
{
    const Program *p = &g->prog;
    int64_t idle_from = 0;

    l->exposed = gen_alloc(g, sizeof *l->exposed * (size_t)(g->units.count + 1));
    for (int id = l->first; id < l->first + l->count; id++) {
        const Instr *i = &p->ins.items[id], *late = NULL;
        const int64_t gap = l->start[id] - idle_from;

        if (i->stream != STREAM_COMPUTE)
            continue;
        idle_from = l->end[id];
        l->waited += l->waits[id];
        for (int w = 0; w < i->n_waits; w++)
            if (i->waits[w] >= l->first &&
                (!late || l->end[i->waits[w]] > l->end[late->id]))
                late = &p->ins.items[i->waits[w]];
        if (gap <= 0 || !late)
            continue;
        l->waited += gap;
        if (late->segment >= 0)
            l->exposed[g->segments.items[late->segment].unit] += gap;
    }
}

/* ---- calls ----------------------------------------------------------------------- */

const char *const plan_call[N_CALLS] = {
    "forward", "forward again", "backward", "sums and optimizer", "gather", "reduction"};

PlanCall plan_call_of(const Instr *i)
{
    if (i->stream == STREAM_GATHER)
        return CALL_GATHER;
    if (i->stream == STREAM_REDUCE)
        return CALL_REDUCE;
    if (i->kind != INS_SPAN)
        return CALL_REST;
    return i->phase == PHASE_BACKWARD    ? CALL_BACKWARD
           : i->phase == PHASE_RECOMPUTE ? CALL_AGAIN
                                         : CALL_FORWARD;
}

/* ---- all of it ------------------------------------------------------------------- */

PlanLine plan_line(Gen *g)
{
    const Program *p = &g->prog;
    const size_t n = (size_t)p->ins.count + 1;
    PlanLine l = {.first = p->first[VARIANT_LAST],
                  .start = gen_alloc(g, sizeof *l.start * n),
                  .end = gen_alloc(g, sizeof *l.end * n),
                  .waits = gen_alloc(g, sizeof *l.waits * n)};

    l.count = p->ins.count - l.first;
    simulate_times(g, l.start, l.end, l.waits);
    for (int id = l.first; id < p->ins.count; id++)
        l.ps = max_i64(l.ps, l.end[id]);
    find_moments(g, &l);
    find_exposed(g, &l);
    return l;
}
