/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c: the invariants of DESIGN's table, checked after each pass. In: what the pass
 * left in the Gen. Out: NULL, or what is wrong.
 *
 * verify_after dies with that text, and tests plant faults and expect it. The checkers
 * share no code with the passes: they derive everything in another way. So they know
 * kinds of instructions by themselves, and take only names and streams from kinds.c.
 * verify_races.c checks placement and races. */
#include "ops/ops.h"
#include "plan/plan.h"
#include "prove/verify.h"

#include <stdlib.h>
#include <string.h>

/* ---- unroll ---------------------------------------------------------------------- */

/* Before a variant reads a transient buffer, it has written it. In host order. */
static const char *check_written_first(Gen *g, int v)
{
    const Program *p = &g->prog;
    bool *written = gen_alloc(g, (size_t)p->bufs.count + 1);
    for (int id = p->first[v]; id < p->first[v] + p->count[v]; id++) {
        const Instr *i = &p->ins.items[id];
        for (int a = 0; a < i->n_access; a++) {
            const Buffer *b = &p->bufs.items[i->access[a].buffer];
            const bool meets = i->kind == INS_SPAN && i->access[a].remote &&
                               ins_touches(i, b->id, true); /* what the span makes */
            if (!b->persistent && !i->access[a].write && !written[b->id] && !meets) {
                return gen_printf(g, "%s reads %s before anything wrote it",
                                  ins_label(g, i), b->name);
            }
        }
        for (int a = 0; a < i->n_access; a++)
            written[i->access[a].buffer] |= i->access[a].write;
    }
    return NULL;
}

bool ins_touches(const Instr *i, int buffer, bool write)
{
    for (int a = 0; a < i->n_access; a++)
        if (i->access[a].buffer == buffer && (i->access[a].write || !write))
            return true;
    return false;
}

/* Bindings point into buffers that the span accesses, at the parameter's place. */
static const char *check_bindings(Gen *g)
{
    const Program *p = &g->prog;
    for (int k = 0; k < p->n_bindings; k++) {
        const struct Binding *b = &p->bindings[k];
        const Instr *i = &p->ins.items[b->ins];
        const Block *blk = i->kind == INS_SPAN ? &g->blocks.items[i->block] : NULL;
        if (!blk)
            return gen_printf(g, "%s has a binding", ins_label(g, i));
        const Param *param = &g->params.items[blk->param[b->param]];
        const Dtype dtype = b->of == BIND_GRAD    ? g->model.reduce_dtype
                            : b->of == BIND_SCALE ? ops_acc_dtype(g)
                                                  : param->decl->gathered;
        const int size = dtype_bytes(dtype);
        const Buffer *buf = &p->bufs.items[b->buffer];
        const BufKind not_read = /* what lies at rest, but is not what spans read */
            segment_has_codes(&g->segments.items[param->segment]) ? BUF_PARAM_SHARD
                                                                  : BUF_CODES;
        if (!ins_touches(i, b->buffer, b->of == BIND_GRAD)) {
            return gen_printf(g, "%s binds %s in a buffer it does not touch",
                              ins_label(g, i), param->name);
        }
        if (b->of == BIND_SCALE) {
            if (buf->kind != BUF_SCALES || param->scale < 0 ||
                b->offset_bytes != param->scale * size || b->offset_bytes >= buf->bytes)
                return gen_printf(g, "%s binds the scale of %s at the wrong place",
                                  ins_label(g, i), param->name);
            continue;
        }
        if (buf->segment != param->segment || buf->kind == BUF_SCALES ||
            (buf->kind == not_read && b->of != BIND_GRAD) ||
            b->offset_bytes != param->offset_elems * size ||
            b->offset_bytes + param->held_elems * size > buf->bytes) {
            return gen_printf(g, "%s binds %s at the wrong place", ins_label(g, i),
                              param->name);
        }
    }
    return NULL;
}

/* Every span has its operands: the weights it reads and the gradients it writes are
 * bound. */
