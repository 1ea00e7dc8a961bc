/* SPDX-License-Identifier: Apache-2.0 */
/* verify_races.c: can any order of events that the schedule allows let one instruction
 * destroy what another needs? In: instructions, accesses, waits, offsets. Out: NULL or
 * the two accesses that may collide.
 *
 * Independent of schedule_closure and of place:
 * 1. The step is written out as a trace of several turns of its loops on explicit ranks.
 *    Each instruction has a start and a completion; vector clocks give the order of any
 *    two events.
 * 2. Bits of a rank that every group contains or lacks together are one *part*. Explicit
 *    ranks differ in whole parts, two along each: 2 for 4,096 ranks of one copy.
 * 3. Then every pair of accesses of one buffer is checked, and every pair of lifetimes of
 *    two buffers that share bytes. A lifetime is one buffer in one turn; it begins with a
 *    write.
 *
 * Why two ranks along a part are enough. Let D(q, r) be the parts in which ranks q and r
 * differ, in one bit or more. A collective whose group has the parts S joins q and r if
 * and only if D(q, r) is in S. Claim: what r's clock says of q at any event depends on
 * D(q, r) alone, and not on how many ranks a part has.
 * - At first no clock says anything.
 * - Waits and streams are those of the one program: they join clocks of the same rank,
 *   whose entries for q obey the claim.
 * - A collective gives r the entries for q of all ranks r' that it joins with r. Outside
 *   S, r' is r, so D(q, r') is D(q, r) there. Along each part of S, r' runs through all
 *   ranks, so it may be equal to q or differ from it, whether a part has 2 ranks or 64:
 *   D(q, r') has any subset of S. Which sets occur depends on D(q, r) alone, so their
 *   latest entry does.
 * Steps 1 and 3 ask only for clocks and for ranks that a group joins with rank 0, so a
 * mesh of one bit for each part answers as the whole mesh does. verify_races_of_all makes
 * every rank explicit; tests compare the two, on faults as well. */
#include "plan/plan.h"
#include "prove/verify.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TURNS = 12, MAX_PARTS = 8 };

typedef struct Event {
    int ins, turn, pos; /* pos: number in its stream, from 1 */
    /* Clocks: by chain, the last event known to be past. A chain is a stream of an
     * explicit rank. */
    int *start; /* rank 0's, which the checks ask for */
    int *end;   /* one per explicit rank; NULL once no event to come can wait for it */
} Event;

typedef struct Trace {
    Gen *g;
    int n_turns, variant[MAX_TURNS], base[MAX_TURNS]; /* of each turn: its first event */
    int n_parts;
    RankBits part[MAX_PARTS];
    unsigned *joined;  /* by instruction: the parts in its group */
    int ranks, chains; /* explicit ranks: all sets of parts */
    int n;
    Event *e;
    int *starts; /* one clock per explicit rank, of the event that runs */
    struct {
        int **items;
        int count, cap;
    } spare; /* what was the end of an event */
} Trace;

/* What matters about a lifetime to another one that shares bytes with it. */
typedef struct Lifetime {
    bool used;
    int *last;  /* by chain: latest completion of its accesses; peers' on their chains */
    int *first; /* what precedes all its writes */
} Lifetime;

static int chain_of(int rank, const Instr *i)
{
    return rank * N_STREAMS + (int)i->stream;
}

static int *clock_of(const Trace *t, int *clocks, unsigned rank)
{
    return clocks + (size_t)rank * (size_t)t->chains;
}

static size_t clocks_bytes(const Trace *t) /* of all explicit ranks */
{
    return sizeof(int) * (size_t)t->ranks * (size_t)t->chains;
}

static void join(const Trace *t, int *clock, const int *with)
{
    for (int k = 0; k < t->chains; k++)
        clock[k] = clock[k] > with[k] ? clock[k] : with[k];
}

static void add_turn(Trace *t, int variant)
{
    if (t->g->prog.count[variant] > 0 && t->n_turns < MAX_TURNS) {
        t->variant[t->n_turns] = variant;
        t->base[t->n_turns++] = t->n;
        t->n += t->g->prog.count[variant];
    }
}

