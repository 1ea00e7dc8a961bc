/* SPDX-License-Identifier: Apache-2.0 */
/* dump_plan.c: the IR after shard, policy, unroll, schedule, place, simulate as
 * deterministic text, for --dump=PASS and the golden tests. In: the Gen after the pass.
 * Out: text. */
#include "plan/plan.h"
#include "report/report.h"

#include <inttypes.h>
#include <string.h>

static void dump_group(Text *t, const char *what, RankBits group)
{
    if (group) {
        text_printf(t, "    %s: %d ranks, every %d.\n", what, group_ranks(group),
                    (int)(group & ~(group - 1)));
    }
}

static void dump_shard(Gen *g, Text *t)
{
    for (int i = 0; i < g->units.count; i++) {
        const Unit *u = &g->units.items[i];
        text_printf(t, "unit %s:", u->name);
        for (int k = 0; k < u->n_pieces; k++) {
            const Block *b = &g->blocks.items[u->pieces[k].block];
            if (b->cut) {
                text_printf(t, " %s.%s", b->name,
                            b->cls->pieces.items[u->pieces[k].piece].name);
            } else if (u->pieces[k].piece == 0) {
                text_printf(t, " %s", b->name);
            }
        }
        text_printf(t, "\n");
        for (int k = 0; k < u->n_segments; k++) {
            const Segment *s = &g->segments.items[u->segments[k]];
            text_printf(t,
                        "  segment %s elems %" PRId64 " used %" PRId64
                        " shards %d of %" PRId64 "%s\n",
                        s->name, s->elems, s->used_elems, s->shards, s->shard_elems,
                        s->trainable ? "" : " frozen");
            dump_group(t, "within", s->within);
            dump_group(t, "across", s->across);
            dump_group(t, "between forward and backward", s->between);
            for (int p = 0; p < s->n_params; p++) {
                const Param *q = &g->params.items[s->params[p]];
                text_printf(t, "    %12" PRId64 " %12" PRId64 " %s\n", q->offset_elems,
                            q->elems, q->name);
            }
        }
    }
}

static void dump_policy(Gen *g, Text *t)
{
    const Model *m = &g->model;
    text_printf(t,
                "accumulate %s\nreshard_ranks %" PRId64 "\nprefetch forward %" PRId64
                " backward %" PRId64 " order %s in_flight %" PRId64
                "\nreduces_in_flight %" PRId64 "\n",
                m->accumulate_sharded ? "sharded" : "unsharded", m->reshard_ranks,
                m->prefetch_forward, m->prefetch_backward,
                prefetch_order_name(m->prefetch_order), m->gathers_in_flight,
                m->reduces_in_flight);
    for (int u = 0; u < g->units.count; u++)
        if (g->units.items[u].keep_gathered)
            text_printf(t, "unit %s stays gathered\n", g->units.items[u].name);
    for (int b = 0; b < g->blocks.count; b++) {
        static const char *const keeps[] = {"all", "some", "its input"};
        text_printf(t, "block %s keeps %s\n", g->blocks.items[b].name,
                    keeps[g->blocks.items[b].keep]);
    }
}

static void dump_access(Gen *g, Text *t, const Instr *i)
{
    for (int write = 0; write < 2; write++) {
        text_printf(t, write ? " ->" : "");
        for (int a = 0; a < i->n_access; a++) {
            if (i->access[a].write == (write == 1)) {
                text_printf(t, " %s%s", g->prog.bufs.items[i->access[a].buffer].name,
                            i->access[a].remote ? "@peers" : "");
            }
        }
    }
}

