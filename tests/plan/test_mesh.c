/* SPDX-License-Identifier: Apache-2.0 */
/* test_mesh.c: random meshes of five axes, and groups of arbitrary masks of a rank's
 * bits. What mesh.h says of them is compared with plain divisions and searches. */
#include "test_plan.h"

#include <string.h>

/* Random degrees, 1024 ranks at most. */
static Mesh random_mesh(uint64_t *r)
{
    int64_t degree[N_AXES], ranks = 1;

    for (int a = 0; a < N_AXES; a++) {
        degree[a] = INT64_C(1) << synth_random(r) % 4;
        while (ranks * degree[a] > MAX_RANKS)
            degree[a] /= 2;
        ranks *= degree[a];
    }
    return mesh_make(degree, INT64_C(1) << synth_random(r) % 4);
}

/* The last axis counts fastest, as mesh.h has it. */
static void check_axes(const Mesh *m)
{
    int64_t data = 1, world = 1;
    RankBits all = 0;

    for (int a = 0; a < N_AXES; a++) {
        const MeshAxis *axis = &m->axis[a];
        int64_t below = 1;

        for (int b = a + 1; b < N_AXES; b++)
            below *= m->axis[b].degree;
        test_that(!(all & axis->bits), "%s shares bits", axis->name);
        all |= axis->bits;
        world *= axis->degree;
        data *= a == AXIS_REPLICATE || a == AXIS_SHARD ? axis->degree : 1;
        for (int rank = 0; rank < m->world_size; rank++)
            if (group_index(axis->bits, rank) != rank / below % axis->degree) {
                test_that(false, "rank %d stands elsewhere along %s", rank, axis->name);
                return;
            }
    }
    test_that(all == m->all && world == m->world_size, "axes do not make up the mesh");
    test_that(data == m->data_ranks && group_ranks(m->data) == data,
              "%lld data ranks, not %lld", (long long)m->data_ranks, (long long)data);
}

/* Groups part the ranks, and number theirs in order. */
static void check_group(const Mesh *m, RankBits group)
{
    static int seen[MAX_RANKS];
    bool good = true;

    memset(seen, 0, sizeof seen);
    for (int rank = 0; rank < m->world_size && good; rank++) {
        int before = -1;

        for (int k = 0; k < group_ranks(group) && good; k++) {
            int member = group_rank(group, rank, k);

            good = member > before && member < m->world_size &&
                   group_index(group, member) == k && group_joins(group, rank, member);
            before = member;
            seen[member] += good;
        }
        good = good && group_rank(group, rank, group_index(group, rank)) == rank;
    }
    for (int rank = 0; rank < m->world_size && good; rank++)
        good = seen[rank] == group_ranks(group); /* once by each of its group */
    test_that(good, "groups %x of %lld ranks", (unsigned)group, (long long)m->world_size);
}

/* Cut over a group, each element lies with exactly one rank of each copy. */
static void check_map(const Mesh *m, RankBits group)
{
    static int holders[MAX_RANKS];
    int parts = group_ranks(group), copies = (int)m->world_size / parts;
    Segment s = {.cut = {group, group, group, group},
                 .shard_elems = GRAIN_ELEMS,
                 .param_elems = GRAIN_ELEMS};
    bool good = true;

    memset(holders, 0, sizeof holders);
    for (int rank = 0; rank < m->world_size; rank++)
        holders[mesh_part(&s, rank)]++;
    for (int k = 0; k < parts; k++)
        good = good && holders[k] == copies;
    for (int rank = 0; rank < m->world_size && good; rank++) {
        int other = group_rank(m->all & ~group, rank, 0); /* in the first copy */

        good = mesh_part(&s, rank) == mesh_part(&s, other);
    }
    /* Its part begins its weights where they are cut too; else it lies in all of them. */
    for (int rank = 0; rank < m->world_size && good; rank++) {
        Segment whole = s;

        whole.cut[HELD_PARAMS] = 0;
        whole.param_elems = parts * GRAIN_ELEMS;
        good = mesh_param_first(&s, rank) == 0 &&
               mesh_param_first(&whole, rank) == mesh_part(&s, rank) * GRAIN_ELEMS;
    }
    test_that(good, "parts over %x of %lld ranks", (unsigned)group,
              (long long)m->world_size);
}

void test_mesh(uint64_t seed)
{
    uint64_t r = seed * 97 + 11;

    for (int k = 0; k < 40; k++) {
        Mesh m = random_mesh(&r);

        check_axes(&m);
        for (int i = 0; i < 8; i++) {
            RankBits group = (RankBits)synth_random(&r) & m.all;
            int64_t low = INT64_C(1) << synth_random(&r) % 4;

            check_group(&m, group);
            check_map(&m, group);
            low = low > group_ranks(group) ? group_ranks(group) : low;
            test_that(group_ranks(group_low(group, low)) == low &&
                          (group_low(group, low) & ~group) == 0,
                      "the lowest bits of %x", (unsigned)group);
        }
    }
}
