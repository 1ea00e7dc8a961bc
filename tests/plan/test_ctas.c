/* SPDX-License-Identifier: Apache-2.0 */
/* test_ctas: limits of sums to some multiprocessors (unroll_ctas.c). Where they may not
 * be there are none: in the library's order, across nodes, beside meets, on CPUs, on one
 * rank. Faults are planted in a plan that has some; the checker must name each. So must
 * it if parts of other ranks have too little room. */
#include "test_models.h"

#include "prove/verify.h"

#include <string.h>

static int limited(const Gen *g)
{
    int n = 0;

    for (int id = 0; id < g->prog.ins.count; id++)
        n += g->prog.ins.items[id].ctas > 0;
    return n;
}

static Gen *plan(const char *folder, const char *a, const char *b, const char *c)
{
    const char *const sets[] = {a, b, c, NULL};
    Gen *g = models_open(folder, "small_llama", sets);

    models_plan(g, NULL);
    return g;
}

static Instr *find(Gen *g, InsKind kind, bool with, bool last)
{
    Instr *found = NULL;

    for (int id = g->prog.first[VARIANT_LAST]; id < g->prog.ins.count; id++) {
        Instr *i = &g->prog.ins.items[id];
        if (i->kind == kind && (i->ctas > 0) == with && (!found || last))
            found = i;
    }
    gen_require(found != NULL, "no such instruction of kind %d", (int)kind);
    return found;
}

/* Plants ctas at i; the checker must say so, and nothing once it is gone. */
static void plant(Gen *g, Instr *i, int ctas, const char *says)
{
    const int was = i->ctas;
    const char *bad;

    i->ctas = ctas;
    bad = verify_ctas(g);
    models_check(bad && strstr(bad, says), "limit %d: `%s` does not say: %s", ctas,
                 bad ? bad : "", says);
    i->ctas = was;
    models_check(!verify_ctas(g), "limit %d: and back", ctas);
}

static void test_limit_faults(Gen *g)
{
    Instr *first = find(g, INS_REDUCE_SCATTER, true, false),
          *last = find(g, INS_REDUCE_SCATTER, false, true);
    const int limit = first->ctas;

    plant(g, find(g, INS_ALL_GATHER, false, false), limit, "could change bits");
    plant(g, find(g, INS_NORM_REDUCE, false, false), limit, "could change bits");
    plant(g, last, limit, "slower than what hides it");
    plant(g, first, 2 * limit, "has another limit");
    for (int id = 0; id < g->prog.ins.count; id++)
        if (g->prog.ins.items[id].ctas > 0 && &g->prog.ins.items[id] != first)
            g->prog.ins.items[id].ctas = 0;
    plant(g, first, 3, "a limit of 3");
    plant(g, first, 32, "a limit of 32");
    g->model.rates.processors = 2 * limit - 1;
    models_check(verify_ctas(g) && strstr(verify_ctas(g), "more than half of the"),
                 "more than half of the GPU is not noticed");
    g->model.rates.processors = 2 * limit;
    models_check(!verify_ctas(g), "half of the GPU");
    g->model.rates.link_per_us /= 1000;
    g->model.rates.latency_ps = 0;
    models_check(verify_ctas(g) != NULL, "links of a thousandth are not noticed");
}

/* Parts of other ranks find room, and their sum is made of all that they send. */
static void test_room(Gen *g)
{
    const char *bad;

    for (int b = 0; b < g->prog.bufs.count; b++)
        if (g->prog.bufs.items[b].kind == BUF_STAGING)
            g->prog.bufs.items[b].bytes /= 2;
    bad = verify_unroll(g);
    models_check(bad && strstr(bad, "parts of other ranks"),
                 "half the room for parts: %s", bad ? bad : "not noticed");
}

void test_ctas(const char *folder)
{
    const char *const cuda = "target=cuda{}", *const four = "mesh={shard=4}";
    const char *const in_parts[] = {
        cuda,    "parts={tensor=2}", "mesh={shard=2,tensor=2}",
        "seq=6", "model.kv_heads=2", NULL};
    Gen *g = plan(folder, cuda, four, "leaves=4");

    models_check(limited(g) > 0, "no sum has a limit");
    test_limit_faults(g);
    test_room(plan(folder, cuda, four, "leaves=4"));
    g = plan(folder, cuda, "mesh={replicate=4}", "leaves=4");
    models_check(limited(g) > 0, "no sum over copies has a limit");
    g = plan(folder, cuda, four, "reduction=\"library\"");
    models_check(limited(g) == 0, "a limit changes bits of the library's sums");
    g = plan(folder, "target={nodes=2}", "target=cuda{nodes=2}", four);
    models_check(limited(g) == 0, "a sum across nodes has a limit");
    g = models_open(folder, "small_llama", in_parts);
    models_plan(g, NULL);
    models_check(limited(g) == 0, "a sum beside meets has a limit");
    plant(g, find(g, INS_REDUCE_SCATTER, false, false), 4, "holds up the meets");
    g = plan(folder, "leaves=4", four, "wrap=1");
    models_check(limited(g) == 0, "a CPU has a limit");
    g = plan(folder, cuda, "leaves=4", "wrap=1");
    models_check(limited(g) == 0, "a single rank has a limit");
}
