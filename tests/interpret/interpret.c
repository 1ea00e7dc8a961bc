/* SPDX-License-Identifier: Apache-2.0 */
/* interpret: the proof that a plan is right, by running it wrong on purpose in every way
 * that the schedule allows.
 *
 * Comes in: a Gen after place, and a function for the mathematics of a span. W ranks are
 * simulated, each with its byte arenas at the planned offsets. Instructions run as events
 * in a random order: of all that stream order, waits and collectives allow next, one is
 * chosen by a seeded generator that also makes some ranks and streams much slower than
 * others. A collective starts, reads each peer at a time of its own, and completes. So
 * does a span that ranks join, but it is run for all of them at one time.
 * Whatever is dead is filled with NaN: transient buffers before their first write and
 * after their last access, destinations while a collective is under way, scratch before
 * each span. Goes out: the weights, masters, moments and losses after some steps, to be
 * compared bit by bit with those of another layout; any byte used too early, too late or
 * by two shows up there. */
#include "interpret_machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the trace of a step --------------------------------------------------------- */

static uint64_t next_random(Machine *m)
{
    m->random += UINT64_C(0x9e3779b97f4a7c15);
    return interp_mix(m->random);
}

static void add_turn(Machine *m, int variant, int64_t round, int64_t micro,
                     bool leaf_ends)
{
    Turn *t = &m->turn[m->n_turns++];
    *t = (Turn){variant, m->n, round, micro, leaf_ends};
    m->n += m->p->count[variant];
}

static void plan_turns(Machine *m)
{
    const Program *p = m->p;
    int64_t leaf = p->leaf_micro_batches, total = p->rounds * leaf;
    m->turn = gen_alloc(m->g, sizeof *m->turn * (size_t)(total + 3));
    if (p->count[VARIANT_EVAL]) { /* of a micro-batch whose loss comes again in the step
                                   */
        add_turn(m, VARIANT_EVAL, 0, 0, false);
    }
    for (int64_t k = 0; k < total; k++) {
        bool ends = k % leaf == leaf - 1;
        bool last = m->g->model.accumulate_sharded ? ends : k == total - 1;
        add_turn(m, last ? VARIANT_LAST : VARIANT_LOCAL, k / leaf, k % leaf, ends);
    }
    add_turn(m, VARIANT_END, 0, 0, false);
}

static void lay_trace(Machine *m)
{
    int last[N_STREAMS] = {-1, -1, -1};
    plan_turns(m);
    m->ins = gen_alloc(m->g, sizeof(int) * (size_t)(m->n + 1));
    m->turn_of = gen_alloc(m->g, sizeof(int) * (size_t)(m->n + 1));
    m->after = gen_alloc(m->g, sizeof(int) * (size_t)(m->n + 1));
    for (int s = 0; s < N_STREAMS; s++)
        m->stream_first[s] = -1;
    for (int t = 0; t < m->n_turns; t++) {
        for (int k = 0; k < m->p->count[m->turn[t].variant]; k++) {
            int e = m->turn[t].base + k;
            int s;
            m->ins[e] = m->p->first[m->turn[t].variant] + k;
            m->turn_of[e] = t;
            m->after[e] = -1;
            s = (int)m->p->ins.items[m->ins[e]].stream;
            if (last[s] < 0)
                m->stream_first[s] = e;
            else
                m->after[last[s]] = e;
            last[s] = e;
        }
    }
}

static const Instr *instr(const Machine *m, int e)
{
    return &m->p->ins.items[m->ins[e]];
}

/* ---- lives of transient buffers -------------------------------------------------- */

/* Counts the accesses that a turn will make to each buffer of a rank: its own, and by
 * peers. */
static void open_turn(Machine *m, int rank, int turn)
{
    const Program *p = m->p;
    int v = m->turn[turn].variant;
    for (int id = p->first[v]; id < p->first[v] + p->count[v]; id++) {
        for (int a = 0; a < p->ins.items[id].n_access; a++) {
            const Access *acc = &p->ins.items[id].access[a];
            m->rank[rank].pending[turn * p->bufs.count + acc->buffer] +=
                acc->remote ? group_ranks(p->ins.items[id].group) - 1 : 1;
        }
    }
}

