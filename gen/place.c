/* SPDX-License-Identifier: Apache-2.0 */
/* place: an offset for each buffer in its space.
 *
 * Needs buffers, accesses, hb_same, hb_group. Fills Buffer.offset_bytes, space_bytes,
 * arena_bytes and the two lower bounds. Breaks nothing.
 *
 * Persistent buffers lie first, one after the other, never shared. Of the others, two may
 * share bytes only if in every variant all accesses of one come before all writes of the
 * other (accesses by peers that linger: on all ranks of their group), and no peer may
 * still read one when the other is written in the next turn of a loop. That relation is a
 * conflict graph; place_solve packs it: greedy in several orders and three fits, then a
 * seeded search bounded by iterations, never by time, so that the same input gives the
 * same plan on every machine. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

/* ---- packing --------------------------------------------------------------------- */

typedef struct Placed {
    int64_t lo, hi;
    int item;
} Placed;

typedef struct Solver {
    const PlaceProblem *pr;
    Placed *placed;  /* by offset */
    int64_t *offset; /* of the attempt at hand */
} Solver;

static bool conflicts(const PlaceProblem *pr, int i, int j)
{
    return pr->conflict[(size_t)i * (size_t)pr->words + (size_t)(j >> 6)] >> (j & 63) & 1;
}

/* How a place is chosen among those free: the lowest; the tightest; or the lowest where
 * an item of the same size lies already that may be shared with, so that items which take
 * turns form slots instead of drifting against each other. */
typedef enum { FIRST_FIT, BEST_FIT, SLOT_FIT, N_FITS } Fit;

static int64_t find_place(const Solver *s, int item, int n_placed, Fit fit)
{
    const PlaceProblem *pr = s->pr;
    int64_t bytes = pr->bytes[item], end = 0, chosen = -1, chosen_gap = INT64_MAX,
            slot = -1;
    for (int q = 0; q < n_placed; q++) {
        const Placed *p = &s->placed[q];
        if (!conflicts(pr, item, p->item)) {
            if (fit == SLOT_FIT && slot < 0 && p->lo >= end && p->hi - p->lo == bytes) {
                slot = p->lo;
            }
            continue;
        }
        if (slot >= 0 && slot + bytes <= p->lo) {
            return slot;
        }
        if (p->lo - end >= bytes && p->lo - end < chosen_gap) {
            chosen = end;
            chosen_gap = p->lo - end;
            if (fit == FIRST_FIT) {
                return chosen;
            }
            if (fit == SLOT_FIT) {
                chosen_gap = 0; /* the lowest gap stays, a slot may still come */
            }
        }
        end = max_i64(end, p->hi);
        slot = -1;
    }
    return slot >= 0 ? slot : chosen >= 0 ? chosen : end;
}

/* Offsets in the given order; stops with INT64_MAX when the peak reaches `give_up`. */
static int64_t pack(Solver *s, const int *order, Fit fit, int64_t give_up)
{
    const PlaceProblem *pr = s->pr;
    int64_t peak = 0;
    for (int k = 0; k < pr->n; k++) {
        int item = order[k], at;
        int64_t chosen = find_place(s, item, k, fit), bytes = pr->bytes[item];
        if (chosen + bytes >= give_up) {
            return INT64_MAX;
        }
        for (at = k; at > 0 && s->placed[at - 1].lo > chosen; at--) {
            s->placed[at] = s->placed[at - 1];
        }
        s->placed[at] = (Placed){chosen, chosen + bytes, item};
        s->offset[item] = chosen;
        peak = max_i64(peak, chosen + bytes);
    }
    return peak;
}

/* BY_CLASS: within a factor of four of each other, items go in order of time, so that a
 * chain of large ones that take turns (a unit's weights, the next unit's) alternates
 * between two slots even where their sizes differ a little. */
typedef enum { BY_SIZE, BY_CLASS, BY_DURATION, BY_AREA, BY_START, N_ORDERS } OrderKind;

static int size_class(int64_t largest, int64_t bytes)
{
    int class = 0;
    for (; bytes < largest / 4 && class < 31; class ++) {
        largest /= 4;
    }
    return class;
}

typedef struct OrderKey {
    double key;
    int64_t bytes;
    int item;
} OrderKey;

static int by_key(const void *a, const void *b)
{
    const OrderKey *x = a, *y = b;
    if (x->key != y->key) {
        return x->key > y->key ? -1 : 1;
    }
    if (x->bytes != y->bytes) {
        return x->bytes > y->bytes ? -1 : 1;
    }
    return x->item - y->item;
}

