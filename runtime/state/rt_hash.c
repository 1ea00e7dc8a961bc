/* SPDX-License-Identifier: MIT-0 */
/* rt_hash.c: a hash that does not depend on ranks or layout. In: master weights. Out: the
 * weights hash.
 *
 * It is the sum modulo 2^64 of the hashes (rt_hash.h) of all chunks of 1024 elements of
 * all parameters, each seeded by (parameter's place in the model, chunk): order-free.
 * Masters that are split are hashed as the floats they are; frozen parameters have no
 * master and are hashed in param dtype. */
#include "rt_private.h"

#include <string.h>

typedef struct HashShard {
    Rt *rt;
    char *master, *weights; /* weights: of which master is the rest; or NULL */
    int64_t item;
    uint64_t sum;
} HashShard;

/* The chunks of elements from .. from + n of the run; from is a multiple of the chunk. */
static void hash_slice(HashShard *s, const RtRun *run, int64_t from, int64_t n)
{
    const int64_t first = run->shard_offset_elems + from, item = s->item;
    const char *at = rt_window(s->rt, 0, s->master + first * item, n * item, RT_READ);
    const rt_bf16 *weights =
        s->weights ? rt_window(s->rt, 1, s->weights + first * 2, n * 2, RT_READ) : NULL;
    uint64_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int64_t i = 0; i < n; i += RT_GRAIN_ELEMS) {
        const int64_t left = n - i;
        const int64_t elems = left < RT_GRAIN_ELEMS ? left : RT_GRAIN_ELEMS;
        const uint64_t chunk = (uint64_t)((run->element + from + i) / RT_GRAIN_ELEMS);
        const uint64_t seed = rt_mix((uint64_t)run->param_id) + chunk;
        if (weights == NULL) {
            sum += rt_hash64(at + i * item, (size_t)(elems * item), seed);
            continue;
        }
        float whole[RT_GRAIN_ELEMS];
        for (int64_t j = 0; j < elems; j++) {
            whole[j] = rt_f32_from_split(weights[i + j], ((const uint16_t *)at)[i + j]);
        }
        sum += rt_hash64(whole, (size_t)elems * sizeof *whole, seed);
    }
    rt_window_close(s->rt, 0);
    if (weights != NULL) {
        rt_window_close(s->rt, 1);
    }
    s->sum += sum;
}

static void hash_run(void *ctx, const RtRun *run)
{
    for (int64_t from = 0; from < run->elems; from += RT_WINDOW_ELEMS) {
        const int64_t left = run->elems - from;
        hash_slice(ctx, run, from, left < RT_WINDOW_ELEMS ? left : RT_WINDOW_ELEMS);
    }
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
                       (int64_t)rt_dtype_bytes(master ? t->master_dtype : t->param_dtype),
                       0};
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
