/* SPDX-License-Identifier: MIT-0 */
/* rt_hash.c: the weights hash, which does not depend on ranks or layout. In: master
 * weights. Out: the hash.
 *
 * It is the sum modulo 2^64 over all elements of all parameters of
 *    mix(bits * K1 + (element + 1) * K2 + mix(parameter's place in the model)),
 * with mix as in rt_hash.h, K1 and K2 odd. A sum has no order, and the term of an
 * element does not depend on its neighbours, so any cut of any parameter along any dim
 * gives the same hash. bits: the element's own, in its dtype; split masters are hashed
 * as the floats they represent; a segment without masters is hashed in the dtype of
 * its weights. */
#include "rt_target.h"
#include "state/rt_state.h"

#include <string.h>

typedef struct HashShard {
    Rt *rt;
    char *master, *weights; /* weights: if the master is their remainder; or NULL */
    int64_t item;
    uint64_t sum;
} HashShard;

static inline uint64_t element_hash(uint64_t bits, uint64_t element, uint64_t seed)
{
    return rt_mix(bits * UINT64_C(0xD6E8FEB86659FD93) +
                  (element + 1) * UINT64_C(0xA0761D6478BD642F) + seed);
}

/* The bits of element i; weights: the first 16 of them, for split masters. */
static inline uint64_t element_bits(const char *at, const rt_bf16 *weights, int64_t item,
                                    int64_t i)
{
    uint64_t bits = 0;
    if (weights != NULL) {
        const float whole = rt_f32_from_split(weights[i], ((const uint16_t *)at)[i]);
        memcpy(&bits, &whole, sizeof whole);
    } else if (item == 4) {
        bits = ((const uint32_t *)at)[i];
    } else {
        bits = item == 2 ? ((const uint16_t *)at)[i] : ((const uint64_t *)at)[i];
    }
    return bits;
}

static void hash_slice(void *ctx, const RtRun *run, int64_t from, int64_t n)
{
    HashShard *s = ctx;
    const int64_t first = run->shard_offset_elems + from, item = s->item;
    const char *at = rt_window(s->rt, 0, s->master + first * item, n * item, RT_READ);
    const rt_bf16 *weights =
        s->weights ? rt_window(s->rt, 1, s->weights + first * 2, n * 2, RT_READ) : NULL;
    const uint64_t seed = rt_mix((uint64_t)run->param_id);
    const uint64_t element = (uint64_t)(run->element + from);
    uint64_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        sum +=
            element_hash(element_bits(at, weights, item, i), element + (uint64_t)i, seed);
    }
    rt_window_close(s->rt, 0);
    if (weights != NULL)
        rt_window_close(s->rt, 1);
    s->sum += sum;
}

static void hash_run(void *ctx, const RtRun *run)
{
    rt_run_windows(ctx, run, hash_slice);
}

/* Collective. */
uint64_t rt_weights_hash(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    uint64_t mine = 0;
    rt_enter(rt, RT_AT_HASH);
    for (int i = 0; i < t->n_segments; i++) {
        const RtSegment *g = &t->segments[i];
        char *param = rt_symmetric(rt, rt_param_part(rt, g));
        const bool master = g->master >= 0, split = master && t->master_dtype == RT_SPLIT;
        HashShard s = {rt, master ? rt_local(rt, g->master) : param, split ? param : NULL,
                       (int64_t)rt_dtype_bytes(master ? t->master_dtype : g->dtype), 0};
        rt_share_runs(rt, i, hash_run, &s);
        mine += s.sum;
    }
    rt_exchange_begin(rt);
    memcpy(rt_control(rt, rt->rank), &mine, sizeof mine);
    rt_exchange_publish(rt, sizeof mine);
    uint64_t sum = 0;
    for (int r = 0; r < rt->world_size; r++) {
        uint64_t part;
        memcpy(&part, rt_control(rt, r), sizeof part);
        sum += part;
    }
    rt_exchange_end(rt);
    return sum;
}
