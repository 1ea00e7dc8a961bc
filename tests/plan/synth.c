/* SPDX-License-Identifier: Apache-2.0 */
/* synth: blocks, classes and spans made by C code, without ops and Lua: what the planning
 * passes (shard .. simulate) look at, and nothing else. Comes in: a shape and a mesh,
 * both random from a seed if wanted. Goes out: a Gen as it is after span.
 *
 * The mathematics of a synthetic span is a hash: each output element is drawn from a hash
 * of all bytes of all inputs. So one wrong byte anywhere changes every later result. */
#include "synth.h"

#include <stdlib.h>
#include <string.h>

uint64_t synth_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static int64_t pick(uint64_t *state, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(synth_random(state) % (uint64_t)(hi - lo + 1));
}

Gen *synth_new(void)
{
    Gen *g = calloc(1, sizeof *g);
    gen_require(g, "out of memory");
    g->model.target = target_named("cpu");
    g->model.rates = g->model.target->rates;
    return g;
}

/* The arena belongs to base.c and ends with the process; only the Gen itself goes. */
void synth_free(Gen *g)
{
    free(g);
}

/* ---- classes --------------------------------------------------------------------- */

static Value *new_value(Gen *g, Class *c, ValueKind kind, const char *name, Dtype d,
                        int64_t n)
{
    Value *v = gen_alloc(g, sizeof *v);
    v->id = c->values.count;
    v->kind = kind;
    v->name = name;
    v->dtype = d;
    v->n_dims = 1;
    v->dim[0] = v->elems = n;
    v->bytes = n * dtype_bytes(d);
    *gen_push(g, &c->values) = v;
    return v;
}

static Node *new_node(Gen *g, Class *c, Phase phase, int piece)
{
    Node *n = gen_alloc(g, sizeof *n);
    n->id = c->nodes.count;
    n->name = phase == PHASE_FORWARD ? "forward" : "backward";
    n->phase = phase;
    n->piece = piece;
    n->flops = 1e6;
    n->cost =
        (NodeCost){.cls = COST_PRODUCT, .traffic_bytes = 1 << 16, .moved_bytes = 1 << 16};
    n->in = gen_alloc(g, sizeof *n->in * 64);
    n->out = gen_alloc(g, sizeof *n->out * 64);
    *gen_push(g, &c->nodes) = n;
    return n;
}

static void set_span(Gen *g, const Class *c, Span *s, Phase phase, int piece,
                     int64_t scratch)
{
    s->name = gen_printf(g, "%s_%d_%s", c->name, piece,
                         phase == PHASE_FORWARD ? "forward" : "backward");
    s->phase = phase;
    s->nodes = gen_alloc(g, sizeof *s->nodes * (size_t)(c->nodes.count + 1));
    for (int i = 0; i < c->nodes.count; i++) {
        Node *n = c->nodes.items[i];
        if (n->phase == phase && (piece < 0 || n->piece == piece))
            s->nodes[s->n_nodes++] = n;
    }
    s->args = gen_alloc(g, sizeof *s->args * 24);
    s->scratch_bytes = s->live_scratch_bytes = scratch;
    s->flops = 1e6 * s->n_nodes;
    s->traffic_bytes = (1 << 16) * s->n_nodes;
}

static void add_arg(Span *s, ArgKind kind, int index)
{
    s->args[s->n_args++] = (SpanArg){kind, index, NULL};
}

static Class *new_class(Gen *g, const char *name)
{
    Class *c = gen_alloc(g, sizeof *c);
    c->id = g->classes.count;
    c->name = name;
    *gen_push(g, &g->classes) = c;
    return c;
}

