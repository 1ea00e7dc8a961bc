/* SPDX-License-Identifier: Apache-2.0 */
/* interpret: the proof that a plan is sound, by running it wrong on purpose in every way that
 * the schedule allows.
 *
 * Comes in: a Gen after place, and a function for the mathematics of a span. W ranks are
 * simulated, each with its byte arenas at the planned offsets. Instructions run as events in
 * a random order: of all that stream order, waits and collectives allow next, one is chosen by
 * a seeded generator that also makes some ranks and streams much slower than others. A
 * collective starts, reads each peer at a time of its own, and completes. Whatever is dead is
 * filled with NaN: transient buffers before their first write and after their last access,
 * destinations while a collective is under way, scratch before each span. Goes out: the
 * weights, masters, moments and losses after some steps, to be compared bit by bit with those
 * of another layout; any byte used too early, too late or by two shows up there. */
#include "interpret.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------- */

double interp_load(Dtype d, const void *p, int64_t i)
{
    switch (d) {
    case DT_F64:
        return ((const double *)p)[i];
    case DT_F32:
        return ((const float *)p)[i];
    case DT_BF16: {
        uint32_t bits = (uint32_t)((const uint16_t *)p)[i] << 16;
        float f;
        memcpy(&f, &bits, sizeof f);
        return f;
    }
    case DT_I32:
        return ((const int32_t *)p)[i];
    default:
        gen_die("dtype %s", dtype_name(d));
    }
}

void interp_store(Dtype d, void *p, int64_t i, double v)
{
    switch (d) {
    case DT_F64:
        ((double *)p)[i] = v;
        return;
    case DT_F32:
        ((float *)p)[i] = (float)v;
        return;
    case DT_BF16: {
        float f = (float)v; /* callers hold f32 values: one rounding */
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        bits = isnan(f) ? 0x7fc00000 : bits + 0x7fff + (bits >> 16 & 1);
        ((uint16_t *)p)[i] = (uint16_t)(bits >> 16);
        return;
    }
    case DT_I32:
        ((int32_t *)p)[i] = (int32_t)v;
        return;
    default:
        gen_die("dtype %s", dtype_name(d));
    }
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * UINT64_C(0x7fb5d329728ea185);
    x = (x ^ (x >> 27)) * UINT64_C(0x81dadef4bc2dd44d);
    return x ^ (x >> 33);
}

/* ---- the machine ------------------------------------------------------------------------------- */

typedef struct Turn { /* one run of a variant in the step's loops */
    int variant, base;
    int64_t round, micro; /* of the rank's leaves; micro-batch in its leaf */
    bool leaf_ends;
} Turn;

typedef struct Rank {
    char *space[N_SPACES];
    int next[N_STREAMS];      /* trace element that is next on the stream, -1: none */
    bool *started, *done;     /* per trace element */
    uint64_t read_mask[N_STREAMS]; /* peers that the collective under way has read */
    char *staged[N_STREAMS];  /* what a reduction has read: [rank][elems] */
    int weight[N_STREAMS];    /* how likely its events are chosen */
    int compute_of[N_VARIANTS]; /* compute instructions of a turn */
    int *turn_left;           /* per turn: compute instructions not done */
    int *pending;             /* per transient buffer: accesses of this turn still to come */
} Rank;

typedef struct Machine {
    Gen *g;
    Interpretation *run;
    const Program *p;
    int w;
    int n_turns;
    Turn *turn;
    int n;                    /* trace elements */
    int *ins, *turn_of;
    int *after;               /* next element on the same stream, -1 */
    int stream_first[N_STREAMS];
    Rank *rank;
    uint64_t random;
    char **constants;
    int64_t step;
    int left;
} Machine;

static uint64_t next_random(Machine *m)
{
    m->random += UINT64_C(0x9e3779b97f4a7c15);
    return mix(m->random);
}

static char *at(const Machine *m, int rank, int buffer)
{
    const Buffer *b = &m->p->bufs.items[buffer];
    return m->rank[rank].space[b->space] + b->offset_bytes;
}