/* Two turns of each loop show every way in which turns follow each other; evaluated: with
 * two evaluations between the steps. */
static void plan_turns(Trace *t, bool evaluated)
{
    const Program *p = &t->g->prog;
    bool sharded = t->g->model.accumulate_sharded;
    int64_t locals =
        sharded ? p->leaf_micro_batches - 1 : p->rounds * p->leaf_micro_batches - 1;
    int64_t lasts = sharded ? p->rounds : 1;
    for (int64_t r = 0; r < min_i64(lasts, 2); r++) {
        for (int64_t l = 0; l < min_i64(locals, 2); l++)
            add_turn(t, VARIANT_LOCAL);
        add_turn(t, VARIANT_LAST);
    }
    add_turn(t, VARIANT_END);
    if (evaluated) {
        add_turn(t, VARIANT_EVAL);
        add_turn(t, VARIANT_EVAL);
    }
    add_turn(t, VARIANT_LOCAL);
    add_turn(t, VARIANT_LAST);
    t->e = gen_alloc(t->g, sizeof *t->e * (size_t)(t->n + 1));
    t->starts = gen_alloc(t->g, clocks_bytes(t));
}

/* Does the collective join explicit ranks q and r? */
static bool joins(const Trace *t, const Instr *i, unsigned q, unsigned r)
{
    return ins_is_collective(i) && ((q ^ r) & ~t->joined[i->id]) == 0;
}

/* The event of instruction id as seen from a turn; END sees LAST's. */
static const Event *event_of(const Trace *t, int turn, int id)
{
    const Program *p = &t->g->prog;
    int v = (int)p->ins.items[id].variant;
    if (v != t->variant[turn])
        turn--;
    return turn >= 0 && v == t->variant[turn] ? &t->e[t->base[turn] + id - p->first[v]]
                                              : NULL;
}

static int *new_end(Trace *t)
{
    int *end;
    if (!t->spare.count)
        return gen_alloc(t->g, clocks_bytes(t));
    end = t->spare.items[--t->spare.count];
    memset(end, 0, clocks_bytes(t));
    return end;
}

/* After a turn: only its own events, and the last of each stream, may still be waited
 * for. */
static void spare_ends(Trace *t, int turn, Event *const stream_last[N_STREAMS])
{
    for (int k = turn > 0 ? t->base[turn - 1] : 0; turn > 0 && k < t->base[turn]; k++) {
        bool last = false;
        for (int s = 0; s < N_STREAMS; s++)
            last = last || stream_last[s] == &t->e[k];
        if (last)
            continue;
        *gen_push(t->g, &t->spare) = t->e[k].end;
        t->e[k].end = NULL;
    }
}

static const char *run_event(Trace *t, Event *e, Event *const stream_last[N_STREAMS],
                             const Event *entry)
{
    const Instr *i = &t->g->prog.ins.items[e->ins];
    const Event *before = stream_last[i->stream];
    e->pos = before ? before->pos + 1 : 1;
    memset(t->starts, 0, clocks_bytes(t));
    for (unsigned r = 0; r < (unsigned)t->ranks; r++) {
        int *start = clock_of(t, t->starts, r);
        if (before)
            join(t, start, clock_of(t, before->end, r));
        if (entry && i->variant != VARIANT_END)
            join(t, start, clock_of(t, entry->end, r));
        for (int w = 0; w < i->n_waits; w++) {
            const Event *on = event_of(t, e->turn, i->waits[w]);
            if (!on)
                return gen_printf(t->g, "%s waits for nothing", ins_label(t->g, i));
            join(t, start, clock_of(t, on->end, r));
        }
        start[chain_of((int)r, i)] = 2 * e->pos;
    }
    e->start = gen_alloc(t->g, sizeof(int) * (size_t)t->chains);
    memcpy(e->start, t->starts, sizeof(int) * (size_t)t->chains);
    e->end = new_end(t);
    for (unsigned r = 0; r < (unsigned)t->ranks; r++) {
        int *end = clock_of(t, e->end, r);
        join(t, end, clock_of(t, t->starts, r));
        for (unsigned q = 0; q < (unsigned)t->ranks; q++)
            if (joins(t, i, q, r))
                join(t, end, clock_of(t, t->starts, q));
        end[chain_of((int)r, i)] = 2 * e->pos + 1;
    }
    return NULL;
}