static void add_param(Gen *g, Class *c, const char *name, int n_dims, int64_t a,
                      int64_t b, bool tied)
{
    ClassParam *p = gen_push(g, &c->params);
    p->name = p->ident = name;
    p->n_dims = n_dims;
    p->dim[0] = a;
    p->dim[1] = b;
    p->elems = n_dims == 1 ? a : a * b;
    p->init = "normal";
    p->dtype = g->model.param_dtype;
    p->gathered = g->model.linear_fp8 && n_dims == 2 && !tied ? DT_E4M3 : p->dtype;
    p->tied_global = tied;
}

enum { NO_FORWARD = 1, NO_BACK_WEIGHT = 2, ENDS = 4, STARTS = 8, SKIP_SOME = 16 };

/* What the calls of a piece take, or with -1 those of the whole block. */
static void span_args(Class *c, Span *s, int piece, unsigned how, bool constant)
{
    bool back = s->phase == PHASE_BACKWARD, first = piece <= 0,
         last = piece < 0 || piece == c->pieces.count - 1;
    if (c->params.count)
        add_arg(s, ARG_PARAMS, 0);
    if (back && c->params.count)
        add_arg(s, ARG_GRADS, 0);
    if (constant && first)
        add_arg(s, ARG_CONST, 0);
    if (how & (STARTS | ENDS))
        add_arg(s, ARG_DATA, how & ENDS ? 1 : 0);
    for (int i = 0; i < c->n_inputs; i++) {
        add_arg(s, ARG_IN, i); /* all pieces: residual streams */
        if (back && first)
            add_arg(s, ARG_DIN, i);
    }
    for (int i = 0; i < c->n_outputs && last; i++)
        add_arg(s, back ? ARG_DOUT : ARG_OUT, i);
    if (back && last && (how & ENDS))
        add_arg(s, ARG_LOSS, 0);
    if (c->saved_bytes)
        add_arg(s, ARG_SAVED, 0);
    if (s->scratch_bytes)
        add_arg(s, ARG_SCRATCH, 0);
}

/* One node a phase and piece: it reads the piece's weights and writes their gradients. */
static void add_nodes(Gen *g, Class *c, unsigned how)
{
    int pieces = c->pieces.count;
    Node **f = gen_alloc(g, sizeof *f * (size_t)pieces * 2), **b = f + pieces;
    for (int k = 0; k < pieces && !(how & NO_FORWARD); k++)
        f[k] = new_node(g, c, PHASE_FORWARD, k);
    for (int k = pieces - 1; k >= 0; k--)
        b[k] = new_node(g, c, PHASE_BACKWARD, k);
    c->grads = gen_alloc(g, sizeof(Value *) * (size_t)(c->params.count + 1));
    for (int p = 0; p < c->params.count; p++) {
        const bool codes = c->params.items[p].gathered != c->params.items[p].dtype;
        Value *v = new_value(g, c, VAL_PARAM, "w", DT_F32, c->params.items[p].elems);
        Value *scale = codes ? new_value(g, c, VAL_SCALE, "s", DT_F32, 1) : NULL;
        Value *dw = new_value(g, c, VAL_NODE, "dw", DT_F32, c->params.items[p].elems);
        int k = c->params.items[p].piece = p % pieces;
        v->index = p;
        if (f[k] && (!(how & SKIP_SOME) || p % 2 == 0))
            f[k]->in[f[k]->n_in++] = v;
        if (!(how & NO_BACK_WEIGHT) && (!(how & SKIP_SOME) || p % 3 != 1))
            b[k]->in[b[k]->n_in++] = v;
        if (codes) {
            scale->index = p;
            b[k]->in[b[k]->n_in++] = scale;
        }
        dw->def = b[k];
        dw->loc = LOC_GRAD;
        dw->loc_index = p;
        b[k]->out[b[k]->n_out++] = dw;
        c->grads[p] = dw;
    }
}

/* Gives a class with its parameters pieces, boundary values, nodes, spans and arguments.
 */
