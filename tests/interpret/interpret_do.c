/* SPDX-License-Identifier: Apache-2.0 */
/* interpret_do: what the instructions of a step do to the bytes of simulated ranks, in
 * plain C: merges and reductions in tree order, exact norms, an
 * optimizer that touches all of its state. Comes in: a machine and one of its
 * instructions. Goes out: changed bytes. When that happens is interpret.c's business. */
#include "interpret_machine.h"

#include <math.h>
#include <string.h>

static const Instr *instr(const Machine *m, int e)
{
    return &m->p->ins.items[m->ins[e]];
}

/* ---- numbers --------------------------------------------------------------------- */

static double load_f16(uint16_t x)
{
    int exponent = x >> 10 & 31;
    double size = exponent == 31 ? (x & 1023 ? NAN : INFINITY)
                  : exponent     ? ldexp(1024 + (x & 1023), exponent - 25)
                                 : ldexp(x & 1023, -24);
    return x & 0x8000 ? -size : size;
}

/* Nearest, even. Bits count places: those of 2^(e - 1) and up are 2^(e - 11) wide. */
static uint16_t store_f16(double v)
{
    double size = fabs(v);
    int e, bits = 0x7c00;
    if (isnan(v))
        return 0x7e00;
    if (size < 65520) {
        frexp(size, &e);
        e = e < -13 ? -13 : e; /* subnormal places are as wide as the first normal ones */
        bits = (e + 13) * 1024 + (int)nearbyint(ldexp(size, 11 - e));
    }
    return (uint16_t)(bits | (signbit(v) ? 0x8000 : 0));
}

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
    case DT_F16:
        return load_f16(((const uint16_t *)p)[i]);
    case DT_I32:
        return ((const int32_t *)p)[i];
    case DT_E4M3:
    case DT_E5M2:
        return interp_load_fp8(d, ((const uint8_t *)p)[i]);
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
    case DT_F16:
        ((uint16_t *)p)[i] = store_f16(v);
        return;
    case DT_I32:
        ((int32_t *)p)[i] = (int32_t)v;
        return;
    case DT_E4M3:
    case DT_E5M2:
        ((uint8_t *)p)[i] = interp_store_fp8(d, v);
        return;
    default:
        gen_die("dtype %s", dtype_name(d));
    }
}

uint64_t interp_mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * UINT64_C(0x7fb5d329728ea185);
    x = (x ^ (x >> 27)) * UINT64_C(0x81dadef4bc2dd44d);
    return x ^ (x >> 33);
}

/* ---- bytes of a rank ------------------------------------------------------------- */

char *interp_at(const Machine *m, int rank, int buffer)
{
    const Buffer *b = &m->p->bufs.items[buffer];
    return m->rank[rank].space[b->space] + b->offset_bytes;
}

/* All bytes 0xff are NaN in f64, f32 and bf16 alike. */
void interp_poison(const Machine *m, int rank, int buffer)
{
    memset(interp_at(m, rank, buffer), 0xff, (size_t)m->p->bufs.items[buffer].bytes);
}

/* ---- what instructions do -------------------------------------------------------- */

/* Leaves are numbered as they are summed, low bits first: within a copy, over rounds and
 * across copies; or over rounds first. */
int64_t interp_micro_batch(const Machine *m, int rank, const Turn *t)
{
    const RankBits low = m->g->segments.items[0].within;
    const int64_t high = group_index(m->g->model.mesh.data & ~low, rank);
    const int64_t part = group_index(low, rank), parts = group_ranks(low);
    int64_t leaf = m->g->model.accumulate_sharded
                       ? (high * m->p->rounds + t->round) * parts + part
                       : (high * parts + part) * m->p->rounds + t->round;
    return leaf * m->p->leaf_micro_batches + t->micro;
}

