/* SPDX-License-Identifier: Apache-2.0 */
/* plan: what a run will hold and do, for people (plan.txt, `fsdpgen plan`); plan_json.c
 * says it to programs. Comes in: the whole Gen after simulate. Goes out: text.
 *
 * Bytes by class add up to the arena exactly: persistent buffers count as they are; of
 * the transient area, which classes share, each class counts what it holds at the moment
 * when most is alive, and what packing and overlap take beyond that is part of
 * `workspace`. */
#include "plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ----------------------------------------------------------------------- */

const char *buf_kind_name(BufKind k)
{
    static const char *const names[N_BUF_KINDS] = {
        "param shard", "master",     "moment1",  "moment2", "grad shard",
        "partial",     "grad accum", "const",    "data",    "control",
        "staging",     "library",    "gathered", "kept",    "grad",
        "boundary",    "d_boundary", "saved",    "scratch", "direction",
        "owned",       "workspace",  "logits"};
    gen_require((int)k >= 0 && k < N_BUF_KINDS && names[k], "buffer kind %d", (int)k);
    return names[k];
}

const char *ins_kind_name(InsKind k)
{
    static const char *const names[] = {"all_gather",     "keep",        "span",
                                        "reduce_scatter", "all_reduce",  "merge",
                                        "norm",           "norm_reduce", "update",
                                        "momentum",       "to_owners",   "matrices",
                                        "from_owners",    "step"};
    gen_require((size_t)k < sizeof names / sizeof *names, "instruction kind %d", (int)k);
    return names[k];
}

const char *prefetch_order_name(PrefetchOrder o)
{
    return o == PREFETCH_PRE ? "pre" : o == PREFETCH_POST ? "post" : "none";
}

const char *stream_name(StreamId s)
{
    return s == STREAM_COMPUTE ? "compute" : s == STREAM_GATHER ? "gather" : "reduce";
}

const char *phase_name(Phase phase)
{
    static const char *const names[] = {"setup", "forward", "backward", "recompute",
                                        "evaluate"};
    return names[phase];
}

const char *human_bytes(Gen *g, int64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)bytes;
    int u = 0;
    if (bytes < 1024) {
        return gen_printf(g, "%" PRId64 " B", bytes);
    }
    for (; v >= 1024 && u < 5; u++) {
        v /= 1024;
    }
    return gen_printf(g, "%.2f %s", v, unit[u]);
}

/* 8030261248 as "8 030 261 248". */
static const char *grouped(Gen *g, int64_t n)
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%" PRId64, n);
    Text t = {.g = g};
    for (int i = 0; i < len; i++) {
        text_printf(&t, "%s%c", i > 0 && (len - i) % 3 == 0 ? " " : "", digits[i]);
    }
    return t.s;
}

static const char *strategy_name(Strategy s)
{
    static const char *const names[] = {"full_shard", "shard_grad_op", "hybrid_shard",
                                        "no_shard"};
    return names[s];
}

/* ---- figures --------------------------------------------------------------------- */

int64_t plan_params(const Gen *g)
{
    int64_t n = 0;
    for (int i = 0; i < g->params.count; i++) {
        n += g->params.items[i].elems;
    }
    return n;
}

static int64_t int_attr(const Node *n, const char *key)
{
    for (int i = 0; i < n->n_attrs; i++) {
        if (!strcmp(n->attrs[i].key, key) && n->attrs[i].type == ATTR_INT) {
            return n->attrs[i].i;
        }
    }
    return -1;
}

/* Is parameter p of the class a factor of a matrix product: used by a node that spends
 * two flops a token on each of its elements? Look-ups, norms and biases spend less. */
static bool multiplies(const Class *c, int p, double tokens)
{
    const ClassParam *cp = &c->params.items[p];
    for (int n = 0; n < c->nodes.count && cp->n_dims >= 2; n++) {
        const Node *node = c->nodes.items[n];
        for (int i = 0; i < node->n_in; i++) {
            if (node->in[i]->kind == VAL_PARAM && node->in[i]->index == p &&
                node->flops >= 1.99 * tokens * (double)cp->elems) {
                return true;
            }
        }
    }
    return false;
}

/* 6 P_matmul + 6 layers dim_attention seq (causal): a forward and twice it backward.
 * Attention is the forward node that has heads and a window. */