static void make_order(const PlaceProblem *pr, OrderKind kind, OrderKey *keys, int *order)
{
    int64_t largest = 0;
    for (int i = 0; i < pr->n; i++) {
        largest = max_i64(largest, pr->bytes[i]);
    }
    for (int i = 0; i < pr->n; i++) {
        double bytes = (double)pr->bytes[i], duration = pr->duration[i] + 1;
        double key =
            kind == BY_SIZE ? bytes
            : kind == BY_CLASS
                ? -(double)size_class(largest, pr->bytes[i]) * 0x1p32 - pr->start[i]
            : kind == BY_DURATION ? duration
            : kind == BY_AREA     ? bytes * duration
                                  : -(double)pr->start[i];
        keys[i] = (OrderKey){key, pr->bytes[i], i};
    }
    qsort(keys, (size_t)pr->n, sizeof *keys, by_key);
    for (int i = 0; i < pr->n; i++) {
        order[i] = keys[i].item;
    }
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Work of one search: pairs looked at, whatever the machine. */
enum { SEARCH_PAIRS = 12000000, SEARCH_MAX = 3000 };

/* Swaps two items of the order, or moves one, and keeps what is not worse. */
static int64_t improve(Solver *s, int *order, int *trial, int64_t peak, int64_t *offset)
{
    const PlaceProblem *pr = s->pr;
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
    int64_t iterations = min_i64(SEARCH_MAX, SEARCH_PAIRS / ((int64_t)pr->n * pr->n + 1));
    for (int64_t it = 0; it < iterations && peak > pr->lower_bound && pr->n > 1; it++) {
        int a = (int)(next_random(&state) % (uint64_t)pr->n);
        int b = (int)(next_random(&state) % (uint64_t)pr->n);
        bool swap = next_random(&state) & 1;
        int64_t got;
        memcpy(trial, order, sizeof(int) * (size_t)pr->n);
        if (swap) {
            trial[a] = order[b];
            trial[b] = order[a];
        } else { /* item a goes to place b, those between shift by one */
            for (int i = a; i < b; i++) {
                trial[i] = order[i + 1];
            }
            for (int i = a; i > b; i--) {
                trial[i] = order[i - 1];
            }
            trial[b] = order[a];
        }
        got = pack(s, trial, (Fit)(it % N_FITS), peak + 1);
        if (got <= peak) {
            memcpy(order, trial, sizeof(int) * (size_t)pr->n);
            if (got < peak) {
                memcpy(offset, s->offset, sizeof *offset * (size_t)pr->n);
            }
            peak = got;
        }
    }
    return peak;
}

int64_t place_solve(Gen *g, const PlaceProblem *pr, int64_t *offset)
{
    size_t n = (size_t)pr->n + 1;
    int *order = gen_alloc(g, sizeof(int) * n), *best = gen_alloc(g, sizeof(int) * n);
    OrderKey *keys = gen_alloc(g, sizeof *keys * n);
    Solver s = {.pr = pr};
    int64_t peak = INT64_MAX;
    s.placed = gen_alloc(g, sizeof *s.placed * n);
    s.offset = gen_alloc(g, sizeof *s.offset * n);
    if (pr->n == 0) {
        return 0;
    }
    for (int kind = 0; kind < N_ORDERS; kind++) {
        make_order(pr, (OrderKind)kind, keys, order);
        for (int fit = 0; fit < N_FITS && peak > pr->lower_bound; fit++) {
            int64_t got = pack(&s, order, (Fit)fit, peak);
            if (got < peak) {
                peak = got;
                memcpy(best, order, sizeof(int) * (size_t)pr->n);
                memcpy(offset, s.offset, sizeof *offset * (size_t)pr->n);
            }
        }
    }
    return improve(&s, best, order, peak, offset);
}

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
    int *item;      /* per buffer: its number among the space's items, or -1 */
    int *buffer;    /* back */
    uint64_t *conflict;
    PlaceProblem pr;
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
    for (int fill = 0; fill < 2; fill++) { /* count, then fill */
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

/* Every access of a comes before every write of b. */
static bool comes_before(const Program *p, const Touches *a, const Touches *b)
{
    if (b->first_write >= 0 && a->last >= b->first_write) {
        return false;
    }
    for (int k = 0; k < b->n; k++) {
        for (int q = 0; b->t[k].write && q < a->n; q++) {
            const Instr *i = &p->ins.items[a->t[q].ins];
            bool peers = a->t[q].remote && !ins_is_closed(i);
            if (!hb_group(p, peers ? i->group.axes : 0, i->id, b->t[k].ins)) {
                return false;
            }
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
            if (w->access[b].write && i >= 0 && j >= 0 && i != j) {
                add_conflict(pl, i, j);
            }
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
                if (b->n && !comes_before(pl->p, a, b) && !comes_before(pl->p, b, a)) {
                    add_conflict(pl, i, j);
                }
            }
        }
    }
    for (int i = 0; i < n; i++) { /* END goes on where LAST stopped */
        const Touches *a = touches_of(pl, VARIANT_LAST, pl->buffer[i]);
        for (int j = 0; a->n && j < n; j++) {
            const Touches *b = touches_of(pl, VARIANT_END, pl->buffer[j]);
            if (i != j && b->n && !comes_before(pl->p, a, b)) {
                add_conflict(pl, i, j);
            }
        }
    }
    schedule_open_hits(pl->g, open_conflict, pl);
}

/* ---- lower bounds ---------------------------------------------------------------- */

/* Certainly live while instruction id runs: begun before or by it, still needed by or
 * after. */
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
 * then the largest others (transfers under way) that conflict with all taken so far. */
static int64_t clique_weight(const Placer *pl, int id, const int *by_bytes,
                             uint64_t *taken)
{
    const PlaceProblem *pr = &pl->pr;
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
            for (int w = 0; pass == 1 && take && w < pr->words; w++) {
                take = (taken[w] & ~row[w]) == 0;
            }
            if (take) {
                taken[i >> 6] |= UINT64_C(1) << (i & 63);
                weight += pr->bytes[i];
            }
        }
    }
    return weight;
}

