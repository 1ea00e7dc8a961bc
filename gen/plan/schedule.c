/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c: what each instruction must wait for, and the resulting order of events.
 *
 * In: instructions and accesses (unroll). Out: Instr.waits with reasons, and the
 * happens-before relations. Breaks: place.
 *
 * The model:
 * 1. Each rank runs the same program on three in-order streams. An instruction starts
 *    when the one before it on its stream is complete and its waits are complete.
 * 2. Nothing else orders streams. Host order alone has no effect. (On the CPU the host is
 *    the compute stream, which is stricter.)
 * 3. A collective joins the ranks of its group. It starts, and it completes: on no rank
 *    before it has started on all of its group. Between its own start and completion it
 *    may access its group's buffers at any time.
 * 4. So its completion here does not imply that peers have finished reading our buffers,
 *    unless it is closed (see ins_is_closed).
 * 5. A group is all ranks that differ in some bits (mesh.h).
 *
 * The relations:
 *   hb_same(a, b)          a completes before b starts, on one rank: by paths of stream
 *                          order and waits.
 *   hb_group(group, a, b)  a completes on every rank of this one's group before b starts
 *                          on this one: by such paths that pass collectives whose bits
 *                          together are all of the group's. Reason: a collective of the
 *                          bits m completes here when the ranks that differ in m have
 *                          started it, so they have completed what came before it there.
 *                          A collective of other bits among that says the same for
 *                          their ranks.
 *
 * Waits have three sources:
 * 1. Buffers: read after write, write after read, write after write.
 * 2. Memory limits on prefetching and reducing: a gather starts when the compute
 *    instruction before it in host order is complete; a span that opens a gradient buffer
 *    leaves at most reduces_in_flight reductions running.
 * 3. Buffers that peers may still read when a loop starts its next turn.
 * A wait that the others imply is omitted. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

bool ins_joins(const Instr *c, RankBits group)
{
    return ins_is_collective(c) && (group & ~c->group) == 0;
}

/* The last compute instruction of the variant before v, in program order; -1: none. */
static int variant_entry(const Program *p, int v)
{
    for (int id = p->first[v] - 1; id >= 0; id--)
        if (p->ins.items[id].stream == STREAM_COMPUTE)
            return id;
    return -1;
}

int ins_implied(const Program *p, int id, int pred[2])
{
    const Instr *i = &p->ins.items[id];
    int n = 0, before = -1;
    for (int q = id - 1; q >= 0 && before < 0; q--)
        if (p->ins.items[q].stream == i->stream)
            before = q;
    if (before >= 0)
        pred[n++] = before;
    if (before < p->first[i->variant] && i->stream != STREAM_COMPUTE &&
        i->variant != VARIANT_END) { /* which continues LAST */
        int entry = variant_entry(p, i->variant);
        if (entry >= 0)
            pred[n++] = entry;
    }
    return n;
}

/* ---- relations ------------------------------------------------------------------- */

static bool bit(const uint64_t *row, int b)
{
    return row[b >> 6] >> (b & 63) & 1;
}

static void set_bit(uint64_t *row, int b)
{
    row[b >> 6] |= UINT64_C(1) << (b & 63);
}

static void or_row(uint64_t *row, const uint64_t *with, int words)
{
    for (int w = 0; w < words; w++)
        row[w] |= with[w];
}

/* The index of a group's relation; -1: there is none. */
static int find_group(const Program *p, RankBits group)
{
    for (int k = 0; k < p->n_hb; k++)
        if (p->hb_of[k] == group)
            return k;
    return -1;
}

static uint64_t *row(const Program *p, int k, int id)
{
    return p->hb[k] + (size_t)id * (size_t)p->hb_words;
}

bool hb_group(const Program *p, RankBits group, int a, int b)
{
    int k = find_group(p, group);
    gen_require(k >= 0, "no relation of group %x", (unsigned)group);
    return bit(row(p, k, a), b);
}

bool hb_same(const Program *p, int a, int b)
{
    return bit(row(p, 0, a), b);
}

static void close_edge(Program *p, int from, int to)
{
    const Instr *c = &p->ins.items[to];
    set_bit(row(p, 0, from), to);
    for (int k = 0; k < p->n_hb; k++) {
        or_row(row(p, k, from), row(p, k, to), p->hb_words);
        if (p->hb_of[k] & c->group) { /* what remains need not come after it */
            int rest = find_group(p, p->hb_of[k] & ~c->group);
            or_row(row(p, k, from), row(p, rest, to), p->hb_words);
        }
    }
}