/* A turn begins when the compute stream has ended the previous one; END continues
 * LAST. */
static const char *run_trace(Trace *t)
{
    Event *last[N_STREAMS] = {NULL};
    for (int turn = 0; turn < t->n_turns; turn++) {
        int v = t->variant[turn];
        const Event *entry = last[STREAM_COMPUTE];
        for (int k = 0; k < t->g->prog.count[v]; k++) {
            Event *e = &t->e[t->base[turn] + k];
            const char *bad;
            e->ins = t->g->prog.first[v] + k;
            e->turn = turn;
            bad = run_event(t, e, last, entry);
            if (bad)
                return bad;
            last[t->g->prog.ins.items[e->ins].stream] = e;
        }
        /* The join is real only if the compute stream has seen all collectives
         * complete. */
        for (int s = 0; s < N_STREAMS; s++) {
            bool to_end = turn + 1 == t->n_turns || t->variant[turn + 1] == VARIANT_END;
            if (last[s] && last[STREAM_COMPUTE] && s != STREAM_COMPUTE && !to_end &&
                last[STREAM_COMPUTE]->end[s] < 2 * last[s]->pos + 1) {
                return gen_printf(t->g, "a turn of the step's loop ends before the %s",
                                  ins_label(t->g, &t->g->prog.ins.items[last[s]->ins]));
            }
        }
        spare_ends(t, turn, last);
    }
    return NULL;
}

/* The explicit ranks that perform an access to a buffer of rank 0: the peers of the
 * collective, or rank 0 itself. A closed collective ends for all of them together. */
static bool accesses_from(const Trace *t, const Instr *i, bool remote, unsigned rank)
{
    return remote && !ins_is_closed(i) ? rank != 0 && joins(t, i, 0, rank) : rank == 0;
}

/* Is the access of a (by peers: on their ranks) past when b starts here? */
static bool is_past(const Trace *t, const Event *a, bool by_peers, const Event *b)
{
    const Instr *i = &t->g->prog.ins.items[a->ins];
    for (unsigned r = 0; r < (unsigned)t->ranks; r++)
        if (accesses_from(t, i, by_peers, r) &&
            b->start[chain_of((int)r, i)] < 2 * a->pos + 1)
            return false;
    return true;
}

/* ---- one buffer ------------------------------------------------------------------ */

typedef struct BufAccess {
    int event;
    bool write, remote;
} BufAccess;
typedef struct BufAccesses {
    BufAccess *items;
    int count, cap;
} BufAccesses;

static const char *check_buffer(const Trace *t, const Buffer *buf, const BufAccesses *acc)
{
    Gen *g = t->g;
    for (int j = 0; j < acc->count; j++) {
        for (int i = 0; i < j; i++) {
            const BufAccess *a = &acc->items[i], *b = &acc->items[j];
            if (a->event == b->event || (!a->write && !b->write))
                continue;
            if (!is_past(t, &t->e[a->event], a->remote, &t->e[b->event])) {
                return gen_printf(g, "%s: %s may come before %s%s has %s it", buf->name,
                                  ins_label(g, &g->prog.ins.items[t->e[b->event].ins]),
                                  a->remote ? "a peer's " : "",
                                  ins_label(g, &g->prog.ins.items[t->e[a->event].ins]),
                                  a->write ? "written" : "read");
            }
        }
    }
    return NULL;
}

