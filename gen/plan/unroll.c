/* SPDX-License-Identifier: Apache-2.0 */
/* unroll.c: the step as straight lines of instructions in host order.
 *
 * In: segments (shard), spans (span), the choices of policy. Out: g->prog: instructions,
 * accesses, buffers (without offsets), bindings, rounds. Breaks: schedule and place.
 *
 * The variants:
 * 1. A step has three lines, LOCAL, LAST and END; its loops and the tasks of each line
 *    are a tree (unroll_order.c). LOCAL adds gradients without collectives on them; LAST
 *    also reduces them; END has the norms, their one reduction, and the updates.
 * 2. INS_MERGE adds the node of a finished leaf to the partial sums. In LAST it follows
 *    the reduction (sharded) or precedes it (unsharded). In LOCAL all merges stand at the
 *    end, and run only in the last micro-batch of a leaf.
 * 3. EVAL is LAST's forward, instruction by instruction on the same buffers, with the
 *    evaluation of the block that ends the model instead of its backward. It may run
 *    between any two steps, as often as needed.
 * 4. A variant begins when everything of the previous one is complete on this rank: its
 *    last compute instruction follows all its collectives. (After LAST with one round,
 *    END itself waits for the reductions, segment by segment.)
 *
 * Sums and weights:
 * 1. A segment's gradient is summed within the ranks that hold one copy
 *    (INS_REDUCE_SCATTER) and across copies (INS_ALL_REDUCE). The tree over leaves
 *    determines the order: sharded accumulation sums over ranks within the copy first,
 *    then over rounds, then over copies; unsharded over rounds, within, across. So the
 *    sum across follows the sum within, except in sharded accumulation over several
 *    rounds: there it follows the last merge, in END.
 * 2. If every rank holds the weights whole and updates a part of them (shard_optimizer),
 *    spans read them in place, and END sends each updated part to all ranks.
 *
 * Gathers:
 * 1. An instance of a segment covers consecutive spans that read it. Spans of other units
 *    in between end it, unless the unit keeps its weights (keep_gathered): then it lasts
 *    to its last reader. So the last unit is never resharded between its forward and its
 *    backward, and a wrapped group is gathered once.
 * 2. If a smaller group shares the weights between forward and backward, each rank keeps
 *    its part after the last reader of the forward (INS_KEEP), and the backward's gather
 *    asks only that group.
 * 3. The gather for turn t is issued before the first span of turn t - ahead, where ahead
 *    is the depth. In the backward this is order "pre".
 * 4. Order "post" issues it after the last span of turn t - depth, before the reductions
 *    that this span completes. So one unit less is gathered meanwhile, and where
 *    collectives take turns, the reduction runs beside the next span instead of before
 *    its weights.
 * 5. Order "none" issues it after those reductions, before its own turn.
 * 6. A gather starts when the compute instruction before it in host order is complete
 *    (schedule). So no more than in_flight units are gathered at once, the current one
 *    included: what FSDP's limit_all_gathers bounds. A unit that stays gathered (no
 *    reshard) counts until its first use. */
#include "plan/unroll.h"

#include <stdlib.h>
#include <string.h>

static void find_read(const Class *c, const Span *s, ValueKind kind, bool *reads)
{
    memset(reads, 0, sizeof(bool) * (size_t)c->params.count);
    for (int n = 0; n < s->n_nodes; n++) {
        for (int i = 0; i < s->nodes[n]->n_in; i++)
            if (s->nodes[n]->in[i]->kind == kind)
                reads[s->nodes[n]->in[i]->index] = true;
    }
}

void span_params_read(const Class *c, const Span *s, bool *reads)
{
    find_read(c, s, VAL_PARAM, reads);
}

void span_scales_read(const Class *c, const Span *s, bool *reads)
{
    find_read(c, s, VAL_SCALE, reads);
}

void span_params_written(const Class *c, const Span *s, bool *writes)
{
    memset(writes, 0, sizeof(bool) * (size_t)c->params.count);
    for (int n = 0; n < s->n_nodes; n++) {
        for (int i = 0; i < s->nodes[n]->n_out; i++)
            if (s->nodes[n]->out[i]->loc == LOC_GRAD)
                writes[s->nodes[n]->out[i]->loc_index] = true;
    }
}

static void find_use(Gen *g, const Class *c, const Span *s, SpanUse *use, int phase)
{
    const size_t n = (size_t)c->params.count + 1;
    use->reads[phase] = gen_alloc(g, n);
    use->scales[phase] = gen_alloc(g, n);
    use->writes[phase] = gen_alloc(g, n);
    span_params_read(c, s, use->reads[phase]);
    span_scales_read(c, s, use->scales[phase]);
    span_params_written(c, s, use->writes[phase]);
}

