/* SPDX-License-Identifier: Apache-2.0 */
/* verify_sizes.c: the sizes of the step's loops and of the buffers of segments. In: the
 * description, segments, the buffers of unroll. Out: NULL or what is wrong with one.
 *
 * A rank computes V / N leaves of M / V micro-batches. Of each segment it holds this,
 * once, in elements of its dtype; E of the segment, S of one shard:
 *
 * - weights, codes: S if they are cut at rest, else E;
 * - master, moments: S if it is trainable; with matrices, second moments of the others;
 * - the gradient's sum: S;
 * - a whole gradient: E where ranks sum it, from step to step if micro-batches add to it;
 * - partial sums: log2(V / N) times S, or E if whole gradients are added first;
 * - gathered weights: E, for each gather;
 * - kept weights: E over the ranks that share them.
 *
 * Blocks share constants, the data of a micro-batch, and the scales of weights that are
 * gathered as codes. Buffers that the next step needs are persistent; buffers that peers
 * access are in the symmetric space. */
#include "ops/ops.h"
#include "plan/plan.h"
#include "prove/verify.h"

#define ONE(kind) (UINT32_C(1) << BUF_##kind)
#define PASSING                                                                          \
    (ONE(GATHERED) | ONE(KEPT) | ONE(GRAD) | ONE(BOUNDARY) | ONE(D_BOUNDARY) |           \
     ONE(SAVED) | ONE(SCRATCH) | ONE(DIRECTION) | ONE(OWNED) | ONE(WORKSPACE) |          \
     ONE(LOGITS))
#define OF_SEGMENTS                                                                      \
    (ONE(PARAM_SHARD) | ONE(CODES) | ONE(MASTER) | ONE(MOMENT1) | ONE(MOMENT2) |         \
     ONE(GRAD_SHARD) | ONE(PARTIAL) | ONE(GRAD_ACCUM) | ONE(GRAD) | ONE(DIRECTION))

/* ---- loops ----------------------------------------------------------------------- */

static const char *check_loops(Gen *g)
{
    const Model *m = &g->model;
    const Program *p = &g->prog;

    if (p->rounds * m->mesh.data_ranks != m->leaves ||
        p->leaf_micro_batches * m->leaves != m->micro_batches)
        return gen_printf(g, "a rank computes %lld leaves of %lld micro-batches",
                          (long long)p->rounds, (long long)p->leaf_micro_batches);
    if (INT64_C(1) << p->partial_levels != p->rounds)
        return gen_printf(g, "%d levels of partial sums hold no tree of %lld leaves",
                          p->partial_levels, (long long)p->rounds);
    return NULL;
}

/* Does a rank add micro-batches before it reduces their sum? */
static bool adds_first(const Gen *g)
{
    const Model *m = &g->model;
    const int64_t sums = m->accumulate_sharded ? m->leaves : m->mesh.data_ranks;

    return m->micro_batches > sums;
}

/* ---- segments -------------------------------------------------------------------- */

static bool has_matrices(const Gen *g, const Segment *s)
{
    for (int i = 0; i < g->params.count; i++)
        if (g->params.items[i].segment == s->id && g->params.items[i].matrix)
            return true;
    return false;
}

/* Second moments of the largest shard. Parameters outside matrices have them, each from a
 * place where a GPU's threads read several at once. */
static int64_t others_elems(const Gen *g, const Segment *s)
{
    int64_t most = 0;

    for (int64_t lo = 0; lo < s->elems; lo += s->shard_elems) {
        int64_t n = 0;

        for (int i = 0; i < s->n_params; i++) { /* verify_shard has checked the list */
            const Param *p = &g->params.items[s->params[i]];
            const int64_t from = max_i64(lo, p->offset_elems);
            const int64_t to =
                min_i64(lo + s->shard_elems, p->offset_elems + p->held_elems);

            if (!p->matrix && from < to)
                n += (to - from + OTHERS_ALIGN_ELEMS - 1) / OTHERS_ALIGN_ELEMS *
                     OTHERS_ALIGN_ELEMS;
        }
        most = max_i64(most, n);
    }
    return most;
}

