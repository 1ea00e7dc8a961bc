/* SPDX-License-Identifier: Apache-2.0 */
/* verify_saved.c: what the backward needs from the forward. In: the instructions of
 * unroll, what each block keeps. Out: NULL or what is wrong with one call. */
#include "plan/plan.h"
#include "prove/verify.h"

/* The instruction that last wrote a buffer before `at`, in its variant; NULL: none. Other
 * pieces of a block's backward do not destroy what `at` still needs. */
static const Instr *writer_before(const Program *p, const Instr *at, int buffer)
{
    for (int id = at->id - 1; buffer >= 0 && id >= p->first[at->variant]; id--) {
        const Instr *i = &p->ins.items[id];
        bool other = i->kind == INS_SPAN && i->block == at->block &&
                     i->phase == PHASE_BACKWARD && at->phase == PHASE_BACKWARD;
        if (!other && ins_touches(i, buffer, true))
            return &p->ins.items[id];
    }
    return NULL;
}

/* Does an earlier KEEP_SOME call of the block make the value, in the same slab? */
static bool made_again(Gen *g, const Instr *i, const Value *v)
{
    for (int id = g->prog.first[i->variant]; id < i->id; id++) {
        const Instr *r = &g->prog.ins.items[id];
        bool again = r->phase == PHASE_RECOMPUTE && r->block == i->block &&
                     r->dropped == i->dropped;
        const Span *s = again ? ins_span(g, r) : NULL;
        for (int n = 0; s && n < s->n_nodes; n++)
            if (s->nodes[n] == v->def)
                return true;
    }
    return false;
}

/* A value that a backward reads but that is neither kept nor made again before; or
 * NULL. */
static const Value *dropped_and_lost(Gen *g, const Instr *i)
{
    const Span *s = ins_span(g, i);
    const Class *c = g->blocks.items[i->block].cls;
    for (int n = 0; n < s->n_nodes; n++) {
        for (int k = 0; k < s->nodes[n]->n_in; k++) {
            const Value *v = s->nodes[n]->in[k];
            const Saved *saved =
                v->loc == LOC_SAVED ? &c->saved.items[v->loc_index] : NULL;
            if (saved && saved->value == v && saved->dropped && !made_again(g, i, v))
                return v;
        }
    }
    return NULL;
}

/* Does the last forward of a block's pieces before a backward fill the whole slab that
 * the backward finds? */
static bool filled_by_all(Gen *g, const Instr *i)
{
    bool again =
        g->blocks.items[i->block].keep == KEEP_INPUT && i->phase == PHASE_BACKWARD;
    for (int id = g->prog.first[i->variant]; id < i->id; id++) {
        const Instr *r = &g->prog.ins.items[id];
        if (r->kind == INS_SPAN && r->block == i->block && r->saved >= 0 &&
            r->phase == (again ? PHASE_RECOMPUTE : PHASE_FORWARD) && r->saved != i->saved)
            return false;
    }
    return true;
}

/* A block reads the boundary that the previous block's forward wrote, and, in its
 * backward, the gradient that the next block's backward wrote. */
static const char *check_boundary(Gen *g, const Instr *i, const SpanArg *arg,
                                  const Instr *w)
{
    if (arg->kind == ARG_IN &&
        (!w || w->block != i->block - 1 || w->phase != PHASE_FORWARD))
        return gen_printf(g, "%s: its input is not what the block before made",
                          ins_label(g, i));
    if (arg->kind == ARG_DOUT &&
        (!w || w->block != i->block + 1 || w->phase != PHASE_BACKWARD))
        return gen_printf(g, "%s: the gradient that it reads is not the next block's",
                          ins_label(g, i));
    return NULL;
}

/* What the backward of a block needs from its forward is live or recomputed: the block's
 * last forward run filled the slab that it finds; and no loss counts twice. */
const char *verify_saved(Gen *g, const Instr *i)
{
    const Program *p = &g->prog;
    const Span *s = ins_span(g, i);
    bool back = i->phase == PHASE_BACKWARD || i->phase == PHASE_EVALUATE;
    for (int a = 0; a < s->n_args; a++) {
        const SpanArg *arg = &s->args[a];
        bool made = arg->kind == ARG_SAVED || arg->kind == ARG_OUT;
        int buffer = arg->kind == ARG_IN      ? i->in + arg->index
                     : arg->kind == ARG_DOUT  ? i->d_out + arg->index
                     : arg->kind == ARG_SAVED ? i->saved
                     : arg->kind == ARG_OUT   ? i->out + arg->index
                                              : -1;
        const Instr *w = writer_before(p, i, buffer);
        const char *bad;
        const Value *lost;
        if (i->phase == PHASE_RECOMPUTE && arg->kind == ARG_LOSS)
            return gen_printf(g, "%s counts its loss twice", ins_label(g, i));
        bad = check_boundary(g, i, arg, w);
        if (bad)
            return bad;
        lost = NULL;
        if (i->phase == PHASE_BACKWARD && arg->kind == ARG_SAVED && i->dropped >= 0)
            lost = dropped_and_lost(g, i);
        if (lost) {
            return gen_printf(g, "%s needs %s, dropped and not computed again",
                              ins_label(g, i), lost->name);
        }
        if (back && made && buffer >= 0 &&
            ((arg->kind == ARG_SAVED && !filled_by_all(g, i)) || !w ||
             w->block != i->block || w->phase == PHASE_BACKWARD)) {
            return gen_printf(g, "%s needs what is neither kept nor computed again",
                              ins_label(g, i));
        }
    }
    return NULL;
}