static const char *check_span(Gen *g, const Instr *i, int *next_binding)
{
    const Program *p = &g->prog;
    const Class *c = g->blocks.items[i->block].cls;
    const Span *s = ins_span(g, i);
    bool *reads = gen_alloc(g, (size_t)c->params.count + 1);
    bool *scales = gen_alloc(g, (size_t)c->params.count + 1);
    bool *writes = gen_alloc(g, (size_t)c->params.count + 1);
    span_params_read(c, s, reads);
    span_scales_read(c, s, scales);
    span_params_written(c, s, writes);
    for (; *next_binding < p->n_bindings && p->bindings[*next_binding].ins == i->id;
         ++*next_binding) {
        const struct Binding *b = &p->bindings[*next_binding];
        bool *need = b->of == BIND_GRAD ? writes : b->of == BIND_SCALE ? scales : reads;
        if (!need[b->param]) {
            return gen_printf(g, "%s binds a parameter twice, or one it does not use",
                              ins_label(g, i));
        }
        need[b->param] = false;
    }
    for (int q = 0; q < c->params.count; q++) {
        if (reads[q] || scales[q] || writes[q]) {
            return gen_printf(g, "%s: %s is not bound", ins_label(g, i),
                              c->params.items[q].name);
        }
    }
    return NULL;
}

/* What happens to a segment's gradient once in a sync, and where. */
typedef struct Sync {
    int merges, local_merges, reduces, sums;     /* how many */
    int last_write, merge_at, reduce_at, sum_at; /* instructions of LAST and END, or -1 */
} Sync;

static Sync find_sync(const Program *p, const Segment *s)
{
    Sync y = {.last_write = -1, .merge_at = -1, .reduce_at = -1, .sum_at = -1};
    for (int id = 0; id < p->ins.count; id++) {
        const Instr *i = &p->ins.items[id];
        if (i->segment != s->id)
            continue;
        if (i->kind == INS_MERGE && i->variant == VARIANT_LAST) {
            y.merges++;
            y.merge_at = id;
        }
        y.local_merges += i->kind == INS_MERGE && i->variant == VARIANT_LOCAL;
        if (i->kind == INS_REDUCE_SCATTER) {
            y.reduces++;
            y.reduce_at = id;
        }
        if (i->kind == INS_ALL_REDUCE) {
            y.sums++;
            y.sum_at = id;
        }
    }
    for (int k = 0; k < p->n_bindings; k++) {
        const struct Binding *b = &p->bindings[k];
        if (b->of == BIND_GRAD && p->bufs.items[b->buffer].segment == s->id &&
            p->ins.items[b->ins].variant == VARIANT_LAST)
            y.last_write = b->ins > y.last_write ? b->ins : y.last_write;
    }
    return y;
}

/* The sums that turn a leaf's gradient into the step's occur once each, in tree order:
 * sharded accumulation sums within a copy, over rounds, across copies; unsharded over
 * rounds first. Frozen segments have none. */
static const char *check_segment_sync(Gen *g, const Segment *s)
{
    const Program *p = &g->prog;
    bool many = p->rounds > 1, within = s->within, across = s->across;
    bool sharded = g->model.accumulate_sharded;
    const Sync y = find_sync(p, s);
    if (!s->trainable) {
        return y.reduces || y.sums || y.merges || y.local_merges || y.last_write >= 0
                   ? gen_printf(g, "segment %s is frozen, but has a gradient", s->name)
                   : NULL;
    }
    if (y.reduces != within || y.sums != across) {
        return gen_printf(g, "segment %s has %d reductions and %d sums over copies",
                          s->name, y.reduces, y.sums);
    }
    if ((within && p->ins.items[y.reduce_at].variant != VARIANT_LAST) ||
        (across && (p->ins.items[y.sum_at].variant == VARIANT_END) != (many && sharded)))
        return gen_printf(g, "segment %s is reduced in the wrong variant", s->name);
    if (y.last_write < 0)
        return gen_printf(g, "segment %s gets no gradient", s->name);
    if ((within && y.reduce_at < y.last_write) || (across && y.sum_at < y.last_write)) {
        return gen_printf(g, "segment %s is reduced before its gradient is complete",
                          s->name);
    }
    if (within && across && y.sum_at < y.reduce_at)
        return gen_printf(g, "segment %s is summed over copies too early", s->name);
    if (y.merges != many || y.local_merges != (many && !sharded)) {
        return gen_printf(g, "segment %s: %d merges in LAST, %d in LOCAL", s->name,
                          y.merges, y.local_merges);
    }
    if (many && (y.merge_at < y.last_write || (across && y.merge_at > y.sum_at) ||
                 (within && (y.merge_at < y.reduce_at) == sharded)))
        return gen_printf(g, "segment %s is merged at the wrong place", s->name);
    return NULL;
}