int interp_find_buffer(const Machine *m, BufKind kind, int segment)
{
    for (int b = 0; b < m->p->bufs.count; b++)
        if (m->p->bufs.items[b].kind == kind &&
            (segment < 0 || m->p->bufs.items[b].segment == segment))
            return b;
    return -1;
}

/* Random ids; where the model has them also masked targets (never all), and documents
 * that begin at random. */
void interp_load_data(Machine *m, int rank, const Turn *t)
{
    const Model *mod = &m->g->model;
    int64_t n = mod->micro_batch * mod->seq_tokens;
    uint64_t key =
        (uint64_t)(m->step * mod->micro_batches + interp_micro_batch(m, rank, t));
    bool packed = mod->packed, masked = packed || mod->loss_mask;
    int32_t *ids[N_DATA];
    int first = interp_find_buffer(m, BUF_DATA, -1);
    for (int b = 0; b < (packed ? DATA_ROW : DATA_STARTS); b++)
        ids[b] = (int32_t *)interp_at(m, rank, first + b);
    *(int32_t *)interp_at(m, rank, first + (packed ? DATA_ROW : DATA_STARTS)) =
        (int32_t)(key % (uint64_t)n);
    for (int64_t i = 0; i < n; i++) {
        int32_t at = (int32_t)(i % mod->seq_tokens);
        for (int b = 0; b < DATA_STARTS; b++) {
            ids[b][i] =
                (int32_t)(interp_mix(key * 131071 + (uint64_t)i * 2 + (uint64_t)b) %
                          (uint64_t)mod->vocab);
        }
        if (masked && i > 0 && ids[DATA_TARGETS][i] % 3 == 0)
            ids[DATA_TARGETS][i] = -1;
        if (packed) {
            ids[DATA_STARTS][i] = at == 0 ? 0
                                  : ids[DATA_TOKENS][i - 1] % 4 == 0
                                      ? at
                                      : ids[DATA_STARTS][i - 1];
        }
    }
}