double plan_flops_per_token(const Gen *g)
{
    double tokens = (double)(g->model.micro_batch * g->model.seq_tokens);
    double flops = 0, *of_class = gen_calloc((size_t)g->classes.count + 1, sizeof *of_class);
    for (int k = 0; k < g->classes.count; k++) {
        const Class *c = g->classes.items[k];
        for (int p = 0; p < c->params.count; p++) {
            of_class[k] +=
                multiplies(c, p, tokens) ? 6.0 * (double)c->params.items[p].elems : 0;
        }
        for (int n = 0; n < c->nodes.count; n++) {
            const Node *node = c->nodes.items[n];
            int64_t heads = int_attr(node, "heads"), dim = int_attr(node, "head_dim");
            if (node->phase == PHASE_FORWARD && heads > 0 && dim > 0 &&
                int_attr(node, "window") >= 0) {
                of_class[k] += 6.0 * (double)(heads * dim * g->model.seq_tokens);
            }
        }
    }
    for (int b = 0; b < g->blocks.count; b++) {
        for (int k = 0; k < g->classes.count; k++) {
            flops += g->classes.items[k] == g->blocks.items[b].cls ? of_class[k] : 0;
        }
    }
    free(of_class);
    return flops;
}

/* Moments that the optimizer keeps of each trainable element. */
int plan_moments(const Model *m)
{
    switch (m->optimizer) {
    case OPT_ADAMW:
        return 2;
    case OPT_SGD:
        return m->momentum != 0 ? 1 : 0;
    case OPT_LION:
        return 1;
    case OPT_MUON: /* the second only of what is no matrix */
        return 2;
    }
    gen_die("optimizer %d", (int)m->optimizer);
}

/* Adds to by_kind what lives at the moment of most transient bytes; returns their sum. */
static int64_t transient_by_kind(Gen *g, int64_t by_kind[N_BUF_KINDS])
{
    const Program *p = &g->prog;
    size_t n = (size_t)p->bufs.count * N_VARIANTS + 1;
    int *first = gen_alloc(g, sizeof(int) * n), *last = gen_alloc(g, sizeof(int) * n);
    int64_t *delta = gen_alloc(g, sizeof *delta * (size_t)(p->ins.count + 2));
    int64_t live = 0, most = 0, sum = 0;
    int at = 0;
    memset(first, -1, sizeof(int) * n);
    for (int id = 0; id < p->ins.count; id++) {
        const Instr *i = &p->ins.items[id];
        for (int a = 0; a < i->n_access; a++) {
            size_t k = (size_t)i->access[a].buffer * N_VARIANTS + (size_t)i->variant;
            first[k] = first[k] < 0 ? id : first[k];
            last[k] = id;
        }
    }
    for (size_t k = 0; k + 1 < n; k++) {
        const Buffer *b = &p->bufs.items[k / N_VARIANTS];
        if (!b->persistent && first[k] >= 0) {
            delta[first[k]] += b->bytes;
            delta[last[k] + 1] -= b->bytes;
        }
    }
    for (int id = 0; id < p->ins.count; id++) {
        live += delta[id];
        at = live > most ? id : at;
        most = max_i64(most, live);
    }
    for (size_t k = 0; k + 1 < n; k++) {
        const Buffer *b = &p->bufs.items[k / N_VARIANTS];
        if (!b->persistent && first[k] >= 0 && first[k] <= at && at <= last[k]) {
            by_kind[b->kind] += b->bytes;
            sum += b->bytes;
        }
    }
    return sum;
}

PlanBytes plan_bytes(Gen *g)
{
    const Program *p = &g->prog;
    PlanBytes b = {0};
    int64_t *k = b.by_kind;
    for (int i = 0; i < p->bufs.count; i++) {
        if (p->bufs.items[i].persistent) {
            k[p->bufs.items[i].kind] += p->bufs.items[i].bytes;
        }
    }
    transient_by_kind(g, k);
    b.arena = p->arena_bytes;
    b.params = k[BUF_PARAM_SHARD];
    b.gradients = k[BUF_GRAD_SHARD] + k[BUF_GRAD_ACCUM] + k[BUF_GRAD];
    b.optimizer = k[BUF_MASTER] + k[BUF_MOMENT1] + k[BUF_MOMENT2];
    b.activations = k[BUF_SAVED] + k[BUF_BOUNDARY] + k[BUF_D_BOUNDARY];
    b.gather = k[BUF_GATHERED] + k[BUF_KEPT];
    b.partials = k[BUF_PARTIAL];
    b.workspace = b.arena - b.params - b.gradients - b.optimizer - b.activations -
                  b.gather - b.partials;
    b.library = g->model.library_bytes;
    b.total = b.arena + b.library;
    b.snapshot = checkpoint_snapshot_bytes(g);
    return b;
}

/* ---- warnings -------------------------------------------------------------------- */