/* Ranks that hold weights whole get every updated part once, after the last write in END.
 * Then the step is closed, once. */
static const char *check_shares(Gen *g)
{
    const Program *p = &g->prog;
    int any = 0, closes = 0;
    for (int s = 0; s < g->segments.count; s++) {
        const Segment *seg = &g->segments.items[s];
        int gathers = 0, at = -1, updated = -1;
        bool want = seg->trainable && seg->shards > 1 && seg->param_elems == seg->elems;
        for (int id = 0; id < p->ins.count; id++) {
            const Instr *i = &p->ins.items[id];
            if (i->segment == s && (i->kind == INS_UPDATE || i->kind == INS_STEP))
                updated = id;
            if (i->segment == s && i->kind == INS_GATHER_UPDATED) {
                gathers++;
                at = id;
            }
        }
        if (gathers != want ||
            (want && (at < updated || p->ins.items[at].variant != VARIANT_END))) {
            return gen_printf(g,
                              "segment %s: %d gathers of updated weights, or too early",
                              seg->name, gathers);
        }
        any = any || want;
    }
    for (int id = 0; id < p->ins.count; id++)
        closes += p->ins.items[id].kind == INS_CLOSE;
    return closes != any || (any && p->ins.items[p->ins.count - 1].kind != INS_CLOSE)
               ? "the step is closed too early, or more than once"
               : NULL;
}

static const char *check_end(Gen *g)
{
    const Program *p = &g->prog;
    int n = g->segments.count, *norms = gen_alloc(g, sizeof(int) * (size_t)(2 * n + 2));
    int *updates = norms + n, reduces = 0;
    for (int id = p->first[VARIANT_END];
         id < p->first[VARIANT_END] + p->count[VARIANT_END]; id++) {
        const Instr *i = &p->ins.items[id];
        if (i->kind == INS_NORM && reduces == 0)
            norms[i->segment]++;
        else if (i->kind == INS_ALL_REDUCE && reduces == 0 && norms[i->segment] == 0)
            continue; /* check_segment_sync does these */
        else if (i->kind == INS_NORM_REDUCE)
            reduces++;
        else if (i->kind == INS_UPDATE && reduces == 1)
            updates[i->segment]++;
        else if (i->batch >= 0 && reduces == 1)
            continue; /* verify_exchange does these */
        else if (i->kind == INS_GATHER_UPDATED || i->kind == INS_CLOSE)
            continue; /* check_shares does these */
        else if (i->kind == INS_LARGEST || i->kind == INS_LARGEST_REDUCE ||
                 i->kind == INS_ENCODE)
            continue; /* verify_codes does these */
        else
            return gen_printf(g, "%s stands at the wrong place of END", ins_label(g, i));
    }
    for (int s = 0; s < n; s++) {
        int want = g->segments.items[s].trainable;
        if (norms[s] != want || updates[s] != (want && verify_others(g, s)) ||
            reduces != 1) {
            return gen_printf(g, "segment %s: %d norms, %d updates, %d norm reductions",
                              g->segments.items[s].name, norms[s], updates[s], reduces);
        }
    }
    return NULL;
}

/* Between steps an evaluation changes only its results. Its forward is that of the last
 * micro-step, call by call. */
