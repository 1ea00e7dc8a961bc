/* SPDX-License-Identifier: Apache-2.0 */
/* plan_text.c: what a run will hold and do, for people (plan.txt, `fsdpgen plan`);
 * plan_json.c is the form for programs. In: the whole Gen after simulate. Out: text. */
#include "plan/plan.h"
#include "base/show.h"
#include "report/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- warnings -------------------------------------------------------------------- */

/* All warnings so far, and what is worth knowing beside the figures. */
PlanWarnings plan_warnings(Gen *g)
{
    PlanWarnings w = {0};

    for (int k = 0; diag_warning(g, k); k++)
        *gen_push(g, &w) = diag_warning(g, k);
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
    for (int b = 0; b < g->blocks.count; b++)
        if (g->blocks.items[b].cls == c && g->blocks.items[b].keep == KEEP_SOME)
            return true;
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
        bytes += plan_parts_bytes(g, k->keep == KEEP_INPUT  ? k->cls->saved_bytes
                                     : k->keep == KEEP_SOME ? k->cls->dropped_bytes
                                                            : 0);
    }
    if (n[KEEP_INPUT] + n[KEEP_SOME] == 0) {
        text_printf(t, "recomputed: nothing\n\n");
        return;
    }
    text_printf(t, "recomputed: %d of %d blocks%s: %s not kept, %sFLOP a micro-batch\n",
                n[KEEP_INPUT] + n[KEEP_SOME], of,
                n[KEEP_SOME] ? gen_printf(g, ", %d of them in part", n[KEEP_SOME]) : "",
                show_bytes(g, bytes), show_count(g, recomputed_flops(g)));
    for (int c = 0; n[KEEP_SOME] && c < g->classes.count; c++) {
        const Class *k = g->classes.items[c];
        if (!drops_some(g, k))
            continue;
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
    bool group =
        m->reshard_ranks > 1 && m->reshard_ranks < m->mesh.axis[AXIS_SHARD].degree;
    return group ? gen_printf(g, "to groups of %" PRId64, m->reshard_ranks)
           : m->reshard_ranks == m->mesh.axis[AXIS_SHARD].degree ? "yes"
                                                                 : "no";
}

static void print_network(const Gen *g, Text *t)
{
    const Network *net = &g->model.net;

    if (net->nodes > 1)
        text_printf(t,
                    "network: %" PRId64 " nodes (%s, fabric %s): links join %d ranks, "
                    "%.4g GB/s a rank beyond them, assumed\n",
                    net->nodes, net->node, net->fabric, group_ranks(net->near),
                    net->nic_per_us / 1e3);
}

