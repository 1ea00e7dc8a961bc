/* SPDX-License-Identifier: Apache-2.0 */
/* warn.c: warns of plans that run but cost more than they need to.
 *
 * In: the whole plan and its predicted times (simulate). Out: warnings, each with numbers
 * of this plan and what to write instead. Earlier passes warn of what the description or
 * the units alone show (check.c, shard.c). */
#include "plan/plan.h"
#include "base/show.h"

#include <math.h>

/* Which ranks of a group are on one node, and whether sums go over these first. */
typedef struct Nodes {
    RankBits near;
    bool two_hops;
} Nodes;

/* Bytes that a rank receives from other nodes. */
static int64_t between_nodes(const Gen *g, const Instr *i, Nodes nodes)
{
    const Segment *s = i->segment >= 0 ? &g->segments.items[i->segment] : NULL;
    int64_t size = group_ranks(i->group), near = group_ranks(i->group & nodes.near),
            far = size / near;
    int64_t dtype =
        dtype_bytes(i->kind == INS_ALL_GATHER && s ? s->gathered : g->model.reduce_dtype);
    int64_t from = nodes.two_hops ? far - 1 : size - near; /* peers */

    if (!s || far == 1)
        return 0;
    if (i->kind == INS_ALL_GATHER)
        return (size - near) * (s->elems / size) * dtype;
    if (i->kind == INS_REDUCE_SCATTER)
        return from * s->shard_elems * dtype;
    if (i->kind == INS_ALL_REDUCE) { /* sums a slice, then reads the others */
        int64_t slice = s->shard_elems / size;

        return (from + size - near) * slice * dtype;
    }
    return 0;
}

/* Adds what a step's turns of it receive. */
static int64_t turned(const Gen *g, const Instr *i, int64_t bytes, Nodes nodes)
{
    return cost_sum(bytes, cost_times(ins_turns(g, i), between_nodes(g, i, nodes)));
}

/* By the nodes that the mesh names. */
static int64_t step_between_nodes(const Gen *g, InsKind kind)
{
    int64_t bytes = 0;

    for (int id = 0; id < g->prog.ins.count; id++) {
        const Instr *i = &g->prog.ins.items[id];
        const Nodes named = {mesh_mates(g, i->group), mesh_two_hops(g, i->group)};

        if (i->kind == kind)
            bytes = turned(g, i, bytes, named);
    }
    return bytes;
}

/* Shards on a node: ranks along tensor and context, which have the lowest bits, share
 * each. Below 2: the mesh names no node that has several. */
static int64_t shards_of_node(const Model *m)
{
    return m->mesh.node_ranks / parts_all_ranks(m);
}

/* "context = 2, tensor = 2, ": what the mesh has of them */
static const char *parts_axes_text(Gen *g)
{
    Text t = {.g = g};

    for (int a = N_PARTS_AXES - 1; a >= 0; a--)
        if (parts_ranks(&g->model, a) > 1)
            text_printf(&t, "%s = %lld, ", axis_name(parts_mesh(a)),
                        (long long)parts_ranks(&g->model, a));
    return t.s ? t.s : "";
}

/* Warns if a copy of the model spans several nodes although by the budget one node could
 * hold it: weights then cross nodes in every micro-step. With a copy per node, only
 * gradients cross, once a step: a node's share, in a ring over the copies. */
static void warn_copy_over_nodes(Gen *g)
{
    const Model *m = &g->model;
    const int64_t node = m->mesh.node_ranks, shard = shards_of_node(m);
    const int64_t degree = m->mesh.axis[AXIS_SHARD].degree;
    int64_t copies, now, then, bytes;
    Cost cost = policy_cost(g);

    if (!strategy_rule(m->strategy)->cut[HELD_PARAMS] || shard < 2 || degree <= shard)
        return;
    copies = m->mesh.world_size / node;
    now = step_between_nodes(g, INS_ALL_GATHER) +
          step_between_nodes(g, INS_REDUCE_SCATTER) +
          step_between_nodes(g, INS_ALL_REDUCE);
    then = 2 * (copies - 1) * (plan_params(g) / node / copies) *
           dtype_bytes(m->reduce_dtype);
    bytes = cost.bytes + cost.sharded_bytes * (degree / shard - 1);
    if (then >= now || bytes > m->budget_bytes)
        return;
    diag_add(
        g, DIAG_WARNING, model_pos(g, "mesh"),
        gen_printf(g,
                   "mesh = { replicate = %lld, shard = %lld, %snode = %lld } with "
                   "\"%s\" crosses nodes with about %s; a rank needs "
                   "about %s, now %s",
                   (long long)copies, (long long)shard, parts_axes_text(g),
                   (long long)node, strategy_name(strategy_of_mesh(copies, shard)),
                   show_bytes(g, then), show_bytes(g, bytes), show_bytes(g, cost.bytes)),
        "mesh.shard: a copy of the model lies on %lld nodes of %lld ranks: each rank "
        "receives %s from other nodes in a step",
        (long long)(degree / shard), (long long)node, show_bytes(g, now));
}

