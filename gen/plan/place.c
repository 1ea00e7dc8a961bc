/* SPDX-License-Identifier: Apache-2.0 */
/* place.c: an offset for each buffer in its space.
 *
 * In: buffers and accesses (unroll), hb_same and hb_group (schedule). Out:
 * Buffer.offset_bytes, space_bytes, arena_bytes and the two lower bounds. Breaks:
 * nothing.
 *
 * Persistent buffers come first, one after the other, and share nothing. Two other
 * buffers may share bytes only if
 * 1. in every variant all accesses of one come before all writes of the other (for
 *    accesses by peers that may linger: on all ranks of their group), and
 * 2. no peer can still read one when the other is written in the next turn of a loop.
 * This relation is a conflict graph, which base/pack.c packs. */
#include "base/pack.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

/* ---- which buffers may share bytes ----------------------------------------------- */

typedef struct Touch {
    int ins;
    bool write, remote;
} Touch;

/* All accesses of one buffer in one variant, in program order. */
typedef struct Touches {
    int n, first_write, last;
    Touch *t;
} Touches;

typedef struct Placer {
    Gen *g;
    Program *p;
    Touches *touch; /* [variant][buffer] */
    int *item;      /* per buffer: its index among the space's items, or -1 */
    int *buffer;    /* the inverse */
    uint64_t *conflict;
    PackProblem pr;
} Placer;

static Touches *touches_of(const Placer *pl, int variant, int buffer)
{
    return &pl->touch[(size_t)variant * (size_t)pl->p->bufs.count + (size_t)buffer];
}

static void collect_touches(Placer *pl)
{
    Program *p = pl->p;
    pl->touch =
        gen_alloc(pl->g, sizeof *pl->touch * N_VARIANTS * (size_t)(p->bufs.count + 1));
    for (int fill = 0; fill < 2; fill++) { /* first count, then fill */
        for (int id = 0; id < p->ins.count; id++) {
            const Instr *i = &p->ins.items[id];
            for (int a = 0; a < i->n_access; a++) {
                Touches *t = touches_of(pl, (int)i->variant, i->access[a].buffer);
                if (fill) {
                    t->t[t->n] = (Touch){id, i->access[a].write, i->access[a].remote};
                    t->last = id;
                    t->first_write =
                        i->access[a].write && t->first_write < 0 ? id : t->first_write;
                }
                t->n++;
            }
        }
        for (int k = 0; !fill && k < N_VARIANTS * p->bufs.count; k++) {
            pl->touch[k].t =
                gen_alloc(pl->g, sizeof(Touch) * (size_t)(pl->touch[k].n + 1));
            pl->touch[k].n = 0;
            pl->touch[k].first_write = pl->touch[k].last = -1;
        }
    }
}

/* Does every access of a come before every write of b? */
static bool comes_before(const Program *p, const Touches *a, const Touches *b)
{
    if (b->first_write >= 0 && a->last >= b->first_write)
        return false;
    for (int k = 0; k < b->n; k++) {
        for (int q = 0; b->t[k].write && q < a->n; q++) {
            const Instr *i = &p->ins.items[a->t[q].ins];
            bool peers = a->t[q].remote && !ins_is_closed(i);
            if (!hb_group(p, peers ? i->group : 0, i->id, b->t[k].ins))
                return false;
        }
    }
    return true;
}

static void add_conflict(Placer *pl, int i, int j)
{
    pl->conflict[(size_t)i * (size_t)pl->pr.words + (size_t)(j >> 6)] |= UINT64_C(1)
                                                                         << (j & 63);
    pl->conflict[(size_t)j * (size_t)pl->pr.words + (size_t)(i >> 6)] |= UINT64_C(1)
                                                                         << (i & 63);
}

static void open_conflict(void *ctx, int reader, int writer)
{
    Placer *pl = ctx;
    const Instr *r = &pl->p->ins.items[reader], *w = &pl->p->ins.items[writer];
    for (int a = 0; a < r->n_access; a++) {
        for (int b = 0; r->access[a].remote && b < w->n_access; b++) {
            int i = pl->item[r->access[a].buffer], j = pl->item[w->access[b].buffer];
            if (w->access[b].write && i >= 0 && j >= 0 && i != j)
                add_conflict(pl, i, j);
        }
    }
}