static const char *check_buffers(const Trace *t)
{
    const Program *p = &t->g->prog;
    BufAccesses *of = gen_alloc(t->g, sizeof *of * (size_t)(p->bufs.count + 1));
    const char *bad = NULL;
    for (int k = 0; k < t->n; k++) {
        const Instr *i = &p->ins.items[t->e[k].ins];
        for (int a = 0; a < i->n_access; a++) {
            BufAccesses *list = &of[i->access[a].buffer];
            *gen_push(t->g, list) =
                (BufAccess){k, i->access[a].write, i->access[a].remote};
        }
    }
    for (int b = 0; b < p->bufs.count && !bad; b++)
        bad = check_buffer(t, &p->bufs.items[b], &of[b]);
    return bad;
}

/* ---- two buffers that share bytes ------------------------------------------------ */

static void note_access(const Trace *t, Lifetime *l, const Event *e, const Access *acc)
{
    const Instr *i = &t->g->prog.ins.items[e->ins];
    if (!l->used) {
        l->used = true;
        l->last = gen_alloc(t->g, sizeof(int) * (size_t)t->chains);
        l->first = gen_alloc(t->g, sizeof(int) * (size_t)t->chains);
        for (int c = 0; c < t->chains; c++)
            l->first[c] = INT32_MAX;
    }
    for (unsigned r = 0; r < (unsigned)t->ranks; r++) {
        int chain = chain_of((int)r, i);
        if (accesses_from(t, i, acc->remote, r) && l->last[chain] < 2 * e->pos + 1)
            l->last[chain] = 2 * e->pos + 1;
    }
    for (int c = 0; acc->write && c < t->chains; c++)
        l->first[c] = l->first[c] < e->start[c] ? l->first[c] : e->start[c];
}

static bool ends_before(const Trace *t, const Lifetime *a, const Lifetime *b)
{
    for (int c = 0; c < t->chains; c++)
        if (b->first[c] < a->last[c])
            return false;
    return true;
}

static const char *check_pair(const Trace *t, const Lifetime *lives, const Buffer *a,
                              const Buffer *b, int reach)
{
    if (a->persistent || b->persistent) {
        return gen_printf(t->g, "%s shares bytes with %s, which lives across steps",
                          a->name, b->name);
    }
    for (int x = 0; x < t->n_turns; x++) {
        for (int y = x - reach; y <= x + reach; y++) {
            const Lifetime *l = &lives[a->id * t->n_turns + x], *m;
            if (y < 0 || y >= t->n_turns)
                continue;
            m = &lives[b->id * t->n_turns + y];
            if (l->used && m->used && !ends_before(t, l, m) && !ends_before(t, m, l)) {
                return gen_printf(t->g, "%s and %s share bytes and may be alive together",
                                  a->name, b->name);
            }
        }
    }
    return NULL;
}

static int by_place(const void *x, const void *y)
{
    const Buffer *a = *(const Buffer *const *)x, *b = *(const Buffer *const *)y;
    if (a->space != b->space)
        return a->space < b->space ? -1 : 1;
    if (a->offset_bytes != b->offset_bytes)
        return a->offset_bytes < b->offset_bytes ? -1 : 1;
    return a->id - b->id;
}

static const Buffer *const *sorted_buffers(Gen *g)
{
    const Program *p = &g->prog;
    const Buffer **sorted = gen_alloc(g, sizeof *sorted * (size_t)(p->bufs.count + 1));
    for (int b = 0; b < p->bufs.count; b++)
        sorted[b] = &p->bufs.items[b];
    qsort(sorted, (size_t)p->bufs.count, sizeof *sorted, by_place);
    return sorted;
}

/* How many turns apart lifetimes can meet. Neighbouring turns only, if every turn has a
 * collective of all ranks, which keeps them together. Otherwise ranks (LOCAL without
 * shards) or copies (LOCAL, and LAST of several rounds) may drift by many turns. */