/* Warns if ranks lie on several nodes, by the datasheet, that the mesh does not name:
 * sums then are flat, and would cross nodes less in two hops. */
static void warn_unnamed_nodes(Gen *g)
{
    const Model *m = &g->model;
    const Nodes flat = {m->net.near, false}, hops = {m->net.near, true};
    int64_t now = 0, then = 0;

    if (m->net.nodes < 2 || m->mesh.node_ranks < m->mesh.world_size || m->library_order)
        return;
    for (int id = 0; id < g->prog.ins.count; id++) {
        const Instr *i = &g->prog.ins.items[id];

        if (i->kind != INS_REDUCE_SCATTER && i->kind != INS_ALL_REDUCE)
            continue;
        now = turned(g, i, now, flat);
        then = turned(g, i, then, hops);
    }
    if (then >= now)
        return;
    diag_add(
        g, DIAG_WARNING, model_pos(g, "mesh"),
        gen_printf(g,
                   "mesh.node = %lld sums within nodes first: then each receives "
                   "%s; no bit changes",
                   (long long)group_ranks(m->net.near), show_bytes(g, then)),
        "mesh: it does not name the %lld nodes (%s) that its ranks lie on: each rank "
        "receives %s of gradients from other nodes in a step",
        (long long)m->net.nodes, m->net.node, show_bytes(g, now));
}

/* Warns if ranks along tensor lie on several nodes, by the datasheet: what their parts
 * exchange then crosses nodes in every layer. */
static void warn_tensor_over_nodes(Gen *g)
{
    const Model *m = &g->model;
    const RankBits group = m->mesh.axis[AXIS_TENSOR].bits;
    const int64_t ranks = group_ranks(group), near = group_ranks(group & m->net.near);
    const int64_t bytes = plan_traffic(g).met[PARTS_TENSOR];

    if (!m->net.node || near == ranks || bytes == 0)
        return;
    diag_add(g, DIAG_WARNING, model_pos(g, "mesh.tensor"),
             gen_printf(g,
                        "use tensor = %lld, and mesh.context or mesh.shard for ranks of "
                        "other nodes",
                        (long long)near),
             "mesh.tensor: %lld ranks lie on %lld nodes (%s): each receives %s of parts "
             "from other nodes in a step, beside no kernel",
             (long long)ranks, (long long)(ranks / near), m->net.node,
             show_bytes(g, bytes / (ranks - 1) * (ranks - near)));
}

/* Warns if the ranks that keep the weights for the backward are on several nodes. */
static void warn_reshard_over_nodes(Gen *g)
{
    const Model *m = &g->model;
    const int64_t node = m->mesh.node_ranks, shard = shards_of_node(m);
    int64_t now = 0;

    if (shard < 2 || m->reshard_ranks <= shard ||
        m->reshard_ranks >= m->mesh.axis[AXIS_SHARD].degree)
        return;
    for (int id = 0; id < g->prog.ins.count; id++) {
        const Instr *i = &g->prog.ins.items[id];

        const Nodes named = {mesh_mates(g, i->group), false};

        if (i->kind == INS_ALL_GATHER && i->phase == PHASE_BACKWARD)
            now = turned(g, i, now, named);
    }
    if (now > 0)
        diag_add(g, DIAG_WARNING, model_pos(g, "reshard_after_forward"),
                 gen_printf(g, "reshard_after_forward = %lld gathers within nodes",
                            (long long)shard),
                 "reshard_after_forward: groups of %lld lie on %lld nodes of %lld ranks: "
                 "the backward's gathers bring each rank %s from other nodes in a step",
                 (long long)m->reshard_ranks, (long long)(m->reshard_ranks / shard),
                 (long long)node, show_bytes(g, now));
}