/* All that was told on the way, and what is worth knowing beside the figures. */
PlanWarnings plan_warnings(Gen *g)
{
    PlanWarnings w = {0};
    PlanBytes b = plan_bytes(g);
    for (int k = 0; diag_warning(g, k); k++) {
        *gen_push(g, &w) = diag_warning(g, k);
    }
    if (b.by_kind[BUF_GRAD_ACCUM] > 0) {
        *gen_push(g, &w) = gen_printf(
            g, "whole gradients are kept across micro-batches (%s): %s",
            human_bytes(g, b.by_kind[BUF_GRAD_ACCUM]),
            g->model.accumulate_sharded ? "more leaves would avoid it"
                                        : "accumulate = \"sharded\" would avoid it");
    }
    if (g->prog.max_live_bytes > 0 &&
        (double)g->prog.arena_bytes > 1.02 * (double)g->prog.max_live_bytes) {
        *gen_push(g, &w) = gen_printf(
            g, "the arena is %.1f %% above its lower bound",
            100.0 * ((double)g->prog.arena_bytes / (double)g->prog.max_live_bytes - 1));
    }
    return w;
}

/* ---- text ------------------------------------------------------------------------ */

static double recomputed_flops(const Gen *g)
{
    double flops = 0;
    for (int id = 0; id < g->prog.ins.count; id++) {
        const Instr *i = &g->prog.ins.items[id];
        flops += i->phase == PHASE_RECOMPUTE && i->variant == VARIANT_LAST ? i->flops : 0;
    }
    return flops;
}

static bool drops_some(const Gen *g, const Class *c)
{
    for (int b = 0; b < g->blocks.count; b++) {
        if (g->blocks.items[b].cls == c && g->blocks.items[b].keep == KEEP_SOME) {
            return true;
        }
    }
    return false;
}

static void print_recompute(Gen *g, Text *t)
{
    int n[3] = {0}, of = 0;
    int64_t bytes = 0;
    for (int b = 0; b < g->blocks.count; b++) {
        const Block *k = &g->blocks.items[b];
        of += k->cls->saved_bytes > 0;
        n[k->keep]++;
        bytes += k->keep == KEEP_INPUT  ? k->cls->saved_bytes
                 : k->keep == KEEP_SOME ? k->cls->dropped_bytes
                                        : 0;
    }
    if (n[KEEP_INPUT] + n[KEEP_SOME] == 0) {
        text_printf(t, "recomputed: nothing\n\n");
        return;
    }
    text_printf(t,
                "recomputed: %d of %d blocks%s: %s not kept, %.4g flops a micro-batch\n",
                n[KEEP_INPUT] + n[KEEP_SOME], of,
                n[KEEP_SOME] ? gen_printf(g, ", %d of them in part", n[KEEP_SOME]) : "",
                human_bytes(g, bytes), recomputed_flops(g));
    for (int c = 0; n[KEEP_SOME] && c < g->classes.count; c++) {
        const Class *k = g->classes.items[c];
        if (!drops_some(g, k)) {
            continue;
        }
        for (int i = 0, first = 1; i < k->saved.count; i++) {
            if (k->saved.items[i].dropped) {
                text_printf(t, "%s %s", first ? "  of a" : ",",
                            first ? gen_printf(g, "%s: %s", k->name,
                                               k->saved.items[i].value->name)
                                  : k->saved.items[i].value->name);
                first = 0;
            }
        }
        text_printf(t, "\n");
    }
    text_printf(t, "\n");
}

static const char *reshard_text(Gen *g)
{
    const Model *m = &g->model;
    bool group = m->reshard_ranks > 1 && m->reshard_ranks < m->shard;
    return group ? gen_printf(g, "to groups of %" PRId64, m->reshard_ranks)
           : m->reshard_ranks == m->shard ? "yes"
                                          : "no";
}