static void find_conflicts(Placer *pl)
{
    int n = pl->pr.n;
    pl->pr.words = (n + 63) / 64;
    pl->conflict =
        gen_alloc(pl->g, sizeof(uint64_t) * (size_t)pl->pr.words * (size_t)(n + 1));
    pl->pr.conflict = pl->conflict;
    for (int v = 0; v < N_VARIANTS; v++) {
        for (int i = 0; i < n; i++) {
            const Touches *a = touches_of(pl, v, pl->buffer[i]);
            for (int j = 0; a->n && j < i; j++) {
                const Touches *b = touches_of(pl, v, pl->buffer[j]);
                if (b->n && !comes_before(pl->p, a, b) && !comes_before(pl->p, b, a))
                    add_conflict(pl, i, j);
            }
        }
    }
    for (int i = 0; i < n; i++) { /* END continues LAST */
        const Touches *a = touches_of(pl, VARIANT_LAST, pl->buffer[i]);
        for (int j = 0; a->n && j < n; j++) {
            const Touches *b = touches_of(pl, VARIANT_END, pl->buffer[j]);
            if (i != j && b->n && !comes_before(pl->p, a, b))
                add_conflict(pl, i, j);
        }
    }
    schedule_open_hits(pl->g, open_conflict, pl);
}

/* ---- lower bounds ---------------------------------------------------------------- */

/* Certainly live while instruction id runs: started before or by it, still needed by it
 * or later. */
static bool live_at(const Program *p, const Touches *t, int id)
{
    bool begun = false, needed = false;
    for (int k = 0; k < t->n; k++) {
        begun = begun || t->t[k].ins == id || hb_same(p, t->t[k].ins, id);
        needed = needed || t->t[k].ins == id || hb_same(p, id, t->t[k].ins);
    }
    return begun && needed;
}

typedef struct Weighed {
    int64_t bytes;
    int id;
} Weighed;

static int heaviest_first(const void *a, const void *b)
{
    const Weighed *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes > y->bytes ? -1 : 1) : x->id - y->id;
}

/* Weight of a clique of the conflict graph around instruction id: what is live there,
 * then the largest other buffers (transfers under way) that conflict with all taken so
 * far. */
static int64_t clique_weight(const Placer *pl, int id, const int *by_bytes,
                             uint64_t *taken)
{
    const PackProblem *pr = &pl->pr;
    int variant = (int)pl->p->ins.items[id].variant;
    int64_t weight = 0;
    memset(taken, 0, sizeof *taken * (size_t)pr->words);
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < pr->n; k++) {
            int i = by_bytes[k];
            const uint64_t *row = pr->conflict + (size_t)i * (size_t)pr->words;
            bool take = pass == 0
                            ? live_at(pl->p, touches_of(pl, variant, pl->buffer[i]), id)
                            : !(taken[i >> 6] >> (i & 63) & 1);
            for (int w = 0; pass == 1 && take && w < pr->words; w++)
                take = (taken[w] & ~row[w]) == 0;
            if (take) {
                taken[i >> 6] |= UINT64_C(1) << (i & 63);
                weight += pr->bytes[i];
            }
        }
    }
    return weight;
}

enum { CLIQUES = 24 }; /* instructions to grow cliques from: those with most live bytes */

/* The largest clique found: no placement of the space can be smaller. */
static int64_t max_live(const Placer *pl)
{
    Program *p = pl->p;
    const PackProblem *pr = &pl->pr;
    Weighed *at = gen_alloc(pl->g, sizeof *at * (size_t)(p->ins.count + 1));
    Weighed *size = gen_alloc(pl->g, sizeof *size * (size_t)(pr->n + 1));
    int *by_bytes = gen_alloc(pl->g, sizeof(int) * (size_t)(pr->n + 1));
    uint64_t *taken = gen_alloc(pl->g, sizeof *taken * (size_t)(pr->words + 1));
    int64_t most = 0;
    for (int id = 0; id < p->ins.count; id++)
        at[id].id = id;
    for (int i = 0; i < pr->n; i++) {
        size[i] = (Weighed){pr->bytes[i], i};
        for (int v = 0; v < N_VARIANTS; v++) {
            const Touches *t = touches_of(pl, v, pl->buffer[i]);
            for (int id = t->n ? t->t[0].ins : 0; t->n && id <= t->last; id++)
                if (live_at(p, t, id))
                    at[id].bytes += pr->bytes[i];
        }
    }
    qsort(at, (size_t)p->ins.count, sizeof *at, heaviest_first);
    qsort(size, (size_t)pr->n, sizeof *size, heaviest_first);
    for (int i = 0; i < pr->n; i++)
        by_bytes[i] = size[i].id;
    for (int k = 0; k < CLIQUES && k < p->ins.count; k++)
        most = max_i64(most, clique_weight(pl, at[k].id, by_bytes, taken));
    return most;
}

