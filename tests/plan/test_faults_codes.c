/* SPDX-License-Identifier: Apache-2.0 */
/* test_faults_codes.c: plants of faults in how updated weights get where spans read them:
 * to the ranks that hold all of them, and into the codes that are gathered. In: a plan.
 * Out: the same plan, wrong. */
#include "test_faults.h"

/* Gathered in another dtype than its parameters say. */
bool plant_other_codes(Gen *g, uint64_t *r)
{
    Segment *s = &g->segments.items[choose(r, g->segments.count)];
    s->gathered = s->gathered == DT_E4M3 ? s->dtype : DT_E4M3;
    return true;
}

/* The segment's buffer of that kind, or -1. */
static int buffer_of(const Gen *g, int segment, BufKind kind)
{
    for (int b = 0; b < g->prog.bufs.count; b++)
        if (g->prog.bufs.items[b].segment == segment &&
            g->prog.bufs.items[b].kind == kind)
            return b;
    return -1;
}

static bool read_weights(Gen *g, Instr *i, int segment)
{
    const int codes = buffer_of(g, segment, BUF_CODES),
              weights = buffer_of(g, segment, BUF_PARAM_SHARD);
    bool any = false;
    for (int a = 0; a < i->n_access; a++) {
        if (codes >= 0 && i->access[a].buffer == codes) {
            i->access[a].buffer = weights;
            any = true;
        }
    }
    return any;
}

/* A gather brings the weights, not their codes. */
bool plant_gathered_weights(Gen *g, uint64_t *r)
{
    const int first = choose(r, g->prog.ins.count);
    for (int k = 0; k < g->prog.ins.count; k++) {
        Instr *i = &g->prog.ins.items[(first + k) % g->prog.ins.count];
        if (i->kind == INS_ALL_GATHER && read_weights(g, i, i->segment))
            return true;
    }
    return false;
}

/* A span reads codes where the weights are. */
bool plant_bound_weights(Gen *g, uint64_t *r)
{
    const int first = choose(r, g->prog.n_bindings);
    for (int k = 0; k < g->prog.n_bindings; k++) {
        struct Binding *b = &g->prog.bindings[(first + k) % g->prog.n_bindings];
        const Buffer *from = &g->prog.bufs.items[b->buffer];
        if (from->kind != BUF_CODES ||
            !read_weights(g, &g->prog.ins.items[b->ins], from->segment))
            continue;
        b->buffer = buffer_of(g, from->segment, BUF_PARAM_SHARD);
        return true;
    }
    return false;
}

/* Codes by the scales of the last step. */
bool plant_codes_early(Gen *g, uint64_t *r)
{
    Instr *early = find_ins(g, r, INS_ENCODE),
          *reduce = find_ins(g, r, INS_LARGEST_REDUCE);
    Instr held;
    if (!early)
        return false;
    held = *early;
    *early = *reduce;
    *reduce = held;
    reduce->id = early->id;
    early->id = held.id;
    return true;
}

/* One segment's are made twice, another's not. */
bool plant_codes_lost(Gen *g, uint64_t *r)
{
    Instr *lost = find_ins(g, r, INS_ENCODE);
    for (int k = 0; lost && k < g->prog.ins.count; k++) {
        const Instr *other = &g->prog.ins.items[k];
        if (other->kind == INS_ENCODE && other->segment != lost->segment) {
            const int id = lost->id;
            *lost = *other;
            lost->id = id;
            return true;
        }
    }
    return false;
}

/* Ranks hold all weights: one that was updated elsewhere stays as it was. */
bool plant_not_shared(Gen *g, uint64_t *r)
{
    Instr *i = find_ins(g, r, INS_GATHER_UPDATED);
    for (int s = 0; i && s < g->segments.count; s++) {
        if (s != i->segment && g->segments.items[s].trainable) {
            i->segment = s;
            return true;
        }
    }
    return false;
}

bool plant_shared_early(Gen *g, uint64_t *r)
{
    return drop_wait(g, r, INS_GATHER_UPDATED, INS_UPDATE);
}

bool plant_codes_of_before(Gen *g, uint64_t *r)
{
    return drop_wait(g, r, INS_LARGEST, INS_GATHER_UPDATED);
}

bool plant_not_closed(Gen *g, uint64_t *r)
{
    return drop_wait(g, r, INS_CLOSE, INS_GATHER_UPDATED);
}