static void print_head(Gen *g, Text *t)
{
    const Model *m = &g->model;
    const Program *p = &g->prog;
    text_printf(t, "%s: %s, %s parameters, param %s, reduce %s, master %s, moments %s\n",
                m->name, m->arch, grouped(g, plan_params(g)), dtype_name(m->param_dtype),
                dtype_name(m->reduce_dtype), dtype_name(m->master_dtype),
                dtype_name(m->moments_dtype));
    text_printf(t, "numerics hash %016" PRIx64 "\n\n", g->numerics_hash);
    text_printf(
        t, "mesh: %" PRId64 " rank%s (replicate %" PRId64 ", shard %" PRId64 "), %s\n",
        m->world_size, m->world_size == 1 ? "" : "s", m->replicate, m->shard,
        strategy_name(m->strategy));
    text_printf(t,
                "step: %" PRId64 " micro-batches of %" PRId64 " x %" PRId64
                " tokens in %" PRId64 " leaves; each rank %" PRId64 " round%s of %" PRId64
                " micro-batch%s%s\n",
                m->micro_batches, m->micro_batch, m->seq_tokens, m->leaves, p->rounds,
                p->rounds == 1 ? "" : "s", p->leaf_micro_batches,
                p->leaf_micro_batches == 1 ? "" : "es",
                m->library_order ? "; over ranks one by one, not as a tree" : "");
    text_printf(t,
                "choices: %s accumulation, reshard after forward %s, prefetch %" PRId64
                " forward and %" PRId64 " backward (%s), at most %" PRId64
                " gathered at once, reductions %s\n",
                m->accumulate_sharded ? "sharded" : "unsharded", reshard_text(g),
                m->prefetch_forward, m->prefetch_backward,
                prefetch_order_name(m->prefetch_order), m->gathers_in_flight,
                m->reduces_in_flight ? "beside the next span" : "before the next span");
    if (m->target == TARGET_CUDA) {
        text_printf(t, "target: cuda, %s with %s a program can have, kernels for", m->gpu,
                    human_bytes(g, m->budget_bytes));
        for (int i = 0; i < m->n_archs; i++) {
            text_printf(t, "%s %s", i ? "," : "", m->archs[i]);
        }
        text_printf(t, "\n");
    }
    print_recompute(g, t);
    policy_auto_print(g, t);
}

static void print_units(Gen *g, Text *t)
{
    int64_t used = 0, held = 0;
    text_printf(t, "units: one line each; elements, of them padding, a rank's shard\n");
    for (int i = 0; i < g->units.count; i++) {
        const Unit *u = &g->units.items[i];
        for (int k = 0; k < u->n_segments; k++) {
            const Segment *s = &g->segments.items[u->segments[k]];
            used += s->used_elems;
            held += s->elems;
            text_printf(
                t, "  %-24s %3d parameters %14" PRId64 " %10" PRId64 " %14" PRId64 "\n",
                s->name, s->n_params, s->elems, s->elems - s->used_elems, s->shard_elems);
        }
    }
    text_printf(t, "  padding %.3f %%\n\n", 100.0 * (double)(held - used) / (double)used);
}

static bool same_layout(const Gen *g, const Segment *a, const Segment *b)
{
    if (a->n_params != b->n_params || a->elems != b->elems) {
        return false;
    }
    for (int i = 0; i < a->n_params; i++) {
        const Param *x = &g->params.items[a->params[i]],
                    *y = &g->params.items[b->params[i]];
        if (x->offset_elems != y->offset_elems ||
            strcmp(x->decl->name, y->decl->name) != 0) {
            return false;
        }
    }
    return true;
}

static void print_layout(Gen *g, Text *t)
{
    text_printf(t, "layout of segments: offset and shape of each parameter\n");
    for (int i = 0; i < g->segments.count; i++) {
        const Segment *s = &g->segments.items[i];
        int alike = 0;
        bool first = true;
        for (int j = 0; j < g->segments.count; j++) {
            bool same = same_layout(g, s, &g->segments.items[j]);
            alike += same;
            first = first && !(same && j < i);
        }
        if (!first) {
            continue;
        }
        text_printf(t, alike > 1 ? "  %s, and %d more like it\n" : "  %s\n", s->name,
                    alike - 1);
        for (int k = 0; k < s->n_params; k++) {
            const Param *p = &g->params.items[s->params[k]];
            text_printf(t, "    %14" PRId64 "  %s [", p->offset_elems, p->name);
            for (int d = 0; d < p->decl->n_dims; d++) {
                text_printf(t, "%s%" PRId64, d ? ", " : "", p->decl->dim[d]);
            }
            text_printf(t, "]%s\n", p->n_uses > 1 ? " tied" : "");
        }
    }
    text_printf(t, "\n");
}

