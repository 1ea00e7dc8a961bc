/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c: offsets for items, where some pairs must not overlap.
 *
 * In: sizes, and which pairs conflict. Out: an offset for each, and the peak. It is
 * greedy in several orders with three fits; then a seeded search, bounded by iterations
 * and never by time, so that every machine makes the same plan. */
#include "base/pack.h"

#include <stdlib.h>
#include <string.h>

typedef struct Placed {
    int64_t lo, hi;
    int item;
} Placed;

typedef struct Solver {
    const PackProblem *pr;
    Placed *placed;  /* by offset */
    int64_t *offset; /* of the current attempt */
} Solver;

static bool conflicts(const PackProblem *pr, int i, int j)
{
    return pr->conflict[(size_t)i * (size_t)pr->words + (size_t)(j >> 6)] >> (j & 63) & 1;
}

/* Which free place an item gets: the lowest; the tightest; or the lowest that holds an
 * item of the same size with which it may share bytes. So items that take turns form
 * slots instead of drifting against each other. */
typedef enum { FIRST_FIT, BEST_FIT, SLOT_FIT, N_FITS } Fit;

static int64_t find_place(const Solver *s, int item, int n_placed, Fit fit)
{
    const PackProblem *pr = s->pr;
    int64_t bytes = pr->bytes[item], end = 0, chosen = -1, chosen_gap = INT64_MAX,
            slot = -1;
    for (int q = 0; q < n_placed; q++) {
        const Placed *p = &s->placed[q];
        if (!conflicts(pr, item, p->item)) {
            if (fit == SLOT_FIT && slot < 0 && p->lo >= end && p->hi - p->lo == bytes)
                slot = p->lo;
            continue;
        }
        if (slot >= 0 && slot + bytes <= p->lo)
            return slot;
        if (p->lo - end >= bytes && p->lo - end < chosen_gap) {
            chosen = end;
            chosen_gap = p->lo - end;
            if (fit == FIRST_FIT)
                return chosen;
            if (fit == SLOT_FIT)
                chosen_gap = 0; /* the lowest gap is kept; a slot may still follow */
        }
        end = max_i64(end, p->hi);
        slot = -1;
    }
    return slot >= 0 ? slot : chosen >= 0 ? chosen : end;
}

/* Packs in the given order; returns INT64_MAX when the peak reaches `give_up`. */
static int64_t pack(Solver *s, const int *order, Fit fit, int64_t give_up)
{
    const PackProblem *pr = s->pr;
    int64_t peak = 0;
    for (int k = 0; k < pr->n; k++) {
        int item = order[k], at;
        int64_t chosen = find_place(s, item, k, fit), bytes = pr->bytes[item];
        if (chosen + bytes >= give_up)
            return INT64_MAX;
        for (at = k; at > 0 && s->placed[at - 1].lo > chosen; at--)
            s->placed[at] = s->placed[at - 1];
        s->placed[at] = (Placed){chosen, chosen + bytes, item};
        s->offset[item] = chosen;
        peak = max_i64(peak, chosen + bytes);
    }
    return peak;
}

/* BY_CLASS: items whose sizes are within a factor of four go in order of time. So a chain
 * of large ones that take turns (one unit's weights, the next unit's) alternates between
 * two slots even if their sizes differ a little. */
typedef enum { BY_SIZE, BY_CLASS, BY_DURATION, BY_AREA, BY_START, N_ORDERS } OrderKind;

static int size_class(int64_t largest, int64_t bytes)
{
    int class = 0;
    for (; bytes < largest / 4 && class < 31; class ++)
        largest /= 4;
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
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->item - y->item;
}

static void make_order(const PackProblem *pr, OrderKind kind, OrderKey *keys, int *order)
{
    int64_t largest = 0;
    for (int i = 0; i < pr->n; i++)
        largest = max_i64(largest, pr->bytes[i]);
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
    for (int i = 0; i < pr->n; i++)
        order[i] = keys[i].item;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Work of one search, counted in pairs, so that it does not depend on the machine. */
enum { SEARCH_PAIRS = 12000000, SEARCH_MAX = 3000 };

/* Swaps two items of the order or moves one, and keeps the result unless it is worse. */
static int64_t improve(Solver *s, int *order, int *trial, int64_t peak, int64_t *offset)
{
    const PackProblem *pr = s->pr;
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
        } else { /* item a moves to place b, those between shift by one */
            for (int i = a; i < b; i++)
                trial[i] = order[i + 1];
            for (int i = a; i > b; i--)
                trial[i] = order[i - 1];
            trial[b] = order[a];
        }
        got = pack(s, trial, (Fit)(it % N_FITS), peak + 1);
        if (got <= peak) {
            memcpy(order, trial, sizeof(int) * (size_t)pr->n);
            if (got < peak)
                memcpy(offset, s->offset, sizeof *offset * (size_t)pr->n);
            peak = got;
        }
    }
    return peak;
}

int64_t pack_items(Gen *g, const PackProblem *pr, int64_t *offset)
{
    size_t n = (size_t)pr->n + 1;
    int *order = gen_alloc(g, sizeof(int) * n), *best = gen_alloc(g, sizeof(int) * n);
    OrderKey *keys = gen_alloc(g, sizeof *keys * n);
    Solver s = {.pr = pr};
    int64_t peak = INT64_MAX;
    s.placed = gen_alloc(g, sizeof *s.placed * n);
    s.offset = gen_alloc(g, sizeof *s.offset * n);
    if (pr->n == 0)
        return 0;
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