static void finish_class(Gen *g, Class *c, int pieces, int n_out, int64_t width,
                         int64_t saved, int64_t scratch_f, int64_t scratch_b,
                         unsigned how, bool constant)
{
    static const char *const names[] = {"one", "two", "three", "four"};
    Dtype d = DT_F32;
    for (int k = 0; k < pieces; k++)
        *gen_push(g, &c->pieces) = (Piece){.name = pieces > 1 ? names[k] : NULL};
    c->n_inputs = how & STARTS ? 0 : n_out;
    c->n_outputs = how & ENDS ? 0 : n_out;
    c->outputs = gen_alloc(g, sizeof(Value *) * 4);
    c->d_outputs = gen_alloc(g, sizeof(Value *) * 4);
    c->inputs = gen_alloc(g, sizeof(Value *) * 4);
    c->d_inputs = gen_alloc(g, sizeof(Value *) * 4);
    for (int i = 0; i < n_out; i++) {
        c->inputs[i] = new_value(g, c, VAL_INPUT, "x", d, width * (i + 1));
        c->outputs[i] = new_value(g, c, VAL_NODE, "y", d, width * (i + 1));
        c->d_outputs[i] = new_value(g, c, VAL_DOUT, "dy", d, width * (i + 1));
        c->d_inputs[i] = new_value(g, c, VAL_NODE, "dx", d, width * (i + 1));
    }
    add_nodes(g, c, how);
    c->saved_bytes = how & NO_FORWARD ? 0 : saved;
    for (int k = -1; k < pieces; k++) {
        Piece *p = k < 0 ? NULL : &c->pieces.items[k];
        Span *f = p ? &p->forward : &c->forward, *b = p ? &p->backward : &c->backward;
        set_span(g, c, b, PHASE_BACKWARD, k, scratch_b);
        span_args(c, b, k, how, constant);
        set_span(g, c, f, PHASE_FORWARD, k, how & NO_FORWARD ? 0 : scratch_f);
        if (!(how & NO_FORWARD))
            span_args(c, f, k, how, constant);
    }
}

static void add_block(Gen *g, Class *c, const char *name, const char *ident)
{
    Block *b = gen_push(g, &g->blocks);
    b->id = g->blocks.count - 1;
    b->name = name;
    b->ident = ident;
    b->prefix = gen_printf(g, "%s.", name);
    b->cls = c;
    b->param = gen_alloc(g, sizeof(int) * (size_t)(c->params.count + 1));
}

/* Global parameters; after all blocks stand, since Param.block points into their array.
 */
static void add_params(Gen *g)
{
    for (int i = 0; i < g->blocks.count; i++) {
        Block *b = &g->blocks.items[i];
        for (int p = 0; p < b->cls->params.count; p++) {
            ClassParam *decl = &b->cls->params.items[p];
            const char *name = decl->tied_global
                                   ? decl->name
                                   : gen_printf(g, "%s%s", b->prefix, decl->name);
            int id = -1;
            for (int q = 0; q < g->params.count; q++)
                id = !strcmp(g->params.items[q].name, name) ? q : id;
            if (id < 0) {
                Param *param = gen_push(g, &g->params);
                id = param->id = g->params.count - 1;
                param->name = name;
                param->decl = decl;
                param->block = b;
                param->elems = decl->elems;
            }
            g->params.items[id].n_uses++;
            b->param[p] = id;
        }
    }
}

/* ---- shapes ---------------------------------------------------------------------- */

SynthShape synth_shape(uint64_t seed)
{
    uint64_t r = seed * 77 + 5;
    SynthShape s = {.seed = seed};
    s.layers = (int)pick(&r, 1, 6);
    s.kinds = (int)pick(&r, 1, 2);
    s.tied = pick(&r, 0, 1);
    s.head_forward = pick(&r, 0, 1);
    s.idle_block = pick(&r, 0, 3) == 0;
    s.constant = pick(&r, 0, 1);
    s.two_outputs = pick(&r, 0, 2) == 0;
    s.width = pick(&r, 3, 90);
    s.pieces = (int)pick(&r, 1, 4);
    s.two_dtypes = pick(&r, 0, 1);
    s.codes = pick(&r, 0, 5) == 0;
    return s;
}