/* All bytes 0xff are NaN in f64, f32 and bf16 alike. */
static void poison(const Machine *m, int rank, int buffer)
{
    memset(at(m, rank, buffer), 0xff, (size_t)m->p->bufs.items[buffer].bytes);
}

static void add_turn(Machine *m, int variant, int64_t round, int64_t micro, bool leaf_ends)
{
    Turn *t = &m->turn[m->n_turns++];
    *t = (Turn){variant, m->n, round, micro, leaf_ends};
    m->n += m->p->count[variant];
}

static void plan_turns(Machine *m)
{
    const Program *p = m->p;
    int64_t leaf = p->leaf_micro_batches, total = p->rounds * leaf;
    m->turn = gen_alloc(m->g, sizeof *m->turn * (size_t)(total + 2));
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
    for (int s = 0; s < N_STREAMS; s++) {
        m->stream_first[s] = -1;
    }
    for (int t = 0; t < m->n_turns; t++) {
        for (int k = 0; k < m->p->count[m->turn[t].variant]; k++) {
            int e = m->turn[t].base + k;
            int s;
            m->ins[e] = m->p->first[m->turn[t].variant] + k;
            m->turn_of[e] = t;
            m->after[e] = -1;
            s = (int)m->p->ins.items[m->ins[e]].stream;
            if (last[s] < 0) {
                m->stream_first[s] = e;
            } else {
                m->after[last[s]] = e;
            }
            last[s] = e;
        }
    }
}

static const Instr *instr(const Machine *m, int e)
{
    return &m->p->ins.items[m->ins[e]];
}

/* ---- lives of transient buffers ------------------------------------------------------------------ */

/* Counts the accesses that a turn will make to each buffer of a rank: its own, and by peers. */
static void open_turn(Machine *m, int rank, int turn)
{
    const Program *p = m->p;
    int v = m->turn[turn].variant;
    for (int id = p->first[v]; id < p->first[v] + p->count[v]; id++) {
        for (int a = 0; a < p->ins.items[id].n_access; a++) {
            const Access *acc = &p->ins.items[id].access[a];
            m->rank[rank].pending[turn * p->bufs.count + acc->buffer] +=
                acc->remote ? m->w - 1 : 1;
        }
    }
}

static void count_down(Machine *m, int rank, int turn, int buffer)
{
    int *left = &m->rank[rank].pending[turn * m->p->bufs.count + buffer];
    if (--*left == 0 && !m->p->bufs.items[buffer].persistent) {
        poison(m, rank, buffer);
    }
}

static void finish(Machine *m, int rank, int e)
{
    const Instr *i = instr(m, e);
    Rank *r = &m->rank[rank];
    r->done[e] = true;
    r->next[i->stream] = m->after[e];
    m->left--;
    if (i->stream == STREAM_COMPUTE) {
        r->turn_left[m->turn_of[e]]--;
    }
    for (int a = 0; a < i->n_access; a++) {
        for (int q = 0; q < m->w; q++) {
            if (i->access[a].remote ? q != rank : q == rank) {
                count_down(m, q, m->turn_of[e], i->access[a].buffer);
            }
        }
    }
}

/* ---- what instructions do ------------------------------------------------------------------------- */

static int64_t micro_batch_index(const Machine *m, int rank, const Turn *t)
{
    int64_t leaf = m->g->model.accumulate_sharded ? t->round * m->w + rank
                                                  : rank * m->p->rounds + t->round;
    return leaf * m->p->leaf_micro_batches + t->micro;
}

static int find_buffer(const Machine *m, BufKind kind, int segment)
{
    for (int b = 0; b < m->p->bufs.count; b++) {
        if (m->p->bufs.items[b].kind == kind &&
            (segment < 0 || m->p->bufs.items[b].segment == segment)) {
            return b;
        }
    }
    return -1;
}

