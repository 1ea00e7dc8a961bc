/* SPDX-License-Identifier: Apache-2.0 */
/* test_waits: the schedule's relations and its waits.
 *
 * Orders: hb_same and hb_group of every pair of instructions against a plain search in
 * the graph of start and completion events of all ranks of a mesh. Waits: each removed in
 * turn; the checker must name what may go wrong, or else (proven redundant) random orders
 * must still give the same bits. A difference in bits that the checker did not foresee is
 * a failure. */
#include "test_plan.h"
#include "prove/verify.h"

#include <stdlib.h>
#include <string.h>

/* ---- orders ---------------------------------------------------------------------- */

typedef struct Graph {
    int n, ranks;
    unsigned char *edge;
} Graph; /* nodes: ((ins * ranks) + rank) * 2 + end */

static int node(const Graph *gr, int ins, int rank, int end)
{
    return (ins * gr->ranks + rank) * 2 + end;
}

static void add_edge(Graph *gr, int a, int b)
{
    gr->edge[(size_t)a * (size_t)gr->n + (size_t)b] = 1;
}

static bool in_one_group(const Instr *i, int q, int r)
{
    return group_joins(i->group, q, r);
}

/* From the words of schedule.c's header alone: streams, joins at variants, waits,
 * collectives of groups. */
static Graph explicit_graph(const Gen *g)
{
    const Program *p = &g->prog;
    Graph gr = {.ranks = (int)g->model.mesh.world_size};
    gr.n = p->ins.count * gr.ranks * 2;
    gr.edge = calloc((size_t)gr.n * (size_t)gr.n, 1);
    gen_require(gr.edge, "out of memory");
    for (int b = 0; b < p->ins.count; b++) {
        const Instr *i = &p->ins.items[b];
        bool join = i->stream != STREAM_COMPUTE && i->variant != VARIANT_END;
        for (int r = 0; r < gr.ranks; r++) {
            add_edge(&gr, node(&gr, b, r, 0), node(&gr, b, r, 1));
            for (int a = 0; a < b; a++) {
                const Instr *before = &p->ins.items[a];
                if (before->stream == i->stream ||
                    (join && before->stream == STREAM_COMPUTE &&
                     before->variant < i->variant))
                    add_edge(&gr, node(&gr, a, r, 1), node(&gr, b, r, 0));
            }
            for (int w = 0; w < i->n_waits; w++)
                add_edge(&gr, node(&gr, i->waits[w], r, 1), node(&gr, b, r, 0));
            for (int q = 0; q < gr.ranks && ins_is_collective(i); q++)
                if (in_one_group(i, q, r))
                    add_edge(&gr, node(&gr, b, r, 0), node(&gr, b, q, 1));
        }
    }
    return gr;
}

static void search(const Graph *gr, int from, bool *seen, int *stack)
{
    int n = 0;
    memset(seen, 0, (size_t)gr->n);
    stack[n++] = from;
    seen[from] = true;
    while (n > 0) {
        int at = stack[--n];
        for (int to = 0; to < gr->n; to++) {
            if (gr->edge[(size_t)at * (size_t)gr->n + (size_t)to] && !seen[to]) {
                seen[to] = true;
                stack[n++] = to;
            }
        }
    }
}

/* Of each pair: is a past on all ranks of each collective's group before b starts? */
static int wrong_pairs(const Gen *g, const Graph *gr, bool *const *seen, int a, int rank)
{
    const Program *p = &g->prog;
    int wrong = 0;
    for (int b = 0; b < p->ins.count; b++) {
        wrong += a != b && seen[rank][node(gr, b, rank, 0)] != hb_same(p, a, b);
        for (int c = 0; c < p->ins.count; c++) {
            const Instr *i = &p->ins.items[c];
            bool all = true;
            for (int q = 0; q < gr->ranks; q++)
                all = all && (!in_one_group(i, q, rank) || seen[q][node(gr, b, rank, 0)]);
            wrong += a != b && all != hb_group(p, i->group, a, b);
        }
    }
    return wrong;
}

static int wrong_orders(const Gen *g)
{
    Graph gr = explicit_graph(g);
    bool *seen[16];
    int *stack = calloc((size_t)gr.n, sizeof *stack), wrong = 0;
    gen_require(stack && gr.ranks <= 16, "out of memory");
    for (int r = 0; r < gr.ranks; r++) {
        seen[r] = calloc((size_t)gr.n, 1);
        gen_require(seen[r], "out of memory");
    }
    for (int a = 0; a < g->prog.ins.count; a++) {
        for (int r = 0; r < gr.ranks; r++)
            search(&gr, node(&gr, a, r, 1), seen[r], stack);
        wrong += wrong_pairs(g, &gr, seen, a, a % gr.ranks);
    }
    for (int r = 0; r < gr.ranks; r++)
        free(seen[r]);
    free(stack);
    free(gr.edge);
    return wrong;
}

