/* SPDX-License-Identifier: MIT-0 */
/* rt_init.c: initial weights, written by every rank into its own shards. In: the
 * parameters' init rules, the seed. Out: masters, and working copies in param dtype.
 * Formula: rt_philox.h. */
#include "rt_philox.h"
#include "rt_target.h"
#include "state/rt_state.h"

#include <string.h>

typedef struct InitShard {
    Rt *rt;
    const RtSegment *segment;
    char *param, *master;
} InitShard;

void rt_store(RtDtype d, char *base, int64_t i, double x, bool rest)
{
    if (d == RT_F64) {
        ((double *)base)[i] = x;
    } else if (d == RT_F32) {
        ((float *)base)[i] = (float)x;
    } else if (d == RT_F16) {
        ((rt_f16 *)base)[i] = rt_f16_from_f32((float)x);
    } else if (d == RT_SPLIT) {
        ((uint16_t *)base)[i] = rt_split_rest((float)x);
    } else {
        ((rt_bf16 *)base)[i] =
            rest ? rt_bf16_from_master((float)x) : rt_bf16_from_f32((float)x);
    }
}

/* Elements from .. from + n of the run. */
static void init_slice(void *ctx, const RtRun *run, int64_t from, int64_t n)
{
    const InitShard *s = ctx;
    const RtTrainer *t = s->rt->trainer;
    const RtDtype dtype = s->segment->dtype;
    const RtParam *p = run->param;
    const uint64_t seed = (uint64_t)s->rt->state->flags.seed;
    const uint32_t stream = rt_name_stream(p->name);
    const double scale = p->init_std * RT_NORMAL_SCALE;
    const bool f32 = t->master_dtype == RT_F32 || t->master_dtype == RT_SPLIT;
    const bool two = s->master != s->param;
    const int64_t at = run->shard_offset_elems + from;
    const int64_t item = (int64_t)rt_dtype_bytes(dtype);
    const int64_t master_item = (int64_t)rt_dtype_bytes(t->master_dtype);
    char *param = rt_window(s->rt, 0, s->param + at * item, n * item, RT_WRITE);
    char *master =
        two ? rt_window(s->rt, 1, s->master + at * master_item, n * master_item, RT_WRITE)
            : NULL;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        double x = p->init == RT_INIT_ONES ? 1.0 : 0.0;
        if (p->init == RT_INIT_NORMAL) {
            const uint64_t element = (uint64_t)(run->element + from + i);
            x = rt_normal(rt_philox(seed, RT_SITE_INIT, element, stream), scale);
        }
        if (f32)
            x = (float)x; /* the working copy is the rounded master */
        if (two)
            rt_store(t->master_dtype, master, i, x, false);
        rt_store(dtype, param, i, x, f32);
    }
    rt_window_close(s->rt, 0);
    if (two)
        rt_window_close(s->rt, 1);
}

static void init_run(void *ctx, const RtRun *run)
{
    rt_run_windows(ctx, run, init_slice);
}

void rt_init_weights(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    for (int i = 0; i < t->n_segments; i++) {
        const RtSegment *g = &t->segments[i];
        char *param = rt_symmetric(rt, rt_param_part(rt, g));
        InitShard s = {rt, g, param, g->master < 0 ? param : rt_local(rt, g->master)};
        rt_enter(rt, RT_AT_INIT);
        rt_shard_runs(rt, i, init_run, &s);
    }
}

void rt_complete_weights(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    RtState *st = rt->state;
    for (int i = 0; i < t->n_segments; i++) {
        if (t->segments[i].params_whole) {
            rt_gather_updated_start(rt, i);
            rt_wait_gather(rt, i);
        }
    }
    if (t->encode != NULL)
        t->encode(rt);
    rt_comm_drain(rt);
    st->gathered_bytes = st->node_bytes = 0; /* these count what steps move */
}