static void load_data(Machine *m, int rank, const Turn *t)
{
    const Model *mod = &m->g->model;
    int64_t n = mod->micro_batch * mod->seq_tokens;
    uint64_t key = (uint64_t)(m->step * mod->micro_batches + micro_batch_index(m, rank, t));
    int first = find_buffer(m, BUF_DATA, -1);
    for (int b = 0; b < 2; b++) { /* tokens, targets */
        int32_t *ids = (int32_t *)at(m, rank, first + b);
        for (int64_t i = 0; i < n; i++) {
            ids[i] = (int32_t)(mix(key * 131071 + (uint64_t)i * 2 + (uint64_t)b) %
                               (uint64_t)mod->vocab);
        }
    }
}

static void bind_call(Machine *m, int rank, const Instr *i, const Turn *t, SpanCall *c)
{
    for (int k = 0; k < m->p->n_bindings; k++) {
        const struct Binding *b = &m->p->bindings[k];
        if (b->ins != i->id) {
            continue;
        }
        if (b->grad) {
            c->grad[b->param] = at(m, rank, b->buffer) + b->offset_bytes;
            c->grad_add[b->param] = b->add || t->micro > 0;
        } else {
            c->weight[b->param] = at(m, rank, b->buffer) + b->offset_bytes;
        }
    }
    for (int k = 0; k < MAX_DIMS; k++) {
        c->in[k] = i->in >= 0 ? at(m, rank, i->in + k) : NULL;
        c->out[k] = i->out >= 0 ? at(m, rank, i->out + k) : NULL;
        c->d_in[k] = i->d_in >= 0 ? at(m, rank, i->d_in + k) : NULL;
        c->d_out[k] = i->d_out >= 0 ? at(m, rank, i->d_out + k) : NULL;
        if (k + 1 >= c->cls->n_outputs && k + 1 >= c->cls->n_inputs) {
            break;
        }
    }
}

static void run_span(Machine *m, int rank, int e)
{
    const Instr *i = instr(m, e);
    const Turn *t = &m->turn[m->turn_of[e]];
    Gen *g = m->g;
    SpanCall c = {.g = g, .rank = rank, .block = i->block};
    int control = find_buffer(m, BUF_CONTROL, -1), tokens = find_buffer(m, BUF_DATA, -1);
    const char *bad;
    c.cls = g->blocks.items[i->block].cls;
    c.span = i->phase == PHASE_FORWARD ? &c.cls->forward : &c.cls->backward;
    c.weight = gen_alloc(g, sizeof *c.weight * (size_t)(c.cls->params.count + 1));
    c.grad = gen_alloc(g, sizeof *c.grad * (size_t)(c.cls->params.count + 1));
    c.grad_add = gen_alloc(g, (size_t)c.cls->params.count + 1);
    bind_call(m, rank, i, t, &c);
    c.constant = (const char **)m->constants;
    c.data[0] = (const int32_t *)at(m, rank, tokens);
    c.data[1] = (const int32_t *)at(m, rank, tokens + 1);
    c.loss = (double *)at(m, rank, control) + micro_batch_index(m, rank, t);
    c.saved = i->saved >= 0 ? at(m, rank, i->saved) : NULL;
    c.scratch = i->scratch >= 0 ? at(m, rank, i->scratch) : NULL;
    if (c.scratch) {
        poison(m, rank, i->scratch);
    }
    bad = m->run->span(m->run->ctx, &c);
    if (bad && !m->run->fault) {
        m->run->fault = bad;
    }
}

static void run_merge(Machine *m, int rank, int e)
{
    const Instr *i = instr(m, e);
    const Turn *t = &m->turn[m->turn_of[e]];
    Dtype d = m->g->model.reduce_dtype;
    const Buffer *node_buf = &m->p->bufs.items[i->result];
    int64_t elems = node_buf->bytes / dtype_bytes(d);
    char *node = at(m, rank, i->result), *partials = at(m, rank, i->grad);
    bool last = t->round == m->p->rounds - 1;
    if (!t->leaf_ends) {
        return;
    }
    for (int64_t k = 0; k < elems; k++) {
        double v = interp_load(d, node, k);
        int level = 0;
        for (; t->round >> level & 1; level++) {
            double sum = interp_load(d, partials, level * elems + k) + v;
            char rounded[8];
            interp_store(d, rounded, 0, sum);
            v = interp_load(d, rounded, 0);
        }
        interp_store(d, last ? node : partials, last ? k : level * elems + k, v);
    }
}