SynthMesh synth_numerics(uint64_t seed)
{
    static const Dtype params[] = {DT_F32, DT_BF16, DT_F64};
    uint64_t r = seed * 131 + 17;
    SynthMesh m = {.ranks = 1,
                   .replicate = 1,
                   .reshard_ranks = 1,
                   .wrap = 1,
                   .strategy = FULL_SHARD,
                   .in_flight = 2};
    m.leaves = INT64_C(1) << pick(&r, 2, 4);
    m.micro_batches = m.leaves * (pick(&r, 0, 2) == 0 ? pick(&r, 2, 3) : 1);
    m.sharded = true;
    m.param = params[pick(&r, 0, 2)];
    m.reduce = m.param == DT_F64 ? DT_F64 : pick(&r, 0, 3) == 0 ? DT_BF16 : DT_F32;
    m.master = m.param == DT_BF16 ? DT_F32 : m.param;
    return m;
}

void synth_ranks(SynthMesh *m, int64_t ranks, uint64_t seed)
{
    uint64_t r = seed * 557 + 29;
    m->ranks = ranks;
    m->replicate = m->reshard_ranks = 1;
    while (m->replicate < ranks && pick(&r, 0, 2) == 0)
        m->replicate *= 2;
    while (m->reshard_ranks < ranks / m->replicate && pick(&r, 0, 2) != 0)
        m->reshard_ranks *= 2;
    m->strategy = m->replicate == ranks || pick(&r, 0, 7) == 0 ? NO_SHARD
                  : pick(&r, 0, 4) == 0                        ? SHARD_OPTIMIZER
                  : m->replicate > 1                           ? HYBRID_SHARD
                  : m->reshard_ranks == 1 && pick(&r, 0, 1)    ? SHARD_GRAD_OP
                                                               : FULL_SHARD;
}

void synth_beside(SynthMesh *m, int64_t most, uint64_t seed)
{
    static const AxisId axes[] = {AXIS_PIPELINE, AXIS_CONTEXT, AXIS_TENSOR};
    uint64_t r = seed * 733 + 5;
    int64_t ranks = m->ranks;
    memset(m->beside, 0, sizeof m->beside);
    for (size_t k = 0; k < sizeof axes / sizeof *axes; k++) {
        m->beside[axes[k]] = ranks < most && pick(&r, 0, 4) == 0 ? 2 : 1;
        ranks *= m->beside[axes[k]];
    }
}

SynthMesh synth_mesh(uint64_t seed, SynthMesh m)
{
    uint64_t r = seed * 1009 + 3;
    synth_ranks(&m, min_i64(m.leaves, INT64_C(1) << pick(&r, 0, 3)), seed);
    synth_beside(&m, 8, seed);
    m.wrap = pick(&r, 0, 3) == 0 ? INT64_MAX : pick(&r, 1, 3);
    m.size = pick(&r, 0, 1) ? pick(&r, 1, 9000) : 0; /* else by blocks */
    m.embed_joins = pick(&r, 0, 2) == 0;
    m.head_joins = pick(&r, 0, 2) == 0;
    m.prefetch_forward = pick(&r, 0, 3);
    m.prefetch_backward = pick(&r, 0, 3);
    m.in_flight = pick(&r, 1, 3);
    m.sharded = pick(&r, 0, 1);
    m.every = pick(&r, 0, 3);
    m.order = (PrefetchOrder)pick(&r, 0, 2);
    return m;
}