static void count_down(Machine *m, int rank, int turn, int buffer)
{
    int *left = &m->rank[rank].pending[turn * m->p->bufs.count + buffer];
    if (--*left == 0 && !m->p->bufs.items[buffer].persistent)
        interp_poison(m, rank, buffer);
}

static void finish(Machine *m, int rank, int e)
{
    const Instr *i = instr(m, e);
    Rank *r = &m->rank[rank];
    r->done[e] = true;
    r->next[i->stream] = m->after[e];
    m->left--;
    if (i->stream == STREAM_COMPUTE)
        r->turn_left[m->turn_of[e]]--;
    for (int a = 0; a < i->n_access; a++) {
        for (int q = 0; q < m->w; q++)
            if (i->access[a].remote
                    ? q != rank && !ins_is_closed(i) && interp_joins(i, rank, q)
                    : q == rank)
                count_down(m, q, m->turn_of[e], i->access[a].buffer);
    }
}

/* A closed collective lets go of a peer's buffer when it has read it, others at their
 * end. */
static void let_go(Machine *m, int rank, int e, int peer)
{
    const Instr *i = instr(m, e);
    for (int a = 0; a < i->n_access; a++)
        if (i->access[a].remote && ins_is_closed(i) && peer != rank)
            count_down(m, peer, m->turn_of[e], i->access[a].buffer);
}

/* ---- events ---------------------------------------------------------------------- */

static bool may_start(const Machine *m, int rank, int e)
{
    const Instr *i = instr(m, e);
    const Rank *r = &m->rank[rank];
    int t = m->turn_of[e];
    if (i->variant != VARIANT_END && t > 0 && r->turn_left[t - 1] > 0)
        return false;
    for (int w = 0; w < i->n_waits; w++) {
        const Instr *on = &m->p->ins.items[i->waits[w]];
        int turn = on->variant == i->variant ? t : t - 1;
        if (!r->done[m->turn[turn].base + on->id - m->p->first[on->variant]])
            return false;
    }
    return true;
}

/* All that a collective of this rank reads: its group. */
static uint64_t group_mask(const Machine *m, const Instr *i, int rank)
{
    uint64_t mask = 0;
    for (int k = 0; k < group_ranks(i->group); k++)
        mask |= UINT64_C(1) << interp_member(i, rank, k);
    gen_require(m->w <= 64, "%d ranks in a mask", m->w);
    return mask;
}

/* Have all of its group started the collective (or read all of theirs)? */
static bool all_ranks(const Machine *m, int rank, int e, bool read)
{
    const Instr *i = instr(m, e);
    for (int k = 0; k < group_ranks(i->group); k++) {
        const Rank *r = &m->rank[interp_member(i, rank, k)];
        bool yes = read ? r->done[e] || (r->started[e] && r->read_mask[i->stream] ==
                                                              group_mask(m, i, rank))
                        : r->started[e];
        if (!yes)
            return false;
    }
    return true;
}

static void start_compute(Machine *m, int rank, int e)
{
    const Instr *i = instr(m, e);
    Rank *r = &m->rank[rank];
    r->started[e] = true;
    if (i->variant != VARIANT_END &&
        r->turn_left[m->turn_of[e]] == r->compute_of[i->variant]) /* its turn's first */
        interp_load_data(m, rank, &m->turn[m->turn_of[e]]);
}

static void run_compute(Machine *m, int rank, int e)
{
    start_compute(m, rank, e);
    interp_compute(m, rank, e);
    finish(m, rank, e);
}