static void add_group(Program *p, RankBits group)
{
    if (find_group(p, group) < 0) {
        gen_require(p->n_hb < MAX_GROUPS, "more than %d groups", (int)MAX_GROUPS);
        p->hb_of[p->n_hb++] = group;
    }
}

/* Relations are kept for the groups that occur, and for what remains of them after
 * collectives. */
static void find_groups(Program *p)
{
    p->n_hb = 0;
    add_group(p, 0);
    for (int id = 0; id < p->ins.count; id++)
        add_group(p, p->ins.items[id].group);
    for (int k = 0, occur = p->n_hb; k < p->n_hb; k++)
        for (int c = 0; c < occur; c++)
            add_group(p, p->hb_of[k] & ~p->hb_of[c]);
}

static void clear_relations(Gen *g, Program *p)
{
    size_t n = (size_t)p->ins.count;
    int words = (p->ins.count + 63) / 64, had = p->n_hb;
    find_groups(p);
    for (int k = 0; k < p->n_hb; k++) {
        if (p->hb_words != words || k >= had)
            p->hb[k] = gen_alloc(g, sizeof(uint64_t) * (size_t)words * n);
        memset(p->hb[k], 0, sizeof(uint64_t) * (size_t)words * n);
    }
    p->hb_words = words;
}

void schedule_closure(Gen *g, Program *p)
{
    clear_relations(g, p);
    for (int id = p->ins.count - 1; id >= 0;
         id--) { /* all edges point forward: successors are complete */
        const Instr *i = &p->ins.items[id];
        int pred[2];
        int n_pred = ins_implied(p, id, pred);
        for (int k = 0; k < n_pred; k++)
            close_edge(p, pred[k], id);
        for (int k = 0; k < i->n_waits; k++)
            close_edge(p, i->waits[k], id);
    }
}

/* ---- peers that lag over the end of a loop --------------------------------------- */

static bool lingers(const Instr *i)
{
    for (int a = 0; a < i->n_access; a++)
        if (i->access[a].remote && !ins_is_closed(i))
            return true;
    return false;
}

/* On one rank, does the variant have a collective of the group after (before) instruction
 * id? */
static bool collective_beside(const Program *p, int id, RankBits group, bool after)
{
    int v = (int)p->ins.items[id].variant;
    for (int c = p->first[v]; c < p->first[v] + p->count[v]; c++)
        if (ins_joins(&p->ins.items[c], group) &&
            (after ? hb_same(p, id, c) : hb_same(p, c, id)))
            return true;
    return false;
}

static bool variant_joins(const Program *p, int v, RankBits group)
{
    for (int c = p->first[v]; c < p->first[v] + p->count[v]; c++)
        if (ins_joins(&p->ins.items[c], group))
            return true;
    return false;
}

/* open[v]: remote readers of any variant that may still run on a peer when v has ended
 * here. LAST and END are one stretch of the program, so hb_group covers them. */
static void open_readers(const Gen *g, bool *open[N_VARIANTS])
{
    const Program *p = &g->prog;
    for (int c = 0; c < p->ins.count; c++) {
        const Instr *i = &p->ins.items[c];
        if (!lingers(i))
            continue;
        open[i->variant][c] = !collective_beside(p, c, i->group, true);
        for (int again = 0; again < N_VARIANTS; again++) {
            for (int v = 0; v < N_VARIANTS; v++) {
                for (int to = 0; to < N_VARIANTS; to++)
                    if ((variant_successors(g, v) >> to & 1) && open[v][c] &&
                        !variant_joins(p, to, i->group))
                        open[to][c] = true;
            }
        }
    }
}

/* The writes of variant `to` before its first collective of the reader's group. */
static void hit_early(const Program *p, int reader, int to, OpenHit hit, void *ctx)
{
    for (int w = p->first[to]; w < p->first[to] + p->count[to]; w++)
        if (!collective_beside(p, w, p->ins.items[reader].group, false))
            hit(ctx, reader, w);
}

void schedule_open_hits(const Gen *g, OpenHit hit, void *ctx)
{
    const Program *p = &g->prog;
    bool *open[N_VARIANTS];
    size_t n = (size_t)p->ins.count;
    bool *flags = gen_calloc(N_VARIANTS, n ? n : 1);
    for (int v = 0; v < N_VARIANTS; v++)
        open[v] = flags + (size_t)v * n;
    open_readers(g, open);
    for (int v = 0; v < N_VARIANTS; v++) {
        for (int to = 0; to < N_VARIANTS; to++) {
            if (!(variant_successors(g, v) >> to & 1) || to == VARIANT_END)
                continue;
            for (int c = 0; c < p->ins.count; c++)
                if (open[v][c])
                    hit_early(p, c, to, hit, ctx);
        }
    }
    free(flags);
}