static void set_mesh(Model *o, const SynthMesh *m)
{
    int64_t degree[N_AXES], ranks = 1;
    if (m->masks.set) {
        o->mesh = mesh_make(m->masks.degree, m->masks.node_ranks);
        o->mesh.data = m->masks.data;
        o->mesh.data_ranks = group_ranks(m->masks.data);
        return;
    }
    for (int a = 0; a < N_AXES; a++) {
        degree[a] = a == AXIS_REPLICATE ? m->replicate
                    : a == AXIS_SHARD   ? m->ranks / m->replicate
                                        : max_i64(1, m->beside[a]);
        ranks *= degree[a];
    }
    o->mesh = mesh_make(degree, ranks);
}

static void set_model(Gen *g, const SynthMesh *m, int64_t seq, int64_t vocab)
{
    Model *o = &g->model;
    o->name = "synth";
    o->arch = "synth";
    o->file = "synth.lua";
    o->seq_tokens = seq;
    o->micro_batch = 1;
    o->vocab = vocab;
    o->micro_batches = o->global_batch = m->micro_batches;
    o->leaves = m->leaves;
    o->param_dtype = m->param;
    o->reduce_dtype = m->reduce;
    o->master_dtype = m->master;
    o->moments_dtype = m->param == DT_F64 ? DT_F64 : DT_F32;
    o->moments = 2;
    o->strategy = m->strategy;
    set_mesh(o, m);
    o->wrap = m->size > 0 ? (WrapRule){.kind = WRAP_BY_SIZE, .params = m->size}
                          : (WrapRule){.kind = WRAP_PER_BLOCK, .blocks = m->wrap};
    o->wrap.embed_joins = m->embed_joins;
    o->wrap.head_joins = m->head_joins;
    o->reshard_ranks = m->reshard_ranks;
    o->prefetch_forward = m->prefetch_forward;
    o->prefetch_backward = m->prefetch_backward;
    o->gathers_in_flight = m->in_flight;
    o->prefetch_order = m->order;
    o->accumulate_sharded = m->sharded;
    o->recompute = m->every ? RECOMPUTE_EVERY : RECOMPUTE_NONE;
    o->recompute_every = m->every;
}

static Class *layer_class(Gen *g, const SynthShape *s, int kind, int n_out, uint64_t *r)
{
    static const char *const names[] = {"wa", "wb", "wc", "wd", "we"};
    Class *c = new_class(g, kind ? "layer_2" : "layer");
    int n = (int)pick(r, 1, 5);
    for (int p = 0; p < n; p++) {
        bool flat = pick(r, 0, 2) == 0;
        add_param(g, c, names[p], flat ? 1 : 2, pick(r, 1, 40),
                  flat ? 0 : pick(r, 1, s->width), false);
    }
    finish_class(g, c, s->pieces, n_out, s->width, 4 * pick(r, 1, 900),
                 4 * pick(r, 0, 700), 4 * pick(r, 0, 1500), pick(r, 0, 1) ? SKIP_SOME : 0,
                 s->constant);
    return c;
}

static void widen_vectors(Gen *g)
{
    for (int c = 0; c < g->classes.count && g->model.param_dtype == DT_BF16; c++) {
        Class *cls = g->classes.items[c];
        for (int p = 0; p < cls->params.count; p++) {
            ClassParam *param = &cls->params.items[p];
            if (param->n_dims == 1)
                param->dtype = param->gathered = DT_F32;
        }
    }
}

