/* SPDX-License-Identifier: Apache-2.0 */
/* synth_masks.c: meshes whose data ranks are any bits of a rank, and segments cut over
 * any of those: what axes to come may do, and all that the passes may lean on. In: a
 * seed. Out: masks of a SynthMesh; segments placed by them. */
#include "synth.h"

/* Some bits of a mask, `most` of them or fewer; seldom none. */
static RankBits some_bits(RankBits mask, int most, uint64_t *r)
{
    RankBits bits;

    do
        bits = (RankBits)synth_random(r) & mask;
    while (__builtin_popcount(bits) > most || (!bits && mask && synth_random(r) % 8));
    return bits;
}

void synth_masks(SynthMesh *m, int64_t most, uint64_t seed)
{
    uint64_t r = seed * 919 + 7;
    SynthMasks k = {.set = true};
    RankBits all;
    int64_t world = 1;

    for (int a = 0; a < N_AXES; a++)
        k.degree[a] = 1;
    while (world < most && (world < 4 || synth_random(&r) % 4)) {
        k.degree[synth_random(&r) % N_AXES] *= 2;
        world *= 2;
    }
    all = (RankBits)world - 1;
    k.node_ranks = synth_random(&r) % 3 ? world : INT64_C(1) << synth_random(&r) % 4;
    k.node_ranks = min_i64(k.node_ranks, world);
    k.data = some_bits(all, __builtin_ctzll((unsigned long long)m->leaves), &r);
    k.over = some_bits(k.data, N_AXES, &r);
    m->ranks = group_ranks(k.data);
    m->replicate = group_ranks(k.data & ~k.over);
    m->reshard_ranks = INT64_C(1) << synth_random(&r) % 3;
    m->reshard_ranks = min_i64(m->reshard_ranks, group_ranks(k.over));
    m->strategy = (Strategy)(synth_random(&r) % N_STRATEGIES);
    if (m->strategy == NO_SHARD && synth_random(&r) % 4) /* it cuts nothing */
        m->strategy = FULL_SHARD;
    m->masks = k;
}

void synth_cut(Gen *g, const SynthMasks *masks)
{
    uint64_t r = masks->cuts;

    for (int i = 0; masks->set && i < g->segments.count; i++) {
        RankBits over = masks->cuts ? some_bits(masks->over, N_AXES, &r) : masks->over;

        shard_segment(g, &g->segments.items[i], over);
    }
}
