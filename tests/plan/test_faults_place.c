/* SPDX-License-Identifier: Apache-2.0 */
/* test_faults_place: plants of wrong places of buffers, for test_faults.c. */
#include "test_faults.h"

/* ---- place ----------------------------------------------------------------------- */

static bool same_place(Gen *g, uint64_t *r, BufKind a, BufKind b)
{
    int n = g->prog.bufs.count, from = choose(r, n), first = -1;
    for (int k = 0; k < n; k++) {
        Buffer *buf = &g->prog.bufs.items[(from + k) % n];
        if (buf->bytes == 0)
            continue;
        if (first < 0 && buf->kind == a) {
            first = buf->id;
        } else if (first >= 0 && buf->kind == b) {
            buf->offset_bytes = g->prog.bufs.items[first].offset_bytes;
            return buf->offset_bytes + buf->bytes <= g->prog.space_bytes[buf->space];
        }
    }
    return false;
}

bool plant_saved_twice(Gen *g, uint64_t *r)
{
    return same_place(g, r, BUF_SAVED, BUF_SAVED);
}

bool plant_scratch_on_saved(Gen *g, uint64_t *r)
{
    Program *p = &g->prog;
    for (int b = 0; b < p->bufs.count; b++) {
        Buffer *s = &p->bufs.items[b];
        for (int c = 0; s->kind == BUF_SCRATCH && c < p->bufs.count; c++) {
            const Buffer *v = &p->bufs.items[c];
            if (v->kind == BUF_SAVED && v->block == s->block &&
                v->offset_bytes + s->bytes <= p->space_bytes[SPACE_LOCAL]) {
                s->offset_bytes = v->offset_bytes;
                return true;
            }
        }
    }
    (void)r;
    return false;
}

/* What a second forward will read is taken by what the first ones drop. */
bool plant_dropped_on_boundary(Gen *g, uint64_t *r)
{
    Program *p = &g->prog;
    const Instr *again = find_recompute(g, r);
    for (int b = 0; again && again->in >= 0 && b < p->bufs.count; b++) {
        Buffer *in = &p->bufs.items[again->in], *s = &p->bufs.items[b];
        if (s->kind == BUF_SCRATCH && s->bytes > 0 && s->block > again->block &&
            in->offset_bytes + s->bytes <= p->space_bytes[SPACE_LOCAL]) {
            s->offset_bytes = in->offset_bytes;
            return true;
        }
    }
    return false;
}

bool plant_on_persistent(Gen *g, uint64_t *r)
{
    return same_place(g, r, BUF_GRAD_SHARD, BUF_SAVED);
}

/* The next gradient buffer lies where peers may still read the one before. */
bool plant_grad_under_peers(Gen *g, uint64_t *r)
{
    Program *p = &g->prog;
    Buffer *before = NULL;
    if (ins_is_closed(find_ins(g, r, INS_REDUCE_SCATTER)) &&
        g->model.reduces_in_flight == 0)
        return false; /* then it may: the reduction comes in between */
    for (int id = p->first[VARIANT_LAST]; id < p->ins.count; id++) {
        const Instr *i = &p->ins.items[id];
        if (i->kind != INS_REDUCE_SCATTER || p->bufs.items[i->from].kind != BUF_GRAD)
            continue;
        Buffer *now = &p->bufs.items[i->from];
        if (before &&
            before->offset_bytes + now->bytes <= p->space_bytes[SPACE_SYMMETRIC]) {
            now->offset_bytes = before->offset_bytes;
            return true;
        }
        before = now;
    }
    return false;
}

bool plant_misaligned(Gen *g, uint64_t *r)
{
    g->prog.bufs.items[choose(r, g->prog.bufs.count)].offset_bytes += 64;
    return true;
}

bool plant_outside(Gen *g, uint64_t *r)
{
    for (int tries = 0; tries < 50; tries++) {
        Buffer *b = &g->prog.bufs.items[choose(r, g->prog.bufs.count)];
        if (b->bytes > 0) {
            b->offset_bytes = round_up(g->prog.space_bytes[b->space], 256);
            return true;
        }
    }
    return false;
}