static int64_t tensor_bytes(const Gen *g, const Buffer *b, const Instr *at)
{
    if (b->kind == BUF_SCRATCH) {
        return at->scratch == b->id
                   ? min_i64(b->bytes,
                             plan_parts_bytes(g, ins_span(g, at)->live_scratch_bytes))
                   : b->bytes;
    }
    return b->bytes;
}

/* Bytes of transient tensors if one stream ran in host order and each tensor lived
 * exactly from its first access to its last: the need of a perfect packing without
 * overlap. */
static int64_t ideal_live(const Placer *pl)
{
    Program *p = pl->p;
    int64_t *delta = gen_alloc(pl->g, sizeof *delta * (size_t)(p->ins.count + 2));
    int64_t live = 0, most = 0;
    for (int b = 0; b < p->bufs.count; b++) {
        for (int v = 0; !p->bufs.items[b].persistent && v < N_VARIANTS; v++) {
            const Touches *t = touches_of(pl, v, b);
            if (t->n) {
                int64_t bytes =
                    tensor_bytes(pl->g, &p->bufs.items[b], &p->ins.items[t->t[0].ins]);
                delta[t->t[0].ins] += bytes;
                delta[t->last + 1] -= bytes;
            }
        }
    }
    for (int id = 0; id < p->ins.count; id++) {
        live += delta[id];
        most = max_i64(most, live);
    }
    return most;
}

/* ---- the pass -------------------------------------------------------------------- */

static int64_t place_persistent(Program *p, Space space)
{
    int64_t end = 0;
    for (int b = 0; b < p->bufs.count; b++) {
        Buffer *buf = &p->bufs.items[b];
        if (buf->space == space && buf->persistent) {
            buf->offset_bytes = end;
            end += round_up(buf->bytes, ARENA_ALIGN_BYTES);
        }
    }
    return end;
}

/* Collects the items of a space: transient buffers with bytes that are accessed. */
static void collect_items(Placer *pl, Space space, int64_t base)
{
    Program *p = pl->p;
    int64_t *bytes = gen_alloc(pl->g, sizeof *bytes * (size_t)(p->bufs.count + 1));
    int *start = gen_alloc(pl->g, sizeof(int) * (size_t)(p->bufs.count + 1));
    int *duration = gen_alloc(pl->g, sizeof(int) * (size_t)(p->bufs.count + 1));
    pl->pr = (PackProblem){.bytes = bytes, .start = start, .duration = duration};
    for (int b = 0; b < p->bufs.count; b++) {
        Buffer *buf = &p->bufs.items[b];
        const Touches *t = touches_of(pl, VARIANT_LAST, b);
        t = t->n ? t : touches_of(pl, VARIANT_END, b); /* a buffer of matrices */
        t = t->n ? t : touches_of(pl, VARIANT_EVAL, b);
        pl->item[b] = -1;
        if (buf->space != space || buf->persistent)
            continue;
        buf->offset_bytes = base;
        if (buf->bytes == 0 || (t->n == 0 && touches_of(pl, VARIANT_LOCAL, b)->n == 0))
            continue;
        pl->item[b] = pl->pr.n;
        pl->buffer[pl->pr.n] = b;
        bytes[pl->pr.n] = round_up(buf->bytes, ARENA_ALIGN_BYTES);
        start[pl->pr.n] = t->n ? t->t[0].ins : 0;
        duration[pl->pr.n] = t->n ? t->last - t->t[0].ins : 0;
        pl->pr.n++;
    }
}

void place_buffers(Gen *g)
{
    Program *p = &g->prog;
    Placer pl = {.g = g, .p = p};
    int64_t *offset = gen_alloc(g, sizeof *offset * (size_t)(p->bufs.count + 1));
    pl.item = gen_alloc(g, sizeof(int) * (size_t)(p->bufs.count + 1));
    pl.buffer = gen_alloc(g, sizeof(int) * (size_t)(p->bufs.count + 1));
    collect_touches(&pl);
    p->arena_bytes = p->max_live_bytes = p->ideal_live_bytes = 0;
    for (int space = 0; space < N_SPACES; space++) {
        int64_t base = place_persistent(p, (Space)space);
        collect_items(&pl, (Space)space, base);
        find_conflicts(&pl);
        pl.pr.lower_bound = max_live(&pl);
        p->space_bytes[space] = base + pack_items(g, &pl.pr, offset);
        for (int i = 0; i < pl.pr.n; i++)
            p->bufs.items[pl.buffer[i]].offset_bytes = base + offset[i];
        p->max_live_bytes += base + pl.pr.lower_bound;
        p->ideal_live_bytes += base;
        p->arena_bytes += p->space_bytes[space];
    }
    p->ideal_live_bytes += ideal_live(&pl);
}