/* Elements of its buffer of that kind; 0: it has none. */
static int64_t elems_of(const Gen *g, const Segment *s, BufKind kind)
{
    const Model *m = &g->model;
    const int64_t shard = s->shard_elems, all = s->elems;
    const int64_t rest = s->cut[HELD_PARAMS] ? shard : all;
    const int64_t leaves = m->leaves / m->mesh.data_ranks;
    const Dtype master = m->master_dtype == DT_SPLIT ? DT_F32 : m->master_dtype;

    if (kind == BUF_PARAM_SHARD)
        return rest;
    if (kind == BUF_CODES)
        return s->gathered != s->dtype ? rest : 0;
    if (kind == BUF_GATHERED)
        return s->cut[HELD_PARAMS] ? all : 0;
    if (kind == BUF_KEPT)
        return s->between ? all >> __builtin_popcount(s->between) : 0;
    if (!s->trainable)
        return 0;
    if (kind == BUF_GRAD || kind == BUF_GRAD_ACCUM)
        return s->shards > 1 && adds_first(g) == (kind == BUF_GRAD_ACCUM) ? all : 0;
    if (kind == BUF_MASTER)
        return dtype_bytes(s->dtype) < dtype_bytes(master) ? shard : 0;
    if (kind == BUF_MOMENT1)
        return m->moments > 0 ? shard : 0;
    if (kind == BUF_MOMENT2)
        return m->moments < 2 ? 0 : g->matrices.count ? others_elems(g, s) : shard;
    if (kind == BUF_PARTIAL)
        return __builtin_ctzll((uint64_t)leaves) * (m->accumulate_sharded ? shard : all);
    if (kind == BUF_DIRECTION)
        return has_matrices(g, s) ? shard : 0;
    return kind == BUF_GRAD_SHARD ? shard : 0;
}

static Dtype dtype_of(const Gen *g, const Segment *s, BufKind kind)
{
    const Model *m = &g->model;

    switch (kind) {
    case BUF_PARAM_SHARD:
        return s->dtype;
    case BUF_CODES:
    case BUF_GATHERED:
    case BUF_KEPT:
        return s->gathered;
    case BUF_MASTER:
        return m->master_dtype;
    case BUF_MOMENT1:
    case BUF_MOMENT2:
        return m->moments_dtype;
    case BUF_DIRECTION:
        return ops_acc_dtype(g);
    default:
        return m->reduce_dtype;
    }
}

static const char *check_segments(Gen *g)
{
    const Program *p = &g->prog;
    int *n = gen_alloc(g, sizeof *n * N_BUF_KINDS * (size_t)(g->segments.count + 1));

    for (int b = 0; b < p->bufs.count; b++) {
        const Buffer *buf = &p->bufs.items[b];
        const Segment *s = buf->segment >= 0 ? &g->segments.items[buf->segment] : NULL;
        const int64_t want =
            s ? elems_of(g, s, buf->kind) * dtype_bytes(dtype_of(g, s, buf->kind)) : 0;

        if (!s)
            continue;
        if (buf->bytes != want || want == 0)
            return gen_printf(g, "%s has %lld bytes, but segment %s asks for %lld",
                              buf->name, (long long)buf->bytes, s->name, (long long)want);
        n[s->id * N_BUF_KINDS + (int)buf->kind]++;
    }
    for (int i = 0; i < g->segments.count; i++)
        for (int k = 0; k < N_BUF_KINDS; k++)
            if (OF_SEGMENTS >> k & 1 &&
                n[i * N_BUF_KINDS + k] !=
                    (elems_of(g, &g->segments.items[i], (BufKind)k) > 0))
                return gen_printf(g, "segment %s has %d buffers of one kind: %s",
                                  g->segments.items[i].name, n[i * N_BUF_KINDS + k],
                                  buf_kind_name((BufKind)k));
    return NULL;
}

/* ---- staging --------------------------------------------------------------------- */

/* Room for other ranks' parts of the largest segment that is summed, in grains of every
 * rank, as far as the target allows it, and never less than one such row. */
static int64_t staging_bytes(const Gen *g)
{
    const Model *m = &g->model;
    const int64_t size = dtype_bytes(m->reduce_dtype);
    const int64_t row = m->mesh.world_size * GRAIN_ELEMS * size;
    int64_t most = 0;

    for (int i = 0; i < g->segments.count; i++) {
        const Segment *s = &g->segments.items[i];
        const bool summed = s->trainable && m->mesh.data_ranks > 1;

        most = max_i64(most, summed ? s->elems * size : 0);
    }
    if (most == 0 || m->library_order || m->target->staging_bytes == 0)
        return 0;
    return max_i64(row, min_i64((most + row - 1) / row * row, m->target->staging_bytes));
}