/* Squares as integers of 2^-80: their sum knows no order. One word pair in the control area. */
static void run_norm(Machine *m, int rank, const Instr *i)
{
    const Segment *s = &m->g->segments.items[i->segment];
    Dtype d = m->g->model.reduce_dtype;
    const char *grad = at(m, rank, i->grad);
    __int128 *sum = (__int128 *)(at(m, rank, find_buffer(m, BUF_CONTROL, -1)) +
                                 round_up(m->g->model.micro_batches * 8, 256));
    int64_t from = s->shards == 1 ? 0 : rank * s->shard_elems;
    for (int k = 0; k < s->n_params; k++) {
        const Param *p = &m->g->params.items[s->params[k]];
        for (int64_t q = 0; q < p->elems; q++) {
            int64_t flat = p->offset_elems + q - from;
            if (flat >= 0 && flat < s->shard_elems && (s->shards > 1 || rank == 0)) {
                double v = interp_load(d, grad, flat);
                *sum += isnan(v) ? (__int128)1 << 120 : (__int128)(v * v * 0x1p80);
            }
        }
    }
}

static void run_update(Machine *m, int rank, const Instr *i)
{
    const Segment *s = &m->g->segments.items[i->segment];
    const Model *mod = &m->g->model;
    const double *control = (const double *)at(m, rank, find_buffer(m, BUF_CONTROL, -1));
    int master = find_buffer(m, BUF_MASTER, s->id), m1 = find_buffer(m, BUF_MOMENT1, s->id);
    int m2 = find_buffer(m, BUF_MOMENT2, s->id);
    char *param = at(m, rank, i->result), *grad = at(m, rank, i->grad);
    double norm = control[round_up(mod->micro_batches * 8, 256) / 8 + 4];
    for (int64_t k = 0; k < s->shard_elems; k++) {
        double g = interp_load(mod->reduce_dtype, grad, k) / (1 + norm);
        char *main = master >= 0 ? at(m, rank, master) : param;
        double v = interp_load(mod->master_dtype, main, k), a = 0, b = 0;
        if (m1 >= 0) {
            a = 0.9 * interp_load(mod->moments_dtype, at(m, rank, m1), k) + 0.1 * g;
            interp_store(mod->moments_dtype, at(m, rank, m1), k, a);
        }
        if (m2 >= 0) {
            b = 0.95 * interp_load(mod->moments_dtype, at(m, rank, m2), k) + 0.05 * g * g;
            interp_store(mod->moments_dtype, at(m, rank, m2), k, b);
        }
        v -= 0.01 * (m1 >= 0 ? a / (sqrt(b) + 1e-3) : g) + 1e-4 * v;
        interp_store(mod->master_dtype, main, k, v);
        v = interp_load(mod->master_dtype, main, k);
        interp_store(mod->param_dtype, param, k, v);
    }
}

/* ---- collectives ---------------------------------------------------------------------------------- */

static void start_collective(Machine *m, int rank, int e)
{
    const Instr *i = instr(m, e);
    m->rank[rank].started[e] = true;
    m->rank[rank].read_mask[i->stream] = 0;
    if (i->kind == INS_ALL_GATHER) {
        poison(m, rank, i->gathered);
    } else if (i->kind != INS_NORM_REDUCE) {
        poison(m, rank, i->result);
    }
}

