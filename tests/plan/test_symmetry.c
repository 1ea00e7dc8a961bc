/* SPDX-License-Identifier: Apache-2.0 */
/* test_symmetry: the race checker on two ranks along each part of the mesh (verify_races)
 * against the same on every rank (verify_races_of_all): on random models and meshes of up
 * to 16 ranks as they are, then with a wait removed, a bit taken from a group or given to
 * it, or a buffer moved onto another. Both must give the same answer, and its text. */
#include "test_plan.h"

#include <string.h>

enum { PLANS, PLANTED, NAMED, WIDER }; /* in test_tally */

static bool agree(Gen *g)
{
    const char *few = verify_races(g, true), *all = verify_races_of_all(g, true);

    test_tally[NAMED] += few != NULL;
    return few && all ? !strcmp(few, all) : few == all;
}

static void check(Gen *g, uint64_t seed, const char *what)
{
    test_tally[PLANTED]++;
    test_that(agree(g), "symmetry %llu, %s: every rank says otherwise",
              (unsigned long long)seed, what);
}

static Instr *any_instr(Gen *g, uint64_t *r, bool (*fits)(const Instr *i))
{
    const int n = g->prog.ins.count, from = (int)(synth_random(r) % (uint64_t)n);

    for (int k = 0; k < n; k++) {
        Instr *i = &g->prog.ins.items[(from + k) % n];

        if (fits(i))
            return i;
    }
    return NULL;
}

static bool waits(const Instr *i)
{
    return i->n_waits > 0;
}

static void remove_wait(Gen *g, uint64_t seed, uint64_t *r)
{
    Instr *i = any_instr(g, r, waits);
    int w;

    if (!i)
        return;
    w = i->waits[i->n_waits - 1];
    i->n_waits--;
    check(g, seed, "a wait removed");
    i->waits[i->n_waits++] = w;
}

/* Of one collective, or of all with that group, so that parts of several bits remain. It
 * stays so. */
static void change_group(Gen *g, uint64_t seed, uint64_t *r)
{
    const Instr *i = any_instr(g, r, ins_is_collective);
    const RankBits was = i ? i->group : 0;
    const RankBits now = (RankBits)synth_random(r) & g->model.mesh.all;
    const bool one = synth_random(r) & 1;

    for (int id = 0; id < g->prog.ins.count && was; id++) {
        Instr *k = &g->prog.ins.items[id];

        if (one ? k == i : ins_is_collective(k) && k->group == was)
            k->group = now;
    }
    check(g, seed, "a group changed");
}

static void move_buffer(Gen *g, uint64_t seed, uint64_t *r)
{
    const int n = g->prog.bufs.count;
    Buffer *b = &g->prog.bufs.items[synth_random(r) % (uint64_t)n];
    const Buffer *onto = &g->prog.bufs.items[synth_random(r) % (uint64_t)n];
    const int64_t was = b->offset_bytes;

    if (b->space != onto->space)
        return;
    b->offset_bytes = onto->offset_bytes;
    check(g, seed, "a buffer moved");
    b->offset_bytes = was;
}

static void test_model(uint64_t seed)
{
    SynthShape shape = synth_shape(seed);
    SynthMesh mesh = synth_mesh(seed, synth_numerics(seed));
    uint64_t r = seed * 97 + 5;
    Gen *g;

    synth_ranks(&mesh, min_i64(mesh.leaves, INT64_C(4) << (seed & 1)), seed);
    synth_beside(&mesh, 16, seed);
    if (seed % 3 == 2)
        synth_masks(&mesh, 16, seed);
    shape.layers = shape.layers > 3 ? 3 : shape.layers;
    g = plan_model(&shape, &mesh);
    test_tally[PLANS]++;
    test_tally[WIDER] += g->model.mesh.world_size > 2;
    test_that(agree(g), "symmetry %llu: every rank says otherwise",
              (unsigned long long)seed);
    for (int k = 0; k < 5; k++) {
        remove_wait(g, seed, &r);
        move_buffer(g, seed, &r);
    }
    for (int k = 0; k < 3; k++)
        change_group(g, seed, &r);
}

void test_symmetry(uint64_t seed, int models)
{
    memset(test_tally, 0, sizeof test_tally);
    for (int k = 0; k < models; k++)
        test_forked(test_model, seed + (uint64_t)k);
    test_that(models < 16 || test_tally[NAMED] * 10 > test_tally[PLANTED],
              "symmetry: %d of %d faults are named", test_tally[NAMED],
              test_tally[PLANTED]);
    printf("figure: races on two ranks along a part and on every rank: %d plans (%d with "
           "over 2 ranks), %d faults planted, %d named\n",
           test_tally[PLANS], test_tally[WIDER], test_tally[PLANTED], test_tally[NAMED]);
}
