/* SPDX-License-Identifier: Apache-2.0 */
/* test_faults_sizes.c: plants of wrong sizes, for test_faults.c: of buffers, of loops, of
 * what collectives carry, of how long ranks wait. In: a plan. Out: the same plan, wrong.
 */
#include "test_faults.h"

/* ---- buffers --------------------------------------------------------------------- */

static bool shrink(Gen *g, uint64_t *r, BufKind kind)
{
    const int n = g->prog.bufs.count, from = choose(r, n);
    for (int k = 0; k < n; k++) {
        Buffer *b = &g->prog.bufs.items[(from + k) % n];
        if (b->kind == kind && b->bytes > ARENA_ALIGN_BYTES) {
            b->bytes -= ARENA_ALIGN_BYTES;
            return true;
        }
    }
    return false;
}

/* Of a segment's state. */
bool plant_less_state(Gen *g, uint64_t *r)
{
    static const BufKind kinds[] = {BUF_MASTER, BUF_MOMENT1, BUF_MOMENT2, BUF_GRAD_SHARD,
                                    BUF_PARTIAL};
    return shrink(g, r, kinds[choose(r, sizeof kinds / sizeof *kinds)]);
}

/* Of what collectives read or fill. */
bool plant_less_gathered(Gen *g, uint64_t *r)
{
    static const BufKind kinds[] = {BUF_PARAM_SHARD, BUF_KEPT, BUF_GATHERED, BUF_GRAD,
                                    BUF_GRAD_ACCUM};
    return shrink(g, r, kinds[choose(r, sizeof kinds / sizeof *kinds)]);
}

/* Of constants, data and scales. */
bool plant_less_shared(Gen *g, uint64_t *r)
{
    static const BufKind kinds[] = {BUF_CONST, BUF_DATA, BUF_SCALES, BUF_LARGEST};
    const BufKind kind = kinds[choose(r, sizeof kinds / sizeof *kinds)];
    for (int b = 0; b < g->prog.bufs.count; b++) {
        if (g->prog.bufs.items[b].kind == kind) {
            g->prog.bufs.items[b].bytes -= 4;
            return true;
        }
    }
    return false;
}

/* One level of partial sums too few, in the program and in all buffers. */
bool plant_less_levels(Gen *g, uint64_t *r)
{
    const int levels = g->prog.partial_levels;
    (void)r;
    if (levels < 2)
        return false;
    g->prog.partial_levels--;
    for (int b = 0; b < g->prog.bufs.count; b++) {
        Buffer *buf = &g->prog.bufs.items[b];
        if (buf->kind == BUF_PARTIAL)
            buf->bytes -= buf->bytes / levels;
    }
    return true;
}

bool plant_more_rounds(Gen *g, uint64_t *r)
{
    const bool many = g->prog.rounds > 1;
    (void)r;
    g->prog.rounds *= many ? 2 : 1;
    return many;
}

bool plant_more_micro_batches(Gen *g, uint64_t *r)
{
    (void)r;
    g->prog.leaf_micro_batches++;
    return true;
}

/* Other buffers may take the bytes of what the next step needs. */
bool plant_state_in_passing(Gen *g, uint64_t *r)
{
    const int n = g->prog.bufs.count, from = choose(r, n);
    for (int k = 0; k < n; k++) {
        Buffer *b = &g->prog.bufs.items[(from + k) % n];
        if (b->persistent && b->segment >= 0) {
            b->persistent = false;
            return true;
        }
    }
    return false;
}

/* Peers access a buffer that only this rank has mapped. */
static bool peers_read(const Gen *g, int buffer)
{
    for (int id = 0; id < g->prog.ins.count; id++) {
        const Instr *i = &g->prog.ins.items[id];
        for (int a = 0; a < i->n_access; a++)
            if (i->access[a].buffer == buffer && i->access[a].remote)
                return true;
    }
    return false;
}

bool plant_peers_at_local(Gen *g, uint64_t *r)
{
    const int n = g->prog.bufs.count, from = choose(r, n);
    for (int k = 0; k < n; k++) {
        Buffer *b = &g->prog.bufs.items[(from + k) % n];
        if (b->kind != BUF_CONTROL && peers_read(g, b->id)) {
            b->space = SPACE_LOCAL;
            return true;
        }
    }
    return false;
}

/* ---- collectives ----------------------------------------------------------------- */

static Instr *collective(Gen *g, uint64_t *r)
{
    static const InsKind kinds[] = {INS_ALL_GATHER, INS_REDUCE_SCATTER, INS_ALL_REDUCE,
                                    INS_GATHER_UPDATED};
    return find_ins(g, r, kinds[choose(r, sizeof kinds / sizeof *kinds)]);
}

bool plant_more_elems(Gen *g, uint64_t *r)
{
    Instr *i = collective(g, r);
    if (i)
        i->elems += GRAIN_ELEMS;
    return i != NULL;
}

bool plant_moved_dtype(Gen *g, uint64_t *r)
{
    Instr *i = collective(g, r);
    if (i)
        i->dtype = i->dtype == DT_BF16 ? DT_F32 : DT_BF16;
    return i != NULL;
}

bool plant_moved_less(Gen *g, uint64_t *r)
{
    static const InsKind kinds[] = {INS_NORM_REDUCE, INS_LARGEST_REDUCE};
    Instr *i = choose(r, 2) ? collective(g, r) : find_ins(g, r, kinds[choose(r, 2)]);
    if (i)
        i->moved_bytes -= dtype_bytes(DT_F32);
    return i != NULL;
}

/* ---- what ranks wait for --------------------------------------------------------- */

bool plant_waits_alone(Gen *g, uint64_t *r)
{
    const int axis = choose(r, N_AXES);
    if (g->model.mesh.axis[axis].degree > 1)
        return false;
    g->prog.exposed.ps[axis] = 1;
    return true;
}

bool plant_long_waits(Gen *g, uint64_t *r)
{
    const int axis = choose(r, N_AXES);
    if (g->model.mesh.axis[axis].degree == 1)
        return false;
    g->prog.exposed.ps[axis] = COST_MOST_PS;
    return true;
}