/* Of a planned model's collectives: any masks, as if each joined other ranks. */
static void random_groups(Gen *g, uint64_t seed)
{
    uint64_t r = seed * 389 + 3;
    for (int id = 0; id < g->prog.ins.count; id++) {
        Instr *i = &g->prog.ins.items[id];
        if (ins_is_collective(i))
            i->group = (RankBits)synth_random(&r) & g->model.mesh.all;
    }
    schedule_closure(g, &g->prog);
}

void test_orders(uint64_t seed)
{
    for (uint64_t k = 0; k < 12; k++) {
        SynthShape shape = synth_shape(seed + k);
        SynthMesh mesh = synth_mesh(seed + k, synth_numerics(seed + k));
        Gen *g;
        int wrong;
        synth_ranks(&mesh, 2 + 2 * (int64_t)(k & 1), seed + k);
        synth_beside(&mesh, 16, seed + k);
        if (k % 3 == 2)
            synth_masks(&mesh, 16, seed + k);
        shape.layers = shape.layers > 4 ? 4 : shape.layers;
        g = plan_model(&shape, &mesh);
        wrong = wrong_orders(g);
        test_that(wrong == 0, "model %llu: %d orders differ from a plain search",
                  (unsigned long long)(seed + k), wrong);
        random_groups(g, seed + k);
        wrong = wrong_orders(g);
        test_that(wrong == 0, "model %llu, random groups: %d orders differ",
                  (unsigned long long)(seed + k), wrong);
        synth_free(g);
    }
}

/* ---- waits ----------------------------------------------------------------------- */

enum { WAITS, NAMED, SHOWN, REDUNDANT }; /* in test_tally */

static void without_wait(Gen *g, Instr *i, int w, const Interpretation *want)
{
    int id = i->waits[w];
    const char *why = i->wait_why[w], *bad;
    bool differs = false;
    i->waits[w] = i->waits[i->n_waits - 1];
    i->wait_why[w] = i->wait_why[i->n_waits - 1];
    i->n_waits--;
    bad = verify_schedule(g);
    bad = bad ? bad : verify_place(g);
    for (uint64_t order = 0; order < 5 && !differs; order++) {
        Interpretation got = run_model(g, order + 50);
        differs = !same_state(want, &got);
    }
    test_tally[WAITS]++;
    test_tally[NAMED] += bad != NULL;
    test_tally[SHOWN] += bad && differs;
    test_tally[REDUNDANT] += !bad;
    test_that(bad || !differs, "without a wait for %d (%s): other bits, unforeseen", id,
              why);
    i->n_waits++;
    i->waits[i->n_waits - 1] = i->waits[w];
    i->wait_why[i->n_waits - 1] = i->wait_why[w];
    i->waits[w] = id;
    i->wait_why[w] = why;
}

static void remove_waits(uint64_t seed)
{
    SynthShape shape = synth_shape(seed);
    SynthMesh base = synth_numerics(seed);
    SynthMesh mesh = synth_mesh(seed, base);
    Gen *plain = plan_model(&shape, &base), *g;
    Interpretation want, got;
    synth_ranks(&mesh, min_i64(mesh.leaves, INT64_C(2) << (seed % 3)), seed);
    synth_beside(&mesh, 8, seed);
    if (seed % 2)
        synth_masks(&mesh, 8, seed);
    interpret_spread(plain);
    want = run_model(plain, 0);
    g = plan_model(&shape, &mesh);
    got = run_model(g, 0);
    test_that(same_state(&want, &got) && !verify_schedule(g) && !verify_place(g),
              "model %llu: something is wrong with all waits in place",
              (unsigned long long)seed);
    for (int id = 0; id < g->prog.ins.count; id++) {
        Instr *i = &g->prog.ins.items[id];
        for (int w = 0; w < i->n_waits; w++)
            without_wait(g, i, w, &want);
    }
}

void test_waits(uint64_t seed, int models)
{
    memset(test_tally, 0, sizeof test_tally);
    for (int k = 0; k < models; k++)
        test_forked(remove_waits, seed + (uint64_t)k);
    printf(
        "figure: waits removed in turn: %d; %d named by the checker (%d of them shown by "
        "other bits), %d proven redundant\n",
        test_tally[WAITS], test_tally[NAMED], test_tally[SHOWN], test_tally[REDUNDANT]);
}