static void print_schedule(Gen *g, Text *t)
{
    static const char *const names[] = {"evaluation", "local micro-step",
                                        "last micro-step", "end of step"};
    const Program *p = &g->prog;
    text_printf(t, "schedule: calls; collectives and what this rank receives; waits\n");
    for (int k = 0; k < N_VARIANTS; k++) {
        int v = (k + VARIANT_LOCAL) % N_VARIANTS; /* a step's, then what is beside it */
        int spans = 0, gathers = 0, reduces = 0, waits = 0;
        int64_t gathered = 0, reduced = 0;
        for (int id = p->first[v]; id < p->first[v] + p->count[v]; id++) {
            const Instr *i = &p->ins.items[id];
            spans += i->kind == INS_SPAN;
            gathers += i->stream == STREAM_GATHER;
            reduces += i->stream == STREAM_REDUCE;
            gathered += i->stream == STREAM_GATHER ? i->moved_bytes : 0;
            reduced += i->stream == STREAM_REDUCE ? i->moved_bytes : 0;
            waits += i->n_waits;
        }
        if (p->count[v] > 0) {
            text_printf(
                t, "  %-17s %4d calls, %3d gathers %s, %3d reductions %s, %d waits\n",
                names[v], spans, gathers, human_bytes(g, gathered), reduces,
                human_bytes(g, reduced), waits);
        }
    }
    if (g->model.world_size > 1) {
        Traffic moved = plan_traffic(g);
        text_printf(t, "  a step receives: weights %s, gradients %s within a copy",
                    human_bytes(g, moved.gathered), human_bytes(g, moved.reduced));
        text_printf(t, g->model.replicate > 1 ? ", %s across copies\n" : "\n",
                    human_bytes(g, moved.replicate));
    }
    text_printf(t,
                "  predicted %.3g s a step (uncalibrated rates), %.4g flops a token\n\n",
                p->step_seconds, plan_flops_per_token(g));
}

static void print_memory(Gen *g, Text *t)
{
    const Program *p = &g->prog;
    PlanBytes b = plan_bytes(g);
    const struct {
        const char *what;
        int64_t bytes;
    } rows[] = {
        {"parameters (shard)", b.params},
        {"gradients", b.gradients},
        {"master and moments", b.optimizer},
        {"activations", b.activations},
        {"gathered weights", b.gather},
        {"partial sums", b.partials},
        {"workspace, data, packing", b.workspace},
        {"arena", b.arena},
        {g->model.target == TARGET_CPU ? "outside: code, libraries (bound)"
                                       : "outside: context, libraries (kept)",
         b.library},
        {"total per rank", b.total},
    };
    text_printf(t, "memory per rank, at the moment when most is alive\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        text_printf(t, "  %-34s %18" PRId64 "  %s\n", rows[i].what, rows[i].bytes,
                    human_bytes(g, rows[i].bytes));
    }
    text_printf(
        t, "  mapped data files are page cache, shared and reclaimable, not counted\n");
    text_printf(t,
                "  saves while training goes on: %" PRId64 "  %s more of host memory\n",
                b.snapshot, human_bytes(g, b.snapshot));
    text_printf(t,
                "  arena: symmetric %" PRId64 " + local %" PRId64
                "; %.4f of most live, %.4f of one stream's tensors\n\n",
                p->space_bytes[SPACE_SYMMETRIC], p->space_bytes[SPACE_LOCAL],
                (double)p->arena_bytes / (double)p->max_live_bytes,
                (double)p->arena_bytes / (double)p->ideal_live_bytes);
}

static void print_map(Gen *g, Text *t)
{
    const Program *p = &g->prog;
    text_printf(
        t, "arena map: class, space, buffers, sum of bytes, from the lowest byte to the "
           "highest end\n");
    for (int k = 0; k < N_BUF_KINDS; k++) {
        for (int s = 0; s < N_SPACES; s++) {
            int n = 0;
            int64_t sum = 0, lo = INT64_MAX, hi = 0;
            for (int i = 0; i < p->bufs.count; i++) {
                const Buffer *b = &p->bufs.items[i];
                if ((int)b->kind != k || (int)b->space != s || b->bytes == 0) {
                    continue;
                }
                n++;
                sum += b->bytes;
                lo = min_i64(lo, b->offset_bytes);
                hi = max_i64(hi, b->offset_bytes + b->bytes);
            }
            if (n > 0) {
                text_printf(
                    t, "  %-12s %-9s %4d %18" PRId64 " %18" PRId64 " %18" PRId64 "%s\n",
                    buf_kind_name((BufKind)k), s == SPACE_LOCAL ? "local" : "symmetric",
                    n, sum, lo, hi, k < BUF_GATHERED ? "" : "  shared");
            }
        }
    }
}

void plan_print(Gen *g, Text *t)
{
    PlanWarnings w = plan_warnings(g);
    print_head(g, t);
    print_memory(g, t);
    print_units(g, t);
    print_layout(g, t);
    print_schedule(g, t);
    plan_print_matrices(g, t);
    print_map(g, t);
    for (int i = 0; i < w.count; i++) {
        text_printf(t, "%swarning: %s\n", i == 0 ? "\n" : "", w.items[i]);
    }
}
