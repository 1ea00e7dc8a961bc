/* SPDX-License-Identifier: Apache-2.0 */
/* unroll_ctas.c: how many multiprocessors a sum over ranks may take from the computation
 * beside it. In: the micro-step that reduces; prices (cost.c). Out: Instr.ctas, a limit
 * for the blocks (CTAs) of a sum's kernels, of which each takes a multiprocessor.
 *
 * 1. Sums in tree order among ranks that links join have limits: NCCL only carries their
 *    bytes, so no bit depends on the number. In the library's own order the number
 *    decides which rank's value a ring begins with. NICs have rates of their own.
 * 2. LINK_CTAS blocks carry the whole rate of a GPU's links, and one of them a share. The
 *    limit is the least power of two with which everything that a micro-step sums
 *    arrives in half the time of its backward: the other half is for sums that come
 *    late. NCCL would round other numbers up to powers of two.
 * 3. If that is more than MOST_CTAS, or than half of the GPU's, NCCL decides itself, as
 *    it does for a sum behind whose start less computation follows than the sum takes:
 *    nothing runs beside it. So it does where parts meet: a meet behind a slow sum would
 *    wait for all of it. */
#include "plan/unroll.h"

enum { LEAST_CTAS = 4, MOST_CTAS = 16 };

static bool can_be_limited(const Gen *g, const Instr *i)
{
    return ins_rule(i->kind)->sums && i->order == ORDER_TREE &&
           cost_over_links(g, i->group);
}

static bool is_backward(const Instr *i)
{
    return i->kind == INS_SPAN && i->phase != PHASE_FORWARD;
}

/* Steps 2 and 3; 0: no limit. */
static int limit_of(const Gen *g, double bytes, double backward_ps)
{
    const int64_t most = min_i64(MOST_CTAS, g->model.rates.processors / 2);
    const double link_ps = bytes / (double)g->model.rates.link_per_us * 1e6;
    int ctas = LEAST_CTAS;

    while (ctas <= most && ctas * backward_ps < 2.0 * LINK_CTAS * link_ps)
        ctas *= 2;
    return ctas <= most ? ctas : 0;
}

void unroll_ctas(Gen *g)
{
    Program *p = &g->prog;
    const int from = p->first[VARIANT_LAST], to = from + p->count[VARIANT_LAST];
    double bytes = 0, backward_ps = 0, behind_ps = 0;
    int limit;

    if (!g->model.target->device || g->model.rates.processors == 0 ||
        g->model.mesh.world_size == 1 || p->behind_meets)
        return;
    for (int id = from; id < to; id++) {
        const Instr *i = &p->ins.items[id];

        if (can_be_limited(g, i))
            bytes += (double)i->moved_bytes;
        else if (is_backward(i))
            backward_ps += (double)cost_instr(g, i);
    }
    limit = limit_of(g, bytes, backward_ps);
    for (int id = to - 1; limit > 0 && id >= from; id--) {
        Instr *i = &p->ins.items[id];

        if (is_backward(i)) {
            behind_ps += (double)cost_instr(g, i);
        } else if (can_be_limited(g, i)) {
            i->ctas = limit;
            if ((double)cost_instr(g, i) > behind_ps)
                i->ctas = 0;
        }
    }
}
