/* SPDX-License-Identifier: Apache-2.0 */
/* verify_order.c: the step's tree, derived from the description alone.
 *
 * In: p->step, the tasks of each line, the instructions made from them. Out: what is
 * wrong. It checks that each micro-batch of a rank is computed once and each leaf summed
 * once; that a line's tasks are every block forward in order, then every block backward
 * in reverse, each once, with dropped values computed again right before; and that the
 * instructions are those tasks, in that order. */
#include "prove/verify.h"

static int64_t turns_of(const StepNode *node, Variant v)
{
    int64_t n = 0;
    if (node->of == NODE_LINE)
        return node->line == v;
    for (int i = 0; i < node->n_nodes; i++)
        n += turns_of(&node->nodes[i], v);
    return n * node->turns;
}

static const char *check_turns(Gen *g)
{
    const Model *m = &g->model;
    const int64_t mine = m->micro_batches / m->mesh.data_ranks;
    const int64_t sums = m->accumulate_sharded ? m->leaves / m->mesh.data_ranks : 1;
    const int64_t turns[N_VARIANTS] = {0, mine - sums, sums, 1};
    for (int v = 0; v < N_VARIANTS; v++) {
        int64_t n = turns_of(&g->prog.step, (Variant)v);
        if (n != turns[v]) {
            return gen_printf(g, "the step runs line %d %lld times, not %lld", v,
                              (long long)n, (long long)turns[v]);
        }
    }
    return NULL;
}

/* Is this the next task? Spans without mathematics have none. */
static bool next_is(const Gen *g, const Task *tasks, int n, int *at, Task want)
{
    const Block *b = &g->blocks.items[want.block];
    if (block_span(b, want.piece, want.phase)->n_nodes == 0)
        return true;
    if (*at >= n || tasks[*at].block != want.block || tasks[*at].piece != want.piece ||
        tasks[*at].phase != want.phase || tasks[*at].slot != want.slot)
        return false;
    ++*at;
    return true;
}

/* All pieces of a block, in the order of the phase. */
static bool next_block(const Gen *g, const Task *tasks, int n, int *at, int block,
                       Phase phase)
{
    const Block *b = &g->blocks.items[block];
    const int pieces = b->cut ? b->cls->pieces.count : 1;
    for (int k = 0; k < pieces; k++) {
        const int piece = !b->cut ? -1 : phase == PHASE_BACKWARD ? pieces - 1 - k : k;
        if (phase == PHASE_BACKWARD && b->keep == KEEP_SOME &&
            !next_is(g, tasks, n, at, (Task){block, piece, PHASE_RECOMPUTE, 0}))
            return false;
        if (!next_is(g, tasks, n, at, (Task){block, piece, phase, 0}))
            return false;
    }
    return true;
}

static const char *check_tasks(Gen *g, Variant v)
{
    const Task *tasks = g->prog.tasks[v];
    const int n = g->prog.n_tasks[v];
    int at = 0;
    bool good = true;
    for (int b = 0; good && b < g->blocks.count; b++)
        good = next_block(g, tasks, n, &at, b, PHASE_FORWARD);
    if (v == VARIANT_EVAL) {
        good = good && next_is(g, tasks, n, &at,
                               (Task){g->blocks.count - 1, -1, PHASE_EVALUATE, 0});
    }
    for (int b = g->blocks.count - 1; good && v != VARIANT_EVAL && b >= 0; b--) {
        good = (g->blocks.items[b].keep != KEEP_INPUT ||
                next_block(g, tasks, n, &at, b, PHASE_RECOMPUTE)) &&
               next_block(g, tasks, n, &at, b, PHASE_BACKWARD);
    }
    return good && at == n
               ? NULL
               : gen_printf(g, "line %d: task %d is not the one due", (int)v, at);
}

static const char *check_instructions(Gen *g, Variant v)
{
    const Program *p = &g->prog;
    int at = 0;
    for (int id = p->first[v]; id < p->first[v] + p->count[v]; id++) {
        const Instr *i = &p->ins.items[id];
        if (i->kind != INS_SPAN)
            continue;
        const Task *t = at < p->n_tasks[v] ? &p->tasks[v][at] : NULL;
        if (!t || t->block != i->block || t->piece != i->piece || t->phase != i->phase)
            return gen_printf(g, "%s is not task %d of its line", ins_label(g, i), at);
        at++;
    }
    return at == p->n_tasks[v]
               ? NULL
               : gen_printf(g, "line %d has %d tasks, and %d instructions for them",
                            (int)v, p->n_tasks[v], at);
}

const char *verify_order(Gen *g)
{
    const Variant lines[] = {VARIANT_EVAL, VARIANT_LOCAL, VARIANT_LAST};
    const char *bad = check_turns(g);
    for (size_t k = 0; k < sizeof lines / sizeof *lines && !bad; k++) {
        if (g->prog.n_tasks[lines[k]] > 0)
            bad = check_tasks(g, lines[k]);
        bad = bad ? bad : check_instructions(g, lines[k]);
    }
    return bad;
}