static void find_uses(Unroller *u)
{
    Gen *g = u->g;
    u->use = gen_alloc(g, sizeof *u->use * (size_t)(g->classes.count + 1));
    for (int i = 0; i < g->classes.count; i++) {
        const Class *c = g->classes.items[i];
        SpanUse *use =
            gen_alloc(g, sizeof *use * (2 * (size_t)(c->pieces.count + 1) + 1));
        u->use[c->id] = use;
        for (int piece = -1; piece < c->pieces.count; piece++, use++) {
            find_use(g, c, class_span(c, piece, PHASE_FORWARD), use, 0);
            find_use(g, c, class_span(c, piece, PHASE_BACKWARD), use, 1);
        }
        for (int piece = -1; piece < c->pieces.count; piece++, use++) /* forward nodes */
            find_use(g, c, piece < 0 ? &c->again : &c->pieces.items[piece].again, use, 0);
        find_use(g, c, &c->evaluate, use, 0);
    }
}

/* ---- turns ----------------------------------------------------------------------- */

/* Consecutive tasks of one unit and part form a turn: its weights are gathered once. */
static void number_turns(Unroller *u, Variant v)
{
    const Task *tasks = u->p->tasks[v];
    const size_t n = (size_t)u->p->n_tasks[v] + 1;
    u->n_seq = u->n_turns = 0;
    u->first_backward_turn = -1;
    u->seq = gen_alloc(u->g, sizeof *u->seq * n);
    u->turn_first = gen_alloc(u->g, sizeof(int) * n);
    for (int k = 0; k < u->p->n_tasks[v]; k++) {
        const Block *b = &u->g->blocks.items[tasks[k].block];
        SeqSpan *s = &u->seq[u->n_seq];
        s->block = tasks[k].block;
        s->piece = tasks[k].piece;
        s->phase = tasks[k].phase;
        s->unit = b->unit[s->piece >= 0                ? s->piece
                          : s->phase == PHASE_EVALUATE ? b->cls->pieces.count - 1
                                                       : 0];
        if (u->n_seq == 0 || s->unit < 0 || s[-1].unit != s->unit ||
            part_of(s[-1].phase) != part_of(s->phase))
            u->turn_first[u->n_turns++] = u->n_seq;
        s->turn = u->n_turns - 1;
        if (u->first_backward_turn < 0 && s->phase != PHASE_FORWARD)
            u->first_backward_turn = s->turn;
        u->n_seq++;
    }
    if (u->first_backward_turn < 0)
        u->first_backward_turn = u->n_turns;
}

/* ---- gathers --------------------------------------------------------------------- */

static bool writes_segment(const Unroller *u, int pos, int segment)
{
    const SeqSpan *s = &u->seq[pos];
    const Block *b = &u->g->blocks.items[s->block];
    const bool *writes = seq_use(u, s)->writes[use_of(s->phase)];
    for (int p = 0; p < b->cls->params.count; p++)
        if (writes[p] && u->g->params.items[b->param[p]].segment == segment)
            return true;
    return false;
}

/* May the segment stay gathered from a to b although nothing in between reads it? */
static bool stays_gathered(const Unroller *u, int unit, int a, int b)
{
    if (u->g->units.items[unit].keep_gathered)
        return true;
    for (int pos = a + 1; pos < b; pos++)
        if (u->seq[pos].unit != unit)
            return false;
    return true;
}

bool plan_gathers_after(const Model *m)
{
    return m->prefetch_order == PREFETCH_POST && m->prefetch_backward > 0;
}

int64_t plan_units_ahead(const Model *m, Phase phase)
{
    int64_t depth = m->prefetch_forward;
    if (phase != PHASE_FORWARD) {
        depth = m->prefetch_order == PREFETCH_PRE ? m->prefetch_backward
                : plan_gathers_after(m)           ? m->prefetch_backward - 1
                                                  : 0;
    }
    return max_i64(0, min_i64(depth, m->gathers_in_flight - 1));
}

static int issue_turn(const Unroller *u, const Instance *in, int after_pos)
{
    const SeqSpan *s = &u->seq[in->first];
    bool back = s->phase != PHASE_FORWARD;
    int64_t ahead = plan_units_ahead(&u->g->model, s->phase);
    int turn = (int)max_i64(back ? u->first_backward_turn : 0, s->turn - ahead);
    while (turn < s->turn && u->turn_first[turn] <= after_pos)
        turn++; /* the previous instance is still being read */
    return turn;
}