/* ---- waits ----------------------------------------------------------------------- */

typedef struct Candidate {
    int id;
    const char *why;
} Candidate;

typedef struct Scheduler {
    Gen *g;
    Program *p;
    uint64_t *before; /* per instruction: what it follows on its own rank, so far */
    struct {
        Candidate *items;
        int count, cap;
    } cand;      /* of the current instruction */
    int *writer; /* per buffer: the last writing instruction of this variant, or -1 */
    struct BufReaders {
        int *items;
        int count, cap;
    } * readers;             /* since that write */
    bool *opened;            /* gradient buffers that this variant has started to write */
    int last_compute;        /* of this variant so far */
    int *reduces, n_reduces; /* of this variant so far */
} Scheduler;

static void want(Scheduler *s, int id, const char *why)
{
    Candidate *c;
    for (int k = 0; k < s->cand.count; k++)
        if (s->cand.items[k].id == id)
            return; /* the first reason is kept */
    c = gen_push(s->g, &s->cand);
    c->id = id;
    c->why = why;
}

static const char *why_data(Scheduler *s, const Instr *from, const Instr *to, bool reads)
{
    Gen *g = s->g;
    const char *done = ins_done(g, from);
    if (done)
        return done;
    if (reads && ins_rule(to->kind)->sums) {
        return gen_printf(g, "the gradient of %s is complete",
                          g->segments.items[to->segment].name);
    }
    return reads ? gen_printf(g, "what %s wrote", ins_label(g, from))
                 : gen_printf(g, "%s has read what is overwritten", ins_label(g, from));
}

static void want_data(Scheduler *s, const Instr *i)
{
    for (int a = 0; a < i->n_access; a++) {
        const Access *acc = &i->access[a];
        int w = s->writer[acc->buffer];
        const struct BufReaders *r = &s->readers[acc->buffer];
        if (w >= 0)
            want(s, w, why_data(s, &s->p->ins.items[w], i, true));
        for (int k = 0; acc->write && k < r->count; k++)
            want(s, r->items[k], why_data(s, &s->p->ins.items[r->items[k]], i, false));
    }
}

static void want_memory(Scheduler *s, const Instr *i)
{
    if (i->kind == INS_ALL_GATHER && s->last_compute >= 0) {
        want(s, s->last_compute,
             gen_printf(s->g, "memory freed by %s",
                        ins_label(s->g, &s->p->ins.items[s->last_compute])));
    }
    for (int a = 0; i->kind == INS_SPAN && a < i->n_access; a++) {
        const Access *acc = &i->access[a];
        if (s->p->bufs.items[acc->buffer].kind != BUF_GRAD || s->opened[acc->buffer])
            continue;
        s->opened[acc->buffer] = true;
        if (s->n_reduces > s->g->model.reduces_in_flight) {
            int r = s->reduces[s->n_reduces - 1 - s->g->model.reduces_in_flight];
            want(s, r,
                 gen_printf(s->g,
                            "the reduction of %s is done: room for another gradient",
                            s->g->segments.items[s->p->ins.items[r].segment].name));
        }
    }
}

static void note(Scheduler *s, const Instr *i)
{
    for (int a = 0; a < i->n_access; a++) {
        struct BufReaders *r = &s->readers[i->access[a].buffer];
        if (i->access[a].write) {
            s->writer[i->access[a].buffer] = i->id;
            r->count = 0;
        }
    }
    for (int a = 0; a < i->n_access; a++)
        if (!i->access[a].write)
            *gen_push(s->g, &s->readers[i->access[a].buffer]) = i->id;
    if (i->stream == STREAM_COMPUTE)
        s->last_compute = i->id;
    if (i->kind == INS_REDUCE_SCATTER) /* sums over copies hold no gradient buffer */
        s->reduces[s->n_reduces++] = i->id;
}

