/* SPDX-License-Identifier: Apache-2.0 */
/* unroll_order.c: the step as a tree of loops and tasks.
 *
 * In: blocks with what they keep (policy), leaves, micro-batches, ranks. Out: p->step,
 * the tasks of each line, rounds. Its readers are unroll (instructions of each line),
 * schedule and place (what may follow what), simulate and the figures (how often), and
 * the emitter. The checkers (prove/) derive the same from the description alone, on
 * purpose.
 *
 *   sharded accumulation    rounds x { (leaf_micro_batches - 1) x LOCAL, LAST }, END
 *   unsharded accumulation  (rounds * leaf_micro_batches - 1) x LOCAL, LAST, END
 *
 * A loop without turns is omitted, and so is a loop of one round. */
#include "plan/unroll.h"

#include <string.h>

/* ---- the tree -------------------------------------------------------------------- */

static StepNode *add_node(Gen *g, StepNode *in, NodeOf of, int64_t turns)
{
    enum { MOST_NODES = 3 };
    if (!in->nodes)
        in->nodes = gen_alloc(g, sizeof *in->nodes * MOST_NODES);
    gen_require(in->n_nodes < MOST_NODES, "a loop of more than %d nodes", MOST_NODES);
    StepNode *node = &in->nodes[in->n_nodes++];
    *node = (StepNode){.of = of, .turns = turns};
    return node;
}

static void add_line(Gen *g, StepNode *in, Variant v)
{
    add_node(g, in, NODE_LINE, 0)->line = v;
}

static void build_tree(Gen *g)
{
    Program *p = &g->prog;
    const bool sharded = g->model.accumulate_sharded;
    const int64_t locals =
        sharded ? p->leaf_micro_batches - 1 : p->rounds * p->leaf_micro_batches - 1;
    p->step = (StepNode){.of = NODE_STEP, .turns = 1};
    StepNode *in = sharded && p->rounds > 1
                       ? add_node(g, &p->step, NODE_ROUNDS, p->rounds)
                       : &p->step;
    if (locals > 0)
        add_line(g, add_node(g, in, NODE_MICRO_BATCHES, locals), VARIANT_LOCAL);
    add_line(g, in, VARIANT_LAST);
    add_line(g, &p->step, VARIANT_END);
}

static int64_t turns_in(const StepNode *node, Variant v)
{
    int64_t n = node->of == NODE_LINE && node->line == v;
    for (int i = 0; i < node->n_nodes; i++)
        n += node->turns * turns_in(&node->nodes[i], v);
    return n;
}

int64_t variant_turns(const Gen *g, Variant v)
{
    return turns_in(&g->prog.step, v);
}

int64_t ins_turns(const Gen *g, const Instr *i)
{
    if (i->variant == VARIANT_EVAL)
        return 0;
    return i->kind == INS_MERGE && i->variant == VARIANT_LOCAL
               ? g->prog.rounds - 1 /* LAST has the last one */
               : variant_turns(g, i->variant);
}

typedef struct Walk {
    int first, last; /* lines met; -1: none yet */
    unsigned next[N_VARIANTS];
} Walk;

/* Two turns of each loop show everything that may follow each other. */
static void walk(Walk *w, const StepNode *node)
{
    if (node->of == NODE_LINE) {
        w->first = w->first < 0 ? (int)node->line : w->first;
        if (w->last >= 0)
            w->next[w->last] |= 1u << node->line;
        w->last = (int)node->line;
    }
    for (int turn = 0; turn < (node->of == NODE_STEP ? 1 : 2); turn++)
        for (int i = 0; i < node->n_nodes; i++)
            walk(w, &node->nodes[i]);
}

unsigned variant_successors(const Gen *g, int v)
{
    const Program *p = &g->prog;
    Walk w = {.first = -1, .last = -1};
    walk(&w, &p->step);
    const unsigned between = 1u << w.first | (p->n_tasks[VARIANT_EVAL] > 0)
                                                 << VARIANT_EVAL;
    return v == w.last || v == VARIANT_EVAL ? between : w.next[v];
}

/* ---- tasks ----------------------------------------------------------------------- */

typedef struct Tasks {
    Gen *g;
    Task *items;
    int count;
} Tasks;

static void add_task(Tasks *t, int block, int piece, Phase phase)
{
    if (block_span(&t->g->blocks.items[block], piece, phase)->n_nodes > 0)
        t->items[t->count++] = (Task){block, piece, phase, 0};
}

/* A block is one call of the schedule, or one per piece if the wrap cuts it. What
 * KEEP_SOME dropped is computed again right before the backward that needs it. */
static void add_block(Tasks *t, int block, Phase phase)
{
    const Block *b = &t->g->blocks.items[block];
    int n = b->cut ? b->cls->pieces.count : 1;
    for (int i = 0; i < n; i++) {
        int piece = b->cut ? class_piece(b->cls, i, phase) : -1;
        if (phase == PHASE_BACKWARD && b->keep == KEEP_SOME)
            add_task(t, block, piece, PHASE_RECOMPUTE);
        add_task(t, block, piece, phase);
    }
}

static Tasks forward_tasks(Gen *g)
{
    size_t cap = 1;
    for (int b = 0; b < g->blocks.count; b++)
        cap += 3 * (size_t)g->blocks.items[b].cls->pieces.count;
    Tasks t = {.g = g, .items = gen_alloc(g, sizeof(Task) * cap)};
    for (int b = 0; b < g->blocks.count; b++)
        add_block(&t, b, PHASE_FORWARD);
    return t;
}

static void list_tasks(Gen *g)
{
    Program *p = &g->prog;
    const int last = g->blocks.count - 1;
    Tasks t = forward_tasks(g);
    for (int b = last; b >= 0; b--) {
        if (g->blocks.items[b].keep == KEEP_INPUT)
            add_block(&t, b, PHASE_RECOMPUTE);
        add_block(&t, b, PHASE_BACKWARD);
    }
    p->tasks[VARIANT_LOCAL] = p->tasks[VARIANT_LAST] = t.items;
    p->n_tasks[VARIANT_LAST] = t.count;
    p->n_tasks[VARIANT_LOCAL] = variant_turns(g, VARIANT_LOCAL) > 0 ? t.count : 0;
    if (g->blocks.items[last].cls->evaluate.n_nodes > 0) {
        t = forward_tasks(g);
        add_task(&t, last, -1, PHASE_EVALUATE);
        p->tasks[VARIANT_EVAL] = t.items;
        p->n_tasks[VARIANT_EVAL] = t.count;
    }
}

void unroll_order(Gen *g)
{
    const Model *m = &g->model;
    Program *p = &g->prog;
    gen_require(m->leaves % m->mesh.data_ranks == 0 && m->micro_batches % m->leaves == 0,
                "%lld micro-batches, %lld leaves, %lld ranks",
                (long long)m->micro_batches, (long long)m->leaves,
                (long long)m->mesh.data_ranks);
    p->rounds = m->leaves / m->mesh.data_ranks;
    p->leaf_micro_batches = m->micro_batches / m->leaves;
    for (int64_t r = p->rounds; r > 1; r /= 2)
        p->partial_levels++;
    build_tree(g);
    list_tasks(g);
}