static void dump_program(Gen *g, Text *t, bool waits)
{
    static const char *const names[] = {"eval", "local", "last", "end"};
    const Program *p = &g->prog;
    text_printf(t,
                "rounds %" PRId64 " leaf_micro_batches %" PRId64 " partial_levels %d\n",
                p->rounds, p->leaf_micro_batches, p->partial_levels);
    for (int v = 0; v < N_VARIANTS; v++) {
        if (p->count[v] > 0)
            text_printf(t, "%s:\n", names[v]);
        for (int id = p->first[v]; id < p->first[v] + p->count[v]; id++) {
            const Instr *i = &p->ins.items[id];
            text_printf(t, "  %4d %-7s %-14s %s", id, stream_name(i->stream),
                        ins_rule(i->kind)->name, ins_label(g, i));
            if (!waits) {
                if (i->group) {
                    text_printf(t, " (%d ranks, every %d.)", group_ranks(i->group),
                                (int)(i->group & ~(i->group - 1)));
                }
                if (i->order == ORDER_LIBRARY)
                    text_printf(t, " in the library's order");
                if (i->ctas > 0)
                    text_printf(t, " on %d multiprocessors", i->ctas);
                text_printf(t, ":");
                dump_access(g, t, i);
            }
            text_printf(t, "\n");
            for (int w = 0; waits && w < i->n_waits; w++) {
                text_printf(t, "         waits for %d: %s\n", i->waits[w],
                            i->wait_why[w]);
            }
        }
    }
}

static void dump_bindings(Gen *g, Text *t)
{
    const Program *p = &g->prog;
    static const char *const what[N_BINDS] = {"param", "scale", "grad"};
    text_printf(t, "bindings:\n");
    for (int k = 0; k < p->n_bindings; k++) {
        const struct Binding *b = &p->bindings[k];
        const Block *blk = &g->blocks.items[p->ins.items[b->ins].block];
        text_printf(t, "  %4d %s %s = %s + %" PRId64 "%s\n", b->ins, what[b->of],
                    blk->cls->params.items[b->param].ident, p->bufs.items[b->buffer].name,
                    b->offset_bytes, b->add ? " add" : "");
    }
}

static void dump_place(Gen *g, Text *t)
{
    const Program *p = &g->prog;
    for (int s = 0; s < N_SPACES; s++) {
        text_printf(t, "%s space %" PRId64 " bytes\n",
                    s == SPACE_LOCAL ? "local" : "symmetric", p->space_bytes[s]);
        for (int i = 0; i < p->bufs.count; i++) {
            const Buffer *b = &p->bufs.items[i];
            if ((int)b->space == s && b->bytes > 0) {
                text_printf(t, "  %14" PRId64 " %14" PRId64 " %-11s %s %s\n",
                            b->offset_bytes, b->bytes, buf_kind_name(b->kind), b->name,
                            b->what);
            }
        }
    }
    text_printf(t, "arena %" PRId64 " max_live %" PRId64 " ideal_live %" PRId64 "\n",
                p->arena_bytes, p->max_live_bytes, p->ideal_live_bytes);
}

static void dump_simulate(Gen *g, Text *t)
{
    const Program *p = &g->prog;
    size_t n = (size_t)p->ins.count + 1;
    int64_t *start = gen_alloc(g, sizeof *start * n),
            *end = gen_alloc(g, sizeof *end * n),
            *waited = gen_alloc(g, sizeof *waited * n);
    int64_t total = simulate_times(g, start, end, waited);
    for (int id = p->first[VARIANT_LOCAL]; id < p->ins.count; id++) {
        const Instr *i = &p->ins.items[id];
        text_printf(t, "  %4d %-7s %14" PRId64 " %14" PRId64 " %s\n", id,
                    stream_name(i->stream), start[id], end[id], ins_label(g, i));
    }
    text_printf(t, "step %" PRId64 " ps\n", total);
}

bool dump_plan(Gen *g, const char *pass, Text *t)
{
    if (!strcmp(pass, "shard")) {
        dump_shard(g, t);
    } else if (!strcmp(pass, "policy")) {
        dump_policy(g, t);
    } else if (!strcmp(pass, "unroll")) {
        dump_program(g, t, false);
        dump_bindings(g, t);
    } else if (!strcmp(pass, "schedule")) {
        dump_program(g, t, true);
    } else if (!strcmp(pass, "place")) {
        dump_place(g, t);
    } else if (!strcmp(pass, "simulate")) {
        dump_simulate(g, t);
    } else {
        return false;
    }
    return true;
}