void synth_build(Gen *g, const SynthShape *s, const SynthMesh *mesh)
{
    uint64_t r = s->seed;
    int n_out = s->two_outputs ? 2 : 1;
    Class *embed, *idle = NULL, *head, *kind[2];
    const char *table = s->tied ? "tied.table" : "table";
    set_model(g, mesh, 24, 50);
    g->model.linear_fp8 = s->codes;
    if (s->constant) {
        Const *c = gen_push(g, &g->consts);
        c->name = "wave";
        c->bytes = 4 * pick(&r, 1, 300);
    }
    embed = new_class(g, "embed");
    add_param(g, embed, table, 2, 50, s->width, s->tied);
    finish_class(g, embed, 1, n_out, s->width, 0, 0, 0, STARTS | NO_BACK_WEIGHT, false);
    for (int k = 0; k < s->kinds; k++)
        kind[k] = layer_class(g, s, k, n_out, &r);
    if (s->idle_block) {
        idle = new_class(g, "idle");
        finish_class(g, idle, 1, n_out, s->width, 64, 256, 0, 0, false);
    }
    head = new_class(g, "head");
    if (!s->tied || pick(&r, 0, 1))
        add_param(g, head, "norm", 1, s->width, 0, false);
    add_param(g, head, s->tied ? "tied.table" : "weight", 2, 50, s->width, s->tied);
    finish_class(g, head, 1, n_out, s->width, 128, 512, 4096,
                 ENDS | (s->head_forward ? 0 : NO_FORWARD), false);
    if (s->two_dtypes)
        widen_vectors(g);
    add_block(g, embed, "embed", "embed");
    for (int i = 0; i < s->layers; i++) {
        add_block(g, kind[i % s->kinds], gen_printf(g, "layers.%d", i),
                  gen_printf(g, "layers_%d", i));
        if (idle && i == s->layers / 2)
            add_block(g, idle, "idle", "idle");
    }
    add_block(g, head, "head", "head");
    add_params(g);
}

void synth_llama(Gen *g, int layers, int64_t dim, int64_t ffn, int64_t kv_dim,
                 int64_t vocab, int64_t seq, bool tied, const SynthMesh *mesh)
{
    int64_t t = seq, b = dtype_bytes(mesh->param), qkv = dim + 2 * kv_dim;
    Class *embed = new_class(g, "embed"), *layer = new_class(g, "layer");
    Class *head = new_class(g, "head");
    set_model(g, mesh, seq, vocab);
    add_param(g, embed, "tied.table", 2, vocab, dim, true);
    finish_class(g, embed, 1, 1, t * dim, 0, 0, 0, STARTS | NO_BACK_WEIGHT, false);
    add_param(g, layer, "norm1", 1, dim, 0, false);
    add_param(g, layer, "qkv", 2, qkv, dim, false);
    add_param(g, layer, "o", 2, dim, dim, false);
    add_param(g, layer, "norm2", 1, dim, 0, false);
    add_param(g, layer, "gate_up", 2, 2 * ffn, dim, false);
    add_param(g, layer, "down", 2, dim, ffn, false);
    finish_class(g, layer, 1, 1, t * dim, t * b * (3 * dim + qkv + 2 * ffn + ffn),
                 t * b * ffn, t * b * (2 * ffn + qkv), 0, false);
    add_param(g, head, "norm", 1, dim, 0, false);
    add_param(g, head, tied ? "tied.table" : "weight", 2, vocab, dim, tied);
    finish_class(g, head, 1, 1, t * dim, 0, 0, 1024 * vocab * 4, ENDS | NO_FORWARD,
                 false);
    add_block(g, embed, "embed", "embed");
    for (int i = 0; i < layers; i++)
        add_block(g, layer, gen_printf(g, "layers.%d", i), gen_printf(g, "layers_%d", i));
    add_block(g, head, "head", "head");
    add_params(g);
}

void synth_plan(Gen *g, const SynthMesh *mesh)
{
    shard_params(g);
    synth_cut(g, &mesh->masks);
    policy_choose(g);
    unroll_step(g);
    schedule_step(g);
    place_buffers(g);
    simulate_step(g);
}

const char *synth_check(Gen *g)
{
    const char *bad = verify_shard(g);
    bad = bad ? bad : verify_unroll(g);
    bad = bad ? bad : verify_schedule(g);
    bad = bad ? bad : verify_place(g);
    return bad ? bad : verify_simulate(g);
}

/* ---- mathematics ----------------------------------------------------------------- */