/* What the last micro-step moves and computes, in picoseconds, beside nothing. */
static void micro_step(const Gen *g, int64_t *moves, int64_t *computes)
{
    const Program *p = &g->prog;

    *moves = *computes = 0;
    for (int k = 0; k < p->count[VARIANT_LAST]; k++) {
        const Instr *i = &p->ins.items[p->first[VARIANT_LAST] + k];
        int64_t *sum = i->stream == STREAM_COMPUTE ? computes : moves;

        *sum = cost_sum(*sum, cost_instr(g, i));
    }
}

/* Warns of a communication thread with almost nothing to overlap with: by the predicted
 * rates there is more to move than to compute. */
static void warn_no_overlap(Gen *g)
{
    int64_t moves, computes;

    if (!g->model.comm_thread || g->model.mesh.world_size == 1)
        return;
    micro_step(g, &moves, &computes);
    if (moves > 2 * computes)
        diag_add(g, DIAG_WARNING, model_pos(g, "target.comm_thread"),
                 "a larger micro_batch or seq, more blocks in a unit (wrap), or fewer "
                 "ranks",
                 "target.comm_thread: the collectives of a micro-step take about %s "
                 "and its mathematics %s (%s): at most %.0f %% of "
                 "them can run beside it",
                 show_seconds(g, (double)moves * 1e-12),
                 show_seconds(g, (double)computes * 1e-12), cost_source(g),
                 100.0 * (double)computes / (double)moves);
}

/* Warns of a device that moves more than it computes, if twice the micro-batch fits:
 * then a step moves about half. */
static void warn_small_batch(Gen *g)
{
    const Model *m = &g->model;
    const Cost cost = policy_cost(g);
    const int64_t bytes = cost.bytes + cost.batch_bytes, half = m->micro_batches / 2;
    int64_t moves, computes;

    if (!m->target->device || m->mesh.world_size == 1 || m->micro_batches % 2 ||
        half < m->mesh.data_ranks || (m->budget_bytes > 0 && bytes > m->budget_bytes))
        return;
    micro_step(g, &moves, &computes);
    if (moves <= computes || warn_waits(g) <= 0)
        return;
    diag_add(
        g, DIAG_WARNING, model_pos(g, "micro_batch"),
        gen_printf(g,
                   "micro_batch = %lld%s computes twice as much beside them and "
                   "needs about %s a rank; it is another numerics hash",
                   (long long)(2 * m->micro_batch),
                   m->leaves > half ? gen_printf(g, ", leaves = %lld", (long long)half)
                                    : "",
                   show_bytes(g, bytes)),
        "micro_batch: the collectives of a micro-step take about %s and its "
        "mathematics %s (%s): at most %.0f %% of them can run beside it",
        show_seconds(g, (double)moves * 1e-12), show_seconds(g, (double)computes * 1e-12),
        cost_source(g), 100.0 * (double)computes / (double)moves);
}

void warn_fp8(Gen *g, const Cost *without)
{
    enum { WORTH_PERCENT = 1 }; /* of a step */
    const Cost now = policy_cost(g);

    if (without->seconds * (100 + WORTH_PERCENT) >= now.seconds * 100)
        return;
    diag_add(g, DIAG_WARNING, model_pos(g, "dtypes.linear"),
             gen_printf(g,
                        "dtypes.linear = \"param\" needs %s a rank; it is another "
                        "numerics hash",
                        show_bytes(g, without->bytes)),
             "dtypes.linear: a step takes about %s with \"fp8\", in %s a rank, and %s "
             "without (%s): roundings take more time than its products save",
             show_seconds(g, now.seconds), show_bytes(g, now.bytes),
             show_seconds(g, without->seconds), cost_source(g));
}

/* Times stop at the longest one: sums and shares of them say nothing. */
static void warn_endless(Gen *g)
{
    const double seconds = g->prog.step_seconds;

    if (isinf(seconds))
        diag_add(g, DIAG_WARNING, model_pos(g, "global_batch"),
                 "use more ranks, or a smaller model or global_batch",
                 "a step takes %s (%s), too long for a prediction",
                 show_seconds(g, seconds), cost_source(g));
}

void warn_plan(Gen *g)
{
    warn_endless(g);
    warn_copy_over_nodes(g);
    warn_reshard_over_nodes(g);
    warn_unnamed_nodes(g);
    warn_tensor_over_nodes(g);
    warn_no_overlap(g);
    warn_small_batch(g);
    warn_small_units(g);
    warn_small_chunks(g);
}