static const char *check_eval(Gen *g)
{
    const Program *p = &g->prog;
    int end = p->first[VARIANT_EVAL] + p->count[VARIANT_EVAL], forward = 0;
    for (int id = p->first[VARIANT_EVAL]; id < end; id++) {
        const Instr *i = &p->ins.items[id];
        const Instr *like = &p->ins.items[p->first[VARIANT_LAST] + forward];
        for (int a = 0; a < i->n_access; a++) {
            const Buffer *b = &p->bufs.items[i->access[a].buffer];
            if (i->access[a].write && b->persistent && b->kind != BUF_CONTROL) {
                return gen_printf(g, "evaluation: %s writes %s", ins_label(g, i),
                                  b->name);
            }
        }
        if (i->phase == PHASE_FORWARD && id == p->first[VARIANT_EVAL] + forward) {
            if (i->kind != like->kind || i->phase != like->phase ||
                i->block != like->block || i->segment != like->segment ||
                i->saved != like->saved || i->out != like->out || i->to != like->to) {
                return gen_printf(g, "evaluation: %s is not the last micro-step's %s",
                                  ins_label(g, i), ins_label(g, like));
            }
            forward++;
        }
        if (i->phase == PHASE_BACKWARD || i->stream == STREAM_REDUCE)
            return gen_printf(g, "evaluation: %s", ins_label(g, i));
    }
    return NULL;
}

const char *verify_unroll(Gen *g)
{
    const Program *p = &g->prog;
    const char *bad = verify_order(g);
    int next_binding = 0;
    bad = bad ? bad : check_bindings(g);
    for (int v = 0; v < N_VARIANTS && !bad; v++)
        bad = check_written_first(g, v);
    for (int id = 0; id < p->ins.count && !bad; id++) {
        if (p->ins.items[id].kind == INS_SPAN) {
            bad = check_span(g, &p->ins.items[id], &next_binding);
            bad = bad ? bad : verify_saved(g, &p->ins.items[id]);
            bad = bad ? bad : verify_room(g, &p->ins.items[id]);
        }
    }
    bad = bad ? bad : verify_operands(g);
    bad = bad ? bad : verify_spans(g);
    bad = bad ? bad : verify_sizes(g);
    bad = bad ? bad : verify_moves(g);
    for (int s = 0; s < g->segments.count && !bad; s++)
        bad = check_segment_sync(g, &g->segments.items[s]);
    bad = bad ? bad : check_eval(g);
    bad = bad ? bad : verify_prefetch(g);
    bad = bad ? bad : verify_exchange(g);
    bad = bad ? bad : check_shares(g);
    bad = bad ? bad : verify_codes(g);
    bad = bad ? bad : verify_ctas(g);
    return bad ? bad : check_end(g);
}

/* ---- schedule -------------------------------------------------------------------- */

/* The ranks that a span joins: those that share parts along an axis, if it has a meet
 * along it that needs more than all of them have. Along two axes, a rank waits for one
 * that differs in both by way of a third, which meets both. */
static RankBits joined_by_span(const Gen *g, const Instr *i)
{
    const Span *s = ins_span(g, i);
    RankBits ranks = 0;
    for (int n = 0; g->in_parts && n < s->n_nodes; n++) {
        const Node *node = s->nodes[n];
        if (node->op->collective && node->in[0]->part[node->along].kind != PART_WHOLE)
            ranks |= g->model.mesh
                         .axis[node->along == PARTS_TENSOR ? AXIS_TENSOR : AXIS_CONTEXT]
                         .bits;
    }
    return ranks;
}

/* The peers of a span that joins ranks may read any value that it touches, and no
 * weights: those are where no peer reads. */