/* A collective under way: reads one more peer, or completes. */
static bool advance_collective(Machine *m, int rank, int e, bool look)
{
    const Instr *i = instr(m, e);
    Rank *r = &m->rank[rank];
    if (r->read_mask[i->stream] != group_mask(m, i, rank)) {
        if (!all_ranks(m, rank, e, false))
            return false;
        if (!look) {
            int k = (int)(next_random(m) % (uint64_t)group_ranks(i->group));
            int peer = interp_member(i, rank, k);
            while (r->read_mask[i->stream] >> peer & 1) {
                k = (k + 1) % group_ranks(i->group);
                peer = interp_member(i, rank, k);
            }
            interp_read_peer(m, rank, e, peer);
            let_go(m, rank, e, peer);
        }
        return true;
    }
    if (ins_is_closed(i) && !all_ranks(m, rank, e, true)) /* left by all together */
        return false;
    if (!look) {
        interp_end_collective(m, rank, e);
        finish(m, rank, e);
    }
    return true;
}

/* A span that joins ranks: when all of them have begun it, the first that goes on runs it
 * for all; then each leaves. Its meets read every peer's values. */
static bool advance_joint(Machine *m, int rank, int e, bool look)
{
    const Instr *i = instr(m, e);
    const int n = group_ranks(i->group);
    if (!all_ranks(m, rank, e, false))
        return false;
    if (look)
        return true;
    if (m->rank[rank].read_mask[i->stream] != 0) {
        finish(m, rank, e);
        return true;
    }
    interp_compute(m, rank, e);
    for (int k = 0; k < n * n; k++) {
        const int q = interp_member(i, rank, k / n);
        m->rank[q].read_mask[i->stream] = group_mask(m, i, rank);
        let_go(m, q, e, interp_member(i, rank, k % n));
    }
    return true;
}

static void begin(Machine *m, int rank, int e)
{
    const Instr *i = instr(m, e);
    if (!ins_is_collective(i)) {
        run_compute(m, rank, e);
    } else if (i->kind == INS_SPAN) {
        start_compute(m, rank, e);
        m->rank[rank].read_mask[i->stream] = 0;
    } else {
        interp_begin_collective(m, rank, e);
    }
}

/* Does the next thing that rank's stream can do, or only looks whether there is one. */
static bool advance(Machine *m, int rank, int stream, bool look)
{
    Rank *r = &m->rank[rank];
    int e = r->next[stream];
    if (e < 0)
        return false;
    if (r->started[e] && instr(m, e)->kind == INS_SPAN)
        return advance_joint(m, rank, e, look);
    if (r->started[e])
        return advance_collective(m, rank, e, look);
    if (!may_start(m, rank, e))
        return false;
    if (!look)
        begin(m, rank, e);
    return true;
}

static void run_events(Machine *m)
{
    while (m->left > 0 && !m->run->fault) {
        uint64_t total = 0, pick;
        for (int q = 0; q < m->w; q++)
            for (int s = 0; s < N_STREAMS; s++)
                total += advance(m, q, s, true) ? (uint64_t)m->rank[q].weight[s] : 0;
        if (total == 0) {
            m->run->fault = "deadlock: no rank can go on";
            return;
        }
        pick = next_random(m) % total;
        for (int k = 0; k < m->w * N_STREAMS; k++) {
            int q = k / N_STREAMS, s = k % N_STREAMS;
            uint64_t weight = advance(m, q, s, true) ? (uint64_t)m->rank[q].weight[s] : 0;
            if (pick < weight) {
                advance(m, q, s, false);
                m->run->events++;
                break;
            }
            pick -= weight;
        }
    }
}

/* ---- a run ----------------------------------------------------------------------- */

static int64_t staged_bytes(const Machine *m)
{
    int64_t most = m->p->bufs.items[interp_find_buffer(m, BUF_CONTROL, -1)].bytes;
    const int largest = interp_find_buffer(m, BUF_LARGEST, -1);
    for (int s = 0; s < m->g->segments.count; s++)
        most = max_i64(most, m->g->segments.items[s].shard_elems * 8);
    if (largest >= 0)
        most = max_i64(most, m->p->bufs.items[largest].bytes);
    return most * m->w;
}

