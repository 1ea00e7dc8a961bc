/* SPDX-License-Identifier: Apache-2.0 */
/* verify_codes.c: weights that are gathered as codes (graph/encode.c). In: the
 * instructions of unroll. Out: NULL or what is wrong. */
#include "prove/verify.h"

/* Does the gather read what does not lie at rest in the dtype that is gathered? */
static bool reads_other(const Gen *g, const Instr *i)
{
    const BufKind other =
        segment_has_codes(&g->segments.items[i->segment]) ? BUF_PARAM_SHARD : BUF_CODES;
    for (int b = 0; b < g->prog.bufs.count; b++)
        if (g->prog.bufs.items[b].kind == other && ins_touches(i, b, false))
            return true;
    return false;
}

/* Codes follow the last change of their weights: the largest elements, their exchange,
 * once, and codes by the scales. Without them the next step would read those of the
 * last. */
const char *verify_codes(Gen *g)
{
    const Program *p = &g->prog;
    int any = 0, reduces = 0, reduced = -1;
    for (int id = 0; id < p->ins.count; id++) {
        if (p->ins.items[id].kind == INS_LARGEST_REDUCE) {
            reduces++;
            reduced = id;
        }
    }
    for (int s = 0; s < g->segments.count; s++) {
        const Segment *seg = &g->segments.items[s];
        int changed = -1, largest = -1, encoded = -1, n = 0;
        const int want = seg->trainable && seg->gathered != seg->dtype;
        for (int id = 0; id < p->ins.count; id++) {
            const Instr *i = &p->ins.items[id];
            if (i->segment != s)
                continue;
            if (i->kind == INS_ALL_GATHER && reads_other(g, i))
                return gen_printf(g, "segment %s: a gather reads another dtype",
                                  seg->name);
            if (i->kind == INS_UPDATE || i->kind == INS_STEP ||
                i->kind == INS_GATHER_UPDATED)
                changed = id;
            if (i->kind == INS_LARGEST)
                largest = id;
            if (i->kind == INS_ENCODE)
                encoded = id;
            n += i->kind == INS_LARGEST || i->kind == INS_ENCODE;
        }
        any |= want;
        if (n != 2 * want ||
            (want && !(changed < largest && largest < reduced && reduced < encoded)))
            return gen_printf(g, "segment %s: its codes are made at the wrong place",
                              seg->name);
    }
    return reduces == any ? NULL : "the largest weights are exchanged more than once";
}