static int by_first_use(const void *a, const void *b)
{
    const Instance *x = a, *y = b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1)
                                : x->segment - y->segment;
}

/* -1: the forward does not read it. */
static int last_forward_reader(const Unroller *u, int segment)
{
    int last = -1;
    for (int pos = 0; pos < u->n_seq && u->seq[pos].phase == PHASE_FORWARD; pos++) {
        const Block *b = &u->g->blocks.items[u->seq[pos].block];
        const bool *reads = seq_use(u, &u->seq[pos])->reads[use_of(PHASE_FORWARD)];
        for (int p = 0; p < b->cls->params.count; p++)
            if (reads[p] && u->g->params.items[b->param[p]].segment == segment)
                last = pos;
    }
    return last;
}

/* Lists (segment, position) pairs of all reads, grouped by segment in order of
 * position. */
static void find_instances(Unroller *u)
{
    Gen *g = u->g;
    int cap = 0;
    for (int pos = 0; pos < u->n_seq; pos++)
        cap += g->blocks.items[u->seq[pos].block].cls->params.count;
    u->inst = gen_alloc(g, sizeof *u->inst * (size_t)(cap + 1));
    u->n_inst = 0;
    if (!u->keep_at) { /* evaluation keeps what training keeps: its forward is the same */
        u->keep_at = gen_alloc(g, sizeof(int) * (size_t)(g->segments.count + 1));
        memset(u->keep_at, -1, sizeof(int) * (size_t)g->segments.count);
    }
    int *latest = gen_alloc(g, sizeof(int) * (size_t)(g->segments.count + 1));
    memset(latest, -1, sizeof(int) * (size_t)g->segments.count);
    for (int pos = 0; pos < u->n_seq; pos++) {
        const Block *b = &g->blocks.items[u->seq[pos].block];
        const bool *reads = seq_use(u, &u->seq[pos])->reads[use_of(u->seq[pos].phase)];
        for (int p = 0; p < b->cls->params.count; p++) {
            int seg = g->params.items[b->param[p]].segment;
            if (!reads[p] || !g->segments.items[seg].cut[HELD_PARAMS])
                continue;
            int was = latest[seg];
            if (was >= 0 && (u->inst[was].last == pos ||
                             stays_gathered(u, g->segments.items[seg].unit,
                                            u->inst[was].last, pos))) {
                u->inst[was].last = pos;
                continue;
            }
            Instance *in = &u->inst[u->n_inst];
            in->segment = seg;
            in->first = in->last = pos;
            in->issue_turn = issue_turn(u, in, was < 0 ? -1 : u->inst[was].last);
            if (g->segments.items[seg].between && u->seq[pos].phase != PHASE_FORWARD) {
                u->keep_at[seg] = last_forward_reader(u, seg);
                in->from_kept = u->keep_at[seg] >= 0;
            }
            latest[seg] = u->n_inst++;
        }
    }
    qsort(u->inst, (size_t)u->n_inst, sizeof *u->inst, by_first_use);
}

static void find_last_writers(Unroller *u)
{
    Gen *g = u->g;
    u->last_writer = gen_alloc(g, sizeof(int) * (size_t)(g->segments.count + 1));
    memset(u->last_writer, -1, sizeof(int) * (size_t)g->segments.count);
    for (int pos = 0; pos < u->n_seq; pos++) {
        const Block *b = &g->blocks.items[u->seq[pos].block];
        for (int p = 0; p < b->cls->params.count; p++) {
            int seg = g->params.items[b->param[p]].segment;
            if (u->last_writer[seg] != pos && writes_segment(u, pos, seg))
                u->last_writer[seg] = pos;
        }
    }
}

/* ---- variants -------------------------------------------------------------------- */

/* A merge waits for its reduction, so it is placed where the compute stream waits for
 * that reduction anyway (schedule: reductions in flight). */
static void merge_reduced(Unroller *u, int in_flight)
{
    if (u->p->rounds == 1 || !u->g->model.accumulate_sharded ||
        u->variant != VARIANT_LAST || !plan_collectives(u->g))
        return;
    while (u->n_merged < u->n_reduces - in_flight)
        unroll_merge(u, u->reduce_order[u->n_merged++]);
}

/* Are sums of leaves over the ranks of a copy merged with other rounds before the sum
 * over copies? */
static bool merges_between(const Unroller *u)
{
    return u->p->rounds > 1 && u->g->model.accumulate_sharded;
}