static void run_merge(Machine *m, int rank, int e)
{
    const Instr *i = instr(m, e);
    const Turn *t = &m->turn[m->turn_of[e]];
    Dtype d = m->g->model.reduce_dtype;
    const Buffer *node_buf = &m->p->bufs.items[i->to];
    int64_t elems = node_buf->bytes / dtype_bytes(d);
    char *node = interp_at(m, rank, i->to), *partials = interp_at(m, rank, i->with);
    bool last = t->round == m->p->rounds - 1;
    if (!t->leaf_ends)
        return;
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

typedef struct NormRun {
    const char *grad;
    Dtype dtype;
    __int128 *sum;
} NormRun;

static void norm_run(void *ctx, const Run *run)
{
    const NormRun *x = ctx;
    for (int64_t k = 0; k < run->elems; k++) {
        double v = interp_load(x->dtype, x->grad, run->offset_elems + k);
        if (v * v < 0x1p20)
            *x->sum += (__int128)(v * v * 0x1p80);
        else /* NaN or nonsense: stands out, and cannot overflow */
            *x->sum = (__int128)1 << 118;
    }
}

/* Squares as integers of 2^-80: their sum knows no order. One word pair in the control
 * area. */
static void run_norm(Machine *m, int rank, const Instr *i)
{
    const Segment *s = &m->g->segments.items[i->segment];
    char *control = interp_at(m, rank, interp_find_buffer(m, BUF_CONTROL, -1));
    NormRun x = {interp_at(m, rank, i->from), m->g->model.reduce_dtype,
                 (__int128 *)(control + round_up(m->g->model.micro_batches * 8, 256))};
    bool first = group_index(layout_same(m->g, s), rank) == 0;
    for (int k = 0; k < s->n_params && first; k++) { /* the first copy counts */
        const Param *p = &m->g->params.items[s->params[k]];
        const Box box = layout_whole(p);
        layout_runs(m->g, p, &box, layout_of(s, rank), norm_run, &x);
    }
}

/* This rank's part of the weights, in the buffer of them. */
char *interp_param_part(const Machine *m, int rank, const Segment *s, int buffer)
{
    return interp_at(m, rank, buffer) + mesh_param_first(s, rank) * dtype_bytes(s->dtype);
}

/* A split master is the weight's bits and the 16 below them. */
double interp_load_master(const Model *m, const Segment *s, const char *param,
                          const char *main, int64_t k)
{
    uint16_t rest;
    uint32_t bits;
    float f;
    if (!segment_has_master(m, s))
        return interp_load(s->dtype, param, k);
    if (m->master_dtype != DT_SPLIT)
        return interp_load(m->master_dtype, main, k);
    rest = ((const uint16_t *)main)[k];
    bits = ((uint32_t)((const uint16_t *)param)[k] << 16) - (rest >> 15 << 16) + rest;
    memcpy(&f, &bits, sizeof f);
    return f;
}

void interp_store_master(const Model *m, const Segment *s, char *param, char *main,
                         int64_t k, double v)
{
    float f = (float)v;
    uint32_t bits;
    if (!segment_has_master(m, s)) {
        interp_store(s->dtype, param, k, v);
        return;
    }
    if (m->master_dtype != DT_SPLIT) {
        interp_store(m->master_dtype, main, k, v);
        interp_store(s->dtype, param, k, interp_load(m->master_dtype, main, k));
        return;
    }
    memcpy(&bits, &f, sizeof bits);
    ((uint16_t *)main)[k] = (uint16_t)bits;
    ((uint16_t *)param)[k] = (uint16_t)((bits + 0x8000) >> 16);
}

/* Where the second moment of element `flat` of the segment lies in its shard; -1: it has
 * none, nor is the element one of this instruction's. Pads are where there are no
 * matrices: with some, they have no place. */
int64_t interp_second_moment(const Machine *m, const Segment *s, int64_t flat)
{
    if (m->g->batches.count == 0)
        return flat % s->shard_elems;
    for (int i = 0; i < s->n_params; i++) {
        const Param *p = &m->g->params.items[s->params[i]];
        if (!p->matrix && layout_between(m->g, p, 0, flat, flat + 1))
            return nonmatrix_elems(m->g, s, flat);
    }
    return -1;
}

static void run_update(Machine *m, int rank, const Instr *i)
{
    const Segment *s = &m->g->segments.items[i->segment];
    const Model *mod = &m->g->model;
    const double *control =
        (const double *)interp_at(m, rank, interp_find_buffer(m, BUF_CONTROL, -1));
    int master = interp_find_buffer(m, BUF_MASTER, s->id),
        m1 = interp_find_buffer(m, BUF_MOMENT1, s->id);
    int m2 = interp_find_buffer(m, BUF_MOMENT2, s->id);
    char *param = interp_param_part(m, rank, s, i->to),
         *grad = interp_at(m, rank, i->from);
    double norm = control[round_up(mod->micro_batches * 8, 256) / 8 + 4];
    int64_t from = mesh_part(s, rank) * s->shard_elems;
    for (int64_t k = 0; k < s->shard_elems; k++) {
        double g = interp_load(mod->reduce_dtype, grad, k) / (1 + norm);
        char *main = master >= 0 ? interp_at(m, rank, master) : param;
        int64_t second = interp_second_moment(m, s, from + k);
        if (second < 0)
            continue;
        double v = interp_load_master(mod, s, param, main, k), a = 0, b = 0;
        if (m1 >= 0) {
            a = 0.9 * interp_load(mod->moments_dtype, interp_at(m, rank, m1), k) +
                0.1 * g;
            interp_store(mod->moments_dtype, interp_at(m, rank, m1), k, a);
        }
        if (m2 >= 0) {
            b = 0.95 * interp_load(mod->moments_dtype, interp_at(m, rank, m2), second) +
                0.05 * g * g;
            interp_store(mod->moments_dtype, interp_at(m, rank, m2), second, b);
        }
        v -= 0.01 * (m1 >= 0 ? a / (sqrt(b) + 1e-3) : g) + 1e-4 * v;
        interp_store_master(mod, s, param, main, k, v);
    }
}

/* This rank's part of the weights gathered for the forward, for the group's backward. */
static void run_keep(Machine *m, int rank, const Instr *i)
{
    const Segment *s = &m->g->segments.items[i->segment];
    size_t bytes = (size_t)m->p->bufs.items[i->to].bytes;
    int part = group_index(s->between, rank);
    memcpy(interp_at(m, rank, i->to), interp_at(m, rank, i->from) + (size_t)part * bytes,
           bytes);
}

/* ---- collectives ----------------------------------------------------------------- */

int interp_member(const Instr *i, int rank, int k)
{
    return group_rank(i->group, rank, k);
}

bool interp_joins(const Instr *i, int rank, int other)
{
    return group_joins(i->group, rank, other);
}

void interp_begin_collective(Machine *m, int rank, int e)
{
    const Instr *i = instr(m, e);
    m->rank[rank].started[e] = true;
    m->rank[rank].read_mask[i->stream] = 0;
    if (i->to >= 0 && i->to != i->from)
        interp_poison(m, rank, i->to);
}

void interp_read_peer(Machine *m, int rank, int e, int peer)
{
    const Instr *i = instr(m, e);
    Rank *r = &m->rank[rank];
    size_t k = (size_t)group_index(i->group, peer);
    r->read_mask[i->stream] |= UINT64_C(1) << peer;
    if (i->batch >= 0) {
        interp_read_matrices(m, rank, i, peer);
    } else if (i->kind == INS_GATHER_UPDATED) {
        size_t bytes = (size_t)(i->elems * dtype_bytes(i->dtype));
        memmove(interp_at(m, rank, i->to) + k * bytes,
                interp_at(m, peer, i->from) + k * bytes, bytes);
    } else if (i->kind == INS_ALL_GATHER) {
        size_t bytes = (size_t)(i->elems * dtype_bytes(i->dtype));
        memcpy(interp_at(m, rank, i->to) + k * bytes, interp_at(m, peer, i->from), bytes);
    } else if (i->kind == INS_NORM_REDUCE) {
        size_t bytes =
            (size_t)m->p->bufs.items[interp_find_buffer(m, BUF_CONTROL, -1)].bytes;
        memcpy(r->staged[i->stream] + (size_t)peer * bytes,
               interp_at(m, peer, interp_find_buffer(m, BUF_CONTROL, -1)), bytes);
    } else if (i->kind == INS_LARGEST_REDUCE) {
        int largest = interp_find_buffer(m, BUF_LARGEST, -1);
        size_t bytes = (size_t)m->p->bufs.items[largest].bytes;
        memcpy(r->staged[i->stream] + (size_t)peer * bytes, interp_at(m, peer, largest),
               bytes);
    } else {
        size_t bytes = (size_t)(i->elems * dtype_bytes(i->dtype));
        size_t part =
            i->kind == INS_REDUCE_SCATTER ? (size_t)group_index(i->group, rank) : 0;
        memcpy(r->staged[i->stream] + k * bytes,
               interp_at(m, peer, i->from) + part * bytes, bytes);
    }
}

/* One rank after the other, rounded once; partial sums in f32, or f64 of f64. */
static double sum_in_order(int ranks, Dtype d, const char *staged, int64_t elems,
                           int64_t k)
{
    double sum = interp_load(d, staged, k);
    for (int q = 1; q < ranks; q++) {
        sum += interp_load(d, staged, q * elems + k);
        sum = d == DT_F64 ? sum : (float)sum;
    }
    return sum;
}

/* The balanced tree over the group, every node rounded. Uses up what is staged. */
static double sum_tree(int ranks, Dtype d, char *staged, int64_t elems, int64_t k)
{
    for (int width = 1; width < ranks; width *= 2) {
        for (int q = 0; q < ranks; q += 2 * width) {
            interp_store(d, staged, q * elems + k,
                         interp_load(d, staged, q * elems + k) +
                             interp_load(d, staged, (q + width) * elems + k));
        }
    }
    return interp_load(d, staged, k);
}

static void sum_ranks(Machine *m, int rank, const Instr *i)
{
    Dtype d = i->dtype;
    char *staged = m->rank[rank].staged[i->stream], *result = interp_at(m, rank, i->to);
    for (int64_t k = 0; k < i->elems; k++) {
        interp_store(d, result, k,
                     i->order == ORDER_LIBRARY
                         ? sum_in_order(group_ranks(i->group), d, staged, i->elems, k)
                         : sum_tree(group_ranks(i->group), d, staged, i->elems, k));
    }
}

static void sum_control(Machine *m, int rank)
{
    const Model *mod = &m->g->model;
    int control = interp_find_buffer(m, BUF_CONTROL, -1);
    size_t bytes = (size_t)m->p->bufs.items[control].bytes;
    char *own = interp_at(m, rank, control),
         *staged = m->rank[rank].staged[STREAM_COMPUTE];
    size_t words = (size_t)round_up(mod->micro_batches * 8, 256);
    __int128 sum = 0;
    for (int q = 0; q < m->w; q++) {
        __int128 part;
        memcpy(&part, staged + (size_t)q * bytes + words, sizeof part);
        sum += part;
        for (int t = 0; t + 1 < m->n_turns; t++) {
            int64_t k = interp_micro_batch(m, q, &m->turn[t]);
            memcpy(own + k * 8, staged + (size_t)q * bytes + (size_t)k * 8, 8);
        }
    }
    ((double *)(own + words))[4] = sqrt((double)sum * 0x1p-80);
    memset(own + words, 0, sizeof sum); /* ready for the next step */
}

static void run_close(Machine *m, int rank, const Instr *i)
{
    (void)m, (void)rank, (void)i; /* only waits */
}

/* What each kind does is the interpreter's own, on purpose: kinds.c says which operands
 * an instruction touches, and this is what those claims are tried against. */
void interp_compute(Machine *m, int rank, int e)
{
    static void (*const run[N_INS_KINDS])(Machine * m, int rank, const Instr *i) = {
        [INS_KEEP] = run_keep,        [INS_NORM] = run_norm,
        [INS_UPDATE] = run_update,    [INS_MOMENTUM] = interp_momentum,
        [INS_STEP] = interp_step,     [INS_MATRICES] = interp_matrices,
        [INS_CLOSE] = run_close,      [INS_LARGEST] = interp_largest,
        [INS_ENCODE] = interp_encode,
    };
    static void (*const run_turn[N_INS_KINDS])(Machine * m, int rank, int e) = {
        [INS_SPAN] = interp_run_span, [INS_MERGE] = run_merge};
    const Instr *i = instr(m, e);
    if (run_turn[i->kind]) { /* what it does depends on the turn of the loops */
        run_turn[i->kind](m, rank, e);
        return;
    }
    gen_require(run[i->kind], "%s is a collective", ins_rule(i->kind)->name);
    run[i->kind](m, rank, i);
}

void interp_end_collective(Machine *m, int rank, int e)
{
    const Instr *i = instr(m, e);
    if (i->kind == INS_NORM_REDUCE)
        sum_control(m, rank);
    else if (i->kind == INS_LARGEST_REDUCE)
        interp_scales(m, rank);
    else if (i->order != ORDER_NONE)
        sum_ranks(m, rank, i);
    if (i->kind == INS_REDUCE_SCATTER && mesh_two_hops(m->g, i->group))
        interp_poison(m, rank, i->from); /* the first hop has left its sums there */
}
