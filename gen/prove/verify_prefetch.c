/* SPDX-License-Identifier: Apache-2.0 */
/* verify_prefetch.c: how far ahead of their use gathers start. In: the instructions of
 * unroll, and the choices of depth, order and limit. Out: NULL or what is wrong.
 *
 * It counts from the instructions alone. A unit is gathered from the start of its first
 * gather on. Until its first reader starts it is ahead, or current if that span comes
 * next. At no start may there be more of them than in_flight, nor, in the backward, more
 * than the order allows. */
#include "plan/plan.h"
#include "prove/verify.h"

/* The first span after the gather that reads its result; -1: none. */
static int first_reader(const Program *p, int gather)
{
    const Instr *g = &p->ins.items[gather];
    for (int id = gather + 1; id < p->first[g->variant] + p->count[g->variant]; id++) {
        const Instr *i = &p->ins.items[id];
        for (int a = 0; i->kind == INS_SPAN && a < i->n_access; a++)
            if (i->access[a].buffer == g->to)
                return id;
    }
    return -1;
}

/* Where the run of spans of one unit that contains this span starts. A unit whose pieces
 * are not consecutive has several runs, and is gathered for each. */
static int run_start(const Program *p, int span)
{
    const Instr *at = &p->ins.items[span];
    int start = span;
    for (int id = span - 1; at->unit >= 0 && id >= p->first[at->variant]; id--) {
        const Instr *i = &p->ins.items[id];
        if (i->kind != INS_SPAN)
            continue;
        if (i->unit != at->unit ||
            (i->phase == PHASE_FORWARD) != (at->phase == PHASE_FORWARD))
            break;
        start = id;
    }
    return start;
}

/* Number of runs of spans whose gathers have started, and whose use has not, when
 * `gather` starts. */
static int64_t units_gathered(Gen *g, int gather, int *seen)
{
    const Program *p = &g->prog;
    const Instr *at = &p->ins.items[gather];
    int64_t n = 0;
    for (int id = p->first[at->variant]; id <= gather; id++) {
        int reader = p->ins.items[id].kind == INS_ALL_GATHER ? first_reader(p, id) : -1;
        bool known = false;
        if (reader <= gather)
            continue;
        int start = run_start(p, reader);
        for (int k = 0; k < n; k++)
            known = known || seen[k] == start;
        if (!known)
            seen[n++] = start;
    }
    return n;
}

const char *verify_prefetch(Gen *g)
{
    const Program *p = &g->prog;
    const Model *m = &g->model;
    int *seen = gen_alloc(g, sizeof(int) * (size_t)(p->ins.count + 1));
    for (int id = 0; id < p->ins.count; id++) {
        const Instr *i = &p->ins.items[id];
        if (i->kind != INS_ALL_GATHER)
            continue;
        int64_t units = units_gathered(g, id, seen);
        int64_t most = i->phase == PHASE_FORWARD            ? m->prefetch_forward + 1
                       : m->prefetch_order == PREFETCH_NONE ? 1
                       : m->prefetch_order == PREFETCH_POST ? m->prefetch_backward
                                                            : m->prefetch_backward + 1;
        if (first_reader(p, id) < 0)
            return gen_printf(g, "%s is read by no span", ins_label(g, i));
        if (units > m->gathers_in_flight) {
            return gen_printf(g, "%s: %lld units are gathered at once, the limit is %lld",
                              ins_label(g, i), (long long)units,
                              (long long)m->gathers_in_flight);
        }
        if (units > max_i64(1, most)) {
            return gen_printf(g, "%s stands %lld units ahead, order and depth allow %lld",
                              ins_label(g, i), (long long)units - 1,
                              (long long)max_i64(1, most) - 1);
        }
    }
    return NULL;
}