static bool peers_read(const Gen *g, const Instr *i)
{
    const Span *s = ins_span(g, i);
    for (int n = 0; n < s->n_nodes; n++)
        if (s->nodes[n]->op->collective && s->nodes[n]->in[0]->loc == LOC_PARAM &&
            s->nodes[n]->in[0]->part[s->nodes[n]->along].kind != PART_WHOLE)
            return false;
    for (int a = 0; a < i->n_access; a++) {
        const int b = i->access[a].buffer;
        const Buffer *buf = &g->prog.bufs.items[b];
        bool read = buf->kind != BUF_BOUNDARY && buf->kind != BUF_D_BOUNDARY &&
                    buf->kind != BUF_SAVED && buf->kind != BUF_SCRATCH;
        for (int k = 0; k < i->n_access; k++)
            read = read || (i->access[k].buffer == b && i->access[k].remote &&
                            buf->space == SPACE_SYMMETRIC);
        if (!read)
            return false;
    }
    return true;
}

/* The members of a collective are right: the segment's ranks, or all. Then all members
 * of a communicator (a group on a stream) meet its operations in one order, because
 * every rank runs the same list, and the groups of one kind partition the ranks
 * (verify_shard). */
static const char *check_members(Gen *g, const Instr *i)
{
    const Segment *s = i->segment >= 0 ? &g->segments.items[i->segment] : NULL;
    const Buffer *from = i->from >= 0 ? &g->prog.bufs.items[i->from] : NULL;
    const bool all = i->kind == INS_NORM_REDUCE || i->kind == INS_FROM_OWNERS ||
                     i->kind == INS_LARGEST_REDUCE;
    if (i->kind == INS_SPAN) {
        if (i->group != joined_by_span(g, i))
            return gen_printf(g, "%s does not join the ranks that share its parts",
                              ins_label(g, i));
        return !i->group || peers_read(g, i)
                   ? NULL
                   : gen_printf(g, "%s: its peers read values unseen", ins_label(g, i));
    }
    RankBits want =
        i->kind == INS_REDUCE_SCATTER || i->kind == INS_GATHER_UPDATED ? s->within
        : i->kind == INS_ALL_REDUCE                                    ? s->across
        : i->kind == INS_TO_OWNERS  ? verify_batch_group(g, &g->batches.items[i->batch])
        : i->kind != INS_ALL_GATHER ? 0
        : from->kind == BUF_KEPT    ? s->between
                                    : s->within;
    if (all && i->group != g->model.mesh.all)
        return gen_printf(g, "%s does not join all ranks", ins_label(g, i));
    if (ins_is_collective(i) && !all && (i->group != want || !want))
        return gen_printf(g, "%s does not join the segment's ranks", ins_label(g, i));
    if (!ins_is_collective(i) && i->group)
        return gen_printf(g, "%s has a group", ins_label(g, i));
    return NULL;
}

/* The schedule cannot deadlock:
 * 1. Waits point backwards in the one list that every rank runs. So the union of all
 *    streams' orders and waits has no cycle, within a rank or across ranks, whatever
 *    the groups: of the operations that are not complete somewhere, the first in the
 *    list can run.
 * 2. So it remains to check that waits do point backwards and stay within what one
 *    turn of a loop may see, that collectives join the right ranks, and that loops end
 *    joined. */
const char *verify_schedule(Gen *g)
{
    const Program *p = &g->prog;
    for (int id = 0; id < p->ins.count; id++) {
        const Instr *i = &p->ins.items[id];
        const char *bad = check_members(g, i);
        if (bad)
            return bad;
        for (int w = 0; w < i->n_waits; w++) {
            const Instr *on =
                i->waits[w] >= 0 && i->waits[w] < id ? &p->ins.items[i->waits[w]] : NULL;
            if (!on)
                return gen_printf(g, "%s waits for what comes after it", ins_label(g, i));
            if (on->stream == i->stream)
                return gen_printf(g, "%s waits on its own stream", ins_label(g, i));
            if (on->variant != i->variant &&
                !(on->variant == VARIANT_LAST && i->variant == VARIANT_END)) {
                return gen_printf(g, "%s waits for another turn of a loop",
                                  ins_label(g, i));
            }
            if (!i->wait_why[w] || !i->wait_why[w][0])
                return gen_printf(g, "%s waits without a reason", ins_label(g, i));
        }
    }
    return verify_races(g, false);
}