static void read_peer(Machine *m, int rank, int e, int peer)
{
    const Instr *i = instr(m, e);
    Rank *r = &m->rank[rank];
    const Segment *s = i->segment >= 0 ? &m->g->segments.items[i->segment] : NULL;
    r->read_mask[i->stream] |= UINT64_C(1) << peer;
    if (i->kind == INS_ALL_GATHER) {
        size_t bytes = (size_t)(s->shard_elems * dtype_bytes(m->g->model.param_dtype));
        memcpy(at(m, rank, i->gathered) + (size_t)peer * bytes,
               at(m, peer, find_buffer(m, BUF_PARAM_SHARD, s->id)), bytes);
    } else if (i->kind == INS_NORM_REDUCE) {
        size_t bytes = (size_t)m->p->bufs.items[find_buffer(m, BUF_CONTROL, -1)].bytes;
        memcpy(r->staged[i->stream] + (size_t)peer * bytes,
               at(m, peer, find_buffer(m, BUF_CONTROL, -1)), bytes);
    } else {
        size_t bytes = (size_t)(s->shard_elems * dtype_bytes(m->g->model.reduce_dtype));
        memcpy(r->staged[i->stream] + (size_t)peer * bytes,
               at(m, peer, i->grad) + (s->shards > 1 ? (size_t)rank * bytes : 0), bytes);
    }
}

/* The balanced tree over ranks, every node rounded. */
static void sum_tree(Machine *m, int rank, const Instr *i)
{
    const Segment *s = &m->g->segments.items[i->segment];
    Dtype d = m->g->model.reduce_dtype;
    char *staged = m->rank[rank].staged[i->stream], *result = at(m, rank, i->result);
    for (int64_t k = 0; k < s->shard_elems; k++) {
        for (int width = 1; width < m->w; width *= 2) {
            for (int q = 0; q < m->w; q += 2 * width) {
                interp_store(d, staged, q * s->shard_elems + k,
                             interp_load(d, staged, q * s->shard_elems + k) +
                                 interp_load(d, staged, (q + width) * s->shard_elems + k));
            }
        }
        interp_store(d, result, k, interp_load(d, staged, k));
    }
}

static void sum_control(Machine *m, int rank)
{
    const Model *mod = &m->g->model;
    int control = find_buffer(m, BUF_CONTROL, -1);
    size_t bytes = (size_t)m->p->bufs.items[control].bytes;
    char *own = at(m, rank, control), *staged = m->rank[rank].staged[STREAM_COMPUTE];
    size_t words = (size_t)round_up(mod->micro_batches * 8, 256);
    __int128 sum = 0;
    for (int q = 0; q < m->w; q++) {
        __int128 part;
        memcpy(&part, staged + (size_t)q * bytes + words, sizeof part);
        sum += part;
        for (int t = 0; t + 1 < m->n_turns; t++) {
            int64_t k = micro_batch_index(m, q, &m->turn[t]);
            memcpy(own + k * 8, staged + (size_t)q * bytes + (size_t)k * 8, 8);
        }
    }
    ((double *)(own + words))[4] = sqrt((double)sum * 0x1p-80);
    memset(own + words, 0, sizeof sum); /* ready for the next step */
}

/* ---- events ----------------------------------------------------------------------------------------- */

static bool may_start(const Machine *m, int rank, int e)
{
    const Instr *i = instr(m, e);
    const Rank *r = &m->rank[rank];
    int t = m->turn_of[e];
    if (i->variant != VARIANT_END && t > 0 && r->turn_left[t - 1] > 0) {
        return false;
    }
    for (int w = 0; w < i->n_waits; w++) {
        const Instr *on = &m->p->ins.items[i->waits[w]];
        int turn = on->variant == i->variant ? t : t - 1;
        if (!r->done[m->turn[turn].base + on->id - m->p->first[on->variant]]) {
            return false;
        }
    }
    return true;
}

static bool all_ranks(const Machine *m, int e, bool read)
{
    int s = (int)instr(m, e)->stream;
    for (int q = 0; q < m->w; q++) {
        const Rank *r = &m->rank[q];
        bool yes = read ? r->done[e] ||
                              (r->started[e] &&
                               r->read_mask[s] == (UINT64_C(1) << m->w) - 1)
                        : r->started[e];
        if (!yes) {
            return false;
        }
    }
    return true;
}