static int turns_apart(const Trace *t)
{
    for (int turn = 0; turn < t->n_turns; turn++) {
        const Program *p = &t->g->prog;
        int v = t->variant[turn];
        bool together = false;
        for (int k = 0; k < p->count[v] && !together; k++) {
            const Instr *i = &p->ins.items[p->first[v] + k];
            together = joins(t, i, 0, (unsigned)t->ranks - 1);
        }
        if (!together)
            return t->n_turns;
    }
    return 1;
}

static const char *check_bytes(const Trace *t)
{
    const Program *p = &t->g->prog;
    size_t n = (size_t)p->bufs.count * (size_t)t->n_turns;
    Lifetime *lives = gen_alloc(t->g, sizeof *lives * (n + 1));
    const Buffer *const *sorted = sorted_buffers(t->g);
    int reach = turns_apart(t);
    for (int k = 0; k < t->n; k++) {
        const Instr *i = &p->ins.items[t->e[k].ins];
        for (int a = 0; a < i->n_access; a++) {
            int buffer = i->access[a].buffer;
            if (!p->bufs.items[buffer].persistent) {
                note_access(t, &lives[buffer * t->n_turns + t->e[k].turn], &t->e[k],
                            &i->access[a]);
            }
        }
    }
    for (int i = 0; i < p->bufs.count; i++) {
        const Buffer *a = sorted[i];
        for (int j = i + 1; j < p->bufs.count; j++) {
            const Buffer *b = sorted[j];
            const char *bad;
            if (b->space != a->space || b->offset_bytes >= a->offset_bytes + a->bytes)
                break;
            bad = b->bytes > 0 ? check_pair(t, lives, a, b, reach) : NULL;
            if (bad)
                return bad;
        }
    }
    return NULL;
}

/* Divides the rank's bits into parts that no group cuts; every bit: each is one. */
static void find_parts(Trace *t, bool every_bit)
{
    const Program *p = &t->g->prog;
    for (RankBits rest = every_bit ? t->g->model.mesh.all : 0; rest; rest &= rest - 1) {
        gen_require(t->n_parts < MAX_PARTS, "more than %d parts", (int)MAX_PARTS);
        t->part[t->n_parts++] = rest & ~(rest - 1);
    }
    for (int id = 0; id < p->ins.count; id++) {
        RankBits rest = p->ins.items[id].group;
        for (int k = 0, n = t->n_parts; k < n; k++) {
            RankBits both = t->part[k] & rest;
            rest &= ~both;
            if (both && both != t->part[k]) {
                gen_require(t->n_parts < MAX_PARTS, "more than %d parts", (int)MAX_PARTS);
                t->part[t->n_parts++] = t->part[k] & ~both;
                t->part[k] = both;
            }
        }
        if (rest) {
            gen_require(t->n_parts < MAX_PARTS, "more than %d parts", (int)MAX_PARTS);
            t->part[t->n_parts++] = rest;
        }
    }
    t->ranks = 1 << t->n_parts;
    t->chains = t->ranks * N_STREAMS;
    t->joined = gen_alloc(t->g, sizeof *t->joined * (size_t)(p->ins.count + 1));
    for (int id = 0; id < p->ins.count; id++)
        for (int k = 0; k < t->n_parts; k++)
            t->joined[id] |= p->ins.items[id].group & t->part[k] ? 1u << k : 0;
}

static const char *races(Gen *g, bool bytes, bool every_rank, bool evaluated)
{
    Trace t = {.g = g};
    const char *bad;
    find_parts(&t, every_rank);
    plan_turns(&t, evaluated);
    bad = run_trace(&t);
    if (!bad)
        bad = check_buffers(&t);
    return bad || !bytes ? bad : check_bytes(&t);
}

static const char *races_and_evaluated(Gen *g, bool bytes, bool every_rank)
{
    const char *bad = races(g, bytes, every_rank, false);
    return bad || !g->prog.count[VARIANT_EVAL] ? bad : races(g, bytes, every_rank, true);
}

const char *verify_races(Gen *g, bool bytes)
{
    return races_and_evaluated(g, bytes, false);
}

const char *verify_races_of_all(Gen *g, bool bytes)
{
    return races_and_evaluated(g, bytes, true);
}