static void print_head(Gen *g, Text *t)
{
    const Model *m = &g->model;
    const Program *p = &g->prog;
    text_printf(t, "%s: %s, %s parameters, param %s, reduce %s, master %s, moments %s\n",
                m->name, m->arch, show_grouped(g, plan_params(g)),
                dtype_name(m->param_dtype), dtype_name(m->reduce_dtype),
                dtype_name(m->master_dtype), dtype_name(m->moments_dtype));
    text_printf(t, "numerics hash %016" PRIx64 "\n", g->numerics_hash);
    text_printf(t, "config.json: %s\n\n", m->config_says);
    text_printf(t, "mesh: %" PRId64 " rank%s (%s), %s\n", m->mesh.world_size,
                m->mesh.world_size == 1 ? "" : "s", plan_mesh_text(g),
                strategy_name(m->strategy));
    if (g->in_parts)
        text_printf(t,
                    "parts: %" PRId64 " of %s, inside the hash; a rank computes %d of "
                    "them\n",
                    parts_all(m), parts_of(g), plan_parts(g));
    plan_print_parts_price(g, t);
    print_network(g, t);
    text_printf(t,
                "step: %" PRId64 " micro-batch%s of %" PRId64 " x %" PRId64
                " tokens in %" PRId64 " lea%s; each rank %" PRId64 " round%s of %" PRId64
                " micro-batch%s%s\n",
                m->micro_batches, m->micro_batches == 1 ? "" : "es", m->micro_batch,
                m->seq_tokens, m->leaves, m->leaves == 1 ? "f" : "ves", p->rounds,
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
    if (m->gpu) {
        text_printf(t, "target: %s, %s with %s of usable memory, kernels for",
                    m->target->name, m->gpu, show_bytes(g, m->budget_bytes));
        for (int i = 0; i < m->n_archs; i++)
            text_printf(t, "%s %s", i ? "," : "", m->archs[i]);
        text_printf(t, "\n");
    }
    print_recompute(g, t);
    search_print(g, t);
}

/* Do the segments of both units have equal sizes? */
static bool like_units(const Gen *g, const Unit *a, const Unit *b)
{
    if (a->n_segments != b->n_segments)
        return false;
    for (int k = 0; k < a->n_segments; k++) {
        const Segment *x = &g->segments.items[a->segments[k]];
        const Segment *y = &g->segments.items[b->segments[k]];

        if (x->n_params != y->n_params || x->elems != y->elems ||
            x->used_elems != y->used_elems || x->shard_elems != y->shard_elems ||
            x->trainable != y->trainable)
            return false;
    }
    return true;
}

/* How many consecutive units, from u on, are alike. */
static int units_alike(const Gen *g, const Unit *u)
{
    const int most = g->units.count - (int)(u - g->units.items);
    int n = 1;

    while (n < most && like_units(g, u, u + n))
        n++;
    return n;
}

/* Segment k of n units that are alike: "layers.0 .. layers.31, 32 units". */
static const char *units_name(Gen *g, const Unit *u, int n, int k)
{
    const char *first = g->segments.items[u->segments[k]].name;

    return n == 1 ? first
                  : gen_printf(g, "%s .. %s, %d units", first,
                               g->segments.items[u[n - 1].segments[k]].name, n);
}

static void print_units(Gen *g, Text *t)
{
    int64_t used = 0, held = 0;
    int width = 24, n;

    text_printf(t, "units: parameters; elements of each, padding among them, a rank's "
                   "shard\n");
    for (const Unit *u = g->units.items; u < g->units.items + g->units.count; u += n) {
        n = units_alike(g, u);
        for (int k = 0; k < u->n_segments; k++)
            width = (int)max_i64(width, (int64_t)strlen(units_name(g, u, n, k)));
    }
    for (const Unit *u = g->units.items; u < g->units.items + g->units.count; u += n) {
        n = units_alike(g, u);
        for (int k = 0; k < u->n_segments; k++) {
            const Segment *s = &g->segments.items[u->segments[k]];

            used += n * s->used_elems;
            held += n * s->elems;
            text_printf(
                t, "  %-*s %3d parameters %14" PRId64 " %10" PRId64 " %14" PRId64 "\n",
                width, units_name(g, u, n, k), s->n_params, s->elems,
                s->elems - s->used_elems, s->shard_elems);
        }
    }
    text_printf(t, "  padding %.3f %%\n\n", 100.0 * (double)(held - used) / (double)used);
}

static bool same_layout(const Gen *g, const Segment *a, const Segment *b)
{
    if (a->n_params != b->n_params || a->elems != b->elems)
        return false;
    for (int i = 0; i < a->n_params; i++) {
        const Param *x = &g->params.items[a->params[i]],
                    *y = &g->params.items[b->params[i]];
        if (x->offset_elems != y->offset_elems ||
            strcmp(x->decl->name, y->decl->name) != 0)
            return false;
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
        if (!first)
            continue;
        text_printf(t, alike > 1 ? "  %s and %d equal ones\n" : "  %s\n", s->name,
                    alike - 1);
        for (int k = 0; k < s->n_params; k++) {
            const Param *p = &g->params.items[s->params[k]];
            text_printf(t, "    %14" PRId64 "  %s %s%s\n", p->offset_elems, p->name,
                        show_shape(g, p->decl->dim, p->decl->n_dims),
                        p->n_uses > 1 ? " tied" : "");
        }
    }
    text_printf(t, "\n");
}

/* What of the step passes beside no kernel. */
static void print_exposed(Gen *g, Text *t)
{
    const Mesh *m = &g->model.mesh;
    const char *comma = "";

    if (m->world_size == 1 || isinf(g->prog.step_seconds))
        return;
    text_printf(t, "  of these, waiting for other ranks:");
    for (int a = 0; a < N_AXES; a++) {
        if (m->axis[a].degree == 1)
            continue;
        text_printf(t, "%s %s along %s", comma,
                    show_seconds(g, (double)g->prog.exposed.ps[a] * 1e-12), axis_name(a));
        comma = ",";
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
        int v = (k + VARIANT_LOCAL) % N_VARIANTS; /* those of a step come first */
        int spans = 0, gathers = 0, reduces = 0, waits = 0;
        int64_t gathered = 0, reduced = 0, met = 0;
        for (int id = p->first[v]; id < p->first[v] + p->count[v]; id++) {
            const Instr *i = &p->ins.items[id];
            spans += i->kind == INS_SPAN;
            gathers += i->stream == STREAM_GATHER;
            reduces += i->stream == STREAM_REDUCE;
            gathered += i->stream == STREAM_GATHER ? i->moved_bytes : 0;
            reduced += i->stream == STREAM_REDUCE ? i->moved_bytes : 0;
            met += i->kind == INS_SPAN ? i->moved_bytes : 0;
            waits += i->n_waits;
        }
        if (p->count[v] > 0) {
            text_printf(
                t, "  %-17s %4d calls, %3d gathers %s, %3d reductions %s, %d waits\n",
                names[v], spans, gathers, show_bytes(g, gathered), reduces,
                show_bytes(g, reduced), waits);
        }
        if (met > 0)
            text_printf(t, "  %-17s      its meets receive %s of other ranks' parts\n",
                        "", show_bytes(g, met));
    }
    if (g->model.mesh.world_size > 1) {
        Traffic moved = plan_traffic(g);
        text_printf(t, "  a step receives: weights %s, gradients %s within a copy",
                    show_bytes(g, moved.gathered), show_bytes(g, moved.reduced));
        if (g->model.mesh.axis[AXIS_REPLICATE].degree > 1)
            text_printf(t, ", %s across copies", show_bytes(g, moved.replicate));
        for (int a = 0; a < N_PARTS_AXES; a++)
            if (parts_ranks(&g->model, a) > 1)
                text_printf(t, ", %s of parts along %s", show_bytes(g, moved.met[a]),
                            axis_name(parts_mesh(a)));
        text_printf(t, "\n");
    }
    text_printf(t, "  predicted %s a step (%s), %sFLOP per token\n",
                show_seconds(g, p->step_seconds), cost_source(g),
                show_count(g, plan_flops_per_token(g)));
    print_exposed(g, t);
    text_printf(t, "\n");
}

static void print_fit(Gen *g, Text *t, int64_t total)
{
    const int64_t budget = g->model.budget_bytes;

    if (budget && total <= budget)
        text_printf(t, "  fits: %s of the budget of %s are free\n",
                    show_bytes(g, budget - total), show_bytes(g, budget));
    else if (budget)
        text_printf(t, "  DOES NOT FIT: %s more than the budget of %s\n",
                    show_bytes(g, total - budget), show_bytes(g, budget));
}

static void print_memory(Gen *g, Text *t)
{
    const Program *p = &g->prog;
    PlanBytes b = plan_bytes(g);
    const StrategyRule *rule = strategy_rule(g->model.strategy);
    bool whole = rule->cut[HELD_OPTIMIZER] && !rule->cut[HELD_PARAMS];
    const struct {
        const char *what;
        int64_t bytes;
    } rows[] = {
        {whole ? "parameters (whole)" : "parameters (shard)", b.params},
        {"gradients", b.gradients},
        {"master and moments", b.optimizer},
        {"activations", b.activations},
        {"gathered weights", b.gather},
        {"partial sums", b.partials},
        {"workspace, data, packing", b.workspace},
        {"arena", b.arena},
        {g->model.target->outside, b.library},
        {"total per rank", b.total},
    };
    text_printf(t, "memory per rank, at its peak\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        text_printf(t, "  %-34s %18" PRId64 "  %s\n", rows[i].what, rows[i].bytes,
                    show_bytes(g, rows[i].bytes));
    }
    print_fit(g, t, b.total);
    text_printf(
        t, "  mapped data files are page cache, shared and reclaimable, not counted\n");
    if (b.resident)
        text_printf(t,
                    "  resident, as the kernel counts: %" PRId64
                    "  %s, with %s of peers' pages and %s of code, heap, stacks\n",
                    b.resident, show_bytes(g, b.resident), show_bytes(g, b.peers),
                    show_bytes(g, g->model.target->process_bytes));
    text_printf(t, "  saves during training: %" PRId64 "  %s more of host memory\n",
                b.snapshot, show_bytes(g, b.snapshot));
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
        t, "arena map: class, space, buffers, bytes in all, lowest byte, highest end\n");
    for (int k = 0; k < N_BUF_KINDS; k++) {
        for (int s = 0; s < N_SPACES; s++) {
            int n = 0;
            int64_t sum = 0, lo = INT64_MAX, hi = 0;
            for (int i = 0; i < p->bufs.count; i++) {
                const Buffer *b = &p->bufs.items[i];
                if ((int)b->kind != k || (int)b->space != s || b->bytes == 0)
                    continue;
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
    if (plan_run_is_asked(g))
        plan_print_run(g, t);
    for (int i = 0; i < w.count; i++)
        text_printf(t, "%swarning: %s\n", i == 0 ? "\n" : "", w.items[i]);
}
