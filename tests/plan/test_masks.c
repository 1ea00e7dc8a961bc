/* SPDX-License-Identifier: Apache-2.0 */
/* test_masks: the race checker and the interpreter on meshes of five axes where the ranks
 * that compute leaves are any mask of a rank's bits, and segments are cut over any mask
 * of those.
 *
 * Cut over one mask, a model gives the bits of its plain run on one rank. Where each
 * segment has a mask of its own its leaves are added in an order of its own, so that the
 * reference is the same plan with no bytes shared. Then a bit is taken from the group of
 * a collective: the checker must name it. */
#include "test_plan.h"

#include <string.h>

enum { PLANS, MIXED, PLANTED, SHOWN }; /* in test_tally */

static void check_plan(Gen *g, const Interpretation *want, uint64_t name,
                       const char *what)
{
    const char *bad = synth_check(g);
    test_that(!bad, "masks %llu, %s: %s", (unsigned long long)name, what, bad);
    for (uint64_t order = 0; order < 2; order++) {
        Interpretation got = run_model(g, order + name);
        test_that(same_state(want, &got), "masks %llu, %s, order %llu: %s",
                  (unsigned long long)name, what, (unsigned long long)order,
                  got.fault ? got.fault : "other bits");
    }
}

/* Some of the ranks are left out of a collective. */
static void plant_lost_bit(Gen *g, const Interpretation *want, uint64_t name)
{
    uint64_t r = name * 67 + 1;
    int n = 0, at;
    for (int id = 0; id < g->prog.ins.count; id++)
        n += g->prog.ins.items[id].group != 0;
    at = (int)(synth_random(&r) % (uint64_t)n);
    for (int id = 0; id < g->prog.ins.count; id++) {
        Instr *i = &g->prog.ins.items[id];
        bool differs = false;
        if (i->group == 0 || at-- != 0)
            continue;
        i->group &= i->group - 1;
        schedule_closure(g, &g->prog);
        test_that(verify_schedule(g), "masks %llu: %s without a bit: not noticed",
                  (unsigned long long)name, ins_label(g, i));
        for (uint64_t order = 0; order < 4 && !differs; order++) {
            Interpretation got = run_model(g, order);
            differs = !same_state(want, &got);
        }
        test_tally[PLANTED]++;
        test_tally[SHOWN] += differs;
    }
}

static void test_model(uint64_t seed)
{
    SynthShape shape = synth_shape(seed);
    SynthMesh base = synth_numerics(seed);
    Gen *plain = plan_model(&shape, &base);
    Interpretation want;
    interpret_spread(plain);
    want = run_model(plain, 0);
    for (uint64_t k = 0; k < 3; k++) {
        uint64_t name = seed * 10 + k;
        SynthMesh mesh = synth_mesh(name, base);
        Gen *g;
        synth_masks(&mesh, k == 0 ? 16 : 8, name);
        g = plan_model(&shape, &mesh);
        check_plan(g, &want, name, "one cut");
        plant_lost_bit(g, &want, name);
        synth_free(g);
        test_tally[PLANS]++;
    }
    for (uint64_t k = 0; k < 3; k++) {
        uint64_t name = seed * 10 + k;
        SynthMesh mesh = synth_mesh(name, base);
        Interpretation spread;
        Gen *g, *own;
        synth_masks(&mesh, 8, name + 5);
        mesh.masks.cuts = name + 1;
        own = plan_model(&shape, &mesh);
        interpret_spread(own);
        spread = run_model(own, 0);
        g = plan_model(&shape, &mesh);
        check_plan(g, &spread, name, "a cut for each segment");
        synth_free(g);
        synth_free(own);
        test_tally[MIXED]++;
    }
    synth_free(plain);
}

void test_masks(uint64_t seed, int models)
{
    memset(test_tally, 0, sizeof test_tally);
    for (int k = 0; k < models; k++)
        test_forked(test_model, seed + (uint64_t)k);
    /* few models may have no such group */
    test_that(models < 8 || test_tally[SHOWN] > 0, "no group without a bit shows");
    printf("figure: masks of any bits: %d plans cut over one, %d over one for each "
           "segment; %d groups without a bit, all named unless said, %d shown by other "
           "bits\n",
           test_tally[PLANS], test_tally[MIXED], test_tally[PLANTED], test_tally[SHOWN]);
}