static void run_compute(Machine *m, int rank, int e)
{
    const Instr *i = instr(m, e);
    Rank *r = &m->rank[rank];
    r->started[e] = true;
    if (i->variant != VARIANT_END &&
        r->turn_left[m->turn_of[e]] == r->compute_of[i->variant]) { /* its turn's first */
        load_data(m, rank, &m->turn[m->turn_of[e]]);
    }
    switch (i->kind) {
    case INS_SPAN:
        run_span(m, rank, e);
        break;
    case INS_MERGE:
        run_merge(m, rank, e);
        break;
    case INS_NORM:
        run_norm(m, rank, i);
        break;
    case INS_UPDATE:
        run_update(m, rank, i);
        break;
    default:
        gen_die("instruction kind %d is a collective", (int)i->kind);
    }
    finish(m, rank, e);
}

/* A collective under way: reads one more peer, or completes. */
static bool advance_collective(Machine *m, int rank, int e, bool look)
{
    const Instr *i = instr(m, e);
    Rank *r = &m->rank[rank];
    uint64_t full = (UINT64_C(1) << m->w) - 1;
    if (r->read_mask[i->stream] != full) {
        if (!all_ranks(m, e, false)) {
            return false;
        }
        if (!look) {
            int peer = (int)(next_random(m) % (uint64_t)m->w);
            while (r->read_mask[i->stream] >> peer & 1) {
                peer = (peer + 1) % m->w;
            }
            read_peer(m, rank, e, peer);
        }
        return true;
    }
    /* The runtime's exchange area orders itself: it is left by all ranks together. */
    if (i->kind == INS_NORM_REDUCE && !all_ranks(m, e, true)) {
        return false;
    }
    if (!look) {
        if (i->kind == INS_NORM_REDUCE) {
            sum_control(m, rank);
        } else if (i->kind != INS_ALL_GATHER) {
            sum_tree(m, rank, i);
        }
        finish(m, rank, e);
    }
    return true;
}

/* Does the next thing that rank's stream can do, or only looks whether there is one. */
static bool advance(Machine *m, int rank, int stream, bool look)
{
    Rank *r = &m->rank[rank];
    int e = r->next[stream];
    if (e < 0) {
        return false;
    }
    if (r->started[e]) {
        return advance_collective(m, rank, e, look);
    }
    if (!may_start(m, rank, e)) {
        return false;
    }
    if (!look && ins_is_collective(instr(m, e))) {
        start_collective(m, rank, e);
    } else if (!look) {
        run_compute(m, rank, e);
    }
    return true;
}