/* ---- what all blocks share ------------------------------------------------------- */

static int64_t n_codes(const Gen *g)
{
    int64_t n = 0;

    for (int i = 0; i < g->params.count; i++)
        n += g->params.items[i].decl->gathered != g->params.items[i].decl->dtype;
    return n;
}

/* Bytes of the k-th buffer of that kind; 0: there are fewer. */
static int64_t shared_bytes(const Gen *g, BufKind kind, int k)
{
    const Model *m = &g->model;
    const int64_t tokens = m->micro_batch * m->seq_tokens * dtype_bytes(DT_I32);
    const int per_token = m->packed ? 3 : 2; /* tokens, targets, starts of documents */

    if (kind == BUF_CONST)
        return k < g->consts.count ? g->consts.items[k].bytes : 0;
    if (kind == BUF_DATA) /* behind them, the number of a row */
        return k < per_token ? tokens : k == per_token ? dtype_bytes(DT_I32) : 0;
    if (k > 0)
        return 0;
    return n_codes(g) * dtype_bytes(kind == BUF_LARGEST ? DT_I32 : ops_acc_dtype(g));
}

static const char *check_shared(Gen *g)
{
    static const BufKind kinds[] = {BUF_CONST, BUF_DATA, BUF_LARGEST, BUF_SCALES};
    const Program *p = &g->prog;

    for (size_t n = 0; n < sizeof kinds / sizeof *kinds; n++) {
        int k = 0;

        for (int b = 0; b < p->bufs.count; b++) {
            const Buffer *buf = &p->bufs.items[b];

            if (buf->kind == kinds[n] && buf->bytes != shared_bytes(g, kinds[n], k++))
                return gen_printf(g, "%s has %lld bytes, not %lld", buf->name,
                                  (long long)buf->bytes,
                                  (long long)shared_bytes(g, kinds[n], k - 1));
        }
        if (shared_bytes(g, kinds[n], k) > 0)
            return gen_printf(g, "there are %d buffers of %s", k,
                              buf_kind_name(kinds[n]));
    }
    return NULL;
}

/* ---- all ------------------------------------------------------------------------- */

static const char *check_place(Gen *g, const Buffer *b)
{
    const bool passing = (PASSING >> b->kind & 1) != 0;
    const bool exchange = b->kind == BUF_CONTROL || b->kind == BUF_LARGEST ||
                          (b->kind == BUF_GATHERED && /* peers write there */
                           g->model.target->peers_write_gathered);

    if (b->persistent == passing)
        return gen_printf(g, "%s %s persistent", b->name, passing ? "is" : "is not");
    if (exchange && b->space != SPACE_SYMMETRIC)
        return gen_printf(g, "peers do not find %s", b->name);
    return NULL;
}

static const char *check_peers(Gen *g, const Instr *i)
{
    for (int a = 0; a < i->n_access; a++) {
        const Buffer *b = &g->prog.bufs.items[i->access[a].buffer];

        if (i->access[a].remote && b->space != SPACE_SYMMETRIC)
            return gen_printf(g, "%s: peers do not find %s", ins_label(g, i), b->name);
    }
    return NULL;
}

const char *verify_sizes(Gen *g)
{
    const Program *p = &g->prog;
    const char *bad = check_loops(g);
    int64_t staging = 0;

    bad = bad ? bad : check_segments(g);
    bad = bad ? bad : check_shared(g);
    for (int b = 0; b < p->bufs.count && !bad; b++) {
        bad = check_place(g, &p->bufs.items[b]);
        staging += p->bufs.items[b].kind == BUF_STAGING ? p->bufs.items[b].bytes : 0;
    }
    for (int id = 0; id < p->ins.count && !bad; id++)
        bad = check_peers(g, &p->ins.items[id]);
    if (!bad && staging != staging_bytes(g))
        return gen_printf(g, "parts of other ranks have %lld bytes, not %lld",
                          (long long)staging, (long long)staging_bytes(g));
    return bad;
}