enum { CLIQUES = 24 }; /* instructions at which a clique is grown: those with most live */

/* The largest clique found: no placement of the space can be smaller. */
static int64_t max_live(const Placer *pl)
{
    Program *p = pl->p;
    const PlaceProblem *pr = &pl->pr;
    Weighed *at = gen_alloc(pl->g, sizeof *at * (size_t)(p->ins.count + 1));
    Weighed *size = gen_alloc(pl->g, sizeof *size * (size_t)(pr->n + 1));
    int *by_bytes = gen_alloc(pl->g, sizeof(int) * (size_t)(pr->n + 1));
    uint64_t *taken = gen_alloc(pl->g, sizeof *taken * (size_t)(pr->words + 1));
    int64_t most = 0;
    for (int id = 0; id < p->ins.count; id++) {
        at[id].id = id;
    }
    for (int i = 0; i < pr->n; i++) {
        size[i] = (Weighed){pr->bytes[i], i};
        for (int v = 0; v < N_VARIANTS; v++) {
            const Touches *t = touches_of(pl, v, pl->buffer[i]);
            for (int id = t->n ? t->t[0].ins : 0; t->n && id <= t->last; id++) {
                if (live_at(p, t, id)) {
                    at[id].bytes += pr->bytes[i];
                }
            }
        }
    }
    qsort(at, (size_t)p->ins.count, sizeof *at, heaviest_first);
    qsort(size, (size_t)pr->n, sizeof *size, heaviest_first);
    for (int i = 0; i < pr->n; i++) {
        by_bytes[i] = size[i].id;
    }
    for (int k = 0; k < CLIQUES && k < p->ins.count; k++) {
        most = max_i64(most, clique_weight(pl, at[k].id, by_bytes, taken));
    }
    return most;
}

static int64_t tensor_bytes(const Gen *g, const Buffer *b, const Instr *at)
{
    if (b->kind == BUF_SCRATCH) {
        return at->scratch == b->id
                   ? min_i64(b->bytes, ins_span(g, at)->live_scratch_bytes)
                   : b->bytes;
    }
    return b->bytes;
}

/* Bytes of transient tensors if one stream ran the host order and each tensor lived
 * exactly from its first access to its last: what perfect packing without overlap would
 * need. */
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

/* The items of a space: transient buffers with bytes that anything touches. */
static void collect_items(Placer *pl, Space space, int64_t base)
{
    Program *p = pl->p;
    int64_t *bytes = gen_alloc(pl->g, sizeof *bytes * (size_t)(p->bufs.count + 1));
    int *start = gen_alloc(pl->g, sizeof(int) * (size_t)(p->bufs.count + 1));
    int *duration = gen_alloc(pl->g, sizeof(int) * (size_t)(p->bufs.count + 1));
    pl->pr = (PlaceProblem){.bytes = bytes, .start = start, .duration = duration};
    for (int b = 0; b < p->bufs.count; b++) {
        Buffer *buf = &p->bufs.items[b];
        const Touches *t = touches_of(pl, VARIANT_LAST, b);
        t = t->n ? t : touches_of(pl, VARIANT_END, b); /* of matrices */
        t = t->n ? t : touches_of(pl, VARIANT_EVAL, b);
        pl->item[b] = -1;
        if (buf->space != space || buf->persistent) {
            continue;
        }
        buf->offset_bytes = base;
        if (buf->bytes == 0 || (t->n == 0 && touches_of(pl, VARIANT_LOCAL, b)->n == 0)) {
            continue;
        }
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
        p->space_bytes[space] = base + place_solve(g, &pl.pr, offset);
        for (int i = 0; i < pl.pr.n; i++) {
            p->bufs.items[pl.buffer[i]].offset_bytes = base + offset[i];
        }
        p->max_live_bytes += base + pl.pr.lower_bound;
        p->ideal_live_bytes += base;
        p->arena_bytes += p->space_bytes[space];
    }
    p->ideal_live_bytes += ideal_live(&pl);
    if (!g->candidate) { /* exit code 3 when the arena is too large for the target */
        policy_check_budget(g);
    }
}
