/* SPDX-License-Identifier: Apache-2.0 */
/* verify_ctas.c: limits of sums to some multiprocessors, derived again from the program
 * and its prices.
 *
 * In: Instr.ctas. Out: what is wrong. It checks that a limit can change no bit, that one
 * number serves all, that computation hides what a limit makes slower, and that no meet
 * waits behind a limited sum. */
#include "prove/verify.h"

/* What the compute stream still does in the backward after i has started. */
static double behind(const Gen *g, const Instr *i)
{
    const Program *p = &g->prog;
    double ps = 0;

    for (int id = i->id + 1; id < p->first[VARIANT_LAST] + p->count[VARIANT_LAST]; id++)
        if (p->ins.items[id].kind == INS_SPAN)
            ps += (double)cost_instr(g, &p->ins.items[id]);
    return ps;
}

static const char *check_one(Gen *g, const Instr *i)
{
    const RankBits far = g->model.net.node ? i->group & ~g->model.net.near : 0;

    if (!ins_is_collective(i) || i->order != ORDER_TREE || !g->model.target->device)
        return gen_printf(g, "%s has a limit that could change bits", ins_label(g, i));
    if (i->variant != VARIANT_LAST || far)
        return gen_printf(g, "%s has a limit and nothing that hides it", ins_label(g, i));
    if (i->ctas < 4 || i->ctas > 16 || (i->ctas & (i->ctas - 1)) != 0)
        return gen_printf(g, "%s has a limit of %d", ins_label(g, i), i->ctas);
    if (i->ctas * 2 > g->model.rates.processors)
        return gen_printf(g, "%s may take more than half of the multiprocessors",
                          ins_label(g, i));
    if (behind(g, i) < (double)cost_instr(g, i))
        return gen_printf(g, "%s is slower than what hides it", ins_label(g, i));
    return NULL;
}

/* What is summed over links, limited to `ctas`, against half of the backward. */
static bool keeps_up(const Gen *g, int ctas)
{
    const Program *p = &g->prog;
    const int from = p->first[VARIANT_LAST];
    double bytes = 0, backward_ps = 0;

    for (int id = from; id < from + p->count[VARIANT_LAST]; id++) {
        const Instr *i = &p->ins.items[id];
        const bool near = !g->model.net.node || !(i->group & ~g->model.net.near);

        if (i->order == ORDER_TREE && near)
            bytes += (double)i->moved_bytes;
        if (i->kind == INS_SPAN && i->phase != PHASE_FORWARD)
            backward_ps += (double)cost_instr(g, i);
    }
    return bytes * LINK_CTAS / ctas / (double)g->model.rates.link_per_us * 1e6 <=
           backward_ps / 2;
}

static bool has_meets(const Gen *g)
{
    for (int id = 0; id < g->prog.ins.count; id++) {
        const Instr *i = &g->prog.ins.items[id];
        const Span *s = i->kind == INS_SPAN ? ins_span(g, i) : NULL;

        for (int k = 0; s && k < s->n_nodes; k++)
            if (plan_met_bytes(g, s->nodes[k]) > 0)
                return true;
    }
    return false;
}

const char *verify_ctas(Gen *g)
{
    const Program *p = &g->prog;
    const char *bad = NULL;
    int limit = 0;

    for (int id = 0; id < p->ins.count && !bad; id++) {
        const Instr *i = &p->ins.items[id];

        if (i->ctas == 0)
            continue;
        if (limit && i->ctas != limit)
            return gen_printf(g, "%s has another limit", ins_label(g, i));
        limit = i->ctas;
        bad = check_one(g, i);
    }
    if (!bad && limit && has_meets(g))
        return "a limited sum holds up the meets behind it";
    if (!bad && limit && !keeps_up(g, limit))
        return "sums on their multiprocessors take more than half of the backward";
    return bad;
}
