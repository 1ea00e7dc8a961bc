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