static void run_events(Machine *m)
{
    while (m->left > 0 && !m->run->fault) {
        uint64_t total = 0, pick;
        for (int q = 0; q < m->w; q++) {
            for (int s = 0; s < N_STREAMS; s++) {
                total += advance(m, q, s, true) ? (uint64_t)m->rank[q].weight[s] : 0;
            }
        }
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

/* ---- a run ---------------------------------------------------------------------------------------------- */

static int64_t staged_bytes(const Machine *m)
{
    int64_t most = m->p->bufs.items[find_buffer(m, BUF_CONTROL, -1)].bytes;
    for (int s = 0; s < m->g->segments.count; s++) {
        most = max_i64(most, m->g->segments.items[s].shard_elems * 8);
    }
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
    for (int s = 0; s < N_STREAMS; s++) {
        r->staged[s] = gen_alloc(g, (size_t)staged_bytes(m));
    }
    r->started = gen_alloc(g, (size_t)m->n + 1);
    r->done = gen_alloc(g, (size_t)m->n + 1);
    r->turn_left = gen_alloc(g, sizeof(int) * (size_t)(m->n_turns + 1));
    r->pending = gen_alloc(g, sizeof(int) * (size_t)(m->n_turns * m->p->bufs.count + 1));
    for (int b = 0; b < m->p->bufs.count; b++) {
        const Buffer *buf = &m->p->bufs.items[b];
        if (buf->persistent) {
            memset(at(m, rank, b), 0, (size_t)buf->bytes);
        }
        if (buf->kind == BUF_CONST) {
            int k = b - find_buffer(m, BUF_CONST, -1);
            memcpy(at(m, rank, b), m->constants[k], (size_t)buf->bytes);
        }
    }
}

/* Weights that depend on parameter and element only. */
static void init_params(Machine *m, int rank)
{
    const Model *mod = &m->g->model;
    for (int i = 0; i < m->g->params.count; i++) {
        const Param *p = &m->g->params.items[i];
        const Segment *s = &m->g->segments.items[p->segment];
        int master = find_buffer(m, BUF_MASTER, s->id);
        int shard = find_buffer(m, BUF_PARAM_SHARD, s->id);
        int64_t from = s->shards == 1 ? 0 : rank * s->shard_elems;
        for (int64_t k = 0; k < p->elems; k++) {
            int64_t flat = p->offset_elems + k - from;
            uint64_t h = mix(((uint64_t)i << 32) + (uint64_t)k);
            double v = ((double)(h >> 40) * 0x1p-24 - 0.5) * 0.5;
            if (p->decl->n_dims == 1) {
                v = 1 + v; /* norms */
            }
            if (flat < 0 || flat >= s->shard_elems) {
                continue;
            }
            if (master >= 0) {
                interp_store(mod->master_dtype, at(m, rank, master), flat, v);
            }
            interp_store(mod->param_dtype, at(m, rank, shard), flat, v);
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
        for (int e = 0; e < m->n; e++) {
            r->turn_left[m->turn_of[e]] += instr(m, e)->stream == STREAM_COMPUTE;
        }
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

static void put_state(Machine *m, size_t *n, int rank, int kind, const Param *p, Dtype d)
{
    const Segment *s = &m->g->segments.items[p->segment];
    int b = find_buffer(m, (BufKind)kind, p->segment);
    for (int64_t k = 0; b >= 0 && k < p->elems; k++) {
        int64_t flat = p->offset_elems + k;
        int owner = s->shards == 1 ? rank : (int)(flat / s->shard_elems);
        memcpy(m->run->state + *n,
               at(m, owner, b) + (flat % s->shard_elems) * dtype_bytes(d),
               (size_t)dtype_bytes(d));
        *n += (size_t)dtype_bytes(d);
    }
}

/* The state as rank sees it (sharded parts: their owners). */
static size_t gather_state(Machine *m, int rank)
{
    const Model *mod = &m->g->model;
    size_t n = 0;
    for (int i = 0; i < m->g->params.count; i++) {
        const Param *p = &m->g->params.items[i];
        put_state(m, &n, rank, BUF_PARAM_SHARD, p, mod->param_dtype);
        put_state(m, &n, rank, BUF_MASTER, p, mod->master_dtype);
        put_state(m, &n, rank, BUF_MOMENT1, p, mod->moments_dtype);
        put_state(m, &n, rank, BUF_MOMENT2, p, mod->moments_dtype);
    }
    memcpy(m->run->state + n, at(m, rank, find_buffer(m, BUF_CONTROL, -1)),
           (size_t)mod->micro_batches * 8);
    return n + (size_t)mod->micro_batches * 8;
}

void interpret_steps(Gen *g, Interpretation *run)
{
    Machine m = {.g = g, .run = run, .p = &g->prog, .w = (int)g->model.world_size};
    m.random = mix(run->seed + 1);
    gen_require(m.w <= 16, "%d simulated ranks", m.w);
    lay_trace(&m);
    m.constants = gen_alloc(g, sizeof(char *) * (size_t)(g->consts.count + 1));
    run->fault = run->setup ? run->setup(g, m.constants) : NULL;
    m.rank = gen_alloc(g, sizeof *m.rank * (size_t)m.w);
    for (int q = 0; q < m.w && !run->fault; q++) {
        make_rank(&m, q);
        init_params(&m, q);
    }
    for (m.step = 0; m.step < run->steps && !run->fault; m.step++) {
        begin_step(&m);
        run_events(&m);
    }
    run->state = gen_alloc(g, (size_t)(plan_params(g) * 32 + g->model.micro_batches * 8));
    for (int q = 0; q < m.w && !run->fault; q++) {
        unsigned char *before = run->state;
        run->state = gen_alloc(g, (size_t)(plan_params(g) * 32 + g->model.micro_batches * 8));
        run->state_bytes = gather_state(&m, q);
        if (q > 0 && memcmp(before, run->state, run->state_bytes) != 0) {
            run->fault = "ranks disagree about the weights";
        }
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