static void make_rank(Machine *m, int rank)
{
    Gen *g = m->g;
    Rank *r = &m->rank[rank];
    for (int s = 0; s < N_SPACES; s++) {
        r->space[s] = gen_alloc(g, (size_t)m->p->space_bytes[s] + 64);
        memset(r->space[s], 0xff, (size_t)m->p->space_bytes[s]);
    }
    for (int s = 0; s < N_STREAMS; s++)
        r->staged[s] = gen_alloc(g, (size_t)staged_bytes(m));
    r->started = gen_alloc(g, (size_t)m->n + 1);
    r->done = gen_alloc(g, (size_t)m->n + 1);
    r->turn_left = gen_alloc(g, sizeof(int) * (size_t)(m->n_turns + 1));
    r->pending = gen_alloc(g, sizeof(int) * (size_t)(m->n_turns * m->p->bufs.count + 1));
    for (int b = 0; b < m->p->bufs.count; b++) {
        const Buffer *buf = &m->p->bufs.items[b];
        if (buf->persistent)
            memset(interp_at(m, rank, b), 0, (size_t)buf->bytes);
        if (buf->kind == BUF_CONST) {
            int k = b - interp_find_buffer(m, BUF_CONST, -1);
            memcpy(interp_at(m, rank, b), m->constants[k], (size_t)buf->bytes);
        }
    }
}

static void begin_step(Machine *m)
{
    for (int q = 0; q < m->w; q++) {
        Rank *r = &m->rank[q];
        memset(r->started, 0, (size_t)m->n);
        memset(r->done, 0, (size_t)m->n);
        memset(r->pending, 0, sizeof(int) * (size_t)(m->n_turns * m->p->bufs.count));
        memset(r->turn_left, 0, sizeof(int) * (size_t)m->n_turns);
        memset(r->compute_of, 0, sizeof r->compute_of);
        for (int e = 0; e < m->n; e++)
            r->turn_left[m->turn_of[e]] += instr(m, e)->stream == STREAM_COMPUTE;
        for (int t = 0; t < m->n_turns; t++) {
            r->compute_of[m->turn[t].variant] = r->turn_left[t];
            open_turn(m, q, t);
        }
        for (int s = 0; s < N_STREAMS; s++) {
            static const int weights[] = {1, 1, 16, 400};
            r->next[s] = m->stream_first[s];
            r->weight[s] = weights[next_random(m) % 4];
        }
        m->left += m->n;
    }
}

void interpret_steps(Gen *g, Interpretation *run)
{
    Machine m = {.g = g, .run = run, .p = &g->prog, .w = (int)g->model.mesh.world_size};
    m.random = interp_mix(run->seed + 1);
    gen_require(m.w <= 16, "%d simulated ranks", m.w);
    lay_trace(&m);
    m.constants = gen_alloc(g, sizeof(char *) * (size_t)(g->consts.count + 1));
    run->fault = run->setup ? run->setup(g, m.constants) : NULL;
    m.rank = gen_alloc(g, sizeof *m.rank * (size_t)m.w);
    for (int q = 0; q < m.w && !run->fault; q++) {
        make_rank(&m, q);
        interp_init_params(&m, q);
    }
    if (!run->fault)
        interp_encode_all(&m);
    for (m.step = 0; m.step < run->steps && !run->fault; m.step++) {
        begin_step(&m);
        run_events(&m);
    }
    run->state = gen_alloc(g, (size_t)(plan_params(g) * 32 + g->model.micro_batches * 8));
    for (int q = 0; q < m.w && !run->fault; q++) {
        unsigned char *before = run->state;
        run->state =
            gen_alloc(g, (size_t)(plan_params(g) * 32 + g->model.micro_batches * 8));
        run->state_bytes = interp_gather_state(&m, q);
        if (q > 0 && memcmp(before, run->state, run->state_bytes) != 0)
            run->fault = "ranks disagree about the weights";
    }
}

void interpret_spread(Gen *g)
{
    Program *p = &g->prog;
    memset(p->space_bytes, 0, sizeof p->space_bytes);
    for (int b = 0; b < p->bufs.count; b++) {
        Buffer *buf = &p->bufs.items[b];
        buf->offset_bytes = p->space_bytes[buf->space];
        p->space_bytes[buf->space] += round_up(buf->bytes, ARENA_ALIGN_BYTES);
    }
}
