/* SPDX-License-Identifier: Apache-2.0 */
/* test_auto: what recompute = "auto" finds against every choice there is.
 *
 *   test_auto FOLDER [cases] [seed] [layers]     FOLDER: where small_llama.lua lies
 *
 * Each case is a small model of random sizes on 2 or 4 ranks, with a budget somewhere
 * between its smallest and its fastest plan. All combinations of recomputed blocks, units
 * that stay gathered and prefetch depths are planned. What auto chooses must fit, and be
 * within 3 % of the best by its own cost. Prints 'N passed, N failed'. */
#include "test_plan.h"

#include "describe/load.h"
#include "drive/drive.h"

#include <stdlib.h>

static int passed, failed;

static int64_t pick(uint64_t *r, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(synth_random(r) % (uint64_t)(hi - lo + 1));
}

static void set(Gen *g, const char *field, int64_t value)
{
    *gen_push(g, &g->opt.sets) = gen_printf(g, "%s=%lld", field, (long long)value);
}

static Gen *open_case(const char *folder, uint64_t *r, int64_t layers)
{
    void (*const passes[])(Gen * g) = {load_description, check_model, ops_load,
                                       graph_build,      grad_build,  fuse_graph,
                                       span_build,       shard_params};
    Gen *g = synth_new();
    g->opt.command = "check";
    g->opt.input = gen_printf(g, "%s/small_llama.lua", folder);
    set(g, "model.layers", layers);
    set(g, "model.dim", 64 * pick(r, 1, 12));
    set(g, "model.ffn", 32 * pick(r, 1, 60));
    set(g, "model.vocab", pick(r, 50, 4000));
    set(g, "seq", 16 << pick(r, 0, 6));
    set(g, "mesh.shard", INT64_C(2) << pick(r, 0, 1));
    set(g, "wrap", pick(r, 1, 2));
    set(g, "prefetch.forward", pick(r, 0, 2));
    set(g, "prefetch.backward", pick(r, 0, 2));
    *gen_push(g, &g->opt.sets) = "recompute=auto";
    *gen_push(g, &g->opt.sets) = "target=cpu{memory=\"1TiB\"}";
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        passes[i](g);
        diag_stop_on_errors(g);
    }
    return g;
}

typedef struct Choices {
    Gen *g;
    int64_t forward, backward; /* depths of the description */
    int64_t least, fastest_bytes, choices;
    double fastest, best; /* of all; of those within the budget */
} Choices;

static void look(Choices *s)
{
    Cost c = drive_try(s->g);
    s->choices++;
    if (s->least == 0 || c.bytes < s->least)
        s->least = c.bytes;
    if (s->fastest == 0 || c.seconds < s->fastest ||
        (c.seconds == s->fastest && c.bytes < s->fastest_bytes)) {
        s->fastest = c.seconds;
        s->fastest_bytes = c.bytes;
    }
    if (c.bytes <= s->g->model.budget_bytes && (s->best == 0 || c.seconds < s->best))
        s->best = c.seconds;
}

/* Every choice; at: of blocks, then of units. */
static void enumerate(Choices *s, int at)
{
    Gen *g = s->g;
    int unit = at - g->blocks.count;
    if (unit >= g->units.count) {
        for (int64_t f = 0; f <= s->forward; f++) {
            for (int64_t b = 0; b <= s->backward; b++) {
                g->model.prefetch_forward = f;
                g->model.prefetch_backward = b;
                look(s);
            }
        }
        return;
    }
    if (unit < 0 && !policy_may_recompute(g, &g->blocks.items[at])) {
        enumerate(s, at + 1);
        return;
    }
    for (int k = 0; k < (unit < 0 ? 3 : 2); k++) {
        if (unit < 0 && k == KEEP_SOME && !policy_may_drop_some(g, &g->blocks.items[at]))
            continue;
        if (unit < 0)
            g->blocks.items[at].keep = (Keep)k;
        else
            g->units.items[unit].keep_gathered = k;
        enumerate(s, at + 1);
    }
}

static void test_case(const char *folder, uint64_t seed, int64_t layers)
{
    uint64_t r = seed;
    Gen *g = open_case(folder, &r, layers);
    Choices s = {.g = g,
                 .forward = g->model.prefetch_forward,
                 .backward = g->model.prefetch_backward};
    Cost got;
    recompute_classes(g, RECOMPUTE_AUTO); /* what KEEP_SOME means */
    enumerate(&s, 0);
    g->model.budget_bytes = s.least + (s.fastest_bytes - s.least) * pick(&r, 5, 95) / 100;
    s.best = 0;
    s.choices = 0;
    enumerate(&s, 0);
    g->model.prefetch_forward = s.forward;
    g->model.prefetch_backward = s.backward;
    drive_policy(g);
    got = drive_try(g);
    if (got.bytes <= g->model.budget_bytes && got.seconds <= 1.03 * s.best) {
        passed++;
    } else {
        failed++;
        printf("FAIL case %llu: %lld bytes of %lld, %.6f s, the best of %lld is %.6f s\n",
               (unsigned long long)seed, (long long)got.bytes,
               (long long)g->model.budget_bytes, got.seconds, (long long)s.choices,
               s.best);
    }
    printf("figure: auto %.2f %% above the best of %lld choices\n",
           100 * (got.seconds / s.best - 1), (long long)s.choices);
}

int main(int argc, char **argv)
{
    int cases = argc > 2 ? atoi(argv[2]) : 20;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    int64_t layers = argc > 4 ? atoi(argv[4]) : 2;
    if (argc < 2) {
        fprintf(stderr, "usage: test_auto FOLDER [cases] [seed] [layers]\n");
        return 2;
    }
    for (int k = 0; k < cases; k++)
        test_case(argv[1], seed * 1000 + (uint64_t)k, layers);
    printf("%d passed, %d failed\n", passed, failed);
    return failed ? 1 : 0;
}