static uint64_t absorb(uint64_t h, const void *p, int64_t bytes)
{
    uint64_t pair[2] = {h, p ? hash_bytes(p, (size_t)bytes) : 0};
    return hash_bytes(pair, sizeof pair);
}

static double unit(uint64_t h, int64_t i)
{
    uint64_t s = h + (uint64_t)i * 977;
    return (double)(synth_random(&s) >> 40) * 0x1p-24 - 0.5;
}

static void spill(uint64_t h, void *p, int64_t bytes)
{
    for (int64_t i = 0; p && i < bytes / 4; i++)
        ((float *)p)[i] = (float)unit(h, i);
}

const char *synth_span(void *ctx, const SpanCall *c)
{
    Gen *g = c->g;
    bool back = c->span->phase == PHASE_BACKWARD;
    Dtype reduce = g->model.reduce_dtype;
    const Node *node = c->span->nodes[0]; /* of a piece: its only one */
    bool opens = node->piece == (back ? c->cls->pieces.count - 1 : 0);
    uint64_t h = ((uint64_t)c->block * 2 + back) * 8 + (uint64_t)node->piece;
    (void)ctx;
    for (int k = 0; k < node->n_in; k++) {
        int p = node->in[k]->index;
        if (node->in[k]->kind == VAL_SCALE)
            h = absorb(h, c->scale[p], 4);
        else
            h = absorb(h, c->weight[p],
                       c->cls->params.items[p].elems *
                           dtype_bytes(c->cls->params.items[p].gathered));
    }
    for (int a = 0; a < c->span->n_args; a++) {
        const SpanArg *arg = &c->span->args[a];
        int k = arg->index;
        h = arg->kind == ARG_CONST  ? absorb(h, c->constant[k], g->consts.items[k].bytes)
            : arg->kind == ARG_DATA ? absorb(h, c->data[k], g->model.seq_tokens * 4)
            : arg->kind == ARG_IN   ? absorb(h, c->in[k], c->cls->inputs[k]->bytes)
            : arg->kind == ARG_DOUT ? absorb(h, c->d_out[k], c->cls->d_outputs[k]->bytes)
            : arg->kind == ARG_SAVED && (back || !opens)
                ? absorb(h, c->saved, c->cls->saved_bytes)
                : h;
    }
    if (!opens) /* what the piece before left */
        h = absorb(h, c->scratch, c->span->scratch_bytes);
    spill(h, c->scratch, c->span->scratch_bytes);
    h = absorb(h, c->scratch, c->span->scratch_bytes);
    for (int k = 0; k < node->n_out; k++) {
        int p = node->out[k]->loc_index;
        for (int64_t i = 0; i < c->cls->params.items[p].elems; i++) {
            double old = c->grad_add[p] ? interp_load(reduce, c->grad[p], i) : 0;
            interp_store(reduce, c->grad[p], i, old + unit(h + (uint64_t)p, i));
        }
    }
    for (int a = 0; a < c->span->n_args; a++) {
        const SpanArg *arg = &c->span->args[a];
        int k = arg->index;
        if (arg->kind == ARG_OUT)
            spill(h + 11, c->out[k], c->cls->outputs[k]->bytes);
        else if (arg->kind == ARG_DIN)
            spill(h + 12, c->d_in[k], c->cls->d_inputs[k]->bytes);
        else if (arg->kind == ARG_LOSS)
            *c->loss = unit(h + 13, 0);
        else if (arg->kind == ARG_SAVED && (!back || c->cls->pieces.count > 1))
            spill(h + 14, c->saved, c->cls->saved_bytes);
    }
    return NULL;
}

const char *synth_setup(Gen *g, char **out)
{
    for (int i = 0; i < g->consts.count; i++) {
        out[i] = gen_alloc(g, (size_t)g->consts.items[i].bytes);
        spill((uint64_t)i + 99, out[i], g->consts.items[i].bytes);
    }
    return NULL;
}