static int latest_first(const void *a, const void *b)
{
    int x = ((const Candidate *)a)->id, y = ((const Candidate *)b)->id;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void add_wait(Gen *g, Instr *i, int id, const char *why)
{
    int *waits = gen_alloc(g, sizeof(int) * (size_t)(i->n_waits + 1));
    const char **whys = gen_alloc(g, sizeof(char *) * (size_t)(i->n_waits + 1));
    if (i->n_waits) {
        memcpy(waits, i->waits, sizeof(int) * (size_t)i->n_waits);
        memcpy(whys, i->wait_why, sizeof(char *) * (size_t)i->n_waits);
    }
    waits[i->n_waits] = id;
    whys[i->n_waits] = why;
    i->waits = waits;
    i->wait_why = whys;
    i->n_waits++;
}

static void follow(Scheduler *s, int id, int pred)
{
    size_t w = (size_t)s->p->hb_words;
    or_row(s->before + (size_t)id * w, s->before + (size_t)pred * w, s->p->hb_words);
    set_bit(s->before + (size_t)id * w, pred);
}

/* Keeps the candidates that neither stream order nor later candidates imply. */
static void choose_waits(Scheduler *s, Instr *i)
{
    int pred[2];
    int n_pred = ins_implied(s->p, i->id, pred);
    for (int k = 0; k < n_pred; k++)
        follow(s, i->id, pred[k]);
    if (s->cand.count > 1) /* ids are distinct, so there are no ties */
        qsort(s->cand.items, (size_t)s->cand.count, sizeof *s->cand.items, latest_first);
    for (int k = 0; k < s->cand.count; k++) {
        int id = s->cand.items[k].id;
        if (!bit(s->before + (size_t)i->id * (size_t)s->p->hb_words, id)) {
            add_wait(s->g, i, id, s->cand.items[k].why);
            follow(s, i->id, id);
        }
    }
    s->cand.count = 0;
}

static void begin_variant(Scheduler *s, int v)
{
    s->n_reduces = 0;
    s->last_compute = -1;
    memset(s->opened, 0, (size_t)s->p->bufs.count);
    for (int b = 0; v != VARIANT_END && b < s->p->bufs.count; b++) {
        s->writer[b] = -1; /* END continues LAST; others start after a join */
        s->readers[b].count = 0;
    }
}

/* ---- a buffer that peers may still read when its loop writes it again ------------ */

typedef struct Reopened {
    Gen *g;
    bool added;
} Reopened;

static void close_reader(void *ctx, int reader, int writer)
{
    Reopened *ro = ctx;
    Program *p = &ro->g->prog;
    const Instr *r = &p->ins.items[reader];
    Instr *w = &p->ins.items[writer];
    for (int a = 0; a < r->n_access; a++) {
        for (int b = 0; b < w->n_access; b++) {
            if (!r->access[a].remote || !w->access[b].write ||
                r->access[a].buffer != w->access[b].buffer)
                continue;
            for (int c = p->first[w->variant]; c < writer; c++) {
                if (ins_joins(&p->ins.items[c], r->group) && !ro->added) {
                    add_wait(ro->g, w, c,
                             gen_printf(ro->g,
                                        "every rank has read %s of the turn before",
                                        p->bufs.items[w->access[b].buffer].name));
                    ro->added = true;
                }
            }
        }
    }
}

void schedule_step(Gen *g)
{
    Program *p = &g->prog;
    size_t n = (size_t)p->ins.count, n_bufs = (size_t)p->bufs.count;
    Scheduler s = {.g = g, .p = p};
    Reopened ro = {.g = g, .added = true};
    memset(p->hb, 0, sizeof p->hb);
    p->hb_words = (p->ins.count + 63) / 64;
    s.before = gen_alloc(g, sizeof(uint64_t) * (size_t)p->hb_words * (n + 1));
    s.writer = gen_alloc(g, sizeof(int) * (n_bufs + 1));
    s.readers = gen_alloc(g, sizeof *s.readers * (n_bufs + 1));
    s.opened = gen_alloc(g, n_bufs + 1);
    s.reduces = gen_alloc(g, sizeof(int) * (n + 1));
    for (int v = 0; v < N_VARIANTS; v++) {
        begin_variant(&s, v);
        for (int id = p->first[v]; id < p->first[v] + p->count[v]; id++) {
            Instr *i = &p->ins.items[id];
            i->n_waits = 0;
            want_data(&s, i);
            want_memory(&s, i);
            choose_waits(&s, i);
            note(&s, i);
        }
    }
    schedule_closure(g, p);
    while (ro.added) { /* each turn adds one wait, of finitely many */
        ro.added = false;
        schedule_open_hits(g, close_reader, &ro);
        if (ro.added)
            schedule_closure(g, p);
    }
}