/* ---- place, simulate ------------------------------------------------------------- */

const char *verify_place(Gen *g)
{
    const Program *p = &g->prog;
    for (int b = 0; b < p->bufs.count; b++) {
        const Buffer *buf = &p->bufs.items[b];
        if (buf->offset_bytes < 0 || buf->offset_bytes % ARENA_ALIGN_BYTES != 0)
            return gen_printf(g, "%s has no aligned place", buf->name);
        if (buf->offset_bytes + buf->bytes > p->space_bytes[buf->space])
            return gen_printf(g, "%s ends outside of its space", buf->name);
    }
    if (p->arena_bytes != p->space_bytes[SPACE_SYMMETRIC] + p->space_bytes[SPACE_LOCAL] ||
        p->arena_bytes < p->max_live_bytes)
        return "the arena is not the sum of its spaces, or below its lower bound";
    return verify_races(g, true);
}

/* Ranks wait along axes that have several, and no longer than a step lasts. */
static const char *check_exposed(Gen *g, int64_t step_ps)
{
    int64_t sum = 0;
    for (int a = 0; a < N_AXES; a++) {
        const int64_t ps = g->prog.exposed.ps[a];
        if (ps < 0 || (ps > 0 && g->model.mesh.axis[a].degree == 1))
            return gen_printf(g, "ranks wait along %s, where there is one", axis_name(a));
        sum = cost_sum(sum, ps);
    }
    return sum > step_ps ? "ranks wait longer than a step lasts" : NULL;
}

const char *verify_simulate(Gen *g)
{
    const Program *p = &g->prog;
    size_t n = (size_t)p->ins.count + 1;
    int64_t *start = gen_alloc(g, sizeof *start * n),
            *end = gen_alloc(g, sizeof *end * n),
            *waited = gen_alloc(g, sizeof *waited * n);
    int64_t busy[N_STREAMS] = {0}, total = simulate_times(g, start, end, waited);
    int64_t last_end = 0;
    for (int id = p->first[VARIANT_LAST]; id < p->ins.count; id++) {
        const Instr *i = &p->ins.items[id];
        for (int w = 0; w < i->n_waits; w++) {
            if (start[id] < end[i->waits[w]]) {
                return gen_printf(g, "%s starts before what it waits for",
                                  ins_label(g, i));
            }
        }
        if (waited[id] < 0 || waited[id] > end[id] - start[id])
            return gen_printf(g, "%s waits longer than it takes", ins_label(g, i));
        busy[i->stream] += end[id] - start[id];
        last_end = max_i64(last_end, end[id]);
    }
    for (int s = 0; s < N_STREAMS; s++) {
        if (busy[s] > last_end) {
            return gen_printf(g, "the %s stream is busy longer than the step lasts",
                              stream_name((StreamId)s));
        }
    }
    if (total < last_end)
        return "a step is shorter than its last micro-step";
    return check_exposed(g, total);
}

/* ---- dispatch -------------------------------------------------------------------- */

void verify_after(Gen *g, const char *pass)
{
    static const struct {
        const char *pass;
        const char *(*check)(Gen *g);
    } checks[] = {
        {"split", verify_split},           {"span", verify_legs},
        {"checkpoint", verify_checkpoint}, {"shard", verify_shard},
        {"policy", verify_policy},         {"unroll", verify_unroll},
        {"schedule", verify_schedule},     {"place", verify_place},
        {"simulate", verify_simulate},
    };
    static const char *const graph[] = {"graph", "grad", "encode",
                                        "split", "fuse", "span"};
    for (size_t i = 0; i < sizeof graph / sizeof *graph; i++)
        if (!strcmp(pass, graph[i]))
            verify_graph(g, pass);
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        if (!strcmp(pass, checks[i].pass)) {
            const char *bad = checks[i].check(g);
            gen_require(!bad, "after %s: %s", pass, bad);
        }
    }
}