static void finish_segment(Unroller *u, int segment)
{
    const Segment *s = &u->g->segments.items[segment];
    if (u->variant != VARIANT_LAST)
        return;
    /* Place the merge here if no reduction comes before it, so that merge_reduced can
     * follow. */
    if (u->p->rounds > 1 && (!merges_between(u) || !s->within))
        unroll_merge(u, segment);
    if (s->within)
        unroll_reduce(u, segment);
    if (s->across && !merges_between(u))
        unroll_all_reduce(u, segment);
}

/* Does the end of a turn issue the gathers of the next one before its own reductions? */
static bool issues_early(const Unroller *u, int turn)
{
    return plan_gathers_after(&u->g->model) && turn > u->first_backward_turn;
}

static void issue_gathers(Unroller *u, int turn)
{
    for (int i = 0; i < u->n_inst; i++)
        if (u->inst[i].issue_turn == turn)
            unroll_gather(u, &u->inst[i]);
}

static void unroll_variant(Unroller *u, Variant v)
{
    Program *p = u->p;
    int turn = -1;
    u->variant = v;
    u->n_reduces = u->n_merged = 0;
    memset(u->param_written, 0, (size_t)u->g->params.count);
    p->first[v] = p->ins.count;
    for (int pos = 0; pos < u->n_seq; pos++) {
        if (u->seq[pos].turn != turn) {
            turn = u->seq[pos].turn;
            if (!issues_early(u, turn))
                issue_gathers(u, turn);
            merge_reduced(u, (int)u->g->model.reduces_in_flight);
        }
        unroll_span(u, pos);
        if (pos + 1 < u->n_seq && u->seq[pos + 1].turn != turn &&
            issues_early(u, turn + 1))
            issue_gathers(u, turn + 1);
        for (int s = 0; s < u->g->segments.count; s++) {
            if (u->keep_at[s] == pos)
                unroll_keep(u, s);
            if (u->last_writer[s] == pos)
                finish_segment(u, s);
        }
    }
    merge_reduced(u, 0);
    if (v == VARIANT_LOCAL && p->rounds > 1 && !u->g->model.accumulate_sharded) {
        for (int i = u->g->segments.count - 1; i >= 0; i--)
            if (u->g->segments.items[i].trainable)
                unroll_merge(u, i);
    }
    p->count[v] = p->ins.count - p->first[v];
}

/* EVAL, on the training step's buffers. */
static void unroll_evaluation(Unroller *training)
{
    Gen *g = training->g;
    Unroller u = *training;
    if (g->prog.n_tasks[VARIANT_EVAL] == 0)
        return;
    number_turns(&u, VARIANT_EVAL);
    find_instances(&u);
    find_last_writers(&u); /* there are none */
    unroll_evaluate_buffers(&u, training);
    unroll_variant(&u, VARIANT_EVAL);
}

/* Meets wait for the collectives before them on their stream. What is started ahead goes
 * behind a meet then, and moves while the parts compute until the next one. */
static bool starts_behind_meets(const Gen *g)
{
    const Program *p = &g->prog;
    bool meets = false;

    for (int k = 0; k < p->ins.count; k++)
        meets |= p->ins.items[k].kind == INS_SPAN && p->ins.items[k].group;
    return meets && g->model.target->device;
}

void unroll_step(Gen *g)
{
    Program *p = &g->prog;
    Unroller u = {.g = g, .p = p};

    memset(p, 0, sizeof *p);
    unroll_order(g);
    find_uses(&u);
    number_turns(&u, VARIANT_LAST);
    find_instances(&u);
    find_last_writers(&u);
    u.param_written = gen_alloc(g, (size_t)g->params.count + 1);
    u.reduce_order = gen_alloc(g, sizeof(int) * (size_t)(g->segments.count + 1));
    unroll_buffers(&u);
    unroll_evaluation(&u);
    if (variant_turns(g, VARIANT_LOCAL) > 0)
        unroll_variant(&u, VARIANT_LOCAL);
    unroll_variant(&u, VARIANT_LAST);
    u.variant = VARIANT_END;
    p->first[VARIANT_END] = p->ins.count;
    for (int s = g->segments.count - 1; merges_between(&u) && s >= 0; s--) {
        if (g->segments.items[s].trainable && g->segments.items[s].across) {
            /* in the order of the last merges */
            unroll_all_reduce(&u, s);
        }
    }
    unroll_end(&u);
    p->count[VARIANT_END] = p->ins.count - p->first[VARIANT_END];
    p->behind_meets = starts_behind_meets(g);
    unroll_ctas(g);
}
